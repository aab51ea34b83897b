"""Dropout masks are a function of a key, and right in the statistics."""

import math

import pytest
import torch

from saccade.blocks.dropout import Dropout, keyed_dropout


def masks(key, p=0.5, shapes=((40, 50), (7,), (3, 4, 5))):
    """What a chain of layers does to ones."""
    layer = Dropout(p)
    with keyed_dropout(key):
        return torch.cat([layer(torch.ones(shape)).flatten() for shape in shapes])


def test_a_key_gives_the_same_masks_whatever_happened_before():
    first = masks(1)
    torch.rand(100)
    masks(2)
    assert torch.equal(masks(1), first)


def test_other_keys_and_later_calls_give_other_masks():
    assert not torch.equal(masks(1), masks(2))
    layer = Dropout(0.5)
    with keyed_dropout(1):
        assert not torch.equal(layer(torch.ones(100)), layer(torch.ones(100)))


@pytest.mark.parametrize("p", [0.001, 0.1, 0.3, 0.5, 0.9, 0.999])
def test_rate_and_scale(p):
    count = 400_000
    found = masks(3, p, [(count,)])
    kept = found != 0
    torch.testing.assert_close(found[kept].unique(), torch.tensor([1 / (1 - p)]))
    spread = math.sqrt(p * (1 - p) / count)
    assert abs(1 - kept.double().mean().item() - p) < 4 * spread + 2**-17


def test_neighbours_are_independent():
    """Four elements come from one 64-bit draw: each pair of places in it must not correlate."""
    kept = (masks(4, 0.5, [(400_000,)]) != 0).double().view(-1, 4) - 0.5
    correlations = 4 * kept.mT @ kept / len(kept) - torch.eye(4)
    assert correlations.abs().max() < 5 / math.sqrt(len(kept))


def test_off_in_eval_and_at_rate_zero():
    x = torch.randn(50)
    with keyed_dropout(1):
        assert Dropout(0.5).eval()(x) is x
        assert Dropout(0.0)(x) is x


def test_without_a_key_it_is_torchs():
    x, layer = torch.randn(1000), Dropout(0.3)
    masks(1)  # a key must not outlive its block
    torch.manual_seed(5)
    found = layer(x)
    torch.manual_seed(5)
    assert torch.equal(found, torch.nn.functional.dropout(x, 0.3))


def test_a_key_ends_with_its_block_also_by_an_exception():
    with pytest.raises(KeyError), keyed_dropout(1):
        raise KeyError
    test_without_a_key_it_is_torchs()


def test_the_gradient_is_the_mask():
    x = torch.randn(30, 40, requires_grad=True)
    with keyed_dropout(9):
        found = Dropout(0.4)(x)
    found.sum().backward()
    torch.testing.assert_close(found, x * x.grad)
    assert len(x.grad.unique()) == 2


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_dtype_stays(dtype):
    with keyed_dropout(1):
        assert Dropout(0.5)(torch.ones(8, dtype=dtype)).dtype == dtype
