"""Runs side by side: quality and how sure it is, size, speed, learning curves, quality by length.

All of it is read from the runs' folders: no model is loaded, nothing is predicted.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from saccade.errors import InputError
from saccade.inspection.resampling import (
    Bucket,
    Difference,
    Draws,
    Example,
    Interval,
    by_bucket,
    difference,
    draws,
    interval,
    length_buckets,
    resampled,
    trusted_parts,
)
from saccade.inspection.stored import Point, StoredRun, read_runs

PREFERRED = "dev"  # the evaluation every run with a dev set has
FEWEST = 10  # examples that say anything about how sure a score is
Parts = Float[np.ndarray, "examples K"]
Certainty = tuple[Interval | None, Difference | None]
INPUTS = {  # of an example, what its length is counted of
    "source": "words in the source (sentences)",
    "text": "words in the passage (passages)",
}


@dataclass(frozen=True, slots=True)
class Score:
    """A metric of a run; the intervals and the difference where it can be recomputed."""

    name: str
    value: float | None  # None: beyond numbers, as the perplexity of what cannot happen
    signature: str
    better: str = "greater"  # or smaller
    interval: Interval | None = None
    difference: Difference | None = None  # from the first run


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One run in the table; what is unknown is None."""

    name: str
    path: str
    model: str
    scores: list[Score]  # the main one first
    parameters: int | None
    training_seconds: float | None
    training_tokens_per_second: float | None
    examples_per_second: float | None
    by_length: list[float] | None  # the main metric of each bucket
    losses: list[Point]
    dev_curve: list[Point]

    @property
    def main(self) -> Score:
        return self.scores[0]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What `saccade compare` says; `json` has all numbers."""

    evaluation: str
    examples: int
    metric: str  # the main one
    runs: list[ComparedRun]
    buckets: list[Bucket]
    unit: str  # of the buckets' lengths
    notes: list[str]  # what a reader of the numbers should know

    def json(self) -> dict[str, Any]:
        """Everything as plain values; the places of a bucket's examples are left out."""
        plain = asdict(self)
        plain["buckets"] = [
            {
                "shortest": b.shortest,
                "longest": b.longest,
                "mean": b.mean,
                "examples": len(b.places),
            }
            for b in self.buckets
        ]
        return plain

    def best(self, name: str) -> str | None:
        """The run that is best by a metric; None when only one has it."""
        found = {
            run.name: score.value if score.better == "greater" else -score.value
            for run in self.runs
            for score in run.scores
            if score.name == name and score.value is not None
        }
        return max(found, key=lambda run: found[run]) if len(found) > 1 else None

    def save(self, folder: str | Path) -> list[Path]:
        """Draw every chart there are numbers for, as PNG and SVG."""
        from saccade.inspection.charts import save_charts

        return save_charts(self, Path(folder))


def compare(
    runs: Sequence[str | Path],
    evaluation: str | None = None,
    *,
    buckets: int = 4,
    rounds: int = 1000,
    seed: int = 1,
) -> Comparison:
    """Compare runs by what they stored under one name: the first is what the others are held to."""
    if not runs:
        raise InputError("no runs to compare: name their folders")
    if rounds < 1:
        raise InputError(f"{rounds} rounds of resampling: at least 1")
    found = read_runs(runs)
    _check_tasks(found)
    name = evaluation or _common_evaluation(found)
    stored = [run.evaluation(name) for run in found]
    examples = [each["by_example"] for each in stored]
    _check_same_data(found, examples, name)
    main = next(iter(stored[0]["metrics"]))
    parts = {metric: _trusted(metric, stored) for metric in stored[0]["metrics"]}
    certain = {
        metric: _certainty(metric, each, stored, draws(len(examples[0]), rounds, seed))
        for metric, each in parts.items()
    }
    counted = next((key for key in INPUTS if isinstance(examples[0][0].get(key), str)), "")
    by_length = _buckets(examples[0], counted, buckets) if parts[main] and counted else []
    compared = [
        ComparedRun(
            name=run.name,
            path=str(run.path),
            model=run.model,
            scores=_scores(stored[number], number, certain),
            parameters=run.parameters,
            training_seconds=run.seconds,
            training_tokens_per_second=run.tokens_per_second,
            examples_per_second=stored[number].get("examples_per_second"),
            by_length=by_bucket(main, parts[main][number], by_length) if by_length else None,
            losses=run.losses(),
            dev_curve=run.dev_curve(main),
        )
        for number, run in enumerate(found)
    ]
    notes = _notes(compared, stored)
    unit = INPUTS.get(counted, "")
    return Comparison(name, len(examples[0]), main, compared, by_length, unit, notes)


def _trusted(name: str, stored: Sequence[dict[str, Any]]) -> list[Parts]:
    """What each example of each run adds to a metric; nothing where one run cannot say."""
    found = []
    for run in stored:
        value = run["metrics"].get(name, {}).get("value")
        parts = trusted_parts(name, value, run["by_example"])
        if parts is None:
            return []
        found.append(parts)
    return found


def _certainty(
    name: str, parts: list[Parts], stored: Sequence[dict[str, Any]], drawn: Draws
) -> list[Certainty]:
    """For each run the interval of a metric, and the difference from the first run.

    Neither of a handful of examples, and no difference of what was not computed alike.
    """
    if not parts or len(stored[0]["by_example"]) < FEWEST:
        return [(None, None)] * len(stored)
    samples = resampled(name, parts, drawn)
    values = [run["metrics"][name]["value"] for run in stored]
    signatures = [run["metrics"][name]["signature"] for run in stored]
    apart = [
        difference(samples[0], sample, value - values[0]) if signature == signatures[0] else None
        for sample, value, signature in zip(samples[1:], values[1:], signatures[1:], strict=True)
    ]
    return list(zip(map(interval, samples), [None, *apart], strict=True))


def _scores(run: dict[str, Any], number: int, certain: dict[str, list[Certainty]]) -> list[Score]:
    """The metrics of a run, the main one first."""
    unknown: dict[int, Certainty] = {number: (None, None)}
    return [
        Score(
            name,
            each["value"],
            each["signature"],
            each.get("better", "greater"),
            *certain.get(name, unknown)[number],
        )
        for name, each in run["metrics"].items()
    ]


def _buckets(examples: Sequence[Example], key: str, count: int) -> list[Bucket]:
    return length_buckets([len(example[key].split()) for example in examples], count)


def _common_evaluation(runs: Sequence[StoredRun]) -> str:
    """`dev` if all have it, else the newest that all have."""
    known = [run.evaluations() for run in runs]
    common = set(known[0]).intersection(*known[1:])
    if not common:
        have = "; ".join(
            f"{run.name}: {', '.join(sorted(names)) or 'none'}"
            for run, names in zip(runs, known, strict=True)
        )
        raise InputError(
            f"the runs have no evaluation in common ({have}); score each on the same files: "
            "saccade eval RUN --data FILES --name NAME"
        )
    if PREFERRED in common:
        return PREFERRED
    return max(sorted(common), key=lambda name: min(names[name] for names in known))


def _check_tasks(runs: Sequence[StoredRun]) -> None:
    for run in runs[1:]:
        if run.task != runs[0].task:
            raise InputError(
                f"{runs[0].path} is a run of {runs[0].task}, {run.path} of {run.task}: "
                "only runs of one task can be compared"
            )


def _check_same_data(
    runs: Sequence[StoredRun], examples: Sequence[list[Example]], name: str
) -> None:
    """Every run answered the same questions, in the same order."""
    wanted = [asked(example) for example in examples[0]]
    for run, theirs in zip(runs[1:], examples[1:], strict=True):
        what = ""
        if len(theirs) != len(wanted):
            what = f"{len(wanted):,} examples and {len(theirs):,}"
        for number, (mine, other) in enumerate(zip(wanted, map(asked, theirs), strict=False), 1):
            if not what and mine != other:
                what = f"example {number:,} is {_short(mine)} and {_short(other)}"
        if what:
            raise InputError(
                f"{runs[0].path} and {run.path} were evaluated as {name!r} on different data "
                f"({what}); score both on the same files: saccade eval RUN --data FILES "
                "--name NAME, then saccade compare ... --eval NAME"
            )


def asked(example: Example) -> dict[str, str]:
    """What was given: the texts of an example, without what the run made of it."""
    return {
        key: value
        for key, value in example.items()
        if isinstance(value, str) and key not in ("prediction", "alignment")
    }


def _short(given: dict[str, str]) -> str:
    text = next(iter(given.values()), "")
    return repr(text if len(text) <= 40 else text[:39] + "…")


def _told(setting: Any) -> str:
    return " ".join(setting) if isinstance(setting, list) else str(setting)


def _notes(runs: Sequence[ComparedRun], stored: Sequence[dict[str, Any]]) -> list[str]:
    """Differences in how the scores were made."""
    found = []
    signatures = {run.main.signature for run in runs}
    if len(signatures) > 1:
        found.append(f"{runs[0].main.name} was not computed alike: {', '.join(sorted(signatures))}")
    if (size := len(stored[0]["by_example"])) < FEWEST:
        found.append(f"{size} example{'s' * (size > 1)}: too few to say how sure a score is")
    ways = [each.get("decoding", {}) for each in stored]
    keys = dict.fromkeys(key for way in ways for key in way)
    for key in keys:
        values = dict.fromkeys(_told(way.get(key, "unknown")) for way in ways)
        if len(values) > 1:
            found.append(f"decoded with different {key}: {', '.join(values)}")
    return found


UNITS = {1e9: " G", 1e6: " M", 1e3: " k"}


def rounded(value: float | None) -> str:
    """1510400 is 1.51 M, 7770.7 is 7,771; unknown is a dash."""
    if value is None:
        return "–"
    if value < 1e4:
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    size = next(size for size in UNITS if value >= size)
    return f"{value / size:.3g}{UNITS[size]}"


def decimal(value: float | None) -> str:
    """85.25, but 1.882 and 0.142: losses and shares have three digits."""
    if value is None:
        return "infinite"
    return f"{value:.2f}" if abs(value) >= 10 else f"{value:.3f}"
