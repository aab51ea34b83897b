"""REINFORCE (Williams 1992) with a learned baseline: gradients for what was drawn, not computed.

The gradient of an expected loss is that of the loss as drawn, and that of

    (loss - b) log p(place)

with the loss itself held fixed. Any b that the place does not change leaves the mean as it is; the
nearer it is to the loss to expect, the less a single draw strays from the mean.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Choice:
    """What was drawn at each step of each row."""

    log_probs: Float[Tensor, "B T"]  # of the places drawn
    entropy: Float[Tensor, "B T"]  # of what they were drawn from
    baseline: Float[Tensor, "B T"]  # the loss to expect, told before drawing

    @classmethod
    def joined(cls, steps: Sequence["Choice | None"]) -> "Choice | None":
        """One after the other in time; nothing when nothing was drawn."""
        drawn = [(step.log_probs, step.entropy, step.baseline) for step in steps if step]
        if not drawn:
            return None
        return cls(*(torch.cat(each, dim=1) for each in zip(*drawn, strict=True)))


def reinforce(
    choice: Choice, losses: Float[Tensor, "B T"], *, discount: float, entropy: float
) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
    """Two losses at each step: one that teaches the choices, one that teaches the baseline.

    A choice answers for the loss of its own step and, discounted, of those after it. `entropy` is
    the reward for staying undecided, without which a choice made too early is never reconsidered.
    """
    to_come = [losses.detach()[:, -1:]]
    for step in range(losses.shape[1] - 2, -1, -1):
        to_come.append(losses.detach()[:, step : step + 1] + discount * to_come[-1])
    answered = torch.cat(to_come[::-1], dim=1)
    surprise = answered - choice.baseline
    policy = surprise.detach() * choice.log_probs - entropy * choice.entropy
    return policy, surprise.square()
