"""A member of a training team: python -m saccade.training.worker RUN ALLOW_CODE RANK SIZE FD."""

import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from saccade.training.crew import assemble
from saccade.training.loop import Command, follow
from saccade.training.run import Run
from saccade.training.team import Team, follow_parent, private_output


def main(path: str, allow_code: str, rank: str, size: str, descriptor: str) -> None:
    follow_parent()
    channel = private_output()
    torch.set_num_threads(1)
    run = Run(Path(path))
    settings = run.settings(allow_code=allow_code == "1")
    task = settings.task_class.load(settings.task, run.path)
    team = Team.over(int(descriptor), int(rank), int(size))
    os.close(int(descriptor))
    crew = assemble(run, settings, task, lambda _: team, warn=lambda _: None)
    # The first meeting: rank 0 has filled the weights and says where it stands.
    start, refused = (int(number) for number in team.exchange([0, 0])[0])
    crew.learner.refused = refused
    crew.take_carries()
    duties: dict[Command, Callable[[], None]] = {
        Command.EVALUATE: partial(crew.report_dev, channel),
        Command.CARRY: crew.leave_carries,
    }
    follow(crew.learner, crew.pieces, start, duties)


if __name__ == "__main__":
    main(*sys.argv[1:])
