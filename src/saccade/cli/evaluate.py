"""saccade eval: how good a run is on a data set, with the signature that says how it was scored."""

import json
import re
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from saccade.cli.alignments import AlignmentFlags, aligned
from saccade.cli.decode import EngineFlags, SearchFlags
from saccade.cli.flags import Switch, two_columns
from saccade.cli.terminal import say, warn
from saccade.errors import InputError

if TYPE_CHECKING:
    from saccade.tasks.task import Evaluation
    from saccade.training.model import Model


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EvalFlags:
    """What to score, and where to keep it."""

    data: Annotated[list[str], Parameter(consume_multiple=True, negative=())]
    """The data set, as in training: two files of lines, or one .tsv, .jsonl or .parquet file."""
    name: str | None = None
    """Scores by example are kept in RUN/evals/NAME.json; by default named after the files."""
    moses: str | None = None
    """Also the BLEU of older papers: lowercased Moses tokens of this language, such as de."""
    json: Switch = False
    """Print one object."""
    columns: str | None = None
    """The two columns to use, such as source,target; by default those of the training."""
    on_bad_utf8: Literal["stop", "replace", "skip"] | None = None
    """What to do with a line that is not UTF-8; by default what the training did."""

    def kept_as(self) -> str:
        """The name to keep the scores under."""
        name = self.name or data_name(self.data)
        if not re.fullmatch(r"[\w][\w.+-]*", name):
            raise InputError(f"--name {name!r}: letters, digits and . _ + - only")
        if name == "dev":
            raise InputError("--name dev: there training keeps its own scores; choose another")
        return name

    def tell(self, task: Any) -> None:
        """Let the task read files as was asked; what was not is as in training."""
        asked = {"columns": two_columns(self.columns), "on_bad_utf8": self.on_bad_utf8}
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
    from saccade.inspection.comparison import decimal
    from saccade.tasks.moses import moses_bleu, normalize_punctuation
    from saccade.training.model import load
    from saccade.training.run import evaluation_json

    made = {**decoding.stated(), "precision": engine.precision}
    name = flags.kept_as()
    if flags.moses is not None:
        normalize_punctuation("", flags.moses)  # an unknown language is told before the work
    model = load(run, allow_code=engine.allow_code, precision=engine.precision)
    flags.tell(model.task)
    sources, references = model.task.pairs(flags.data, warn)
    texts = alignments.texts(model, sources, references)
    predictions, seconds = timed_predictions(model, sources, decoding, engine)
    found: Evaluation = model.task.score(sources, references, predictions)
    more = [] if flags.moses is None else [moses_bleu(predictions, references, flags.moses)]
    scored = replace(found, metrics=[*found.metrics, *more], decoding=made, seconds=seconds)
    evaluation = scored if texts is None else aligned(model, scored, texts, alignments)
    # Said before it is kept: the scores of a run that cannot be written to are not lost.
    if flags.json:
        say(json.dumps(evaluation_json(evaluation, examples=False), ensure_ascii=False))
        model.run.write_evaluation(name, evaluation)
        return
    for metric in evaluation.metrics:
        say(f"{metric.name} {decimal(metric.value)} ({metric.signature})")
    for what, count in evaluation.counts.items():
        say(f"{what}: {count:,}")
    say(f"beam: {made['beam']}")
    say(f"decoded: {len(sources) / seconds:,.1f} examples/s")
    model.run.write_evaluation(name, evaluation)
    say(f"by example: {model.run.path / 'evals' / name}.json")


def predict_all(
    model: "Model", sources: list[str], decoding: SearchFlags, flags: EngineFlags
) -> list[str]:
    """The predicted texts, in order."""
    return timed_predictions(model, sources, decoding, flags)[0]


def timed_predictions(
    model: "Model", sources: list[str], decoding: SearchFlags, flags: EngineFlags
) -> tuple[list[str], float]:
    """The predicted texts, in order, and the seconds they took when all workers were ready."""
    from saccade.training.pool import Work, jobs

    engine = flags.engine(model, Work(decoding.options()), len(sources))
    found: dict[int, str] = {}
    cut = 0
    try:
        engine.warm_up()
        begun_at = time.monotonic()
        for job, answers in engine.map(jobs(sources)):
            found.update(zip(job.numbers, (answer["text"] for answer in answers), strict=True))
            cut += sum(answer["truncated"] for answer in answers)
        seconds = max(time.monotonic() - begun_at, 1e-9)
    finally:
        engine.close()
    if cut:
        warn(f"{cut:,} of {len(sources):,} sources are too long; their ends were cut off")
    return [found[number] for number in range(len(sources))], seconds


def data_name(files: list[str]) -> str:
    """data/test.en.gz and data/test.de.gz are `test.en-de`; builtin:a/test is `a-test`."""
    names = [re.sub(r"^\w+:", "", file).removesuffix(".gz") for file in files]
    if len(names) == 2:
        first, second = (Path(name).name for name in names)
        if Path(first).stem == Path(second).stem:
            second = Path(second).suffix.removeprefix(".")
        kept = f"{first}-{second}"
    elif files[0].startswith("builtin:"):
        kept = names[0]
    else:
        kept = Path(names[0]).name
    return re.sub(r"[^\w.+-]", "-", kept).lstrip(".+-") or "data"
