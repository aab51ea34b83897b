"""Take up a run that is there: with the settings and the data it was begun with, or not at all."""

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from saccade.data.tables import table_reader
from saccade.errors import InputError
from saccade.models.contract import learns_by_counting
from saccade.tasks.task import Plain
from saccade.tasks.vocabularies import VOCABULARY
from saccade.training import checkpoint
from saccade.training.checkpoint import Checkpoint
from saccade.training.decide import decided, refuse_contradictions
from saccade.training.optim import MOMENTS
from saccade.training.run import Run, build_module, environment, named_weights
from saccade.training.settings import MAY_CHANGE, SECTIONS, Settings
from saccade.training.standing import Standing
from saccade.training.trainer import Events

# Nothing that was learned can be continued with another of these, accepted or not.
FIXED = {"task.name", "model.name", "task.tokenizer"} | {f"task.{name}" for name in VOCABULARY}
# Where these lie may change: what they hold is known, and compared.
DATA = ("task.train", "task.dev")


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a run goes on with."""

    settings: Settings
    found: Checkpoint | None = None  # its latest
    changed: frozenset[str] = frozenset()  # keys of the config and data sets, all accepted
    moved: tuple[str, ...] = ()  # what is named otherwise: what that holds is still to be compared
    data: Mapping[str, str] | None = None  # a mark of each data set as it is now, once compared

    @property
    def finished(self) -> bool:
        """Whether that checkpoint ended the run, and no limit was raised or lifted since."""
        if self.found is None:
            return False
        then, budget = Standing.of(self.found.state), self.settings.train.budget
        within = (budget.get(name, math.inf) <= value for name, value in then.budget.items())
        waited = self.out_of_patience and not self.changed  # else it may wait for other scores
        return then.finished and (all(within) or waited)

    @property
    def out_of_patience(self) -> bool:
        """Whether that is why it ended."""
        patience = self.settings.train.patience
        return self.found is not None and Standing.of(self.found.state).out_of(patience)

    @property
    def scored_anew(self) -> bool:
        """Whether scores of before no longer compare: of another dev set, or of another task.

        A dev set is known by what it holds, not by its name.
        """
        same = {"task.train", "task.dev", "task.agreement"}  # where they are, and how it learns
        return any(key == "dev" or key.startswith("task.") for key in self.changed - same)

    def adjusted(self) -> Checkpoint | None:
        """What to go on from, less what is worth nothing after the changes."""
        if self.found is None or not self.changed:
            return self.found
        standing = Standing.of(self.found.state)
        if self.scored_anew:
            standing.forget_scores()
            if self.settings.train.average_of == "best":
                standing.averaged = []
        # Other micro-batches may have other rows.
        tensors = {stem: each for stem, each in self.found.tensors.items() if stem != "carry"}
        return Checkpoint(self.found.step, tensors, dataclasses.asdict(standing))


def taken_up(
    run: Run, settings: Settings, found: Checkpoint | None, *, allow_code: bool, accept: bool
) -> Resumed:
    """The settings to continue with; a change that would make another run of it is refused."""
    theirs, train = run.settings(allow_code=allow_code), settings.train
    if train.processes is None:  # what the machine decided then holds on
        train = dataclasses.replace(train, processes=theirs.train.processes)
    if not train.budget:
        then = theirs.train
        train = dataclasses.replace(
            train, steps=then.steps, minutes=then.minutes, patience=then.patience
        )
    settings = dataclasses.replace(settings, train=train)
    if theirs.task_name == settings.task_name:
        task = settings.task_class.resumed(settings.task, theirs.task)
        settings = dataclasses.replace(settings, task=task)
    settings = decided(settings)
    refuse_contradictions(settings, theirs.train)
    changed = _changed(decided(theirs), settings)  # what was imported decided nothing
    moved = [key for key in DATA if key in changed and _read_alike(theirs, settings, key)]
    named = tuple(changed.pop(key) for key in moved)
    if fixed := changed.keys() & FIXED:
        raise InputError(
            f"{run.path}: {changed[min(fixed)]}; what it has learned is of no use then: choose "
            "another --out"
        )
    if changed and not accept:
        told = "; ".join(changed.values())
        raise InputError(
            f"{run.path} was begun with another config: {told}. Undo the change, choose another "
            "--out, or add --accept-changes"
        )
    return Resumed(settings, found, frozenset(changed), named)


def _changed(theirs: Settings, mine: Settings) -> dict[str, str]:
    """Each key that differs and has to stay as it was, with what it was and is."""
    old, new = theirs.plain(), mine.plain()
    found = {}
    for section in SECTIONS:
        for key in sorted(old[section].keys() | new[section].keys()):
            was, now = old[section].get(key), new[section].get(key)
            if was != now and (section, key) not in {("train", name) for name in MAY_CHANGE}:
                found[f"{section}.{key}"] = f"{section}.{key} was {was!r}, is {now!r}"
    return found


def _read_alike(theirs: Settings, mine: Settings, key: str) -> bool:
    """Whether both name such files that the same bytes are the same data: tables, or lines."""
    name = key.removeprefix("task.")
    then, now = (getattr(each.task, name, None) or [] for each in (theirs, mine))
    return bool(then) and [*map(table_reader, then)] == [*map(table_reader, now)]


def check_fits(run: Run, resumed: Resumed, task: Any) -> None:
    """A change, also of a model's code, may be one that no checkpoint can be continued with."""
    settings, found = resumed.settings, resumed.found
    if found is None or learns_by_counting(settings.model_class):
        return
    mine = named_weights(build_module(settings, task, meta=True))
    then = {name: tensor.shape for name, tensor in found.tensors["model"].items()}
    if then != {name: tensor.shape for name, tensor in mine.items()}:
        raise InputError(f"{run.path}: its checkpoint does not fit the changed model")
    optimizer = settings.train.optimizer.name
    if f"moment{MOMENTS[optimizer] - 1}" not in found.tensors:
        raise InputError(f"{run.path}: its checkpoint does not fit train.optimizer {optimizer!r}")


def restore_model(run: Run, resumed: Resumed, events: Events) -> None:
    """A model that is gone or damaged is made again of the checkpoints it was made of."""
    if resumed.found is None:
        return
    then, train = Standing.of(resumed.found.state), resumed.settings.train
    if not (then.best or then.finished) or _readable(run.weights):
        return
    averaged = train.average > 1 and then.finished
    steps = then.averaged if averaged else [then.best_step or resumed.found.step]
    tensors = checkpoint.average(run.checkpoints, steps)
    if checkpoint.all_have(run.checkpoints, steps, "ema"):  # of what is learned; the rest stays
        tensors |= checkpoint.average(run.checkpoints, steps, "ema")
    run.write_weights(tensors, {"step": str(steps[-1])}, remedy="choose another --out")
    events.warn(
        f"{run.weights} was gone or damaged: made again of the checkpoint of step {steps[-1]:,}"
    )


def _readable(weights: Path) -> bool:
    try:
        return bool(checkpoint.load_tensors(weights))
    except InputError:
        return False


def check_data(run: Run, resumed: Resumed, task: Any, *, accept: bool) -> Resumed:
    """Changed data is refused, or accepted: then it is still to be taken in."""
    then, now = run.environment()["data"], task.fingerprints()
    if now and not then and not accept:
        raise InputError(
            f"{run.path}: its environment.json is gone or damaged, or the run died while it took a "
            "change in, so nobody can tell whether these are its data: if they are, add "
            "--accept-changes"
        )
    changed = [name for name in {**then, **now} if then.get(name) != now.get(name)]
    if changed and not accept:
        named = f" ({'; '.join(resumed.moved)})" if resumed.moved else ""
        raise InputError(
            f"{run.path}: the {' and '.join(changed)} data changed since it was begun{named}; "
            "restore it, choose another --out, or add --accept-changes"
        )
    return dataclasses.replace(resumed, changed=resumed.changed | set(changed), data=now)


def take_in(run: Run, resumed: Resumed, task: Any, events: Events) -> Resumed:
    """Make of the data of now what the run keeps of them, all of it or nothing."""
    warn = events.warn if resumed.changed else _told_before
    dev = task.config.dev
    examples = task.examples(dev, warn) if dev else None  # what is kept of it may be damaged
    task.store(run.tokens, warn)
    return _taken_in(run, resumed, examples)


def _told_before(_: str) -> None:
    """What is odd about the data was told when the run began."""


def _taken_in(run: Run, resumed: Resumed, examples: Plain | None) -> Resumed:
    """Whoever dies in here leaves a run that fits what it was, or says that its data changed.

    The checkpoint comes first: once config and data are those of now, nobody sees a change any
    more, and what it made worthless must be gone.
    """
    if resumed.changed and (found := resumed.adjusted()) is not None:
        checkpoint.save(run.checkpoints, found)
        resumed = dataclasses.replace(resumed, found=found)
    if resumed.changed or examples != run.dev():
        run.write_environment({**run.environment(), "data": {}})
        run.write_dev(examples)
        run.write_environment({**run.environment(), "data": resumed.data})
    return resumed


def check_environment(run: Run, settings: Settings, events: Events) -> None:
    """Bits are promised for the same threads, torch and processor: say so when they changed."""
    then = {"products": "MKL", **run.environment()}  # who did not note it had no other
    now = {**environment(), "threads": settings.train.threads}
    for name in ("threads", "torch", "cpu", "products"):
        if name in then and then[name] != now[name]:
            events.warn(
                f"{name} was {then[name]} when the run began and is {now[name]} now: the result "
                "is as good, but not the same to the bit"
            )
