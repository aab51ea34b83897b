"""The corpus of long sentences: every length, links as in the default corpus, apart from it."""

from collections import Counter

import pytest

from saccade.data import english_french_long as long
from saccade.data.english_french import spans, vocabulary
from saccade.data.grammar import Derivation, Pair, numbers
from saccade.data.readers import read_pairs


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[Pair]]:
    """A smaller one, which takes a moment."""
    with pytest.MonkeyPatch.context() as patch:
        for split, size in {"train": 1500, "dev": 60, "test": 60}.items():
            patch.setitem(long.SIZES, split, size)
        long.sampled.cache_clear()
        found = {split: long.pairs(split) for split in ("train", "dev", "test")}  # type: ignore[arg-type]
        there, back = (
            next(read_pairs([f"builtin:{name}/dev"]))
            for name in ("long-english-french", "french-english-long")
        )
        assert there == back[::-1] == (found["dev"][0].source, found["dev"][0].target)
    long.sampled.cache_clear()
    return found


def test_lengths_spread_from_a_few_words_to_sixty(corpus: dict[str, list[Pair]]) -> None:
    lengths = sorted(len(pair.source.split()) for pair in corpus["train"])
    quarters = [lengths[len(lengths) * part // 4] for part in (1, 2, 3)]
    assert quarters[0] < 20 < quarters[1] < 35 < quarters[2]
    assert max(len(pair.source_words) for pair in corpus["train"]) <= long.LONGEST
    assert Counter(length // 10 for length in lengths).keys() >= {0, 1, 2, 3, 4, 5}


def test_every_word_is_there_and_linked(corpus: dict[str, list[Pair]]) -> None:
    for pair in corpus["dev"]:
        spans(pair.source, pair.source_words)
        spans(pair.target, pair.target_words)
        assert {s for s, _ in pair.alignment} == set(range(len(pair.source_words)))
        assert {t for _, t in pair.alignment} == set(range(len(pair.target_words)))


def test_splits_share_words_but_no_shape(corpus: dict[str, list[Pair]]) -> None:
    shapes = [{pair.shape for pair in pairs} for pairs in corpus.values()]
    assert sum(map(len, shapes)) == len(set.union(*shapes))
    assert vocabulary(corpus["dev"] + corpus["test"]) <= vocabulary(corpus["train"])


def test_a_sentence_is_statements_alone() -> None:
    d = Derivation(numbers("test"))
    shapes = [long.draw_long(d) for _ in range(200)]
    assert {clause.mood for shape in shapes for clause in shape.clauses} == {"statement"}
    assert {len(shape.clauses) for shape in shapes} == set(range(1, long.MOST_CLAUSES + 1))
