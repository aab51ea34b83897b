"""Dropout whose masks are a function of a key, drawn faster than torch's on a CPU."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Float64
from torch import Tensor, nn

_RANGE = 2**16  # a mask element is decided by 16 random bits: four from each 64-bit draw
_masks: np.random.Generator | None = None  # set by keyed_dropout while a micro-batch runs
_update = 0  # likewise: which update it is part of


@contextmanager
def keyed_dropout(key: int, update: int = 0) -> Iterator[None]:
    """Inside, every mask follows from `key` and the order of calls, and from nothing else."""
    global _masks, _update  # modules deep in a model have no other way to learn them
    torch.manual_seed(key)  # for devices and compiled code, which draw their own
    _masks, _update = np.random.Generator(np.random.SFC64(key)), update
    try:
        yield
    finally:
        _masks, _update = None, 0


def current_update() -> int:
    """The number of the update that is being made, for what changes as training goes on."""
    return _update


def _keep(like: Tensor, p: float, generator: np.random.Generator) -> Tensor:
    """Zeros with probability p, elsewhere 1 / (1 - p)."""
    bits = np.frombuffer(generator.bytes(2 * like.numel()), np.int16)
    cut = round(p * _RANGE) - _RANGE // 2
    kept = torch.from_numpy(bits >= cut).to(like.dtype)
    return kept.mul_(1 / (1 - p)).view_as(like)


def keyed_uniform(like: Float64[Tensor, "*N"]) -> Float64[Tensor, "*N"]:
    """Numbers in [0, 1) for what a model draws while it trains; they follow from the key too."""
    if _masks is None or like.device.type != "cpu" or torch.compiler.is_compiling():
        return torch.rand_like(like)
    return torch.from_numpy(_masks.random(tuple(like.shape)))


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
