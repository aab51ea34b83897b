"""The loss of two passes that shall agree: in chunks as by the equation, and as in the paper."""

import pytest
import torch
from test_losses import Largest

from saccade.blocks.agreement import agreeing_cross_entropy, chunked_agreeing_cross_entropy
from saccade.blocks.losses import ROWS, cross_entropy

D, V = 6, 11
BOTH = [agreeing_cross_entropy, chunked_agreeing_cross_entropy]


def problem(rows, vocab=V):
    first, second = (torch.randn(rows, D, dtype=torch.float64, requires_grad=True) for _ in "12")
    weight = torch.randn(vocab, D, dtype=torch.float64, requires_grad=True)
    return first, second, weight, torch.randint(0, vocab, (rows,))


def value_and_gradients(loss, problem, smoothing, agreement, upstream=1.0):
    total, divergence = loss(*problem, smoothing, agreement)
    return total, divergence, *torch.autograd.grad(total * upstream, problem[:3])


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("agreement", [0.0, 0.7, 5.0])
@pytest.mark.parametrize("rows", [0, 1, ROWS - 1, ROWS + 1, 600])
def test_in_chunks_as_by_the_equation(rows, agreement, smoothing):
    given = problem(rows)
    found = (value_and_gradients(loss, given, smoothing, agreement, -3.0) for loss in BOTH)
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


@pytest.mark.parametrize("loss", BOTH)
def test_half_of_the_papers_formula(loss):
    """-log p[y] - log q[y] + a/2 (KL(p || q) + KL(q || p)), by torch's own divergence."""
    first, second, weight, gold = problem(7)
    log_p, log_q = ((h @ weight.mT).log_softmax(1) for h in (first, second))
    divergence = torch.nn.functional.kl_div
    there = divergence(log_q, log_p, reduction="sum", log_target=True)  # KL(p || q)
    back = divergence(log_p, log_q, reduction="sum", log_target=True)
    gold_of = -log_p.gather(1, gold[:, None]).sum() - log_q.gather(1, gold[:, None]).sum()
    found = loss(first, second, weight, gold, 0.0, 4.0)
    torch.testing.assert_close(found.total, (gold_of + 4 / 2 * (there + back)) / 2)
    torch.testing.assert_close(found.divergence, (there + back) / 2)


@pytest.mark.parametrize("loss", BOTH)
def test_passes_that_agree_lose_what_one_of_them_does(loss):
    first, _, weight, gold = problem(7)
    found = loss(first, first.clone(), weight, gold, 0.1, 5.0)
    torch.testing.assert_close(found.total, cross_entropy(first, weight, gold, 0.1))
    assert found.divergence.abs() < 1e-12


def test_how_far_apart_they_are_has_no_gradient():
    assert not chunked_agreeing_cross_entropy(*problem(3), 0.1, 1.0).divergence.requires_grad


def test_without_gradients_the_value_is_the_same():
    given = problem(ROWS + 3)
    with torch.no_grad():
        value = chunked_agreeing_cross_entropy(*given, 0.1, 2.0)
    torch.testing.assert_close(value.total, agreeing_cross_entropy(*given, 0.1, 2.0).total)
    first, second, weight, gold = given
    frozen = [
        torch.autograd.grad(loss(first, second, weight.detach(), gold, 0.1, 2.0).total, [first])
        for loss in BOTH
    ]
    torch.testing.assert_close(*frozen)


def test_never_more_than_a_chunk_of_logits_is_held():
    rows, vocab = 4 * ROWS, 100
    with Largest() as largest:
        value_and_gradients(chunked_agreeing_cross_entropy, problem(rows, vocab), 0.1, 2.0)
    assert largest.elements == ROWS * vocab


def test_far_apart_logits_stay_finite():
    first, second, weight, gold = (each.detach() for each in problem(4))
    hidden = [(1e4 * each).float().requires_grad_() for each in (first, second)]
    total, divergence = chunked_agreeing_cross_entropy(*hidden, weight.float(), gold, 0.1, 5.0)
    total.backward()
    assert total.isfinite()
    assert divergence.isfinite()
    assert all(each.grad.isfinite().all() for each in hidden)
