"""Weights in the order that decoding reads them fastest in; the maps stay what they are.

The layers' matrices are kept by columns, which costs nothing. Measured on two cores without
AVX-512: 256 to 1,024 is 1.6 times as fast for one row, 1.5 times for 5, 1.3 times for 20, 1.1 times
for 64. Back from 1,024 to 256 it would lose.

The output projection, half of a step's weights, is packed by the library: 256 to 8,000 is 1.5 times
as fast for 64 rows, 2.7 times for 5. For one row columns win again, 2.2 times, so it has both. But
a call costs 20 microseconds: packed, 128 to 70 (characters) is eight times as slow for one row.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from saccade.blocks.embeddings import TiedOutput, TokenEmbedding
from saccade.blocks.products import Linear, linear

FEW = 3  # rows up to which columns are faster than the kernel
ROWS = 64  # the kernel lays weights out for about so many; any number works
LEAST = 1 << 18  # weights that are worth a call: 128 to 1,000 loses, 128 to 4,000 gains from 5 rows


class PackedOutput(nn.Module):
    """x E^T by copies of E laid out once; where gradients are wanted, by the embedding itself."""

    def __init__(self, embedding: TokenEmbedding):
        super().__init__()
        self.embedding = embedding
        weight = embedding.weight.detach()
        self.packed = torch.ops.mkldnn._reorder_linear_weight(weight, ROWS)
        self.columns = by_columns(weight)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        if torch.is_grad_enabled():
            return linear(x, self.embedding.weight)
        if x.numel() <= FEW * x.shape[-1]:
            return F.linear(x, self.columns)
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, None, "none", [], "")
        return y


def pack(model: nn.Module) -> nn.Module:
    """Pack every tied output of a model and turn its linear maps, in place, where that gains."""
    for name, part in list(model.named_children()):
        if isinstance(part, TiedOutput) and _packable(part.embedding.weight):
            setattr(model, name, PackedOutput(part.embedding))
        elif isinstance(part, Linear):  # somebody's own map may be looked at as it lies
            keep_by_columns(part)
        else:
            pack(part)
    return model


def by_columns(weight: Float[Tensor, "O I"]) -> Float[Tensor, "O I"]:
    """The same matrix, a column after the other in memory."""
    return weight.mT.contiguous().mT


def keep_by_columns(linear: nn.Linear) -> None:
    """Turn the weights of a map that has at least as many outputs as inputs."""
    if linear.out_features >= linear.in_features and _plain(linear.weight):
        linear.weight.data = by_columns(linear.weight.data)


def _packable(weight: Tensor) -> bool:
    known = hasattr(torch.ops.mkldnn, "_linear_pointwise") and torch.backends.mkldnn.is_available()
    return known and weight.numel() >= LEAST and _plain(weight)


def _plain(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32
