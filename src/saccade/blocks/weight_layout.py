"""Weights in the order that decoding reads them fastest in; the maps stay what they are.

For a row or two, matrices are kept by columns, which costs nothing: 256 to 1,024 is 1.4 times as
fast for one row, 1,024 to 256 1.2 times.

For more rows, oneDNN reads a copy that it laid out once: 256 to 1,024 is 2.7 times as fast for 5
rows, 2 for 20, 1.3 for 64. A call costs 10 microseconds more than torch's, so small products stay.
oneDNN makes a kernel for every number of rows it meets, of half a megabyte, and keeps it: rows are
filled up to one of some thirty numbers.
"""

from typing import Any

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
    """Copies of a matrix in the orders its products are fastest in, made when they are needed.

    A matrix that changes, or is moved, is laid out anew.
    """

    def __init__(self) -> None:
        self.of: Tensor | None = None  # the matrix laid out
        self.version = self.place = -1  # how often it had changed by then, and where it was

    def __getstate__(self) -> dict[str, Any]:
        return {}  # a copy makes its own

    def __setstate__(self, _: object) -> None:
        Layout.__init__(self)

    def _of_now(self, weight: Float[Tensor, "O I"]) -> bool:
        same = weight is self.of and weight._version == self.version
        return same and weight.data_ptr() == self.place  # a move is no change that it counts

    def _lay_out(self, weight: Float[Tensor, "O I"]) -> None:
        self.of, self.version, self.place = weight, weight._version, weight.data_ptr()
        self.plain = _plain(weight)
        found = weight.detach()
        self.columns = found if found.mT.is_contiguous() or not self.plain else by_columns(found)
        self.packed: Tensor | None = None

    def __call__(
        self,
        x: Float[Tensor, "*B I"],
        weight: Float[Tensor, "O I"],
        bias: Float[Tensor, " O"] | None,
    ) -> Float[Tensor, "*B O"]:
        """The map x W^T + b, without gradients."""
        if x.dim() == 2:
            return self.rows(x, weight, bias)
        outputs, inputs = weight.shape
        return self.rows(x.reshape(-1, inputs), weight, bias).view(*x.shape[:-1], outputs)

    def rows(
        self,
        x: Float[Tensor, "N I"],
        weight: Float[Tensor, "O I"],
        bias: Float[Tensor, " O"] | None,
    ) -> Float[Tensor, "N O"]:
        if not self._of_now(weight):
            self._lay_out(weight)
        rows = x.shape[0]
        if rows <= FEW:
            return F.linear(x, self.columns, bias)
        worth_it = rows <= MANY and rows * weight.numel() >= LEAST
        if not (worth_it and self.plain and x.dtype is torch.float32):
            return linear(x, weight, bias)
        if self.packed is None:
            self.packed = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), ROWS)
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
        self.layout = Layout()

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        if torch.is_grad_enabled():
            return super().forward(x)
        return self.layout(x, self.weight, self.bias)


class PackedOutput(nn.Module):
    """x E^T by copies of E laid out once; where gradients are wanted, by the embedding itself."""

    def __init__(self, embedding: TokenEmbedding):
        super().__init__()
        self.embedding = embedding
        self.layout = Layout()

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        if torch.is_grad_enabled():
            return linear(x, self.embedding.weight)
        return self.layout(x, self.embedding.weight, None)


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
    return weight.device.type == "cpu" and weight.dtype == torch.float32 and _counted(weight)


def _counted(weight: Tensor) -> bool:
    """Whether changes are counted: else nobody would see that a copy is of before."""
    return not weight.is_inference()
