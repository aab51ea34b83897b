"""saccade eval: how good a run is on a data set, with the signature that says how it was scored."""

import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from saccade.cli.decode import EngineFlags, SearchFlags, Switch
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


def evaluate(
    run: Path,
    /,
    *,
    flags: EvalFlags,
    decoding: SearchFlags = SearchFlags(),
    engine: EngineFlags = EngineFlags(),
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

    options = decoding.options()
    name = flags.name or data_name(flags.data)
    if not re.fullmatch(r"[\w][\w.+-]*", name):
        raise InputError(f"--name {name!r}: letters, digits and . _ + - only")
    if flags.moses is not None:
        normalize_punctuation("", flags.moses)  # an unknown language is told before the work
    model = load(run, allow_code=engine.allow_code, precision=engine.precision)
    sources, references = model.task.pairs(flags.data, warn)
    predictions = predict_all(model, sources, decoding, engine)
    evaluation: Evaluation = model.task.score(sources, references, predictions)
    if flags.moses is not None:
        extra = moses_bleu(predictions, references, flags.moses)
        evaluation = replace(evaluation, metrics=[*evaluation.metrics, extra])
    model.run.write_evaluation(name, evaluation)
    if flags.json:
        say(json.dumps(evaluation_json(evaluation, examples=False), ensure_ascii=False))
        return
    for metric in evaluation.metrics:
        say(str(metric))
    for what, count in evaluation.counts.items():
        say(f"{what}: {count:,}")
    say(f"beam: {options.beam}")
    say(f"by example: {model.run.path / 'evals' / name}.json")


def predict_all(
    model: "Model", sources: list[str], decoding: SearchFlags, flags: EngineFlags
) -> list[str]:
    """The predicted texts, in order."""
    from saccade.training.pool import Work, jobs

    engine = flags.engine(model, Work(decoding.options()), len(sources))
    found: dict[int, str] = {}
    cut = 0
    try:
        for job, answers in engine.map(jobs(sources)):
            found.update(zip(job.numbers, (answer["text"] for answer in answers), strict=True))
            cut += sum(answer["truncated"] for answer in answers)
    finally:
        engine.close()
    if cut:
        warn(f"{cut:,} of {len(sources):,} sources are too long; their ends were cut off")
    return [found[number] for number in range(len(sources))]


def data_name(files: list[str]) -> str:
    """data/test.en.gz and data/test.de.gz are `test.en-de`; builtin:a/test is `a-test`."""
    names = [re.sub(r"^\w+:", "", file).removesuffix(".gz") for file in files]
    if len(names) == 2:
        first, second = (Path(name).name for name in names)
        if Path(first).stem == Path(second).stem:
            return first + "-" + Path(second).suffix.removeprefix(".")
        return f"{first}-{second}"
    kept = names[0].replace("/", "-") if files[0].startswith("builtin:") else Path(names[0]).name
    return re.sub(r"[^\w.+-]", "-", kept) or "data"
