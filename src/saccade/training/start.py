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
from saccade.training import checkpoint
from saccade.training.checkpoint import load_tensors
from saccade.training.counting import assemble_counting, counts
from saccade.training.crew import assemble, refuse_batch_statistics
from saccade.training.loop import Command, Weights, call
from saccade.training.machine import can_share_memory, cores, device_of, processes_that_pay
from saccade.training.optim import MOMENTS
from saccade.training.run import Run, build_module, environment, named_weights
from saccade.training.settings import (
    DEFAULT_MINUTES,
    MAY_CHANGE,
    Settings,
    TrainConfig,
    resolve,
)
from saccade.training.team import Team, gather_team
from saccade.training.trainer import Events, Standing, Trainer

FEW = 10  # steps, in which no second process would be started before they are over
DROPOUTS = ("dropout", "attention_dropout", "ffn_dropout")  # of a model: not of its shape
VOCABULARY = {"vocab_size", "joint", "lowercase"}  # of a task: what its tokenizer was made with


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
    settings = resolve(config, allow_code=start.allow_code)
    if start.init is not None:
        settings = _like(settings, config, Run(Path(start.init)), start)
    run = Run(out)
    with run.locked():
        begun = _begun(run, settings, start, events)
        if begun is None:
            events.warn(f"{out} is finished; nothing to do")
            return run
        _check_environment(run, begun[0], events)
        _train(run, *begun, start, events, started_at)
    return run


def _begun(
    run: Run, settings: Settings, start: Start, events: Events
) -> tuple[Settings, Any] | None:
    """Settings and task of a run that is there now, as it was or as it was made; None: finished."""
    if not run.exists:
        return _prepared(run, _decided(settings), start, events)
    settings = _continued(run, settings, start)
    if _finished(run, settings, start):
        return None
    task = settings.task_class.load(settings.task, run.path)
    if start.accept_changes:
        _check_fits(run, settings, task)
    _check_data(run, task, start, events)
    run.begin(settings)
    return settings, task


def _train(
    run: Run, settings: Settings, task: Any, start: Start, events: Events, started_at: float
) -> None:
    """Gather a team, go on from where the run stands, and train to the end."""
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
        _take_up(trainer, start, events)
        crew.team.exchange([trainer.standing.step + 1, trainer.standing.refused])
        trainer.train()
        call(crew.learner, Command.STOP)
    finally:
        for each in teams:
            each.disband()
        torch.set_num_threads(threads)


def _take_up(trainer: Trainer, start: Start, events: Events) -> None:
    """Go on from the last checkpoint, or from the first step."""
    crew = trainer.crew
    # What a model that counts has is made in one update: of a cut run, nothing is worth keeping.
    counting = counts(crew.module)
    found = None if counting else checkpoint.load_latest(crew.run.checkpoints, events.warn)
    if found is not None:
        if start.accept_changes:  # other micro-batches may have other rows
            found.tensors.pop("carry", None)
        trainer.restore(found)
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


def _refuse_contradictions(settings: Settings) -> None:
    """Settings that cannot go together, said before anything is done."""
    train = settings.train
    endless = train.steps is None and train.minutes is None
    if endless and train.patience is not None and train.schedule in ("linear", "cosine"):
        raise InputError(
            f"train.schedule {train.schedule!r} falls to zero at the end: set train.steps or "
            "train.minutes beside train.patience, or take inverse-sqrt or constant"
        )
    if train.average_of == "best" and not settings.task.dev:
        raise InputError('train.average_of = "best" needs task.dev to say which are best')
    if train.ema is not None and train.average > 1:
        raise InputError("train.ema and train.average both make the model: set one of them")
    if train.patience is not None and (train.eval_every is None or not settings.task.dev):
        raise InputError("train.patience counts evaluations: set train.eval_every and task.dev")
    several, device = (train.processes or 1) > 1, device_of(train.device)
    if several and not can_share_memory():
        raise InputError(
            f"train.processes = {train.processes} cannot share memory safely on this machine: set "
            "it to 1 (on --resume add --accept-changes)"
        )
    if several and device.type != "cpu":
        raise InputError(
            f"train.processes = {train.processes} share memory of the CPU: set it to 1"
        )
    if several and (train.threads or 1) > 1:
        raise InputError("train.threads is of one process: set train.processes=1 to use several")


def _one_update(train: TrainConfig) -> TrainConfig:
    """What a model that counts needs: to read all texts once, in this process."""
    return dataclasses.replace(
        train, steps=1, minutes=None, patience=None, ema=None, average=1, accumulate=1,
        processes=1, threads=train.threads or cores(), eval_every=None, save_every=None,
    )  # fmt: skip


def _decided(settings: Settings) -> Settings:
    """Fill in what depends on the machine, so that the run can say it and a resume keeps it."""
    if counts(settings.model_class):
        return dataclasses.replace(settings, train=_one_update(settings.train))
    _refuse_contradictions(settings)
    train = settings.train
    if train.steps is None and train.minutes is None and train.patience is None:
        train = dataclasses.replace(train, minutes=DEFAULT_MINUTES)
    if train.processes is None:
        few = train.steps is not None and train.steps < FEW
        paying = 1 if few else processes_that_pay(train.device, train.batch_tokens, train.compile)
        train = dataclasses.replace(train, processes=paying)
    if train.threads is None:
        train = dataclasses.replace(train, threads=cores() if train.processes == 1 else 1)
    if train.average > 1 and train.save_every is None:  # by the clock only what ends by the clock
        spacing = train.eval_every if train.minutes is None else None
        if train.steps is not None:
            spacing = max(1, train.steps // (4 * train.average))
        train = dataclasses.replace(train, save_every=spacing)
    return dataclasses.replace(settings, train=train)


def _prepared(run: Run, settings: Settings, start: Start, events: Events) -> tuple[Settings, Any]:
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
    return settings, task


def _like(settings: Settings, config: Mapping[str, Any], init: Run, start: Start) -> Settings:
    """Adapting a model keeps its shape and its tokenizer; what was asked of them is refused."""
    theirs = init.settings(allow_code=start.allow_code)
    if theirs.model_name != settings.model_name:
        raise InputError(f"--init: {init.path} is a {theirs.model_name}, not {settings.model_name}")
    if not init.weights.is_file():
        raise InputError(f"--init: {init.path} holds no model yet")
    given = settings.given()
    free = {name: given.pop(name) for name in DROPOUTS if name in given}
    asked = {f"model.{name}": (value, theirs.model.get(name)) for name, value in given.items()}
    if settings.preset != settings.model_class.default_preset:
        asked["model.preset"] = (settings.preset, theirs.preset)
    kind = settings.task.tokenizer
    if kind not in (settings.task.__dataclass_fields__["tokenizer"].default, str(init.path)):
        asked["task.tokenizer"] = (kind, theirs.task.tokenizer)
    for name in VOCABULARY & config.get("task", {}).keys():
        asked[f"task.{name}"] = (getattr(settings.task, name), getattr(theirs.task, name))
    for name, (mine, kept) in asked.items():
        if mine != kept:
            raise InputError(
                f"--init keeps the shape and the tokenizer of {init.path}, where {name} is "
                f"{kept!r}, not {mine!r}: leave it out, or train without --init"
            )
    model = {**theirs.model, **free}
    fitted = merge(config, {"model": {**model, "preset": theirs.preset}})  # the task to this shape
    task = resolve(fitted, allow_code=start.allow_code).task
    task = dataclasses.replace(task, tokenizer=str(init.path))
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


def _continued(run: Run, settings: Settings, start: Start) -> Settings:
    """The settings to continue with; a change that would make another run of it is refused."""
    theirs = run.settings(allow_code=start.allow_code)
    if not start.resume:
        raise InputError(
            f"{run.path} holds a run already; add --resume to continue it, or choose another --out"
        )
    train = settings.train
    if train.processes is None:  # what the machine decided then holds on
        train = dataclasses.replace(train, processes=theirs.train.processes)
    task = settings.task_class.resumed(settings.task, theirs.task)
    settings = _decided(dataclasses.replace(settings, train=train, task=task))
    old, new = _decided(theirs).plain(), settings.plain()  # what was imported decided nothing
    for name in MAY_CHANGE:
        old["train"].pop(name, None)
        new["train"].pop(name, None)
    changed = [
        f"{section}.{key} was {old[section].get(key)!r}, is {new[section].get(key)!r}"
        for section in old
        for key in sorted(old[section].keys() | new[section].keys())
        if old[section].get(key) != new[section].get(key)
    ]
    if changed and not start.accept_changes:
        raise InputError(
            f"{run.path} was begun with another config: {'; '.join(changed)}. Undo the change, "
            "choose another --out, or add --accept-changes"
        )
    return settings


def _check_fits(run: Run, settings: Settings, task: Any) -> None:
    """An accepted change may not be one that no checkpoint can be continued with."""
    found = checkpoint.load_latest(run.checkpoints, lambda _: None)
    if found is None or counts(settings.model_class):
        return
    mine = named_weights(build_module(settings, task, meta=True))
    then = {name: tensor.shape for name, tensor in found.tensors["model"].items()}
    if then != {name: tensor.shape for name, tensor in mine.items()}:
        raise InputError(f"{run.path}: its checkpoint does not fit the changed model")
    optimizer = settings.train.optimizer.name
    if f"moment{MOMENTS[optimizer] - 1}" not in found.tensors:
        raise InputError(f"{run.path}: its checkpoint does not fit train.optimizer {optimizer!r}")


def _check_data(run: Run, task: Any, start: Start, events: Events) -> None:
    """Changed data is refused, or accepted and taken in."""
    then, now = run.environment().get("data", {}), task.fingerprints()
    changed = [name for name, mark in now.items() if then.get(name) != mark]
    if changed and not start.accept_changes:
        raise InputError(
            f"{run.path}: the {' and '.join(changed)} data changed since it was begun; restore "
            "it, choose another --out, or add --accept-changes"
        )
    if start.accept_changes:
        task.store(run.tokens, events.warn)
        if task.config.dev:
            run.write_dev(task.examples(task.config.dev, events.warn))
        run.write_environment({**run.environment(), "data": now})


def _check_environment(run: Run, settings: Settings, events: Events) -> None:
    """Bits are promised for the same threads, torch and processor: say so when they changed."""
    then, now = run.environment(), {**environment(), "threads": settings.train.threads}
    for name in ("threads", "torch", "cpu"):
        if name in then and then[name] != now[name]:
            events.warn(
                f"{name} was {then[name]} when the run began and is {now[name]} now: the result "
                "is as good, but not the same to the bit"
            )


def _finished(run: Run, settings: Settings, start: Start) -> bool:
    """Whether the last checkpoint ended the run, and nobody has lengthened it since."""
    found = checkpoint.load_latest(run.checkpoints, lambda _: None)
    if found is None or not found.state["finished"]:
        return False
    # Not by its config, where a start that died may have written more; old ones have no other.
    ended = Standing(**found.state).budget or run.settings(allow_code=start.allow_code).train.budget
    return all(value <= ended.get(name, 0) for name, value in settings.train.budget.items())
