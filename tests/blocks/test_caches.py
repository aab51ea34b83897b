"""Caches: a source is stored once, unused ones go, no mask is made where none is needed."""

import pytest
import torch
from contracts.decoder_variants import BOS, Variant, padded, stepped

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
    places = chosen.memory.places
    assert len(places.unique()) == 7  # no two rows in one place of the grid
    assert torch.equal(places // 2, chosen.memory.index)


def test_sources_that_nobody_points_to_are_dropped_once_they_are_many(started):
    _, state = started
    few = state.select(torch.tensor([4, 1, 4]))
    assert few.memory.keys.shape[1] == 2
    assert few.memory.index.tolist() == [1, 0, 1]
    most = state.select(torch.tensor([0, 1, 2, 3]))
    assert most.memory.keys.shape[1] == 5


def test_rows_in_order_need_no_grid(started):
    _, state = started
    assert state.memory.places is None
    assert state.select(torch.arange(5)).memory.places is None
    swapped = state.select(torch.tensor([1, 0, 2, 3, 4]))
    assert swapped.memory.places is not None
    assert swapped.select(torch.tensor([1, 0, 2, 3, 4])).memory.places is None


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
