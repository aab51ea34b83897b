"""A model that counts (Markov) as the trainer sees it: a run of one update, which reads the texts.

Everything else is as in any run: the folder, the evaluation, the card, the checkpoint.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from saccade.tasks.task import Objective, Task
from saccade.training.crew import Crew
from saccade.training.loop import Learner, Update, Weights
from saccade.training.run import Run, build_module
from saccade.training.settings import Settings
from saccade.training.team import Team


class Tables(Weights):
    """In the place of weights: nothing that an optimiser changes."""

    def __init__(self, module: Any):
        self.module, self.names, self.parameters = module, [], []
        self.flat, self.moments, self.ema = torch.zeros(0), torch.zeros(0, 0), None

    @property
    def sizes(self) -> list[int]:  # type: ignore[override]
        """How many counts it keeps: what parameters are to other models."""
        return [self.module.entries]


class _Terms(Objective):
    terms = ("loss",)


@dataclass(slots=True)
class Counter(Learner):
    """In the place of a learner: its one update reads all there is."""

    texts: Callable[[], Any] = tuple
    tokens: int = 0

    def counts(self, pieces: Sequence[Any]) -> list[float]:  # noqa: ARG002
        return [float(self.tokens)]

    def update(
        self, step: int, pieces: Sequence[Any], counts: Sequence[float], rate: float
    ) -> Update:
        """Count."""
        assert isinstance(self.weights, Tables)
        assert not pieces
        self.weights.module.fit(self.texts())
        return Update(step, {"loss": math.nan}, int(counts[0]), 0.0, rate, applied=True)


def assemble_counting(
    run: Run, settings: Settings, task: Task, warn: Callable[[str], None]
) -> Crew:
    """What a run of a counting model holds."""
    module: Any = build_module(settings, task)
    store = task.open(run.tokens)
    if store is None:
        store = task.store(run.tokens, warn)
    reader: Any = task
    learner = Counter(
        _Terms(), Tables(module), Team(), settings.train.seed, settings.train.clip,
        texts=lambda: reader.sequences(store), tokens=len(store),
    )  # fmt: skip
    order = task.order(store, settings.train.batch_tokens, settings.train.seed)
    dev = run.dev()
    units = [] if dev is None else task.units(dev)
    return Crew(run, settings, task, module, learner, Team(), order, store, dev, units)
