"""What Markov chains count, against values worked out by hand and plain loops over dictionaries."""

import math
from collections import Counter, defaultdict
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.blocks.counts import Successors
from saccade.errors import InputError
from saccade.models.markov import Markov, MarkovConfig
from saccade.models.ngrams import CHAINS, one_discount, three_discounts

A, B, C, D = range(4)
TEXT = [A, B, A, B, C, B, D]
OUTSIDE = "^"
CORPORA = st.lists(st.lists(st.integers(0, 3), max_size=14), min_size=1, max_size=4).filter(
    lambda texts: any(len(text) > 1 for text in texts)
)


def fitted(texts, vocab=4, **config):
    model = Markov(MarkovConfig(vocab_size=vocab, **config))
    model.fit([np.array(text, dtype=np.int64) for text in texts])
    return model


def probabilities(model, text):
    """After each word of a text."""
    return model(torch.tensor([text]))[0][0].exp().double()


# --- Kneser-Ney --------------------------------------------------------------------------------


def test_kneser_ney_by_hand():
    """The text a b a b c b d, order 1.

    After a word: ab 2, ba 1, bc 1, cb 1, bd 1, so D = 4 / (4 + 2) = 2/3.
    Before a word: b after a and c (2), a, c, d after b only (1), so D = 3 / (3 + 2) = 3/5.
    Lowest: p(b) = (2 - .6)/5 + .48/4 = .4, the others (1 - .6)/5 + .48/4 = .2.
    """
    model = fitted([TEXT], order=1, smoothing="kneser-ney")
    after_a, after_b, _, after_d = probabilities(model, [A, B, C, D])
    assert after_d.tolist() == pytest.approx([0.2, 0.4, 0.2, 0.2])  # nothing was seen after d
    assert after_a.tolist() == pytest.approx([0.2 / 3, (2 - 2 / 3) / 2 + 0.4 / 3, 0.2 / 3, 0.2 / 3])
    one = (1 - 2 / 3) / 3 + 2 / 3 * 0.2
    assert after_b.tolist() == pytest.approx([one, 2 / 3 * 0.4, one, one])
    perplexity = (after_a[B] * after_b[D]).item() ** (-1 / 2)
    assert perplexity == pytest.approx((0.8 * 0.22 / 0.9) ** (-1 / 2))  # of "a b d"


def test_discounts_by_hand():
    counts = np.array([1] * 4 + [2] * 3 + [3] * 2 + [4] + [9])
    assert one_discount(counts) == pytest.approx((0.4, 0.4, 0.4))  # 4 / (4 + 2 * 3)
    # 1 - 2 Y 3/4, 2 - 3 Y 2/3, 3 - 4 Y 1/2 with Y = 0.4
    assert three_discounts(counts) == pytest.approx((0.4, 1.2, 2.2))
    assert one_discount(np.array([1, 1])) == (0.5, 0.5, 0.5)
    assert three_discounts(np.array([5, 6])) == (0.5, 1.0, 1.5)


class PlainKneserNey:
    """The equations of Chen & Goodman, term by term, over dictionaries."""

    def __init__(self, texts, vocab, order, estimate):
        self.vocab, self.order = vocab, order
        raw = Counter()
        for text in texts:
            told = (OUTSIDE, *text)
            for place in range(2, len(told)):
                for length in range(min(order, place) + 1):
                    raw[told[place - length : place], told[place]] += 1
        before = defaultdict(set)
        for context, word in raw:
            if context:
                before[context[1:], word].add(context[0])
        self.rows = defaultdict(dict)
        for (context, word), count in raw.items():
            highest = len(context) == order or context[:1] == (OUTSIDE,)
            self.rows[context][word] = count if highest else len(before[context, word])
        counts = defaultdict(list)
        for context, row in self.rows.items():
            counts[len(context)] += row.values()
        self.discounts = {n: estimate(np.array(counts[n], int)) for n in range(order + 1)}

    def __call__(self, word, context):
        lower = self(word, context[1:]) if context else 1 / self.vocab
        row = self.rows.get(context)
        if row is None:
            return lower
        taken = {w: self.discounts[len(context)][min(count, 3) - 1] for w, count in row.items()}
        own = row[word] - taken[word] if word in row else 0
        return (own + sum(taken.values()) * lower) / sum(row.values())


@settings(max_examples=60, deadline=None)
@given(
    texts=CORPORA,
    read=st.lists(st.integers(0, 4), min_size=1, max_size=8),
    order=st.integers(1, 4),
    modified=st.booleans(),
)
def test_kneser_ney_is_the_plain_one(texts, read, order, modified):
    name = "modified-kneser-ney" if modified else "kneser-ney"
    model = fitted(texts, vocab=5, order=order, smoothing=name)
    plain = PlainKneserNey(texts, 5, order, three_discounts if modified else one_discount)
    for place, found in enumerate(probabilities(model, read)):
        context = (OUTSIDE, *read[: place + 1])[-order:]
        expected = [plain(word, context) for word in range(5)]
        assert found.tolist() == pytest.approx(expected, abs=1e-6)
        assert sum(expected) == pytest.approx(1)


@settings(max_examples=40, deadline=None)
@given(
    texts=CORPORA, read=st.lists(st.integers(0, 4), min_size=1, max_size=8), order=st.integers(1, 4)
)
def test_frequencies_are_those_of_a_plain_count(texts, read, order):
    for place, found in enumerate(probabilities(fitted(texts, vocab=5, order=order), read)):
        context = read[max(0, place + 1 - order) : place + 1]
        size = len(context)
        seen = Counter(
            text[i]
            for text in texts
            for i in range(size, len(text))
            if text[i - size : i] == context
        )
        expected = [seen[word] / max(seen.total(), 1) for word in range(5)]
        assert found.tolist() == pytest.approx(expected, abs=1e-6)


def test_a_large_vocabulary_and_a_long_context_find_what_was_written():
    text = np.random.default_rng(0).integers(0, 30_000, 5_000)
    for config in ({"order": 8, "smoothing": "modified-kneser-ney"}, {"order": 6}):
        model = fitted([text], vocab=30_000, **config)
        found, _ = model(torch.from_numpy(text[2_000:2_020]).unsqueeze(0))
        assert found[0, 8:].argmax(-1).tolist() == text[2_009:2_021].tolist()


# --- skips -------------------------------------------------------------------------------------


def plain_votes(texts, read, window, keep=lambda _: True):
    """For the word after `read`, by loops; None where nobody votes."""
    after = defaultdict(Counter)
    for text in texts:
        for now in range(1, len(text) - 1):
            for earlier in text[max(0, now - window) : now]:
                after[earlier, text[now]][text[now + 1]] += 1
    votes = np.zeros(4)
    for earlier in read[:-1][-window:]:
        row = after[earlier, read[-1]]
        if row and keep((earlier, read[-1])):
            votes += [row[word] / row.total() for word in range(4)]
    return votes


@settings(max_examples=25, deadline=None)
@given(
    texts=CORPORA,
    read=st.lists(st.integers(0, 3), min_size=1, max_size=9),
    window=st.integers(1, 5),
)
def test_votes_are_those_of_plain_loops_and_of_the_product(texts, read, window):
    model = fitted(texts, order=2, skips=True, window=window)
    first = probabilities(fitted(texts, order=1), read)
    product = model.attention(read)
    for place, found in enumerate(probabilities(model, read)):
        votes = plain_votes(texts, read[: place + 1], window)
        assert model.votes(read[: place + 1]).tolist() == pytest.approx(votes.tolist())
        assert product.votes[place].tolist() == pytest.approx(votes.tolist())
        expected = votes / votes.sum() if votes.any() else first[place].numpy()
        assert found.tolist() == pytest.approx(expected.tolist(), abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(texts=CORPORA, read=st.lists(st.integers(0, 3), min_size=2, max_size=9))
def test_the_learned_mask_keeps_the_pairs_that_tell(texts, read):
    model = fitted(texts, order=2, skips=True, selective=True, window=3, min_gain=0.05)
    pairs = {(pair.earlier, pair.current): pair for pair in model.pairs()}
    first = probabilities(fitted(texts, order=1), [0, 1, 2, 3])
    everybody = fitted(texts, order=2, skips=True, window=3)
    for (earlier, current), pair in pairs.items():
        together = everybody.votes([earlier, current])
        kinds = int((first[current] > 0).sum())
        told = sum(
            p * math.log2(p / q)
            for p, q in zip(together.tolist(), first[current].tolist(), strict=True)
            if p
        )
        gain = told - (kinds - 1) / (2 * pair.count * math.log(2))
        assert pair.gain == pytest.approx(gain, abs=1e-5)
        if abs(gain - 0.05) > 1e-6:
            assert pair.kept == (gain > 0.05)
    votes = plain_votes(texts, read, 3, keep=lambda pair: pairs[pair].kept)
    assert model.votes(read).tolist() == pytest.approx(votes.tolist())
    by_hand = everybody.with_mask(pair for pair in pairs if pairs[pair].kept)
    assert torch.equal(by_hand.votes(read), model.votes(read))
    product = model.attention(read).votes[-1]
    assert product.tolist() == pytest.approx(votes.tolist())


def test_smoothed_votes_are_whole_votes_mixed_with_the_first_order():
    texts, read = [TEXT, [A, C, D, B, B, A]], [A, C, B]
    smooth = fitted(texts, order=2, skips=True, smoothing="kneser-ney")
    plain = fitted(texts, order=2, skips=True)
    first = probabilities(fitted(texts, order=1, smoothing="kneser-ney"), [B])[0]
    discount = smooth.reader.discounts[0].item()
    counts = {(p.earlier, p.current): p.count for p in smooth.pairs()}
    earlier, ballots = smooth.ballots(read)
    for word, ballot, bare in zip(earlier, ballots, plain.ballots(read)[1], strict=True):
        total = counts[word, B]
        kinds = int((bare > 0).sum())
        expected = (bare * total - discount).clamp(min=0) / total + kinds * discount / total * first
        torch.testing.assert_close(ballot, expected, rtol=0, atol=1e-6)
        assert ballot.sum().item() == pytest.approx(1)


@pytest.mark.parametrize("smoothing", CHAINS)
def test_votes_are_discounted_as_the_first_order_is(smoothing):
    counts = np.array([1] * 4 + [2] * 3 + [3] * 2 + [4] + [9])
    reader = fitted([TEXT, [A, C, D, B, B, A]], order=2, skips=True, smoothing=smoothing).reader
    taken = {"none": 0.0, "kneser-ney": 0.4, "modified-kneser-ney": 2.2}[smoothing]  # of a 3
    assert reader.first.estimate(counts)[2] == pytest.approx(taken)
    expected = reader.first.estimate(reader.pairs.counts.numpy())
    assert reader.discounts.tolist() == pytest.approx(expected)


def test_a_config_names_the_chains_there_are():
    assert get_args(get_type_hints(MarkovConfig)["smoothing"]) == (*CHAINS,)


def test_tables_too_large_to_write_out_or_to_count_are_refused():
    model = fitted([[1, 2, 3]], vocab=300, order=2, skips=True)
    with pytest.raises(InputError, match="tables of 300 words"):
        model.attention([1, 2])
    with pytest.raises(InputError, match="too large to look at"):
        fitted([[1, 2, 3]], vocab=5_000, order=1).transitions()
    with pytest.raises(InputError, match="too many to count"):
        Successors(1 << 40).count(np.array([1 << 30]), np.array([1]))
