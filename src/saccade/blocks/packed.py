"""The output projection in the layout of the kernel, for decoding: half of a step's weights.

Measured on two cores without AVX-512, 256 to 8,000: 1.5 times as fast for 64 rows, 2.7 times for 5.
But a call costs 20 microseconds: 128 to 70 (characters) is eight times as slow for one row.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from saccade.blocks.embeddings import TiedOutput, TokenEmbedding

ROWS = 64  # the kernel lays weights out for about so many; any number works
LEAST = 1 << 18  # weights that are worth a call: 128 to 1,000 loses, 128 to 4,000 gains from 5 rows


class PackedOutput(nn.Module):
    """x E^T by weights packed once; where gradients are wanted, by the embedding itself."""

    def __init__(self, embedding: TokenEmbedding):
        super().__init__()
        self.embedding = embedding
        self.packed = torch.ops.mkldnn._reorder_linear_weight(embedding.weight.detach(), ROWS)

    def forward(self, x: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        if torch.is_grad_enabled():
            return F.linear(x, self.embedding.weight)
        y: Tensor = torch.ops.mkldnn._linear_pointwise(x, self.packed, None, "none", [], "")
        return y


def pack(model: nn.Module) -> nn.Module:
    """Pack every tied output of a model, in place, where the processor's library can."""
    for name, part in list(model.named_children()):
        if isinstance(part, TiedOutput) and _packable(part.embedding.weight):
            setattr(model, name, PackedOutput(part.embedding))
        else:
            pack(part)
    return model


def _packable(weight: Tensor) -> bool:
    known = hasattr(torch.ops.mkldnn, "_linear_pointwise") and torch.backends.mkldnn.is_available()
    large = weight.numel() >= LEAST
    return known and large and weight.device.type == "cpu" and weight.dtype == torch.float32
