"""What stands between the two maps of a feed-forward network."""

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

Activation = Callable[[Tensor], Tensor]

LINEAR = 2 * math.sqrt(2 / math.pi)
CUBIC = 0.044715 * LINEAR


def gelu_tanh(x: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """Hendrycks and Gimpel 2016, approximated:  x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))."""
    learns = x.requires_grad and torch.is_grad_enabled() and not torch.compiler.is_compiling()
    if learns and x.device.type == "cpu" and x.dtype == torch.float32:
        y: Tensor = GeluBySigmoid.apply(x)
        return y
    return F.gelu(x, approximate="tanh")


class GeluBySigmoid(torch.autograd.Function):
    """The same in half the time on a CPU, where a tanh costs three times a sigmoid.

    As (1 + tanh u) / 2 = s(2u), it is  x s(v)  with  v = x (a + b x^2)  and, s kept from before,

        d/dx = s (1 + x (1 - s) (a + 3 b x^2))
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        s = x.square().mul_(CUBIC).add_(LINEAR).mul_(x).sigmoid_()
        ctx.save_for_backward(x, s)
        return x * s

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        x, s = ctx.saved_tensors
        slope: Tensor = x.square().mul_(3 * CUBIC).add_(LINEAR).mul_(x)
        return slope.mul_(1 - s).add_(1).mul_(s).mul_(grads[0])


ACTIVATIONS: dict[str, Activation] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu-tanh": gelu_tanh,
    "silu": F.silu,
    "tanh": torch.tanh,
}
