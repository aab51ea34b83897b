"""How a training run is going: a bar on a terminal, a line now and then elsewhere."""

import math
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from saccade.cli.terminal import console, note
from saccade.errors import InputError, install

if TYPE_CHECKING:
    from saccade.tasks.task import Evaluation
    from saccade.training.loop import Update
    from saccade.training.trainer import Events, Trainer

LOG_SECONDS = 10.0  # between two lines where there is no terminal
BAR_SECONDS = 0.2  # between two looks of the bar
MILLIONS = 100_000  # parameters from which on they are told in millions
RECENT = 50  # updates the speed is measured over


class Display(Protocol):
    """What both displays do."""

    def start(self, trainer: "Trainer") -> None: ...
    def update(self, trainer: "Trainer", update: "Update") -> None: ...
    def evaluation(self, trainer: "Trainer", evaluation: "Evaluation", better: bool) -> None: ...
    def warn(self, text: str) -> None: ...
    def finish(self, trainer: "Trainer") -> None: ...
    def close(self) -> None: ...


@contextmanager
def progress(*, quiet: bool = False) -> Iterator["Events"]:
    """Events that show themselves on standard error while the block runs."""
    from saccade.training.trainer import Events

    if quiet:
        yield Events(warn=lambda text: note(f"warning: {text}"))
        return
    display: Display = Bar() if sys.stderr.isatty() else Log()
    try:
        yield Events(
            start=display.start,
            update=display.update,
            evaluation=display.evaluation,
            warn=display.warn,
            finish=display.finish,
        )
    finally:
        display.close()


def combine(*several: "Events") -> "Events":
    """Events that tell all of these."""
    from saccade.training.trainer import Events

    def together(name: str) -> Any:
        listeners = [getattr(each, name) for each in several]

        def tell(*what: Any) -> None:
            for listener in listeners:
                listener(*what)

        return tell

    return Events(**{name: together(name) for name in Events.__dataclass_fields__})


class Pace:
    """Speed and loss over the last updates, and the time that is left."""

    def __init__(self) -> None:
        self.recent: deque[tuple[float, int, float]] = deque(maxlen=RECENT)
        self.share, self.started_at = 0.0, time.monotonic()

    def begin(self, trainer: "Trainer") -> None:
        self.recent.clear()  # of the run before, when there are several seeds
        self.share, self.started_at = trainer.share, time.monotonic()

    def note(self, update: "Update") -> None:
        loss = next(iter(update.losses.values()))  # of a model that counts: not a number
        self.recent.append((time.monotonic(), update.count, loss))

    @property
    def loss(self) -> float:
        losses = [loss for _, _, loss in self.recent]
        return sum(losses) / max(1, len(losses))

    @property
    def speed(self) -> float:
        """Tokens a second."""
        if len(self.recent) < 2:
            return 0.0
        passed = self.recent[-1][0] - self.recent[0][0]
        return sum(count for _, count, _ in list(self.recent)[1:]) / max(passed, 1e-9)

    def left(self, trainer: "Trainer") -> float | None:
        """Seconds to go; None where nobody knows."""
        config = trainer.config
        if config.steps is None and config.minutes is not None:
            return max(0.0, 60 * config.minutes - trainer.seconds)
        done = trainer.share - self.share
        if done <= 0 or config.steps is None:
            return None
        return (time.monotonic() - self.started_at) * (1 - trainer.share) / done

    def __str__(self) -> str:
        speed = f"{self.speed:,.0f}" if len(self.recent) > 1 else "–"
        # A model that counts has no loss while it learns.
        return f"{'' if math.isnan(self.loss) else f'loss {self.loss:.2f}  '}{speed} tokens/s"


def clock(seconds: float | None) -> str:
    """3725 is 1:02:05; unknown is a dash."""
    if seconds is None:
        return "–"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


class Log:
    """Lines for files and pipes."""

    def __init__(self) -> None:
        self.pace, self.told_at = Pace(), 0.0

    def start(self, trainer: "Trainer") -> None:
        self.pace.begin(trainer)
        note(f"training {_size(trainer)} into {trainer.crew.run.path}")

    def update(self, trainer: "Trainer", update: "Update") -> None:
        self.pace.note(update)
        now = time.monotonic()
        if now - self.told_at >= LOG_SECONDS:
            self.told_at = now
            left = clock(self.pace.left(trainer))
            note(f"step {update.step:,}  {trainer.share:.0%}  {self.pace}  {left} left")

    def evaluation(self, trainer: "Trainer", evaluation: "Evaluation", better: bool) -> None:
        note(f"step {trainer.standing.step:,}  {_scores(evaluation)}{'  (best)' if better else ''}")

    def warn(self, text: str) -> None:
        note(f"warning: {text}")

    def finish(self, trainer: "Trainer") -> None:
        note(_finished(trainer))

    def close(self) -> None:
        """Nothing is left open."""


class Bar:
    """A bar that fills with the budget."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, Progress, TextColumn

        self.console = console(error=True)
        self.pace, self.told_at, self.best = Pace(), 0.0, ""
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24, complete_style="blue", finished_style="blue"),
            TextColumn("{task.fields[told]}"),
            console=self.console,
            transient=True,
        )
        self.task = self.progress.add_task("reading the data", total=None, told="")
        self.progress.start()

    def start(self, trainer: "Trainer") -> None:
        self.pace.begin(trainer)
        self.best = ""
        self.console.print(f"[dim]{_size(trainer)}[/]")
        budget = trainer.config.steps or trainer.config.minutes
        self.progress.update(
            self.task, description="training", total=1.0 if budget else None, completed=0, told=""
        )
        self.progress.start()  # again, when there are several seeds

    def update(self, trainer: "Trainer", update: "Update") -> None:
        self.pace.note(update)
        now = time.monotonic()
        if now - self.told_at >= BAR_SECONDS:
            self.told_at = now
            parts = [str(self.pace), f"{clock(self.pace.left(trainer))} left", self.best]
            told = "  ".join(filter(None, parts))
            self.progress.update(self.task, completed=trainer.share, told=told)

    def evaluation(self, trainer: "Trainer", evaluation: "Evaluation", better: bool) -> None:
        if better:
            self.best = f"best {_scores(evaluation).partition(',')[0]}"
        self.console.print(f"[dim]step {trainer.standing.step:,}  {_scores(evaluation)}[/]")

    def warn(self, text: str) -> None:
        from rich.markup import escape

        self.console.print(f"[yellow]warning:[/] {escape(text)}")

    def finish(self, trainer: "Trainer") -> None:
        self.progress.stop()
        self.console.print(f"[dim]{_finished(trainer)}[/]")

    def close(self) -> None:
        self.progress.stop()


def _size(trainer: "Trainer") -> str:
    settings = trainer.crew.settings
    parameters = sum(trainer.crew.learner.weights.sizes)
    limits = []
    if trainer.config.steps is not None:
        limits.append(f"{trainer.config.steps:,} step{'s' * (trainer.config.steps != 1)}")
    if trainer.config.minutes is not None:
        limits.append(f"{trainer.config.minutes:g} minute{'s' * (trainer.config.minutes != 1)}")
    budget = " or ".join(limits) or "until no longer better"
    processes = trainer.config.processes or 1
    side = f"{processes} processes" if processes > 1 else "1 process"
    name = f"{settings.model_name} {settings.preset}"
    if not parameters:
        return f"{name}, which counts: one step"
    return f"{name}, {in_millions(parameters)} parameters, {budget}, {side}"


def in_millions(count: int) -> str:
    """48,123,456 is 48.1 M; what would be 0.0 M is told in full."""
    return f"{count / 1e6:.1f} M" if count >= MILLIONS else f"{count:,}"


def _scores(evaluation: "Evaluation") -> str:
    from saccade.tasks.metrics import figure

    return "dev " + ", ".join(f"{m.name} {figure(m.value)}" for m in evaluation.metrics)


def _finished(trainer: "Trainer") -> str:
    standing = trainer.standing
    done = f"{standing.step:,} step{'s' * (standing.step != 1)} in {clock(standing.seconds)}"
    patience = trainer.config.patience
    if not standing.out_of(patience):
        return done
    return f"{done}; stopped: no better for {patience} evaluations in a row (train.patience)"


@contextmanager
def tensorboard(folder: Path) -> Iterator["Events"]:
    """Events that write curves for TensorBoard."""
    try:
        from torch.utils.tensorboard.writer import SummaryWriter
    except ImportError:
        raise InputError(f"--tensorboard needs TensorBoard: {install('tensorboard')}") from None
    from saccade.training.trainer import Events

    open_writers: list[Any] = []  # made when training starts: before that there may be no run

    def start(trainer: "Trainer") -> None:
        place, ahead = str(trainer.crew.run.path / folder), trainer.standing.step + 1
        open_writers.append(SummaryWriter(place, purge_step=ahead))  # a resume comes by it again

    def update(_: "Trainer", update: "Update") -> None:
        if update.applied and update.step % 10 == 0:
            values = {**update.losses, "rate": update.rate, "grad_norm": update.grad_norm}
            for name, value in values.items():
                open_writers[-1].add_scalar(f"train/{name}", value, update.step)

    def evaluation(trainer: "Trainer", found: "Evaluation", _: bool) -> None:
        for metric in found.metrics:
            open_writers[-1].add_scalar(f"dev/{metric.name}", metric.value, trainer.standing.step)

    try:
        yield Events(start=start, update=update, evaluation=evaluation)
    finally:
        for writer in open_writers:
            writer.close()
