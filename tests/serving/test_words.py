"""Which pieces make a word."""

import pytest

from saccade.serving.words import group


@pytest.mark.parametrize(
    ("text", "pieces", "words"),
    [
        ("A man sleeps.", ["A", " man", " sle", "eps", "."], ["A", "man", "sleeps", "."]),
        ("l'Afrique", ["l'", "Af", "rique"], ["l'", "Afrique"]),
        ("我喜欢", ["我", "喜欢"], ["我", "喜欢"]),
        ("שלום עולם", ["של", "ום", " עולם"], ["שלום", "עולם"]),
        ("नमस्ते", ["नम", "स्ते"], ["नमस्ते"]),
        ("ab", ["a", "b", "</s>"], ["ab", "</s>"]),
        ("a\tb", ["a", "\t", "b"], ["a", "␣", "b"]),
        ("", ["</s>"], ["</s>"]),
    ],
)
def test_pieces_become_words(text: str, pieces: list[str], words: list[str]) -> None:
    spans, at = [], 0
    for piece in pieces:
        size = 0 if piece == "</s>" else len(piece)
        spans.append((at, at + size))
        at += size
    places, found = group(text, spans, pieces)
    assert places == sorted(places)
    assert len(places) == len(pieces)
    if "\t" not in text:
        assert found == words
    assert len(found) == len(words)
