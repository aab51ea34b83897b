"""Batches by number of tokens, alike in length; their order is a function of (seed, epoch)."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from saccade.data.store import PairStore, Store
from saccade.data.tokenizers import Tokenizer
from saccade.errors import InputError
from saccade.randomness import numpy_generator

# Where the tokens of each source, and of each target, begin in the store; one more at the end.
Offsets = tuple[NDArray[np.int64], NDArray[np.int64]]
Indices = NDArray[np.int64]

WINDOW = 1 << 20  # examples that are sorted together: bounds the memory of a plan
ROWS = 64  # texts that are read or decoded together


def by_length(lengths: Sequence[int]) -> list[list[int]]:
    """The places of these lengths in groups of at most ROWS, the longest first."""
    order = sorted(range(len(lengths)), key=lambda place: (-lengths[place], place))
    return [order[start : start + ROWS] for start in range(0, len(order), ROWS)]


def split(batch: Indices, pieces: int) -> list[Indices]:
    """The rows dealt out in turn: they lie by length, so the pieces have equal work."""
    return [batch[piece::pieces] for piece in range(pieces)]


def _windows(count: int) -> list[tuple[int, int]]:
    """Equal stretches of the corpus of at most WINDOW examples: one for all but giant corpora."""
    pieces = -(-count // WINDOW)
    borders = [count * piece // pieces for piece in range(pieces + 1)] if pieces else []
    return list(pairwise(borders))


def _window_order(windows: int, seed: int, epoch: int) -> list[int]:
    return numpy_generator(seed, "windows", epoch).permutation(windows).tolist()


def _plan_window(
    offsets: Offsets, window: tuple[int, int], batch_tokens: int, place: tuple[int, int, int]
) -> list[Indices]:
    """Shuffle, sort by length (ties stay shuffled), cut, shuffle the batches.

    By target first: a padded target position costs a decoder and a softmax, a source one less.
    """
    seed, epoch, number = place
    draw = numpy_generator(seed, "order", epoch, number)
    first, last = window
    shuffled = draw.permutation(np.arange(first, last))
    # Of what is mapped from the disk, only the window comes into memory.
    source, target = (np.diff(side[first : last + 1])[shuffled - first] for side in offsets)
    # Sources rise within one target length and fall within the next: no jump between the two.
    order = np.lexsort((np.where(target % 2, -source, source), target))
    cuts = _cuts(np.maximum(source, target)[order] + 1, batch_tokens)
    batches = np.split(shuffled[order], cuts)
    return [batches[i] for i in draw.permutation(len(batches))]


def _cuts(widths: NDArray[np.int64], batch_tokens: int) -> list[int]:
    """Where to cut rows of these widths so that rows x widest fits."""
    cuts, first, widest = [], 0, 0
    for place, width in enumerate(widths.tolist()):
        widest = max(widest, width)
        if place > first and (place - first + 1) * widest > batch_tokens:
            cuts.append(place)
            first, widest = place, width
    return cuts


class Order:
    """The batch of any step, for ever: nothing is replayed to resume, one window is in memory."""

    every_row = True  # once an epoch

    def __init__(self, offsets: Offsets, batch_tokens: int, seed: int):
        examples = len(offsets[0]) - 1
        if not examples:
            raise InputError("no examples to make batches of")
        self.offsets, self.batch_tokens, self.seed = offsets, batch_tokens, seed
        self.windows = _windows(examples)
        # Where the cuts fall depends on lengths alone, so every epoch has as many batches.
        self.counts = [len(self._plan(0, window)) for window in range(len(self.windows))]
        self.cached: tuple[tuple[int, int], list[Indices]] = ((-1, -1), [])

    def __len__(self) -> int:
        """Batches in an epoch."""
        return sum(self.counts)

    def at(self, step: int) -> tuple[int, int, Indices]:
        """The epoch, the number of the batch in it, and its examples, for a step from 0 on."""
        epoch, index = divmod(step, len(self))
        within = index
        for window in _window_order(len(self.windows), self.seed, epoch):
            if within < self.counts[window]:
                break
            within -= self.counts[window]
        if self.cached[0] != (epoch, window):
            self.cached = ((epoch, window), self._plan(epoch, window))
        return epoch, index, self.cached[1][within]

    def _plan(self, epoch: int, window: int) -> list[Indices]:
        place = (self.seed, epoch, window)
        return _plan_window(self.offsets, self.windows[window], self.batch_tokens, place)


@dataclass(frozen=True, slots=True)
class PairBatch:
    """Padded pairs: a source ends with eos, a target is bos ... eos."""

    source: Int[Tensor, "B S"]
    source_lengths: Int[Tensor, " B"]  # with eos
    target: Int[Tensor, "B T1"]  # T positions to predict, and bos
    target_lengths: Int[Tensor, " B"]  # positions to predict: the tokens and eos

    @property
    def counts(self) -> dict[str, int]:
        """Positions to predict; each term of the loss is a sum over them."""
        names = ("loss", "divergence", "choice", "baseline")
        return dict.fromkeys(names, int(self.target_lengths.sum()))

    def to(self, device: torch.device) -> "PairBatch":
        """The same on another device."""
        return PairBatch(*(getattr(self, field.name).to(device) for field in fields(self)))


def collate(store: PairStore, indices: Indices, reader: Tokenizer, writer: Tokenizer) -> PairBatch:
    """The examples of a batch as padded tensors."""
    source, source_lengths = _fill(store.source, indices, reader.pad, reader.eos)
    target, target_lengths = _fill(store.target, indices, writer.pad, writer.eos)
    begin = np.full((len(indices), 1), writer.bos)
    return PairBatch(
        source=torch.from_numpy(source),
        source_lengths=torch.from_numpy(source_lengths),
        target=torch.from_numpy(np.concatenate([begin, target], axis=1)),
        target_lengths=torch.from_numpy(target_lengths),
    )


def _fill(
    side: Store, indices: Indices, pad: int, eos: int
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Rows of tokens, eos and padding, with their lengths (eos counted)."""
    starts = np.asarray(side.offsets[indices])[:, None]
    lengths = np.asarray(side.offsets[indices + 1])[:, None] - starts
    places = np.arange(int(lengths.max(initial=0)) + 1)
    real = places < lengths
    rows = np.full(real.shape, pad, dtype=np.int64)
    rows[real] = side.tokens[(starts + places)[real]]
    rows[places == lengths] = eos
    return rows, lengths[:, 0] + 1
