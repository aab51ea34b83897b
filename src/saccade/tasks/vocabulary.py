"""Where a task's tokenizers come from: learnt from its texts, or taken from a run or a file."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from saccade.data.tokenizers import TOKENIZERS, Tokenizer
from saccade.errors import InputError

T = TypeVar("T")
ONE = ("tokenizer.json",)  # the files of a run with one vocabulary
TWO = ("tokenizer.source.json", "tokenizer.target.json")  # and with one for each side


def at_first(texts: Iterable[T], most: int) -> Iterator[T]:
    """All are read, so that what is wrong with the last is known at once; some are kept."""
    for number, text in enumerate(texts):
        if number < most:
            yield text


def find_tokenizers(name: str) -> list[Tokenizer]:
    """The one of a file, or the one or two of a run."""
    place = Path(name)
    if place.is_file():
        return [Tokenizer.load(place)]
    for names in (ONE, TWO):
        files = [place / file for file in names]
        if all(file.is_file() for file in files):
            return [Tokenizer.load(file) for file in files]
    kinds = ", ".join(TOKENIZERS)
    raise InputError(
        f"tokenizer {name!r} is neither a kind ({kinds}) nor a run nor a tokenizer.json file"
    )
