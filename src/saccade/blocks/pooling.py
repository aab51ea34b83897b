"""Attention pooling: one vector out of a set of pairs (key, value), for what is asked.

    pool(q) = sum_i alpha(q, k_i) v_i

alpha is how well key i answers the query, normalised so that all together are one: divided by their
sum, or by softmax. Nadaraya-Watson regression and looking up keywords are the smallest examples.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from saccade.blocks.attention import ScoreMaker
from saccade.blocks.masks import masked_softmax
from saccade.blocks.recording import Observed
from saccade.blocks.scores import Additive, Gaussian
from saccade.errors import InputError

# (matches (*B, T, S), mask) -> weights (*B, T, S) that sum to one, or to zero where nothing matches
Normalise = Callable[[Tensor, Tensor | None], Tensor]


def by_sum(
    matches: Float[Tensor, "*B T S"], mask: Bool[Tensor, "*#B #T S"] | None = None
) -> Float[Tensor, "*B T S"]:
    """Each match, which must not be negative, divided by the sum of all."""
    if mask is not None:
        matches = matches.masked_fill(~mask, 0.0)
    if (matches < 0).any():
        raise InputError(
            f"a match is {matches.min().item():g}: only what is not negative can be divided by its "
            "sum; normalise by softmax instead"
        )
    total = matches.sum(-1, keepdim=True)
    return torch.where(total > 0, matches / torch.where(total > 0, total, 1.0), 0.0)


def pool(
    matches: Float[Tensor, "*B T S"],
    values: Float[Tensor, "*B S P"],
    mask: Bool[Tensor, "*#B #T S"] | None = None,
    normalise: Normalise = masked_softmax,
) -> Float[Tensor, "*B T P"]:
    """The values averaged for each query, by how well their keys match it."""
    return normalise(matches, mask) @ values


def nadaraya_watson(
    query: Float[Tensor, "*B T D"],
    keys: Float[Tensor, "*B S D"],
    values: Float[Tensor, "*B S P"],
    width: float = 1.0,
) -> Float[Tensor, "*B T P"]:
    """Nadaraya 1964, Watson 1964:  sum_i K(q - k_i) v_i / sum_j K(q - k_j), K a Gaussian."""
    if width <= 0:
        raise InputError(f"the width of a kernel is {width}, it must be above 0")
    dim = query.shape[-1]
    return pool(Gaussian(dim, dim)(query / width, keys / width), values)


class AttentionPooling(Observed):
    """A sequence, or any set, to one vector: what is asked is learned (Yang et al. 2016, 2.2)."""

    def __init__(self, dim: int, *, score: ScoreMaker = Additive):
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, dim) / dim**0.5)
        self.score = score(dim, dim)

    def forward(
        self, x: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"] | None = None
    ) -> Float[Tensor, "B D"]:
        query = self.query.expand(len(x), 1, -1)
        allowed = None if mask is None else mask.unsqueeze(1)
        weights = masked_softmax(self.score(query, self.score.prepare(x)), allowed)  # (B, 1, S)
        if self.watcher is not None:
            self.watcher(weights.unsqueeze(1))
        return (weights @ x).squeeze(1)
