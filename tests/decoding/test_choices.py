"""The most probable tokens of each row, found in several ways."""

import pytest
import torch

from saccade.decoding.choices import MANY, top_cpu, top_device

NEVER = float("-inf")


def test_the_ways_to_the_top_agree():
    log_probs = torch.randn(7, 50).log_softmax(-1)
    values, tokens = top_device(log_probs, 6)
    ours, ids = top_cpu(log_probs.clone(), 6)
    assert (ours == values).all()
    assert (ids == tokens).all()


@pytest.mark.parametrize("allowed", [200, 60, 40])
def test_many_choices_are_those_of_as_many_passes(allowed):
    """Also of equals, the lower id first, and where fewer tokens are allowed than choices."""
    log_probs = torch.randint(-9, 0, (7, 200)).float()  # many equals
    log_probs[3] = torch.randn(200)
    for row in range(7):
        log_probs[row, torch.randperm(200)[allowed:]] = NEVER
    choices = MANY + 20
    values, tokens = top_cpu(log_probs.clone(), choices)
    left = log_probs.clone().numpy()
    for choice in range(choices):
        best = left.argmax(-1)
        real = left.max(-1) > NEVER
        assert (values[:, choice] == left.max(-1)).all()
        assert (tokens[real, choice] == best[real]).all()
        left[range(7), best] = NEVER
