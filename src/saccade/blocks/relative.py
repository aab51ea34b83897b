"""Attention by distance instead of place (Transformer-XL, Dai et al. 2019, 3.3)."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from saccade.blocks.attention import CrossAttention, Parts
from saccade.blocks.positions import Sinusoidal
from saccade.blocks.scores import EqualWidths


class RelativeDot(EqualWidths):
    """((q_i + u) . k_j + (q_i + v) . W R_(i-j)) / sqrt(K), where the newest query is the last key.

    R are sinusoids; u, v and W belong to a head. What the score needs besides the keys follows
    from how many there are, so keys can be cached as for any other score.
    """

    depends_on_position = True

    def __init__(self, query_dim: int, key_dim: int, heads: int, distances: Sinusoidal):
        super().__init__(query_dim, key_dim)
        self.distances = distances  # R, one for all layers
        self.content_bias = nn.Parameter(torch.empty(heads, key_dim))  # u
        self.distance_bias = nn.Parameter(torch.empty(heads, key_dim))  # v
        self.distance_proj = nn.Parameter(torch.empty(heads, key_dim, distances.dim))  # W
        nn.init.normal_(self.content_bias, std=0.02)
        nn.init.normal_(self.distance_bias, std=0.02)
        bound = math.sqrt(6 / (heads * key_dim + distances.dim))
        nn.init.uniform_(self.distance_proj, -bound, bound)

    def forward(
        self, query: Float[Tensor, "B H T K"], keys: Float[Tensor, "B H S K"]
    ) -> Float[Tensor, "B H T S"]:
        query = query / math.sqrt(self.query_dim)
        scale = 1 / math.sqrt(self.query_dim)
        by_content = (query + scale * self.content_bias.unsqueeze(1)) @ keys.mT
        by_distance = self._by_distance(
            query + scale * self.distance_bias.unsqueeze(1), keys.shape[-2]
        )
        return by_content + shift(by_distance)

    def _by_distance(self, query: Float[Tensor, "B H T K"], size: int) -> Float[Tensor, "B H T S"]:
        """The products with W R of distances size-1, ..., 1, 0, the same for every query."""
        rows, heads, queries, _ = query.shape
        distances = self.distances.first(size).flip(0)  # (S, D)
        if rows * heads * queries <= self.distances.dim:  # as in decoding: W q is less than W R
            return (query @ self.distance_proj) @ distances.mT
        keys = distances @ self.distance_proj.mT  # (H, S, K)
        # The rows of a batch share these keys: side by side, not a copy of the keys for each.
        products = query.transpose(0, 1).flatten(1, 2) @ keys.mT  # (H, B*T, S)
        return products.unflatten(1, (rows, queries)).transpose(0, 1)


def shift(x: Float[Tensor, "*B T S"]) -> Float[Tensor, "*B T S"]:
    """Move row i to the left by T-1-i: columns of distances become columns of keys (appendix B).

    One zero a row, read as if rows were as long as columns, does it without an index. What comes
    to stand behind a query's own place belongs to the row below, and is for a mask to hide.
    """
    queries, size = x.shape[-2:]
    if queries == 1:
        return x
    turned = F.pad(x, (1, 0)).reshape(*x.shape[:-2], size + 1, queries)
    return turned[..., 1:, :].reshape(x.shape)


class RelativeAttention(CrossAttention):
    """Multi-head attention to a memory and to the sequence behind it, by content and distance."""

    def __init__(self, dim: int, heads: int, distances: Sinusoidal, *, dropout: float = 0.0):
        score = partial(RelativeDot, heads=heads, distances=distances)
        super().__init__(dim, heads, Parts(score=score, bias=False, dropout=dropout))
