"""What a training run is told: defaults, presets, files and flags become one resolved config."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from saccade.config import build, find, merge, part, unbuild
from saccade.errors import InputError, nearest
from saccade.models import MODELS
from saccade.tasks import TASKS
from saccade.tasks.task import missing
from saccade.training.optim import SCHEDULES, OptimizerConfig

FORMAT = 1  # of the run folder
DEFAULT_MINUTES = 15.0  # when neither steps nor minutes nor patience say when to stop
SECTIONS = ("task", "model", "train")
MOST = {"processes": 512, "threads": 512}  # with many more, a library crashes or a machine does
# What may change on resume; anything else would make another run of it.
MAY_CHANGE = (
    "steps", "minutes", "patience", "eval_every", "save_every", "keep", "device", "threads",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    steps: int | None = None  # updates
    minutes: float | None = None  # of wall time, everything included
    seed: int = 1
    batch_tokens: int = 1152  # positions of an update's longer side, padding included
    accumulate: int = 1  # pieces an update's batch is worked through in, to save memory
    processes: int | None = None  # that share each batch; unset: as many as pay on this machine
    optimizer: OptimizerConfig = OptimizerConfig()
    peak_rate: float = 6e-3
    warmup: int = 300  # updates; with fewer, this rate never learns to attend
    schedule: Literal["linear", "cosine", "constant", "inverse-sqrt", "paper"] = "linear"
    floor: float = 0.0  # of the linear and cosine schedules: share of the peak at the end
    smoothing: float = 0.1
    clip: float = 1.0
    eval_every: int | None = None  # updates; unset: five times, evenly over the budget
    save_every: int | None = None  # updates; unset: about once a minute
    keep: int = 2  # checkpoints
    average: int = 1  # so many checkpoints, averaged, become the model
    average_of: Literal["last", "best"] = "last"  # which: the newest, or the best on dev
    ema: float | None = None  # decay of an exponential moving average, which becomes the model
    patience: int | None = None  # evaluations without a better one before stopping
    device: str = "auto"  # auto, cpu, cuda, mps
    threads: int | None = None  # a process; unset: one each of several, or all cores (decide.py)
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False

    def __post_init__(self) -> None:
        assert self.schedule in SCHEDULES
        least = {"steps": 1, "batch_tokens": 1, "accumulate": 1, "processes": 1, "eval_every": 1,
                 "save_every": 1, "keep": 1, "average": 1, "patience": 1, "threads": 1,
                 "warmup": 0}  # fmt: skip
        for name, lowest in least.items():
            value = getattr(self, name)
            if value is not None and value < lowest:
                raise InputError(f"{name} is {value}, it must be at least {lowest}")
        for name, highest in MOST.items():
            value = getattr(self, name)
            if value is not None and value > highest:
                raise InputError(f"{name} is {value:,}, it may be {highest:,} at most")
        for name in ("minutes", "peak_rate", "clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise InputError(f"{name} is {value}, it must be a number above 0")
        for name in ("ema", "smoothing", "floor"):
            value = getattr(self, name)
            if value is not None and not 0 <= value < 1:
                raise InputError(f"{name} is {value}, it must be at least 0 and less than 1")

    @property
    def calmer(self) -> str:
        """The remedy for numbers that are none."""
        return "raise train.warmup" if self.schedule == "paper" else "lower train.peak_rate"

    @property
    def budget(self) -> dict[str, float]:
        """What ends a run, of that what is set."""
        values = {"steps": self.steps, "minutes": self.minutes, "patience": self.patience}
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Settings:
    """A resolved config: the classes it names, and their configs."""

    task_name: str
    task_class: Any
    task: Any
    model_name: str
    model_class: Any
    preset: str
    model: dict[str, Any]  # plain values: the vocabulary sizes come from the data
    train: TrainConfig

    def plain(self) -> dict[str, Any]:
        """What config.toml holds."""
        return {
            "task": {"name": self.task_name, **unbuild(self.task)},
            "model": {"name": self.model_name, "preset": self.preset, **self.model},
            "train": unbuild(self.train),
        }

    def given(self) -> dict[str, Any]:
        """What the model's settings change about its preset."""
        preset = self.model_class.PRESETS[self.preset].get("model", {})
        plain = _filled(self.task_class, self.model_class, preset)
        return {name: value for name, value in self.model.items() if value != plain.get(name)}

    def usual_trains(self) -> list[TrainConfig]:
        """What training is told when nobody says anything: by default, and by each preset."""
        by_presets = [
            _train_config(merge(self.task_class.defaults, preset).get("train", {}))
            for preset in self.model_class.PRESETS.values()
        ]
        return [TrainConfig(), *by_presets]

    def model_config(self, fields: Mapping[str, int]) -> Any:
        return build(self.model_class.Config, {**self.model, **fields}, "model")


def resolve(config: Mapping[str, Any], *, allow_code: bool = False) -> Settings:
    """Settings from the tables [task], [model] and [train]; the preset fills what is unset."""
    check_sections(config)
    task_name, task_values = part(config.get("task", {}), "[task]")
    task_class: Any = find(TASKS, task_name, what="task", allow_code=allow_code)
    if lacking := missing(task_class):
        raise InputError(
            f"task {task_name!r} lacks {', '.join(lacking)} (see saccade.tasks.task.Task); "
            f"saccade check {task_name} tests all of it"
        )
    usual = {"name": task_class.usual_model}
    model_name, model_values = part({**usual, **config.get("model", {})}, "[model]")
    if allow_code:
        _load_parts(config.get("model", {}))
    model_class: Any = find(MODELS, model_name, what="model", allow_code=allow_code)
    _refuse_misfit(task_name, task_class, model_name, model_class)
    preset = model_values.pop("preset", model_class.default_preset)
    if preset not in list(model_class.PRESETS):
        hint = nearest(str(preset), model_class.PRESETS)
        raise InputError(f"model {model_name!r} has no preset {preset!r}; {hint}")
    values = merge(
        task_class.defaults,
        model_class.PRESETS[preset],
        {**config, "task": task_values, "model": model_values},
    )
    train = _train_config(values.get("train", {}))
    task = build(task_class.Config, values["task"], "task")
    _filled(task_class, model_class, values["model"])  # what the task reads of it is of its type
    task, settings = task_class.suited(task, model_class, values["model"])
    for name in set(task_class.model_field_names) & settings.keys():
        raise InputError(f"model.{name} comes from the data and cannot be set")
    model = _filled(task_class, model_class, settings)
    return Settings(task_name, task_class, task, model_name, model_class, preset, model, train)


def check_sections(config: Mapping[str, Any]) -> None:
    """A config is made of the tables [task], [model] and [train], below the header of a run."""
    for section, values in config.items():
        if section in ("format", "saccade"):
            continue
        if section not in SECTIONS:
            raise InputError(f"unknown section [{section}]; {nearest(section, SECTIONS)}")
        if not isinstance(values, Mapping):
            raise InputError(f"{section} = {values!r}; expected a table [{section}]")


def _refuse_misfit(task_name: str, task_class: Any, model_name: str, model_class: Any) -> None:
    """A model does the kinds of task it names; a task of one's own has a kind like any other."""
    kind = task_class.kind
    if kind in model_class.tasks:
        return
    fitting = [name for name, model in MODELS.items() if kind in model.tasks]
    those = (
        f"these do: {', '.join(fitting)}"
        if fitting
        else f"nor does any other here: it takes a model of your own, file.py:Class, with {kind!r} "
        "(the kind of this task) among its `tasks`"
    )
    raise InputError(f"model {model_name!r} does not do {task_name!r}; {those}")


def _train_config(values: dict[str, Any]) -> TrainConfig:
    if isinstance(values.get("optimizer"), str):
        values = {**values, "optimizer": {"name": values["optimizer"]}}
    return build(TrainConfig, values, "train")


def _filled(task_class: Any, model_class: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """A model's settings with its defaults, without the sizes that come from the data."""
    placeholder = dict.fromkeys(task_class.model_field_names, 8)
    full = unbuild(build(model_class.Config, {**values, **placeholder}, "model", placeholder))
    return {name: value for name, value in full.items() if name not in placeholder}


def needs_code(config: Mapping[str, Any]) -> bool:
    """Whether a config names the user's own file.py:Class anywhere."""
    return any(
        needs_code(value)
        if isinstance(value, Mapping)
        else isinstance(value, str) and value.rpartition(":")[0].endswith(".py")
        for value in config.values()
    )


def _load_parts(values: Mapping[str, Any]) -> None:
    """Load the user's own files among a model's parts: then the model finds them by name."""
    for value in values.values():
        name = value.get("name") if isinstance(value, Mapping) else value
        if isinstance(name, str) and name.rpartition(":")[0].endswith(".py"):
            find({}, name, what="part of the model", allow_code=True)
