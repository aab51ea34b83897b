"""Chains of order n: relative frequencies, and interpolated Kneser-Ney (Chen & Goodman 1998).

A chain predicts the next token from the last n. Its levels are the contexts of 0, 1, ... n tokens,
each found by the row of the context that is one token shorter and the one older token: one walk
from the newest token back finds all of them.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.blocks.counts import Successors

Discounts = tuple[float, float, float]  # for counts of 1, 2, and 3 or more
Estimate = Callable[[Int[np.ndarray, " G"]], Discounts]


def no_discounts(_counts: Int[np.ndarray, " G"]) -> Discounts:
    return (0.0, 0.0, 0.0)


def one_discount(counts: Int[np.ndarray, " G"]) -> Discounts:
    """D = n1 / (n1 + 2 n2) (Ney et al. 1994), or 1/2 where the counts do not tell."""
    n1, n2 = ((counts == number).sum() for number in (1, 2))
    discount = float(n1 / (n1 + 2 * n2)) if n1 and n2 else 0.5
    return (discount, discount, discount)


def three_discounts(counts: Int[np.ndarray, " G"]) -> Discounts:
    """D_i = i - (i + 1) Y n_(i+1) / n_i, Y = n1 / (n1 + 2 n2); i/2 where the counts do not tell."""
    n = [int((counts == number).sum()) for number in range(5)]
    share = n[1] / (n[1] + 2 * n[2]) if n[1] else 0.0
    found = [i - (i + 1) * share * n[i + 1] / n[i] if n[i] else 0.0 for i in (1, 2, 3)]
    one, two, more = (d if 0 < d < i else i / 2 for i, d in enumerate(found, 1))
    return (one, two, more)


class Chain(nn.Module):
    """Counts of what followed the last 0 to n tokens; the token before a beginning is `outside`."""

    beginnings = False  # is "nothing before" a context of its own?

    def __init__(self, vocab_size: int, order: int, estimate: Estimate = no_discounts):
        super().__init__()
        self.estimate = estimate
        self.vocab_size, self.order, self.outside = vocab_size, order, vocab_size
        self.levels: Any = nn.ModuleList(Successors(vocab_size) for _ in range(order + 1))

    def fit(self, text: Int[np.ndarray, " T"], ages: Int[np.ndarray, " T"]) -> None:
        """Count; `ages` says how many tokens of its sequence are before each token."""
        places = ages.nonzero()[0]
        ids = np.zeros_like(places)
        for length, level in enumerate(self.levels):
            if length:
                older = ages[places] - length
                there = older >= (-1 if self.beginnings else 0)
                places, ids, older = places[there], ids[there], older[there]
                tokens = np.where(older >= 0, text[places - length], self.outside)
                ids = ids * (self.vocab_size + 1) + tokens
            level.count(ids, text[places])
            ids = np.searchsorted(level.keys.cpu().numpy(), ids)

    def walk(self, context: Int[Tensor, "R L"]) -> Iterator[tuple[Successors, Int[Tensor, " R"]]]:
        """Each level with the row of each context in it, -1 where it has none."""
        ids = context.new_zeros(len(context))
        for length, level in enumerate(self.levels):
            if length:
                keys = ids * (self.vocab_size + 1) + context[:, -length]
                ids = level.find(torch.where(ids >= 0, keys, -1))
            elif not len(level.keys):
                ids = ids - 1  # nothing has been counted
            yield level, ids

    def contexts(self) -> Int[Tensor, "C n"]:
        """All contexts of n tokens that were followed by something, newest token last."""
        ids = torch.arange(len(self.levels[-1].keys))
        tokens = []
        for level in reversed(self.levels[1:]):
            keys = level.keys.cpu()[ids]
            ids = keys // (self.vocab_size + 1)
            tokens.append(keys % (self.vocab_size + 1))
        return torch.stack(tokens, dim=1)

    def predict(self, context: Int[Tensor, "R L"]) -> Float[Tensor, "R V"]:
        """Probabilities of the next token; a context nothing is known of has a row of zeros."""
        raise NotImplementedError


class Frequencies(Chain):
    """c(context, w) / c(context); with fewer than n tokens before, the chain of that order."""

    def predict(self, context: Int[Tensor, "R L"]) -> Float[Tensor, "R V"]:
        known = (context[:, -self.order :] != self.outside).sum(1)
        found = torch.zeros(len(context), self.vocab_size, dtype=torch.float64, device=known.device)
        for length, (level, ids) in enumerate(self.walk(context)):
            row, token, share, _ = level.shares(
                torch.where(known == length, ids, -1), found.new_zeros(3)
            )
            found[row, token] = share
        return found


class KneserNey(Chain):
    """p(w | c) = (a(c, w) - D) / a(c) + left(c) p(w | c without its oldest token); base uniform.

    a is the count for contexts of n tokens and for those that reach the beginning, and for shorter
    ones the number of different tokens before (c, w): Chen & Goodman 1998, equations 24 to 27.
    """

    beginnings = True
    discounts: Float[Tensor, "levels 3"]

    def __init__(self, vocab_size: int, order: int, estimate: Estimate):
        super().__init__(vocab_size, order, estimate)
        self.register_buffer("discounts", torch.zeros(order + 1, 3, dtype=torch.float64))

    def fit(self, text: Int[np.ndarray, " T"], ages: Int[np.ndarray, " T"]) -> None:
        super().fit(text, ages)
        for shorter, longer in zip(self.levels[:-1], self.levels[1:], strict=True):
            grams = longer.grams  # the key names the row of the context without its oldest token
            rows = grams // self.vocab_size // (self.vocab_size + 1)
            keys = shorter.keys.cpu().numpy()[rows]
            kept = keys * self.vocab_size + grams % self.vocab_size
            different = np.bincount(
                np.searchsorted(shorter.grams, kept), minlength=len(shorter.tokens)
            )
            counts = shorter.counts.cpu().numpy()
            shorter.fill(shorter.grams, np.where(different > 0, different, counts))
        each = [self.estimate(level.counts.cpu().numpy()) for level in self.levels]
        self.discounts = torch.tensor(each, dtype=torch.float64).to(self.discounts)

    def predict(self, context: Int[Tensor, "R L"]) -> Float[Tensor, "R V"]:
        levels = self.walk(context)
        level, _ = next(levels)  # one row for all: the empty context
        nothing = context.new_zeros(1) if len(level.keys) else context.new_full((1,), -1)
        _, token, share, left = level.shares(nothing, self.discounts[0])
        found = torch.full_like(left, 1 / self.vocab_size).repeat(self.vocab_size) * left
        found[token] += share
        found = found.repeat(len(context), 1)
        for (level, ids), discounts in zip(levels, self.discounts[1:], strict=True):
            row, token, share, left = level.shares(ids, discounts)
            found *= left.unsqueeze(1)
            found[row, token] += share
        return found


CHAINS: dict[str, Callable[[int, int], Chain]] = {  # by smoothing
    "none": Frequencies,
    "kneser-ney": partial(KneserNey, estimate=one_discount),
    "modified-kneser-ney": partial(KneserNey, estimate=three_discounts),
}
