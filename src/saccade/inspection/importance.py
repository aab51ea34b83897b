"""How much each head matters: what a data set's score loses when that head alone is off.

Michel et al. 2019, Are Sixteen Heads Really Better than One?
"""

import dataclasses
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from saccade.decoding.options import DecodeOptions
from saccade.errors import InputError, nearest
from saccade.inspection.ablation import every_head, without_heads
from saccade.inspection.terminal import table

By = Literal["loss", "quality"]


@dataclass(frozen=True, slots=True)
class HeadEffect:
    """What is measured with one head off."""

    layer: str
    head: int  # counted from 0
    value: float
    harm: float  # how much worse than with all heads; below 0 the model is better without it


@dataclass(frozen=True, slots=True)
class HeadImportance:
    """The effect of every head, in the order of the model."""

    metric: str
    whole: float  # with all heads
    effects: list[HeadEffect]

    def ranked(self) -> list[HeadEffect]:
        """The most important first."""
        return sorted(self.effects, key=lambda effect: -effect.harm)

    def table(self) -> str:
        """For the terminal, a line a head."""
        ranked = self.ranked()
        columns = [
            ["head off", "none", *(f"{each.layer} {each.head}" for each in ranked)],
            [self.metric, f"{self.whole:.3f}", *(f"{each.value:.3f}" for each in ranked)],
            ["harm", "", *(f"{each.harm:+.3f}" for each in ranked)],
        ]
        return "\n".join(table(columns))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dataclasses.asdict(self)

    def __str__(self) -> str:
        return self.table()


def head_importance(
    model: Any,
    files: Sequence[str],
    *,
    by: By = "loss",
    options: DecodeOptions = DecodeOptions(beam=1),
    layers: Collection[str] | None = None,
    limit: int | None = None,
) -> HeadImportance:
    """Switch off one head after the other (of some layers) and measure on the first `limit` pairs.

    By loss the model reads the references, once a head; by quality it predicts anew, which takes
    far longer, and the task's first metric counts.
    """
    examples = {
        name: column[:limit] if isinstance(column, list) else column  # else it is of all of them
        for name, column in model.task.examples(files, lambda _: None).items()
    }
    heads = every_head(model.module)
    known = {layer for layer, _ in heads}
    for layer in layers or ():
        if layer not in known:
            raise InputError(f"no heads to switch off in {layer!r}; {nearest(layer, known)}")

    def loss() -> tuple[str, float, float]:
        value = text_loss(model, examples["source"], examples["reference"])
        return "loss", value, value

    def quality() -> tuple[str, float, float]:
        measures = [model.measure(unit, options) for unit in model.task.units(examples)]
        metric = model.task.score(examples, measures).main
        return metric.name, metric.value, -metric.merit

    read = by == "loss" and hasattr(model.task, "batches")  # else its quality is a loss
    measure: Callable[[], tuple[str, float, float]] = loss if read else quality
    name, whole, badness = measure()
    effects = []
    for layer, head in heads:
        if layers is None or layer in layers:
            with without_heads(model.module, {layer: [head]}):
                _, value, worse = measure()
            effects.append(HeadEffect(layer, head, value, worse - badness))
    return HeadImportance(name, whole, effects)


@torch.inference_mode()
def text_loss(model: Any, sources: Sequence[str], references: Sequence[str]) -> float:
    """The loss of a task on texts, without smoothing: the mean of its terms, weighted."""
    task: Any = model.task
    objective = task.objective(model.module, 0.0).eval()
    sums: dict[str, float] = {}
    counts: dict[str, int] = {}
    weights: dict[str, float] = {}
    for batch in task.batches(model.module, sources, references):
        terms, _ = objective(batch, None)
        for name, term in terms.items():
            sums[name] = sums.get(name, 0.0) + float(term.sum)
            counts[name] = counts.get(name, 0) + term.count
            weights[name] = term.weight
    return sum(weights[name] * sums[name] / max(counts[name], 1) for name in sums)
