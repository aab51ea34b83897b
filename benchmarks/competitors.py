"""Competitors that take turns: processes that work when told to and are stopped otherwise.

A competitor is one or more processes of the same script. Each reads a line of JSON, does what it
says and answers with a line of JSON. Between its turns the whole group is stopped by a signal, so
that a thread that spins while it waits takes nothing from the others.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TICKS = os.sysconf("SC_CLK_TCK")
Answer = dict[str, Any]

# How OpenMP waits at the end of a parallel region; what a user gets, and the two ends.
WAITS: dict[str, dict[str, str]] = {
    "default": {},
    "active": {"OMP_WAIT_POLICY": "ACTIVE"},
    "passive": {"OMP_WAIT_POLICY": "PASSIVE"},
}


@dataclass(frozen=True, slots=True)
class Spec:
    """How to start a competitor: a process for each list of arguments."""

    name: str
    script: str
    arguments: Sequence[Sequence[str]]
    environment: Mapping[str, str] = field(default_factory=dict)
    python: str = sys.executable  # a peer may need an environment of its own


@dataclass(frozen=True, slots=True)
class Turn:
    """What a competitor did in one turn."""

    seconds: float  # until the last process had answered
    cpu_seconds: float  # of all its processes
    answers: list[Answer]

    def total(self, name: str) -> float:
        return sum(answer[name] for answer in self.answers)


class Competitor:
    """Running processes of one competitor, stopped until their turn."""

    def __init__(self, spec: Spec):
        self.name = spec.name
        self.processes = [
            subprocess.Popen(
                [spec.python, str(HERE / spec.script), *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                env=_environment(spec.environment),
                start_new_session=True,  # a group of its own, so that its children stop with it
            )
            for arguments in spec.arguments
        ]
        self.ready = self._answers()
        self._signal(signal.SIGSTOP)

    def turn(self, command: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> Turn:
        """Let it work: one command for all its processes, or one for each."""
        commands = [command] * len(self.processes) if isinstance(command, Mapping) else command
        before = self.cpu_seconds()
        self._signal(signal.SIGCONT)
        begun_at = time.perf_counter()
        for process, each in zip(self.processes, commands, strict=True):
            assert process.stdin is not None
            process.stdin.write(json.dumps(each) + "\n")
            process.stdin.flush()
        answers = self._answers()
        seconds = time.perf_counter() - begun_at
        self._signal(signal.SIGSTOP)
        return Turn(seconds, self.cpu_seconds() - before, answers)

    def members(self) -> list[int]:
        """The ids of all its processes, children included."""
        return members(process.pid for process in self.processes)

    def cpu_seconds(self) -> float:
        return sum(_cpu_seconds(pid) for pid in self.members())

    def end(self) -> None:
        self._signal(signal.SIGKILL)
        for process in self.processes:
            process.wait()

    def _answers(self) -> list[Answer]:
        lines = [process.stdout.readline() for process in self.processes if process.stdout]
        if not all(lines):
            self.end()
            raise SystemExit(f"{self.name} ended; its last words are above")
        return [json.loads(line) for line in lines]

    def _signal(self, number: int) -> None:
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, number)


@contextmanager
def competing(specs: Sequence[Spec]) -> Iterator[list[Competitor]]:
    """Start competitors one after the other; whatever happens, none is left behind."""
    with ExitStack() as stack:
        found = []
        for spec in specs:
            say(f"starting {spec.name}")
            found.append(Competitor(spec))
            stack.callback(found[-1].end)
        yield found


def answer(work: Callable[[Answer], Answer], ready: Answer) -> None:
    """In a competitor: say that it is ready, then do what each line asks for, until none comes."""
    reply(ready)
    for line in sys.stdin:
        reply(work(json.loads(line)))


def die_with_parent() -> None:
    """For a competitor without saccade: a stopped one would outlive a killed benchmark."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def reply(values: Answer) -> None:
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


def say(text: str) -> None:
    """Progress goes to standard error: standard output is for the tables."""
    print(text, file=sys.stderr, flush=True)


def members(groups: Iterator[int] | Sequence[int]) -> list[int]:
    """All processes of these process groups."""
    wanted, found = set(groups), []
    for path in Path("/proc").iterdir():
        if path.name.isdigit() and (numbers := _stat(int(path.name))) and int(numbers[2]) in wanted:
            found.append(int(path.name))
    return found


def _cpu_seconds(pid: int) -> float:
    numbers = _stat(pid)
    return (int(numbers[11]) + int(numbers[12])) / TICKS if numbers else 0.0


def _stat(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the name, which may itself hold spaces."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The user's, without settings of OpenMP that would favour one competitor."""
    mine = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "KMP_", "GOMP_"))}
    offline = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    return {**mine, **offline, **extra}
