"""What a config leaves open is decided here by the machine; what cannot go together is refused."""

import dataclasses
from collections.abc import Callable
from operator import attrgetter

from saccade.errors import InputError
from saccade.models.contract import learns_by_counting
from saccade.training.machine import can_share_memory, cores, device_of, processes_that_pay
from saccade.training.optim import SCHEDULES
from saccade.training.settings import DEFAULT_MINUTES, MOST, Settings, TrainConfig

ADAPTIVE = ["adam", "adamw"]
# A setting that only some choices look at: the choice, and those.
HEEDED = {
    "peak_rate": ("schedule", [name for name in SCHEDULES if name != "paper"]),
    "floor": ("schedule", ["linear", "cosine"]),
    "optimizer.momentum": ("optimizer.name", ["sgd"]),
    "optimizer.beta1": ("optimizer.name", ADAPTIVE),
    "optimizer.beta2": ("optimizer.name", ADAPTIVE),
    "optimizer.eps": ("optimizer.name", ADAPTIVE),
}
FEW = 10  # steps, in which a second process or thread costs more than it brings


def decided(settings: Settings) -> Settings:
    """Fill in what depends on the machine, so that the run can say it and a resume keeps it."""
    train = settings.train
    if learns_by_counting(settings.model_class):
        return dataclasses.replace(settings, train=_one_update(train))
    if not train.budget:
        train = dataclasses.replace(train, minutes=DEFAULT_MINUTES)
    few = train.steps is not None and train.steps < FEW
    if train.processes is None:
        paying = 1 if few else processes_that_pay(train.device, train.batch_tokens, train.compile)
        train = dataclasses.replace(train, processes=paying)
    if train.threads is None:
        # Threads wait for each other hundreds of times a step: on a busy machine, for long.
        alone = train.processes == 1 and not few
        train = dataclasses.replace(train, threads=_threads() if alone else 1)
    if train.average > 1 and train.save_every is None:  # by the clock only what ends by the clock
        spacing = train.eval_every if train.minutes is None else None
        if train.steps is not None:
            spacing = max(1, train.steps // (4 * train.average))
        train = dataclasses.replace(train, save_every=spacing)
    return dataclasses.replace(settings, train=train)


def _threads() -> int:
    return min(cores(), MOST["threads"])


def _one_update(train: TrainConfig) -> TrainConfig:
    """What a model that counts needs: to read all texts once, in this process."""
    return dataclasses.replace(
        train, steps=1, minutes=None, patience=None, ema=None, average=1, accumulate=1,
        processes=1, threads=train.threads or _threads(), eval_every=None, save_every=None,
    )  # fmt: skip


def warn_of_crowd(train: TrainConfig, warn: Callable[[str], None]) -> None:
    """More processes than cores give the same bits, and wait for each other."""
    count = cores()
    if (train.processes or 1) > count:
        warn(
            f"train.processes is {train.processes}, and this machine has {count} "
            f"core{'s' * (count > 1)}: they wait for each other, which is slow"
        )


def refuse_contradictions(settings: Settings, begun: TrainConfig | None = None) -> None:
    """Settings that cannot go together, or not on this machine, said before anything is done.

    `begun` is what a run that resumes was told: what it has not heeded all along it may keep.
    """
    train = settings.train
    if train.schedule == "paper" and "dim" not in settings.model:
        raise InputError(
            f"train.schedule 'paper' is a formula of model.dim, which {settings.model_name} has "
            "not: take inverse-sqrt, of the same shape, with train.peak_rate"
        )
    if learns_by_counting(settings.model_class):
        return
    _refuse_unheeded(settings, begun)
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


def _refuse_unheeded(settings: Settings, begun: TrainConfig | None) -> None:
    """What was set, and would do nothing."""
    for key, (choice, those) in HEEDED.items():
        value, chosen = attrgetter(key), attrgetter(choice)
        found = value(settings.train)
        kept = [begun] if begun is not None and chosen(begun) not in those else []
        unset = found in map(value, [*settings.usual_trains(), *kept])
        if chosen(settings.train) not in those and not unset:
            raise InputError(
                f"train.{key} = {found} does nothing with train.{choice} = "
                f"{chosen(settings.train)!r}: leave it out, or take {' or '.join(those)}"
            )
