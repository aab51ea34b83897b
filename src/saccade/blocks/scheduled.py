"""Scheduled sampling (Bengio et al. 2015): how often training reads the true word, by update.

Elsewhere it reads the word that the model holds most probable, as it must when it decodes.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from saccade.errors import InputError

Schedule = Callable[[int], float]  # number of the update -> probability of the true word


@dataclass(frozen=True, slots=True)
class Always:
    """Teacher forcing: the true word, every time."""

    def __call__(self, update: int) -> float:  # noqa: ARG002
        return 1.0


@dataclass(frozen=True, slots=True)
class Linear:
    """max(least, 1 - i / updates)."""

    least: float = 0.5
    updates: int = 10_000

    def __post_init__(self) -> None:
        if not 0 <= self.least <= 1 or self.updates < 1:
            raise InputError(
                f"linear sampling: least is {self.least}, updates {self.updates}; they must be "
                "from 0 to 1, and at least 1"
            )

    def __call__(self, update: int) -> float:
        return max(self.least, 1 - update / self.updates)


@dataclass(frozen=True, slots=True)
class Exponential:
    """k^i, k < 1."""

    k: float = 0.9999

    def __post_init__(self) -> None:
        if not 0 < self.k < 1:
            raise InputError(f"exponential sampling: k is {self.k}, it must be between 0 and 1")

    def __call__(self, update: int) -> float:
        return float(self.k**update)


@dataclass(frozen=True, slots=True)
class InverseSigmoid:
    """k / (k + exp(i / k)), k >= 1."""

    k: float = 2000.0

    def __post_init__(self) -> None:
        if self.k < 1:
            raise InputError(f"inverse-sigmoid sampling: k is {self.k}, it must be at least 1")

    def __call__(self, update: int) -> float:
        return self.k / (self.k + math.exp(min(update / self.k, 700.0)))  # beyond, exp overflows


SAMPLINGS: dict[str, Callable[..., Schedule]] = {
    "none": Always,
    "linear": Linear,
    "exponential": Exponential,
    "inverse-sigmoid": InverseSigmoid,
}
