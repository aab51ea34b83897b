"""Token ids of a parallel text on disk: built once, streaming, then mapped into memory.

A store is a folder of plain arrays and a manifest. It appears whole or not at all, and it is
rebuilt when the text, a tokenizer or the length limit changes.
"""

import hashlib
import json
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from saccade.data.durable import settle
from saccade.data.tokenizers import Tokenizer
from saccade.errors import InputError

T = TypeVar("T")
VERSION = 1
SIDES = ("source", "target")
LINES = 4096  # encoded at a time, so memory does not grow with the corpus
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What became of the pairs that were read."""

    pairs: int = 0  # kept
    too_long: int = 0
    empty: int = 0
    unknown: int = 0  # tokens of the pairs kept: what the vocabulary does not hold

    def summary(self) -> str:
        """One line for the terminal; empty when every pair was kept."""
        total = self.pairs + self.too_long + self.empty
        said = {"longer than task.max_length": self.too_long, "without tokens": self.empty}
        dropped = [f"{count:,} {why}" for why, count in said.items() if count]
        return f"of {total:,} pairs, dropped: {', '.join(dropped)}" if dropped else ""


@dataclass(frozen=True, slots=True)
class Store:
    """One side: the ids of all examples in a row, and where each begins (one more at the end)."""

    tokens: NDArray[Any]  # uint16, or uint32 for a vocabulary beyond 65,536
    offsets: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PairStore:
    """Two sides of the same length, mapped from a folder."""

    source: Store
    target: Store
    report: StoreReport

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    @property
    def offsets(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where each source and each target begins, mapped from the disk."""
        return self.source.offsets, self.target.offsets

    def pair(self, i: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """The ids of one example, without begin and end."""
        if not 0 <= i < len(self):
            raise IndexError(f"example {i} of {len(self)}")
        source, target = (
            side.tokens[side.offsets[i] : side.offsets[i + 1]]
            for side in (self.source, self.target)
        )
        return source, target


def build_store(
    folder: Path,
    pairs: Iterable[tuple[str, str]],
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    fingerprint: str,
    max_length: int | None = None,
) -> PairStore:
    """The store in `folder` when it holds just this, else a new one in its place."""
    tokenizers = (source_tokenizer, target_tokenizer)
    identity = identity_of([fingerprint, max_length], tokenizers)
    found = open_store(folder, identity)
    if found is not None:
        return found

    def write(place: Path) -> dict[str, Any]:
        report = _write(place, pairs, tokenizers, max_length)
        return {"dtypes": [dtype_of(tokenizer) for tokenizer in tokenizers], **asdict(report)}

    build_folder(folder, identity, write)
    made = open_store(folder)  # of which every byte has just been written
    assert made is not None, folder
    return made


def open_store(folder: Path, identity: str | None = None) -> PairStore | None:
    """The store in a folder, or None when it is absent, damaged or (if told) of another text."""
    manifest = open_folder(folder, identity)
    if manifest is None:
        return None
    try:
        report = StoreReport(**{name: manifest[name] for name in StoreReport.__dataclass_fields__})
        source, target = (
            Store(
                map_array(folder / f"{side}.tokens", dtype), map_array(folder / f"{side}.offsets")
            )
            for side, dtype in zip(SIDES, manifest["dtypes"], strict=True)
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return PairStore(source, target, report)


def identity_of(what: Sequence[str | int | None], tokenizers: Sequence[Tokenizer]) -> str:
    """What a store depends on, as one hash."""
    parts = [VERSION, *what, *(each.inner.to_str() for each in tokenizers)]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def dtype_of(tokenizer: Tokenizer) -> str:
    """The narrowest numbers that hold its ids."""
    return "<u2" if tokenizer.vocab_size <= 1 << 16 else "<u4"


def map_array(path: Path, dtype: str = "<i8") -> NDArray[Any]:
    """The numbers in a file, read as they are looked at."""
    return np.memmap(path, dtype=dtype, mode="r")


def _write(
    folder: Path,
    pairs: Iterable[tuple[str, str]],
    tokenizers: Sequence[Tokenizer],
    max_length: int | None,
) -> StoreReport:
    """Encode the pairs some thousand at a time and append them to the files of both sides."""
    kept = too_long = empty = 0
    with ExitStack() as stack:
        columns = [_Column(stack, folder, *each) for each in zip(SIDES, tokenizers, strict=True)]
        for chunk in chunked(pairs):
            rows = [
                column.encode(texts)
                for column, texts in zip(columns, zip(*chunk, strict=True), strict=True)
            ]
            lengths = np.array([[len(row) for row in side] for side in rows])
            void = lengths.min(axis=0) == 0
            long = ~void & (lengths.max(axis=0) > (max_length or np.inf))
            keep = np.flatnonzero(~(void | long))
            for column, side, length in zip(columns, rows, lengths, strict=True):
                column.append([side[i] for i in keep], length[keep])
            kept, too_long, empty = kept + len(keep), too_long + long.sum(), empty + void.sum()
        for column in columns:
            column.settle()
    unknown = sum(column.unknown for column in columns)
    report = StoreReport(kept, int(too_long), int(empty), unknown)
    if not kept:
        why = report.summary() or "there was none"
        raise InputError(f"no pair is left to train on: {why} (task.max_length is {max_length})")
    return report


def chunked(items: Iterable[T]) -> Iterator[list[T]]:
    """Some thousand at a time."""
    items = iter(items)
    while chunk := list(islice(items, LINES)):
        yield chunk


class _Column:
    """The files of one side while they grow."""

    def __init__(self, stack: ExitStack, folder: Path, side: str, tokenizer: Tokenizer):
        self.encode, self.unk = tokenizer.encode_batch, tokenizer.unk
        self.dtype = dtype_of(tokenizer)
        self.tokens = stack.enter_context((folder / f"{side}.tokens").open("wb"))
        self.offsets = stack.enter_context((folder / f"{side}.offsets").open("wb"))
        self.end = self.unknown = 0
        self.offsets.write(np.zeros(1, "<i8").tobytes())

    def append(self, rows: Sequence[Sequence[int]], lengths: NDArray[np.int64]) -> None:
        ids = np.fromiter(chain.from_iterable(rows), self.dtype, count=int(lengths.sum()))
        self.tokens.write(ids.tobytes())
        self.offsets.write((self.end + np.cumsum(lengths)).astype("<i8").tobytes())
        self.end += len(ids)
        self.unknown += int((ids == self.unk).sum())

    def settle(self) -> None:
        settle(self.tokens)
        settle(self.offsets)


# --- a folder that appears whole, with a manifest -------------------------------------------------


def build_folder(folder: Path, identity: str, write: Callable[[Path], dict[str, Any]]) -> None:
    """Let `write` fill a folder beside, then put it in place; it returns what the manifest says."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    temporary = folder.with_name(f".{folder.name}-{secrets.token_hex(8)}")
    temporary.mkdir()  # with the usual mode, which mkdtemp has not: others may copy a run
    try:
        said = write(temporary)
        made = sorted(temporary.iterdir())
        known = {"sizes": {path.name: path.stat().st_size for path in made}, "sums": sums(made)}
        with (temporary / MANIFEST).open("wb") as file:
            file.write(json.dumps({"identity": identity, **known, **said}).encode())
            settle(file)
        _move(temporary, folder, identity)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def open_folder(folder: Path, identity: str | None = None) -> dict[str, Any] | None:
    """The manifest, or None when the folder is absent, damaged or (if told) of another identity.

    Who tells the identity begins or resumes a run: then every byte is read and compared, too.
    """
    try:
        manifest = json.loads((folder / MANIFEST).read_bytes())
        files = [folder / name for name in manifest["sizes"]]
        sizes = {path.name: path.stat().st_size for path in files}
        same = identity is None or manifest["identity"] == identity
        sound = same and manifest["sizes"] == sizes
        whole = sound and (identity is None or manifest["sums"] == sums(files))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    return manifest if whole else None


def sums(files: Iterable[Path]) -> dict[str, str]:
    """The SHA-256 of each file, by its name."""
    found = {}
    for path in files:
        with path.open("rb") as file:
            found[path.name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _move(temporary: Path, folder: Path, identity: str) -> None:
    """Put the new store in place of what is there; another process may just have done the same."""
    try:
        if folder.exists():
            shutil.rmtree(folder)
        temporary.rename(folder)
    except OSError:
        if open_folder(folder, identity) is None:
            raise


def _sweep(folder: Path) -> None:
    """Remove what builds that were killed over a day ago left behind."""
    for left in folder.parent.glob(f".{folder.name}-*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > 24 * 3600:
                shutil.rmtree(left)
