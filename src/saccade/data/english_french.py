"""The built-in English-French corpus: a grammar that derives both sides and their alignment.

`pairs(split)` samples it: 40,000 pairs to train on, 1,000 each for dev and test, the same in every
process. A pair's *shape* is the combination of its constructions (frames, moods, tenses, negation,
kinds of noun phrases, links between clauses). No shape is in two splits, so the test asks for
combinations that were never seen, out of words and constructions that were.

Neither an English nor a French sentence occurs twice in a split, and the grammar avoids choices
that the other language cannot see: "you" is always "vous", "his" and "her" always belong to the
subject of their clause, "it" always has an antecedent in its sentence. Who speaks is masculine.

The alignment, one convention throughout (all links are sure links):

- a word is linked to what says the same; a preposition, article or conjunction to its counterpart;
- a word that only one language has goes with the word it belongs to: the "l'" of "l'Afrique" with
  "Africa", "to" with its infinitive ("to sing", "chanter");
- "du", "au", "des", "aux" are two words in one and carry the links of both;
- the finite part of a verb (do, does, did, will, be) is linked to the French finite verb and to
  "est-ce que", its lexical part to the French verb or participle: "did cross", "a traversé" is
  did-a, cross-traversé; "crossed" is linked to both; "not" to "ne" and to "pas";
- punctuation to punctuation. Every word has at least one link.
"""

from collections.abc import Iterable
from functools import lru_cache
from itertools import chain

from saccade.data import english_morphology, french_morphology
from saccade.data.english_french_sentences import Shape, draw_shape
from saccade.data.grammar import (
    Derivation,
    Pair,
    Split,
    WishedDerivation,
    capitalised,
    join,
    known_split,
    numbers,
    sample,
    spans,
    split_of,
    write,
)

__all__ = ["Pair", "lecture_pairs", "pairs", "spans"]

SIZES = {"train": 40_000, "dev": 1_000, "test": 1_000}
LONGEST = 32  # words of English
HELD_OUT_PERCENT = 5  # of the shapes, for dev and for test each

# The sentences that lectures show, by the choices that lead to them.
LECTURE_CHOICES = (
    "clauses / visit / name / time / bare / Jane / Africa / month / September",
    "clauses / activity / pronoun / watch / they",
    "clauses / willing activity / question / pronoun / company / want / you / sing / I",
    "clauses / copula / people / bare / poor / destitute",
    "fragment / two adjectives / institution / area / European / economic",
    "because it / past / not / cross / animal / animal / street / animal / tired",
    "because it / past / not / cross / animal / animal / street / way / wide",
    "clauses / passive / past / of / time / sign / agreement / two adjectives / area / European"
    " / economic / month and year / 1992 / August",
)


def pairs(split: Split) -> list[Pair]:
    """The pairs of a split, in a fixed order; those that lectures show come first in train."""
    return list(sampled(known_split(split)))


@lru_cache
def sampled(split: Split) -> tuple[Pair, ...]:
    """The same, made once in a process."""
    choices = numbers(f"English-French {split}")
    taught = {pair.shape for pair in lecture_pairs()}
    known = None if split == "train" else vocabulary(sampled("train"))

    def derive() -> Pair | None:
        d = Derivation(choices)
        shape = draw_shape(d)
        name = str(shape)
        home = "train" if name in taught else split_of(name, HELD_OUT_PERCENT)
        pair = finished(d, shape, name) if home == split else None
        if not pair or len(pair.source_words) > LONGEST:
            return None
        return pair if known is None or vocabulary([pair]) <= known else None

    return tuple(sample(derive, SIZES[split], lecture_pairs() if split == "train" else ()))


def vocabulary(corpus: Iterable[Pair]) -> frozenset[str]:
    """Every word of both languages."""
    return frozenset(chain.from_iterable(p.source_words + p.target_words for p in corpus))


def lecture_pairs() -> list[Pair]:
    """The sentences that lectures show, as the grammar derives them."""
    found = []
    for choices in LECTURE_CHOICES:
        d = WishedDerivation(*choices.split(" / "))
        shape = draw_shape(d)
        found.append(finished(d, shape, str(shape)))
    return found


def finished(d: Derivation, shape: Shape, name: str) -> Pair:
    """The sentence of that shape: built, inflected where words meet, and written."""
    phrase = shape.build(d)
    if shape.ending != "bare":
        phrase = join(phrase, d.same(shape.ending, shape.ending))
    english = english_morphology.finish(phrase.source)
    french = french_morphology.finish(phrase.target)
    if shape.ending != "bare":
        for side in (english, french):
            side[0] = (capitalised(side[0][0]), side[0][1])
    return write(english, french, name)
