"""Start, continue or refuse a run: what `saccade train` does before and after the loop."""

import dataclasses
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from saccade.config import merge
from saccade.errors import InputError
from saccade.tasks.vocabularies import VOCABULARY, taken_over
from saccade.training import checkpoint
from saccade.training.checkpoint import load_tensors
from saccade.training.counting import assemble_counting, counts
from saccade.training.crew import assemble, refuse_batch_statistics
from saccade.training.decide import decided, refuse_contradictions
from saccade.training.loop import Command, Weights, call
from saccade.training.resume import (
    Resumed,
    check_data,
    check_environment,
    check_fits,
    taken_up,
)
from saccade.training.run import Run, build_module, named_weights
from saccade.training.settings import Settings, resolve
from saccade.training.team import Team, gather_team
from saccade.training.trainer import Events, Trainer

DROPOUTS = ("dropout", "attention_dropout", "ffn_dropout")  # of a model: not of its shape


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
            events.warn(f"{out} is finished; nothing to do")
            return run
        check_environment(run, resumed.settings, events)
        _train(run, task, resumed, start, events, started_at)
    return run


def _begun(
    run: Run, config: Mapping[str, Any], start: Start, events: Events
) -> tuple[Any, Resumed]:
    """The task and the settings of a run that is there now, as it was or as it was made."""
    settings = resolve(config, allow_code=start.allow_code)
    if not run.exists:
        if start.init is not None:
            settings = _like(settings, config, Run(Path(start.init)), start)
        settings = decided(settings)
        refuse_contradictions(settings)
        return _prepared(run, settings, start, events)
    if not start.resume:
        raise InputError(
            f"{run.path} holds a run already; add --resume to continue it, or choose another --out"
        )
    if start.init is not None:  # it was made like that one, which may be gone by now
        settings = _like(settings, config, run, start)
    found = checkpoint.load_latest(run.checkpoints, events.warn)
    accept = start.accept_changes
    resumed = taken_up(run, settings, found, allow_code=start.allow_code, accept=accept)
    if resumed.finished:
        return None, resumed
    task = resumed.settings.task_class.load(resumed.settings.task, run.path)
    check_fits(run, resumed, task)
    resumed = check_data(run, resumed, task, events, accept=accept)
    run.begin(resumed.settings)
    return task, resumed


def _train(
    run: Run, task: Any, resumed: Resumed, start: Start, events: Events, started_at: float
) -> None:
    """Gather a team, go on from where the run stands, and train to the end."""
    settings = resumed.settings
    threads, teams = torch.get_num_threads(), list[Team]()
    torch.set_num_threads(settings.train.threads or 1)

    def team(module: nn.Module) -> Team:
        train = settings.train
        ranks = train.processes or 1
        floats = Weights.floats(module, train.optimizer, ranks, ema=train.ema is not None)
        code = "1" if start.allow_code else "0"
        teams.append(gather_team(ranks, floats, ["saccade.training.worker", str(run.path), code]))
        return teams[0]

    try:
        counting = counts(settings.model_class)
        crew = (
            assemble_counting(run, settings, task, events.warn)
            if counting
            else assemble(run, settings, task, team, events.warn)
        )
        trainer = Trainer(crew, events, started_at)
        _take_up(trainer, resumed, start, events)
        crew.team.exchange([trainer.standing.step + 1, trainer.standing.refused])
        trainer.train()
        call(crew.learner, Command.STOP)
    finally:
        for each in teams:
            each.disband()
        torch.set_num_threads(threads)


def _take_up(trainer: Trainer, resumed: Resumed, start: Start, events: Events) -> None:
    """Go on from the last checkpoint, or from the first step."""
    crew = trainer.crew
    # What a model that counts has is made in one update: of a cut run, nothing is worth keeping.
    if resumed.found is not None and not counts(crew.module):
        resumed.restore(trainer)
        return
    crew.run.cut_metrics(0)
    crew.deal_carries({})
    if start.init is not None:
        initialise(crew.module, Run(Path(start.init)), events)
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
    return [
        train_run(merge(config, {"train": {"seed": seed}}), out / f"seed-{seed}", start, events)
        for seed in seeds
    ]


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """The mean, and the standard deviation of the sample (0 for a single value)."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def _prepared(run: Run, settings: Settings, start: Start, events: Events) -> tuple[Any, Resumed]:
    """A new run: tokenizers and token store are made, then the folder becomes a run."""
    with run.preparing():
        task = settings.task_class.prepare(settings.task, run.path)
        settings = dataclasses.replace(settings, task=task.config)
        task.store(run.tokens, events.warn)
        if settings.task.dev:
            run.write_dev(task.examples(settings.task.dev, events.warn))
        pieces = (settings.train.processes or 1) * settings.train.accumulate
        refuse_batch_statistics(build_module(settings, task, meta=True), pieces)
    made = {"data": task.fingerprints(), "threads": settings.train.threads}
    run.write_environment(made if start.init is None else {**made, "init": start.init})
    run.begin(settings)
    return task, Resumed(settings)


def _like(settings: Settings, config: Mapping[str, Any], like: Run, start: Start) -> Settings:
    """Adapting a model keeps its shape and its tokenizer; what was asked of them is refused."""
    theirs = like.settings(allow_code=start.allow_code)
    where, resumes = like.path, like.path != Path(str(start.init))
    if theirs.model_name != settings.model_name:
        raise InputError(f"--init: {where} is a {theirs.model_name}, not {settings.model_name}")
    if not resumes and not like.weights.is_file():
        raise InputError(f"--init: {where} holds no model yet")
    given = settings.given()
    free = {name: given.pop(name) for name in DROPOUTS if name in given}
    asked = {f"model.{name}": (value, theirs.model.get(name)) for name, value in given.items()}
    if settings.preset != settings.model_class.default_preset:
        asked["model.preset"] = (settings.preset, theirs.preset)
    kind, tokenizer = settings.task.tokenizer, theirs.task.tokenizer if resumes else str(where)
    usual = settings.task.__dataclass_fields__["tokenizer"].default
    if not resumes and kind not in (usual, tokenizer):
        asked["task.tokenizer"] = (kind, theirs.task.tokenizer)
    then = {name: getattr(theirs.task, name) for name in VOCABULARY if hasattr(theirs.task, name)}
    made = {**then, **taken_over(str(where))[1]}  # what they asked for, and what they got
    for name in config.get("task", {}).keys() & made.keys():
        mine = getattr(settings.task, name)
        asked[f"task.{name}"] = (mine, made[name] if mine == made[name] else then[name])
    for name, (mine, kept) in asked.items():
        if mine != kept:
            raise InputError(
                f"--init keeps the shape and the tokenizer of {where}, where {name} is "
                f"{kept!r}, not {mine!r}: leave it out, or train without --init"
            )
    model = {**theirs.model, **free}
    fitted = merge(config, {"model": {**model, "preset": theirs.preset}})  # the task to this shape
    task = resolve(fitted, allow_code=start.allow_code).task
    task = dataclasses.replace(task, tokenizer=tokenizer, **made)
    return dataclasses.replace(settings, model=model, preset=theirs.preset, task=task)


def initialise(module: nn.Module, init: Run, events: Events) -> None:
    """Take over every weight of `init` that this model has in the same shape."""
    mine = named_weights(module)
    theirs = load_tensors(init.weights)
    fitting = {name for name in mine if name in theirs and theirs[name].shape == mine[name].shape}
    for name in fitting:
        mine[name].copy_(theirs[name])
    if not fitting:
        raise InputError(f"--init: no weight of {init.path} fits this model")
    if missing := sorted(mine.keys() - fitting):
        events.warn(f"--init: {len(missing)} weights are new, among them {missing[0]}")
