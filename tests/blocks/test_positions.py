"""Position vectors against their formula."""

import math
import os
import subprocess
import sys

import pytest
import torch

from saccade.blocks.positions import POSITIONS, Circle, Index, Learned, Sinusoidal, SinusoidalHalves
from saccade.errors import InputError


def by_hand(position, column, dim):
    angle = position / 10000 ** (2 * (column // 2) / dim)
    return math.cos(angle) if column % 2 else math.sin(angle)


def formula(positions, dim):
    return torch.tensor([[by_hand(p, c, dim) for c in range(dim)] for p in positions])


def test_the_picture_of_20_words_by_512():
    table = Sinusoidal(512).first(20)
    assert table.shape == (20, 512)
    torch.testing.assert_close(table, formula(range(20), 512))
    assert (table[0, 0::2] == 0).all()
    assert (table[0, 1::2] == 1).all()


def test_halves_are_256_sines_then_256_cosines():
    table, turns = SinusoidalHalves(512).first(20), Sinusoidal(512).first(20)
    assert torch.equal(table[:, :256], turns[:, 0::2])
    assert torch.equal(table[:, 256:], turns[:, 1::2])


@pytest.mark.parametrize("dim", [1, 3, 7])
def test_odd_widths_have_one_sine_more(dim):
    turns, halves = Sinusoidal(dim).first(9), SinusoidalHalves(dim).first(9)
    torch.testing.assert_close(turns, formula(range(9), dim))
    assert torch.equal(halves, torch.cat([turns[:, 0::2], turns[:, 1::2]], dim=1))


@pytest.mark.parametrize("name", POSITIONS)
@pytest.mark.parametrize("dim", [7, 10])
def test_the_same_word_at_two_places_differs(name, dim):
    word, places = torch.randn(dim), POSITIONS[name](dim, 30)
    vectors = word + places(torch.arange(30))
    distances = torch.cdist(vectors, vectors) + torch.eye(30)
    assert (distances > 1e-3).all()


@pytest.mark.parametrize("name", POSITIONS)
def test_looking_up_equals_slicing_for_any_shape(name):
    part = POSITIONS[name](6, 40)
    ages = torch.tensor([[3, 0, 39], [7, 7, 1]])
    torch.testing.assert_close(part(ages), part.first(40)[ages])
    assert part(ages).shape == (2, 3, 6)
    assert part(ages[:, 0]).shape == (2, 6)
    assert part(torch.tensor(5)).shape == (6,)
    assert part(torch.empty(2, 0, dtype=torch.long)).shape == (2, 0, 6)
    assert part.first(0).shape == (0, 6)


@pytest.mark.parametrize("name", [name for name in POSITIONS if name != "learned"])
def test_a_formula_goes_on_beyond_its_first_table(name):
    small, large = POSITIONS[name](10, 4), POSITIONS[name](10, 3000)
    assert small.limit is None
    before = small.first(4).clone()
    assert torch.equal(small.first(1500), large.first(1500))
    assert torch.equal(small(torch.tensor([2999])), large.first(3000)[-1:])
    assert torch.equal(small.first(4), before)
    assert not small.state_dict()


def test_far_positions_are_still_exact():
    far = torch.tensor([100_000])
    torch.testing.assert_close(Sinusoidal(64)(far), formula([100_000], 64), atol=1e-6, rtol=0)


@pytest.mark.parametrize("offset", [1, 5, 17])
def test_a_shift_is_a_rotation_whatever_the_place(offset):
    dim = 16
    table = Sinusoidal(dim).first(100).double()
    frequency = 10000 ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    sin, cos = (offset * frequency).sin(), (offset * frequency).cos()
    rotations = [torch.tensor([[c, s], [-s, c]]) for s, c in zip(sin, cos, strict=True)]
    shift = torch.block_diag(*rotations).double()  # on columns (sin, cos)
    torch.testing.assert_close(table[:-offset] @ shift.T, table[offset:], atol=1e-6, rtol=0)


def test_index_is_the_number_and_circle_has_one_frequency():
    assert Index(3).first(4).tolist() == [[0] * 3, [1] * 3, [2] * 3, [3] * 3]
    circle = Circle(5).first(8)
    torch.testing.assert_close(circle[:, :2].norm(dim=1), torch.ones(8))
    assert torch.equal(circle[:, 0], circle[:, 2])
    assert torch.equal(circle[:, 0], circle[:, 4])
    assert torch.equal(circle[:, 1], circle[:, 3])
    torch.testing.assert_close(circle[:, 0], torch.arange(8.0).sin())


def test_learned_positions_end_and_say_so():
    part = Learned(4, 8)
    assert part.limit == 8
    part(torch.tensor([7]))
    with pytest.raises(InputError, match="9 positions, but only 8 were learned"):
        part.first(9)
    with pytest.raises(InputError, match="9 positions, but only 8 were learned"):
        part(torch.tensor([[0, 8]]))
    part.first(3).sum().backward()
    assert part.weight.grad[:3].all()
    assert not part.weight.grad[3:].any()


def test_the_table_follows_the_module_to_another_type():
    part = Sinusoidal(8)
    part.first(3)
    part.to(torch.bfloat16)
    assert part.first(3).dtype == part.first(2000).dtype == torch.bfloat16
    part.double()
    assert torch.equal(part.first(3), Sinusoidal(8).double().first(3)), "rounding is not kept"


def test_a_table_computed_while_serving_can_be_trained_with():
    part = Sinusoidal(4)
    with torch.inference_mode():
        part.first(3)
    scale = torch.ones(4, requires_grad=True)
    (scale * part.first(3)).sum().backward()
    assert scale.grad.isfinite().all()


def test_compiles_without_graph_breaks():
    # In a fresh interpreter: the shape-checking import hook and torch.compile do not mix.
    code = """
import torch
from saccade.blocks.positions import POSITIONS
for name in ("sinusoidal", "learned"):
    torch._dynamo.reset()
    part, plain = POSITIONS[name](6, 16), POSITIONS[name](6, 16)
    plain.load_state_dict(part.state_dict())
    def both(positions, size, part=part):
        return part(positions), part.first(size)
    compiled = torch.compile(both, backend="eager", fullgraph=True)
    ages = torch.tensor([[0, 3], [9, 5]])
    for _ in range(2):
        looked_up, sliced = compiled(ages, 16)
        torch.testing.assert_close(looked_up, plain(ages))
        torch.testing.assert_close(sliced, plain.first(16))
        part.first(16)
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


@pytest.mark.parametrize("name", sorted(POSITIONS.keys() - {"learned"}))
def test_a_formula_begins_small_whatever_the_limit(name):
    table = POSITIONS[name](4, 1 << 40)
    assert table.first(3).shape == (3, 4)
    assert len(table.table) <= 512
    assert table.first(700).shape == (700, 4)
