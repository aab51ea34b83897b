"""How sure a score is, and what it is for a part of the data: metrics recomputed from sums.

A metric of a whole data set is a function of sums over its examples. With the examples' own parts
of those sums, the score of any sample of the examples costs an addition.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from saccade.errors import InputError
from saccade.randomness import numpy_generator

Example = Mapping[str, Any]  # an entry of `by_example` in a run's evals/NAME.json
Draws = Iterable[Int[np.ndarray, " examples"]]  # for each round, the examples it holds
ORDERS = 4  # n-grams of BLEU


@dataclass(frozen=True, slots=True)
class Recipe:
    """A metric: what each example adds (a row each), and the value of every row of sums."""

    parts: Callable[[Sequence[Example]], Float[np.ndarray, "examples K"]]
    value: Callable[[Float[np.ndarray, "R K"]], Float[np.ndarray, " R"]]


@dataclass(frozen=True, slots=True)
class Interval:
    """Where 95 of 100 resampled values lie."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Difference:
    """A score less the first run's, and how probable one as large is by chance alone."""

    value: float
    interval: Interval
    p: float


@dataclass(frozen=True, slots=True)
class Bucket:
    """The examples whose sources have from `shortest` to `longest` words."""

    shortest: int
    longest: int
    mean: float
    places: list[int]

    def __str__(self) -> str:
        same = self.shortest == self.longest
        return str(self.shortest) if same else f"{self.shortest}–{self.longest}"


# --- metrics as functions of sums --------------------------------------------------------------


def bleu_parts(examples: Sequence[Example]) -> Float[np.ndarray, "examples K"]:
    """Matching and all n-grams of each prediction, its length, its reference's."""
    from sacrebleu.metrics.bleu import BLEU

    scorer = BLEU(effective_order=True)  # of one sentence it would warn without; counts are equal
    rows = []
    for example in examples:
        found = scorer.sentence_score(example["prediction"], [example["reference"]])
        rows.append([*found.counts, *found.totals, found.sys_len, found.ref_len])
    return np.array(rows, np.float64).reshape(len(rows), 2 * ORDERS + 2)


def bleu_of_sums(sums: Float[np.ndarray, "R K"]) -> Float[np.ndarray, " R"]:
    """BLEU (Papineni et al. 2002), an order without a match smoothed as mteval does ("exp")."""
    matches, totals = sums[:, :ORDERS], sums[:, ORDERS : 2 * ORDERS]
    lengths, references = sums[:, -2], sums[:, -1]
    none = matches == 0
    halved = np.where(none, 0.5 ** none.cumsum(axis=1), matches)
    with np.errstate(divide="ignore", invalid="ignore"):
        precision = np.where(totals > 0, halved / totals, 0.0)
        brevity = np.where(lengths < references, np.exp(1 - references / lengths), 1.0)
        mean = np.exp(np.log(precision).mean(axis=1))
    found: Float[np.ndarray, " R"] = np.where(none.all(axis=1), 0.0, 100 * brevity * mean)
    return found


def ratio(above: str, below: str, finish: Callable[[np.ndarray], np.ndarray]) -> Recipe:
    """A function of one sum over another; `above` and `below` are what examples call them."""

    def parts(examples: Sequence[Example]) -> Float[np.ndarray, "examples K"]:
        rows = [[float(example[above]), float(example[below])] for example in examples]
        return np.array(rows, np.float64).reshape(len(rows), 2)

    def value(sums: Float[np.ndarray, "R K"]) -> Float[np.ndarray, " R"]:
        return finish(sums[:, 0] / np.maximum(sums[:, 1], 1))

    return Recipe(parts, value)


RECIPES: dict[str, Recipe] = {  # by the metric's name; a metric without one has its value alone
    "BLEU": Recipe(bleu_parts, bleu_of_sums),
    "AER": ratio("alignment_hits", "alignment_links", lambda hits: 1 - hits),
    "loss": ratio("nats", "tokens", lambda nats: nats),
    "perplexity per word": ratio("nats", "words", np.exp),
    "bits per character": ratio("nats", "characters", lambda nats: nats / np.log(2)),
}


def trusted_parts(
    name: str, value: float | None, examples: Sequence[Example]
) -> Float[np.ndarray, "examples K"] | None:
    """What each example adds, if recomputing the whole gives `value`: else it was made otherwise.

    A BLEU of other tokens or case has the same name and another signature.
    """
    recipe = RECIPES.get(name)
    if recipe is None or value is None or not examples:
        return None
    try:
        parts = recipe.parts(examples)
    except (KeyError, TypeError):  # the examples do not hold what it takes
        return None
    again = float(recipe.value(parts.sum(axis=0, keepdims=True))[0])
    return parts if abs(again - value) <= 1e-6 * max(1.0, abs(value)) else None


# --- samples of the examples ---------------------------------------------------------------------


def draws(examples: int, rounds: int, seed: int) -> Draws:
    """The examples of each round, drawn with replacement: a function of the arguments."""
    generator = numpy_generator(seed, "bootstrap")
    return (generator.integers(examples, size=examples) for _ in range(rounds))


def resampled(
    name: str, parts: Sequence[Float[np.ndarray, "examples K"]], drawn: Draws
) -> Float[np.ndarray, "runs R"]:
    """The values of a metric for several runs on the same samples (Koehn 2004)."""
    together = np.concatenate(parts, axis=1)
    examples = len(together)
    sums = np.stack([np.bincount(each, minlength=examples) @ together for each in drawn])
    values = [RECIPES[name].value(each) for each in np.split(sums, len(parts), axis=1)]
    return np.stack(values)


def interval(values: Float[np.ndarray, " R"]) -> Interval:
    """A fortieth of the values lies below it, a fortieth above, as sacrebleu cuts them."""
    ordered = np.sort(values)
    cut = len(ordered) // 40
    return Interval(float(ordered[cut]), float(ordered[-cut - 1]))


def difference(
    first: Float[np.ndarray, " R"], other: Float[np.ndarray, " R"], value: float
) -> Difference:
    """Paired bootstrap: `value` is the difference on the data itself; p as sacrebleu has it.

    Where no sample differs, chance alone explains all (sacrebleu would find it significant).
    """
    sizes = np.abs(other - first)
    larger = int((sizes - sizes.mean() > abs(value)).sum())
    p = (larger + 1) / (len(sizes) + 1) if sizes.any() else 1.0
    return Difference(value, interval(other - first), p)


# --- by length -----------------------------------------------------------------------------------


def length_buckets(lengths: Sequence[int], count: int) -> list[Bucket]:
    """At most `count` buckets as equal as can be; examples of one length stay together."""
    if count < 1:
        raise InputError(f"{count} buckets: at least 1")
    ordered = np.sort(np.array(lengths, np.int64))
    borders = [ordered[-(-len(ordered) * part // count) - 1] for part in range(1, count)]
    homes = np.searchsorted(np.unique(borders), lengths, side="left")
    found = []
    for home in np.unique(homes):
        places = np.flatnonzero(homes == home).tolist()
        inside = [lengths[place] for place in places]
        found.append(Bucket(min(inside), max(inside), sum(inside) / len(inside), places))
    return found


def by_bucket(
    name: str, parts: Float[np.ndarray, "examples K"], buckets: Sequence[Bucket]
) -> list[float]:
    """The metric of each bucket, as of a data set of its own."""
    sums = np.stack([parts[bucket.places].sum(axis=0) for bucket in buckets])
    values: list[float] = RECIPES[name].value(sums).tolist()
    return values
