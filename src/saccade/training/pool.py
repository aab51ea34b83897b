"""Predict with one-thread processes, each holding the model: the same answers with any number.

What is predicted together (a job) does not depend on the number of workers, so neither do the
bits. A worker is `python -m saccade.training.pool`: a line of JSON in, a line of JSON out.
"""

import contextlib
import dataclasses
import json
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import torch

from saccade.data.batches import by_length
from saccade.decoding.options import DecodeOptions
from saccade.errors import TrainingError
from saccade.inspection.alignment import pharaoh
from saccade.inspection.alignment_error import LINKERS, STEPS_LATE, Reading
from saccade.tasks.task import Plain, Prediction
from saccade.training.failures import answer_of, attempted
from saccade.training.machine import keep_memory, one_thread_environment, python_command
from saccade.training.model import Model, Precision, load
from saccade.training.team import follow_parent, private_output

T = TypeVar("T")
Answer = dict[str, Any]  # a prediction as `predict --json` prints it
AHEAD = 2  # jobs a worker may have waiting


@dataclass(frozen=True, slots=True)
class Work:
    """What to do with every text."""

    options: DecodeOptions
    reading: Reading | None = None  # how to read links between words besides, if at all


@dataclass(frozen=True, slots=True)
class Job:
    """Texts of similar length, with their places among all."""

    texts: list[str]
    numbers: list[int]


def jobs(texts: Sequence[str], first: int = 0) -> list[Job]:
    """Texts sorted by length and dealt out; `first` is the place of the first."""
    parts = by_length([len(text) for text in texts])
    return [Job([texts[at] for at in part], [first + at for at in part]) for part in parts]


def answers(model: Model, work: Work, job: Job) -> list[Answer]:
    """What a worker does with a job."""
    watched = work.reading is not None
    found = model.predict(job.texts, work.options, attention=watched, numbers=job.numbers)
    pairs = zip(job.texts, found, strict=True)
    return [_answer(model, work, text, prediction) for text, prediction in pairs]


def _answer(model: Model, work: Work, text: str, prediction: Prediction) -> Answer:
    answer = _plain(prediction)
    if work.options.nbest > 1:
        answer["alternatives"] = [_plain(other) for other in prediction.alternatives]
    if work.reading is not None:
        answer["alignment"] = _links(model, work.reading, text, prediction)
    return answer


def _links(model: Model, reading: Reading, text: str, prediction: Prediction) -> str:
    if prediction.attention is None:  # of an empty text
        return ""
    words = model.words(text, prediction, STEPS_LATE[reading.step])
    return pharaoh(LINKERS[reading.links](words.average(reading.layer)))


def _plain(prediction: Prediction) -> Answer:
    return {
        "text": prediction.text,
        "score": prediction.score,
        "tokens": prediction.tokens,
        "token_scores": prediction.token_scores,
        "truncated": prediction.truncated,
        "read": prediction.read,
        "finished": prediction.finished,
    }


class Alone:
    """The work done in this process, by one thread."""

    def __init__(self, model: Model, work: Work):
        self.model, self.work = model, work
        torch.set_num_threads(1)
        keep_memory()

    def map(self, todo: Iterable[Job]) -> Iterator[tuple[Job, list[Answer]]]:
        return ((job, answers(self.model, self.work, job)) for job in todo)

    def warm_up(self) -> None:
        """Nothing to start."""

    def measure(self, units: Iterable[Plain]) -> Iterator[Plain]:
        return (self.model.measure(unit, self.work.options) for unit in units)

    def close(self) -> None:
        """Nothing to end."""


class Pool:
    """The work dealt out to processes; answers come back in order."""

    def __init__(self, run: Path, work: Work, workers: int, settings: "Loading"):
        first = {**dataclasses.asdict(work), "loading": dataclasses.asdict(settings)}
        command = python_command("saccade.training.pool", str(run))
        self.members = [_Worker(command, first, number) for number in range(1, workers + 1)]
        self.idle: SimpleQueue[_Worker] = SimpleQueue()
        for member in self.members:
            self.idle.put(member)
        self.threads = ThreadPoolExecutor(workers)  # they only wait for lines

    def map(self, todo: Iterable[Job]) -> Iterator[tuple[Job, list[Answer]]]:
        """Each job with its answers, in order."""
        return self._each(todo, lambda job: {"predict": dataclasses.asdict(job)})

    def measure(self, units: Iterable[Plain]) -> Iterator[Plain]:
        """What comes out of each unit, in order."""
        return (measure for _, measure in self._each(units, lambda unit: {"measure": unit}))

    def _each(self, todo: Iterable[T], said: Callable[[T], Plain]) -> Iterator[tuple[T, Any]]:
        """No more is taken than there is work for."""
        running: deque[tuple[T, Future[Any]]] = deque()
        for one in todo:
            running.append((one, self.threads.submit(self._ask, said(one))))
            if len(running) >= AHEAD * len(self.members):
                yield _ended(running)
        while running:
            yield _ended(running)

    def warm_up(self) -> None:
        """Wait until every worker has its model: each gets one job, of nothing."""
        for _ in self.map([Job([], [])] * len(self.members)):
            pass

    def _ask(self, duty: Plain) -> Any:
        member = self.idle.get()
        try:
            return member.ask(duty)
        finally:
            self.idle.put(member)

    def close(self) -> None:
        for member in self.members:
            member.end()
        self.threads.shutdown(cancel_futures=True)


def _ended(running: "deque[tuple[T, Future[Any]]]") -> tuple[T, Any]:
    one, future = running.popleft()
    return one, future.result()


@dataclass(frozen=True, slots=True)
class Loading:
    """How to load the run."""

    precision: Precision = "float32"
    allow_code: bool = False
    changes: Sequence[str] = ()  # of its settings, as section.key=value


class _Worker:
    """One process, asked line by line."""

    def __init__(self, command: list[str], first: dict[str, Any], number: int):
        self.number, self.first = number, first
        self.process = subprocess.Popen(  # noqa: S603  our own interpreter and module
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=one_thread_environment(),
            text=True,
            encoding="utf-8",
        )

    def ask(self, duty: Plain) -> Any:
        """Its answer to {"predict": a job} or {"measure": a unit}."""
        process, line = self.process, ""
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            if self.first:
                process.stdin.write(json.dumps(self.first) + "\n")
                self.first = {}
            process.stdin.write(json.dumps(duty) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        if not line.endswith("\n"):
            code = process.wait()
            killed = "is there enough memory for so many? Try --workers 1"
            why = killed if code < 0 else "what it said itself is above"
            raise TrainingError(f"prediction worker {self.number} ended with code {code}; {why}")
        return answer_of(json.loads(line))

    def end(self) -> None:
        """Whatever it does: it holds nothing that has to be kept."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


def _done(model: Model, work: Work, duty: Plain) -> Plain:
    if "measure" in duty:
        return model.measure(duty["measure"], work.options)
    return answers(model, work, Job(**duty["predict"]))


def main(run: str) -> None:
    """Answer until standard input ends."""
    follow_parent()
    channel = private_output()
    torch.set_num_threads(1)
    keep_memory()
    lines = iter(sys.stdin.buffer)
    first = json.loads(next(lines))
    reading = None if first["reading"] is None else Reading(**first["reading"])
    work = Work(DecodeOptions(**first["options"]), reading)
    model: Model | None = None

    def answer(duty: Plain) -> Plain:
        nonlocal model
        model = model or load(run, **first["loading"])
        return _done(model, work, duty)

    for line in lines:
        channel.write(json.dumps(attempted(partial(answer, json.loads(line)))) + "\n")
        channel.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
