"""The tokenizers of a task: one for all texts, for both sides, or one each; trained, or found."""

from collections.abc import Iterable
from itertools import chain, islice
from pathlib import Path

from saccade.data.readers import ParallelText
from saccade.data.tokenizers import TOKENIZERS, Tokenizer, train_tokenizer
from saccade.errors import InputError

SENTENCES = 100_000  # pairs or texts a tokenizer learns from: more change little but the time


def tokenizer_files(joint: bool) -> list[str]:
    """Their names in a run."""
    return ["tokenizer.json"] if joint else ["tokenizer.source.json", "tokenizer.target.json"]


def train_tokenizers(
    text: ParallelText, kind: str, vocab_size: int, *, joint: bool, lowercase: bool
) -> tuple[Tokenizer, Tokenizer]:
    """For source and target, the same if joint."""
    pairs = list(_some(text, SENTENCES))
    sides: list[Iterable[str]] = [[source for source, _ in pairs], [target for _, target in pairs]]
    if joint:
        sides = [chain(*sides)]
    found = [train_tokenizer(kind, side, vocab_size, lowercase) for side in sides]
    return found[0], found[-1]


def train_on_texts(
    texts: Iterable[str], kind: str, vocab_size: int, *, lowercase: bool
) -> Tokenizer:
    """For one side: from the first texts, and where an alphabet is learned, from that of all."""
    rest = iter(texts)
    found = list(islice(rest, SENTENCES))
    known = set[str]().union(*found) if TOKENIZERS[kind].alphabet else None
    # As above, all are read; what is new in a text counts once for it.
    for text in rest:
        if known is not None and not known.issuperset(text):
            found.append("".join(sorted({*text} - known)))
    return train_tokenizer(kind, found, vocab_size, lowercase)


def _some(text: ParallelText, most: int) -> Iterable[tuple[str, str]]:
    """All pairs are read, so that what is wrong with the last is known at once; some are kept."""
    for number, pair in enumerate(text):
        if number < most:
            yield pair


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
