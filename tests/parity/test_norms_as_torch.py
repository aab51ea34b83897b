"""Batch norm over time against torch's batch norm, a module for each time step."""

import torch
from torch import nn

from saccade.blocks.norms import BatchNormOverTime

B, T, D = 8, 3, 5


def test_batch_norm_over_time_is_a_batch_norm_for_each_time_step():
    ours, theirs = BatchNormOverTime(D), [nn.BatchNorm1d(D) for _ in range(T)]
    for _ in range(3):
        x = torch.randn(B, T, D) * 2 + 1
        mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        a = ours(mine)
        b = torch.stack([norm(other[:, t]) for t, norm in enumerate(theirs)], dim=1)
        torch.testing.assert_close(a, b)
        upstream = torch.randn(B, T, D)
        a.backward(upstream)
        b.backward(upstream)
        torch.testing.assert_close(mine.grad, other.grad)
    x = torch.randn(B, T, D)
    ours.eval()
    b = torch.stack([norm.eval()(x[:, t]) for t, norm in enumerate(theirs)], dim=1)
    torch.testing.assert_close(ours(x), b)
