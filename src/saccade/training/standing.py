"""Where a run stands: what it has done, how good it was, and what it may still choose from."""

import dataclasses
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from saccade.tasks.task import Evaluation

NEEDED = {"step", "best"}  # in the state of every checkpoint; what came later has a default


@dataclass(slots=True)
class Standing:
    """All that later decisions read, saved with every checkpoint."""

    step: int = 0
    tokens: int = 0  # learned from (things the first loss term is a mean of), again in each epoch
    seconds: float = 0.0  # of wall time used, by all sittings
    idle: float = 0.0  # seconds before the first update, of all sittings
    reserve: float = 0.0  # seconds the last evaluation and saving will take
    refused: int = 0
    refused_in_a_row: int = 0
    best: list[float] = field(default_factory=list)  # merits, the greater the better; main first
    best_step: int = 0
    stale: int = 0  # evaluations since the main metric was at its best
    evaluations: int = 0
    evaluated_step: int = 0
    averaged: list[int] = field(default_factory=list)  # steps of the checkpoints to average
    values: dict[str, float] = field(default_factory=dict)  # the merit of each of those on dev
    finished: bool = False
    budget: dict[str, float] = field(default_factory=dict)  # it finished with

    @classmethod
    def strange(cls, state: Mapping[str, Any]) -> str | None:
        """A key that this saccade does not know, or that every saccade has written and is gone."""
        unknown = state.keys() - {each.name for each in dataclasses.fields(cls)}
        return min(unknown | (NEEDED - state.keys()), default=None)

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> "Standing":
        """As a checkpoint has it; in older ones the best is a number, of the main metric."""
        best = state["best"]
        if not isinstance(best, list):
            best = [] if best is None else [best]
        return cls(**{**state, "best": best})

    def out_of(self, patience: int | None) -> bool:
        """Whether it has waited for a better evaluation as long as it may."""
        return patience is not None and self.stale >= patience

    def forget_scores(self) -> None:
        """What comes is scored on another dev set, and nothing of before compares with it."""
        self.best, self.best_step, self.stale = [], 0, 0
        self.values, self.evaluated_step = {}, 0


def merits_of(evaluation: Evaluation) -> list[float]:
    """Of its metrics, the main one first, until one is no number; the greater list is better."""
    return list(itertools.takewhile(math.isfinite, (each.merit for each in evaluation.metrics)))
