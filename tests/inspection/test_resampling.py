"""Scores of samples and of parts of a data set: as sacrebleu has them, and what must add up."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, estimate_ci
from stored_runs import evaluation, sentences, spoiled

from saccade.errors import InputError
from saccade.inspection.resampling import (
    RECIPES,
    bleu_of_sums,
    bleu_parts,
    by_bucket,
    difference,
    draws,
    interval,
    length_buckets,
    resampled,
    trusted_parts,
)

SENTENCES = sentences(40)


def examples(share, seed=1):
    columns = zip(SENTENCES, spoiled(SENTENCES, share, seed), strict=True)
    return [{"reference": right, "prediction": said} for right, said in columns]


COUNTS = st.integers(0, 30)


@given(st.lists(COUNTS, min_size=4, max_size=4), st.lists(COUNTS, min_size=4, max_size=4), COUNTS)
@settings(max_examples=200, deadline=None)
def test_bleu_of_sums_is_sacrebleus(matches, rest, reference):
    totals = [match + more for match, more in zip(matches, rest, strict=True)]
    wanted = BLEU.compute_bleu(matches, totals, totals[0], reference, smooth_method="exp").score
    found = bleu_of_sums(np.array([[*matches, *totals, totals[0], reference]], np.float64))
    assert found[0] == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_the_parts_add_up_to_the_score_of_the_corpus(share):
    rows = examples(share)
    wanted = BLEU().corpus_score([r["prediction"] for r in rows], [SENTENCES]).score
    assert bleu_of_sums(bleu_parts(rows).sum(axis=0, keepdims=True))[0] == pytest.approx(wanted)


def test_the_bootstrap_is_sacrebleus_on_the_same_samples():
    first, other = examples(0.2), examples(0.25, seed=2)
    systems = [("a", [r["prediction"] for r in first]), ("b", [r["prediction"] for r in other])]
    _, theirs = PairedTest(systems, {"BLEU": BLEU()}, [SENTENCES], "bs", n_samples=200)()
    generator = np.random.default_rng(12345)  # sacrebleu's seed
    drawn = generator.choice(len(SENTENCES), size=(200, len(SENTENCES)), replace=True)
    values = resampled("BLEU", [bleu_parts(first), bleu_parts(other)], drawn)
    scores = [result.score for result in theirs["BLEU"]]
    ours = difference(values[0], values[1], scores[1] - scores[0])
    assert ours.p == pytest.approx(theirs["BLEU"][1].p_value)
    around = interval(values[1])
    assert (around.high - around.low) / 2 == pytest.approx(theirs["BLEU"][1].ci, abs=1e-3)
    assert values[1].mean() == pytest.approx(theirs["BLEU"][1].mean, abs=1e-3)
    assert estimate_ci(values[1])[1] == pytest.approx((around.high - around.low) / 2)


def test_a_run_differs_from_itself_by_nothing():
    parts = bleu_parts(examples(0.3))
    values = resampled("BLEU", [parts, parts], draws(len(parts), 50, seed=1))
    found = difference(values[0], values[1], 0.0)
    assert (found.interval.low, found.interval.high) == (0.0, 0.0)
    assert found.p == 1.0  # not sacrebleu's 1 / 51, the p of what never comes about by chance


def test_draws_are_a_function_of_their_arguments():
    one, again, other = (np.stack(list(draws(9, 5, seed))) for seed in (1, 1, 2))
    assert (one == again).all()
    assert (one != other).any()
    assert one.shape == (5, 9)
    assert set(one.ravel()) <= set(range(9))


@given(st.lists(st.integers(1, 12), min_size=1, max_size=60), st.integers(1, 6))
@settings(max_examples=100, deadline=None)
def test_buckets_hold_every_example_once_and_each_length_in_one(lengths, count):
    buckets = length_buckets(lengths, count)
    assert 1 <= len(buckets) <= count
    assert sorted(place for bucket in buckets for place in bucket.places) == list(
        range(len(lengths))
    )
    for bucket, after in pairwise(buckets):
        assert bucket.longest < after.shortest
    for bucket in buckets:
        inside = [lengths[place] for place in bucket.places]
        assert (min(inside), max(inside)) == (bucket.shortest, bucket.longest)
        assert bucket.mean == pytest.approx(sum(inside) / len(inside))


def test_distinct_lengths_give_equal_buckets():
    buckets = length_buckets(list(range(20, 0, -1)), 4)
    assert [len(bucket.places) for bucket in buckets] == [5, 5, 5, 5]
    assert [str(bucket) for bucket in buckets] == ["1–5", "6–10", "11–15", "16–20"]
    assert [str(bucket) for bucket in length_buckets([3, 3, 3], 4)] == ["3"]
    with pytest.raises(InputError, match="0 buckets"):
        length_buckets([1], 0)


def test_the_score_of_a_bucket_is_that_of_its_sentences_alone():
    rows = examples(0.3)
    buckets = length_buckets([len(line.split()) for line in SENTENCES], 3)
    for bucket, value in zip(buckets, by_bucket("BLEU", bleu_parts(rows), buckets), strict=True):
        inside = [rows[place] for place in bucket.places]
        references = [row["reference"] for row in inside]
        wanted = BLEU().corpus_score([row["prediction"] for row in inside], [references]).score
        assert value == pytest.approx(wanted)


def test_only_what_comes_out_the_same_is_recomputed():
    rows = evaluation(SENTENCES, 0.2)
    value = rows["metrics"]["BLEU"]["value"]
    assert trusted_parts("BLEU", value, rows["by_example"]) is not None
    assert trusted_parts("BLEU", value + 0.1, rows["by_example"]) is None  # of other tokens, say
    assert trusted_parts("chrF2", value, rows["by_example"]) is None
    assert trusted_parts("BLEU", value, [{"label": "x"}]) is None


def test_language_models_are_resampled_by_their_passages():
    rows = [
        {"text": "a b", "nats": 6.0, "tokens": 3, "words": 2, "characters": 3},
        {"text": "c", "nats": 2.0, "tokens": 1, "words": 1, "characters": 1},
    ]
    values = {
        "loss": 2.0,
        "perplexity per word": np.exp(8 / 3),
        "bits per character": 2 / np.log(2),
    }
    for name, value in values.items():
        assert trusted_parts(name, value, rows) is not None
    impossible = [{**rows[0], "nats": None}, rows[1]]
    assert trusted_parts("loss", None, impossible) is None
    assert trusted_parts("loss", 2.0, impossible) is None


def test_the_error_rate_of_sums():
    rows = [
        {"alignment_hits": 3, "alignment_links": 5},
        {"alignment_hits": 2, "alignment_links": 2},
    ]
    parts = trusted_parts("AER", 1 - 5 / 7, rows)
    assert parts is not None
    assert RECIPES["AER"].value(parts) == pytest.approx([0.4, 0.0])
