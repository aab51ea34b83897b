"""Activations: the faster way to learn with a GELU gives what the formula gives."""

import pytest
import torch
from torch.nn import functional as F

from saccade.blocks.activations import GeluBySigmoid, gelu_tanh


def test_gelu_by_a_sigmoid_is_gelu_by_a_tanh():
    x = torch.cat([torch.linspace(-12, 12, 4001), torch.tensor([0.0, -1e4, 1e4])])
    mine, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    y, formula = gelu_tanh(mine), F.gelu(theirs, approximate="tanh")
    assert y.grad_fn.name().startswith("GeluBySigmoid")
    torch.testing.assert_close(y, formula, rtol=1e-5, atol=1e-6)
    slopes = torch.linspace(-2, 2, len(x))
    y.backward(slopes)
    formula.backward(slopes)
    torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-5, atol=1e-6)


def test_its_gradient_is_that_of_its_values():
    x = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(GeluBySigmoid.apply, (x,))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_other_numbers_and_those_who_do_not_learn_take_the_kernel(dtype):
    x = torch.randn(9)
    assert torch.equal(gelu_tanh(x), F.gelu(x, approximate="tanh"))
    with torch.no_grad():
        assert gelu_tanh(x.clone().requires_grad_()).grad_fn is None
    learns = x.to(dtype).requires_grad_()
    assert torch.equal(gelu_tanh(learns), F.gelu(learns, approximate="tanh"))
