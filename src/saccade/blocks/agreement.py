"""R-Drop (Wu et al. 2021): two passes with dropout of their own shall give the same distribution.

For the distributions p and q that the two passes give for a token, with CE of `losses.py`:

    loss = (CE(p) + CE(q)) / 2 + a/2 (KL(p || q) + KL(q || p)) / 2

the paper's, halved, so that it is the loss of one pass where a is 0. By the equation, and without
ever holding all logits; for that, with d = log p - log q, and z the logits of p,

    d KL(p || q) / d z = p (d - sum p d)        d KL(q || p) / d z = p - q
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.blocks.losses import ROWS, cross_entropy
from saccade.blocks.products import add_product, multiply


class Agreeing(NamedTuple):
    """The loss, and how far apart the passes were (both divergences, halved), without gradients."""

    total: Float[Tensor, ""]
    divergence: Float[Tensor, ""]


def agreeing_cross_entropy(
    first: Float[Tensor, "N D"],
    second: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    gold: Int[Tensor, " N"],
    smoothing: float,
    agreement: float,
) -> Agreeing:
    """The sums over rows, by the equation: all 2 x N x V logits at once."""
    log_p, log_q = (first @ weight.mT).log_softmax(1), (second @ weight.mT).log_softmax(1)
    divergence = ((log_p.exp() - log_q.exp()) * (log_p - log_q)).sum() / 2
    learned = sum(cross_entropy(hidden, weight, gold, smoothing) for hidden in (first, second)) / 2
    return Agreeing(learned + agreement / 2 * divergence, divergence.detach())


def chunked_agreeing_cross_entropy(
    first: Float[Tensor, "N D"],
    second: Float[Tensor, "N D"],
    weight: Float[Tensor, "V D"],
    gold: Int[Tensor, " N"],
    smoothing: float,
    agreement: float,
) -> Agreeing:
    """The same sums, some rows at a time, gradients computed on the way."""
    if not torch.is_grad_enabled():  # which a Function does not see from inside
        first, second, weight = first.detach(), second.detach(), weight.detach()
    return Agreeing(*_ChunkedAgreeing.apply(first, second, weight, gold, smoothing, agreement))


class _ChunkedAgreeing(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        first: Tensor,
        second: Tensor,
        weight: Tensor,
        gold: Tensor,
        smoothing: float,
        agreement: float,
    ) -> tuple[Tensor, Tensor]:
        passes, vocab, wants_grad = (first, second), weight.shape[0], any(ctx.needs_input_grad)
        if wants_grad:
            grads = [torch.empty_like(each) for each in passes]
            grad_weight = torch.zeros_like(weight)
        buffers = [first.new_empty(min(ROWS, len(first)), vocab) for _ in range(4)]
        learned, divergence = first.new_zeros(()), first.new_zeros(())
        for start in range(0, len(first), ROWS):
            part = slice(start, start + ROWS)
            y = gold[part, None]
            p, q, apart, spare = (buffer[: len(y)] for buffer in buffers)
            for log_p, hidden in zip((p, q), passes, strict=True):
                torch.log_softmax(multiply(hidden[part], weight.mT, out=log_p), dim=1, out=log_p)
                learned -= (1 - smoothing) * log_p.gather(1, y).sum()
                learned -= smoothing / vocab * log_p.sum()
            torch.sub(p, q, out=apart)
            p.exp_()
            q.exp_()
            of_p, of_q = (torch.linalg.vecdot(each, apart)[:, None] for each in (p, q))
            divergence += (of_p - of_q).sum() / 2
            if wants_grad:
                slopes = _slopes(p, q, apart, spare, of_p, of_q, agreement / 4)
                for slope, grad, hidden in zip(slopes, grads, passes, strict=True):
                    multiply(slope, weight, out=grad[part])
                    add_product(grad_weight, slope.mT, hidden[part])
        if wants_grad:
            for grad, hidden in zip(grads, passes, strict=True):
                grad.sub_(weight.sum(0), alpha=smoothing / vocab / 2)
                grad.sub_(weight[gold], alpha=(1 - smoothing) / 2)
                grad_weight -= smoothing / vocab / 2 * hidden.sum(0)
                grad_weight.index_add_(0, gold, hidden, alpha=-(1 - smoothing) / 2)
            ctx.save_for_backward(*grads, grad_weight)
        ctx.mark_non_differentiable(divergence)
        return learned / 2 + agreement / 2 * divergence, divergence

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return *(saved * grads[0] for saved in ctx.saved_tensors), None, None, None


def _slopes(
    p: Tensor, q: Tensor, apart: Tensor, spare: Tensor, of_p: Tensor, of_q: Tensor, share: float
) -> tuple[Tensor, Tensor]:
    """The gradients of both passes' logits but for gold and smoothing, in `spare` and `apart`.

    p/2 + a/4 (p (d - sum p d) + p - q), and the same for q, with -d
    """
    own = 0.5 + share
    apart *= share
    torch.sub(apart, share * of_p - own, out=spare).mul_(p).sub_(q, alpha=share)
    apart.neg_().add_(share * of_q + own).mul_(q).sub_(p, alpha=share)
    return spare, apart
