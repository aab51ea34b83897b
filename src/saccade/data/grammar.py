"""A grammar that writes two languages at once, so that the word alignment is known.

A derivation builds the words of both sides side by side. Each word carries the set of *concepts* it
expresses, as bits of an int; two words are aligned when they share a concept. Phrases can then be
put in any order on either side, and the alignment follows. What only one language can do (elision,
contraction, a or an) is a last pass over its words, and a word merged out of two carries both
their concepts.

Text is written with a space between words, except before `. , ? !`, before a word that starts with
a hyphen or an apostrophe ("-vous", "'s"), after one that ends with an
apostrophe ("l'") and after "¿".
French typography is kept simple: no narrow space before ? and !, and straight apostrophes.
"""

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain, count
from typing import Literal, NamedTuple, TypeVar

from saccade import randomness
from saccade.errors import InputError, nearest

Split = Literal["train", "dev", "test"]
SPLITS: tuple[Split, ...] = ("train", "dev", "test")

Word = tuple[str, int]  # its text, and the concepts it expresses as bits
Choice = TypeVar("Choice")


@dataclass(frozen=True, slots=True)
class Pair:
    """A sentence in two languages with its gold alignment, sorted (source word, target word)."""

    source: str
    target: str
    source_words: tuple[str, ...]
    target_words: tuple[str, ...]
    alignment: tuple[tuple[int, int], ...]
    shape: str


class Agreement(NamedTuple):
    """What a verb, a participle or an adjective agrees with."""

    person: int = 3
    plural: bool = False
    feminine: bool = False


class Phrase(NamedTuple):
    """Words that belong together, in the order of each language."""

    source: Sequence[Word]
    target: Sequence[Word]
    agreement: Agreement = Agreement()


class Derivation:
    """The choices of one sentence, and the concepts it has named so far."""

    __slots__ = ("_newest", "_numbers")

    def __init__(self, numbers: Iterator[int]) -> None:
        self._numbers = numbers
        self._newest = 1

    def pick(self, options: Sequence[Choice]) -> Choice:
        """One of the options."""
        return options[next(self._numbers) % len(options)]

    def concept(self) -> int:
        """A new bit."""
        self._newest <<= 1
        return self._newest

    def same(self, source: str, target: str) -> Phrase:
        """Words that say one thing together: every one is linked with every one."""
        bit = self.concept()
        return Phrase([(word, bit) for word in source.split()], [(w, bit) for w in target.split()])


class WishedDerivation(Derivation):
    """A derivation that is told, in order, what to choose where there is a choice."""

    __slots__ = ("_wishes",)

    def __init__(self, *wishes: str) -> None:
        super().__init__(iter(()))
        self._wishes = list(wishes)

    def pick(self, options: Sequence[Choice]) -> Choice:
        """The option that fits the earliest open wish, or else the first option."""
        by_name = {str(option): option for option in reversed(options)}
        for wish in self._wishes if len(by_name) > 1 else ():
            if wish in by_name:
                self._wishes.remove(wish)
                return by_name[wish]
        return options[0]


def join(*phrases: Phrase) -> Phrase:
    """The phrases one after the other, in both languages."""
    return Phrase(
        [word for phrase in phrases for word in phrase.source],
        [word for phrase in phrases for word in phrase.target],
    )


def weighted(weights: dict[Choice, int]) -> tuple[Choice, ...]:
    """Options to pick from, each as often as its weight says."""
    return tuple(option for option, weight in weights.items() for _ in range(weight))


ATTACHED = frozenset(".,?!-'")  # what starts so follows without a space


def detokenise(words: Iterable[str]) -> str:
    """The text of the words, by the rule at the top of this file."""
    parts: list[str] = []
    attached = True
    for word in words:
        if not attached and word[0] not in ATTACHED:
            parts.append(" ")
        parts.append(word)
        attached = word[-1] in "'¿"
    return "".join(parts)


def spans(text: str, words: Sequence[str]) -> list[tuple[int, int]]:
    """Where each word stands in the text, from its first character to the one after its last."""
    found = []
    end = 0
    for word in words:
        start = text.find(word, end)
        if start < 0 or text[end:start].strip():
            raise InputError(f"{word!r} does not come next at character {end} of {text!r}")
        end = start + len(word)
        found.append((start, end))
    return found


def capitalised(word: str) -> str:
    """The word with a capital at its start."""
    return word[0].upper() + word[1:]


LINKS = [[(i, j) for j in range(128)] for i in range(128)]  # shared: a corpus has a million


def write(source: Sequence[Word], target: Sequence[Word], shape: str) -> Pair:
    """The pair that two lists of finished words make."""
    source_words = tuple([text for text, _ in source])
    target_words = tuple([text for text, _ in target])
    concepts = list(enumerate([bits for _, bits in target]))
    links = [
        LINKS[i][j] for i, (_, mine) in enumerate(source) for j, yours in concepts if mine & yours
    ]
    return Pair(
        detokenise(source_words),
        detokenise(target_words),
        source_words,
        target_words,
        tuple(links),
        shape,
    )


def numbers(purpose: str) -> Iterator[int]:
    """An endless stream of numbers to choose by, the same in every process."""
    generators = (randomness.numpy_generator(0, purpose, block) for block in count())
    return chain.from_iterable(g.integers(1 << 40, size=4096).tolist() for g in generators)


def known_split(split: str) -> Split:
    """The split of that name."""
    if split not in SPLITS:
        raise InputError(f"there is no split {split!r}; {nearest(split, SPLITS)}")
    return split


def split_of(shape: str, percent: int) -> Split:
    """Each shape belongs to one split: `percent` of a hundred to dev, as many to test."""
    place = randomness.key(0, shape) % 100
    if place < percent:
        return "dev"
    return "test" if place < 2 * percent else "train"


def sample(derive: Callable[[], Pair | None], size: int, first: Iterable[Pair] = ()) -> list[Pair]:
    """`size` pairs, with neither a source nor a target twice: `first`, then what `derive` makes."""
    found = list(first)
    sources = {pair.source for pair in found}
    targets = {pair.target for pair in found}
    with collector_paused():
        while len(found) < size:
            pair = derive()
            if pair and pair.source not in sources and pair.target not in targets:
                sources.add(pair.source)
                targets.add(pair.target)
                found.append(pair)
    return found


@contextmanager
def collector_paused() -> Iterator[None]:
    """A corpus holds no cycles, and the collector would walk all of it again and again."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
