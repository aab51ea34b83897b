"""What every rank of a training run holds: the task, the model, its data and its part of a step."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TextIO

import torch
from torch import nn

from saccade.data.batches import split
from saccade.data.store import open_store
from saccade.errors import InputError
from saccade.randomness import key
from saccade.training.loop import Learner, Weights
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
    task: Any
    module: nn.Module
    learner: Learner
    team: Team
    order: Any
    store: Any
    dev: tuple[list[str], list[str]] | None

    def pieces(self, step: int) -> list[Any]:
        """This rank's micro-batches of an update (from 1): a pure function of seed and step."""
        ranks, accumulate = self.team.size, self.settings.train.accumulate
        _, _, indices = self.order.at(step - 1)
        mine = split(indices, ranks * accumulate)[self.team.rank :: ranks]
        device = next(self.module.parameters()).device
        return [self.task.collate(self.store, part).to(device) for part in mine if len(part)]

    def decode_dev(self) -> list[tuple[int, str]]:
        """This rank's share of the dev set, translated: (number, text)."""
        assert self.dev is not None
        sources, _ = self.dev
        # Dealt by length, so that all ranks finish together.
        order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
        mine = order[self.team.rank :: self.team.size]
        self.module.eval()
        found = self.task.predict_dev(self.module, [sources[number] for number in mine])
        self.module.train()
        return list(zip(mine, found, strict=True))

    def report_dev(self, channel: TextIO) -> None:
        """Hand this rank's share to rank 0."""
        channel.write(json.dumps(self.decode_dev()) + "\n")
        channel.flush()

    def collect_dev(self) -> list[str]:
        """Rank 0: all translations of the dev set, in order."""
        found = self.decode_dev()
        for member in self.team.members:
            assert member.stdout is not None
            line = member.stdout.readline()
            if not line:
                member.wait()
                self.team.check()
            found += [(number, text) for number, text in json.loads(line)]
        return [text for _, text in sorted(found)]


def assemble(
    run: Run, settings: Settings, task: Any, team: Callable[[nn.Module], Team], warn: Warn
) -> Crew:
    """Build model and data; the team is called once the model's size is known."""
    config = settings.train
    keep_memory()
    torch.manual_seed(key(config.seed, "init"))
    module = build_module(settings, task).to(device_of(config.device)).train()
    store = open_store(run.tokens)
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
    return Crew(run, settings, task, module, learner, members, order, store, run.dev())


def refuse_batch_statistics(module: nn.Module, pieces: int) -> None:
    if pieces > 1 and any(getattr(part, "depends_on_batch", False) for part in module.modules()):
        raise InputError(
            "batch norm over time depends on the batch: set train.processes=1 and "
            "train.accumulate=1, or take model.norm=layer"
        )
