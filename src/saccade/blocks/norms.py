"""Norms, and the three places around a sublayer where one can stand."""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.blocks.dropout import Dropout
from saccade.errors import InputError

LayerNorm = nn.LayerNorm  # the kernel; the twin below is the same formula, to read


class LayerNormByEquation(nn.LayerNorm):
    """Ba et al. 2016, per token:  (x - mu) / sqrt(sigma^2 + eps) * gamma + beta."""

    def forward(self, input: Float[Tensor, "*B D"]) -> Float[Tensor, "*B D"]:  # noqa: A002
        mean = input.mean(dim=-1, keepdim=True)
        variance = (input - mean).square().mean(dim=-1, keepdim=True)
        return (input - mean) / torch.sqrt(variance + self.eps) * self.weight + self.bias


class RMSNorm(nn.RMSNorm):
    """Zhang and Sennrich 2019, per token:  x / sqrt(mean(x^2) + eps) * gamma."""

    def __init__(self, dim: int, eps: float = 1e-6):
        super().__init__(dim, eps=eps)


class BatchNormOverTime(nn.Module):
    """Batch norm for sequences: mean and variance over the batch, at each time step apart.

    What layer norm avoids: it depends on the other sequences of the batch (with one alone, all is
    zero), it must be told what is padding, which a `Placement` does not, and it has no statistics
    for a time step that training never reached.
    """

    depends_on_batch = True  # accumulation and several ranks would change the result

    mean: Tensor
    variance: Tensor
    batches: Tensor

    def __init__(self, dim: int, limit: int = 512, momentum: float = 0.1, eps: float = 1e-5):
        super().__init__()
        self.limit, self.momentum, self.eps = limit, momentum, eps
        self.weight = nn.Parameter(torch.ones(dim))
        self.bias = nn.Parameter(torch.zeros(dim))
        self.register_buffer("mean", torch.zeros(limit, dim))
        self.register_buffer("variance", torch.ones(limit, dim))
        self.register_buffer("batches", torch.zeros(limit, dtype=torch.long))

    def forward(
        self, x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"] | None = None, start: int = 0
    ) -> Float[Tensor, "B T D"]:
        """Normalise time steps start, start+1, ...; padding (mask False) does not count."""
        steps = slice(start, start + x.shape[1])
        self._check(steps.stop)
        if self.training:
            mean, variance = self._measure(x, mask, steps)
        else:
            mean, variance = self.mean[steps], self.variance[steps]
        return (x - mean) / torch.sqrt(variance + self.eps) * self.weight + self.bias

    def at(self, x: Float[Tensor, "N D"], times: Int[Tensor, " N"]) -> Float[Tensor, "N D"]:
        """Normalise one vector a row, each at its own time step, as a recurrent cell has them."""
        if not self.training:
            self._check(int(times.max()) + 1 if len(times) else 0)
            mean, variance = self.mean[times], self.variance[times]
            return (x - mean) / torch.sqrt(variance + self.eps) * self.weight + self.bias
        ages = times.unique().tolist()
        if len(ages) == 1:  # as good as always
            return self(x.unsqueeze(1), start=ages[0]).squeeze(1)
        y = x
        for time in ages:
            rows = times == time
            y = y.masked_scatter(rows.unsqueeze(-1), self(x[rows].unsqueeze(1), start=time))
        return y

    def _measure(
        self, x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"] | None, steps: slice
    ) -> tuple[Float[Tensor, "T D"], Float[Tensor, "T D"]]:
        if mask is None and len(x):
            count = x.new_full((x.shape[1], 1), len(x))
            variance, mean = torch.var_mean(x, dim=0, correction=0)
        else:
            present = x.new_ones(x.shape[:2]) if mask is None else mask.to(x.dtype)
            present = present.unsqueeze(-1)  # (B, T, 1)
            count = present.sum(dim=0)  # (T, 1)
            mean = (x * present).sum(dim=0) / count.clamp(min=1)
            variance = ((x - mean).square() * present).sum(dim=0) / count.clamp(min=1)
        with torch.no_grad():
            # A time step that is all padding teaches nothing, nor does one that is no number: the
            # update of such a batch is refused, and may leave nothing behind.
            learns = (count > 0) & (mean + variance).isfinite().all(-1, keepdim=True)
            mean_now, variance_now = (s.masked_fill(~learns, 0.0) for s in (mean, variance))
            rate = self.momentum * learns
            unbiased = variance_now * count / (count - 1).clamp(min=1)
            self.mean[steps] += rate * (mean_now - self.mean[steps])
            self.variance[steps] += rate * (unbiased - self.variance[steps])
            self.batches[steps] += learns.squeeze(-1)
        return mean, variance

    def _check(self, size: int) -> None:
        known = self.limit if self.training else int((self.batches > 0).sum())
        if size > known:
            what = "room for" if self.training else "statistics of"
            raise InputError(
                f"batch norm over time has {what} {known} time steps, the sequence has {size}: "
                "shorten it, train on longer ones, or use layer norm, which has no such limit"
            )


NORMS: dict[str, Callable[[int], nn.Module]] = {
    "layer": LayerNorm,
    "batch": BatchNormOverTime,
    "rms": RMSNorm,
}


class Placement(nn.Module):
    """A residual connection around a sublayer, with its norm and the dropout of its output."""

    def __init__(
        self, dim: int, norm: Callable[[int], nn.Module] = LayerNorm, dropout: float = 0.0
    ):
        super().__init__()
        self.norm = norm(dim)
        self.dropout = Dropout(dropout)

    def forward(
        self, x: Float[Tensor, "*B D"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*B D"]:
        raise NotImplementedError

    @staticmethod
    def final_norm(dim: int, norm: Callable[[int], nn.Module] = LayerNorm) -> nn.Module:
        """What a stack of such layers puts after its last: the residual sum has grown by then."""
        return norm(dim)


class PostNorm(Placement):
    """Vaswani et al. 2017, 3.1:  LN(x + f(x))."""

    def forward(
        self, x: Float[Tensor, "*B D"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*B D"]:
        return self.norm(x + self.dropout(sublayer(x)))

    @staticmethod
    def final_norm(
        dim: int,  # noqa: ARG004
        norm: Callable[[int], nn.Module] = LayerNorm,  # noqa: ARG004
    ) -> nn.Module:
        """Nothing: the last layer already ends in a norm."""
        return nn.Identity()


class PreNorm(Placement):
    """Xiong et al. 2020:  x + f(LN(x)), trains without warm-up."""

    def forward(
        self, x: Float[Tensor, "*B D"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*B D"]:
        return x + self.dropout(sublayer(self.norm(x)))


class OutputNorm(Placement):
    """Normalise what is added, not the sum:  x + LN(f(x))."""

    def forward(
        self, x: Float[Tensor, "*B D"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "*B D"]:
        return x + self.norm(self.dropout(sublayer(x)))


PLACEMENTS: dict[str, type[Placement]] = {"post": PostNorm, "pre": PreNorm, "output": OutputNorm}
