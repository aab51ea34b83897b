"""Attention pooling: its normalisations, and the smallest examples of the lectures."""

import math

import pytest
import torch

from saccade.blocks.masks import masked_softmax
from saccade.blocks.pooling import AttentionPooling, by_sum, nadaraya_watson, pool
from saccade.blocks.recording import record_attention
from saccade.blocks.scores import SCORES
from saccade.errors import InputError

WORDS = ["dog", "tree", "house", "river"]


def keyword_vector(*words):
    return torch.tensor([float(word in words) for word in WORDS])


def test_a_search_by_keywords_is_attention():
    """Query, key, value: images are values, their keywords keys, and what is asked for a query."""
    images = {"garden": ("tree", "house"), "walk": ("dog", "tree"), "portrait": ("dog",)}
    keys = torch.stack([keyword_vector(*words) for words in images.values()])
    query = keyword_vector("dog", "tree") / 2  # the share of what is asked that an image has
    matches = query @ keys.mT
    assert matches.tolist() == [0.5, 1.0, 0.5]
    ranked = [list(images)[i] for i in matches.argsort(descending=True, stable=True)]
    assert ranked == ["walk", "garden", "portrait"]
    values = torch.eye(3)
    assert pool(matches[None], values, normalise=by_sum).tolist() == [[0.25, 0.5, 0.25]]
    soft = pool(matches[None], values)[0]
    assert soft.argmax() == 1
    torch.testing.assert_close(soft[0] / soft[1], torch.tensor(math.exp(-0.5)))


def test_by_sum_of_nothing_is_nothing():
    matches = torch.tensor([[0.0, 0.0, 0.0], [1.0, 3.0, 4.0]], requires_grad=True)
    weights = by_sum(matches)
    assert weights.tolist() == [[0, 0, 0], [0.125, 0.375, 0.5]]
    masked = by_sum(matches, torch.tensor([[True, True, False]]))
    assert masked.tolist() == [[0, 0, 0], [0.25, 0.75, 0]]
    (weights * torch.arange(3)).sum().backward()
    assert matches.grad.isfinite().all()


def test_by_sum_refuses_negative_matches():
    matches = torch.tensor([[2.0, -0.5, 1.0]])
    with pytest.raises(InputError, match=r"a match is -0\.5"):
        by_sum(matches)
    assert by_sum(matches, torch.tensor([[True, False, True]]))[0, 1] == 0  # nobody looks there


def test_nadaraya_watson_is_its_formula():
    keys, query = torch.rand(9, 1, dtype=torch.float64) * 5, torch.linspace(0, 5, 7).double()
    values = torch.sin(keys) + keys
    found = nadaraya_watson(query.unsqueeze(1), keys, values, width=0.4)
    for x, y in zip(query, found, strict=True):
        kernel = [math.exp(-((x - k) ** 2) / (2 * 0.4**2)) for k in keys[:, 0]]
        expected = sum(k * v for k, v in zip(kernel, values[:, 0], strict=True)) / sum(kernel)
        torch.testing.assert_close(y[0], expected)


def test_a_narrow_kernel_answers_with_the_nearest_value_a_wide_one_with_the_mean():
    keys, values = torch.tensor([[0.0], [1.0], [5.0]]), torch.tensor([[3.0], [4.0], [8.0]])
    query = torch.tensor([[0.9]])
    assert nadaraya_watson(query, keys, values, width=0.01).item() == 4.0
    assert nadaraya_watson(query, keys, values, width=1e6).item() == pytest.approx(5.0)
    with pytest.raises(InputError, match="width of a kernel is 0"):
        nadaraya_watson(query, keys, values, width=0)


@pytest.mark.parametrize("score", ["additive", "scaled-dot", "cosine"])
def test_pooling_knows_no_order_and_no_padding(score):
    pooling, x = AttentionPooling(6, score=SCORES[score]).double(), torch.randn(2, 5, 6).double()
    mask = torch.tensor([[True] * 5, [True, True, True, False, False]])
    with record_attention(pooling) as seen:
        pooled = pooling(x, mask)
    (weights,) = seen[""]
    assert weights.shape == (2, 1, 1, 5)
    assert (weights[1, ..., 3:] == 0).all()
    torch.testing.assert_close(pooled, (weights[:, 0] @ x).squeeze(1))
    torch.testing.assert_close(pooling(x[1:, :3]), pooled[1:])
    torch.testing.assert_close(pooling(x[:1, [4, 2, 0, 1, 3]]), pooled[:1])
    nothing = pooling(x, torch.zeros(2, 5, dtype=torch.bool))
    assert (nothing == 0).all()


def test_softmax_is_the_default():
    matches, values = torch.randn(2, 3, 4), torch.randn(2, 4, 5)
    torch.testing.assert_close(pool(matches, values), masked_softmax(matches) @ values)
