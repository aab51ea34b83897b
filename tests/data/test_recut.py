"""Subword dropout: the same text in other pieces, drawn as a function."""

import numpy as np
import pytest

from saccade.data.recut import WAYS, Recut, put_together
from saccade.data.tokenizers import train_tokenizer
from saccade.errors import InputError
from saccade.randomness import numpy_generator

TEXTS = ["the woman sees women and men", "the men walk, the women talk", "the woman walked"] * 9
RANKS = {("a", "b"): 0, ("b", "c"): 1, ("ab", "c"): 2}


@pytest.fixture(scope="module")
def bpe():
    return train_tokenizer("bpe", TEXTS, 320)


def cut(recut, tokenizer, texts, place=0, most=None):
    rows = [tokenizer.encode(text) for text in texts]
    lengths = np.array([len(row) for row in rows])
    draw = numpy_generator(0, "test", place)
    tokens, lengths = recut(np.concatenate(rows), lengths, draw, most)
    return [each.tolist() for each in np.split(tokens, np.cumsum(lengths)[:-1])]


@pytest.mark.parametrize(
    ("chances", "pieces"),
    [
        ([0.5, 0.5, 0.5], ["abc"]),
        ([0.0, 0.5], ["a", "bc"]),  # ab left out: the next best is taken, and a, bc is no pair
        ([0.5, 0.5, 0.0], ["ab", "c"]),
        ([0.0, 0.0], ["a", "b", "c"]),
    ],
)
def test_merges_left_out_by_hand(chances, pieces):
    drawn = iter(chances)
    assert put_together("abc", RANKS, 0.1, drawn) == pieces
    assert list(drawn) == []


def test_nothing_is_left_out_at_rate_zero(bpe):
    recut = Recut(bpe, 0.0)
    assert cut(recut, bpe, TEXTS) == [bpe.encode(text) for text in TEXTS]
    assert (recut.lengths == 1).all()


def test_the_text_stays_and_its_pieces_change(bpe):
    recut = Recut(bpe, 0.3)
    rows = cut(recut, bpe, TEXTS)
    assert [bpe.decode(row) for row in rows] == TEXTS
    assert len({tuple(row) for row in rows}) > 9, "equal texts are cut in different ways"
    assert rows == cut(Recut(bpe, 0.3), bpe, TEXTS), "a function of the tokenizer and the draw"
    assert rows != cut(recut, bpe, TEXTS, place=1)


def test_more_dropout_makes_smaller_pieces(bpe):
    sizes = [Recut(bpe, rate).lengths[:, :WAYS].mean() for rate in (0.0, 0.1, 0.5, 0.99)]
    assert sizes == sorted(sizes)
    letters = np.mean([len(bpe.inner.id_to_token(i)) for i in range(4, bpe.vocab_size)])
    assert sizes[-1] == pytest.approx(letters, rel=0.05), "letters alone are left"


def test_what_would_be_too_long_keeps_its_cut(bpe):
    plain = [bpe.encode(text) for text in TEXTS]
    most = max(map(len, plain)) + 2
    rows = cut(Recut(bpe, 0.3), bpe, TEXTS, most=most)
    free = cut(Recut(bpe, 0.3), bpe, TEXTS)
    assert max(map(len, free)) > most >= max(map(len, rows))
    expected = [p if len(f) > most else f for p, f in zip(plain, free, strict=True)]
    assert rows == expected


@pytest.mark.parametrize("kind", ["unigram", "words", "characters"])
def test_only_merges_can_be_left_out(kind):
    with pytest.raises(InputError, match="merges, and this tokenizer has none"):
        Recut(train_tokenizer(kind, TEXTS, 320), 0.1)
