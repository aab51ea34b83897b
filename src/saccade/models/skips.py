"""Second order with skips: every earlier word, paired with the current one, votes for the next.

The road from the Markov chain to attention: a mask keeps the pairs that tell something, and the
mask of the current word is found by a matrix product, one-hot query times the stack of masks.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.blocks.counts import Successors, make_room
from saccade.blocks.masks import window_mask
from saccade.errors import InputError
from saccade.models.ngrams import CHAINS

MOST_WORDS = 1 << 20  # whose triples fit into an int64
DENSE = 256  # words of the largest vocabulary whose tables are written out in full


@dataclass(frozen=True, slots=True)
class Pair:
    """An earlier word and the current one: how often, and what they tell about the next."""

    earlier: int
    current: int
    count: int
    gain: float  # bits, see `Skips.gains`
    kept: bool  # by the mask: its vote counts


class Skips(nn.Module):
    """Each earlier word e of the window votes with p(w | e, current); votes are added, normalised.

    A pair that was never seen, or that the mask drops, has no vote. Where nobody votes, as after
    the first word of a text, the chain of first order answers. Smoothed, a vote is discounted and
    interpolated with that chain.
    """

    mask: Bool[Tensor, " C"]
    discounts: Float[Tensor, "3"]

    def __init__(self, vocab_size: int, window: int, smoothing: str, min_gain: float | None):
        super().__init__()
        self.vocab_size, self.window, self.outside = vocab_size, window, vocab_size
        self.min_gain = min_gain  # None: keep all pairs
        self.first = CHAINS[smoothing](vocab_size, 1)
        self.pairs = Successors(vocab_size)  # keys: current * V + earlier
        self.register_buffer("mask", torch.zeros(0, dtype=torch.bool))
        self.register_buffer("discounts", torch.zeros(3, dtype=torch.float64))
        self.register_load_state_dict_pre_hook(make_room)
        self.register_load_state_dict_post_hook(_refuse_other_mask)

    def fit(self, text: Int[np.ndarray, " T"], ages: Int[np.ndarray, " T"]) -> None:
        """Count all (earlier, current, next) of the window, and learn the mask."""
        self.first.fit(text, ages)
        self.pairs.fill(*_merged(self._triples(text, ages)))
        estimated = self.first.estimate(self.pairs.counts.cpu().numpy())
        self.discounts = torch.tensor(estimated, dtype=torch.float64).to(self.discounts)
        kept = np.ones(len(self.pairs.keys), dtype=bool)
        if self.min_gain is not None:
            kept = self.gains() > self.min_gain
        self.mask = torch.from_numpy(kept).to(self.pairs.keys.device)

    def _triples(
        self, text: Int[np.ndarray, " T"], ages: Int[np.ndarray, " T"]
    ) -> Iterator[Int[np.ndarray, " G"]]:
        """(current, earlier, next) as one number, one distance at a time."""
        size = self.vocab_size
        if size > MOST_WORDS:
            raise InputError(f"{size:,} words make too many pairs: at most {MOST_WORDS:,}")
        for distance in range(2, self.window + 2):  # from the next word to the earlier one
            at = (ages >= distance).nonzero()[0]
            yield (text[at - 1] * size + text[at - distance]) * size + text[at]

    def gains(self) -> Float[np.ndarray, " C"]:
        """What each pair tells beyond its current word, in bits.

        KL(p(w | e, c) || p(w | c)) - (k - 1) / (2 n ln 2): the second term is what a pair seen n
        times would show by chance, after a word that k different words followed (Miller 1955).
        """
        size, first = self.vocab_size, self.first.levels[1]  # whose keys are the words
        keys, totals = self.pairs.keys.cpu().numpy(), self.pairs.totals
        lengths = np.diff(self.pairs.starts.cpu().numpy())
        words, kinds = first.keys.cpu().numpy(), np.diff(first.starts.cpu().numpy())
        row = np.searchsorted(words, keys // size)  # of the current word of each pair
        grams = np.repeat(keys // size, lengths) * size + self.pairs.tokens.cpu().numpy()
        alone = first.counts.cpu().numpy()[np.searchsorted(first.grams, grams)]
        alone = alone / np.repeat(first.totals[row], lengths)
        together = self.pairs.counts.cpu().numpy() / np.repeat(totals, lengths)
        bits = together * np.log2(together / alone)
        told = np.add.reduceat(bits, self.pairs.starts[:-1].cpu().numpy()) if len(bits) else bits
        return told - (kinds[row] - 1) / (2 * totals * np.log(2))

    def table(self) -> list[Pair]:
        """All pairs, those that tell most first."""
        size, keys = self.vocab_size, self.pairs.keys.tolist()
        columns = self.pairs.totals.tolist(), self.gains().tolist(), self.mask.tolist()
        found = [
            Pair(key % size, key // size, *rest) for key, *rest in zip(keys, *columns, strict=True)
        ]
        return sorted(found, key=lambda pair: (-pair.gain, pair.current, pair.earlier))

    def keep(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Set the mask by hand: only these pairs (earlier, current) vote."""
        mask = torch.zeros_like(self.mask)
        for earlier, current in pairs:
            inside = 0 <= earlier < self.vocab_size and 0 <= current < self.vocab_size
            key = current * self.vocab_size + earlier if inside else -1
            row = self.pairs.find(self.pairs.keys.new_tensor([key]))
            if row < 0:
                raise InputError(
                    f"the pair ({earlier}, {current}) cannot be kept: {earlier} never came up to "
                    f"{self.window} words before {current} with a word after it"
                )
            mask[row] = True
        self.mask = mask

    def votes(
        self, context: Int[Tensor, "R L"], first: Float[Tensor, "R V"]
    ) -> Float[Tensor, "R V"]:
        """The sum of the votes for each next word; `first` is what the first order says."""
        current, earlier = context[:, -1:], context[:, :-1]
        keys = torch.where(earlier == self.outside, -1, current * self.vocab_size + earlier)
        ids = self.pairs.find(keys.flatten())
        kept = nn.functional.pad(self.mask, (0, 1))[ids]  # the last for -1: no such pair
        ids = torch.where(kept, ids, -1)
        pair, token, share, left = self.pairs.shares(ids, self.discounts)
        votes = torch.zeros_like(first)
        votes.view(-1).index_add_(0, pair // earlier.shape[1] * self.vocab_size + token, share)
        left = torch.where(kept, left, 0.0).view_as(earlier).sum(1, keepdim=True)
        return votes + left * first

    def predict(self, context: Int[Tensor, "R L"]) -> Float[Tensor, "R V"]:
        """Votes, normalised; the first order where there are none."""
        first = self.first.predict(context[:, -1:])
        votes = self.votes(context, first)
        total = votes.sum(1, keepdim=True)
        return torch.where(total > 0, votes / total, first)


def _refuse_other_mask(skips: Skips, _incompatible: object) -> None:
    if len(skips.mask) != len(skips.pairs.keys):
        raise InputError("the mask is of other pairs: the file of the model is damaged")


def _merged(
    pieces: Iterable[Int[np.ndarray, " _"]],
) -> tuple[Int[np.ndarray, " G"], Int[np.ndarray, " G"]]:
    """The different numbers of all pieces, sorted, and how often each occurs."""
    found = [np.unique(piece, return_counts=True) for piece in pieces]
    numbers, counts = (np.concatenate(part) for part in zip(*found, strict=True))
    order = numbers.argsort(kind="stable")
    numbers, counts = numbers[order], counts[order]
    first = np.diff(numbers, prepend=-1).nonzero()[0]
    return numbers[first], np.add.reduceat(counts, first) if len(first) else counts


@dataclass(frozen=True, slots=True)
class AttentionProduct:
    """The masked votes at each word of a text, as matrix products; all tables are written out."""

    queries: Float[Tensor, "T V"]  # one-hot: the current word
    masks: Float[Tensor, "V V"]  # the stack: a row for each current word, 1 for an earlier one kept
    memory: Float[Tensor, "T V"]  # how often each word is among the earlier ones of the window
    values: Float[Tensor, "V V V"]  # p(next | earlier, current), by current and earlier word

    @property
    def kept(self) -> Float[Tensor, "T V"]:
        """Q M, the mask of the current word, over what is in memory."""
        return (self.queries @ self.masks) * self.memory

    @property
    def votes(self) -> Float[Tensor, "T V"]:
        """The kept pairs as one long vector, times the transition table of all pairs."""
        pairs = self.queries.unsqueeze(2) * self.kept.unsqueeze(1)  # (T, V, V)
        return pairs.flatten(1) @ self.values.flatten(0, 1)


def attention_product(skips: Skips, tokens: Sequence[int]) -> AttentionProduct:
    """What `skips` does while it reads a text, as attention: queries, a stack of masks, values."""
    size = skips.vocab_size
    if size > DENSE:
        raise InputError(
            f"the tables of {size:,} words are too large to write out in full: at most {DENSE}"
        )
    text = torch.tensor(list(tokens), dtype=torch.long)
    queries = nn.functional.one_hot(text, size).double()  # (T, V)
    near = window_mask(len(text), skips.window, after=-1).double()  # (T, T)
    masks, values = torch.zeros(size, size).double(), torch.zeros(size, size, size).double()
    current, earlier = skips.pairs.keys // size, skips.pairs.keys % size
    masks[current, earlier] = skips.mask.double()
    first = skips.first.predict(torch.arange(size).unsqueeze(1))
    pair, token, share, left = skips.pairs.shares(torch.arange(len(current)), skips.discounts)
    values[current, earlier] = left.unsqueeze(1) * first[current]
    values[current[pair], earlier[pair], token] += share
    return AttentionProduct(queries, masks, near @ queries, values)
