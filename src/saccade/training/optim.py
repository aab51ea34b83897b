"""Learning rates as functions of progress, clipping, and optimisers over flat parameters."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.errors import InputError


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a training run stands: updates made, and the share of its budget used."""

    step: int  # the update about to be made, from 1
    share: float  # 0 at the start, 1 when steps or minutes are used up


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    peak: float
    warmup: int  # updates
    dim: int | None  # the model's width, for the paper's formula; not every model has one
    floor: float = 0.0  # share of the peak that linear and cosine end with


def _constant(progress: Progress, rates: Rates) -> float:
    return rates.peak * _ramp(progress, rates)


def _linear(progress: Progress, rates: Rates) -> float:
    """Straight down to the floor at the end of the budget."""
    return rates.peak * min(_ramp(progress, rates), _above(rates.floor, 1 - progress.share))


def _cosine(progress: Progress, rates: Rates) -> float:
    half = (1 + math.cos(math.pi * progress.share)) / 2
    return rates.peak * min(_ramp(progress, rates), _above(rates.floor, half))


def _inverse_sqrt(progress: Progress, rates: Rates) -> float:
    """The paper's shape, reaching `peak` at the end of the warm-up."""
    warmup = max(rates.warmup, 1)
    return rates.peak * min(_ramp(progress, rates), math.sqrt(warmup / progress.step))


def _paper(progress: Progress, rates: Rates) -> float:
    """Vaswani et al. 2017, eq. 3:  dim^-0.5 min(step^-0.5, step warmup^-1.5); `peak` is unused."""
    assert rates.dim is not None
    warmup = max(rates.warmup, 1)
    return rates.dim**-0.5 * min(progress.step**-0.5, progress.step * warmup**-1.5)


def _above(floor: float, share: float) -> float:
    """From 1 to the floor instead of from 1 to 0."""
    return floor + (1 - floor) * share if floor else share


def _ramp(progress: Progress, rates: Rates) -> float:
    return min(1.0, progress.step / rates.warmup) if rates.warmup else 1.0


SCHEDULES: dict[str, Callable[[Progress, Rates], float]] = {
    "linear": _linear,
    "cosine": _cosine,
    "constant": _constant,
    "inverse-sqrt": _inverse_sqrt,
    "paper": _paper,
}


def clip_scale(norm: float, limit: float) -> float:
    """G <- min(1, limit / |g|) g: the factor, exactly 1 at or below the limit, safe at zero."""
    return 1.0 if norm <= limit else limit / norm


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimizerConfig:
    name: Literal["sgd", "adam", "adamw"] = "adamw"
    beta1: float = 0.9
    beta2: float = 0.98
    eps: float = 1e-9
    weight_decay: float = 0.0  # of matrices; norms and biases are left alone
    momentum: float = 0.0  # of sgd

    def __post_init__(self) -> None:
        for name in ("beta1", "beta2", "momentum"):
            if not 0 <= getattr(self, name) < 1:
                raise InputError(
                    f"{name} is {getattr(self, name)}, it must be at least 0 and less than 1"
                )
        for name in ("eps", "weight_decay"):
            if not 0 <= getattr(self, name) < math.inf:
                raise InputError(f"{name} is {getattr(self, name)}, it must be at least 0")


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some of a flat parameter, with its gradient and what the optimiser remembers of it."""

    weights: Float[Tensor, " P"]
    grads: Float[Tensor, " P"]
    moments: list[Tensor]
    decay: float


Rule = Callable[[Stretch, "OptimizerConfig", float, int], None]  # rate, number of the update


# Torch's own functions, not its Optimizer classes: those import its compiler, seconds of a start.
def _sgd(stretch: Stretch, config: OptimizerConfig, rate: float, number: int) -> None:
    """Plain: x <- x - rate g; with momentum: m <- momentum m + g, x <- x - rate m."""
    step = stretch.grads
    if stretch.decay:
        step = step + stretch.decay * stretch.weights
    if config.momentum:
        step = stretch.moments[0].mul_(config.momentum if number > 1 else 0).add_(step)
    stretch.weights.sub_(step, alpha=rate)


def _adaptive(update: Callable[..., object]) -> Rule:
    """Adam (Kingma & Ba 2015), or with decoupled decay AdamW (Loshchilov & Hutter 2019)."""

    def step(stretch: Stretch, config: OptimizerConfig, rate: float, number: int) -> None:
        first, second = stretch.moments
        update(
            [stretch.weights], [stretch.grads], [first], [second], [],
            [torch.tensor(float(number), device=stretch.weights.device)],
            lr=rate, beta1=config.beta1, beta2=config.beta2, eps=config.eps,
            weight_decay=stretch.decay, amsgrad=False, maximize=False,
        )  # fmt: skip

    return step


OPTIMIZERS: dict[str, Rule] = {
    "sgd": _sgd,
    "adam": _adaptive(torch._fused_adam_),
    "adamw": _adaptive(torch._fused_adamw_),
}
# How many numbers each remembers about a weight.
MOMENTS: Mapping[str, int] = {"sgd": 1, "adam": 2, "adamw": 2}


class FlatOptimizer:
    """An optimiser of some stretches of one flat parameter, its moments stored by the caller."""

    def __init__(
        self,
        config: OptimizerConfig,
        flat: Float[Tensor, " P"],
        moments: Float[Tensor, "M P"],
        stretches: list[tuple[slice, bool]],  # and whether weights decay there
    ):
        self.config, self.flat, self.moments = config, flat, moments
        self.stretches = [
            (where, decays) for where, decays in stretches if where.stop > where.start
        ]

    @torch.no_grad()
    def step(self, grads: Float[Tensor, " P"], rate: float, number: int) -> None:
        """Update the stretches in place: the `number`-th update, from 1."""
        for where, decays in self.stretches:
            stretch = Stretch(
                self.flat[where],
                grads[where],
                [moment[where] for moment in self.moments],
                self.config.weight_decay * decays,
            )
            OPTIMIZERS[self.config.name](stretch, self.config, rate, number)
