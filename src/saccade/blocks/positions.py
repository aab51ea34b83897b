"""Positions as vectors: sinusoidal in two layouts, learned, and two naive ones to compare with."""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor, nn
from torch.nn import functional as F

from saccade.errors import InputError

ROWS = 512  # of a table at first, at most


class Positions(nn.Module):
    """A vector for each position; `limit` is how many there are, None if there is no end."""

    limit: int | None = None

    def first(self, size: int) -> Float[Tensor, "T D"]:
        """The vectors of positions 0 to size-1: a slice, cheaper than looking each one up."""
        raise NotImplementedError

    def forward(self, positions: Int[Tensor, "*P"]) -> Float[Tensor, "*P D"]:
        """The vectors of any positions: rows of a batch may differ in age."""
        raise NotImplementedError


class Formula(Positions):
    """Positions given by a formula, kept in a table that grows when a later one is asked for."""

    table: Tensor

    def __init__(self, dim: int, rows: int = ROWS):
        super().__init__()
        self.dim, self.rows = dim, min(rows, ROWS)  # whatever a config says
        # Empty until used, and never saved: a run does not depend on how far it was computed.
        self.register_buffer("table", torch.empty(0, dim), persistent=False)

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Any:  # Self
        """A table in another precision is computed anew: a cast would keep this one's rounding."""
        self.table = self.table[:0]
        return super()._apply(fn, recurse)

    def encode(self, positions: Float64[Tensor, "*P"]) -> Float64[Tensor, "*P D"]:
        """The formula itself."""
        raise NotImplementedError

    def first(self, size: int) -> Float[Tensor, "T D"]:
        if torch.compiler.is_compiling() and size > len(self.table):
            return self._computed(torch.arange(size, device=self.table.device))
        return self._grown(size)[:size]

    def forward(self, positions: Int[Tensor, "*P"]) -> Float[Tensor, "*P D"]:
        if torch.compiler.is_compiling() or not positions.numel():
            return self._computed(positions)  # how far the table must reach is not known here
        return F.embedding(positions, self._grown(int(positions.max()) + 1))

    def _computed(self, positions: Int[Tensor, "*P"]) -> Float[Tensor, "*P D"]:
        return self.encode(positions.double()).to(self.table)

    def _grown(self, size: int) -> Float[Tensor, "N D"]:
        if size > len(self.table):
            rows = max(size, self.rows, 2 * len(self.table))
            with torch.inference_mode(mode=False):  # training may use what serving computed
                self.table = self._computed(torch.arange(rows, device="cpu"))  # mps has no float64
        return self.table


class Sinusoidal(Formula):
    """Vaswani et al. 2017, 3.5: sin and cos of p / 10000^(2i/d), by turns (odd: ends in a sine)."""

    def encode(self, positions: Float64[Tensor, "*P"]) -> Float64[Tensor, "*P D"]:
        angles = self.angles(positions)
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)[..., : self.dim]

    def angles(self, positions: Float64[Tensor, "*P"]) -> Float64[Tensor, "*P I"]:
        """One column for each i:  p / 10000^(2i/d)."""
        twice_i = torch.arange(0, self.dim, 2, dtype=torch.float64, device=positions.device)
        return positions.unsqueeze(-1) * 10000 ** (-twice_i / self.dim)


class SinusoidalHalves(Sinusoidal):
    """The same numbers in another order: all sines, then all cosines (256 + 256 of 512)."""

    def encode(self, positions: Float64[Tensor, "*P"]) -> Float64[Tensor, "*P D"]:
        angles = self.angles(positions)
        return torch.cat([angles.sin(), angles[..., : self.dim // 2].cos()], dim=-1)


class Index(Formula):
    """The naive number 0, 1, 2, 3 in every column: it grows without end and drowns the word."""

    def encode(self, positions: Float64[Tensor, "*P"]) -> Float64[Tensor, "*P D"]:
        return positions.unsqueeze(-1).repeat(*[1] * positions.ndim, self.dim)


class Circle(Formula):
    """The circular wiggle: sin and cos of p, one frequency in all columns, a step a radian."""

    def encode(self, positions: Float64[Tensor, "*P"]) -> Float64[Tensor, "*P D"]:
        pair = torch.stack([positions.sin(), positions.cos()], dim=-1)
        return pair.repeat(*[1] * positions.ndim, (self.dim + 1) // 2)[..., : self.dim]


class Learned(Positions):
    """A trained vector for each position, up to a limit (BERT, GPT)."""

    def __init__(self, dim: int, limit: int):
        super().__init__()
        self.limit = limit
        self.weight = nn.Parameter(torch.empty(limit, dim))
        nn.init.normal_(self.weight, std=0.02)

    def first(self, size: int) -> Float[Tensor, "T D"]:
        self._check(size)
        return self.weight[:size]

    def forward(self, positions: Int[Tensor, "*P"]) -> Float[Tensor, "*P D"]:
        if not torch.compiler.is_compiling() and positions.numel():
            self._check(int(positions.max()) + 1)
        return F.embedding(positions, self.weight)

    def _check(self, size: int) -> None:
        limit = len(self.weight)
        if size > limit:
            raise InputError(
                f"a sequence of {size} positions, but only {limit} were learned: shorten it, "
                "train with a higher limit, or use sinusoidal positions, which have none"
            )


# Built from (dim, limit); a formula has no limit, it only starts with no more rows.
POSITIONS: dict[str, Callable[[int, int], Positions]] = {
    "sinusoidal": Sinusoidal,
    "sinusoidal-halves": SinusoidalHalves,
    "learned": Learned,
    "index": Index,
    "circle": Circle,
}
