"""Masks as pictures, and what the masked softmax promises whatever the mask."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.blocks.masks import (
    causal_mask,
    combine,
    masked_softmax,
    padding_mask,
    permutation_masks,
    window_mask,
)


def picture(mask):
    return ["".join("x" if allowed else "." for allowed in row) for row in mask.tolist()]


def test_valid_lengths_of_the_lectures_batch():
    batch = [
        ["Dive", "into", "Deep", "Learning"],
        ["Learn", "to", "code", "<blank>"],
        ["Hello", "world", "<blank>", "<blank>"],
    ]
    lengths = torch.tensor([sum(word != "<blank>" for word in row) for row in batch])
    mask = padding_mask(lengths, 4)
    assert picture(mask) == ["xxxx", "xxx.", "xx.."]
    weights = masked_softmax(torch.zeros(3, 1, 4), mask.unsqueeze(1))
    assert (weights[1, 0] == torch.tensor([1 / 3, 1 / 3, 1 / 3, 0])).all()
    assert (weights[2, 0] == torch.tensor([0.5, 0.5, 0, 0])).all()


def test_causal_pictures():
    assert picture(causal_mask(3)) == ["x..", "xx.", "xxx"]
    assert picture(causal_mask(2, 4)) == ["xxx.", "xxxx"]
    assert picture(causal_mask(1, 3)) == ["xxx"]
    assert causal_mask(0).shape == (0, 0)


def test_window_pictures():
    assert picture(window_mask(4, before=1)) == ["x...", "xx..", ".xx.", "..xx"]
    assert picture(window_mask(4, before=1, after=1)) == ["xx..", "xxx.", ".xxx", "..xx"]
    assert picture(window_mask(2, before=1, keys=4)) == [".xx.", "..xx"]


def test_the_window_without_end_is_causal():
    assert torch.equal(window_mask(3, before=9, keys=5), causal_mask(3, 5))


def test_permutation_of_the_paper():
    # Figure 4 of the XLNet paper: factorisation order 3 -> 2 -> 4 -> 1.
    content, query = permutation_masks(torch.tensor([2, 1, 3, 0]))
    assert picture(content) == ["xxxx", ".xx.", "..x.", ".xxx"]
    assert picture(query) == [".xxx", "..x.", "....", ".xx."]


def test_permutation_left_to_right_is_causal():
    content, query = permutation_masks(torch.arange(4).expand(2, 4))
    assert torch.equal(content, causal_mask(4).expand(2, 4, 4))
    assert torch.equal(query, causal_mask(4).tril(-1).expand(2, 4, 4))


def test_combine_is_and_and_none_is_everything():
    padding = padding_mask(torch.tensor([1, 3]), 3).unsqueeze(1)
    both = combine(padding, None, causal_mask(3))
    assert picture(both[0]) == ["x..", "x..", "x.."]
    assert picture(both[1]) == ["x..", "xx.", "xxx"]
    assert combine() is None
    assert combine(None, None) is None
    assert combine(None, padding) is padding


@given(seed=st.integers(0, 2**16), keys=st.integers(1, 9), scale=st.sampled_from([1.0, 1e4, 1e30]))
@settings(max_examples=50, deadline=None)
def test_weights_are_a_distribution_over_the_allowed_keys(seed, keys, scale):
    g = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, 3, 4, keys, generator=g) * scale
    mask = torch.rand(2, 1, 4, keys, generator=g) < 0.4
    weights = masked_softmax(scores, mask)
    assert (weights >= 0).all()
    assert (weights[~mask.expand_as(weights)] == 0).all()
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).float().expand(2, 3, 4))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_query_that_may_look_nowhere_gets_zeros_and_finite_gradients(dtype):
    scores = torch.randn(2, 3, 5, dtype=dtype, requires_grad=True)
    mask = padding_mask(torch.tensor([0, 2]), 5).unsqueeze(1)
    with torch.autograd.set_detect_anomaly(True):
        weights = masked_softmax(scores, mask)
        weights[..., 0].sum().backward()
    assert not weights[0].any()
    assert scores.grad.isfinite().all()
    assert not scores.grad[0].any()
    assert scores.grad[1, :, :2].any()


@pytest.mark.parametrize("rubbish", [float("nan"), float("inf"), -float("inf")])
def test_what_is_behind_the_mask_does_not_matter(rubbish):
    clean = torch.randn(2, 3, 5)
    mask = padding_mask(torch.tensor([3, 4]), 5).unsqueeze(1)
    dirty = clean.masked_fill(~mask, rubbish).requires_grad_()
    weights = masked_softmax(dirty, mask)
    torch.testing.assert_close(weights[0, :, :3], clean[0, :, :3].softmax(-1))
    weights.square().sum().backward()
    assert dirty.grad.isfinite().all()


def test_allowed_scores_of_minus_infinity_are_nowhere_too():
    scores = torch.tensor([[[0.0, -torch.inf, -torch.inf]]])
    assert not masked_softmax(scores, torch.tensor([[[False, True, True]]])).any()


def test_without_a_mask_it_is_softmax():
    scores = torch.randn(2, 3, 4)
    torch.testing.assert_close(masked_softmax(scores), scores.softmax(-1))
    torch.testing.assert_close(
        masked_softmax(scores, torch.ones(4).bool()[None]), scores.softmax(-1)
    )
