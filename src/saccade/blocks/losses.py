"""Cross-entropy with label smoothing, by the equation and without ever holding all logits.

For a gold token y and smoothing e (Szegedy et al. 2016), with p = softmax(W h):

    loss = -(1 - e) log p[y] - e/V sum_v log p[v]

and the gradients need no one-hot vector:

    d loss / d h = (p - e/V) W - (1 - e) W[y]
    d loss / d W = (p - e/V)^T h, less (1 - e) h in row y
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from saccade.blocks.products import add_product, multiply

ROWS = 256  # logits held at a time: enough for the matrix product, few enough for the cache


def cross_entropy(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    gold: Int[Tensor, " N"],
    smoothing: float,
) -> Float[Tensor, ""]:
    """The sum over rows, by the equation: all N x V logits at once."""
    return F.cross_entropy(hidden @ weight.mT, gold, reduction="sum", label_smoothing=smoothing)


def chunked_cross_entropy(
    hidden: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    gold: Int[Tensor, " N"],
    smoothing: float,
) -> Float[Tensor, ""]:
    """The same sum, some rows at a time, gradients computed on the way."""
    if not torch.is_grad_enabled():  # which a Function does not see from inside
        hidden, weight = hidden.detach(), weight.detach()
    total: Tensor = _ChunkedCrossEntropy.apply(hidden, weight, gold, smoothing)
    return total


class _ChunkedCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, gold: Tensor, smoothing: float) -> Tensor:
        vocab = weight.shape[0]
        wants_grad = any(ctx.needs_input_grad)
        if wants_grad:
            grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        buffer = hidden.new_empty(min(ROWS, len(hidden)), vocab)
        total = hidden.new_zeros(())
        for start in range(0, len(hidden), ROWS):
            h, y = hidden[start : start + ROWS], gold[start : start + ROWS, None]
            logits = multiply(h, weight.mT, out=buffer[: len(h)])
            log_p = torch.log_softmax(logits, dim=1, out=logits)
            total -= (1 - smoothing) * log_p.gather(1, y).sum() + smoothing / vocab * log_p.sum()
            if wants_grad:
                p = log_p.exp_()
                multiply(p, weight, out=grad_hidden[start : start + ROWS])
                add_product(grad_weight, p.mT, h)
        if wants_grad:
            grad_hidden -= smoothing / vocab * weight.sum(0)
            grad_hidden -= (1 - smoothing) * weight[gold]
            grad_weight -= smoothing / vocab * hidden.sum(0)
            grad_weight.index_add_(0, gold, hidden, alpha=-(1 - smoothing))
            ctx.save_for_backward(grad_hidden, grad_weight)
        return total

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grads[0], grad_weight * grads[0], None, None
