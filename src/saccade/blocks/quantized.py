"""Linear maps in 8 bits, for decoding in batches: weights by row, activations as they come.

Activations have eight bits and weights seven: with eight of both, the instruction that adds two
products in 16 bits overflows, 2 * 255 * 127 > 2^15 > 2 * 255 * 63. Weights miss the bit less, since
each row of them has a scale of its own.
"""

import warnings

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.blocks.embeddings import TiedOutput
from saccade.blocks.scores import Concat, Location

MOST = 63  # of a weight


class QuantizedLinear(nn.Module):
    """y = W x + b with W in seven bits, a scale for each output, and one scale for all of x.

    One activation scale a tensor means that a row's result depends a little on its neighbours.
    """

    def __init__(self, weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None):
        super().__init__()
        scales = weight.detach().abs().amax(dim=1).clamp(min=1e-12) / MOST
        zeros = torch.zeros(len(weight), dtype=torch.long)
        with warnings.catch_warnings():  # torch announces a successor that has no CPU kernels yet
            warnings.simplefilter("ignore")
            quantized = torch.quantize_per_channel(
                weight.detach(), scales.double(), zeros, 0, torch.qint8
            )
        bias = None if bias is None else bias.detach()
        self.packed = torch.ops.quantized.linear_prepack(quantized, bias)

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        y: Tensor = torch.ops.quantized.linear_dynamic(x, self.packed)
        return y


def quantize(model: nn.Module) -> nn.Module:
    """Replace every linear map of a model, the tied output too, in place."""
    for name, part in list(model.named_children()):
        if isinstance(part, nn.Linear):
            setattr(model, name, QuantizedLinear(part.weight, part.bias))
        elif isinstance(part, TiedOutput):
            setattr(model, name, QuantizedLinear(part.embedding.weight, None))
        elif not isinstance(part, (Concat, Location)):  # which take parts of their matrices
            quantize(part)
    return model
