"""Recurrent cells by the equation, one step at a time; `blocks/recurrent.py` runs them over time.

A state is a tuple of tensors with a row for each sequence; the first is the hidden vector h.
Weights are laid out as torch's (gates stacked in rows), so that its kernels can take them.
Widths: I of an input, D of the hidden vector; N rows. A prime marks the step before: h', c'.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from saccade.blocks.norms import BatchNormOverTime
from saccade.errors import InputError

CellState = tuple[Tensor, ...]  # (h,) or (h, c), each (N, D)
Norm = Callable[[int], nn.Module]


@dataclass(frozen=True, slots=True)
class Kernels:
    """What the library has for a cell: one step, and a whole sequence of one layer."""

    step: Callable[..., Any]
    sequence: Callable[..., Any]


class Cell(nn.Module):
    """The contract; a cell of your own has this constructor and `forward`."""

    vectors = 1  # tensors (N, D) in a state
    kernel: Kernels | None = None  # what computes exactly the same, faster

    def __init__(self, input_dim: int, dim: int):
        super().__init__()
        if min(input_dim, dim) < 1:
            raise InputError(
                f"{type(self).__name__} cell: input width {input_dim} and width {dim} "
                "must both be at least 1"
            )
        self.input_dim, self.dim = input_dim, dim

    def begin(self, hidden: Float[Tensor, "N D"]) -> CellState:
        """The state whose hidden vector is given, all else zero."""
        return (hidden, *(torch.zeros_like(hidden) for _ in range(self.vectors - 1)))

    def zero(self, rows: int) -> CellState:
        """The state before anything was read."""
        return self.begin(next(self.parameters()).new_zeros(rows, self.dim))

    def forward(self, x: Float[Tensor, "N I"], state: CellState) -> CellState:
        """One step by the equation."""
        raise NotImplementedError

    def fused(self, x: Float[Tensor, "N I"], state: CellState) -> CellState:
        """The same step by the library's kernel; by the equation where there is none."""
        return self(x, state)


class GatedCell(Cell):
    """A cell of products W_ih x + b_ih and W_hh h' + b_hh, cut into gates; norms inside if asked.

    With a norm each product is normalised whole before its bias: Ba et al. 2016, eq. 20 (layer),
    Cooijmans et al. 2017, eq. 6 (batch: statistics of each time step apart, so a state of such a
    cell also holds how many steps each row has read).
    """

    products: tuple[int, ...]  # gates in each product with W_hh: the next may need the one before
    keeps: int | None = None  # the gate that multiplies what is remembered
    writes: int | None = None  # the gate that multiplies what is added to it, if it is another
    kernels: Kernels | None = None

    def __init__(self, input_dim: int, dim: int, norm: Norm | None = None):
        super().__init__(input_dim, dim)
        rows = sum(self.products) * dim
        self.weight_ih = nn.Parameter(torch.empty(rows, input_dim))
        self.weight_hh = nn.Parameter(torch.empty(rows, dim))
        self.bias_ih = nn.Parameter(torch.empty(rows))
        self.bias_hh = nn.Parameter(torch.empty(rows))
        for weight in self.parameters():
            nn.init.uniform_(weight, -1 / math.sqrt(dim), 1 / math.sqrt(dim))
        self.norm_ih = _norm(norm, rows)
        self.norm_hh = nn.ModuleList(_norm(norm, gates * dim) for gates in self.products)
        # No kernel has a norm inside, and none knows the `forward` of a class derived from ours.
        self.kernel = None if norm else vars(type(self)).get("kernels")
        self.counts_steps = isinstance(self.norm_ih, BatchNormOverTime)

    def begin(self, hidden: Float[Tensor, "N D"]) -> CellState:
        read = (hidden.new_zeros(len(hidden), 1, dtype=torch.long),) if self.counts_steps else ()
        return super().begin(hidden) + read

    def from_input(self, x: Float[Tensor, "N I"], state: CellState) -> Float[Tensor, "N G"]:
        """W_ih x + b_ih, of all gates."""
        return self.normalise(self.norm_ih, F.linear(x, self.weight_ih), state) + self.bias_ih

    def from_hidden(
        self, h: Float[Tensor, "N D"], state: CellState, product: int = 0
    ) -> Float[Tensor, "N G"]:
        """W_hh h + b_hh, of the gates of one product."""
        first = sum(self.products[:product]) * self.dim
        rows = slice(first, first + self.products[product] * self.dim)
        projected = F.linear(h, self.weight_hh[rows])
        return self.normalise(self.norm_hh[product], projected, state) + self.bias_hh[rows]

    def normalise(
        self, norm: nn.Module, x: Float[Tensor, "N G"], state: CellState
    ) -> Float[Tensor, "N G"]:
        if isinstance(norm, BatchNormOverTime):
            return norm.at(x, state[-1].squeeze(-1))
        return norm(x)

    def count(self, state: CellState) -> CellState:
        """What ends the state of a cell that counts its steps."""
        return (state[-1] + 1,) if self.counts_steps else ()

    @property
    def weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """In the order of the library's kernels."""
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh

    def fused(self, x: Float[Tensor, "N I"], state: CellState) -> CellState:
        if self.kernel is None:
            return self(x, state)
        made = self.kernel.step(x, state if self.vectors > 1 else state[0], *self.weights)
        return tuple(made) if self.vectors > 1 else (made,)


def _norm(norm: Norm | None, dim: int) -> nn.Module:
    made = nn.Identity() if norm is None else norm(dim)
    if isinstance(made, BatchNormOverTime):
        nn.init.constant_(made.weight, 0.1)  # Cooijmans et al. 2017, 4: at 1, tanh would saturate
    return made


class RNN(GatedCell):
    """Elman 1990:  h = tanh(W_ih x + b_ih + W_hh h' + b_hh)."""

    products = (1,)
    kernels = Kernels(torch.rnn_tanh_cell, torch.rnn_tanh)

    def forward(self, x: Float[Tensor, "N I"], state: CellState) -> CellState:
        h = torch.tanh(self.from_input(x, state) + self.from_hidden(state[0], state))
        return (h, *self.count(state))


class LSTM(GatedCell):
    """Hochreiter & Schmidhuber 1997, with the forget gate of Gers et al. 2000.

    i, f, o = sigmoid(W x + U h' + b), each its own;  c~ = tanh(W x + U h' + b)
    c = f * c' + i * c~;  h = o * tanh(c)
    """

    vectors = 2
    products = (4,)
    writes, keeps = 0, 1
    kernels = Kernels(torch.lstm_cell, torch.lstm)

    def __init__(self, input_dim: int, dim: int, norm: Norm | None = None):
        super().__init__(input_dim, dim, norm)
        self.norm_c = _norm(norm, dim)

    def forward(self, x: Float[Tensor, "N I"], state: CellState) -> CellState:
        h, c = state[:2]
        gates = self.from_input(x, state) + self.from_hidden(h, state)
        write, forget, candidate, output = gates.chunk(4, dim=-1)
        c = torch.sigmoid(forget) * c + torch.sigmoid(write) * torch.tanh(candidate)
        h = torch.sigmoid(output) * torch.tanh(self.normalise(self.norm_c, c, state))
        return (h, c, *self.count(state))


class GRU(GatedCell):
    """Cho et al. 2014 as the library's kernels have it: the reset gate **after** the product.

    r, z = sigmoid(W x + U h' + b), each its own;  h~ = tanh(W x + b + r * (U h' + b'))
    h = z * h' + (1 - z) * h~
    """

    products = (3,)
    keeps = 1
    kernels = Kernels(torch.gru_cell, torch.gru)

    def forward(self, x: Float[Tensor, "N I"], state: CellState) -> CellState:
        h = state[0]
        reset_x, update_x, candidate_x = self.from_input(x, state).chunk(3, dim=-1)
        reset_h, update_h, candidate_h = self.from_hidden(h, state).chunk(3, dim=-1)
        reset, update = torch.sigmoid(reset_x + reset_h), torch.sigmoid(update_x + update_h)
        candidate = torch.tanh(candidate_x + reset * candidate_h)
        return (update * h + (1 - update) * candidate, *self.count(state))


class GRUResetBefore(GatedCell):
    """Cho et al. 2014 as written there, and in lectures: the reset gate **before** the product.

    r, z = sigmoid(W x + U h' + b), each its own;  h~ = tanh(W x + U (r * h') + b)
    h = z * h' + (1 - z) * h~
    """

    products = (2, 1)
    keeps = 1

    def forward(self, x: Float[Tensor, "N I"], state: CellState) -> CellState:
        h = state[0]
        reset_x, update_x, candidate_x = self.from_input(x, state).chunk(3, dim=-1)
        reset_h, update_h = self.from_hidden(h, state, product=0).chunk(2, dim=-1)
        reset, update = torch.sigmoid(reset_x + reset_h), torch.sigmoid(update_x + update_h)
        candidate = torch.tanh(candidate_x + self.from_hidden(reset * h, state, product=1))
        return (update * h + (1 - update) * candidate, *self.count(state))


CELLS: dict[str, type[Cell]] = {
    "rnn": RNN,
    "lstm": LSTM,
    "gru": GRU,
    "gru-reset-before": GRUResetBefore,
}


@torch.no_grad()
def gaussian_init(module: nn.Module, sigma: float = 0.01) -> None:
    """Every matrix from a Gaussian of this width, every bias zero, as in lectures."""
    for name, weight in module.named_parameters():
        if weight.dim() > 1:
            nn.init.normal_(weight, std=sigma)
        elif "bias" in name:
            nn.init.zeros_(weight)


@torch.no_grad()
def chrono_init(module: nn.Module, steps: int) -> None:
    """Tallec & Ollivier 2018: gates begin so far open that units remember for up to `steps`.

    A gate that always says sigmoid(log u) = u / (u + 1) forgets in about u steps.
    """
    for cell in module.modules():
        if isinstance(cell, GatedCell) and cell.keeps is not None:
            kept = torch.empty_like(cell.bias_ih[: cell.dim]).uniform_(1, max(steps - 1, 1))
            opening = kept.log()
            for gate, bias in ((cell.keeps, opening), (cell.writes, -opening)):
                if gate is not None:
                    rows = slice(gate * cell.dim, (gate + 1) * cell.dim)
                    cell.bias_ih[rows], cell.bias_hh[rows] = bias, 0.0
