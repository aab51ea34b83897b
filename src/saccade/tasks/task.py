"""What a task promises the trainer, the command line and the server: see `Task`, at the end."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, get_origin, runtime_checkable

from numpy.typing import NDArray
from torch import Tensor, nn

from saccade.decoding.options import DecodeOptions
from saccade.decoding.tree import BeamTree
from saccade.inspection.alignment import AttentionMap
from saccade.inspection.traces import Tokens, Watch
from saccade.models.contract import members
from saccade.tasks.metrics import Metric

Warn = Callable[[str], None]
Plain = Any  # what JSON can hold: it goes to a file or to another process, and comes back the same


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


@runtime_checkable
class Order(Protocol):
    """The batch of any step, for ever: a pure function of the seed, so nothing is replayed.

    One that has `every_row = True` also promises each row of its store, 0 to len(store) - 1, once
    an epoch.
    """

    def __len__(self) -> int:
        """Batches in an epoch."""

    def at(self, step: int) -> tuple[int, int, NDArray[Any]]:
        """The epoch, the number of the batch in it, and its rows, for a step from 0 on.

        Rows lie on the first axis and are dealt out in turn to micro-batches and ranks: row n of
        every batch of the same size goes to the same place, so a state can be carried there.
        """


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
    read: int = 0  # tokens of the input, without begin and end
    finished: bool = True  # False: cut at the most tokens it may have

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of a data set, and of each example in it."""

    metrics: list[Metric]
    examples: list[dict[str, Any]]  # of translate: source, reference, prediction, its scores
    counts: dict[str, int]
    decoding: dict[str, Any] = field(default_factory=dict)  # how the predictions were made
    seconds: float | None = None  # that predicting took, without starting up
    warnings: list[str] = field(default_factory=list)  # what the one who reads the scores must know

    @property
    def main(self) -> Metric:
        """The first metric decides which model is best."""
        return self.metrics[0]


@runtime_checkable
class Task(Protocol):
    """What is learned, and how it is measured. One file in `tasks/`, one line in `TASKS`.

    The trainer knows nothing else of a task, and a task knows no trainer. An example may give
    several rows (windows of a text, choices of a question): only the task knows.
    """

    kind: ClassVar[str]  # what models have among their `tasks`: a task of your own inherits it
    Config: ClassVar[type]  # a dataclass: the table [task]; has at least `train` and `dev`
    model_field_names: ClassVar[tuple[str, ...]]  # of a model's Config: they come from the data
    usual_model: ClassVar[str]  # in MODELS, when nobody names one
    defaults: ClassVar[Mapping[str, Mapping[str, Any]]]  # tables below presets, such as [train]
    options: ClassVar[DecodeOptions]  # how it predicts when nobody says otherwise
    decodes: ClassVar[bool]  # whether scoring depends on how it predicts
    config: Any

    # --- making and finding it

    @classmethod
    def prepare(cls, config: Any, folder: Path) -> "Task":
        """Learn from the data what has to be known before training, and write it into the run."""

    @classmethod
    def load(cls, config: Any, folder: Path) -> "Task":
        """The task of a run, from what `prepare` wrote."""

    @staticmethod
    def suited(config: Any, model: Any, settings: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The config and the given settings of a class of model, one fitted to the other."""

    @staticmethod
    def resumed(mine: Any, theirs: Any) -> Any:
        """My config for a run begun with theirs: what the data decided then holds on."""

    def fingerprints(self) -> dict[str, str]:
        """A mark of each data set, so that a change is seen."""

    # --- learning

    def model_fields(self) -> dict[str, int]:
        """The values of `model_field_names`."""

    def build(self, model: Any, config: Any) -> nn.Module:
        """A model of this class and config, with fresh weights."""

    def store(self, folder: Path, warn: Warn) -> Any:
        """The training data, ready on disk: made now, or taken from an earlier start if equal."""

    def open(self, folder: Path) -> Any | None:
        """What `store` made, without a look at the sources; None if it is not whole."""

    def order(self, store: Any, batch_tokens: int, seed: int) -> Order:
        """Which rows make each batch."""

    def collate(self, store: Any, rows: NDArray[Any]) -> Any:
        """Some rows of a batch as tensors: a `Batch` that goes `to(device)`."""

    def objective(self, model: nn.Module, smoothing: float) -> Objective:
        """The loss."""

    # --- measuring: whoever has processes deals out the units, in whatever order

    def examples(self, files: Sequence[str], warn: Warn) -> Plain:
        """A data set to be scored on; the dev set is kept in the run."""

    def units(self, examples: Plain) -> list[Plain]:
        """The work cut in pieces of some seconds, the same whatever the number of workers."""

    def measure(self, model: Any, unit: Plain, options: DecodeOptions | None = None) -> Plain:
        """What the model makes of a unit; without options quickly, as during training."""

    def score(self, examples: Plain, measures: Sequence[Plain]) -> Evaluation:
        """The metrics, from what came out of each unit, in the order of `units`."""

    # --- predicting

    def read(self, model: Any, text: str) -> tuple[list[int], bool]:
        """The ids a model reads of a text, and whether some had no room."""

    def predict(
        self,
        model: Any,
        texts: Sequence[str],
        options: DecodeOptions,
        *,
        prefixes: Sequence[str] | None = None,
        attention: Watch = False,
        numbers: Sequence[int] | None = None,
        tree: BeamTree | None = None,
    ) -> list[Prediction]:
        """One prediction a text, in order, the same alone as in any batch.

        `tree`, given with a single text, is filled with what a search considered.
        """

    def stream(
        self,
        model: Any,
        text: str,
        options: DecodeOptions,
        number: int = 0,
        on_cut: Callable[[int], None] = lambda _: None,
    ) -> Iterator[str]:
        """The prediction of one text, piece by piece."""

    def trace(self, model: Any, text: str, prediction: Prediction) -> Tokens:
        """Read a text and its prediction at once, as in training, for who is watching."""


def missing(task: Any) -> list[str]:
    """The promised members that a class of tasks does not have."""
    origins: dict[str, Any] = {n: get_origin(hint) for n, hint in Task.__annotations__.items()}
    of_instances = {name for name, origin in origins.items() if origin is not ClassVar}
    return [n for n in members(Task) if n not in of_instances and not _has(task, n)]


def _has(task: Any, name: str) -> bool:
    """A method that can be called, or a value."""
    found = getattr(task, name, None)
    return callable(found) if callable(getattr(Task, name, None)) else found is not None
