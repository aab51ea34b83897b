"""What a model promises: all that tasks and commands ask of it. `saccade check` looks for it first.

How it must behave (no future, no padding, step by step as at once) is tested by
`inspection/model_checks.py`. A model that learns by counting, `counts = True`, has `fit(texts)` and
neither `output_weight` nor `alignment_layers`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from jaxtyping import Float, Int
from torch import Tensor

from saccade.blocks.sequences import Padded
from saccade.blocks.state import Decoder, State


class Architecture(Protocol):
    """The class itself, as `--model` finds it in `MODELS` or in a user's file."""

    Config: type  # a frozen dataclass; fields that end in vocab_size come from the data
    PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]]  # by name: tables `model` and `train`
    default_preset: str
    paper: str  # or in a line what it is
    tasks: tuple[str, ...]  # the kinds of task that it does, each the `kind` of a `Task`


class Model(Decoder[State], Protocol):
    """What every model has; `start` and `step` are those of any decoder."""

    limit: int | None  # the longest sequence it can read
    alignment_layers: Sequence[str]  # the attentions from target to source, by module name
    output_weight: Float[Tensor, "V D"]  # of the last hidden vectors to logits

    def logits(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        """Of the next token."""
        ...


class TranslationModel(Model, Protocol):
    """Of the task translate, made by `cls(config, joint=...)`: do both sides share embeddings?

    `start` is given the sources, `Padded`.
    """

    def forward(self, source: Padded, target: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """Hidden vectors, each having read its target token, those before it, and the source."""
        ...


class LanguageModel(Model, Protocol):
    """Of the task generate, made by `cls(config)`; `start` is given the number of rows."""

    sight: int | None  # the most tokens that, read at once, equal decoding token by token

    def forward(
        self, tokens: Int[Tensor, "B T"], carry: Any = None
    ) -> tuple[Float[Tensor, "B T D"], Any]:
        """Hidden vectors, and what the next segment of the same texts is given; None: nothing."""
        ...


def learns_by_counting(model: Any) -> bool:
    """Whether a model, or a class of them, has `fit` instead of a loss."""
    return bool(getattr(model, "counts", False))


WITHOUT = {"output_weight", "alignment_layers"}  # of a model that counts


def missing(model: Any) -> list[str]:
    """The promised members that a model does not have."""
    kind = LanguageModel if "generate" in getattr(model, "tasks", ()) else TranslationModel
    promised = [*members(Architecture), *members(kind)]
    excused = WITHOUT if learns_by_counting(model) else ()
    return [name for name in promised if name not in excused and not hasattr(model, name)]


def members(protocol: Any) -> list[str]:
    """What a protocol and those it extends declare."""
    declared = ({**vars(cls).get("__annotations__", {}), **vars(cls)} for cls in protocol.__mro__)
    return [name for names in declared for name in names if name[0] != "_"]
