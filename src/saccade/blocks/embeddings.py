"""Tokens to vectors, and back to logits with the same weights."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from saccade.blocks.products import linear


class TokenEmbedding(nn.Module):
    """Vaswani et al. 2017, 3.4:  sqrt(d) E[token], E of variance 1/d so that it also predicts.

    Source, target and output share weights by sharing this module: pass the same object. Models
    that add positions of their own size (GPT) take the rows as they are: scale 1.
    """

    def __init__(
        self, vocab_size: int, dim: int, padding: int | None = None, scale: float | None = None
    ):
        super().__init__()
        self.padding, self.scale = padding, math.sqrt(dim) if scale is None else scale
        self.weight = nn.Parameter(torch.empty(vocab_size, dim))
        nn.init.normal_(self.weight, std=1 / math.sqrt(dim))
        if padding is not None:
            nn.init.zeros_(self.weight[padding])

    def forward(self, tokens: Int[Tensor, "*B"]) -> Float[Tensor, "*B D"]:
        rows = F.embedding(tokens, self.weight, self.padding)
        return rows if self.scale == 1 else rows * self.scale


class TiedOutput(nn.Module):
    """Logits from the embedding's own weights (Press and Wolf 2017):  x E^T, unscaled."""

    def __init__(self, embedding: TokenEmbedding):
        super().__init__()
        self.embedding = embedding

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        return linear(x, self.embedding.weight)
