"""The training loop, and nothing else: logging, evaluation and saving belong to the caller."""

import enum
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.blocks.dropout import keyed_dropout
from saccade.errors import InputError
from saccade.randomness import key
from saccade.tasks.task import Batch, Objective
from saccade.training.optim import MOMENTS, FlatOptimizer, OptimizerConfig, clip_scale
from saccade.training.team import Team

BLOCK = 1024  # ranks share the flat vector by whole blocks, so that their number changes no bit


class Command(enum.IntEnum):
    """What rank 0 asks of the team at each meeting."""

    UPDATE = 1
    MEET = 2  # all updates so far are complete: what is shared may be read
    EVALUATE = 3
    STOP = 4
    CARRY = 5  # leave what is carried where rank 0 can save it


@dataclass(frozen=True, slots=True)
class Update:
    """What one update did."""

    step: int
    losses: dict[str, float]  # the mean of each term
    count: int  # things the first term is a mean of: tokens, mostly
    grad_norm: float
    rate: float
    applied: bool  # False: a loss or gradient was not finite, nothing was changed


class Weights:
    """A model's parameters in one flat vector, shared by the team, each rank updating its part."""

    def __init__(self, model: nn.Module, config: OptimizerConfig, team: Team, *, ema: bool):
        named = sorted(model.named_parameters(), key=lambda item: item[1].ndim < 2)
        self.names = [name for name, _ in named]
        self.parameters = [parameter for _, parameter in named]
        self.sizes = [parameter.numel() for parameter in self.parameters]
        self.team, total = team, sum(self.sizes)
        device = self.parameters[0].device
        if team.size > 1 and device.type != "cpu":
            raise InputError("train.processes share memory of the CPU: set train.device=cpu")

        self.flat = team.share(total).to(device)
        if team.rank == 0:
            self.flat.copy_(torch.cat([p.detach().flatten() for p in self.parameters]))
        for parameter, stretch in zip(self.parameters, self.flat.split(self.sizes), strict=True):
            parameter.data = stretch.view_as(parameter)
        self.grads = team.share(team.size * total).view(team.size, total).to(device)
        moments = MOMENTS[config.name]
        self.moments = team.share(moments * total).view(moments, total).to(device)
        self.ema = team.share(total).to(device) if ema else None
        self.mine = self._stretches(total)
        self.optimizer = FlatOptimizer(config, self.flat, self.moments, self.mine)

    @staticmethod
    def floats(model: nn.Module, config: OptimizerConfig, ranks: int, *, ema: bool) -> int:
        """How much shared memory a team needs."""
        total = sum(parameter.numel() for parameter in model.parameters())
        return total * (1 + ranks + MOMENTS[config.name] + ema)

    def _stretches(self, total: int) -> list[tuple[slice, bool]]:
        """This rank's share of the matrices, which may decay, and of the vectors, which do not."""
        matrices = sum(p.numel() for p in self.parameters if p.ndim >= 2)
        return [
            (_share(0, matrices, self.team.rank, self.team.size), True),
            (_share(matrices, total, self.team.rank, self.team.size), False),
        ]

    def collect(self) -> None:
        """Move this rank's gradients to where the others see them."""
        grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.parameters]
        torch.cat([grad.flatten() for grad in grads], out=self.grads[self.team.rank])
        for parameter in self.parameters:
            parameter.grad = None

    def reduce(self) -> float:
        """Add up the ranks' gradients in this rank's stretches; their squared norm."""
        squared = 0.0
        for stretch, _ in self.mine:
            for other in range(1, self.team.size):
                self.grads[0, stretch] += self.grads[other, stretch]
            squared += _squared_norm(self.grads[0, stretch])
        return squared

    def apply(self, scale: float, rate: float, number: int, ema: float | None) -> None:
        if scale != 1:
            for stretch, _ in self.mine:
                self.grads[0, stretch] *= scale
        self.optimizer.step(self.grads[0], rate, number)
        if self.ema is not None and ema is not None:
            for stretch, _ in self.mine:
                self.ema[stretch].lerp_(self.flat[stretch], 1 - min(ema, number / (number + 10)))

    def named(self, flat: Float[Tensor, " P"]) -> dict[str, Tensor]:
        """A flat vector as tensors by parameter name."""
        parts = zip(self.names, self.parameters, flat.split(self.sizes), strict=True)
        return {name: part.view_as(parameter) for name, parameter, part in parts}

    def fill(self, flat: Float[Tensor, " P"], tensors: dict[str, Tensor]) -> None:
        """The reverse of `named`, in place."""
        for name, part in self.named(flat).items():
            part.copy_(tensors[name])


def _share(start: int, stop: int, rank: int, ranks: int) -> slice:
    """A rank's part, cut between blocks: kernels round what fills no register differently."""
    size = stop - start
    first, last = (-(-size * place // (ranks * BLOCK)) * BLOCK for place in (rank, rank + 1))
    return slice(start + min(first, size), start + min(last, size))


def _squared_norm(x: Float[Tensor, " P"]) -> float:
    """Block by block, so that it hardly matters how blocks are added up: that is in double."""
    whole = len(x) // BLOCK * BLOCK
    norms = [torch.linalg.vector_norm(x[:whole].view(-1, BLOCK), dim=1)]
    norms.append(torch.linalg.vector_norm(x[whole:]).view(1))
    return float(torch.cat(norms).cpu().double().square().sum())  # mps has no double


@dataclass(slots=True)
class Learner:
    """One rank's part in making updates; the ranks call the same methods in the same order."""

    objective: Objective
    weights: Weights
    team: Team
    seed: int
    clip: float
    ema: float | None = None
    carries: list[Any] = field(default_factory=list)  # by micro-batch: its rows go on in the next
    refused: int = 0  # updates not applied so far
    autocast: Callable[[], AbstractContextManager[Any]] = nullcontext

    def counts(self, pieces: Sequence[Batch]) -> list[float]:
        """How many things each loss term of this rank's micro-batches is a sum of."""
        return [sum(piece.counts[name] for piece in pieces) for name in self.objective.terms]

    def update(
        self, step: int, pieces: Sequence[Batch], counts: Sequence[float], rate: float
    ) -> Update:
        """Make one update from this rank's micro-batches; `counts` are the whole team's."""
        terms = self.objective.terms
        sums = [0.0] * len(terms)
        divisors = [max(count, 1.0) for count in counts]  # a batch may have nothing of a term
        carries = [*self.carries, *[None] * (len(pieces) - len(self.carries))]
        for number, piece in enumerate(pieces):
            place = number * self.team.size + self.team.rank
            with keyed_dropout(key(self.seed, "dropout", step, place), step), self.autocast():
                found, carries[number] = self.objective(piece, carries[number])
            # Each mean is over the global count, so it does not matter how a batch was split.
            loss = sum(
                term.sum * (term.weight / divisors[terms.index(name)])
                for name, term in found.items()
            )
            loss.backward()
            for name, term in found.items():
                assert term.count == piece.counts[name], f"{name}: the batch counted otherwise"
                sums[terms.index(name)] += term.sum.item()
        self.weights.collect()
        totals = self.team.exchange(sums).sum(axis=0)
        norm = math.sqrt(self.team.exchange([self.weights.reduce()]).sum())
        finite = math.isfinite(norm) and bool(np.isfinite(totals).all())
        if finite:
            scale = clip_scale(norm, self.clip)
            self.weights.apply(scale, rate, step - self.refused, self.ema)
            self.carries = carries
        else:
            self.refused += 1
        losses = {name: totals[i] / divisors[i] for i, name in enumerate(terms)}
        return Update(step, losses, int(counts[0]), norm, rate, finite)


def train(
    learner: Learner,
    pieces: Callable[[int], Sequence[Batch]],
    rate: Callable[[int], float],
    start: int,
) -> Iterator[Update]:
    """Rank 0's loop: update after update, from `start` on, for as long as the caller asks."""
    for step in itertools.count(start):
        mine = pieces(step)
        learning_rate = rate(step)
        counts = _meet(learner, Command.UPDATE, learning_rate, learner.counts(mine))
        yield learner.update(step, mine, counts, learning_rate)


def follow(
    learner: Learner,
    pieces: Callable[[int], Sequence[Batch]],
    start: int,
    duties: Mapping[Command, Callable[[], None]],
) -> None:
    """The other ranks' loop: do what rank 0 does until it says stop; `duties` are on demand."""
    step, mine = start, pieces(start)
    while True:
        handed = learner.team.exchange([0.0, 0.0, *learner.counts(mine)])
        command, rate = Command(int(handed[0, 0])), float(handed[0, 1])
        if command is Command.STOP:
            return
        if command is not Command.UPDATE:
            duties.get(command, _nothing)()
            continue
        learner.update(step, mine, handed[:, 2:].sum(axis=0).tolist(), rate)
        step, mine = step + 1, pieces(step + 1)


def _nothing() -> None:
    """Meeting is all that was asked for."""


def call(learner: Learner, command: "Command") -> None:
    """Rank 0 asks the others for something else than an update."""
    _meet(learner, command, 0.0, [0.0] * len(learner.objective.terms))


def _meet(
    learner: Learner, command: "Command", rate: float, counts: Sequence[float]
) -> list[float]:
    handed = learner.team.exchange([command.value, rate, *counts])
    totals: list[float] = handed[:, 2:].sum(axis=0).tolist()
    return totals
