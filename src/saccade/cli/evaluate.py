"""saccade eval: how good a run is on a data set, with the signature that says how it was scored."""

import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from saccade.cli.alignments import AlignmentFlags
from saccade.cli.decode import EngineFlags, SearchFlags
from saccade.cli.flags import Switch, named_columns
from saccade.cli.terminal import say, tell_unfinished, warn
from saccade.errors import InputError

USUAL_NAME = 120  # bytes at most of a name that is made of the files'
LONGEST_NAME = 230  # and of one that is given: a disk takes 255, with all that is put around it

if TYPE_CHECKING:
    from saccade.tasks.task import Evaluation
    from saccade.training.model import Model


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EvalFlags:
    """What to score, and where to keep it."""

    data: Annotated[list[str], Parameter(consume_multiple=True, negative=())]
    """The data set, as in training: two files of lines, or one .tsv, .csv, .jsonl or .parquet."""
    name: str | None = None
    """Scores by example are kept in RUN/evals/NAME.json; by default named after the files."""
    moses: str | None = None
    """Also the BLEU of older papers: lowercased Moses tokens of this language, such as de."""
    set: Annotated[list[str] | None, Parameter(name="--set", negative=())] = None
    """section.key=value: for this evaluation other than in training; may be repeated."""
    json: Switch = False
    """Print one object."""
    columns: str | None = None
    """The columns to use, such as source,target; by default those of the training."""
    on_bad_utf8: Literal["stop", "replace", "skip"] | None = None
    """What to do with a line that is not UTF-8; by default what the training did."""

    def kept_as(self) -> str:
        """The name to keep the scores under."""
        if not self.data:
            raise InputError("--data names no file: give the data set, such as --data FILE FILE")
        name = self.name or data_name(self.data)
        if not re.fullmatch(r"[\w][\w.+-]*", name):
            raise InputError(f"--name {name!r}: letters, digits and . _ + - only")
        if (size := len(name.encode())) > LONGEST_NAME:
            raise InputError(
                f"--name {name[:20]}... is {size} bytes long, a file takes {LONGEST_NAME}: "
                "choose a shorter one"
            )
        if name == "dev" and self.name is None:
            return "dev-data"  # a file of that name: training keeps its own scores as dev
        if name == "dev":
            raise InputError("--name dev: there training keeps its own scores; choose another")
        return name

    def changes(self) -> list[str]:
        """The settings to score with; those that nothing but training looks at are refused."""
        from saccade.config import override
        from saccade.tasks.vocabularies import VOCABULARY

        given = override({}, self.set or [])
        learned = ("train", "dev", "tokenizer", "agreement", *VOCABULARY)
        idle = [f"train.{name}" for name in given.get("train", {})]
        idle += [f"task.{name}" for name in given.get("task", {}) if name in learned]
        if idle:
            raise InputError(
                f"--set {', '.join(idle)}: of the training, which is over, and no part of scoring; "
                "leave it out"
            )
        return self.set or []

    def tell(self, task: Any) -> None:
        """Let the task read files as was asked; what was not is as in training."""
        asked = {"columns": named_columns(self.columns), "on_bad_utf8": self.on_bad_utf8}
        given = {name: value for name, value in asked.items() if value is not None}
        if not given:
            return
        for name in given.keys() - {field.name for field in fields(task.config)}:
            raise InputError(f"the task of this run has no setting {name}")
        task.config = replace(task.config, **given)


def evaluate(
    run: Path,
    /,
    *,
    flags: EvalFlags,
    decoding: SearchFlags = SearchFlags(),
    engine: EngineFlags = EngineFlags(),
    alignments: AlignmentFlags = AlignmentFlags(),
) -> None:
    """Score a run on a data set: the task's metrics, each with its signature.

    Parameters
    ----------
    run
        A folder that `saccade train` made.
    """
    from saccade.tasks.moses import moses_bleu, normalize_punctuation
    from saccade.training.model import load
    from saccade.training.run import evaluation_json

    name, changes = flags.kept_as(), flags.changes()
    if flags.moses is not None:
        normalize_punctuation("", flags.moses)  # an unknown language is told before the work
    model = load(
        run, allow_code=engine.allow_code, precision=engine.precision, changes=changes
    )  # fmt: skip
    tell_unfinished(model.run)
    flags.tell(model.task)
    made = _how(model, flags, decoding) | {"precision": engine.precision}
    examples = model.task.examples(flags.data, warn)
    links = alignments.score(model, examples)  # first: what is wrong there must cost no scores
    found = score_all(model, examples, decoding, engine, changes)
    more = [] if flags.moses is None else [moses_bleu(*_sides(found), flags.moses)]
    scored = replace(found, metrics=[*found.metrics, *more], decoding=made)
    evaluation = scored if links is None else links.beside(scored)
    for told in evaluation.warnings:
        warn(told)
    if replaced := _replaced(model.run.evaluation(name), evaluation):
        warn(f"the scores of {replaced}, kept as {name}, are replaced: --name keeps both")
    # Said before it is kept: the scores of a run that cannot be written to are not lost.
    if flags.json:
        say(json.dumps(evaluation_json(evaluation, examples=False), ensure_ascii=False))
        model.run.write_evaluation(name, evaluation)
        return
    for metric in evaluation.metrics:
        say(str(metric))
    for what, count in evaluation.counts.items():
        say(f"{what}: {count:,}")
    if "beam" in made:
        say(f"beam: {made['beam']}")
        say(f"decoded: {len(evaluation.examples) / (evaluation.seconds or 1):,.1f} examples/s")
    model.run.write_evaluation(name, evaluation)
    say(f"by example: {model.run.path / 'evals' / name}.json")


def _how(model: "Model", flags: EvalFlags, decoding: SearchFlags) -> dict[str, Any]:
    """What the scores depend on besides the weights and the data."""
    changed = {"set": flags.set} if flags.set else {}
    if model.task.decodes:
        return decoding.stated(model.task.options) | changed
    idle = [flag for flag in decoding.given() if flag] + ["moses"] * (flags.moses is not None)
    for flag in idle:
        raise InputError(
            f"--{flag.replace('_', '-')}: {model.settings.task_name} is scored without decoding"
        )
    return changed


def _replaced(kept: dict[str, Any], now: "Evaluation") -> str | None:
    """What is lost when scores take the place of these; None when it is nothing."""
    from saccade.inspection.comparison import asked

    rows = kept.get("by_example", [])
    if rows and [*map(asked, rows)] != [*map(asked, now.examples)]:
        return "other data"
    made = json.loads(json.dumps(now.decoding))
    other = rows and kept.get("decoding", made) != made
    return "the same data by other settings" if other else None


def _sides(evaluation: "Evaluation") -> tuple[list[str], list[str]]:
    rows = evaluation.examples
    return [row["prediction"] for row in rows], [row["reference"] for row in rows]


def score_all(
    model: "Model",
    examples: Any,
    decoding: SearchFlags,
    flags: EngineFlags,
    changes: Sequence[str] = (),
) -> "Evaluation":
    """The scores of a data set, the work dealt out to as many processes as pay."""
    from saccade.data.batches import ROWS
    from saccade.training.failures import told_of
    from saccade.training.pool import Work

    units = model.task.units(examples)
    work = Work(decoding.options(model.task.options))
    engine = flags.engine(model, work, ROWS * len(units), changes)
    try:
        with told_of(model.run.path, model.settings.train, "scoring"):
            engine.warm_up()
            begun_at = time.monotonic()
            measures = list(engine.measure(units))
            seconds = max(time.monotonic() - begun_at, 1e-9)
    finally:
        engine.close()
    return replace(model.task.score(examples, measures), seconds=seconds)


def data_name(files: list[str]) -> str:
    """data/test.en.gz and data/test.de.gz are `test.en-de`; builtin:a/test is `a-test`."""
    from saccade.data.lines import unpacked

    names = [unpacked(re.sub(r"^\w+:", "", file)) for file in files]
    if len(names) == 2:
        first, second = (Path(name).name for name in names)
        if Path(first).stem == Path(second).stem:
            second = Path(second).suffix.removeprefix(".")
        kept = f"{first}-{second}"
    elif files[0].startswith("builtin:"):
        kept = names[0]
    else:
        kept = "-".join(Path(name).name for name in names)
    name = re.sub(r"[^\w.+-]", "-", kept).lstrip(".+-")
    return name.encode()[:USUAL_NAME].decode(errors="ignore") or "data"
