"""The step by plain functions: the bits of the modules it stands for, and when not to."""

import copy
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from saccade.blocks import weight_layout
from saccade.blocks.attention import CrossAttention, Parts, SelfAttention
from saccade.blocks.caches import KeyValueCache
from saccade.blocks.dropout import Dropout
from saccade.blocks.feedforward import FeedForward
from saccade.blocks.layers import SelfAttentionLayer
from saccade.blocks.norms import NORMS, PLACEMENTS, LayerNormByEquation, Placement
from saccade.blocks.products import Linear
from saccade.blocks.quantized import quantize
from saccade.blocks.recording import record_attention
from saccade.blocks.scores import SCORES, ScaledDot
from saccade.blocks.source_memory import SourceMemory
from saccade.blocks.swift import MAKERS, around, cross_step, read_one, swift
from saccade.blocks.weight_layout import PackedLinear, pack
from saccade.inspection.ablation import without_heads

DIM, HEADS, ROWS = 8, 2, 3


def _past(length: int = 4) -> KeyValueCache:
    keys, values = torch.randn(2, 1, ROWS, HEADS, length, DIM // HEADS)
    return KeyValueCache.of(keys, values)


def _layer(placement: str = "pre", norm: str = "layer", **parts: object) -> SelfAttentionLayer:
    attention = SelfAttention(DIM, HEADS, Parts(**parts))  # type: ignore[arg-type]
    residual = partial(PLACEMENTS[placement], DIM, NORMS[norm], 0.1)
    return SelfAttentionLayer(attention, FeedForward(DIM, 16, dropout=0.1), residual).eval()


def _both(layer: SelfAttentionLayer, past: KeyValueCache) -> tuple[Tensor, Tensor]:
    """What a layer's `extend` makes of a token a row, and what its plain functions do."""
    x = torch.randn(ROWS, 1, DIM)
    with torch.no_grad():
        by_modules = layer.extend(x, 0, past.grow(1), past.grow(1).mask_of(1))
        swiftly = read_one([layer.swift()], x, past.grow(1))
    return by_modules, swiftly


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("bias", [True, False])
def test_a_layer_step_has_the_bits_of_extend(placement: str, norm: str, bias: bool) -> None:
    by_modules, swiftly = _both(_layer(placement, norm, bias=bias), _past())
    assert torch.equal(by_modules, swiftly)


@pytest.mark.usefixtures("wide")
def test_so_it_has_with_wide_products() -> None:
    attention = SelfAttention(32, HEADS)
    layer = SelfAttentionLayer(
        attention, FeedForward(32, 64), partial(PLACEMENTS["pre"], 32, NORMS["layer"], 0.0)
    ).eval()
    past = KeyValueCache.of(*torch.randn(2, 1, 40, HEADS, 4, 32 // HEADS))
    x = torch.randn(40, 1, 32)
    with torch.no_grad():
        by_modules = layer.extend(x, 0, past.grow(1), past.grow(1).mask_of(1))
        swiftly = read_one([layer.swift()], x, past.grow(1))
    assert torch.equal(by_modules, swiftly)


BY_KEYS = [name for name, kind in SCORES.items() if not kind.depends_on_position]


@pytest.mark.parametrize("name", BY_KEYS)
def test_every_score_that_fits_a_head_steps_as_it_extends(name: str) -> None:
    layer = _layer(score=SCORES[name])
    length = 4
    keys = layer.attention.score.prepare(torch.randn(1, ROWS, HEADS, length, DIM // HEADS))
    past = KeyValueCache.of(keys.detach(), torch.randn(1, ROWS, HEADS, length, DIM // HEADS))
    by_modules, swiftly = _both(layer, past)
    assert torch.equal(by_modules, swiftly)


def test_rows_of_different_ages_step_as_they_extend() -> None:
    young, old = _past(length=2).select(torch.tensor([0])), _past(length=5)
    past = young.join(old.select(torch.tensor([1, 2])))
    assert past.mask is not None
    by_modules, swiftly = _both(_layer(), past)
    assert torch.equal(by_modules, swiftly)


@pytest.mark.parametrize("index", [[0, 1], [0, 0, 1, 1], [1, 0, 0]])
def test_rows_look_at_their_sources_as_by_modules(index: list[int]) -> None:
    """One row a source; a full grid of them; a grid with an empty place."""
    attention = CrossAttention(DIM, HEADS).eval()
    keys, values = torch.randn(2, 1, 2, HEADS, 5, DIM // HEADS)
    mask = torch.ones(2, 1, 1, 5, dtype=torch.bool)
    mask[1, ..., 3:] = False
    memory = SourceMemory.of(keys, values, mask).select(torch.tensor(index))
    x = torch.randn(len(index), DIM)
    with torch.no_grad():
        by_modules = memory.attend(0, attention, x.unsqueeze(1)).squeeze(1)
        assert torch.equal(cross_step(attention, 0, memory)(x, memory), by_modules)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("rows", [1, 3])
@torch.no_grad()
def test_one_short_source_is_looked_at_by_small_products(
    bias: bool, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    attention = CrossAttention(32, HEADS, Parts(bias=bias)).double().eval()
    if bias:
        nn.init.normal_(attention.query.bias)
    keys, values = torch.randn(2, 2, 1, HEADS, 5, 32 // HEADS, dtype=torch.float64)
    first = SourceMemory.of(keys, values, None)
    memory, x = first.select(torch.zeros(rows, dtype=torch.long)), torch.randn(rows, 32).double()
    step, numbers = cross_step(attention, 1, first), {"rtol": 0, "atol": 1e-12}
    by_modules = memory.attend(1, attention, x.unsqueeze(1)).squeeze(1)
    with monkeypatch.context() as patch:
        patch.setattr(F, "scaled_dot_product_attention", None)  # nobody asks for it
        torch.testing.assert_close(step(x, memory), by_modules, **numbers)
    with record_attention(attention) as seen:  # who looks sees the formula
        torch.testing.assert_close(step(x, memory), by_modules, **numbers)
    assert seen[""][0].shape == (rows, HEADS, 1, 5)
    with without_heads(attention, {"": [0]}):
        switched_off = memory.attend(1, attention, x.unsqueeze(1)).squeeze(1)
        torch.testing.assert_close(step(x, memory), switched_off, **numbers)
    joined = memory.join(SourceMemory.of(keys + 1, values + 1, None))  # and it is one no more
    both = torch.cat([x, x[:1]])
    by_modules = joined.attend(1, attention, both.unsqueeze(1)).squeeze(1)
    torch.testing.assert_close(step(both, joined), by_modules, **numbers)


@torch.no_grad()
def test_one_source_that_is_padded_shows_no_padding() -> None:
    attention = CrossAttention(32, HEADS).eval()
    keys, values = torch.randn(2, 1, 1, HEADS, 5, 32 // HEADS)
    memory = SourceMemory.of(keys, values, (torch.arange(5) < 3)[None, None, None])
    x = torch.randn(1, 32)
    by_modules = memory.attend(0, attention, x.unsqueeze(1)).squeeze(1)
    assert torch.equal(cross_step(attention, 0, memory)(x, memory), by_modules)


@pytest.mark.parametrize("size", [8, 9])
@torch.no_grad()
def test_a_long_source_is_looked_at_as_it_is(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    attention = CrossAttention(32, HEADS, Parts(bias=False)).eval()
    memory = SourceMemory.of(*torch.randn(2, 1, 1, HEADS, size, 32 // HEADS), None)
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda query, *_: query * 0)
    short = cross_step(attention, 0, memory)(torch.randn(1, 32), memory).any()
    assert short == (size <= 8)


def test_who_watches_from_the_middle_on_sees_the_weights() -> None:
    layer, past = _layer(), _past()
    step, x = layer.swift(), torch.randn(ROWS, 1, DIM)
    with torch.no_grad():
        unseen = read_one([step], x, past.grow(1))
        with record_attention(layer) as seen:
            watched = read_one([step], x, past.grow(1))
    assert [tuple(weights.shape) for weights in seen["attention"]] == [(ROWS, HEADS, 1, 5)]
    torch.testing.assert_close(unseen, watched)


def test_a_head_switched_off_is_off() -> None:
    layer, past, x = _layer(), _past(), torch.randn(ROWS, 1, DIM)
    step = layer.swift()
    with torch.no_grad(), without_heads(layer, {"attention": [0]}):
        by_modules = layer.extend(x, 0, past.grow(1), None)
        swiftly = read_one([step], x, past.grow(1))
    assert torch.equal(by_modules, swiftly)
    with torch.no_grad():
        assert not torch.equal(read_one([step], x, past.grow(1)), swiftly)


def test_eight_bits_step_as_they_extend() -> None:
    layer = _layer()
    quantize(layer)
    by_modules, swiftly = _both(layer, _past())
    assert torch.equal(by_modules, swiftly)


@pytest.mark.parametrize("kind", [lambda linear: linear, PackedLinear])
@torch.no_grad()
def test_weights_trained_on_are_seen(
    kind: Callable[[Linear], Linear], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_layout, "LEAST", 1)
    linear = kind(Linear(DIM, DIM))
    assert type(linear) in MAKERS
    function, x = swift(linear), torch.randn(ROWS, DIM)
    before = function(x)
    linear.weight.mul_(2)
    assert torch.equal(function(x), linear(x))
    assert not torch.equal(function(x), before)


@pytest.mark.parametrize("rows", [1, ROWS])
def test_packed_layers_step_as_they_extend(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_layout, "LEAST", 1)
    plain, x = _layer(), torch.randn(rows, 1, DIM)
    past = _past().select(torch.arange(rows))
    packed: SelfAttentionLayer = pack(copy.deepcopy(plain))  # type: ignore[assignment]
    assert type(packed.attention.query_key_value) is type(packed.ffn.contract) is PackedLinear
    with torch.no_grad():
        by_modules = packed.extend(x, 0, past.grow(1), None)
        swiftly = read_one([packed.swift()], x, past.grow(1))
        torch.testing.assert_close(plain.extend(x, 0, past.grow(1), None), swiftly)
    assert torch.equal(by_modules, swiftly)
    assert (rows == 1) == (packed.ffn.contract.layout.packed is None)  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["ffn.expand", "ffn", "around_ffn", "attention.output"])
def test_hooks_are_called(name: str) -> None:
    layer, calls = _layer(), []
    layer.get_submodule(name).register_forward_hook(lambda *call: calls.append(call[-1]))
    by_modules, swiftly = _both(layer, _past())
    assert len(calls) == 2
    assert torch.equal(by_modules, swiftly)


class Backward(CrossAttention):
    """An attention to the source of somebody's own."""

    def forward(self, x: Tensor, keys: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        return -super().forward(x, keys, value, mask)


def test_attention_to_the_source_keeps_its_hooks_and_overrides() -> None:
    keys, values = torch.randn(2, 1, ROWS, HEADS, 5, DIM // HEADS)
    memory, x = SourceMemory.of(keys, values, None), torch.randn(ROWS, DIM)
    hooked = CrossAttention(DIM, HEADS).eval()
    hooked.register_forward_hook(lambda *call: call[-1] * 2)
    for attention in (hooked, Backward(DIM, HEADS).eval()):
        with torch.no_grad():
            by_modules = memory.attend(0, attention, x.unsqueeze(1)).squeeze(1)
            assert torch.equal(cross_step(attention, 0, memory)(x, memory), by_modules)


class Turned(SelfAttention):
    """An attention of somebody's own: what it projects is another thing."""

    def project(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        query, keys, values = super().project(x)
        return -query, keys, values


class Unit(ScaledDot):
    """A score of somebody's own, which prepares keys."""

    def prepare(self, memory: Tensor) -> Tensor:
        return nn.functional.normalize(memory, dim=-1)


def test_what_was_changed_in_a_subclass_holds() -> None:
    residual = partial(PLACEMENTS["pre"], DIM)
    turned = SelfAttentionLayer(Turned(DIM, HEADS), FeedForward(DIM, 16), residual).eval()
    for layer in (turned, _layer(score=Unit)):
        by_modules, swiftly = _both(layer, _past())
        assert torch.equal(by_modules, swiftly)


def test_attention_weights_are_dropped_while_training() -> None:
    attention = SelfAttention(DIM, HEADS, Parts(dropout=0.5))
    layer = SelfAttentionLayer(attention, FeedForward(DIM, 16), partial(PLACEMENTS["pre"], DIM))
    past, x, step = _past(length=40), torch.randn(ROWS, 1, DIM), layer.train().swift()
    with torch.no_grad():
        once, again = (read_one([step], x, past.grow(1)) for _ in range(2))
    assert not torch.equal(once, again)


def test_dropout_drops_while_training() -> None:
    x = torch.ones(100, 100)
    assert torch.equal(swift(Dropout(0.5).eval())(x), x)
    assert (swift(Dropout(0.5).train())(x) == 0).any()


class Halved(Placement):
    """A placement of somebody's own."""

    def forward(self, x: Tensor, sublayer: object) -> Tensor:
        assert x.ndim == 3
        return x / 2 + sublayer(x)  # type: ignore[operator, no-any-return]


def test_parts_that_the_tables_do_not_know_are_called_as_they_are() -> None:
    assert LayerNormByEquation not in MAKERS
    norm, x = LayerNormByEquation(DIM), torch.randn(ROWS, DIM)
    assert torch.equal(swift(norm)(x), norm(x))
    assert torch.equal(around(Halved(DIM))(x, lambda h: h * 2), x * 2.5)
