"""Token ids of texts as one long stream on disk: built once, streaming, then mapped into memory.

Each text begins with bos, which is never something to predict; a document also ends with eos.
Where a tokenizer has one token for both, it stands once, between the texts.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from saccade.data.documents import Documents, Passage
from saccade.data.durable import settle
from saccade.data.store import (
    build_folder,
    chunked,
    dtype_of,
    identity_of,
    map_array,
    open_folder,
)
from saccade.data.tokenizers import Tokenizer


@dataclass(frozen=True, slots=True)
class TokenStream:
    """All texts one after the other, and where each begins (one more at the end)."""

    tokens: NDArray[Any]  # uint16, or uint32 for a vocabulary beyond 65,536
    starts: NDArray[np.int64]
    unknown: int = 0  # of the tokens: what the vocabulary does not hold

    def __len__(self) -> int:
        return len(self.tokens)

    def texts(self) -> Iterator[NDArray[np.int64]]:
        """Each text with its begin and, if it has one, its end."""
        for start, stop in zip(self.starts[:-1], self.starts[1:], strict=True):
            yield np.asarray(self.tokens[start:stop], dtype=np.int64)


def framed(passage: Passage, ids: list[int], tokenizer: Tokenizer, *, ends: bool) -> list[int]:
    """The ids of a passage, with the begin or the end of its text if it has them."""
    begin = [tokenizer.bos] * passage.first
    end = [tokenizer.eos] * (passage.last and ends and tokenizer.eos != tokenizer.bos)
    return [*begin, *ids, *end]


def build_stream(
    folder: Path, documents: Documents, tokenizer: Tokenizer, fingerprint: str
) -> TokenStream:
    """The stream in `folder` when it holds just this, else a new one in its place."""
    identity = identity_of(["stream", fingerprint], [tokenizer])
    found = open_stream(folder, identity)
    if found is not None:
        return found

    def write(place: Path) -> dict[str, Any]:
        unknown = _write(place, documents, tokenizer, ends=documents.ends)
        return {"dtype": dtype_of(tokenizer), "unknown": unknown}

    build_folder(folder, identity, write)
    made = open_stream(folder)  # of which every byte has just been written
    assert made is not None, folder
    return made


def open_stream(folder: Path, identity: str | None = None) -> TokenStream | None:
    """The stream in a folder, or None when it is absent, damaged or (if told) of another text."""
    manifest = open_folder(folder, identity)
    if manifest is None or not {"dtype", "unknown"} <= manifest.keys():
        return None
    try:
        tokens = map_array(folder / "tokens", manifest["dtype"])
        return TokenStream(tokens, map_array(folder / "starts"), manifest["unknown"])
    except (OSError, ValueError, TypeError):
        return None


def _write(folder: Path, passages: Iterable[Passage], tokenizer: Tokenizer, *, ends: bool) -> int:
    """Encode some thousand passages at a time, and append them; how many tokens are unknown."""
    size, unknown, dtype = 0, 0, dtype_of(tokenizer)
    with (folder / "tokens").open("wb") as tokens, (folder / "starts").open("wb") as starts:
        for chunk in chunked(passages):
            found = tokenizer.encode_batch([passage.text for passage in chunk])
            rows = [
                framed(passage, ids, tokenizer, ends=ends)
                for passage, ids in zip(chunk, found, strict=True)
            ]
            lengths = np.array([len(row) for row in rows])
            begins = size + np.cumsum(lengths) - lengths
            first = np.array([passage.first for passage in chunk])
            starts.write(begins[first].astype("<i8").tobytes())
            tokens.write(np.fromiter(chain.from_iterable(rows), dtype, lengths.sum()).tobytes())
            size += int(lengths.sum())
            unknown += sum(ids.count(tokenizer.unk) for ids in found)
        starts.write(np.array([size], "<i8").tobytes())
        settle(tokens)
        settle(starts)
    return unknown
