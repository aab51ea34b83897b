"""A decoder's step by plain functions: what its modules compute, without what calling them costs.

A token is so little work that looking parts up, hooks and dropout that drops nothing take as long
as the numbers do. `swift(module)` is a module's forward for rows (N, D), its parameters bound; the
readable twins are the modules' own forwards and the layers' `extend`, whose bits it must give
(attention to one short source: whose numbers, to rounding).
Gradients are not for here: the functions write into caches that belong to nobody's graph.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from saccade.blocks.attention import CrossAttention, SelfAttention, split_heads
from saccade.blocks.caches import KeyValueCache, LayerCache
from saccade.blocks.dropout import Dropout
from saccade.blocks.feedforward import FeedForward
from saccade.blocks.norms import OutputNorm, Placement, PostNorm, PreNorm
from saccade.blocks.products import Linear, linear
from saccade.blocks.quantized import QuantizedLinear
from saccade.blocks.source_memory import SourceMemory
from saccade.blocks.weight_layout import PackedLinear

# Said once: what stands in the signature of an inner function is worked out whenever that is made.
Rows: TypeAlias = Float[Tensor, "N D"]
OwnMask: TypeAlias = Bool[Tensor, "N 1 1 L"] | None

Function = Callable[[Tensor], Tensor]
Around = Callable[[Tensor, Function], Tensor]  # x, sublayer
SelfStep = Callable[[Tensor, LayerCache, Tensor | None], Tensor]  # x, cache, mask
CrossStep = Callable[[Tensor, SourceMemory], Tensor]  # x, sources


def swift(module: nn.Module) -> Function:
    """The function of rows that a module is; one that is not in the table is called as it is."""
    make = MAKERS.get(type(module))
    if make is None or _hooked(module):
        return lambda x: module(x.unsqueeze(1)).squeeze(1)
    return make(module)


def _hooked(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


def _linear(module: Any) -> Function:
    weight, bias = module.weight, module.bias
    return lambda x: linear(x, weight, bias)


def _packed(module: Any) -> Function:
    product, weight, bias = module.layout.rows, module.weight, module.bias
    return lambda x: product(x, weight, bias)


def _quantized(module: Any) -> Function:
    packed, product = module.packed, torch.ops.quantized.linear_dynamic.default
    return lambda x: product(x, packed)


def _layer_norm(norm: Any) -> Function:
    shape, weight, bias, eps = norm.normalized_shape, norm.weight, norm.bias, norm.eps
    return lambda x: torch.layer_norm(x, shape, weight, bias, eps)


def _dropout(dropout: Any) -> Function:
    return dropout if dropout.training and dropout.p else lambda x: x


def _feed_forward(ffn: Any) -> Function:
    expand, activation, contract = swift(ffn.expand), ffn.activation, swift(ffn.contract)
    drop = swift(ffn.dropout)
    return lambda x: contract(drop(activation(expand(x))))


MAKERS: dict[type[nn.Module], Callable[[Any], Function]] = {
    Linear: _linear,
    PackedLinear: _packed,
    QuantizedLinear: _quantized,
    nn.LayerNorm: _layer_norm,
    Dropout: _dropout,
    FeedForward: _feed_forward,
}


def around(placement: Placement) -> Around:
    """The residual connection with its norm and dropout, as a function of rows and a sublayer."""
    make = RESIDUALS.get(type(placement))
    if make is None or _hooked(placement):
        return lambda x, f: placement(x.unsqueeze(1), lambda h: f(h.squeeze(1)).unsqueeze(1))[:, 0]
    return make(swift(placement.norm), swift(placement.dropout))


RESIDUALS: dict[type[Placement], Callable[[Function, Function], Around]] = {
    PostNorm: lambda norm, drop: lambda x, f: norm(x + drop(f(x))),
    PreNorm: lambda norm, drop: lambda x, f: x + drop(f(norm(x))),
    OutputNorm: lambda norm, drop: lambda x, f: x + norm(drop(f(x))),
}


def self_step(attention: SelfAttention) -> SelfStep:
    """`KeyValueCache.attend` for one token a row."""
    known = type(attention) is SelfAttention and not _hooked(attention)
    project, output = swift(attention.query_key_value), swift(attention.output)
    heads, width = attention.heads, attention.width

    def attend(x: Rows, cache: LayerCache, mask: OwnMask) -> Rows:
        if not (known and attention.plain):
            query, *new = attention.project(x.unsqueeze(1))
            return attention.attend(query, *cache.write(*new), mask).squeeze(1)
        query, *new = project(x).view(-1, 3, heads, 1, width).unbind(1)  # (N, H, 1, K)
        averages = F.scaled_dot_product_attention(query, *cache.write(*new), mask)
        return output(averages.flatten(1))

    return attend


def cross_step(attention: CrossAttention, number: int, begun: SourceMemory) -> CrossStep:
    """`SourceMemory.attend` for one token a row, in layer `number`; `begun` is what all began with.

    As long as that is one short source, it is looked at by two small products.
    """
    known = type(attention) is CrossAttention and not _hooked(attention)
    project, output = swift(attention.query), swift(attention.output)
    heads, width = attention.heads, attention.width
    briefly = _absorbed(attention, number, begun) if known else None
    first = begun.keys if briefly else None

    def attend(x: Rows, memory: SourceMemory) -> Rows:
        if not (known and attention.plain):
            return memory.attend(number, attention, x.unsqueeze(1)).squeeze(1)
        if briefly is not None and memory.keys is first:
            return briefly(x)
        keys, values = memory.keys[number], memory.values[number]
        if memory.alone:
            query = project(x).view(-1, heads, 1, width)
            averages = F.scaled_dot_product_attention(query, keys, values, memory.mask)
            return output(averages.flatten(1))
        query = split_heads(memory.side_by_side(project(x)), heads)  # (B, H, W, K)
        averages = F.scaled_dot_product_attention(query, keys, values, memory.mask)
        return output(memory.apart(averages.transpose(1, 2).flatten(2)))

    return attend


def _absorbed(attention: CrossAttention, number: int, sources: SourceMemory) -> Function | None:
    """Attention to one short source:  softmax(x (W_q K^T) / sqrt(k)) (V W_o), by head.

    The products in brackets are made once; then a row costs H S numbers each way, not D.
    """
    keys, values = sources.keys[number], sources.values[number]
    (count, heads, size, width), maps = keys.shape, (attention.query, attention.output)
    simple = all(type(each) in (Linear, PackedLinear) and not _hooked(each) for each in maps)
    short = count == 1 and sources.mask is None and 2 * size <= width  # S H <= D / 2
    if torch.is_grad_enabled() or not (simple and short and attention.kernel):
        return None
    into, out = (w.unflatten(0, (heads, width)) for w in (maps[0].weight, maps[1].weight.mT))
    scaled = keys[0] * width**-0.5  # (H, S, K)
    asked, found = ((x @ w).flatten(0, 1) for x, w in ((scaled, into), (values[0], out)))  # (HS, D)
    of_bias, bias = maps[0].bias, maps[1].bias
    if of_bias is not None:
        of_bias = (scaled @ of_bias.view(heads, width, 1)).flatten()

    def look(x: Rows) -> Rows:
        weights = F.linear(x, asked, of_bias).view(-1, heads, size).softmax(-1).flatten(1)
        return torch.mm(weights, found) if bias is None else torch.addmm(bias, weights, found)

    return look


def read_one(
    steps: Sequence[SelfStep], x: Float[Tensor, "N 1 D"], past: KeyValueCache
) -> Float[Tensor, "N 1 D"]:
    """What `extend`, layer by layer, makes of one more token a row."""
    x = x.squeeze(1)
    for step, cache in zip(steps, past.layers(), strict=True):
        x = step(x, cache, past.mask)
    return x.unsqueeze(1)
