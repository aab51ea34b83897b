"""saccade train: from files to a run."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from saccade.cli.flags import BEGIN, BUDGET, DATA, MACHINE, MODEL, Switch, Whole, named_columns
from saccade.cli.terminal import note, say, this_command
from saccade.errors import InputError

if TYPE_CHECKING:
    from saccade.training.run import Run

Files = Annotated[list[str] | None, Parameter(consume_multiple=True, negative=())]

# When the verb began: a budget of minutes is counted from there. None: as it starts to train.
began_at: ContextVar[float | None] = ContextVar("began_at", default=None)
# The words of the verb: those of the process, or of a step of a script.
called_with: ContextVar[Sequence[str]] = ContextVar("called_with", default=())


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TrainFlags:
    """What `saccade train` takes; unset means that the file, the preset or the default decides."""

    out: Annotated[Path, Parameter(group=DATA)]
    """Folder of the run: config, weights, tokenizers, scores, checkpoints."""
    train: Annotated[Files, Parameter(group=DATA)] = None
    """Two files of lines, one .tsv, .csv, .jsonl or .parquet, for generate plain text; .gz too."""
    dev: Annotated[Files, Parameter(group=DATA)] = None
    """Data to choose the best weights by, never learned from."""
    columns: Annotated[str | None, Parameter(group=DATA)] = None
    """The columns of a table; those of a header source, target (text) need no naming."""
    tokenizer: Annotated[str | None, Parameter(group=DATA)] = None
    """bpe, unigram, words, characters, bytes; or a run or file to take it from. [default: bpe]"""
    on_bad_utf8: Annotated[Literal["stop", "replace", "skip"] | None, Parameter(group=DATA)] = None
    """What to do with a line that is not UTF-8. [default: stop]"""
    model: Annotated[str | None, Parameter(group=MODEL)] = None
    """A name from `saccade models`, or file.py:Class. [default: transformer; generate: gpt]"""
    preset: Annotated[str | None, Parameter(group=MODEL)] = None
    """A size of the model; `saccade models NAME` lists them and shows the default."""
    config: Annotated[Path | None, Parameter(group=MODEL)] = None
    """A TOML file with [task], [model] and [train]."""
    set: Annotated[list[str] | None, Parameter(group=MODEL, name="--set", negative=())] = None
    """section.key=value, over the file; may be repeated."""
    allow_code: Annotated[Switch, Parameter(group=MODEL)] = False
    """Run a model or task that is your own file."""
    steps: Annotated[Whole | None, Parameter(group=BUDGET)] = None
    """Stop after so many updates."""
    minutes: Annotated[float | None, Parameter(group=BUDGET)] = None
    """Stop after so much time, all included; the rate falls to its end there. [default: 15]"""
    seed: Annotated[Whole | None, Parameter(group=BUDGET)] = None
    """Of everything random: the same seed gives the same run. [default: 1]"""
    seeds: Annotated[str | None, Parameter(group=BUDGET)] = None
    """Several seeds, such as 1,2,3: a run each in OUT/seed-N, with mean and spread."""
    init: Annotated[str | None, Parameter(group=BEGIN)] = None
    """Start from the weights of this run, to adapt it."""
    resume: Annotated[Switch, Parameter(group=BEGIN)] = False
    """Continue what is in OUT, or start when nothing is there."""
    accept_changes: Annotated[Switch, Parameter(group=BEGIN)] = False
    """Resume although the config or the data changed."""
    processes: Annotated[Whole | None, Parameter(group=MACHINE)] = None
    """Processes that share each batch; unset: as many as pay."""
    device: Annotated[str | None, Parameter(group=MACHINE)] = None
    """auto, cpu, cuda or mps. [default: auto]"""
    compile: Annotated[Switch, Parameter(group=MACHINE)] = False
    """Compile the model with torch.compile."""
    tensorboard: Annotated[Switch, Parameter(group=MACHINE)] = False
    """Write curves for TensorBoard into OUT/tensorboard."""

    def layer(self, task: str | None) -> dict[str, dict[str, Any]]:
        """The last layer of the config: what was given as a flag."""
        sections: dict[str, dict[str, Any]] = {
            "task": {
                "name": task,
                "train": self.train,
                "dev": self.dev,
                "tokenizer": self.tokenizer,
                "columns": named_columns(self.columns),
                "on_bad_utf8": self.on_bad_utf8,
            },
            "model": {"name": self.model, "preset": self.preset},
            "train": {
                "steps": self.steps,
                "minutes": self.minutes,
                "seed": self.seed,
                "processes": self.processes,
                "device": self.device,
                "compile": self.compile or None,
            },
        }
        return {
            section: {key: value for key, value in values.items() if value is not None}
            for section, values in sections.items()
        }

    def tables(self, task: str | None, base: Mapping[str, Any] = {}) -> dict[str, Any]:
        """File or `base`, then --set, then flags; `resolve` fills in defaults and the preset."""
        from saccade.config import merge, override, read_toml
        from saccade.training.settings import check_sections

        file = base if self.config is None else read_toml(self.config)
        named = {key: {"name": v} if isinstance(v, str) else v for key, v in file.items()}
        with self._named_file():
            check_sections(named)  # before flags are laid over it, and hide what is no table
        config = merge(override(named, self.set or ()), self.layer(task))
        check_sections(config)
        self._refuse_second_preset(named.get("model", {}), config["model"])
        _check_enough(config)
        if self.config is not None:
            bare = {"task": {"name": task or "translate", "train": config["task"]["train"]}}
            told, alone, without = map(self._mistake, (config, merge(bare, named), bare))
            if told is not None and told == alone != without:  # not by --set or a flag, then
                raise InputError(f"{self.config}: {told}")
        return config

    def _mistake(self, config: Mapping[str, Any]) -> str | None:
        """What is wrong with a config, if anything is."""
        from saccade.training.settings import resolve

        try:
            resolve(config, allow_code=self.allow_code)
        except InputError as error:
            return str(error)
        return None

    @contextmanager
    def _named_file(self) -> Iterator[None]:
        """Inside, what is wrong is wrong in the --config file, and told with its name."""
        try:
            yield
        except InputError as error:
            where = "" if self.config is None else f"{self.config}: "
            raise InputError(f"{where}{error}") from None

    def _refuse_second_preset(self, file: Mapping[str, Any], model: Mapping[str, Any]) -> None:
        """A file is above a preset: what it says of the model would stay, under another's name."""
        named, asked = file.get("preset"), model.get("preset")
        if self.config is None or named in (None, asked):
            return
        flag = f"--set model.preset={asked}" if self.preset is None else f"--preset {asked}"
        raise InputError(
            f"{flag}, but {self.config} says preset = {named!r} and may set what presets set: "
            "change it there, or leave this out"
        )

    def seed_list(self) -> list[int]:
        """The seeds of --seeds; empty when it was not given."""
        if self.seeds is None:
            return []
        from saccade.config import override

        for flag, given in {
            "--seed": self.seed is not None,
            "--set train.seed": "seed" in override({}, self.set or ()).get("train", {}),
        }.items():
            if given:
                raise InputError(f"{flag} is for one run and --seeds for several: give one of them")
        try:
            found = [int(word) for word in self.seeds.split(",")]
        except ValueError:
            raise InputError(f"--seeds {self.seeds!r}: expected numbers such as 1,2,3") from None
        if len(set(found)) < len(found):
            raise InputError(f"--seeds {self.seeds!r}: each seed once")
        return found


def _check_enough(config: Mapping[str, Any]) -> None:
    """What nothing can start without, asked for in the words of the command."""
    task = config.get("task", {})
    if not isinstance(task, Mapping) or "name" not in task:
        from saccade.tasks import TASKS

        known = ", ".join(TASKS)
        raise InputError(f"which task? Name it: saccade train TASK ... (known: {known})")
    if task.get("train", []) == []:
        raise InputError("no training data: give --train FILE FILE, or task.train in the config")
    if task.get("dev") == []:
        raise InputError("--dev (task.dev) names no file: give --dev FILE FILE, or leave it out")


def train(task: str | None = None, /, *, flags: TrainFlags) -> int | None:
    """Train a model on your files; what comes out is a run, a folder that other verbs take.

    Precedence: default < preset < --config file < --set < flag. Ctrl-C saves; --resume continues.

    Instead of files: builtin:french-english/train (or /dev, /test; or english-french,
    english-spanish) is a corpus that comes along; data:NAME is a file in the folder that the
    variable SACCADE_DATA names.

    Parameters
    ----------
    task
        A name from `saccade tasks`; may come from the config file.
    """
    from saccade.tasks.metrics import figure
    from saccade.training.signals import Interrupted

    seeds = flags.seed_list()
    try:
        runs = train_with(flags, flags.tables(task), seeds, started_at=began_at.get())
    except Interrupted as stop:
        words = called_with.get()
        again = words if "--resume" in words else [*words, "--resume"]
        note(f"{stop}; everything is saved in {flags.out}. To continue:")
        note(f"  {this_command(*again)}")
        return stop.exit_code
    for run in runs:
        say(f"run: {run.path}")
        for name, value in dev_scores(run).items():
            say(f"dev {name}: {figure(value)}")
    if seeds:
        _say_spread(runs)
    consent = ["--allow-code"] if flags.allow_code else []
    say(f"next: {this_command('eval', runs[0].path, '--data', 'FILES', *consent)}")
    say(f"      {this_command('predict', runs[0].path, '--input', 'FILE', *consent)}")
    return None


def train_with(
    flags: TrainFlags,
    config: Mapping[str, Any],
    seeds: list[int],
    *,
    started_at: float | None = None,
    quiet: bool = False,
) -> list["Run"]:
    """Train what the tables say, once or once a seed, and show how it goes."""
    from saccade.cli.progress import combine, progress, tensorboard
    from saccade.training.start import Start, train_run, train_seeds

    start = Start(
        resume=flags.resume,
        init=flags.init,
        allow_code=flags.allow_code,
        accept_changes=flags.accept_changes,
        # Of several runs each has the whole budget.
        started_at=None if seeds else started_at,
    )
    with ExitStack() as stack:
        events = stack.enter_context(progress(quiet=quiet))
        if flags.tensorboard:
            events = combine(events, stack.enter_context(tensorboard(Path("tensorboard"))))
        if seeds:
            return train_seeds(config, flags.out, seeds, start, events)
        return [train_run(config, flags.out, start, events)]


def dev_scores(run: "Run") -> dict[str, Any]:
    """The dev metrics of the run's model, None for infinite; empty without a dev set."""
    return {name: metric["value"] for name, metric in run.evaluation("dev")["metrics"].items()}


def _say_spread(runs: list["Run"]) -> None:
    from saccade.tasks.metrics import figure
    from saccade.training.start import mean_and_spread

    scores = [dev_scores(run) for run in runs]
    for name in scores[0]:
        values = [each[name] for each in scores]
        if None in values:
            say(f"dev {name}: infinite with {values.count(None)} of {len(runs)} seeds")
            continue
        found = " ± ".join(map(figure, mean_and_spread(values)))
        say(f"dev {name}: {found} (mean and deviation of {len(runs)} seeds)")
