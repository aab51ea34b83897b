"""Dropout whose masks are a function of a key, drawn faster than torch's on a CPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

_RANGE = 2**16  # a mask element is decided by 16 random bits: four from each 64-bit draw
_masks: np.random.Generator | None = None  # set by keyed_dropout while a micro-batch runs


@contextmanager
def keyed_dropout(key: int) -> Iterator[None]:
    """Inside, every mask follows from `key` and the order of calls, and from nothing else."""
    global _masks  # noqa: PLW0603  modules deep in a model have no other way to learn the key
    torch.manual_seed(key)  # for devices and compiled code, which draw their own
    _masks = np.random.Generator(np.random.SFC64(key))
    try:
        yield
    finally:
        _masks = None


def _keep(like: Tensor, p: float, generator: np.random.Generator) -> Tensor:
    """Zeros with probability p, elsewhere 1 / (1 - p)."""
    bits = np.frombuffer(generator.bytes(2 * like.numel()), np.int16)
    cut = round(p * _RANGE) - _RANGE // 2
    kept = torch.from_numpy(bits >= cut).to(like.dtype)
    return kept.mul_(1 / (1 - p)).view_as(like)


class Dropout(nn.Module):
    """Srivastava et al. 2014: zero each element with probability p, scale the rest by 1/(1-p)."""

    def __init__(self, p: float):
        super().__init__()
        self.p = p

    def forward(self, x: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
        if not self.training or self.p == 0:
            return x
        if _masks is None or x.device.type != "cpu" or torch.compiler.is_compiling():
            return F.dropout(x, self.p)
        return x * _keep(x, self.p, _masks)

    def extra_repr(self) -> str:
        return f"p={self.p}"
