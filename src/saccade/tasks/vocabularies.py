"""The tokenizers of a task: one for all texts, for both sides, or one each; trained, or found."""

import dataclasses
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from saccade.data.readers import ParallelText
from saccade.data.tokenizers import TOKENIZERS, Tokenizer, train_tokenizer
from saccade.errors import InputError

VOCABULARY = ("joint", "lowercase", "vocab_size")  # of a task: what a tokenizer is made with
SENTENCES = 100_000  # pairs or texts a tokenizer learns from: more change little but the time

T = TypeVar("T")


def tokenizer_files(joint: bool) -> list[str]:
    """Their names in a run."""
    return ["tokenizer.json"] if joint else ["tokenizer.source.json", "tokenizer.target.json"]


def train_tokenizers(
    text: ParallelText, kind: str, vocab_size: int, *, joint: bool, lowercase: bool
) -> tuple[Tokenizer, Tokenizer]:
    """For source and target, the same if joint."""
    sides = _sides(text, kind, 2)
    if joint:
        sides = [[*chain(*sides)]]
    found = [train_tokenizer(kind, side, vocab_size, lowercase) for side in sides]
    return found[0], found[-1]


def train_on_texts(
    texts: Iterable[str], kind: str, vocab_size: int, *, lowercase: bool
) -> Tokenizer:
    """For one side."""
    (side,) = _sides(((text,) for text in texts), kind, 1)
    return train_tokenizer(kind, side, vocab_size, lowercase)


def _sides(rows: Iterable[tuple[str, ...]], kind: str, width: int) -> list[list[str]]:
    """Some texts of each side; where an alphabet is learned, with every character of all."""
    seen: list[set[str]] = [set() for _ in range(width)]

    def noted() -> Iterator[tuple[str, ...]]:
        for row in rows:
            for letters, text in zip(seen, row, strict=True):
                letters.update(text)
            yield row

    kept = spread(noted() if TOKENIZERS[kind].alphabet else rows, SENTENCES)
    sides = [[row[side] for row in kept] for side in range(width)]
    for letters, side in zip(seen, sides, strict=True):
        if missing := letters.difference(*side):
            side.append("".join(sorted(missing)))
    return sides


def as_begun(mine: Any, theirs: Any) -> Any:
    """My config for a run begun with theirs: what a tokenizer made elsewhere said holds on."""
    if mine.tokenizer in TOKENIZERS or not _same_place(mine.tokenizer, theirs.tokenizer):
        return mine
    said = {name: getattr(theirs, name) for name in VOCABULARY if hasattr(theirs, name)}
    return dataclasses.replace(mine, tokenizer=theirs.tokenizer, **said)


def _same_place(one: str, other: str) -> bool:
    """Whether two names are of the same file or folder, which may be gone by now."""
    return Path(one).resolve() == Path(other).resolve()


def unknown_told(unknown: int, tokens: int) -> str:
    """What to warn of when tokens of a training text are unknown; nothing when none is."""
    if not unknown:
        return ""
    return (
        f"{unknown:,} of {tokens:,} tokens are not in the vocabulary, and learned as one: raise "
        "task.vocab_size, or take a tokenizer that knows all, as bpe"
    )


def spread(items: Iterable[T], most: int) -> list[T]:
    """Every n-th, so that there are `most` at most; the last is read too, if wrong it is known."""
    kept: list[T] = []
    every = 1
    for number, item in enumerate(items):
        if number % every:
            continue
        if len(kept) == most:
            kept, every = kept[::2], 2 * every
        if number % every == 0:
            kept.append(item)
    return kept


def taken_over(
    name: str, *, joint: bool = True, lowercase: bool = False
) -> tuple[tuple[Tokenizer, Tokenizer], dict[str, Any]]:
    """Tokenizers made elsewhere, and what a task's settings say of them, whatever they said."""
    found = find_tokenizers(name)
    if not joint and found[0] is found[1]:
        raise InputError(
            f"task.joint is false, but tokenizer {name!r} is one for both sides: leave it out, or "
            "take a kind of tokenizer, which is trained"
        )
    lowercases = all(each.lowercase for each in found)
    if lowercase and not lowercases:
        raise InputError(
            f"task.lowercase is set, but tokenizer {name!r} keeps capitals: leave it out, or take "
            "a kind of tokenizer, which is trained"
        )
    size = max(each.vocab_size for each in found)
    return found, {"vocab_size": size, "lowercase": lowercases}


def find_tokenizers(name: str) -> tuple[Tokenizer, Tokenizer]:
    """Those of a run, or of a file for both sides."""
    place = Path(name)
    if place.is_file():
        tokenizer = Tokenizer.load(place)
        return tokenizer, tokenizer
    for joint in (True, False):
        files = [place / file for file in tokenizer_files(joint)]
        if all(file.is_file() for file in files):
            found = [Tokenizer.load(file) for file in files]
            return found[0], found[-1]
    kinds = ", ".join(TOKENIZERS)
    raise InputError(
        f"tokenizer {name!r} is neither a kind ({kinds}) nor a run nor a tokenizer.json file"
    )
