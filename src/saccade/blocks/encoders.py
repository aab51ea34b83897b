"""Encoders for recurrent decoders: a memory of the source, and a summary for the first state."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from saccade.blocks.dropout import Dropout
from saccade.blocks.masks import padding_mask
from saccade.blocks.positions import Sinusoidal
from saccade.blocks.products import Linear
from saccade.blocks.recurrent import Recurrent
from saccade.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderSizes:
    """What every encoder is built from."""

    input_dim: int
    dim: int
    layers: int
    cell: str
    bidirectional: bool
    norm: str
    dropout: float


class RecurrentEncoder(nn.Module):
    """Cells over the source, both directions by default (Bahdanau et al. 2015, 3.2).

    Its summary is the last hidden vector of each layer, both directions side by side.
    """

    def __init__(self, sizes: EncoderSizes):
        super().__init__()
        self.stack = Recurrent(
            sizes.input_dim, sizes.dim, cell=sizes.cell, layers=sizes.layers,
            bidirectional=sizes.bidirectional, dropout=sizes.dropout, norm=sizes.norm,
        )  # fmt: skip
        self.memory_dim = self.stack.output_dim
        self.summary_dim = self.stack.output_dim

    def forward(
        self, x: Float[Tensor, "B S E"], lengths: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B S M"], list[Float[Tensor, "B Z"]]]:
        memory, ends = self.stack(x, lengths)
        directions = self.stack.directions
        layers = range(0, len(ends), directions)
        return memory, [torch.cat([e[0] for e in ends[i : i + directions]], -1) for i in layers]


class ConvolutionalEncoder(nn.Module):
    """Gehring et al. 2017:  x <- (x + GLU(conv(x))) / sqrt(2), layer by layer, and positions.

    Padding is zero before every convolution, as what lies beyond a source's ends is.
    Its summary is the mean over the source.
    """

    def __init__(self, sizes: EncoderSizes, kernel: int = 3):
        super().__init__()
        if kernel < 1 or kernel % 2 == 0:
            raise InputError(f"kernel of a convolutional encoder is {kernel}, it must be odd")
        self.enter = Linear(sizes.input_dim, sizes.dim)
        self.positions = Sinusoidal(sizes.dim)
        self.convolutions = nn.ModuleList(
            nn.Conv1d(sizes.dim, 2 * sizes.dim, kernel, padding=kernel // 2)
            for _ in range(sizes.layers)
        )
        self.dropout = Dropout(sizes.dropout)
        self.memory_dim = self.summary_dim = sizes.dim

    def forward(
        self, x: Float[Tensor, "B S E"], lengths: Int[Tensor, " B"]
    ) -> tuple[Float[Tensor, "B S M"], list[Float[Tensor, "B Z"]]]:
        size = x.shape[1]
        real = padding_mask(lengths, size).unsqueeze(-1)  # (B, S, 1)
        x = self.enter(x) + self.positions.first(size)
        for convolution in self.convolutions:
            inside = self.dropout(x * real).mT
            x = (x + F.glu(convolution(inside).mT, dim=-1)) * math.sqrt(0.5)
        x = x * real
        mean = x.sum(1) / lengths.clamp(min=1).unsqueeze(-1)
        return x, [mean] * len(self.convolutions)


ENCODERS: dict[str, type[nn.Module]] = {
    "recurrent": RecurrentEncoder,
    "convolutional": ConvolutionalEncoder,
}
