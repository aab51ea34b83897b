"""What every rank of a training run holds: the task, the model, its data and its part of a step."""

import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

import torch
from torch import Tensor, nn

from saccade.data.batches import split
from saccade.errors import InputError, TrainingError
from saccade.randomness import key, seeded
from saccade.tasks.task import Order, Plain, Task
from saccade.training import carry
from saccade.training.failures import answer_of, attempted
from saccade.training.loop import Command, Learner, Weights, call
from saccade.training.machine import autocast, device_of, keep_memory
from saccade.training.run import Run, build_module
from saccade.training.settings import Settings
from saccade.training.team import Team

Warn = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Crew:
    """One rank's share of a run."""

    run: Run
    settings: Settings
    task: Task
    module: nn.Module
    learner: Learner
    team: Team
    order: Order
    store: Any
    dev: Plain | None
    units: list[Plain]  # the work of one evaluation

    def pieces(self, step: int) -> list[Any]:
        """This rank's micro-batches of an update (from 1): a pure function of seed and step."""
        if not any(True for _ in self.module.parameters()):
            return []  # a model that counts
        ranks, accumulate = self.team.size, self.settings.train.accumulate
        _, _, rows = self.order.at(step - 1)
        mine = split(rows, ranks * accumulate)[self.team.rank :: ranks]
        device = next(self.module.parameters()).device
        return [self.task.collate(self.store, part).to(device) for part in mine if len(part)]

    def measure_dev(self) -> list[tuple[int, Plain]]:
        """This rank's share of the dev set: the number of each unit, and what came out."""
        rank, ranks = self.team.rank, self.team.size
        self.module.eval()
        with torch.no_grad():
            found = [
                (number, self.task.measure(self.module, self.units[number]))
                for number in range(rank, len(self.units), ranks)
            ]
        self.module.train()
        return found

    def report_dev(self, channel: TextIO) -> None:
        """Hand this rank's share to rank 0."""
        channel.write(json.dumps(attempted(self.measure_dev)) + "\n")
        channel.flush()

    def collect_dev(self) -> list[Plain]:
        """Rank 0: what came out of every unit of the dev set, in order."""
        found = self.measure_dev()
        for member in self.team.members:
            assert member.stdout is not None
            line = member.stdout.readline()
            if not line:
                member.wait()
                self.team.check()
            found += [(number, measure) for number, measure in answer_of(json.loads(line))]
        return [measure for _, measure in sorted(found, key=lambda each: each[0])]

    # --- what is carried from update to update

    def leave_carries(self) -> None:
        """Leave this rank's carries for rank 0 to save; on a full disk nothing, which it sees."""
        packed = carry.pack(self.learner.carries, self.team.rank, self.team.size)
        with contextlib.suppress(TrainingError):
            carry.leave(self.run.path, self.team.rank, packed)

    def collect_carries(self) -> dict[str, Tensor]:
        """Rank 0: the carries of all ranks; empty where the task carries nothing.

        A rank that could not leave its own is a TrainingError.
        """
        packed = carry.pack(self.learner.carries, 0, self.team.size)
        if not packed or self.team.size == 1:
            return packed
        call(self.learner, Command.CARRY)
        call(self.learner, Command.MEET)  # who comes to this has left its own
        others = range(1, self.team.size)
        missing = [rank for rank in others if not carry.left(self.run.path, rank)]
        for rank in others:
            packed |= carry.take(self.run.path, rank)
        if missing:
            raise TrainingError(
                f"training process {missing[0]} could not write what it carries to {self.run.path}"
            )
        return packed

    def deal_carries(self, packed: dict[str, Tensor]) -> None:
        """Rank 0: give every rank its carries back, those of a checkpoint or none."""
        for rank in range(1, self.team.size):
            carry.take(self.run.path, rank)  # what an earlier process may have left
            theirs = carry.unpack(packed, rank, self.team.size)
            if theirs:
                carry.leave(self.run.path, rank, carry.pack(theirs, rank, self.team.size))
        self.learner.carries = list(carry.unpack(packed, 0, self.team.size))

    def take_carries(self) -> None:
        """The other ranks: take up what rank 0 dealt."""
        packed = carry.take(self.run.path, self.team.rank)
        self.learner.carries = list(carry.unpack(packed, self.team.rank, self.team.size))


def assemble(
    run: Run, settings: Settings, task: Task, team: Callable[[nn.Module], Team], warn: Warn
) -> Crew:
    """Build model and data; the team is called once the model's size is known."""
    config = settings.train
    keep_memory()
    with seeded(key(config.seed, "init")):
        module = build_module(settings, task)
    module = module.to(device_of(config.device)).train()
    store = task.open(run.tokens)
    if store is None:
        store = task.store(run.tokens, warn)
    refuse_batch_statistics(module, (config.processes or 1) * config.accumulate)
    members = team(module)
    weights = Weights(module, config.optimizer, members, ema=config.ema is not None)
    objective = task.objective(module, config.smoothing)
    if config.compile:
        objective.compile()
    learner = Learner(
        objective, weights, members, config.seed, config.clip, config.ema,
        autocast=autocast(config.precision, config.device),
    )  # fmt: skip
    order = task.order(store, config.batch_tokens, config.seed)
    dev = run.dev()
    units = [] if dev is None else task.units(dev)
    return Crew(run, settings, task, module, learner, members, order, store, dev, units)


def refuse_batch_statistics(module: nn.Module, pieces: int) -> None:
    if pieces > 1 and any(getattr(part, "depends_on_batch", False) for part in module.modules()):
        raise InputError(
            "batch norm over time depends on the batch: set train.processes=1 and "
            "train.accumulate=1, or take a norm of each example, such as layer norm"
        )
