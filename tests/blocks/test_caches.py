"""Caches: a source is stored once, unused ones go, no mask is made where none is needed."""

import math

import pytest
import torch
from contracts.decoder_variants import BOS, Variant, padded, stepped

from saccade.blocks.caches import KeyValueCache
from saccade.blocks.recurrent_attention import Global, RecurrentAttention, Soft, Unchanged
from saccade.blocks.scores import General
from saccade.blocks.source_memory import SourceMemory

SOURCES = [[3, 4, 5], [6, 7, 8], [9, 10, 11], [3, 3, 3], [4, 5, 6]]


@pytest.fixture
def started():
    with torch.no_grad():
        model = Variant("transformer").build()
        yield model, model.start(padded(*SOURCES))


def test_select_moves_the_index_not_the_memory(started):
    _, state = started
    chosen = state.select(torch.tensor([0, 0, 1, 2, 3, 4, 4]))
    assert chosen.memory.keys.data_ptr() == state.memory.keys.data_ptr()
    assert chosen.memory.index.tolist() == [0, 0, 1, 2, 3, 4, 4]
    assert chosen.memory.width == 2
    cells = chosen.memory.cells
    assert len(cells.unique()) == 7  # no two rows in one
    assert torch.equal(cells // 2, chosen.memory.index)


def test_sources_that_nobody_points_to_are_dropped_once_they_are_many(started):
    _, state = started
    few = state.select(torch.tensor([4, 1, 4]))
    assert few.memory.keys.shape[1] == 2
    assert few.memory.index.tolist() == [1, 0, 1]
    most = state.select(torch.tensor([0, 1, 2, 3]))
    assert most.memory.keys.shape[1] == 5


def test_rows_in_order_need_no_grid(started):
    _, state = started
    assert state.memory.cells is None
    assert state.select(torch.arange(5)).memory.cells is None
    swapped = state.select(torch.tensor([1, 0, 2, 3, 4]))
    assert swapped.memory.cells is not None
    assert swapped.select(torch.tensor([1, 0, 2, 3, 4])).memory.cells is None


def test_masks_are_made_only_where_ages_or_lengths_differ(started):
    model, state = started
    _, older = stepped(model, state, [[BOS, 3]] * 5)
    assert older.past.mask is None
    assert older.memory.mask is None
    assert older.join(older).past.mask is None
    assert older.join(older).memory.mask is None
    mixed = older.join(state)
    assert mixed.past.ages.tolist() == [2] * 5 + [0] * 5
    assert mixed.past.mask[:, 0, 0].tolist() == [[True, True]] * 5 + [[False, False]] * 5
    longer = older.join(model.start(padded([3, 4, 5, 6])))
    assert longer.memory.mask[:, 0, 0].tolist() == [[True, True, True, False]] * 5 + [[True] * 4]


def test_a_step_leaves_the_old_cache_alone(started):
    model, state = started
    _, older = stepped(model, state, [[BOS, 3]] * 5)
    keys, values = older.past.keys.clone(), older.past.values.clone()
    model.step(torch.arange(5), older)
    assert torch.equal(older.past.keys, keys)
    assert torch.equal(older.past.values, values)


def lengthened(state, number):
    """So many steps more, each writing its number."""
    states = [state]
    for step in range(1, number + 1):
        past = states[-1].grow(1)
        past.append(0, *[torch.full((1, 1, 1, 2), float(step))] * 2)
        states.append(past)
    return states


def contents(past):
    return past.keys[0, 0, 0, :, 0].tolist(), past.values[0, 0, 0, :, 1].tolist()


def empty():
    return KeyValueCache.of(torch.zeros(1, 1, 1, 0, 2), torch.zeros(1, 1, 1, 0, 2))


def test_a_cache_that_goes_on_is_seldom_copied():
    """Room grows by a quarter: as many copies as the length has digits, in base 5/4, and fewer."""
    states = lengthened(empty(), 1000)
    rooms = {id(state.room) for state in states[1:]}
    assert len(rooms) <= math.log(1000, 5 / 4)
    for length, state in enumerate(states):
        assert contents(state) == ([*range(1, length + 1)],) * 2


def test_an_older_cache_has_a_future_of_its_own():
    states = lengthened(empty(), 20)
    assert states[16].room is states[20].room
    other = states[16].grow(2)
    other.append(0, *[torch.full((1, 1, 2, 2), -1.0)] * 2)
    assert other.room is not states[16].room
    assert contents(other) == ([*range(1, 17), -1, -1],) * 2
    assert contents(states[20]) == ([*range(1, 21)],) * 2
    again = lengthened(states[20], 3)[-1]
    assert contents(again)[0][:20] == [*range(1, 21)]
    assert contents(states[16]) == ([*range(1, 17)],) * 2


def test_the_newest_of_a_cache_go_on_in_the_same_room():
    states = lengthened(empty(), 18)
    newest = states[18].newest(3)
    assert contents(newest) == ([16, 17, 18],) * 2
    assert newest.ages.tolist() == [3]
    assert newest.newest(5) is newest
    grown = newest.grow(1)
    grown.append(0, *[torch.full((1, 1, 1, 2), -1.0)] * 2)
    assert grown.room is states[18].room
    assert contents(grown) == ([16, 17, 18, -1],) * 2
    assert contents(states[18].grow(1).newest(4))[0][:3] == [16, 17, 18]


def test_chosen_rows_take_a_copy_of_their_room_along():
    state = lengthened(empty(), 2)[-1]
    chosen = [state.select(torch.tensor([0, 0])) for _ in range(2)]
    for number, each in enumerate(chosen):
        grown = each.grow(1)
        assert grown.room is each.room  # one copy a step, by the choice
        grown.append(0, *[torch.full((2, 1, 1, 2), -float(number))] * 2)
        assert grown.keys[0, :, 0, :, 0].tolist() == [[1, 2, -number]] * 2
    assert contents(state) == ([1, 2],) * 2
    assert contents(chosen[0].newest(1).select(torch.tensor([1]))) == ([2],) * 2


def test_rows_that_fill_the_grid_of_their_sources_are_not_moved(started):
    memory = started[1].memory
    sources = memory.keys.shape[1]
    twice = torch.arange(sources).repeat_interleave(2)
    full = SourceMemory.of(memory.keys, memory.values, memory.mask).select(twice)
    assert (full.cells, full.width) == (None, 2)
    assert full.select(torch.arange(2 * sources).flip(0)).index.tolist() == twice.flip(0).tolist()
    assert full.select(torch.arange(2 * sources)) is full
    assert full.select(torch.arange(1, 2 * sources)).cells is not None


def test_a_state_may_be_taken_out_of_inference_mode():
    with torch.inference_mode():
        states = lengthened(empty(), 6)
    assert states[6].room.keys.shape[-2] > 6  # there is room, but not for tensors of another mode
    assert contents(lengthened(states[6], 2)[-1])[0] == [1, 2, 3, 4, 5, 6, 1, 2]


def test_a_look_at_a_source_is_the_attention_itself_and_its_gradient_no_copy_full_of_zeros():
    attention = RecurrentAttention(
        4, Unchanged(6, 4), score=General, window=Global(4), weighting=Soft(4)
    )
    memory, query = torch.randn(3, 5, 6, requires_grad=True), torch.randn(3, 1, 4)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2, [True, *[False] * 4]])[:, None]
    steps = torch.zeros(3, 1, dtype=torch.long)
    keys, values = attention.prepare(memory)
    sources = SourceMemory.of(keys[None, :, None], values[None, :, None], mask[:, None])
    seen, _ = sources.look(attention, query, steps)
    expected, _ = attention(query, keys, values, mask, steps)
    assert torch.equal(seen, expected)
    mine, theirs = (
        torch.autograd.grad(x.sum(), memory, retain_graph=True) for x in (seen, expected)
    )
    torch.testing.assert_close(mine, theirs)
    waiting, met = [seen.grad_fn], set()
    while waiting:
        node = waiting.pop()
        met.add(node.name())
        waiting += [earlier for earlier, _ in node.next_functions if earlier is not None]
    assert "BmmBackward0" in met
    assert "SelectBackward0" not in met
