"""The order of contexts is a function of the seed and the epoch; lanes go on where they were."""

import itertools

import numpy as np
import pytest

from saccade.data.batches import split
from saccade.data.contexts import Lanes, Shuffled, collate_contexts
from saccade.data.streams import TokenStream
from saccade.errors import InputError

ORDERS = (Shuffled, Lanes)


def stream(size):
    return TokenStream(np.arange(size).astype(np.uint16), np.array([0, size]))


@pytest.mark.parametrize("order", ORDERS)
def test_any_batch_can_be_had_alone(order):
    """A fresh order gives at step n what one that walked there gives; another seed another."""
    walking = order(1000, 16, 64, seed=3)
    walked = [walking.at(step) for step in range(3 * len(walking))]
    for step in (0, 1, len(walking) - 1, len(walking), 2 * len(walking) + 5):
        epoch, index, rows = order(1000, 16, 64, seed=3).at(step)
        assert (epoch, index) == divmod(step, len(walking)) == walked[step][:2]
        assert np.array_equal(rows, walked[step][2])
    other = order(1000, 16, 64, seed=4)
    assert any(not np.array_equal(other.at(s)[2], walked[s][2]) for s in range(len(other)))


@pytest.mark.parametrize(("size", "context"), [(1000, 16), (999, 16), (33, 16), (17, 16), (9, 16)])
def test_an_epoch_of_contexts_overlaps_nowhere(size, context):
    order = Shuffled(size, context, 64, seed=1)
    offsets = set()
    for epoch in range(40):
        batches = [order.at(epoch * len(order) + n)[2] for n in range(len(order))]
        rows = np.concatenate(batches)
        assert all(len(batch) <= max(1, 64 // context) for batch in batches)
        starts = np.sort(rows[:, 0])
        assert starts[0] >= 0
        assert starts[-1] + order.length < size
        assert (np.diff(starts) == order.length).all()
        assert order.length * len(starts) >= size - 2 * context  # nearly all of it
        offsets.add(int(starts[0]))
    assert len(offsets) > (10 if size > 2 * context else 0)  # borders move from epoch to epoch


@pytest.mark.parametrize(("size", "context", "tokens"), [(1000, 16, 64), (50, 16, 64), (5, 16, 8)])
def test_each_lane_goes_on_where_it_was(size, context, tokens):
    order = Lanes(size, context, tokens, seed=1)
    for epoch in range(5):
        batches = [order.at(epoch * len(order) + n)[2] for n in range(len(order))]
        assert [bool(b[0, 2]) for b in batches] == [True] + [False] * (len(batches) - 1)
        for before, after in itertools.pairwise(batches):
            assert np.array_equal(before[:, 0] + before[:, 1], after[:, 0])
        ends = batches[-1][:, 0] + batches[-1][:, 1]
        assert np.array_equal(ends[:-1], batches[0][1:, 0])  # one lane ends where the next began
        assert ends[-1] < size
        assert ends[-1] - batches[0][0, 0] >= size - 1 - context - len(ends)


def test_a_lane_is_always_dealt_to_the_same_piece():
    order = Lanes(1000, 16, 112, seed=1)
    assert order.lanes == 7
    for pieces in (1, 2, 4, 8):
        lanes = {
            tuple(tuple((part[:, 0] - order.at(step)[2][0, 0]) // order.length) for part in dealt)
            for step in range(len(order))
            for dealt in [split(order.at(step)[2], pieces)]
        }
        assert len(lanes) == 1


def test_gold_is_the_next_token_and_a_begin_is_not_scored():
    rows = np.array([[3, 4, 1], [10, 4, 1]])
    batch = collate_contexts(stream(100), rows, silent=5)
    assert batch.tokens.tolist() == [[3, 4, 5, 6], [10, 11, 12, 13]]
    assert batch.gold.tolist() == [[4, 5, 6, 7], [11, 12, 13, 14]]
    assert batch.counts == {"loss": 7}
    assert batch.fresh


@pytest.mark.parametrize("order", ORDERS)
def test_nothing_to_predict_is_refused(order):
    with pytest.raises(InputError, match="no token to predict"):
        order(1, 16, 64, seed=1)
    order(2, 16, 64, seed=1).at(0)
