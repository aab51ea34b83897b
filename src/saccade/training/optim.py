"""Learning rates as functions of progress, clipping, and optimisers over flat parameters."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor
from torch.optim import SGD, Adam, AdamW, Optimizer


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a training run stands: updates made, and the share of its budget used."""

    step: int  # the update about to be made, from 1
    share: float  # 0 at the start, 1 when steps or minutes are used up


@dataclass(frozen=True, kw_only=True, slots=True)
class Rates:
    peak: float
    warmup: int
    dim: int  # the model's width, for the paper's formula


def _constant(progress: Progress, rates: Rates) -> float:
    return rates.peak * _ramp(progress, rates)


def _linear(progress: Progress, rates: Rates) -> float:
    """Straight down to zero at the end of the budget."""
    return rates.peak * min(_ramp(progress, rates), 1 - progress.share)


def _cosine(progress: Progress, rates: Rates) -> float:
    return rates.peak * min(_ramp(progress, rates), (1 + math.cos(math.pi * progress.share)) / 2)


def _inverse_sqrt(progress: Progress, rates: Rates) -> float:
    """The paper's shape, reaching `peak` at the end of the warm-up."""
    warmup = max(rates.warmup, 1)
    return rates.peak * min(_ramp(progress, rates), math.sqrt(warmup / progress.step))


def _paper(progress: Progress, rates: Rates) -> float:
    """Vaswani et al. 2017, eq. 3:  dim^-0.5 min(step^-0.5, step warmup^-1.5); `peak` is unused."""
    warmup = max(rates.warmup, 1)
    return rates.dim**-0.5 * min(progress.step**-0.5, progress.step * warmup**-1.5)


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


def _sgd(parts: list[dict[str, Any]], config: OptimizerConfig) -> Optimizer:
    """X <- x - rate g."""
    return SGD(parts, lr=0.0, momentum=config.momentum)


def _adam(parts: list[dict[str, Any]], config: OptimizerConfig) -> Optimizer:
    betas = (config.beta1, config.beta2)
    return Adam(parts, lr=0.0, betas=betas, eps=config.eps, fused=True)


def _adamw(parts: list[dict[str, Any]], config: OptimizerConfig) -> Optimizer:
    betas = (config.beta1, config.beta2)
    return AdamW(parts, lr=0.0, betas=betas, eps=config.eps, fused=True)


OPTIMIZERS: dict[str, Callable[[list[dict[str, Any]], OptimizerConfig], Optimizer]] = {
    "sgd": _sgd,
    "adam": _adam,
    "adamw": _adamw,
}
# What each remembers about a parameter, so that it can live in memory of our choosing.
MOMENTS: Mapping[str, tuple[str, ...]] = {
    "sgd": ("momentum_buffer",),
    "adam": ("exp_avg", "exp_avg_sq"),
    "adamw": ("exp_avg", "exp_avg_sq"),
}


class FlatOptimizer:
    """An optimiser of some stretches of one flat parameter, its moments stored by the caller."""

    def __init__(
        self,
        config: OptimizerConfig,
        flat: Float[Tensor, " P"],
        moments: Float[Tensor, "M P"],
        stretches: list[tuple[slice, bool]],  # and whether weights decay there
    ):
        self.stretches = [(stretch, decays) for stretch, decays in stretches if _size(stretch)]
        self.parts = [torch.nn.Parameter(flat[stretch]) for stretch, _ in self.stretches]
        groups = [
            {"params": [part], "weight_decay": config.weight_decay * decays}
            for part, (_, decays) in zip(self.parts, self.stretches, strict=True)
        ]
        self.optimizer = OPTIMIZERS[config.name](groups, config) if groups else None
        for part, (stretch, _) in zip(self.parts, self.stretches, strict=True):
            assert self.optimizer is not None
            self.optimizer.state[part] = {
                name: moments[number, stretch] for number, name in enumerate(MOMENTS[config.name])
            }

    def step(self, grads: Float[Tensor, " P"], rate: float, number: int) -> None:
        """Update the stretches in place: the `number`-th update, from 1."""
        if self.optimizer is None:
            return
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        for part, (stretch, _) in zip(self.parts, self.stretches, strict=True):
            part.grad = grads[stretch]
            self.optimizer.state[part]["step"] = torch.tensor(float(number - 1))
        self.optimizer.step()


def _size(stretch: slice) -> int:
    return int(stretch.stop) - int(stretch.start)
