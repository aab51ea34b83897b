import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from saccade.blocks.embeddings import TiedOutput, TokenEmbedding
from saccade.blocks.feedforward import FeedForward
from saccade.blocks.products import Linear
from saccade.blocks.swift import swift
from saccade.blocks.weight_layout import (
    FEW,
    LEAST,
    MANY,
    PackedLinear,
    PackedOutput,
    filled_up,
    keep_by_columns,
    pack,
)


def model(vocab_size: int = LEAST // 32) -> nn.Module:
    torch.manual_seed(1)
    whole = nn.Module()
    whole.embedding = TokenEmbedding(vocab_size, 16)
    whole.output = TiedOutput(whole.embedding)
    whole.inner = nn.Sequential(nn.Linear(16, 16), TiedOutput(whole.embedding))
    return whole


def test_packed_is_the_same_map() -> None:
    twin, packed = model(), pack(model())
    assert isinstance(packed.output, PackedOutput)
    assert isinstance(packed.inner[1], PackedOutput)
    for shape in ((1, 16), (FEW, 16), (FEW + 1, 16), (61, 16), (64, 16), (3, 5, 16), (0, 16)):
        x = torch.randn(*shape)
        for mode in (torch.no_grad(), torch.inference_mode()):
            with mode:
                torch.testing.assert_close(packed.output(x), twin.output(x))


def test_gradients_still_flow() -> None:
    twin, packed, x = model(), pack(model()), torch.randn(2, 16)
    for each in (twin, packed):
        each.output(x).square().sum().backward()
    torch.testing.assert_close(packed.embedding.weight.grad, twin.embedding.weight.grad)


def test_what_is_too_small_to_gain_stays() -> None:
    assert isinstance(pack(model(vocab_size=LEAST // (16 * MANY) - 1)).output, TiedOutput)


def test_what_cannot_be_packed_stays() -> None:
    assert isinstance(pack(model().double()).output, TiedOutput)


def test_weights_are_saved_as_before() -> None:
    assert pack(model()).state_dict().keys() == model().state_dict().keys()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [0, 1, FEW, FEW + 1, 8, 9, 20, 64, 65, MANY, MANY + 1])
def test_a_packed_map_is_the_same_map(rows: int, bias: bool, monkeypatch: Any) -> None:
    torch.manual_seed(rows)
    whole = nn.Sequential(Linear(512, 384, bias=bias))
    twin, packed = copy.deepcopy(whole)[0], pack(whole)[0]
    assert type(packed) is PackedLinear
    if FEW < rows <= MANY:  # and it is computed by nothing else
        monkeypatch.setattr("saccade.blocks.weight_layout.linear", None)
    x = torch.randn(rows, 512)
    with torch.no_grad():
        for found in (packed(x), swift(packed)(x), packed(x.unsqueeze(0)).squeeze(0)):
            torch.testing.assert_close(found, twin(x))


def test_the_gradients_of_a_packed_map_are_those_of_its_weights() -> None:
    whole = nn.Sequential(Linear(512, 384))
    twin, packed, x = copy.deepcopy(whole)[0], pack(whole)[0], torch.randn(5, 512)
    for each in (twin, packed):
        each(x).square().sum().backward()
    torch.testing.assert_close(packed.weight.grad, twin.weight.grad)
    torch.testing.assert_close(packed.bias.grad, twin.bias.grad)


def map_and_rows(rows: int = 5) -> tuple[Any, torch.Tensor]:
    packed: Any = pack(nn.Sequential(Linear(512, 384)))[0]
    return packed, torch.randn(rows, 512)


def test_nothing_is_copied_before_it_is_needed() -> None:
    packed, x = map_and_rows()
    with torch.no_grad():
        packed(x[:FEW])
        assert packed.layout.packed is None
        packed(x)
    assert packed.layout.packed is not None
    assert packed.state_dict().keys() == Linear(512, 384).state_dict().keys()


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("make", [lambda: map_and_rows()[0], lambda: pack(model()).output])
@torch.no_grad()
def test_changed_weights_are_seen(make: Any, rows: int) -> None:
    packed = make()
    weight = packed.embedding.weight if isinstance(packed, PackedOutput) else packed.weight
    x = torch.randn(rows, weight.shape[1])
    before = packed(x)
    other = {name: torch.randn_like(each) / 20 for name, each in packed.state_dict().items()}
    packed.load_state_dict(other)
    torch.testing.assert_close(packed(x), F.linear(x, weight, getattr(packed, "bias", None)))
    assert not torch.allclose(packed(x), before)


@torch.no_grad()
def test_a_copy_is_as_good_and_its_own() -> None:
    packed, x = map_and_rows()
    before = packed(x)
    twin = copy.deepcopy(packed)
    packed.weight.zero_()
    assert torch.equal(twin(x), before)


@pytest.mark.parametrize("make", [lambda: map_and_rows()[0], lambda: pack(model()).output])
@pytest.mark.parametrize("rows", [1, 5])
@torch.no_grad()
def test_it_moves_to_another_precision_and_back(make: Any, rows: int) -> None:
    packed = make()
    x = torch.randn(rows, 512 if isinstance(packed, PackedLinear) else 16)
    before = packed(x)
    assert packed.double()(x.double()).dtype == torch.float64
    torch.testing.assert_close(packed.double()(x.double()).float(), before)
    torch.testing.assert_close(packed.float()(x), before)


@torch.no_grad()
def test_other_precisions_of_a_moment_are_torchs() -> None:
    packed, x = map_and_rows()
    packed(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert packed(x.bfloat16()).dtype == torch.bfloat16


def test_rows_are_filled_up_to_few_numbers() -> None:
    found = {rows: filled_up(rows) - rows for rows in range(1, MANY + 1)}
    assert not any(found[rows] for rows in range(1, 9))
    assert all(0 <= found[rows] < 8 for rows in range(9, 65))
    assert all(0 <= found[rows] < 32 for rows in range(65, MANY + 1))
    assert len({rows + more for rows, more in found.items()}) < 32


@pytest.mark.parametrize("bias", [True, False])
def test_kept_by_columns_it_is_the_same_map(bias: bool) -> None:
    turned = nn.Linear(8, 24, bias=bias)
    twin = copy.deepcopy(turned)
    keep_by_columns(turned)
    assert turned.weight.mT.is_contiguous()
    torch.testing.assert_close(turned.weight, twin.weight, rtol=0, atol=0)
    for shape in ((1, 8), (5, 8), (64, 8), (3, 5, 8), (0, 8)):
        x = torch.randn(*shape)
        torch.testing.assert_close(turned(x), twin(x))
    turned(torch.randn(2, 8)).sum().backward()
    assert turned.weight.grad is not None


class Own(nn.Module):
    """Somebody's own: it may look at how its weights lie."""

    def __init__(self) -> None:
        super().__init__()
        self.map = nn.Linear(8, 24)  # torch's
        self.ffn = FeedForward(8, 24)


def test_only_maps_of_our_own_classes_are_turned() -> None:
    packed: Any = pack(Own())
    assert packed.map.weight.is_contiguous()
    assert not packed.ffn.expand.weight.is_contiguous()


def test_what_cannot_be_turned_for_gain_stays() -> None:
    linear = nn.Linear(8, 24).double()
    keep_by_columns(linear)
    assert linear.weight.is_contiguous()
