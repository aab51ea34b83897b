"""What a run's folder says about the run: read without its model, and without torch."""

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from saccade.config import read_toml
from saccade.errors import InputError, nearest

LOGGED = ("step", "seconds", "rate", "grad_norm", "tokens")  # with every update; losses besides
METADATA = "__metadata__"  # in the header of a safetensors file, beside the tensors
DEV = "dev "  # what a metric of the dev set begins with, in metrics.jsonl


@dataclass(frozen=True, slots=True)
class Point:
    """A value on a learning curve."""

    step: int
    minutes: float
    value: float


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run as its folder tells it."""

    name: str
    path: Path
    config: dict[str, Any]
    log: list[dict[str, Any]]  # the lines of metrics.jsonl

    @property
    def task(self) -> str:
        return str(self.config.get("task", {}).get("name", "?"))

    @property
    def model(self) -> str:
        return str(self.config.get("model", {}).get("name", "?"))

    @property
    def seconds(self) -> float | None:
        """Wall time of training, evaluations included."""
        return max((line["seconds"] for line in self.log if "seconds" in line), default=None)

    @property
    def tokens_per_second(self) -> float | None:
        """Of training: the median between lines of the log; with an evaluation between, none."""
        rates = [
            (after["tokens"] - before["tokens"]) / (after["seconds"] - before["seconds"])
            for before, after in pairwise(self.log)
            if "tokens" in before and "tokens" in after and after["seconds"] > before["seconds"]
        ]
        return statistics.median(rates) if rates else None

    @property
    def parameters(self) -> int | None:
        """The numbers in model.safetensors, by its header; of a model that counts, its counts."""
        try:
            with (self.path / "model.safetensors").open("rb") as file:
                size = int.from_bytes(file.read(8), "little")
                header = json.loads(file.read(min(size, 1 << 26)))
            shapes = {name: each["shape"] for name, each in header.items() if name != METADATA}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        counts = {name: shape for name, shape in shapes.items() if name.endswith(".counts")}
        return sum(_product(shape) for shape in (counts or shapes).values())

    def evaluations(self) -> dict[str, float]:
        """The names under which scores are stored, with when that was."""
        files = (self.path / "evals").glob("*.json")
        return {file.stem: file.stat().st_mtime for file in files}

    def evaluation(self, name: str) -> dict[str, Any]:
        """The scores stored under that name, examples and all."""
        file = self.path / "evals" / f"{name}.json"
        known = self.evaluations()
        if name not in known:
            hint = f"; {nearest(name, known)}" if known else ""
            raise InputError(
                f"{self.path} has no evaluation {name!r}{hint}; "
                f"make one: saccade eval {self.path} --data FILES --name {name}"
            )
        try:
            found = json.loads(file.read_bytes())
        except ValueError as error:
            raise InputError(f"{file}: not JSON ({error})") from None
        if not _whole(found):
            raise InputError(f"{file}: no metrics by example in it; evaluate {self.path} again")
        return found

    def losses(self) -> list[Point]:
        """The first term of the loss over training."""
        lines = [line for line in self.log if not any(key.startswith(DEV) for key in line)]
        named = [key for line in lines[:1] for key in line if key not in LOGGED]
        return _points(lines, named[0]) if named else []

    def dev_curve(self, metric: str) -> list[Point]:
        """A metric of the dev set over training."""
        return _points(self.log, DEV + metric)


def read_runs(paths: Sequence[str | Path]) -> list[StoredRun]:
    """The runs in these folders, each under a name of its own."""
    places = [Path(path) for path in paths]
    return [
        StoredRun(label, place, _config(place), read_log(place))
        for label, place in zip(distinct(places), places, strict=True)
    ]


def distinct(places: Sequence[Path]) -> list[str]:
    """The last parts of the paths, as many as it takes to tell them apart."""
    parts = [place.resolve().parts for place in places]
    for place, each in zip(places, parts, strict=True):
        if parts.count(each) > 1:
            raise InputError(f"{place} is named twice")
    count = 1
    while len({each[-count:] for each in parts}) < len(parts):
        count += 1
    return ["/".join(each[-count:]) for each in parts]


def _config(place: Path) -> dict[str, Any]:
    if not (place / "config.toml").is_file():
        inside = sorted(str(found.parent) for found in place.glob("*/config.toml"))
        hint = f"; it holds runs, name those: {' '.join(inside[:5])}" if inside else ""
        raise InputError(f"{place} is not a saccade run (no config.toml){hint}")
    config = read_toml(place / "config.toml")
    if "format" not in config:
        raise InputError(f"{place} is not a saccade run (its config.toml is of another kind)")
    return config


def _whole(found: Any) -> bool:
    """Whether an evaluation has metrics and examples as saccade writes them."""
    match found:
        case {"metrics": dict(metrics), "by_example": [dict(), *_]} if metrics:
            return all({"value", "signature"} <= each.keys() for each in metrics.values())
    return False


def read_log(place: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics.jsonl; one that is cut or damaged is passed over."""
    try:
        lines = (place / "metrics.jsonl").read_bytes().splitlines()
    except FileNotFoundError:
        return []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except (ValueError, RecursionError):
            continue  # as of a process that was killed while writing it
    return [line for line in found if _logged(line)]


def _logged(line: Any) -> bool:
    """Whether it is a line as training writes them: numbers by name, the step a whole one."""
    return (
        isinstance(line, dict)
        and type(line.get("step")) is int
        and all(type(value) in (int, float) for value in line.values())
    )


def _points(lines: Iterable[dict[str, Any]], key: str) -> list[Point]:
    return [
        Point(line["step"], line.get("seconds", 0.0) / 60, line[key])
        for line in lines
        if key in line
    ]


def _product(shape: Sequence[int]) -> int:
    product = 1
    for size in shape:
        product *= size
    return product
