"""What a task promises the trainer, the command line and the server."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

from torch import Tensor, nn

from saccade.inspection.alignment import AttentionMap
from saccade.tasks.metrics import Metric


@dataclass(frozen=True, slots=True)
class Term:
    """One part of a loss: a sum over `count` things, whose mean counts `weight` times."""

    sum: Tensor
    count: int
    weight: float = 1.0


@runtime_checkable
class Batch(Protocol):
    """A batch knows how many things each term of its loss is a sum of."""

    @property
    def counts(self) -> dict[str, int]: ...


class Objective(nn.Module):
    """A task's loss as one module: what the trainer, DDP and torch.compile see of a model."""

    terms: ClassVar[tuple[str, ...]]  # the names of its loss terms, in a fixed order

    def forward(self, batch: Any, carry: Any) -> tuple[dict[str, Term], Any]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a model says about one input."""

    text: str
    score: float
    tokens: list[str]
    source_tokens: list[str]
    token_scores: list[float] = field(default_factory=list)
    attention: AttentionMap | None = None
    alternatives: list["Prediction"] = field(default_factory=list)  # the rest of the n-best
    truncated: bool = False  # the input was longer than the model can read
    ids: list[int] = field(default_factory=list)  # of the text, without its end

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of a data set, and of each example in it."""

    metrics: list[Metric]
    examples: list[dict[str, Any]]  # source, reference, hypothesis and scores of each
    counts: dict[str, int]
    decoding: dict[str, Any] = field(default_factory=dict)  # how the predictions were made
    seconds: float | None = None  # that predicting took, without starting up

    @property
    def main(self) -> Metric:
        """The first metric decides which model is best."""
        return self.metrics[0]
