"""Stepping a recurrent stack whose words are known and whose feedback is not.

The first layer reads [word; feedback]. Its product with the words of all steps is one matrix
product; what is left for a step is the product with the feedback, the one with the state, and the
cell's equations. Tests hold this equal to `Recurrent.step`.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from saccade.blocks.cells import GRU, LSTM, RNN, Cell, CellState
from saccade.blocks.products import linear
from saccade.blocks.recurrent import Recurrent

# (number of the step, feedback (B, F), states) -> states after it
Advance = Callable[[int, Tensor, list[CellState]], list[CellState]]


def driven(stack: Recurrent, words: Float[Tensor, "B T E"]) -> Advance:
    """The steps of a stack over these words, each waiting for its feedback."""
    first: Any = stack.cells[0]
    equation = FROM_PRODUCTS.get(type(first))
    if equation is None or first.kernel is None or not stack.fused:
        return _plainly(stack, words)
    width = words.shape[-1]
    by_time = words.transpose(0, 1).contiguous()  # so that a step's rows lie side by side
    drives = linear(by_time, first.weight_ih[:, :width], first.bias_ih).unbind(0)
    weight = first.weight_ih[:, width:].mT
    above: list[Any] = list(stack.cells)[1:]

    def advance(
        step: int, feedback: Float[Tensor, "B F"], states: list[CellState]
    ) -> list[CellState]:
        inputs = torch.addmm(drives[step], feedback, weight)
        recurrent = F.linear(states[0][0], first.weight_hh, first.bias_hh)
        after = [equation(inputs, recurrent, states[0])]
        for cell, state in zip(above, states[1:], strict=True):
            after.append(cell.fused(stack.dropout(after[-1][0]), state))
        return after

    return advance


def _plainly(stack: Recurrent, words: Float[Tensor, "B T E"]) -> Advance:
    """For norms inside the cell and cells of one's own."""

    def advance(
        step: int, feedback: Float[Tensor, "B F"], states: list[CellState]
    ) -> list[CellState]:
        return stack.step(torch.cat([words[:, step], feedback], dim=-1), states)[1]

    return advance


def _rnn(
    inputs: Float[Tensor, "B D"],
    recurrent: Float[Tensor, "B D"],
    state: CellState,  # noqa: ARG001
) -> CellState:
    return (torch.tanh(inputs + recurrent),)


def _lstm(
    inputs: Float[Tensor, "B G"], recurrent: Float[Tensor, "B G"], state: CellState
) -> CellState:
    write, forget, candidate, output = (inputs + recurrent).chunk(4, dim=-1)
    c = forget.sigmoid() * state[1] + write.sigmoid() * candidate.tanh()
    return output.sigmoid() * c.tanh(), c


def _gru(
    inputs: Float[Tensor, "B G"], recurrent: Float[Tensor, "B G"], state: CellState
) -> CellState:
    h = state[0]
    widths = [2 * h.shape[-1], h.shape[-1]]  # split, not sliced: a slice's gradient is padded
    gates_x, candidate_x = inputs.split(widths, dim=-1)
    gates_h, candidate_h = recurrent.split(widths, dim=-1)
    reset, update = (gates_x + gates_h).sigmoid().chunk(2, dim=-1)
    candidate = torch.addcmul(candidate_x, reset, candidate_h).tanh()
    return (torch.lerp(candidate, h, update),)


# Of the very class alone, as the library's kernels are: who derives a cell may change its equation.
FROM_PRODUCTS: dict[type[Cell], Callable[[Tensor, Tensor, CellState], CellState]] = {
    RNN: _rnn,
    LSTM: _lstm,
    GRU: _gru,
}
