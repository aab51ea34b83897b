"""saccade predict: one line of output for each line of input, in order."""

import gzip
import json
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from io import TextIOWrapper
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

from cyclopts import Parameter

from saccade.cli.alignments import ReadingFlags
from saccade.cli.decode import EngineFlags, SearchFlags
from saccade.cli.flags import DRAWS, LINES, SEARCH, Switch, Whole
from saccade.cli.terminal import tell_unfinished, warn
from saccade.data.lines import packed, resolve
from saccade.errors import InputError

if TYPE_CHECKING:
    from saccade.decoding.options import DecodeOptions
    from saccade.inspection.alignment_error import Reading
    from saccade.training.model import Model
    from saccade.training.pool import Work

BLOCK = 1024  # lines read at a time
SHOWN = 5  # numbers of lines, where many have the same to tell


@Parameter(name="*", group=SEARCH)
@dataclass(frozen=True, kw_only=True)
class PredictFlags(SearchFlags):
    """How to search or draw; unset means the default."""

    nbest: Whole | None = None
    """Print so many hypotheses a line, best first, as `line ||| text ||| score` (lines from 0)."""
    sample: Annotated[Switch, Parameter(group=DRAWS)] = False
    """Draw each token instead of searching for the most probable output."""
    temperature: Annotated[float | None, Parameter(group=DRAWS)] = None
    """Of --sample: below 1 safer, above 1 more varied. [default: 1]"""
    top_k: Annotated[Whole | None, Parameter(group=DRAWS)] = None
    """Of --sample: draw from the k most probable tokens."""
    top_p: Annotated[float | None, Parameter(group=DRAWS)] = None
    """Of --sample: draw from the most probable tokens that together have probability p."""
    seed: Annotated[Whole | None, Parameter(group=DRAWS)] = None
    """Of --sample: the same seed draws the same. [default: 1]"""
    repetition_penalty: Annotated[float | None, Parameter(group=DRAWS)] = None
    """Above 1, what was said before is chosen less. Only with one path: drawn, or --beam 1."""
    stop: Annotated[list[str] | None, Parameter(negative=(), group=DRAWS)] = None
    """End before this text (\\n: see --unescape); may be repeated. Only with one path, as above."""

    def options(self, usual: "DecodeOptions") -> "DecodeOptions":
        """What was given; a flag that would do nothing is refused."""
        given = self.given()
        searching = ("beam", "choices", "nbest")
        sample = self.sample or (usual.sample and not any(flag in given for flag in searching))
        idle = ("beam", "choices") if sample else ("temperature", "top_k", "top_p", "seed")
        for flag in idle:
            if flag in given:
                goes = "is of search and does not go with" if sample else "needs"
                raise InputError(f"--{flag.replace('_', '-')} {goes} --sample")
        return replace(usual, **given | {"sample": sample})


@Parameter(name="*", group=LINES)
@dataclass(frozen=True, kw_only=True)
class Places:
    """Where lines come from and go to."""

    input: str = "-"
    """A file of lines, .gz too; - is standard input."""
    output: str = "-"
    """A file, .gz too, which appears whole when all is done; - is standard output."""
    alignments: str | None = None
    """Write what each word of the best output looked at, as Pharaoh lines (0-0 1-2)."""
    json: Switch = False
    """One object a line: text, score, tokens and more."""
    stream: Switch = False
    """Print each text while it is being made, one path (no beam)."""
    unescape: Switch = False
    """Read \\n in a line of input, and in --stop, as a newline, as it is written in the output."""
    on_bad_utf8: Literal["stop", "replace"] = "stop"
    """What to do with a line that is not UTF-8."""

    def refuse_same(self) -> None:
        """No file is read and written, or written twice, and none is a run's own."""
        from saccade.training.run import run_around

        if self.alignments is not None and _place(self.output) == _place(self.alignments):
            both = "standard output" if self.output == "-" else self.output
            raise InputError(
                f"--output and --alignments are both {both}: name a file for one of them"
            )
        for flag, name in {"--output": self.output, "--alignments": self.alignments}.items():
            if name is not None and "-" not in (name, self.input) and _same(name, self.input):
                raise InputError(
                    f"--input and {flag} are both {name}: name another file for {flag}"
                )
            if name not in (None, "-") and (found := run_around(Path(name))) is not None:
                raise InputError(f"{flag} {name} is a part of the run {found}: name another file")


def predict(
    run: Path,
    /,
    *,
    places: Places = Places(),
    decoding: PredictFlags = PredictFlags(),
    engine: EngineFlags = EngineFlags(),
    reading: ReadingFlags = ReadingFlags(),
) -> None:
    r"""Predict with a run: exactly one line of output for each line of input, in order.

    A newline inside a prediction appears as \n (--json and --stream keep it). An empty line gives
    an empty line; for a language model it stands for the beginning of a text. A text that is too
    long is cut, and named on standard error. Translations are searched for, what follows a prompt
    is drawn.

    Parameters
    ----------
    run
        A folder that `saccade train` made.
    """
    from saccade.training.failures import told_of
    from saccade.training.model import load
    from saccade.training.pool import Work

    if places.alignments is None:
        reading.refuse_idle()
    places.refuse_same()
    model = load(run, allow_code=engine.allow_code, precision=engine.precision)
    tell_unfinished(model.run)
    options = decoding.options(model.task.options)
    if places.unescape:
        options = replace(options, stop=[_unescaped(stop) for stop in options.stop])
    failing = told_of(run, model.settings.train, "predicting")
    if places.stream:
        _refuse_with_stream(places, decoding, engine)
        with _written(places.output) as out, failing:
            for piece in _stream(model, places, options):
                out.write(piece)
                out.flush()
        return
    work = Work(options, None if places.alignments is None else _checked(model, reading))
    links = nullcontext() if places.alignments is None else _written(places.alignments)
    with _written(places.output) as out, links as aligned, failing:
        plain = _as_nbest if options.nbest > 1 else _as_line
        show = _as_json if places.json else plain
        unfinished: list[int] = []
        for number, answer in enumerate(_answers(model, places, work, engine)):
            if not answer["finished"]:
                unfinished.append(number + 1)
            if answer["truncated"]:
                _warn_cut(places, number, answer["read"])
            out.write(show(number, answer))
            if aligned is not None:
                aligned.write(answer["alignment"] + "\n")
            if (number + 1) % BLOCK == 0:  # who reads along need not wait for the end
                out.flush()
    _tell_unfinished(places, unfinished, model.task.options)


def _checked(model: "Model", flags: ReadingFlags) -> "Reading":
    """How to read links off what this model looks at."""
    from saccade.inspection.alignment_error import Reading
    from saccade.inspection.forced import check_reading

    if not getattr(model.module, "alignment_layers", ()):
        raise InputError("--alignments: this model looks at no source to align words with")
    reading = flags.reading(Reading(links="argmax"))  # a link a word, as Pharaoh lines always were
    check_reading(model.module, reading)
    return reading


def _answers(
    model: "Model", places: Places, work: "Work", flags: EngineFlags
) -> Iterator[dict[str, Any]]:
    """The answers in the order of the lines; only a few blocks are in memory at any time."""
    from saccade.training.pool import jobs

    blocks = _blocks(places)
    first = next(blocks, None)
    if first is None:
        return
    engine = flags.engine(model, work, len(first[1]))
    done: dict[int, dict[str, Any]] = {}
    shown = 0
    try:
        todo = (job for start, texts in chain([first], blocks) for job in jobs(texts, start))
        for job, answers in engine.map(todo):  # a job holds texts of one length, not neighbours
            done.update(zip(job.numbers, answers, strict=True))
            while shown in done:
                yield done.pop(shown)
                shown += 1
    finally:
        engine.close()


def _blocks(places: Places) -> Iterator[tuple[int, list[str]]]:
    """Lines, some at a time, and the place of the first; one by one if somebody waits for each."""
    from saccade.data.lines import TextReport, read_lines

    counts: Counter[str] = Counter()
    lines = read_lines(places.input, on_bad_utf8=places.on_bad_utf8, counts=counts)
    waiting = places.stream or (
        places.input == "-" and sys.stdin is not None and sys.stdin.isatty()
    )
    start, size = 0, 1 if waiting else BLOCK
    while texts := list(islice(lines, size)):
        yield start, [_unescaped(text) for text in texts] if places.unescape else texts
        start += len(texts)
    if summary := TextReport(**counts).summary():
        warn(f"{_named(places.input)}: {summary}")


def _warn_cut(places: Places, number: int, read: int) -> None:
    line = f"{_named(places.input)}, line {number + 1}"
    warn(f"{line}: too long, the model read {read:,} tokens of it")


def _tell_unfinished(places: Places, lines: list[int], usual: "DecodeOptions") -> None:
    if not lines or usual.length is not None:  # where a length is usual, it is the end
        return
    outputs = "1 output was" if len(lines) == 1 else f"{len(lines):,} outputs were"
    some = ", ".join(map(str, lines[:SHOWN])) + (", ..." if len(lines) > SHOWN else "")
    place = f"line{'s' * (len(lines) > 1)} {some}"
    told = f"cut at the most tokens allowed ({place}): see --max-ratio, --max-extra and --length"
    warn(f"{_named(places.input)}: {outputs} {told}")


def _named(path: str) -> str:
    return "standard input" if path == "-" else path


def _as_line(_: int, answer: dict[str, Any]) -> str:
    return _one_line(answer["text"])


def _as_nbest(number: int, answer: dict[str, Any]) -> str:
    """As Moses and its heirs print n-best lists, less the feature scores."""
    every = [answer, *answer["alternatives"]]
    return "".join(
        f"{number} ||| {_one_line(each['text'])[:-1]} ||| {each['score']:.4f}\n" for each in every
    )


def _as_json(_: int, answer: dict[str, Any]) -> str:
    return json.dumps(answer, ensure_ascii=False) + "\n"


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n")


def _one_line(text: str) -> str:
    return text.replace("\n", "\\n") + "\n"


def _place(name: str) -> Path | None:
    """Of a file; None is standard output."""
    return None if name == "-" else Path(name).resolve()  # what a link leads to: it stays one


def _same(one: str, other: str) -> bool:
    """Whether two names are of the same file, which is there, be it by a second link."""
    try:
        return Path(one).is_file() and Path(one).samefile(resolve(other))
    except (OSError, InputError):  # what cannot be read is told when it is read
        return False


@contextmanager
def _written(name: str) -> Iterator[TextIO]:
    """A file that appears whole at the end, or standard output."""
    place, path = _place(name), Path(name)
    if place is None:
        yield sys.stdout
        return
    if path.exists() and not path.is_file():  # a pipe or a device: nothing to put in its place
        with _opened(path, name) as file:  # a link to a pipe, as /dev/fd/63, resolves to no file
            yield file
        return
    fresh = place.with_name(f".{place.name}.{os.getpid()}.tmp")
    try:
        with _opened(fresh, name) as file:
            if place.exists():  # at once: what others may not read, they may not read half-written
                shutil.copymode(place, fresh)
            yield file
        fresh.replace(place)
    finally:
        with suppress(NotADirectoryError):  # where it could not even be opened
            fresh.unlink(missing_ok=True)


@contextmanager
def _opened(place: Path, named: str) -> Iterator[TextIO]:
    try:
        raw = place.open("wb")
    except FileNotFoundError:
        told = f"cannot be written: make the folder {place.parent} first"
        raise InputError(f"{named}: {told}") from None
    except OSError as error:
        raise InputError(f"{named}: cannot be written: {error.strerror}") from None
    with raw:  # the same text is the same bytes: neither a name nor a time is packed with it
        whole = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if packed(named) else raw
        with whole, TextIOWrapper(whole, "utf-8", errors="replace", newline="\n") as file:
            yield file


def _refuse_with_stream(places: Places, decoding: PredictFlags, engine: EngineFlags) -> None:
    refused = {
        "--beam": (decoding.beam or 1) > 1,
        "--nbest": (decoding.nbest or 1) > 1,
        "--choices": decoding.choices is not None,
        "--length-penalty": decoding.length_penalty is not None,
        "--workers": (engine.workers or 1) > 1,
        "--json": places.json,
        "--alignments": places.alignments is not None,
    }
    for flag, given in refused.items():
        if given:
            raise InputError(f"--stream prints one path as it grows: it does not go with {flag}")


def _stream(model: "Model", places: Places, options: "DecodeOptions") -> Iterator[str]:
    """Every text piece by piece, each with its end of line."""
    import torch

    torch.set_num_threads(1)
    for start, texts in _blocks(places):
        for number, text in enumerate(texts, start):
            cut = partial(_warn_cut, places, number)
            yield from model.stream(text, options, number, on_cut=cut)
            yield "\n"
