"""Stacks over time: kernel and equation agree, padding changes nothing, odd sizes are defined."""

import pytest
import torch

from saccade.blocks.cells import CELLS
from saccade.blocks.dropout import keyed_dropout
from saccade.blocks.recurrent import Recurrent
from saccade.config import find
from saccade.errors import InputError

B, T, IN, D = 5, 7, 3, 4
LENGTHS = torch.tensor([3, 7, 1, 0, 7])
each_cell = pytest.mark.parametrize("cell", CELLS)
both_ways = pytest.mark.parametrize("bidirectional", [False, True])

OWN = """
import torch
from saccade.blocks.cells import Cell

class Leaky(Cell):
    def __init__(self, input_dim, dim):
        super().__init__(input_dim, dim)
        self.proj = torch.nn.Linear(input_dim, dim)

    def forward(self, x, state):
        return (0.5 * state[0] + 0.5 * self.proj(x),)

class Stranger(torch.nn.Linear):
    pass
"""


def random_state(stack, rows):
    return [tuple(torch.randn_like(part) for part in state) for state in stack.zero(rows)]


def outcome(stack, x, lengths, state):
    """Outputs, states, and the gradients of inputs, initial states and weights."""
    stack.zero_grad()
    x = x.clone().requires_grad_()
    state = [tuple(p.clone().requires_grad_() for p in parts) for parts in state]
    outputs, ends = stack(x, lengths, state)
    flat = [part for parts in ends for part in parts]
    generator = torch.Generator().manual_seed(5)
    sums = [
        (part * torch.randn(part.shape, generator=generator, dtype=part.dtype)).sum()
        for part in (outputs, *flat)
    ]
    sum(sums).backward()
    leaves = [x, *(part for parts in state for part in parts), *stack.parameters()]
    return [outputs, *flat, *(leaf.grad for leaf in leaves)]


@each_cell
@both_ways
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "ragged"])
def test_the_kernel_is_the_equation_forward_and_backward(cell, bidirectional, lengths):
    shape = {"cell": cell, "layers": 2, "bidirectional": bidirectional}
    fast = Recurrent(IN, D, **shape).double()
    slow = Recurrent(IN, D, **shape, fused=False).double()
    slow.load_state_dict(fast.state_dict())
    x, state = torch.randn(B, T, IN).double(), random_state(fast, B)
    torch.testing.assert_close(
        outcome(fast, x, lengths, state), outcome(slow, x, lengths, state), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("cell", ["rnn", "lstm", "gru"])
def test_the_kernel_in_single_precision_with_and_without_gradients(cell):
    """Another kernel than that for doubles, and yet another without gradients."""
    fast = Recurrent(IN, 16, cell=cell, bidirectional=True)
    slow = Recurrent(IN, 16, cell=cell, bidirectional=True, fused=False)
    slow.load_state_dict(fast.state_dict())
    x, state = torch.randn(B, T, IN), random_state(fast, B)
    expected = outcome(slow, x, LENGTHS, state)
    torch.testing.assert_close(outcome(fast, x, LENGTHS, state), expected, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        outputs, ends = fast(x, LENGTHS, state)
    made = [outputs, *(part for parts in ends for part in parts)]
    torch.testing.assert_close(made, expected[: len(made)], rtol=1e-4, atol=1e-5)


@each_cell
@both_ways
@pytest.mark.parametrize("fused", [True, False])
def test_a_row_in_a_batch_is_the_row_alone_and_padding_is_never_read(cell, bidirectional, fused):
    stack = Recurrent(IN, D, cell=cell, layers=2, bidirectional=bidirectional, fused=fused).double()
    x, state = torch.randn(B, T, IN).double(), random_state(stack, B)
    for row, length in enumerate(LENGTHS.tolist()):
        x[row, length:] = torch.nan
    outputs, ends = stack(x, LENGTHS, state)
    for row, length in enumerate(LENGTHS.tolist()):
        mine = [tuple(part[row : row + 1] for part in parts) for parts in state]
        alone, end = stack(x[row : row + 1, :length], None, mine)
        torch.testing.assert_close(outputs[row : row + 1, :length], alone)
        assert not outputs[row, length:].any()
        torch.testing.assert_close(
            [tuple(part[row : row + 1] for part in parts) for parts in ends], end
        )


@both_ways
def test_padding_gets_no_gradient(bidirectional):
    stack = Recurrent(IN, D, bidirectional=bidirectional)
    x = torch.randn(B, T, IN, requires_grad=True)
    outputs, _ = stack(x, LENGTHS)
    outputs.sum().backward()
    read = x.grad.abs().sum(-1) > 0
    assert read.tolist() == [[t < length for t in range(T)] for length in LENGTHS.tolist()]


def test_what_each_direction_has_seen():
    stack = Recurrent(IN, D, bidirectional=True)
    x = torch.randn(1, T, IN)
    changed = x.clone()
    changed[0, 3] += 1
    differs = (stack(x)[0] - stack(changed)[0])[0].abs()
    forwards, backwards = (half.sum(-1) > 0 for half in differs.chunk(2, dim=-1))
    assert forwards.tolist() == [t >= 3 for t in range(T)]
    assert backwards.tolist() == [t <= 3 for t in range(T)]


@each_cell
@pytest.mark.parametrize("norm", ["none", "layer", "batch"])
@pytest.mark.parametrize("fused", [True, False])
def test_steps_are_the_sequence(cell, norm, fused):
    stack = Recurrent(IN, D, cell=cell, layers=2, norm=norm, fused=fused)
    stack(torch.randn(B, T, IN))  # batch norm meets its time steps
    stack.eval()
    x = torch.randn(B, T, IN)
    outputs, ends = stack(x)
    state, steps = stack.zero(B), []
    for t in range(T):
        h, state = stack.step(x[:, t], state)
        steps.append(h)
    torch.testing.assert_close(torch.stack(steps, dim=1), outputs)
    torch.testing.assert_close(state, ends)


@each_cell
def test_a_sequence_in_two_pieces_is_the_sequence(cell):
    stack, x = Recurrent(IN, D, cell=cell, layers=2), torch.randn(B, T, IN)
    first, state = stack(x[:, :3])
    second, ends = stack(x[:, 3:], None, state)
    whole, last = stack(x)
    torch.testing.assert_close(torch.cat([first, second], dim=1), whole)
    torch.testing.assert_close(ends, last)


@each_cell
@pytest.mark.parametrize(("norm", "bidirectional"), [("layer", False), ("batch", True)])
def test_norms_inside_with_rows_of_different_lengths(cell, norm, bidirectional):
    stack = Recurrent(IN, D, cell=cell, layers=2, norm=norm, bidirectional=bidirectional)
    for _ in range(2):
        outputs, _ = stack(torch.randn(B, T, IN), LENGTHS)
        outputs.square().sum().backward()
    assert all(weight.grad.isfinite().all() for weight in stack.parameters())
    stack.eval()
    x = torch.randn(B, T, IN)
    outputs, ends = stack(x, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):  # in evaluation batch norm has no batch either
        alone, end = stack(x[row : row + 1, :length])
        torch.testing.assert_close(outputs[row : row + 1, :length], alone)
        torch.testing.assert_close([parts[0][row] for parts in ends], [p[0][0] for p in end])


def test_batch_norm_reads_each_row_backwards_from_its_own_end():
    stack = Recurrent(IN, D, norm="batch", bidirectional=True)
    stack(torch.randn(B, T, IN), LENGTHS)
    for cell in stack.cells:  # four rows have a first step, three a second, two a seventh
        assert cell.norm_ih.batches[: T + 1].tolist() == [1] * T + [0]


def test_dropout_falls_between_layers_by_key_on_kernel_and_equation_alike():
    shape = {"cell": "lstm", "layers": 3, "dropout": 0.5}
    fast, slow = Recurrent(IN, 16, **shape), Recurrent(IN, 16, **shape, fused=False)
    slow.load_state_dict(fast.state_dict())
    x, seen = torch.randn(B, T, IN), {}
    for key in (1, 2):
        for stack in (fast, slow):
            with keyed_dropout(key):
                seen[key, stack.fused] = stack(x, LENGTHS)[0]
        torch.testing.assert_close(seen[key, True], seen[key, False])
    assert not torch.allclose(seen[1, True], seen[2, True])
    fast.eval()
    assert torch.equal(fast(x)[0], fast(x)[0])
    one = Recurrent(IN, D, dropout=0.9)  # a single layer has no between
    assert torch.equal(one(x)[0], one(x)[0])


@both_ways
@each_cell
def test_nothing_and_one_step_are_defined(cell, bidirectional):
    stack = Recurrent(IN, D, cell=cell, layers=2, bidirectional=bidirectional)
    state = random_state(stack, 2)
    for lengths in (None, torch.tensor([0, 0])):
        outputs, ends = stack(torch.randn(2, 0, IN), lengths, state)
        assert outputs.shape == (2, 0, stack.output_dim)
        torch.testing.assert_close(ends, state)
    outputs, ends = stack(torch.randn(2, 3, IN), torch.tensor([0, 0]), state)
    assert not outputs.any()
    torch.testing.assert_close(ends, state)
    assert stack(torch.randn(0, 3, IN))[0].shape == (0, 3, stack.output_dim)
    outputs, ends = stack(torch.randn(2, 1, IN))
    assert outputs.shape == (2, 1, stack.output_dim)
    last = torch.cat([parts[0] for parts in ends[-stack.directions :]], dim=-1)
    torch.testing.assert_close(outputs[:, 0], last)


def test_lengths_that_do_not_fit_are_refused():
    stack = Recurrent(IN, D)
    for wrong in (8, -1):
        with pytest.raises(InputError, match=f"length {wrong} in a batch of 7 positions"):
            stack(torch.randn(2, T, IN), torch.tensor([1, wrong]))


def test_what_cannot_be_built_is_refused_with_the_nearest_that_can():
    with pytest.raises(InputError, match="unknown cell 'lstn'; did you mean 'lstm'"):
        Recurrent(IN, D, cell="lstn")
    with pytest.raises(InputError, match=r"unknown norm inside a cell 'layers'.*'layer'"):
        Recurrent(IN, D, norm="layers")
    for sizes in [(0, 4, 1), (3, 0, 1), (3, -4, 1), (3, 4, 0)]:
        with pytest.raises(InputError, match="at least 1"):
            Recurrent(sizes[0], sizes[1], layers=sizes[2])


def test_a_cell_of_ones_own(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    find({}, f"{path}:Leaky", what="cell", allow_code=True)
    stack = Recurrent(IN, D, cell=f"{path}:Leaky", layers=2, bidirectional=True)
    outputs, ends = stack(torch.randn(B, T, IN), LENGTHS)
    assert outputs.shape == (B, T, 2 * D)
    assert len(ends) == 4
    with pytest.raises(InputError, match="has no place for a norm"):
        Recurrent(IN, D, cell=f"{path}:Leaky", norm="layer")
    with pytest.raises(InputError, match="is no cell"):
        Recurrent(IN, D, cell=f"{path}:Stranger")
