r"""Texts to learn a language from, streaming: plain files, or the rows of a table.

A plain file is one stretch of text whose end is not an end (it may be cut out of a longer one).
A row of a table (TSV, CSV, JSON lines, Parquet) is a document: where it ends is something to learn.
Texts come in passages, cut where a tokenizer would cut anyway, so that no text is too long.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from saccade.data.lines import BadUTF8, TextReport, read_text
from saccade.data.readers import fingerprint
from saccade.data.tables import Table, columnless, table_reader
from saccade.errors import InputError

USUAL = ("text",)  # the column of a table, when nobody named one
PASSAGE = 1000  # characters of a passage at least, but at the end of a text
LONGEST = 8192  # characters of a line that stay together


@dataclass(frozen=True, slots=True)
class Passage:
    """A stretch of a text; put together, the passages of a text are the text."""

    text: str
    first: bool  # of its text
    last: bool


class Documents:
    """All the texts of some files, passage by passage."""

    def __init__(
        self,
        files: Sequence[str],
        columns: tuple[str, ...] | None = None,
        *,
        on_bad_utf8: BadUTF8 = "stop",
    ):
        self.files, self.columns, self.on_bad_utf8 = tuple(files), columns, on_bad_utf8
        tables = [table_reader(file) is not None for file in self.files]
        if not tables:
            raise InputError("no files to read texts from")
        if any(tables) != all(tables):
            raise InputError(f"{' '.join(files)}: all plain text or all tables, not both")
        if builtin := [file for file in files if file.startswith("builtin:")]:
            raise InputError(f"{builtin[0]}: built-in corpora are pairs of texts, for translate")
        if columns is not None and len(columns) != 1:
            raise InputError(f"--columns {','.join(columns)!r}: one name, such as text")
        if columns is not None and not any(tables):
            raise columnless(columns, files)
        if self.files.count("-") > 1:
            raise InputError("standard input is one text: give it once")
        self.ends = all(tables)  # whether the end of a text is its end
        self.counts: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Passage]:
        """Every passage of every text that is not blank."""
        self.counts = Counter()
        found = False
        for text in self._texts():
            for passage in _marked(passages(text)):
                found = True
                yield passage
        if not found:
            raise InputError(f"{' '.join(self.files)}: there is no text in it")

    def _texts(self) -> Iterator[Iterable[str]]:
        """The lines of each text."""
        for file in self.files:
            read = table_reader(file)
            if read is None:
                yield read_text(file, self.on_bad_utf8, self.counts)
                continue
            table = Table(file, self.columns, USUAL, self.on_bad_utf8)
            for (text,) in read(table, self.counts):
                if text and text.strip():
                    *lines, rest = text.split("\n")
                    yield [*(line + "\n" for line in lines), rest]

    @property
    def report(self) -> TextReport:
        """What the latest reading met, so far; blank lines are as good as others here."""
        return TextReport(**{**self.counts, "empty": 0})

    def fingerprint(self) -> str:
        """Changes when a file, the column or the treatment of bad bytes change."""
        text = json.dumps([fingerprint(self.files), self.columns, self.on_bad_utf8])
        return hashlib.sha256(text.encode()).hexdigest()


def columns_of(
    files: Sequence[str], columns: tuple[str, ...] | None, others: Sequence[str]
) -> tuple[str, ...] | None:
    """Those to read of the files: where others of the run are tables, plain ones have none."""
    plain = not any(map(table_reader, files))
    return None if plain and any(map(table_reader, others)) else columns


def passages(lines: Iterable[str]) -> Iterator[str]:
    """Lines put together up to some size, cut before a line or a word, never inside a blank."""
    held: list[str] = []
    size = 0
    for line in _broken(lines):
        cuttable = not line[:1].isspace() or (line[0] == " " and not line[1:2].isspace())
        if (size >= PASSAGE and cuttable) or size >= 2 * LONGEST:
            yield "".join(held)
            held, size = [], 0
        held.append(line)
        size += len(line)
    if size:
        yield "".join(held)


def _broken(lines: Iterable[str]) -> Iterator[str]:
    """Lines that are too long are broken before a space, or anywhere when there is none."""
    for line in lines:
        start = 0
        while len(line) - start > LONGEST:
            space = line.rfind(" ", start + 1, start + LONGEST)
            end = start + LONGEST if space < 0 else space
            yield line[start:end]
            start = end
        if start < len(line):
            yield line[start:]


def _marked(texts: Iterator[str]) -> Iterator[Passage]:
    """Passages that know whether they begin or end a text."""
    text, first = next(texts, None), True
    while text is not None:
        following = next(texts, None)
        yield Passage(text, first, following is None)
        text, first = following, False
