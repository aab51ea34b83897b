"""REINFORCE: its mean over all choices is the gradient of the expected loss, to the last digit."""

import itertools

import pytest
import torch
from torch.nn import functional as F

from saccade.blocks.reinforce import Choice, reinforce

PLACES, STEPS = 3, 2


def test_a_choice_answers_for_its_step_and_what_follows():
    choice = Choice(*(torch.zeros(1, 3) for _ in range(3)))
    losses = torch.tensor([[1.0, 2.0, 4.0]])
    for discount, expected in [(0.0, [1, 4, 16]), (1.0, [49, 36, 16]), (0.5, [9, 16, 16])]:
        _, surprise = reinforce(choice, losses, discount=discount, entropy=0.0)
        assert surprise.tolist() == [expected]


def test_entropy_is_a_reward_and_the_baseline_lowers_no_loss():
    probe = [torch.full((1, 2), value, requires_grad=True) for value in (-0.5, 0.7, 3.0)]
    policy, surprise = reinforce(
        Choice(*probe), torch.tensor([[2.0, 4.0]]), discount=0.0, entropy=0.1
    )
    torch.testing.assert_close(policy, torch.tensor([[0.5 - 0.07, -0.5 - 0.07]]))
    policy.sum().backward()
    assert probe[2].grad is None  # the baseline learns from the surprise alone
    surprise.sum().backward()
    torch.testing.assert_close(probe[2].grad, torch.tensor([[2.0, -2.0]]))


@pytest.mark.parametrize("baseline", [0.0, 1.7])
def test_the_mean_over_all_choices_is_the_gradient_of_the_expected_loss(baseline):
    """Two steps; the loss of the second depends on both choices, as with feedback."""
    logits = torch.randn(STEPS, PLACES, dtype=torch.float64, requires_grad=True)
    worth = torch.randn(PLACES, PLACES, dtype=torch.float64)  # of the first and the second choice

    def losses(first, second):
        return torch.stack([worth[first, 0].square(), worth[first, second].exp()])

    expected, estimate = 0.0, 0.0
    for drawn in itertools.product(range(PLACES), repeat=STEPS):
        log_p = torch.stack([F.log_softmax(logits[t], 0)[place] for t, place in enumerate(drawn)])
        probability = log_p.sum().exp()
        loss = losses(*drawn)
        expected = expected + probability * loss.sum()
        choice = Choice(
            log_p[None], torch.zeros_like(log_p)[None], torch.full_like(log_p, baseline)[None]
        )
        policy, _ = reinforce(choice, loss[None], discount=1.0, entropy=0.0)
        estimate = estimate + probability.detach() * policy.sum()
    (wanted,) = torch.autograd.grad(expected, logits, retain_graph=True)
    (found,) = torch.autograd.grad(estimate, logits)
    torch.testing.assert_close(found, wanted)
