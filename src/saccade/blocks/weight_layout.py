"""Weights in the order that decoding reads them fastest in; the maps stay what they are.

For a row or two, matrices are kept by columns, which costs nothing: 256 to 1,024 is 1.4 times as
fast for one row, 1,024 to 256 1.2 times.

For more rows, oneDNN reads a copy that it laid out once: 256 to 1,024 is 2.7 times as fast for 5
rows, 2 for 20, 1.3 for 64. A call costs 10 microseconds more than torch's, so small products stay.
oneDNN makes a kernel for every number of rows it meets, of half a megabyte, and keeps it: rows are
filled up to one of some thirty numbers.
"""

from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from saccade.blocks.embeddings import TiedOutput, TokenEmbedding
from saccade.blocks.products import Linear, linear

FEW = 2  # rows up to which columns are faster than the kernel
MANY = 512  # rows from which on the layout gains little
ROWS = 64  # the kernel lays weights out for about so many; any number works
LEAST = 1 << 19  # multiplications that are worth a call
FILLED_UP = ((8, 1), (64, 8), (MANY, 32))  # up to so many rows, to a multiple of so many


class Layout:
    """One matrix W (O, I) in several orders in memory; the packed one is made when it is needed."""

    def __init__(self, weight: Float[Tensor, "O I"], columns: Float[Tensor, "O I"]):
        self.weight, self.columns = weight, columns

    @cached_property
    def packed(self) -> Tensor:
        with torch.no_grad():
            packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(self.weight.detach(), ROWS)
        return packed

    def __call__(
        self, x: Float[Tensor, "N I"], bias: Float[Tensor, " O"] | None
    ) -> Float[Tensor, "N O"]:
        """The map x W^T + b of rows, without gradients."""
        rows = x.shape[0]
        if rows <= FEW:
            return F.linear(x, self.columns, bias)
        if rows > MANY or rows * self.weight.numel() < LEAST:
            return linear(x, self.weight, bias)
        more = filled_up(rows) - rows
        if more:
            x = F.pad(x, (0, 0, 0, more))
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, bias, "none", [], "")
        return y[:rows] if more else y


def filled_up(rows: int) -> int:
    """So many rows or a few more: one of the numbers that have kernels."""
    step = next(step for most, step in FILLED_UP if rows <= most)
    return -(-rows // step) * step


class PackedLinear(Linear):
    """A linear map by its layout; where gradients are wanted, by its weights as they lie."""

    def __init__(self, plain: Linear):
        nn.Module.__init__(self)
        self.in_features, self.out_features = plain.in_features, plain.out_features
        self.weight, self.bias = plain.weight, plain.bias
        self.training = plain.training
        self.layout = Layout(self.weight, self.weight)

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        if torch.is_grad_enabled():
            return super().forward(x)
        return self.layout(x.flatten(0, -2), self.bias).unflatten(0, x.shape[:-1])


class PackedOutput(nn.Module):
    """x E^T by copies of E laid out once; where gradients are wanted, by the embedding itself."""

    def __init__(self, embedding: TokenEmbedding):
        super().__init__()
        self.embedding = embedding
        weight = embedding.weight.detach()
        self.layout = Layout(weight, by_columns(weight))

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        if torch.is_grad_enabled():
            return linear(x, self.embedding.weight)
        return self.layout(x.flatten(0, -2), None).unflatten(0, x.shape[:-1])


def pack(model: nn.Module) -> nn.Module:
    """Lay out every linear map and tied output of a model, in place, where that gains."""
    for name, part in list(model.named_children()):
        if isinstance(part, TiedOutput) and _packable(part.embedding.weight):
            setattr(model, name, PackedOutput(part.embedding))
        elif type(part) is Linear:  # somebody's own map may be looked at as it lies
            keep_by_columns(part)
            if _packable(part.weight):
                setattr(model, name, PackedLinear(part))
        else:
            pack(part)
    return model


def by_columns(weight: Float[Tensor, "O I"]) -> Float[Tensor, "O I"]:
    """The same matrix, a column after the other in memory."""
    return weight.mT.contiguous().mT


def keep_by_columns(linear: nn.Linear) -> None:
    """Turn the weights of a map."""
    if _plain(linear.weight):
        linear.weight.data = by_columns(linear.weight.data)


def _packable(weight: Tensor) -> bool:
    known = hasattr(torch.ops.mkldnn, "_linear_pointwise") and torch.backends.mkldnn.is_available()
    return known and weight.numel() * MANY >= LEAST and _plain(weight)


def _plain(weight: Tensor) -> bool:
    return weight.device.type == "cpu" and weight.dtype == torch.float32
