"""Columns of tables: tab-separated values, JSON lines, Parquet; any number of columns of text."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from saccade.data.lines import SURROGATE, BadUTF8, count_oddities, lines_or_none, open_bytes
from saccade.errors import InputError, nearest

Cells = tuple[str | None, ...]  # None stands for all that was skipped


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


def _tsv(table: Table, counts: Counter[str]) -> Iterator[Cells]:
    path, width = table.path, len(table.usual)
    rows = enumerate(lines_or_none(path, table.on_bad_utf8, counts), start=1)
    places = list(range(width))
    if table.columns is not None:
        header = (next(rows, (1, ""))[1] or "").split("\t")
        places, width = [_column(path, name, header) for name in table.columns], len(header)
    for number, line in rows:
        cells = None if line is None else line.split("\t")
        if cells is None or cells == [""]:
            yield table.nothing
        elif len(cells) == width:
            yield tuple(cells[place] for place in places)
        else:
            raise InputError(
                f"{path}, line {number}: {len(cells)} columns, expected {width} separated by tabs "
                f"(of more, name those to use: --columns {','.join(table.usual)}, with a header)"
            )


def _column(path: str, name: str, header: Sequence[str]) -> int:
    if name not in header:
        raise InputError(f"{path}: no column {name!r}; {nearest(name, header)}")
    return list(header).index(name)


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
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError("Parquet needs pyarrow: pip install 'saccade[parquet]'") from None
    path, columns, number = table.path, table.names, 0
    try:
        with open_bytes(path) as stream, parquet.ParquetFile(stream) as file:
            for name in columns:
                _column(path, name, file.schema_arrow.names)
            for batch in file.iter_batches(columns=list(columns)):
                for row in batch.to_pylist():
                    number += 1
                    cells = tuple(_cell(row, name, f"{path}, row {number}") for name in columns)
                    for cell in cells:
                        count_oddities(cell, counts)
                    counts["lines"] += 1
                    yield cells
    except pyarrow.ArrowException as error:
        raise InputError(f"{path}: not a Parquet file, or damaged ({error})") from None


FORMATS: dict[str, Reader] = {
    ".tsv": _tsv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".parquet": _parquet,
}


def table_reader(path: str) -> Reader | None:
    """How the rows of this file are read, by the ending of its name; None: it is no table."""
    return FORMATS.get(Path(path.removesuffix(".gz")).suffix.lower())
