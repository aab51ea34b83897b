"""Pairs of texts from every format, streaming: two files of lines, a table, a built-in corpus."""

import hashlib
import importlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, cast

from saccade.data.lines import BadUTF8, TextReport, lines_or_none, refuse_read_once, resolve
from saccade.data.tables import FORMATS, Table, columnless, table_reader
from saccade.errors import InputError, nearest

Columns = tuple[str, str]
Sides = tuple[str | None, str | None]  # None is a line that was skipped

# A corpus that saccade brings along: its module has `pairs(split)`, a list with source and target.
BUILTIN = {
    "english-french": "saccade.data.english_french",
    "long-english-french": "saccade.data.english_french_long",
    "english-spanish": "saccade.data.english_spanish",
}

DEFAULT_COLUMNS = ("source", "target")


class ParallelText:
    """Pairs of a source and a target text, from two files or the two columns of one."""

    def __init__(
        self,
        files: Sequence[str],
        columns: Columns | None = None,
        *,
        on_bad_utf8: BadUTF8 = "stop",
    ):
        self.files = tuple(map(str, files))
        self.columns = columns
        self.on_bad_utf8 = on_bad_utf8
        self.counts: Counter[str] = Counter()
        self.read = reader(self.files)
        if columns is not None and not tabular(self.files):
            raise columnless(columns, self.files)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Every pair with text on both sides, in order; the report counts the others."""
        counts: Counter[str] = Counter()
        self.counts = counts
        kept = 0
        for source, target in self.read(self, counts):
            if source and target and source.strip() and target.strip():
                kept += 1
                yield source, target
            else:
                counts["dropped"] += 1
        if not kept:
            raise self._nothing()

    def _nothing(self) -> InputError:
        """What to raise when no pair has text on both sides: why."""
        report, files = self.report, " and ".join(self.files)
        if report.dropped:
            skipped = report.bad_utf8 if self.on_bad_utf8 == "skip" else 0
            why = f"blank or not UTF-8 ({skipped:,} skipped)" if skipped else "blank"
            return InputError(
                f"{files}: no pair is left of {report.dropped:,}, each has a side that is {why}"
            )
        if report.lines and tabular(self.files):
            return InputError(f"{files} has a header and no pairs below it")
        if len(self.files) == 2:
            return InputError(f"{files} are empty: give files with one text a line")
        return InputError(f"{files} is empty: give a file with one pair a line")

    @property
    def report(self) -> TextReport:
        """What the latest reading met, so far."""
        return TextReport(**self.counts)

    def fingerprint(self) -> str:
        """Changes when a file, the columns or the treatment of bad bytes change."""
        text = json.dumps([fingerprint(self.files), self.columns, self.on_bad_utf8])
        return hashlib.sha256(text.encode()).hexdigest()


def read_pairs(
    files: Sequence[str], columns: Columns | None = None, *, on_bad_utf8: BadUTF8 = "stop"
) -> Iterator[tuple[str, str]]:
    """The pairs of a parallel text, one at a time."""
    return iter(ParallelText(files, columns, on_bad_utf8=on_bad_utf8))


Reader = Callable[[ParallelText, Counter[str]], Iterator[Sides]]


def _two_files(text: ParallelText, counts: Counter[str]) -> Iterator[Sides]:
    lengths, end = [0, 0], object()
    sides = [lines_or_none(file, text.on_bad_utf8, counts) for file in text.files]
    for pair in zip_longest(*sides, fillvalue=end):
        lengths = [n + (side is not end) for n, side in zip(lengths, pair, strict=True)]
        if end not in pair:
            yield cast(Sides, pair)
    if lengths[0] != lengths[1]:
        first, second = (
            f"{f} has {n:,} line{'s' * (n != 1)}" for f, n in zip(text.files, lengths, strict=True)
        )
        raise InputError(f"{first}, {second}: line n of one must translate line n of the other")


def builtin_pairs(name: str) -> tuple[list[Any], bool]:
    """The pairs that `builtin:CORPUS/SPLIT` means, and whether it names the languages backwards."""
    corpus, _, split = name.removeprefix("builtin:").partition("/")
    backwards = "-".join(reversed(corpus.split("-")))
    module_name = BUILTIN.get(corpus) or BUILTIN.get(backwards)
    if module_name is None or not split:
        known = [f"builtin:{corpus}/train" for corpus in BUILTIN]
        raise InputError(f"unknown corpus {name!r}; {nearest(name, known)}")
    return importlib.import_module(module_name).pairs(split), corpus not in BUILTIN


def _builtin(text: ParallelText, counts: Counter[str]) -> Iterator[Sides]:
    (name,) = text.files
    pairs, backwards = builtin_pairs(name)
    counts["lines"] += len(pairs)
    for pair in pairs:
        yield (pair.target, pair.source) if backwards else (pair.source, pair.target)


def _table(text: ParallelText, counts: Counter[str]) -> Iterator[Sides]:
    (path,) = text.files
    read = FORMATS[".tsv"] if path == "-" else table_reader(path)
    assert read is not None, path
    table = Table(path, text.columns, DEFAULT_COLUMNS, text.on_bad_utf8)
    return cast(Iterator[Sides], read(table, counts))


def reader(files: Sequence[str]) -> Reader:
    """How these files hold pairs: two files line by line, one by the ending of its name."""
    if list(files) == ["-", "-"]:
        raise InputError("standard input is one text: give a file for the other, or a table alone")
    if len(files) == 2 and any(file.startswith("builtin:") for file in files):
        raise InputError(f"{' and '.join(files)}: a built-in corpus is both sides, name one alone")
    if len(files) == 2 and any(map(table_reader, files)):
        raise InputError(
            f"{' and '.join(files)}: one table alone, with a column for each side, or two files of "
            "plain lines, whose names say so (.txt, .en)"
        )
    if len(files) == 2:
        return _two_files
    if len(files) != 1:
        raise InputError(f"expected one file of pairs, or two of lines, got {len(files)}")
    if files[0].startswith("builtin:"):
        return _builtin
    if files[0] != "-" and table_reader(files[0]) is None:
        raise InputError(
            f"{files[0]}: one file of pairs ends in {', '.join(FORMATS)} (or these and .gz); "
            "parallel text in plain lines is two files"
        )
    return _table


def tabular(files: Sequence[str]) -> bool:
    """Whether these files hold pairs in columns."""
    return reader(files) is _table


def fingerprint(files: Sequence[str]) -> str:
    """SHA-256 over the bytes of the files, so that a changed corpus is seen."""
    refuse_read_once(files)
    whole = hashlib.sha256()
    for file in files:
        one = hashlib.sha256()
        if file.startswith("builtin:"):
            for pair in read_pairs([file]):
                one.update("\t".join(pair).encode() + b"\n")
        else:
            with resolve(file).open("rb") as stream:
                while block := stream.read(1 << 20):
                    one.update(block)
        whole.update(one.digest())
    return whole.hexdigest()
