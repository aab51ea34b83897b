"""A small regression with two loss terms, as the trainer sees any task; also a team's member.

python -m training.tiny_objective CLIP DIE_AT RANK SIZE FD
"""

import os
import sys
from dataclasses import dataclass

import torch
from torch import nn

from saccade.blocks.dropout import Dropout
from saccade.randomness import torch_generator
from saccade.tasks.task import Objective, Term
from saccade.training.loop import Learner, Weights, follow
from saccade.training.optim import OptimizerConfig
from saccade.training.team import Team, follow_parent

ADAM = OptimizerConfig(name="adamw", weight_decay=0.1)


@dataclass
class Rows:
    x: torch.Tensor
    y: torch.Tensor
    marked: torch.Tensor  # the rows that the second term is about

    @property
    def counts(self):
        return {"main": len(self.x), "aside": int(self.marked.sum())}

    def split(self, *sizes):
        parts = zip(*(each.split(sizes) for each in (self.x, self.y, self.marked)), strict=True)
        return [Rows(*part) for part in parts]


class TwoTerms(Objective):
    terms = ("main", "aside")

    def __init__(self, dropout):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(4, 600), nn.Tanh(), Dropout(dropout), nn.LayerNorm(600), nn.Linear(600, 1)
        )

    def forward(self, batch, carry):
        errors = (self.net(batch.x).squeeze(1) - batch.y).square()
        counts = batch.counts
        main = Term(errors.sum(), counts["main"])
        aside = Term(errors[batch.marked].sqrt().sum(), counts["aside"], weight=0.3)
        return {"main": main, "aside": aside}, (carry or 0) + 1


def rows(step, count=11):
    g = torch_generator(1, "rows", step)
    x = torch.randn(count, 4, generator=g)
    y = x.sum(1) + 0.1 * torch.randn(count, generator=g)
    return Rows(x, y, torch.rand(count, generator=g) < 0.4)


def learner_of(team=None, *, dropout=0.0, clip=1e9, config=ADAM, ema=None):
    torch.manual_seed(7)
    objective = TwoTerms(dropout)
    team = team or Team()
    weights = Weights(objective, config, team, ema=ema is not None)
    return Learner(objective, weights, team, seed=5, clip=clip, ema=ema)


def pieces_of(team):
    """This rank's share of two unequal micro-batches a step."""
    return lambda step: rows(step).split(8, 3)[team.rank :: team.size]


def main(clip, die_at, rank, size, descriptor):
    follow_parent()
    torch.set_num_threads(1)
    team = Team.over(int(descriptor), int(rank), int(size))
    mine = pieces_of(team)

    def pieces(step):
        if step == int(die_at):
            os._exit(9)
        return mine(step)

    follow(learner_of(team, dropout=0.5, clip=float(clip)), pieces, 1, duties={})


if __name__ == "__main__":
    main(*sys.argv[1:])
