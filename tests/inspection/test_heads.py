"""Head work: rollout and flow against graphs worked out by hand, statistics of plain heads."""

import math

import numpy as np
import pytest
import torch

from saccade.errors import InputError
from saccade.inspection.alignment import AttentionMap
from saccade.inspection.heads import (
    average,
    flow,
    head_statistics,
    max_flow,
    maximum,
    rollout,
    statistics_table,
)


def stack(layers=3, heads=2, size=5):
    return {f"L{n}": torch.randn(heads, size, size).mul(2).softmax(-1) for n in range(layers)}


def test_average_and_maximum_lie_between_the_heads():
    weights = stack()
    every = torch.cat(list(weights.values()))
    torch.testing.assert_close(average(weights), every.mean(0))
    assert torch.equal(maximum(weights), every.amax(0))
    # a layer with more heads counts no more
    uneven = {"a": torch.zeros(3, 1, 1), "b": torch.ones(1, 1, 1)}
    assert average(uneven).item() == 0.5


def test_rollout_rows_sum_to_one_and_nothing_comes_from_the_future():
    weights = stack()
    torch.testing.assert_close(rollout(weights).sum(-1), torch.ones(5))
    causal = {
        name: layer.tril() / layer.tril().sum(-1, keepdim=True) for name, layer in weights.items()
    }
    assert (rollout(causal).triu(1) == 0).all()


def test_rollout_by_hand():
    first, second = torch.tensor([[0.0, 1.0], [1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.5, 0.5]])
    weights = {"first": first[None], "second": second[None]}
    # half goes around: A1 = [[.5, .5], [.5, .5]], A2 = [[1, 0], [.25, .75]]
    torch.testing.assert_close(rollout(weights), torch.full((2, 2), 0.5))
    torch.testing.assert_close(rollout(weights, residual=0.0), second @ first)
    assert torch.equal(rollout(weights, residual=1.0), torch.eye(2))


def test_the_maximum_flow_of_a_textbook():
    # Cormen et al., the flow network with the cut of 23: s, v1, v2, v3, v4, t
    edges = {
        (0, 1): 16, (0, 2): 13, (1, 3): 12, (2, 1): 4, (3, 2): 9, (2, 4): 14, (4, 3): 7,
        (3, 5): 20, (4, 5): 4,
    }  # fmt: skip
    capacity = np.zeros((6, 6))
    for (start, end), most in edges.items():
        capacity[start, end] = most
    assert max_flow(capacity, 0, 5) == 23
    assert max_flow(capacity, 5, 0) == 0
    assert capacity[0, 1] == 16  # what was given stays


def test_flow_by_hand():
    """Two tokens, two layers, nothing goes around: the flow is limited by the narrowest edges."""
    upper, lower = torch.tensor([[0.7, 0.3], [1.0, 0.0]]), torch.tensor([[0.4, 0.6], [0.9, 0.1]])
    weights = {"lower": lower[None], "upper": upper[None]}
    found = flow(weights, residual=0.0)
    # 0 -> 0: min(.7, .4) + min(.3, .9); 0 -> 1: min(.7, .6) + min(.3, .1); 1: by the first alone
    torch.testing.assert_close(found, torch.tensor([[0.7, 0.7], [0.4, 0.6]]))
    assert torch.equal(flow(weights, residual=0.0, queries=[1])[1], found[1])
    assert (flow(weights, queries=[1])[0] == 0).all()


def test_flow_is_at_least_what_rollout_multiplies():
    weights = stack(size=4)
    assert (flow(weights) >= rollout(weights) - 1e-6).all()
    assert (flow(weights) <= 1 + 1e-6).all()


def test_what_cannot_be_combined_is_named():
    with pytest.raises(InputError, match="from 2 to 3 tokens"):
        rollout({"cross": torch.ones(1, 2, 3)})
    with pytest.raises(InputError, match="layers of one kind"):
        average({"a": torch.ones(1, 2, 3), "b": torch.ones(1, 2, 2)})
    with pytest.raises(InputError, match="nothing to combine"):
        maximum({})
    with pytest.raises(InputError, match="residual is 2"):
        rollout(stack(), residual=2.0)


def test_statistics_of_heads_that_do_one_thing():
    size = 4
    tokens = ["a", "b", "c", "</s>"]
    back = torch.eye(size).roll(1, 0)  # looks at the one before it; the first at the last
    back[0] = torch.eye(size)[0]
    end = torch.zeros(size, size)
    end[:, -1] = 1.0
    weights = torch.stack([torch.eye(size), back, end, torch.full((size, size), 1 / size)])
    own, previous, last, even = head_statistics(AttentionMap({"L": weights}, tokens, tokens))
    assert (own.entropy, own.distance, own.diagonal, own.previous) == (0, 0, 1, 0)
    assert (previous.previous, previous.distance, previous.diagonal) == (0.75, 0.75, 0.25)
    assert (last.separator, last.distance) == (1, (3 + 2 + 1) / 4)
    assert even.entropy == math.log2(size)
    assert even.separator == 1 / size
    assert [each.head for each in (own, previous, last, even)] == [0, 1, 2, 3]
    text = statistics_table([own, last])
    assert text.split("\n")[2].split() == ["L", "2", "0.00", "1.50", "0.25", "0.00", "1.00"]


def test_statistics_are_means_over_all_queries_of_all_sentences():
    long = AttentionMap({"L": torch.eye(3)[None]}, list("abc"), list("abc"))
    short = AttentionMap({"L": torch.tensor([[[0.0, 1.0]]])}, ["a", "b"], ["c"])
    (found,) = head_statistics([long, short])
    assert found.diagonal == 3 / 4
