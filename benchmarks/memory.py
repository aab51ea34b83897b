"""Memory of training `small`: over the epochs, and against the size of the corpus."""

import gzip
import json
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from competitors import Competitor, Spec, competing, say
from report import Report, Target
from training_speed import SETUPS, data

SECONDS = 0.1  # between two looks
KINDS = ("VmRSS", "RssAnon", "RssShmem", "RssFile", "VmHWM")


@dataclass(frozen=True, kw_only=True, slots=True)
class MemoryOptions:
    epochs: int = 4
    epoch_steps: int | None = None  # updates of an epoch; unset: all there are
    steps: int = 40  # updates with each size of the corpus
    repeats: Sequence[int] = (1, 4, 16)


@dataclass(slots=True)
class Peak:
    """The most memory that all processes of a run held together, in megabytes, by kind.

    The weights that a team shares are counted once for each process that sees them.
    """

    total: float = 0.0
    kinds: dict[str, float] | None = None

    def look(self, pids: Sequence[int]) -> None:
        found = dict.fromkeys(KINDS, 0.0)
        for pid in pids:
            for name, megabytes in _status(pid):
                found[name] += megabytes
        if found["VmRSS"] > self.total:
            self.total, self.kinds = found["VmRSS"], found

    def cells(self) -> list[str]:
        kinds = self.kinds or dict.fromkeys(KINDS, 0.0)
        return [f"{kinds[kind]:,.0f}" for kind in KINDS]


def memory(options: MemoryOptions) -> Iterator[Report]:
    yield _over_epochs(options)
    yield _over_corpora(options)


def _over_epochs(options: MemoryOptions) -> Report:
    report = _report("memory-epochs", "Memory of training `small` over the epochs, megabytes")
    with tempfile.TemporaryDirectory() as scratch:
        train = [data("train.en.gz"), data("train.de.gz")]
        with competing([_spec(Path(scratch), train)]) as [saccade]:
            steps = options.epoch_steps or saccade.ready[0]["epoch"]
            peaks = [_watched(saccade, steps) for _ in range(options.epochs)]
    for epoch, peak in enumerate(peaks, start=1):
        report.rows.append([f"epoch {epoch}, {steps} updates", *peak.cells()])
        report.measurements[f"epoch {epoch}"] = peak.kinds
    # The first epoch meets the longest batch for the first time; after it nothing may grow.
    growth = peaks[-1].total / peaks[1].total
    report.targets.append(Target("last epoch to the second", 1.02, growth, at_most=True))
    return report


def _over_corpora(options: MemoryOptions) -> Report:
    report = _report("memory-corpus", "Memory of training `small` by corpus size, megabytes")
    peaks = []
    for times in options.repeats:
        with tempfile.TemporaryDirectory() as scratch:
            train = [_repeated(Path(scratch), side, times) for side in ("en", "de")]
            with competing([_spec(Path(scratch), train)]) as [saccade]:
                peaks.append(_watched(saccade, options.steps))
        report.rows.append([f"corpus x{times}", *peaks[-1].cells()])
        report.measurements[f"x{times}"] = peaks[-1].kinds
    growth = (peaks[-1].kinds or {})["RssAnon"] / (peaks[0].kinds or {})["RssAnon"]
    what = f"x{options.repeats[-1]} to x{options.repeats[0]}, without mapped files"
    report.targets.append(Target(what, 1.05, growth, at_most=True))
    report.notes.append(
        "mapped files are the token store and libraries: pages the system takes back when needed"
    )
    return report


def _report(name: str, title: str) -> Report:
    return Report(
        name,
        title,
        ["", "peak RSS of all processes", "of it private", "shared", "mapped files",
         "ever, making tokenizer and store included"],
    )  # fmt: skip


def _spec(scratch: Path, train: Sequence[str]) -> Spec:
    run = scratch / "run"
    Path(f"{run}.json").write_text(json.dumps(SETUPS["small"].config(train)))
    return Spec("saccade", "training_worker.py", [["saccade", str(run), "1"]])


def _repeated(scratch: Path, side: str, times: int) -> str:
    path = scratch / f"train.{side}"
    text = gzip.decompress(Path(data(f"train.{side}.gz")).read_bytes())
    with path.open("wb") as file:
        for _ in range(times):
            file.write(text)
    return str(path)


def _watched(competitor: Competitor, steps: int) -> Peak:
    with _watching(competitor) as peak:
        competitor.turn({"steps": steps})
    say(f"{steps} updates, peak {peak.total:,.0f} MB")
    return peak


@contextmanager
def _watching(competitor: Competitor) -> Iterator[Peak]:
    """Look again and again, from a thread of this process, which is otherwise waiting."""
    peak, done, pids = Peak(), threading.Event(), competitor.members()

    def look() -> None:
        while not done.wait(SECONDS):
            peak.look(pids)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peak
    finally:
        done.set()
        thread.join()
        peak.look(pids)


def _status(pid: int) -> Iterator[tuple[str, float]]:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in KINDS:
            yield name, int(value.split()[0]) / 1024
