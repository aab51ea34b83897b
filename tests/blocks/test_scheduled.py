"""Schedules of scheduled sampling by hand (Bengio et al. 2015, 2.4)."""

import pytest

from saccade.blocks.scheduled import Exponential, InverseSigmoid, Linear
from saccade.errors import InputError


@pytest.mark.parametrize(
    ("schedule", "by_hand"),
    [
        (Linear(least=0.25, updates=8), {0: 1.0, 2: 0.75, 6: 0.25, 7: 0.25}),
        (Exponential(k=0.5), {0: 1.0, 1: 0.5, 3: 0.125}),  # k^i
        (InverseSigmoid(k=1.0), {0: 0.5, 1: 0.26894142, 10**6: 0.0}),  # k / (k + exp(i / k))
        (InverseSigmoid(k=2.0), {0: 2 / 3, 2: 0.42388312, 4: 0.21301396}),
    ],
    ids=repr,
)
def test_how_often_the_true_word_is_read(schedule, by_hand):
    for update, probability in by_hand.items():
        assert schedule(update) == pytest.approx(probability, abs=1e-7)


@pytest.mark.parametrize(
    "wrong", [(Exponential, 0.0), (Exponential, 1.0), (InverseSigmoid, 0.5)], ids=str
)
def test_a_k_without_a_schedule_is_refused(wrong):
    kind, k = wrong
    with pytest.raises(InputError, match=f"k is {k}"):
        kind(k=k)
