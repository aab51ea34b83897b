"""What a benchmark says: a table with ratios, what it was measured on, and the targets."""

import datetime
import functools
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PACKAGES = ("torch", "transformers", "ctranslate2", "tokenizers", "numpy")


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of a few measurements, and how far they went."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        return cls(statistics.median(values), min(values), max(values))

    def __str__(self) -> str:
        digits = 0 if self.median >= 100 else 1 if self.median >= 10 else 2
        low, high = (f"{value:,.{digits}f}" for value in (self.low, self.high))
        return f"{self.median:,.{digits}f} ({low}-{high})"


def ratios(mine: Sequence[float], theirs: Sequence[float]) -> Spread:
    """Round by round, so that what slows the machine down for a while slows both."""
    return Spread.of([a / b for a, b in zip(mine, theirs, strict=True)])


@dataclass(frozen=True, slots=True)
class Target:
    """What was to be reached, and what was."""

    what: str
    wanted: float
    reached: float
    at_most: bool = False

    @property
    def met(self) -> bool:
        return self.reached <= self.wanted if self.at_most else self.reached >= self.wanted

    def __str__(self) -> str:
        word = "at most" if self.at_most else "at least"
        verdict = "reached" if self.met else "NOT reached"
        return f"- {self.what}: {self.reached:.2f}, {word} {self.wanted:g} wanted: {verdict}"


@functools.cache  # the load is that of others only until we begin
def environment() -> dict[str, Any]:
    """The machine, how busy it was before, the versions and the commit."""
    load = os.getloadavg()[0]
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="minutes"),
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "load_before": round(load, 2),
        "quiet": load < 0.3,
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "commit": _commit(),
    }


@dataclass(slots=True)
class Report:
    """One benchmark's result."""

    name: str
    title: str
    columns: list[str]
    rows: list[list[str]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    measurements: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=environment)

    def __str__(self) -> str:
        """Markdown."""
        lines = [f"## {self.title}", "", _line(self.columns), _line(["---"] * len(self.columns))]
        lines += [_line(row) for row in self.rows]
        lines += ["", *map(str, self.targets), *(f"- {note}" for note in self.notes), ""]
        return "\n".join([*lines, _describe(self.environment), ""])

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.name}.json"
        values = {**asdict(self), "targets": [asdict(t) | {"met": t.met} for t in self.targets]}
        path.write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        return path


def _describe(values: dict[str, Any]) -> str:
    busy = "" if values["quiet"] else " (**not a quiet machine**)"
    versions = ", ".join(f"{name} {values[name]}" for name in ("python", *PACKAGES))
    return (
        f"{values['date']}, {values['cpu']}, {values['cores']} cores, load average before "
        f"{values['load_before']}{busy}; {versions}; saccade {values['commit']}"
    )


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cpu() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "absent"


def _commit() -> str:
    def git(*arguments: str) -> str:
        command = ["git", "-C", str(HERE), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    try:
        changed = git("status", "--porcelain", "--untracked-files=no")
        return git("rev-parse", "--short=12", "HEAD") + (" with changes" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
