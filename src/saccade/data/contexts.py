"""Batches of contexts: stretches of a token stream, each predicting its next tokens.

`Shuffled` takes every context once an epoch, in an order drawn for it. `Lanes` reads the stream
in so many places at once, each going on where it was, for models that carry a state.
Both are functions of (seed, epoch): any batch can be had without those before it.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from saccade.data.streams import TokenStream
from saccade.errors import InputError
from saccade.randomness import numpy_generator

Rows = NDArray[np.int64]  # (B, 3): first place, tokens to predict, whether nothing came before


class Shuffled:
    """Contexts that lie side by side, from a place drawn for the epoch on, in a drawn order."""

    def __init__(self, tokens: int, context: int, batch_tokens: int, seed: int):
        self.length = min(context, _predictable(tokens))
        self.tokens, self.seed = tokens, seed
        self.rows = max(1, batch_tokens // self.length)
        # One fewer than there is room for, so that they may begin anywhere within a context.
        self.contexts = max(1, tokens // self.length - 1)
        self.cached: tuple[int, Rows] = (-1, np.zeros((0, 3), np.int64))

    def __len__(self) -> int:
        """Batches in an epoch."""
        return math.ceil(self.contexts / self.rows)

    def at(self, step: int) -> tuple[int, int, Rows]:
        """The epoch, the number of the batch in it, and its contexts, for a step from 0 on."""
        epoch, index = divmod(step, len(self))
        if self.cached[0] != epoch:
            self.cached = (epoch, self._plan(epoch))
        return epoch, index, self.cached[1][index * self.rows : (index + 1) * self.rows]

    def _plan(self, epoch: int) -> Rows:
        draw = numpy_generator(self.seed, "contexts", epoch)
        room = self.tokens - 1 - self.contexts * self.length
        offset = int(draw.integers(min(room + 1, self.length)))
        starts = offset + draw.permutation(self.contexts) * self.length
        return _rows(starts, self.length, fresh=True)


class Lanes:
    """Equal parts of the stream, each read from begin to end: lane n is row n of every batch."""

    def __init__(self, tokens: int, context: int, batch_tokens: int, seed: int):
        size = _predictable(tokens)
        self.context, self.seed = min(context, size), seed
        # Left out, here or there by turns, so that the borders of contexts move.
        self.spare = min(self.context - 1, size // 10)
        self.lanes = max(1, min(batch_tokens, size - self.spare) // self.context)
        self.length = (size - self.spare) // self.lanes

    def __len__(self) -> int:
        """Batches in an epoch."""
        return math.ceil(self.length / self.context)

    def at(self, step: int) -> tuple[int, int, Rows]:
        """The epoch, the number of the batch in it, and where its lanes are, from 0 on."""
        epoch, index = divmod(step, len(self))
        offset = int(numpy_generator(self.seed, "lanes", epoch).integers(self.spare + 1))
        begin = index * self.context
        length = min(self.context, self.length - begin)
        starts = offset + np.arange(self.lanes) * self.length + begin
        return epoch, index, _rows(starts, length, fresh=index == 0)


def _predictable(tokens: int) -> int:
    if tokens < 2:
        raise InputError("the training text has no token to predict: it is empty")
    return tokens - 1


def _rows(starts: Rows, length: int, *, fresh: bool) -> Rows:
    return np.stack([starts, np.full_like(starts, length), np.full_like(starts, fresh)], axis=1)


@dataclass(frozen=True, slots=True)
class TokenBatch:
    """Contexts of one length, and the token after each of theirs."""

    tokens: Int[Tensor, "B T"]
    gold: Int[Tensor, "B T"]
    scored: int  # of the gold tokens: all but the begin of a text
    fresh: bool  # nothing is carried into it

    @property
    def counts(self) -> dict[str, int]:
        return {"loss": self.scored}

    def to(self, device: torch.device) -> "TokenBatch":
        """The same on another device."""
        return TokenBatch(
            self.tokens.to(device), self.gold.to(device), self.scored, self.fresh
        )  # fmt: skip


def collate_contexts(stream: TokenStream, rows: Rows, silent: int) -> TokenBatch:
    """The contexts of a batch as tensors; `silent` is the token that is never predicted."""
    (length,) = {*rows[:, 1].tolist()}
    places = rows[:, :1] + np.arange(length + 1)
    found = torch.from_numpy(stream.tokens[places].astype(np.int64))
    gold = found[:, 1:]
    scored = int((gold != silent).sum())
    return TokenBatch(found[:, :-1], gold, scored, bool(rows[0, 2]))
