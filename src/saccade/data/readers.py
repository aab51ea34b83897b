r"""Read text the way it was written: lines, and pairs of lines, from every format, streaming.

Only `\n` (after an optional `\r`) ends a line. NUL, control characters and Unicode separators are
content, so that two parallel files never shift against each other; what is odd is counted.
"""

import gzip
import hashlib
import importlib
import json
import os
import re
import shlex
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from io import BufferedReader
from itertools import zip_longest
from pathlib import Path
from typing import BinaryIO, Literal, cast

from saccade.errors import InputError, nearest

BadUTF8 = Literal["stop", "replace", "skip"]
Columns = tuple[str, str]
Sides = tuple[str | None, str | None]  # None is a line that was skipped

# A corpus that saccade brings along: its module has `pairs(split)`, a list with source and target.
BUILTIN = {
    "english-french": "saccade.data.english_french",
    "long-english-french": "saccade.data.english_french_long",
}

DEFAULT_COLUMNS = ("source", "target")
SEPARATOR = re.compile("[\u2028\u2029\u0085\v\f]")
SURROGATE = re.compile("[\ud800-\udfff]")
CONTROL = re.compile("[\x00-\x08\r\x0e-\x1f\x7f-\x84\x86-\x9f]")
UTF8_BOM = b"\xef\xbb\xbf"
FOREIGN_BOMS = {  # the longer first: UTF-16's mark begins UTF-32's
    b"\xff\xfe\x00\x00": "UTF-32",
    b"\x00\x00\xfe\xff": "UTF-32",
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
}


@dataclass(frozen=True, slots=True)
class TextReport:
    """What was met in a text: all of it legal, most of it not meant."""

    lines: int = 0
    bom: int = field(default=0, metadata={"say": "byte order marks stripped"})
    crlf: int = field(default=0, metadata={"say": "lines ending in CR LF"})
    control: int = field(default=0, metadata={"say": "lines with control characters (kept)"})
    separators: int = field(default=0, metadata={"say": "lines with Unicode separators (kept)"})
    empty: int = field(default=0, metadata={"say": "blank lines"})
    bad_utf8: int = field(default=0, metadata={"say": "lines of invalid UTF-8 (replaced/skipped)"})
    dropped: int = field(default=0, metadata={"say": "pairs dropped (a side blank or skipped)"})

    def summary(self) -> str:
        """One line for the terminal; empty when nothing was odd."""
        says = {name: f.metadata.get("say") for name, f in type(self).__dataclass_fields__.items()}
        odd = {says[name]: count for name, count in asdict(self).items() if says[name] and count}
        return ", ".join(f"{count:,} {say}" for say, count in odd.items())


def resolve(path: str | Path) -> Path:
    """The file a name means; `data:...` lies under the folder that SACCADE_DATA names."""
    name = str(path)
    if not name.startswith("data:"):
        file = Path(name)
    elif folder := os.environ.get("SACCADE_DATA"):
        file = Path(folder) / name.removeprefix("data:")
    else:
        raise InputError(f"{name}: set the environment variable SACCADE_DATA to the data folder")
    if not file.exists():
        raise InputError(f"{name}: no such file{'' if name == str(file) else f' ({file})'}")
    if file.is_dir():
        raise InputError(f"{name}: this is a folder, expected a file")
    return file


def read_lines(
    path: str | Path, *, on_bad_utf8: BadUTF8 = "stop", counts: Counter[str] | None = None
) -> Iterator[str]:
    """The lines of a file, of a gzipped one or of standard input ("-"), one at a time."""
    counts = Counter() if counts is None else counts
    for line in _lines(str(path), on_bad_utf8, counts):
        if line is not None:
            yield line


def _lines(path: str, on_bad_utf8: BadUTF8, counts: Counter[str]) -> Iterator[str | None]:
    """The same, with None in place of a line that was skipped."""
    byte = 0
    with open_bytes(path) as stream:
        for number, raw in enumerate(stream, start=1):
            line = _begin(raw, path, counts) if number == 1 else raw
            text = line.removesuffix(b"\n")
            if text is not line and text.endswith(b"\r"):
                text = text[:-1]
                counts["crlf"] += 1
            counts["lines"] += 1
            try:
                decoded: str | None = text.decode()
            except UnicodeDecodeError as error:
                start = byte + len(raw) - len(line)
                decoded = _repair(error, f"{path}, line {number}", start, on_bad_utf8)
                counts["bad_utf8"] += 1
            if decoded is not None and not (decoded.isprintable() and decoded.strip()):
                count_oddities(decoded, counts)  # rarely: almost all text is printable
            yield decoded
            byte += len(raw)


def _begin(first: bytes, path: str, counts: Counter[str]) -> bytes:
    """The first line without its byte order mark; encodings other than UTF-8 are refused."""
    encoding = next((name for bom, name in FOREIGN_BOMS.items() if first.startswith(bom)), None)
    # Without a mark, UTF-16 of a western text has a letter and a NUL in turns.
    halves = sorted([first[:64:2], first[1:64:2]], key=any)
    if len(first) >= 16 and not any(halves[0]) and all(halves[1][:-1]):
        encoding = encoding or "UTF-16 without a byte order mark"
    if encoding:
        raise InputError(
            f"{path}: this is {encoding}, not UTF-8; convert it: "
            f"iconv -f {encoding.split()[0]} -t UTF-8 {shlex.quote(path)} > NEW-FILE"
        )
    counts["bom"] += first.startswith(UTF8_BOM)
    return first.removeprefix(UTF8_BOM)


def _repair(error: UnicodeDecodeError, place: str, start: int, on_bad_utf8: BadUTF8) -> str | None:
    """What stands for a line of invalid UTF-8 that begins at byte `start` of the file."""
    if on_bad_utf8 == "stop":
        raise InputError(
            f"{place}: byte {error.start + 1} of the line (byte {start + error.start + 1} of the "
            f"file) is 0x{error.object[error.start]:02x}, not UTF-8; repair the file, or use "
            "--on-bad-utf8 replace"
        )
    return error.object.decode(errors="replace") if on_bad_utf8 == "replace" else None


def count_oddities(text: str, counts: Counter[str]) -> None:
    """Note what is odd about a line that is kept as it is."""
    counts["control"] += CONTROL.search(text) is not None
    counts["separators"] += SEPARATOR.search(text) is not None
    counts["empty"] += not text.strip()


@contextmanager
def open_bytes(path: str) -> Iterator[BinaryIO]:
    """The bytes of a file or of standard input, unpacked when they begin as gzip does."""
    try:
        stream = cast(BufferedReader, sys.stdin.buffer if path == "-" else resolve(path).open("rb"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        packed = stream.peek(2)[:2] == b"\x1f\x8b"
        yield cast(BinaryIO, gzip.GzipFile(fileobj=stream)) if packed else stream
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: the gzip file is damaged or cut short ({error})") from None
    finally:
        if path != "-":
            stream.close()


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
            raise InputError(f"{' and '.join(self.files)}: no pair with text on both sides")

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
    sides = [_lines(file, text.on_bad_utf8, counts) for file in text.files]
    for pair in zip_longest(*sides, fillvalue=end):
        lengths = [n + (side is not end) for n, side in zip(lengths, pair, strict=True)]
        if end not in pair:
            yield cast(Sides, pair)
    if lengths[0] != lengths[1]:
        first, second = (f"{f} has {n:,} lines" for f, n in zip(text.files, lengths, strict=True))
        raise InputError(f"{first}, {second}: line n of one must translate line n of the other")


def _tsv(text: ParallelText, counts: Counter[str]) -> Iterator[Sides]:
    (path,) = text.files
    rows = enumerate(_lines(path, text.on_bad_utf8, counts), start=1)
    places, width = [0, 1], 2
    if text.columns is not None:
        header = (next(rows, (1, ""))[1] or "").split("\t")
        places, width = [_column(path, name, header) for name in text.columns], len(header)
    for number, line in rows:
        cells = None if line is None else line.split("\t")
        if cells is None or cells == [""]:
            yield None, None
        elif len(cells) == width:
            yield cells[places[0]], cells[places[1]]
        else:
            raise InputError(
                f"{path}, line {number}: {len(cells)} columns, expected {width} separated by tabs "
                "(of more than two, name those to use: --columns source,target, with a header)"
            )


def _column(path: str, name: str, header: Sequence[str]) -> int:
    if name not in header:
        raise InputError(f"{path}: no column {name!r}; {nearest(name, header)}")
    return list(header).index(name)


def _jsonl(text: ParallelText, counts: Counter[str]) -> Iterator[Sides]:
    (path,), columns = text.files, text.columns or DEFAULT_COLUMNS
    outer: Counter[str] = Counter()  # of the lines; what is odd in a text is counted by the cell
    for number, line in enumerate(_lines(path, text.on_bad_utf8, outer), start=1):
        counts.update({kind: outer[kind] for kind in ("lines", "bom", "crlf", "bad_utf8", "empty")})
        outer.clear()
        if not line or not line.strip():
            yield None, None
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}, line {number}: not JSON ({error})") from None
        if not isinstance(row, dict):
            raise InputError(f"{path}, line {number}: expected an object like {{...}} a line")
        place = f"{path}, line {number}"
        source, target = (_whole(_cell(row, name, place), text, place, counts) for name in columns)
        yield source, target


def _cell(row: dict[str, object], name: str, place: str) -> str:
    if name not in row:
        raise InputError(f"{place}: no column {name!r}; {nearest(name, row)} (set --columns)")
    value = "" if row[name] is None else row[name]
    if not isinstance(value, str):
        raise InputError(f"{place}: column {name!r} holds {type(value).__name__}, expected text")
    return value


def _whole(cell: str, text: ParallelText, place: str, counts: Counter[str]) -> str | None:
    """JSON can escape half a surrogate pair, which no UTF-8 can hold."""
    if SURROGATE.search(cell):
        if text.on_bad_utf8 == "stop":
            raise InputError(f"{place}: half a surrogate pair (\\ud800 to \\udfff) is not text")
        counts["bad_utf8"] += 1
        if text.on_bad_utf8 == "skip":
            return None
        cell = SURROGATE.sub("\ufffd", cell)
    count_oddities(cell, counts)
    return cell


def _parquet(text: ParallelText, counts: Counter[str]) -> Iterator[Sides]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise InputError("Parquet needs pyarrow: pip install 'saccade[parquet]'") from None
    (path,), columns = text.files, text.columns or DEFAULT_COLUMNS
    number = 0
    try:
        with open_bytes(path) as stream, parquet.ParquetFile(stream) as table:
            for name in columns:
                _column(path, name, table.schema_arrow.names)
            for batch in table.iter_batches(columns=list(columns)):
                for row in batch.to_pylist():
                    number += 1
                    source, target = (_cell(row, name, f"{path}, row {number}") for name in columns)
                    for cell in (source, target):
                        count_oddities(cell, counts)
                    counts["lines"] += 1
                    yield source, target
    except pyarrow.ArrowException as error:
        raise InputError(f"{path}: not a Parquet file, or damaged ({error})") from None


def _builtin(text: ParallelText, counts: Counter[str]) -> Iterator[Sides]:
    (name,) = text.files
    corpus, _, split = name.removeprefix("builtin:").partition("/")
    backwards = "-".join(reversed(corpus.split("-")))
    module_name = BUILTIN.get(corpus) or BUILTIN.get(backwards)
    if module_name is None or not split:
        known = [f"builtin:{corpus}/train" for corpus in BUILTIN]
        raise InputError(f"unknown corpus {name!r}; {nearest(name, known)}")
    pairs = importlib.import_module(module_name).pairs(split)
    counts["lines"] += len(pairs)
    for pair in pairs:
        yield (pair.source, pair.target) if corpus in BUILTIN else (pair.target, pair.source)


FORMATS: dict[str, Reader] = {
    ".tsv": _tsv,
    ".jsonl": _jsonl,
    ".ndjson": _jsonl,
    ".parquet": _parquet,
}


def reader(files: Sequence[str]) -> Reader:
    """How these files hold pairs: two files line by line, one by the ending of its name."""
    if len(files) == 2:
        return _two_files
    if len(files) != 1:
        raise InputError(f"expected one file of pairs, or two of lines, got {len(files)}")
    if files[0].startswith("builtin:"):
        return _builtin
    if files[0] == "-":
        return _tsv
    ending = Path(files[0].removesuffix(".gz")).suffix.lower()
    if ending not in FORMATS:
        raise InputError(
            f"{files[0]}: one file of pairs ends in {', '.join(FORMATS)} (or these and .gz); "
            "parallel text in plain lines is two files"
        )
    return FORMATS[ending]


def fingerprint(files: Sequence[str]) -> str:
    """SHA-256 over the bytes of the files, so that a changed corpus is seen."""
    whole = hashlib.sha256()
    for file in files:
        if file == "-":
            raise InputError("standard input can be read only once: give a file")
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
