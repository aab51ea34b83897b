"""The small English-Spanish corpus."""

import unicodedata

import pytest

from saccade.data.english_spanish import SIZES, lecture_pairs, pairs, spans
from saccade.data.grammar import SPLITS, detokenise
from saccade.data.readers import read_pairs


def plain(text: str) -> str:
    """Without accents, punctuation and case, as lectures write it."""
    letters = unicodedata.normalize("NFD", text)
    return "".join(c for c in letters if c.isalpha() or c == " ").lower()


@pytest.mark.parametrize("spanish", ["Yo soy de Canada", "Me puedes traer un tenedor"])
def test_lecture_sentences(spanish: str) -> None:
    assert plain(spanish) in {plain(pair.target) for pair in lecture_pairs()}
    assert plain(spanish) in {plain(pair.target) for pair in pairs("train")}


def test_it_is_found_by_its_name() -> None:
    wanted = [(pair.source, pair.target) for pair in pairs("dev")]
    assert list(read_pairs(["builtin:english-spanish/dev"])) == wanted
    assert next(read_pairs(["builtin:spanish-english/dev"])) == wanted[0][::-1]


def test_the_pronoun_climbs() -> None:
    pair = next(pair for pair in lecture_pairs() if "fork" in pair.source)
    linked = {(pair.source_words[i], pair.target_words[j]) for i, j in pair.alignment}
    assert {("Can", "puedes"), ("you", "puedes"), ("me", "Me"), ("bring", "traer")} <= linked


def test_splits() -> None:
    corpus = {split: pairs(split) for split in SPLITS}
    assert {split: len(found) for split, found in corpus.items()} == SIZES
    shapes = [{pair.shape for pair in found} for found in corpus.values()]
    assert sum(map(len, shapes)) == len(set().union(*shapes))
    every = [pair for found in corpus.values() for pair in found]
    assert len({pair.source for pair in every}) == len(every)
    assert len({pair.target for pair in every}) == len(every)
    known = {word for pair in corpus["train"] for word in pair.source_words + pair.target_words}
    assert {word for pair in every for word in pair.source_words + pair.target_words} <= known


def test_every_word_is_aligned_and_found() -> None:
    for pair in pairs("train") + pairs("test"):
        assert {i for i, _ in pair.alignment} == set(range(len(pair.source_words)))
        assert {j for _, j in pair.alignment} == set(range(len(pair.target_words)))
        assert detokenise(pair.target_words) == pair.target
        assert len(spans(pair.target, pair.target_words)) == len(pair.target_words)


def test_articles_agree() -> None:
    masculine = {"tenedor", "vaso", "plato", "libro", "sombrero", "lápiz"}
    for pair in pairs("train"):
        for article, noun in zip(pair.target_words, pair.target_words[1:], strict=False):
            if article in ("un", "el", "este"):
                assert noun in masculine
            if article in ("una", "la", "esta"):
                assert noun not in masculine
