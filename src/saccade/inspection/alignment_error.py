"""Hard links out of attention, and how far they are from links made by hand.

A gold file has a line for each sentence pair: `0-0 1-2 1p3`, source-target, `p` for a link that is
only possible; or `source words ||| target words ||| links` where its words are not what spaces
part in the text. A built-in corpus brings its own links: `builtin:english-french/test`.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from saccade.data.grammar import spans
from saccade.data.lines import read_lines
from saccade.data.readers import builtin_pairs
from saccade.errors import InputError, nearest
from saccade.inspection.alignment import Link, Span, alignment_error_rate

LINK = re.compile(r"([0-9]+)([-p])([0-9]+)", re.ASCII)
FIELDS = "|||"
WORD = re.compile(r"\S+")
MEAN = "mean"  # the name for all layers together
# Rows between a target token's own step and the step whose attention is its: a recurrent decoder
# looks for the word it is about to predict, the lower layers of a Transformer look again at the
# word they have just read (Chen et al. 2020); with input feeding both happen.
STEPS_LATE = {"predicts": 0, "reads": 1}


@dataclass(frozen=True, slots=True)
class Gold:
    """The links of a sentence pair, counted from 0, and its words as the links count them."""

    sure: frozenset[Link]
    possible: frozenset[Link]  # the sure ones too
    source: tuple[str, ...] | None = None  # None: what spaces part
    target: tuple[str, ...] | None = None

    def spans(self, source: str, target: str) -> tuple[list[Span], list[Span]]:
        """Where the words stand in the two texts; each link must have its words."""
        sides = ((source, self.source), (target, self.target))
        found = [word_spans(text) if words is None else spans(text, words) for text, words in sides]
        for side, (name, words) in enumerate(zip(("source", "target"), found, strict=True)):
            last = max((link[side] for link in self.possible), default=-1)
            if last >= len(words):
                raise InputError(
                    f"a link names {name} word {last} (from 0), but there are {len(words)}"
                )
        return found[0], found[1]


@dataclass(frozen=True, slots=True)
class AlignmentScore:
    """Och & Ney 2003, over all links of a corpus."""

    precision: float  # of the links found, those that are possible
    recall: float  # of the sure links, those found
    error_rate: float
    hits: list[int]  # of each sentence: |A & S| + |A & P|
    links: list[int]  # of each sentence: |A| + |S|


def word_spans(text: str) -> list[Span]:
    """The words that spaces part."""
    return [found.span() for found in WORD.finditer(text)]


# --- links made by hand --------------------------------------------------------------------------


def parse_links(line: str, first: int = 0) -> tuple[frozenset[Link], frozenset[Link]]:
    """The sure links of a line such as `0-0 1p2`, and the possible ones, the sure among them.

    `first` is the number of a first word: 0 in Pharaoh's format, 1 in some older gold sets.
    """
    sure, possible = set(), set()
    for word in line.split():
        found = LINK.fullmatch(word)
        if found is None:
            raise InputError(f"not a link: {word!r}; expected 0-0 (sure) or 0p0 (possible)")
        link = (int(found[1]) - first, int(found[3]) - first)
        if min(link) < 0:
            raise InputError(f"link {word!r}: words are counted from {first} here")
        possible.add(link)
        if found[2] == "-":
            sure.add(link)
    return frozenset(sure), frozenset(possible)


def read_gold(file: str, first: int = 0) -> list[Gold]:
    """The links of a gold file, or of a built-in corpus."""
    if file.startswith("builtin:"):
        return _builtin(file)
    found = []
    for number, line in enumerate(read_lines(file), start=1):
        *words, links = (part.strip() for part in line.split(FIELDS))
        if len(words) not in (0, 2):
            raise InputError(
                f"{file}, line {number}: {len(words) + 1} parts; expected links alone, "
                f"or source {FIELDS} target {FIELDS} links"
            )
        try:
            sure, possible = parse_links(links, first)
        except InputError as error:
            raise InputError(f"{file}, line {number}: {error}") from None
        source, target = (tuple(side.split()) for side in words) if words else (None, None)
        found.append(Gold(sure, possible, source, target))
    return found


def _builtin(name: str) -> list[Gold]:
    pairs, backwards = builtin_pairs(name)
    found = []
    for pair in pairs:
        sides, links = [pair.source_words, pair.target_words], frozenset(pair.alignment)
        if backwards:
            sides, links = sides[::-1], frozenset((t, s) for s, t in links)
        found.append(Gold(links, links, *sides))
    return found


# --- links out of weights ------------------------------------------------------------------------


def best_source(weights: Float[Tensor, "T S"]) -> set[Link]:
    """Each target word with the source word it looks at most; one that looks nowhere has none."""
    if not weights.numel():
        return set()
    best, source = weights.max(dim=1)
    pairs = zip(source.tolist(), best.tolist(), strict=True)
    return {(s, t) for t, (s, weight) in enumerate(pairs) if weight > 0}


def best_target(weights: Float[Tensor, "T S"]) -> set[Link]:
    """Each source word with the target word that looks at it most."""
    return {(s, t) for t, s in best_source(weights.mT)}


def mutual(weights: Float[Tensor, "T S"]) -> set[Link]:
    """Where both choose each other: fewer links, and surer ones."""
    return best_source(weights) & best_target(weights)


def covering(weights: Float[Tensor, "T S"]) -> set[Link]:
    """Each target word's best, and for every source word that nobody chose, its own best."""
    chosen = best_source(weights)
    taken = {source for source, _ in chosen}
    return chosen | {link for link in best_target(weights) if link[0] not in taken}


LINKERS: dict[str, Callable[[Tensor], set[Link]]] = {
    "argmax": best_source,
    "mutual": mutual,
    "covering": covering,
}


@dataclass(frozen=True, slots=True)
class Reading:
    """How hard links are read off attention."""

    # On the built-in corpus (dev, a Transformer of two minutes) covering has an error rate of
    # 0.17 where argmax has 0.21 and mutual 0.19; reading at the wrong step has 0.82 and more.
    links: str = "covering"
    layer: str = MEAN
    step: str = "predicts"

    def __post_init__(self) -> None:
        for what, name, known in (("links", self.links, LINKERS), ("step", self.step, STEPS_LATE)):
            if name not in known:
                raise InputError(f"unknown {what} {name!r}; {nearest(name, known)}")

    def __str__(self) -> str:
        return f"links:{self.links}|layer:{self.layer}|step:{self.step}"


# --- how far they are apart ----------------------------------------------------------------------


def score_alignments(predicted: Sequence[Collection[Link]], gold: Sequence[Gold]) -> AlignmentScore:
    """Precision, recall and alignment error rate of a corpus."""
    rate = alignment_error_rate(
        predicted, [each.sure for each in gold], [each.possible for each in gold]
    )
    triples = [(set(a), g.sure, g.possible) for a, g in zip(predicted, gold, strict=True)]
    found = sum(len(a) for a, _, _ in triples)
    sure = sum(len(s) for _, s, _ in triples)
    in_sure = [len(a & s) for a, s, _ in triples]
    in_possible = [len(a & p) for a, _, p in triples]
    return AlignmentScore(
        precision=sum(in_possible) / found if found else 0.0,
        recall=sum(in_sure) / sure if sure else 0.0,
        error_rate=rate,
        hits=[s + p for s, p in zip(in_sure, in_possible, strict=True)],
        links=[len(a) + len(s) for a, s, _ in triples],
    )
