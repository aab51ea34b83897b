r"""Read text the way it was written: lines of files, gzipped or not, streaming.

Only `\n` (after an optional `\r`) ends a line. NUL, control characters and Unicode separators are
content, so that two parallel files never shift against each other; what is odd is counted.
"""

import gzip
import os
import re
import shlex
import sys
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from difflib import get_close_matches
from io import BufferedReader
from itertools import chain, islice
from pathlib import Path
from typing import Literal, cast

from saccade.errors import InputError

BadUTF8 = Literal["stop", "replace", "skip"]
Stream = BufferedReader | gzip.GzipFile

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
MARKLESS = ("UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE")
SAMPLE = 4096  # bytes at the beginning that show in which encoding a text is
LISTED = 10_000  # names that are compared with that of a file that is not there
ASCII = re.compile("[\t\n\r -~]")
LETTERS = re.compile("[\t\n\r -\u1fff]")  # the alphabets, not the symbols, Chinese or Korean


@dataclass(frozen=True, slots=True)
class TextReport:
    """What was met in a text: all of it legal, most of it not meant."""

    lines: int = 0
    bom: int = field(default=0, metadata={"say": "byte order mark{s} stripped"})
    crlf: int = field(default=0, metadata={"say": "line{s} ending in CR LF"})
    control: int = field(default=0, metadata={"say": "line{s} with control characters (kept)"})
    separators: int = field(default=0, metadata={"say": "line{s} with Unicode separators (kept)"})
    empty: int = field(default=0, metadata={"say": "blank line{s}"})
    bad_utf8: int = field(
        default=0, metadata={"say": "line{s} of invalid UTF-8, replaced or skipped as was asked"}
    )
    dropped: int = field(default=0, metadata={"say": "pair{s} dropped (a side blank or skipped)"})

    def summary(self) -> str:
        """One line for the terminal; empty when nothing was odd."""
        says = {name: f.metadata.get("say") for name, f in type(self).__dataclass_fields__.items()}
        odd = {say: count for name, count in asdict(self).items() if count and (say := says[name])}
        return ", ".join(f"{n:,} {say.format(s='s' * (n != 1))}" for say, n in odd.items())


def file_names(files: str | Path | Sequence[str | Path]) -> list[str]:
    """One file, or several, by name."""
    return [str(file) for file in ([files] if isinstance(files, (str, Path)) else files)]


def packed(name: str) -> bool:
    """Whether a file is gzipped: its name says so, in whatever case."""
    return name.lower().endswith(".gz")


def unpacked(name: str) -> str:
    """What a file is called without the .gz of a packed one."""
    return name[: -len(".gz")] if packed(name) else name


def resolve(path: str | Path) -> Path:
    """The file a name means; `data:...` lies under the folder that SACCADE_DATA names."""
    name, file = str(path), _place(str(path))
    if not file.exists():
        place = "" if name == str(file) else f" ({file})"
        raise InputError(f"{name}: no such file{place}{_similar(file)}")
    if file.is_dir():
        raise InputError(f"{name}: this is a folder, expected a file")
    return file


def _similar(file: Path) -> str:
    """What may have been meant by the name of a file that is not there."""
    folder = file.parent
    if not folder.is_dir():
        return f"; there is no folder {folder} either"
    near: list[str] = []
    with suppress(OSError):  # a folder that nobody may list
        some = (path.name for path in islice(folder.iterdir(), LISTED))
        near = get_close_matches(file.name, some, n=1)
    return f"; did you mean {folder / near[0]}?" if near else ""


def _place(name: str) -> Path:
    if not name.startswith("data:"):
        return Path(name)
    if folder := os.environ.get("SACCADE_DATA"):
        return Path(folder) / name.removeprefix("data:")
    raise InputError(f"{name}: set the environment variable SACCADE_DATA to the data folder")


def refuse_read_once(files: Iterable[str]) -> None:
    """Data to learn from is read again and again, and its files are compared on --resume."""
    for name in files:
        place = _place(name)
        if name == "-" or (place.exists() and not place.is_file() and not place.is_dir()):
            kind = "a pipe" if place.is_fifo() else "no regular file"
            what = "standard input" if name == "-" else f"{name} is {kind} and"
            raise InputError(f"{what} can be read only once: write it to a file")


def read_lines(
    path: str | Path, *, on_bad_utf8: BadUTF8 = "stop", counts: Counter[str] | None = None
) -> Iterator[str]:
    """The lines of a file, of a gzipped one or of standard input ("-"), one at a time."""
    counts = Counter() if counts is None else counts
    for line, _ in _lines(str(path), on_bad_utf8, counts):
        if line is not None:
            yield line


def lines_or_none(path: str, on_bad_utf8: BadUTF8, counts: Counter[str]) -> Iterator[str | None]:
    """The same, with None in place of a line that was skipped."""
    return (line for line, _ in _lines(path, on_bad_utf8, counts))


def read_text(path: str, on_bad_utf8: BadUTF8, counts: Counter[str]) -> Iterator[str]:
    """The same, each line with the newline that ended it: put together, they are the text."""
    for line, ended in _lines(path, on_bad_utf8, counts):
        if line is not None:
            yield line + "\n" if ended else line


def _lines(
    path: str, on_bad_utf8: BadUTF8, counts: Counter[str]
) -> Iterator[tuple[str | None, bool]]:
    """Each line, None if it was skipped, and whether a newline ended it."""
    byte = 0
    with open_bytes(path) as stream:
        _refuse_foreign(stream, path)
        for number, raw in enumerate(stream, start=1):
            line = _unmarked(raw, counts) if number == 1 else raw
            text = line.removesuffix(b"\n")
            if text is not line and text.endswith(b"\r"):
                text = text[:-1]
                counts["crlf"] += 1
            counts["lines"] += 1
            try:
                decoded: str | None = text.decode()
            except UnicodeDecodeError as error:
                start = byte + len(raw) - len(line) + error.start + 1
                place = f"{path}, line {number}: byte {error.start + 1} of the line"
                decoded = repair(error, f"{place} (byte {start} of the file)", on_bad_utf8)
                counts["bad_utf8"] += 1
            if decoded is not None and not (decoded.isprintable() and decoded.strip()):
                count_oddities(decoded, counts)  # rarely: almost all text is printable
            yield decoded, text is not line
            byte += len(raw)


def _refuse_foreign(stream: Stream, path: str) -> None:
    """UTF-16 and UTF-32 are known by their mark, and without one by how they begin."""
    sample = stream.peek(SAMPLE)[:SAMPLE]
    marked = (name for bom, name in FOREIGN_BOMS.items() if sample.startswith(bom))
    markless = (name for name in MARKLESS if b"\0" in sample and _reads_as(sample, name))
    encoding = next(chain(marked, markless), None)
    if encoding:
        file, convert = shlex.quote(path), f"iconv -f {encoding} -t UTF-8"
        packed = isinstance(stream, gzip.GzipFile)
        command = f"gzip -dc {file} | {convert}" if packed else f"{convert} {file}"
        raise InputError(f"{path}: this is {encoding}, not UTF-8; convert it: {command} > NEW-FILE")


def _reads_as(sample: bytes, encoding: str) -> bool:
    """Whether bytes that hold NULs are a text of one alphabet in this encoding, or have some ASCII.

    Every other byte is then a NUL or another small number (0x04 in Cyrillic): no UTF-8 is like
    that. Letters of ASCII with a few NULs give Chinese characters instead, which do not count.
    """
    text = sample[: len(sample) // 4 * 4].decode(encoding, errors="replace")
    plain, letters = (len(kind.findall(text)) for kind in (ASCII, LETTERS))
    (_, alphabet), *_ = Counter(ord(letter) >> 8 for letter in text).most_common(1) or [(0, 0)]
    known = plain >= 0.01 * len(text) or alphabet >= 0.8 * len(text)
    return letters >= max(4, 0.8 * len(text)) and known


def _unmarked(first: bytes, counts: Counter[str]) -> bytes:
    """The first line without its byte order mark."""
    counts["bom"] += first.startswith(UTF8_BOM)
    return first.removeprefix(UTF8_BOM)


def repair(error: UnicodeDecodeError, byte: str, on_bad_utf8: BadUTF8) -> str | None:
    """What stands for a text that is no UTF-8; `byte` says which of the file's is the first."""
    if on_bad_utf8 == "stop":
        raise InputError(
            f"{byte} is 0x{error.object[error.start]:02x}, not UTF-8; repair the file, or use "
            "--on-bad-utf8 replace"
        )
    return error.object.decode(errors="replace") if on_bad_utf8 == "replace" else None


def count_oddities(text: str, counts: Counter[str]) -> None:
    """Note what is odd about a line that is kept as it is."""
    counts["control"] += CONTROL.search(text) is not None
    counts["separators"] += SEPARATOR.search(text) is not None
    counts["empty"] += not text.strip()


@contextmanager
def open_bytes(path: str) -> Iterator[Stream]:
    """The bytes of a file or of standard input, unpacked when they begin as gzip does."""
    if path == "-" and sys.stdin is None:
        raise InputError("standard input is closed: name a file instead")
    try:
        stream = cast(BufferedReader, sys.stdin.buffer if path == "-" else resolve(path).open("rb"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        packed = stream.peek(2)[:2] == b"\x1f\x8b"
        yield gzip.GzipFile(fileobj=stream) if packed else stream
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path}: the gzip file is damaged or cut short ({error})") from None
    finally:
        if path != "-":
            stream.close()
