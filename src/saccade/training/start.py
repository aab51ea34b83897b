"""Start, continue or refuse a run: what `saccade train` does before and after the loop."""

import dataclasses
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from saccade.config import merge
from saccade.data.lines import refuse_read_once
from saccade.errors import InputError
from saccade.models.contract import learns_by_counting
from saccade.randomness import seeded
from saccade.training import checkpoint
from saccade.training.adapt import (
    alike,
    initialise,
    refuse_counting,
    refuse_other_init,
    weights_for,
)
from saccade.training.checkpoint import Checkpoint
from saccade.training.counting import assemble_counting
from saccade.training.crew import assemble, refuse_batch_statistics
from saccade.training.decide import decided, refuse_contradictions, warn_of_crowd
from saccade.training.loop import Command, Weights, call
from saccade.training.resume import (
    Resumed,
    check_data,
    check_environment,
    check_fits,
    restore_model,
    take_in,
    taken_up,
)
from saccade.training.run import Run, build_module, named_weights
from saccade.training.settings import Settings, resolve
from saccade.training.standing import Standing
from saccade.training.team import Team, gather_team
from saccade.training.trainer import Events, Trainer

MORE = "more --steps or --minutes go"


@dataclass(frozen=True, kw_only=True, slots=True)
class Start:
    """How to begin: everything about a start that is not part of the run's config."""

    resume: bool = False
    init: str | None = None  # a run whose weights to start from
    allow_code: bool = False
    accept_changes: bool = False
    started_at: float | None = None  # time.monotonic() when the budget began


def train_run(
    config: Mapping[str, Any], out: Path, start: Start = Start(), events: Events = Events()
) -> Run:
    """Train what the config says, into `out`; with resume, continue what is there."""
    started_at = time.monotonic() if start.started_at is None else start.started_at
    run = Run(out)
    with run.locked():
        task, resumed = _begun(run, config, start, events)
        if resumed.finished:
            raised = "a larger train.patience goes" if resumed.out_of_patience else MORE
            events.warn(f"{out} is finished; nothing to do ({raised} on)")
            return run
        check_environment(run, resumed.settings, events)
        warn_of_crowd(resumed.settings.train, events.warn)
        _train(run, task, resumed, start, events, started_at)
    return run


def _begun(
    run: Run, config: Mapping[str, Any], start: Start, events: Events
) -> tuple[Any, Resumed]:
    """The task and the settings of a run that is there now, as it was or as it was made."""
    settings, allow_code = resolve(config, allow_code=start.allow_code), start.allow_code
    if not run.exists:
        if start.init is not None:
            refuse_counting(settings)
            like = Run(Path(start.init))
            settings = alike(settings, config, like, resumes=False, allow_code=allow_code)
        settings = decided(settings)
        refuse_contradictions(settings)
        return _prepared(run, settings, start, events)
    _refuse_unasked(run, start)
    refuse_other_init(run, start.init)
    if run.init is not None:  # it was made like that one, which may be gone by now
        settings = alike(settings, config, run, resumes=True, allow_code=allow_code)
    found = _latest(run, events)
    accept = start.accept_changes
    resumed = taken_up(run, settings, found, allow_code=allow_code, accept=accept)
    run.tidy()
    restore_model(run, resumed, events)
    if resumed.finished and not resumed.moved:
        return None, resumed
    task = resumed.settings.task_class.load(resumed.settings.task, run.path)
    resumed = check_data(run, resumed, task, accept=accept)
    if resumed.finished:
        return None, resumed
    check_fits(run, resumed, task)
    resumed = take_in(run, resumed, task, events)
    run.begin(resumed.settings)
    return task, resumed


def _refuse_unasked(run: Run, start: Start) -> None:
    """What is there is continued only if that was asked for."""
    if run.exists and not start.resume:
        raise InputError(
            f"{run.path} holds a run already; add --resume to continue it, or choose another --out"
        )


def _latest(run: Run, events: Events) -> Checkpoint | None:
    """What to go on from; None only of a run that died before its first checkpoint."""
    found = checkpoint.load_latest(run.checkpoints, events.warn)
    if found is not None and (key := Standing.strange(found.state)) is not None:
        raise InputError(
            f"{run.path}: its checkpoint of step {found.step} was written by another saccade (key "
            f"{key!r}); continue with that one, or choose another --out"
        )
    if found is not None:
        return found
    if run.card.is_file():  # it was finished, or imported
        raise InputError(
            f"{run.path} has a model but no checkpoint to continue from; choose another --out, or "
            f"start from it with --init {run.path}"
        )
    if checkpoint.steps(run.checkpoints):
        raise InputError(f"{run.path}: no checkpoint of it can be read; choose another --out")
    if run.metrics():
        events.warn(f"{run.path} ended before its first checkpoint: it begins anew")
    return None


def _train(
    run: Run, task: Any, resumed: Resumed, start: Start, events: Events, started_at: float
) -> None:
    """Gather a team, go on from where the run stands, and train to the end."""
    settings = resumed.settings
    ending = ExitStack()

    def team(module: nn.Module) -> Team:
        train = settings.train
        ranks = train.processes or 1
        floats = Weights.floats(module, train.optimizer, ranks, ema=train.ema is not None)
        code = "1" if start.allow_code else "0"
        found = gather_team(ranks, floats, ["saccade.training.worker", str(run.path), code])
        ending.callback(found.disband)
        return found

    with _threads(settings.train.threads or 1), seeded(settings.train.seed), ending:
        counting = learns_by_counting(settings.model_class)
        crew = (
            assemble_counting(run, settings, task, events.warn)
            if counting
            else assemble(run, settings, task, team, events.warn)
        )
        trainer = Trainer(crew, events, started_at)
        _take_up(trainer, resumed, events)
        crew.team.exchange([trainer.standing.step + 1, trainer.standing.refused])
        trainer.train()
        call(crew.learner, Command.STOP)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _take_up(trainer: Trainer, resumed: Resumed, events: Events) -> None:
    """Go on from the last checkpoint, or from the first step."""
    crew = trainer.crew
    # What a model that counts has is made in one update: of a cut run, nothing is worth keeping.
    if resumed.found is not None and not learns_by_counting(crew.module):
        trainer.restore(resumed.found)
        return
    crew.run.cut_metrics(0)
    crew.deal_carries({})
    if crew.run.init is not None:  # named again or not
        initialise(crew.module, Run(Path(crew.run.init)), events)
    if crew.learner.weights.ema is not None:
        crew.learner.weights.ema.copy_(crew.learner.weights.flat)


def train_seeds(
    config: Mapping[str, Any],
    out: Path,
    seeds: Sequence[int],
    start: Start = Start(),
    events: Events = Events(),
) -> list[Run]:
    """The same config with several seeds, one run each in `out/seed-N`."""
    _refuse_taken(out)
    places = {seed: out / f"seed-{seed}" for seed in seeds}
    for place in places.values():  # all of them before the first is trained
        _refuse_unasked(Run(place), start)
    return [
        train_run(merge(config, {"train": {"seed": seed}}), place, start, events)
        for seed, place in places.items()
    ]


def _refuse_taken(out: Path) -> None:
    """A folder for the runs of several seeds is new, or holds some of them already."""
    if Run(out).exists:
        raise InputError(f"{out} holds a run already; several seeds need another --out")
    if not out.is_dir() or any(Run(path).exists for path in out.glob("seed-*")):
        return
    for path in out.iterdir():
        if not path.is_dir() or not path.name.startswith("seed-"):
            raise InputError(
                f"{out} is not empty and holds no runs of several seeds; choose another --out"
            )


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and the standard deviation of the sample (0 for a single value)."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def _prepared(run: Run, settings: Settings, start: Start, events: Events) -> tuple[Any, Resumed]:
    """A new run: tokenizers and token store are made, then the folder becomes a run."""
    refuse_read_once([*settings.task.train, *(settings.task.dev or [])])
    with run.preparing():
        task = settings.task_class.prepare(settings.task, run.path)
        settings = dataclasses.replace(settings, task=task.config)
        shapes = build_module(settings, task, meta=True)
        refuse_batch_statistics(shapes, (settings.train.processes or 1) * settings.train.accumulate)
        if start.init is not None:  # before the work, and while nothing would be left of it
            weights_for(named_weights(shapes), Run(Path(start.init)))
        if settings.task.dev:  # first: what is wrong in it must not cost a token store
            run.write_dev(task.examples(settings.task.dev, events.warn))
        task.store(run.tokens, events.warn)
    made = {"data": task.fingerprints(), "threads": settings.train.threads}
    run.write_environment(made if start.init is None else {**made, "init": start.init})
    run.begin(settings)
    return task, Resumed(settings)
