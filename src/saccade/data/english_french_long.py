"""The English-French corpus with long sentences: one to eight clauses, up to sixty words.

Made for one question: what happens to a translation as its source grows (Cho et al. 2014, Bahdanau
et al. 2015)? The grammar, the alignment and the splits by shape are those of `english_french`.
"""

from functools import lru_cache

from saccade.data.english_french import HELD_OUT_PERCENT, finished, vocabulary
from saccade.data.english_french_clauses import ClauseShape, draw_clause
from saccade.data.english_french_sentences import LINK_NAMES, LINKS_BEFORE_FUTURE, Clauses
from saccade.data.grammar import Derivation, Pair, Split, known_split, numbers, sample, split_of

SIZES = {"train": 20_000, "dev": 1_000, "test": 1_000}
MOST_CLAUSES = 8
LONGEST = 60  # words of English
CLAUSES = tuple(range(1, MOST_CLAUSES + 1))  # each as often as the others


def pairs(split: Split) -> list[Pair]:
    """The pairs of a split, in a fixed order."""
    return list(sampled(known_split(split)))


@lru_cache
def sampled(split: Split) -> tuple[Pair, ...]:
    """The same, made once in a process."""
    choices = numbers(f"English-French, long, {split}")
    known = None if split == "train" else vocabulary(sampled("train"))

    def derive() -> Pair | None:
        d = Derivation(choices)
        shape = draw_long(d)
        name = str(shape)
        if split_of(name, HELD_OUT_PERCENT) != split:
            return None
        pair = finished(d, shape, name)
        if len(pair.source_words) > LONGEST:
            return None
        return pair if known is None or vocabulary([pair]) <= known else None

    return tuple(sample(derive, SIZES[split]))


def draw_long(d: Derivation) -> Clauses:
    """Statements, one after the other."""
    clauses: list[ClauseShape] = [_statement(d)]
    links: list[str] = []
    for _ in range(d.pick(CLAUSES) - 1):
        before = clauses[-1].tense
        links.append(d.pick(LINKS_BEFORE_FUTURE if before == "future" else LINK_NAMES))
        clauses.append(draw_clause(d, after=before))
    return Clauses(tuple(clauses), tuple(links), ".")


def _statement(d: Derivation) -> ClauseShape:
    clause = draw_clause(d)
    while clause.mood != "statement":
        clause = draw_clause(d)
    return clause
