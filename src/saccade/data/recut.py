"""Subword dropout: the same words, cut in other ways (BPE-dropout, Provilkov et al. 2020).

BPE puts a word together from its letters, always by the best merge there is. With dropout each
merge that is possible at a step is left out of that step at some rate, so that a word comes out in
other, mostly smaller pieces. A model that has seen "woman" also as "wo man" knows more of "women".

Here it acts within each token of the usual cut, which is a word or a part of a long one: then a
table of ways to cut each token, drawn once, cuts a corpus as often as wanted by looking up.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.data.tokenizers import Tokenizer
from saccade.errors import InputError
from saccade.randomness import numpy_generator

WAYS = 32  # drawn for each token
AS_IT_IS = WAYS  # and one more: not cut at all
Counts = NDArray[np.int64]


class Recut:
    """A tokenizer's table: for each token `WAYS` ways to cut it, each in so many smaller tokens."""

    def __init__(self, tokenizer: Tokenizer, rate: float):
        model = json.loads(tokenizer.inner.to_str())["model"]
        if not model.get("merges"):
            raise InputError(
                "task.subword_dropout leaves out merges, and this tokenizer has none: "
                'take tokenizer = "bpe", or leave subword_dropout out'
            )
        vocabulary: dict[str, int] = model["vocab"]
        ranks = {tuple(_pair(merge)): rank for rank, merge in enumerate(model["merges"])}
        ways = [[[token]] * (WAYS + 1) for token in range(tokenizer.vocab_size)]
        for text, token in vocabulary.items():
            if token not in tokenizer.specials and all(letter in vocabulary for letter in text):
                chances = _chances(token)
                drawn = [put_together(text, ranks, rate, chances) for _ in range(WAYS)]
                ways[token][:WAYS] = [[vocabulary[piece] for piece in way] for way in drawn]
        self.pieces = np.array([piece for each in ways for way in each for piece in way])
        self.lengths = np.array([[len(way) for way in each] for each in ways])
        self.starts = np.cumsum(self.lengths).reshape(self.lengths.shape) - self.lengths

    def __call__(
        self,
        tokens: NDArray[Any],
        lengths: Counts,
        draw: np.random.Generator,
        most: int | None = None,
    ) -> tuple[NDArray[Any], Counts]:
        """Texts of these lengths, one after the other, cut anew; and their new lengths.

        A text that would have more than `most` tokens keeps the cut it has.
        """
        first = np.cumsum(lengths) - lengths
        way = draw.integers(WAYS, size=len(tokens))
        if most is not None:
            long = np.add.reduceat(self.lengths[tokens, way], first) > most
            way[np.repeat(long, lengths)] = AS_IT_IS
        counts, starts = self.lengths[tokens, way], self.starts[tokens, way]
        ends = np.cumsum(counts)
        within = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
        return self.pieces[np.repeat(starts, counts) + within], np.add.reduceat(counts, first)


def put_together(
    letters: str, ranks: Mapping[tuple[str, ...], int], rate: float, chances: Iterator[float]
) -> list[str]:
    """Merge the best pair that is not left out, until all are left out or none is there."""
    pieces = list(letters)
    while offered := [
        (ranks[pair], place)
        for place, pair in enumerate(pairwise(pieces))
        if pair in ranks and next(chances) >= rate
    ]:
        _, place = min(offered)
        pieces[place : place + 2] = [pieces[place] + pieces[place + 1]]
    return pieces


def _pair(merge: str | list[str]) -> list[str]:
    """A merge as tokenizer.json has it, today or of old."""
    return merge.split(" ") if isinstance(merge, str) else merge


def _chances(token: int) -> Iterator[float]:
    """Numbers in [0, 1), for ever, for one token."""
    draw = numpy_generator(0, "ways to cut", token)
    while True:
        yield from draw.random(256).tolist()
