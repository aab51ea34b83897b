"""What the folder of a run tells without its model: scores, curves, quality by length, card."""

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from saccade.data.lines import unpacked
from saccade.inspection.comparison import INPUTS
from saccade.inspection.resampling import by_bucket, length_buckets, trusted_parts
from saccade.serving.schemas import Curve, EvaluationSummary, LengthBand, Score
from saccade.training.run import Run

POINTS = 300  # of a curve
BANDS = 6  # of lengths
NOT_CURVES = {"step", "seconds"}


def evaluations(run: Run) -> list[EvaluationSummary]:
    """Every evaluation that was kept, the one on the dev set first."""
    names = sorted(
        (file.stem for file in (run.path / "evals").glob("*.json")), key=lambda n: (n != "dev", n)
    )
    found = []
    for name in names:
        kept = run.evaluation(name)
        examples = kept.get("by_example") or []
        found.append(
            EvaluationSummary(
                name=name,
                examples=int(kept.get("examples", len(examples))),
                scores=scores(kept),
                by_length=by_length(kept),
            )
        )
    return found


def scores(evaluation: Mapping[str, Any]) -> list[Score]:
    return [
        Score(name=name, value=metric["value"], signature=metric.get("signature", ""))
        for name, metric in evaluation.get("metrics", {}).items()
        if isinstance(metric.get("value"), int | float) and math.isfinite(metric["value"])
    ]


def by_length(evaluation: Mapping[str, Any], bands: int = BANDS) -> list[LengthBand]:
    """Each metric of the examples in bands of nearly equal size, by the words of their texts.

    What cannot be recomputed from the examples that were kept has no value by length.
    """
    examples = evaluation.get("by_example") or []
    found = {
        score.name: trusted_parts(score.name, score.value, examples) for score in scores(evaluation)
    }
    parts = {name: each for name, each in found.items() if each is not None}
    counted = next(
        (key for key in INPUTS if examples and isinstance(examples[0].get(key), str)), ""
    )
    if not parts or not counted:
        return []
    buckets = length_buckets([len(example[counted].split()) for example in examples], bands)
    values = {name: by_bucket(name, each, buckets) for name, each in parts.items()}
    return [
        LengthBand(
            shortest=bucket.shortest,
            longest=bucket.longest,
            examples=len(bucket.places),
            scores={name: each[place] for name, each in values.items()},
        )
        for place, bucket in enumerate(buckets)
    ]


def curves(run: Run) -> dict[str, Curve]:
    """Each logged number over the updates, thinned to what a picture can show."""
    found: dict[str, Curve] = {}
    for line in run.metrics():
        numbers = {name: float(value) for name, value in line.items() if _is_number(value)}
        for name in numbers.keys() - NOT_CURVES:
            if "step" in numbers:
                found.setdefault(name, []).append((numbers["step"], numbers[name]))
    return {name: thinned(curve) for name, curve in found.items()}


def thinned(curve: Curve, points: int = POINTS) -> Curve:
    """Every n-th point, and the last."""
    step = math.ceil(len(curve) / points)
    return curve if step <= 1 else [*curve[:-1:step], curve[-1]]


def card(run: Run) -> str:
    try:
        return (run.path / "README.md").read_text("utf-8", errors="replace")
    except OSError:
        return ""


def plain_config(config: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """The tables of a config, each value as text to read."""
    return {
        section: {name: _shown(value) for name, value in values.items()}
        for section, values in config.items()
        if isinstance(values, Mapping)
    }


def languages(files: Sequence[str]) -> str:
    """`en → de` for train.en.gz and train.de.gz; nothing when the names do not tell."""
    endings = [Path(unpacked(file)).suffix.removeprefix(".") for file in files]
    short = [ending for ending in endings if re.fullmatch(r"[a-z]{2,3}", ending)]
    if len(short) == 2 and len(files) == 2:
        return " → ".join(short)
    return ""


def _shown(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def examples(run: Run, count: int) -> list[str]:
    """A few texts of the dev set to try first: short enough to see whole, long enough to tell."""
    try:
        dev = json.loads((run.path / "dev.json").read_bytes())
    except (OSError, ValueError):
        return []
    texts = dev.get("source") or [passage[0] for passage in dev.get("passages", [])]
    lines = [line.strip() for text in texts[:1000] for line in text[:2000].split("\n")]
    fitting = [line for line in lines if 6 <= len(line.split()) <= 12]
    return (fitting or [line for line in lines if line])[:count]
