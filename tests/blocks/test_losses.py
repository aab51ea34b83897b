"""The loss in chunks is the loss by the equation, and never holds all logits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from saccade.blocks.losses import ROWS, chunked_cross_entropy, cross_entropy

D, V = 6, 11
LOSSES = [cross_entropy, chunked_cross_entropy]


def problem(rows, vocab=V, dtype=torch.float64):
    hidden = torch.randn(rows, D, dtype=dtype, requires_grad=True)
    weight = torch.randn(vocab, D, dtype=dtype, requires_grad=True)
    return hidden, weight, torch.randint(0, vocab, (rows,))


def value_and_gradients(loss, problem, smoothing, upstream=1.0):
    hidden, weight, gold = problem
    total = loss(hidden, weight, gold, smoothing)
    return total, *torch.autograd.grad(total * upstream, [hidden, weight])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("rows", [0, 1, ROWS - 1, ROWS, ROWS + 1, 600])
def test_in_chunks_as_by_the_equation(rows, smoothing):
    given_ = problem(rows)
    for a, b in zip(*(value_and_gradients(f, given_, smoothing) for f in LOSSES), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 1.0])
def test_both_are_the_formula_of_the_docstring(loss, smoothing):
    hidden, weight, gold = problem(5)
    expected = 0
    for h, y in zip(hidden, gold, strict=True):
        log_p = (weight @ h).log_softmax(0)
        expected -= (1 - smoothing) * log_p[y] + smoothing / V * log_p.sum()
    torch.testing.assert_close(loss(hidden, weight, gold, smoothing), expected)


@given(
    seed=st.integers(0, 2**16),
    rows=st.integers(1, 8),
    smoothing=st.floats(0, 1),
    upstream=st.floats(-1e3, 1e3),
)
@settings(max_examples=30, deadline=None)
def test_gradients_scale_with_what_comes_from_above(seed, rows, smoothing, upstream):
    torch.manual_seed(seed)
    given_ = problem(rows)
    for a, b in zip(
        *(value_and_gradients(f, given_, smoothing, upstream) for f in LOSSES), strict=True
    ):
        torch.testing.assert_close(a, b)


def test_it_adds_to_what_else_uses_the_weights():
    """The embedding is the output weight: both uses meet in one gradient."""
    hidden, weight, gold = problem(9)
    found = []
    for loss in LOSSES:
        total = loss(hidden * weight[gold], weight, gold, 0.1) / 9
        found.append(torch.autograd.grad(total, [hidden, weight]))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b)


def test_far_apart_logits_stay_finite():
    hidden, weight, gold = problem(4, dtype=torch.float32)
    for each in value_and_gradients(chunked_cross_entropy, (hidden * 1e4, weight, gold), 0.0)[:1]:
        assert each.isfinite()
    total = chunked_cross_entropy(hidden * 1e4, weight, gold, 0.1)
    total.backward()
    assert hidden.grad.isfinite().all()


def test_without_gradients_the_value_is_the_same():
    hidden, weight, gold = problem(ROWS + 3)
    with torch.no_grad():
        value = chunked_cross_entropy(hidden, weight, gold, 0.1)
    torch.testing.assert_close(value, cross_entropy(hidden, weight, gold, 0.1))
    frozen = chunked_cross_entropy(hidden, weight.detach(), gold, 0.1)
    (found,) = torch.autograd.grad(frozen, [hidden])
    (expected,) = torch.autograd.grad(cross_entropy(hidden, weight, gold, 0.1), [hidden])
    torch.testing.assert_close(found, expected)


class Largest(TorchDispatchMode):
    """Watch every operation for the largest tensor it gives."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # noqa: ARG002
        found = func(*args, **(kwargs or {}))
        for each in found if isinstance(found, (tuple, list)) else [found]:
            if torch.is_tensor(each):
                self.elements = max(self.elements, each.numel())
        return found


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_never_more_than_a_chunk_of_logits_is_held(smoothing):
    rows, vocab = 4 * ROWS, 100
    given_ = problem(rows, vocab)
    with Largest() as largest:
        value_and_gradients(chunked_cross_entropy, given_, smoothing)
    assert largest.elements == ROWS * vocab
    with Largest() as largest:
        value_and_gradients(cross_entropy, given_, smoothing)
    assert largest.elements == rows * vocab  # the watcher sees


def test_under_autocast_as_without():
    given_ = problem(10, dtype=torch.float32)
    plain = value_and_gradients(chunked_cross_entropy, given_, 0.1)
    with torch.autocast("cpu", torch.bfloat16):
        cast = value_and_gradients(chunked_cross_entropy, given_, 0.1)
    for a, b in zip(plain, cast, strict=True):
        torch.testing.assert_close(a, b)
