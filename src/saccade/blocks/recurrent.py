"""A stack of recurrent cells over time: deep, in one or both directions, rows of any length."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.blocks.cells import CELLS, Cell, CellState, GatedCell
from saccade.blocks.dropout import Dropout
from saccade.blocks.norms import NORMS
from saccade.config import find
from saccade.errors import InputError

Read = Callable[[Cell, Tensor, CellState], tuple[Tensor, CellState]]  # some steps of some rows


@dataclass(frozen=True, slots=True)
class Packed:
    """Sequences without their padding: longest first, time step after time step."""

    data: Float[Tensor, "P D"]
    sizes: list[int]  # rows that reach each time step, never rising

    def stretches(self) -> Iterator[Float[Tensor, "T N D"]]:
        """Time steps that the same rows reach, as one piece."""
        first = 0
        for rows, steps in groupby(self.sizes):
            size = len(list(steps))
            yield self.data[first : first + size * rows].unflatten(0, (size, rows))
            first += size * rows

    def turned(self) -> "Packed":
        """Each row back to front within its length; twice is as before."""
        sizes = torch.tensor(self.sizes, device=self.data.device)
        starts = sizes.cumsum(dim=0) - sizes  # of the time steps, in the data
        times = torch.arange(len(sizes), device=sizes.device).repeat_interleave(sizes)
        rows = torch.arange(len(times), device=sizes.device) - starts[times]
        lengths = (sizes > torch.arange(self.sizes[0], device=sizes.device).unsqueeze(1)).sum(dim=1)
        places = starts[lengths[rows] - 1 - times] + rows
        return replace(self, data=self.data.index_select(0, places))


@dataclass(frozen=True, slots=True)
class Packing:
    """How a padded batch is packed, and back: the order of rows, and where each position goes."""

    shape: tuple[int, int]  # B, T
    sizes: list[int]
    order: Int[Tensor, " B"] | None  # longest row first; None when all rows are full
    places: Int[Tensor, " P"] | None  # of what is packed, in B x T

    @classmethod
    def of(cls, shape: tuple[int, int], lengths: Int[Tensor, " B"] | None) -> "Packing":
        rows, size = shape
        real = [size] * rows if lengths is None else lengths.tolist()
        if not all(0 <= length <= size for length in real):
            wrong = next(length for length in real if not 0 <= length <= size)
            raise InputError(f"a row of length {wrong} in a batch of {size} positions")
        if lengths is None or all(length == size for length in real):
            return cls(shape, [rows] * size, None, None)
        order = lengths.argsort(descending=True, stable=True)
        times = torch.arange(max(real), device=lengths.device).unsqueeze(1)
        present = times < lengths[order]  # (T, B)
        places = (order * size + times)[present]
        return cls(shape, present.sum(dim=1).tolist(), order, places)

    def pack(self, x: Float[Tensor, "B T D"]) -> Packed:
        flat = x.transpose(0, 1) if self.places is None else x
        flat = flat.flatten(0, 1)
        return Packed(
            flat if self.places is None else flat.index_select(0, self.places), self.sizes
        )

    def unpack(self, packed: Packed) -> Float[Tensor, "B T D"]:
        """Zeros where a row has ended."""
        rows, size = self.shape
        data = packed.data
        if self.places is None:
            return data.unflatten(0, (size, rows)).transpose(0, 1)
        empty = data.new_zeros(rows * size, data.shape[1])
        return empty.index_copy(0, self.places, data).unflatten(0, (rows, size))

    def sort(self, state: CellState) -> CellState:
        return state if self.order is None else tuple(part[self.order] for part in state)

    def unsort(self, state: CellState) -> CellState:
        return state if self.order is None else tuple(part[self.order.argsort()] for part in state)


class Recurrent(nn.Module):
    """Layers feed sequences to layers; both directions are concatenated at each position.

    Training takes the library's kernel of a layer where it has one; `fused=False`, a norm inside
    the cell and cells of one's own go by the equation, a step at a time.
    """

    def __init__(
        self,
        input_dim: int,
        dim: int,
        *,
        cell: str = "gru",
        layers: int = 1,
        bidirectional: bool = False,
        dropout: float = 0.0,
        norm: str = "none",
        fused: bool = True,
    ):
        super().__init__()
        if min(input_dim, dim, layers) < 1:
            raise InputError(
                f"a recurrent stack of {layers} layers, width {dim} and input width {input_dim}: "
                "each must be at least 1"
            )
        self.input_dim, self.dim, self.layers = input_dim, dim, layers
        self.directions = 2 if bidirectional else 1
        self.output_dim = dim * self.directions
        self.fused = fused
        self.dropout = Dropout(dropout)  # between layers
        make = _maker(cell, norm)
        widths = [input_dim] + [self.output_dim] * (layers - 1)
        # As torch orders its states: the layer first, then the direction.
        self.cells: Any = nn.ModuleList(
            make(width, dim) for width in widths for _ in range(self.directions)
        )

    def zero(self, rows: int) -> list[CellState]:
        """A state for each cell: the layer first, then the direction."""
        return [cell.zero(rows) for cell in self.cells]

    def forward(
        self,
        x: Float[Tensor, "B T I"],
        lengths: Int[Tensor, " B"] | None = None,
        state: list[CellState] | None = None,
    ) -> tuple[Float[Tensor, "B T O"], list[CellState]]:
        """Outputs at every position, zero behind a row's end, and the states at each row's end."""
        rows, size = x.shape[:2]
        packing = Packing.of((rows, size), lengths)
        state = self.zero(rows) if state is None else state
        assert len(state) == len(self.cells), "a state for each layer and direction"
        if not packing.sizes or not rows:
            return x.new_zeros(rows, size, self.output_dim), state
        packed, ends = packing.pack(x), []
        for layer in range(self.layers):
            if layer:
                packed = replace(packed, data=self.dropout(packed.data))
            mine = slice(layer * self.directions, (layer + 1) * self.directions)
            states = [packing.sort(part) for part in state[mine]]
            packed, last = self._layer(packed, list(self.cells[mine]), states)
            ends += [packing.unsort(part) for part in last]
        return packing.unpack(packed), ends

    def step(
        self, x: Float[Tensor, "N I"], state: list[CellState]
    ) -> tuple[Float[Tensor, "N D"], list[CellState]]:
        """One step of the whole stack, which reads in one direction only."""
        assert self.directions == 1, "what reads backwards needs the whole sequence"
        after = []
        for layer, (cell, before) in enumerate(zip(self.cells, state, strict=True)):
            x = self.dropout(x) if layer else x
            after.append(cell.fused(x, before) if self.fused else cell(x, before))
            x = after[-1][0]
        return x, after

    def _layer(
        self, packed: Packed, cells: list[Cell], states: list[CellState]
    ) -> tuple[Packed, list[CellState]]:
        outputs, ends = [], []
        for cell, state, turn in zip(cells, states, (_onward, Packed.turned), strict=False):
            read = _by_kernel if self.fused and cell.kernel else _by_equation
            made, end = _over_time(turn(packed), cell, state, read)
            outputs.append(turn(made).data)
            ends.append(end)
        return replace(packed, data=torch.cat(outputs, dim=-1)), ends


def _maker(cell: str, norm: str) -> Callable[[int, int], Cell]:
    kind: Any = find(CELLS, cell, what="cell")
    inside = find({"none": None, **NORMS}, norm, what="norm inside a cell")
    if not (isinstance(kind, type) and issubclass(kind, Cell)):
        raise InputError(f"{cell} is no cell: derive it from saccade.blocks.cells.Cell")
    if inside is None:
        return kind
    if not issubclass(kind, GatedCell):
        raise InputError(
            f"cell {cell!r} has no place for a norm: derive it from saccade.blocks.cells.GatedCell"
        )
    return lambda input_dim, dim: kind(input_dim, dim, inside)


def _onward(packed: Packed) -> Packed:
    return packed


def _over_time(
    packed: Packed, cell: Cell, state: CellState, read: Read
) -> tuple[Packed, CellState]:
    """Rows leave when they end: what is left of the state belongs to the longer ones."""
    outputs, ended = [], []
    for x in packed.stretches():
        rows = x.shape[1]
        ended.append(tuple(part[rows:] for part in state))
        made, state = read(cell, x, tuple(part[:rows] for part in state))
        outputs.append(made.flatten(0, 1))
    ends = [torch.cat(parts) for parts in zip(state, *reversed(ended), strict=True)]
    return replace(packed, data=torch.cat(outputs)), tuple(ends)


def _by_equation(
    cell: Cell, x: Float[Tensor, "T N I"], state: CellState
) -> tuple[Float[Tensor, "T N D"], CellState]:
    outputs = []
    for step in x:
        state = cell(step, state)
        outputs.append(state[0])
    return torch.stack(outputs), state


def _by_kernel(
    cell: Any, x: Float[Tensor, "T N I"], state: CellState
) -> tuple[Float[Tensor, "T N D"], CellState]:
    """All steps in one call: of one layer and one direction, without dropout."""
    begin = [part.unsqueeze(0) for part in state]
    outputs, *ends = cell.kernel.sequence(
        x, begin if len(begin) > 1 else begin[0], cell.weights,
        has_biases=True, num_layers=1, dropout=0.0, train=torch.is_grad_enabled(),
        bidirectional=False, batch_first=False,
    )  # fmt: skip
    return outputs, tuple(part.squeeze(0) for part in ends)
