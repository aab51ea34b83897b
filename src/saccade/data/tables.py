"""Columns of tables: TSV, CSV, JSON lines, Parquet; any number of columns of text."""

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from saccade.data.lines import (
    SURROGATE,
    BadUTF8,
    count_oddities,
    lines_or_none,
    open_bytes,
    read_text,
    repair,
    unpacked,
)
from saccade.errors import InputError, install, nearest

Cells = tuple[str | None, ...]  # None stands for all that was skipped

RETURN = re.compile("\r(?!$)")  # one inside a line, where csv knows it only between quotes
STAND_IN = "\ud800"  # for it: no text that was UTF-8 holds half a surrogate pair
CELL = 1 << 24  # characters of a CSV file's at most: an open quote swallows no more
ROWS, BUFFER = 256, 1 << 16  # rows, and bytes of a column, of a Parquet file held at a time


@dataclass(frozen=True, slots=True)
class Table:
    """A file of rows, and which of its columns are meant."""

    path: str
    columns: tuple[str, ...] | None  # as the user named them
    usual: tuple[str, ...]  # what they are called when nobody said
    on_bad_utf8: BadUTF8

    @property
    def names(self) -> tuple[str, ...]:
        return self.columns or self.usual

    @property
    def nothing(self) -> Cells:
        return (None,) * len(self.names)


Reader = Callable[[Table, Counter[str]], Iterator[Cells]]


Row = tuple[int, list[str] | None]  # the line it begins in, and its cells; None: skipped


def _tsv(table: Table, counts: Counter[str]) -> Iterator[Cells]:
    lines = enumerate(lines_or_none(table.path, table.on_bad_utf8, counts), start=1)
    rows = ((number, None if line is None else line.split("\t")) for number, line in lines)
    return _placed(table, rows, "tabs")


def _csv(table: Table, counts: Counter[str]) -> Iterator[Cells]:
    return _placed(table, _csv_rows(table, counts), "commas")


def _csv_rows(table: Table, counts: Counter[str]) -> Iterator[Row]:
    """As RFC 4180 has it: what is quoted may hold commas and lines, and a quote by two."""
    csv.field_size_limit(max(CELL, csv.field_size_limit()))  # 128 KB else: a document is longer
    skips = table.on_bad_utf8 == "skip"  # of a row the whole, so all of its lines are read
    lines = read_text(table.path, "replace" if skips else table.on_bad_utf8, counts)
    rows = csv.reader((RETURN.sub(STAND_IN, line) for line in lines), strict=True)
    odd_ends = counts["crlf"]
    while True:
        number, bad = rows.line_num + 1, counts["bad_utf8"]
        try:
            cells = next(rows, None)
        except csv.Error as error:
            raise InputError(f"{table.path}, line {number}: not CSV ({error})") from None
        counts["crlf"] = odd_ends  # here CR LF is the usual end
        if cells is None:
            return
        skipped = skips and counts["bad_utf8"] > bad
        yield number, None if skipped else [cell.replace(STAND_IN, "\r") for cell in cells]


def _placed(table: Table, rows: Iterator[Row], separated: str) -> Iterator[Cells]:
    """The columns that are meant, by the header where there is one, else by their places."""
    path, width = table.path, len(table.usual)
    places = list(range(width))
    first = list(_to_first_text(rows))
    header = (first[-1][1] if first else None) or []
    if table.columns is not None or set(table.usual) <= set(header):
        places, width = [_column(path, name, header) for name in table.names], len(header)
        first = first[:-1]
    for number, cells in chain(first, rows):
        if cells is None or not (cells[1:] or "".join(cells).strip()):  # skipped, or a blank line
            yield table.nothing
        elif len(cells) == width:
            yield tuple(cells[place] for place in places)
        else:
            raise InputError(
                f"{path}, line {number}: {len(cells)} columns, expected {width} separated by "
                f"{separated} (of more, name those to use: --columns {','.join(table.usual)}, "
                "with a header)"
            )


def _to_first_text(rows: Iterator[Row]) -> Iterator[Row]:
    """The rows up to the first that is not blank: there a header stands."""
    for row in rows:
        yield row
        if "".join(row[1] or ()).strip():
            return


def _column(path: str, name: str, header: Sequence[str]) -> int:
    if name not in header:
        raise InputError(f"{path}: no column {name!r}; {nearest(name, header)}")
    if (times := header.count(name)) > 1:
        raise InputError(
            f"{path}: {times} columns are called {name!r}: rename all but the one meant"
        )
    return header.index(name)


def _jsonl(table: Table, counts: Counter[str]) -> Iterator[Cells]:
    path = table.path
    outer: Counter[str] = Counter()  # of the lines; what is odd in a text is counted by the cell
    for number, line in enumerate(lines_or_none(path, table.on_bad_utf8, outer), start=1):
        counts.update({kind: outer[kind] for kind in ("lines", "bom", "crlf", "bad_utf8", "empty")})
        outer.clear()
        if not line or not line.strip():
            yield table.nothing
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not JSON ({error})") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: expected an object like {{...}} a line")
        place = f"{path}, line {number}"
        yield tuple(_whole(_cell(row, name, place), table, place, counts) for name in table.names)


def _cell(row: dict[str, object], name: str, place: str) -> str:
    if name not in row:
        raise InputError(f"{place}: no column {name!r}; {nearest(name, row)} (set --columns)")
    value = "" if row[name] is None else row[name]
    if not isinstance(value, str):
        raise InputError(f"{place}: column {name!r} holds {type(value).__name__}, expected text")
    return value


def _whole(cell: str, table: Table, place: str, counts: Counter[str]) -> str | None:
    """JSON can escape half a surrogate pair, which no UTF-8 can hold."""
    if SURROGATE.search(cell):
        if table.on_bad_utf8 == "stop":
            raise InputError(f"{place}: half a surrogate pair (\\ud800 to \\udfff) is not text")
        counts["bad_utf8"] += 1
        if table.on_bad_utf8 == "skip":
            return None
        cell = SURROGATE.sub("\ufffd", cell)
    count_oddities(cell, counts)
    return cell


def _parquet(table: Table, counts: Counter[str]) -> Iterator[Cells]:
    for number, row in enumerate(_parquet_rows(table), start=1):
        counts["lines"] += 1
        places = (f"{table.path}, row {number}, column {name!r}" for name in table.names)
        yield tuple(
            _decoded(cell, table, place, counts) for cell, place in zip(row, places, strict=True)
        )


def _parquet_rows(table: Table) -> Iterator[tuple[bytes | None, ...]]:
    """The cells as bytes: that a text is UTF-8 is not Arrow's to check."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError(f"Parquet needs pyarrow: {install('parquet')}") from None
    path, names, text = table.path, table.names, pyarrow.large_binary()
    try:
        with (
            open_bytes(path) as stream,
            parquet.ParquetFile(stream, buffer_size=BUFFER, pre_buffer=False) as file,
        ):
            for name in names:
                kind = file.schema_arrow.types[_column(path, name, file.schema_arrow.names)]
                if not _holds_text(kind):
                    raise InputError(f"{path}: column {name!r} holds {kind}, expected text")
            for batch in file.iter_batches(ROWS, columns=list(names)):
                columns = [batch.column(name).cast(text).to_pylist() for name in names]
                yield from zip(*columns, strict=True)
    except (pyarrow.ArrowException, OSError) as error:  # damaged pages are an OSError
        raise InputError(f"{path}: not a Parquet file, or damaged ({error})") from None


def _holds_text(kind: Any) -> bool:
    """Whether cells of this Arrow type are text, or all of them missing."""
    from pyarrow import types

    value = kind.value_type if types.is_dictionary(kind) else kind
    tests = (
        *(types.is_string, types.is_large_string, types.is_string_view),
        *(types.is_binary, types.is_large_binary, types.is_binary_view, types.is_null),
    )
    return any(test(value) for test in tests)


def _decoded(cell: bytes | None, table: Table, place: str, counts: Counter[str]) -> str | None:
    try:
        text: str | None = (cell or b"").decode()
    except UnicodeDecodeError as error:
        text = repair(error, f"{place}: byte {error.start + 1}", table.on_bad_utf8)
        counts["bad_utf8"] += 1
    if text is not None:
        count_oddities(text, counts)
    return text


FORMATS: dict[str, Reader] = {
    ".tsv": _tsv,
    ".csv": _csv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".parquet": _parquet,
}


def table_reader(path: str) -> Reader | None:
    """How the rows of this file are read, by the ending of its name; None: it is no table."""
    return FORMATS.get(Path(unpacked(path)).suffix.lower())


def columnless(columns: Sequence[str], files: Sequence[str]) -> InputError:
    """What to raise when columns are named and there are none."""
    return InputError(
        f"--columns {','.join(columns)!r}: there are none in {' and '.join(files)}; "
        f"files with columns end in {', '.join(FORMATS)} (or these and .gz)"
    )
