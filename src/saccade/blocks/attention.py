"""Attention in three steps: score every key, softmax the scores, average the values.

    attention(q, k, v) = softmax(score(q, k)) v

Each module projects its inputs to heads and calls `attend`, which takes the fused kernel, or the
formula when somebody watches or the score is not the kernel's. Self- and cross-attention keep
their projections packed: one matrix product instead of two or three.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from saccade.blocks.dropout import Dropout
from saccade.blocks.masks import masked_softmax
from saccade.blocks.products import Linear
from saccade.blocks.recording import Inside, Observed
from saccade.blocks.scores import ScaledDot, Score
from saccade.errors import InputError

ScoreMaker = Callable[[int, int], Score]  # (query width, key width) -> a score


def split_heads(x: Float[Tensor, "B T D"], heads: int) -> Float[Tensor, "B H T K"]:
    batch, size, dim = x.shape
    return x.view(batch, size, heads, dim // heads).transpose(1, 2)


def self_attention(x: Float[Tensor, "*B T D"]) -> Float[Tensor, "*B T D"]:
    """Without any weights:  A_i = sum_j softmax_j(x_i . x_j) x_j."""
    return masked_softmax(x @ x.mT) @ x


@dataclass(frozen=True, kw_only=True, slots=True)
class Widths:
    """The widths of a multi-head attention: inputs, one head's projections, output."""

    query: int
    key: int
    value: int
    head: int  # p_q = p_k of one head
    value_head: int  # p_v of one head
    output: int

    @classmethod
    def equal(cls, dim: int, heads: int) -> "Widths":
        """The paper's: every input and the output `dim` wide, a head dim / heads."""
        if dim % heads:
            raise InputError(f"dim ({dim}) must be a multiple of heads ({heads})")
        head = dim // heads
        return cls(query=dim, key=dim, value=dim, head=head, value_head=head, output=dim)


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What an attention is made of, besides its widths."""

    score: ScoreMaker = ScaledDot
    bias: bool = True
    dropout: float = 0.0  # of the weights


USUAL = Parts()


class Attention(Observed):
    """What all attentions share: weigh the values by the scores, join the heads, project.

    All heads share the weights of the score, if it has any: a head has projections of its own.
    """

    probes = switchable = True

    def __init__(self, widths: Widths, heads: int, parts: Parts = USUAL):
        super().__init__()
        self.heads, self.width = heads, widths.value_head
        self.score = parts.score(widths.head, widths.head)
        self.output = Linear(heads * widths.value_head, widths.output, bias=parts.bias)
        self.dropout = Dropout(parts.dropout)
        self.kernel = type(self.score) is ScaledDot  # the one score that the kernel computes

    @property
    def drops(self) -> bool:
        """Whether weights are dropped: the kernel's own dropout is not a function of our keys."""
        return self.training and self.dropout.p > 0

    @property
    def plain(self) -> bool:
        """Whether the kernel is all there is: nobody looks, and nothing is switched off."""
        return self.kernel and not self.watched and self.switches is None and not self.drops

    def context(
        self,
        query: Float[Tensor, "B H T K"],
        keys: Float[Tensor, "B H S K2"],
        value: Float[Tensor, "B H S P"],
        mask: Bool[Tensor, "#B #H #T S"] | None = None,
    ) -> Float[Tensor, "B T J"]:
        """The heads' weighted averages, joined; `keys` have been through `score.prepare`."""
        if self.kernel and not self.watched and not self.drops:
            averages = F.scaled_dot_product_attention(query, keys, value, mask)
        else:
            scores = self.score(query, keys)
            weights = masked_softmax(scores, mask)
            averages = self.dropout(weights) @ value
            if self.watcher is not None:
                self.watcher(weights)
            if self.probe is not None:
                self.probe(Inside(weights, query, keys, value, scores, mask, averages))
        return self.kept(averages).transpose(1, 2).flatten(-2)

    def attend(
        self,
        query: Float[Tensor, "B H T K"],
        keys: Float[Tensor, "B H S K2"],
        value: Float[Tensor, "B H S P"],
        mask: Bool[Tensor, "#B #H #T S"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        return self.output(self.context(query, keys, value, mask))


class MultiHeadAttention(Attention):
    """Vaswani et al. 2017, 3.2.2:  head_i = attention(q W_i^q, k W_i^k, v W_i^v), joined by W^o."""

    def __init__(self, widths: Widths, heads: int, parts: Parts = USUAL):
        super().__init__(widths, heads, parts)
        self.query = Linear(widths.query, heads * widths.head, bias=parts.bias)
        self.key = Linear(widths.key, heads * widths.head, bias=parts.bias)
        self.value = Linear(widths.value, heads * widths.value_head, bias=parts.bias)
        for projection in (self.query, self.key, self.value):
            _xavier(projection, parts=1)

    def forward(
        self,
        query: Float[Tensor, "B T Q"],
        key: Float[Tensor, "B S C"],
        value: Float[Tensor, "B S E"],
        mask: Bool[Tensor, "#B #H #T S"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        q = split_heads(self.query(query), self.heads)  # (B, H, T, K)
        k = split_heads(self.key(key), self.heads)  # (B, H, S, K)
        v = split_heads(self.value(value), self.heads)  # (B, H, S, P)
        return self.attend(q, self.score.prepare(k), v, mask)


class SelfAttention(Attention):
    """Multi-head attention of a sequence to itself, with one packed projection."""

    def __init__(self, dim: int, heads: int, parts: Parts = USUAL):
        super().__init__(Widths.equal(dim, heads), heads, parts)
        self.query_key_value = Linear(dim, 3 * dim, bias=parts.bias)
        _xavier(self.query_key_value, parts=3)

    def project(self, x: Float[Tensor, "B T D"]) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, prepared keys and values, each (B, H, T, K)."""
        batch, size, dim = x.shape
        packed = self.query_key_value(x).view(batch, size, 3, self.heads, dim // self.heads)
        q, k, v = packed.transpose(1, 3).unbind(2)  # from (B, T, 3, H, K)
        return q, self.score.prepare(k), v

    def forward(
        self, x: Float[Tensor, "B T D"], mask: Bool[Tensor, "#B #H #T T"] | None = None
    ) -> Float[Tensor, "B T D"]:
        return self.attend(*self.project(x), mask)


class CrossAttention(Attention):
    """Multi-head attention to a memory whose keys and values are projected once."""

    def __init__(self, dim: int, heads: int, parts: Parts = USUAL):
        super().__init__(Widths.equal(dim, heads), heads, parts)
        self.query = Linear(dim, dim, bias=parts.bias)
        self.key_value = Linear(dim, 2 * dim, bias=parts.bias)
        _xavier(self.query, parts=1)
        _xavier(self.key_value, parts=2)

    def project(self, memory: Float[Tensor, "B S D"]) -> tuple[Tensor, Tensor]:
        """Prepared keys and values, each (B, H, S, K)."""
        batch, size, dim = memory.shape
        packed = self.key_value(memory).view(batch, size, 2, self.heads, dim // self.heads)
        k, v = packed.transpose(1, 3).unbind(2)  # from (B, S, 2, H, K)
        return self.score.prepare(k), v

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        keys: Float[Tensor, "B H S K"],
        value: Float[Tensor, "B H S P"],
        mask: Bool[Tensor, "#B #H #T S"] | None = None,
    ) -> Float[Tensor, "B T D"]:
        return self.attend(split_heads(self.query(x), self.heads), keys, value, mask)


def _xavier(packed: nn.Linear, parts: int) -> None:
    """Glorot & Bengio 2010, for each of the square matrices packed into one."""
    bound = math.sqrt(6 / (packed.in_features + packed.out_features // parts))
    nn.init.uniform_(packed.weight, -bound, bound)
    if packed.bias is not None:
        nn.init.zeros_(packed.bias)
