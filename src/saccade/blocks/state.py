"""The contract between models and search: a decoder steps, its state is a value made of rows."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

Same = TypeVar("Same", bound="State")  # typing.Self, which beartype refuses in a protocol


@runtime_checkable
class State(Protocol):
    """What a decoder has read so far, one row a sequence.

    Rows may differ in age, source length and cache length: each has its own position and mask.
    What belongs to a source is stored once and indexed by row. A state is never changed in place:
    stepping it twice with different tokens gives two independent futures.
    """

    @property
    def rows(self) -> int: ...

    def select(self: Same, rows: Int[Tensor, " N"]) -> Same:
        """Keep these rows, in this order, repeats allowed."""

    def join(self: Same, other: Same) -> Same:
        """The rows of both, `self` first: requests may enter a running batch."""


S = TypeVar("S", bound=State)


@runtime_checkable
class Decoder(Protocol[S]):
    """Anything that predicts one token at a time, from a Markov chain to a Transformer."""

    def start(self, inputs: Any, prefix: Sequence[Sequence[int]] | None = None) -> S:
        """The state before the first step; a prefix (exactly one a row) has been read at once."""

    def step(self, token: Int[Tensor, " N"], state: S) -> tuple[Float[Tensor, "N V"], S]:
        """Logits of the token after `token`, and the state that has read it.

        Search works on the CPU: tokens, and the rows given to `select`, come from there. Steps are
        for decoding: a cache is written in place, and who wants gradients calls `forward`.
        """
