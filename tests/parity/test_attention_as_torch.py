"""Attention against torch.nn.MultiheadAttention with the same weights, forward and backward."""

import pytest
import torch
from torch import nn

from saccade.blocks.attention import (
    CrossAttention,
    MultiHeadAttention,
    Parts,
    SelfAttention,
    Widths,
)
from saccade.blocks.masks import causal_mask, padding_mask
from saccade.blocks.recording import record_attention

B, T, S, D, H = 3, 4, 5, 12, 3
BIAS = pytest.mark.parametrize("bias", [False, True])


def twins(ours, theirs, packed):
    """Copy torch's weights to ours; `packed` pairs our projections with rows of theirs."""
    if theirs.in_proj_bias is not None:
        nn.init.normal_(theirs.in_proj_bias)
        nn.init.normal_(theirs.out_proj.bias)
    with torch.no_grad():
        for linear, rows in packed:
            linear.weight.copy_(theirs.in_proj_weight[rows])
            if linear.bias is not None:
                linear.bias.copy_(theirs.in_proj_bias[rows])
        ours.output.load_state_dict(theirs.out_proj.state_dict())
    return ours, theirs


def assert_same(ours, theirs, *inputs):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)
    weigh = torch.randn_like(ours)
    a = torch.autograd.grad((ours * weigh).sum(), inputs)
    b = torch.autograd.grad((theirs * weigh).sum(), inputs)
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-12)


@BIAS
def test_self_attention(bias):
    theirs = nn.MultiheadAttention(D, H, bias=bias, batch_first=True).double()
    ours = SelfAttention(D, H, Parts(bias=bias)).double()
    ours, theirs = twins(ours, theirs, [(ours.query_key_value, slice(None))])
    x = torch.randn(B, S, D, dtype=torch.float64, requires_grad=True)
    mask = causal_mask(S)
    with record_attention(ours) as seen:
        found = ours(x, mask[None, None])
    expected, weights = theirs(x, x, x, attn_mask=~mask, average_attn_weights=False)
    assert_same(found, expected, x)
    torch.testing.assert_close(seen[""][0], weights)


@BIAS
def test_cross_attention(bias):
    theirs = nn.MultiheadAttention(D, H, bias=bias, batch_first=True).double()
    ours = CrossAttention(D, H, Parts(bias=bias)).double()
    parts = [(ours.query, slice(D)), (ours.key_value, slice(D, None))]
    ours, theirs = twins(ours, theirs, parts)
    x = torch.randn(B, T, D, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(B, S, D, dtype=torch.float64, requires_grad=True)
    mask = padding_mask(torch.tensor([5, 1, 3]), S)
    found = ours(x, *ours.project(memory), mask[:, None, None])
    expected, _ = theirs(x, memory, memory, key_padding_mask=~mask)
    assert_same(found, expected, x, memory)


def test_multi_head_attention_with_three_widths():
    theirs = nn.MultiheadAttention(D, H, kdim=7, vdim=9, batch_first=True).double()
    widths = Widths(query=D, key=7, value=9, head=D // H, value_head=D // H, output=D)
    ours = MultiHeadAttention(widths, H).double()
    nn.init.normal_(theirs.in_proj_bias)
    linears = [ours.query, ours.key, ours.value]
    weights = [theirs.q_proj_weight, theirs.k_proj_weight, theirs.v_proj_weight]
    with torch.no_grad():
        biases = theirs.in_proj_bias.chunk(3)
        for linear, weight, bias in zip(linears, weights, biases, strict=True):
            linear.weight.copy_(weight)
            linear.bias.copy_(bias)
    ours.output.load_state_dict(theirs.out_proj.state_dict())
    q, k, v = (
        torch.randn(B, n, w, dtype=torch.float64, requires_grad=True)
        for n, w in [(T, D), (S, 7), (S, 9)]
    )
    mask = torch.rand(T, S) < 0.7
    mask[:, 0] = True
    found = ours(q, k, v, mask[None, None])
    assert_same(found, theirs(q, k, v, attn_mask=~mask)[0], q, k, v)
