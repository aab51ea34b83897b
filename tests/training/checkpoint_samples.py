"""Checkpoints to save, and when two are the same."""

import pytest
import torch
from torch import Tensor

from saccade.training.checkpoint import (
    Checkpoint,
)


def make(step: int, value: float = 0.0) -> Checkpoint:
    model = {"weight": torch.full((3, 4), step + value), "bias": torch.full((4,), step + value)}
    optimizer = {"weight.m": torch.full((3, 4), -float(step)), "weight.t": torch.tensor(step)}
    state = {"best": 0.5, "to_average": [step], "value": value}
    return Checkpoint(step=step, tensors={"model": model, "optimizer": optimizer}, state=state)


def same(a: Checkpoint | None, b: Checkpoint) -> bool:
    if a is None or (a.step, a.state) != (b.step, b.state):
        return False
    return a.tensors.keys() == b.tensors.keys() and all(
        identical(a.tensors[stem], b.tensors[stem]) for stem in b.tensors
    )


def identical(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    """Equal names, shapes, dtypes and bits."""

    def bits(t: Tensor) -> tuple[torch.dtype, torch.Size, bytes]:
        return t.dtype, t.shape, bytes(t.contiguous().reshape(-1).view(torch.uint8).tolist())

    return a.keys() == b.keys() and all(bits(a[name]) == bits(b[name]) for name in b)


def fail(text: str) -> None:
    pytest.fail(f"unexpected warning: {text}")
