"""Randomness is a function, not a state: every draw is keyed by what it is for.

A key is a hash of (seed, purpose, step or epoch, micro-batch or example), so nothing has to be
stored to resume, and the same draws come out whatever the number of processes.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


def key(seed: int, purpose: str, *place: int) -> int:
    """A 63-bit number that depends on nothing but its arguments."""
    text = ":".join([str(seed), purpose, *map(str, place)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 1


def numpy_generator(seed: int, purpose: str, *place: int) -> np.random.Generator:
    """A generator for data order and masking."""
    return np.random.Generator(np.random.Philox(key(seed, purpose, *place)))


def torch_generator(seed: int, purpose: str, *place: int) -> "torch.Generator":
    """A generator for sampling and initialisation, on the CPU."""
    import torch

    return torch.Generator().manual_seed(key(seed, purpose, *place))


@contextmanager
def seeded(number: int) -> Iterator[None]:
    """Inside, what torch draws by itself, as for a new module's weights, follows from the number.

    Outside, its state is as it was: that is the caller's.
    """
    import torch

    used = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=used):
        torch.manual_seed(number)
        yield
