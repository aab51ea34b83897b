"""The fused kernel is the formula, forward and backward; heads have widths of their own."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.blocks.attention import (
    CrossAttention,
    MultiHeadAttention,
    Parts,
    SelfAttention,
    Widths,
    self_attention,
    split_heads,
)
from saccade.blocks.masks import causal_mask, masked_softmax, padding_mask
from saccade.blocks.recording import record_attention
from saccade.blocks.scores import SCORES, ScaledDot
from saccade.errors import InputError

B, T, S, D, H = 3, 4, 5, 12, 3
WIDE = Widths(query=7, key=5, value=9, head=4, value_head=2, output=6)


def multi_head(mask, **parts):
    attention = MultiHeadAttention(WIDE, H, Parts(**parts)).double()
    inputs = [torch.randn(B, n, w).double() for n, w in [(T, 7), (S, 5), (S, 9)]]
    return attention, attention, inputs, mask and padding_mask(torch.tensor([2, 5, 1]), S)


def to_itself(mask, **parts):
    attention = SelfAttention(D, H, Parts(**parts)).double()
    inputs = [torch.randn(B, S, D).double()]
    return attention, attention, inputs, mask and causal_mask(S).expand(B, S, S)


def to_memory(mask, **parts):
    attention = CrossAttention(D, H, Parts(**parts)).double()

    def run(x, memory, mask):
        return attention(x, *attention.project(memory), mask)

    inputs = [torch.randn(B, T, D).double(), torch.randn(B, S, D).double()]
    return attention, run, inputs, mask and padding_mask(torch.tensor([2, 5, 1]), S)


def with_axes(mask):
    """Give a (B, S) or (B, T, S) mask the axes (B, H, T, S)."""
    if not torch.is_tensor(mask):
        return None
    return mask[:, None, None] if mask.ndim == 2 else mask[:, None]


KINDS = pytest.mark.parametrize("kind", [multi_head, to_itself, to_memory])
MASKED = pytest.mark.parametrize("masked", [False, True])


@KINDS
@MASKED
def test_the_fused_kernel_is_the_formula_forward_and_backward(kind, masked):
    attention, run, inputs, mask = kind(masked)
    assert attention.kernel
    for x in inputs:
        x.requires_grad_()
    everything = [*inputs, *attention.parameters()]
    fused = run(*inputs, with_axes(mask))
    with record_attention(attention) as seen:
        explicit = run(*inputs, with_axes(mask))
    assert len(seen[""]) == 1
    torch.testing.assert_close(fused, explicit, rtol=0, atol=1e-12)
    weigh = torch.randn_like(fused)
    for a, b in zip(
        torch.autograd.grad((fused * weigh).sum(), everything),
        torch.autograd.grad((explicit * weigh).sum(), everything),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@KINDS
@pytest.mark.parametrize("name", SCORES)
def test_any_score_works_inside_a_head(kind, name):
    """Head by head, with the score's own modules: softmax(score(q, k)) v."""
    attention, run, inputs, mask = kind(mask=True, score=SCORES[name])
    assert attention.kernel == (name == "scaled-dot")
    mask = with_axes(mask)
    found = run(*inputs, mask)
    if kind is multi_head:
        q, k, v = (
            split_heads(projection(x), H)
            for projection, x in zip(
                [attention.query, attention.key, attention.value], inputs, strict=True
            )
        )
    elif kind is to_itself:
        q, k, v = (split_heads(x, H) for x in attention.query_key_value(inputs[0]).chunk(3, -1))
    else:
        q = split_heads(attention.query(inputs[0]), H)
        k, v = (split_heads(x, H) for x in attention.key_value(inputs[1]).chunk(2, -1))
    heads = []
    for head in range(H):
        logits = attention.score(q[:, head], attention.score.prepare(k[:, head]))
        heads.append(masked_softmax(logits, mask[:, 0]) @ v[:, head])
    torch.testing.assert_close(found, attention.output(torch.cat(heads, -1)), rtol=0, atol=1e-12)


def test_heads_have_input_projected_and_output_widths_of_their_own():
    attention = MultiHeadAttention(WIDE, H)
    shapes = {name: tuple(p.shape) for name, p in attention.named_parameters()}
    assert shapes == {
        "query.weight": (H * 4, 7), "query.bias": (H * 4,),
        "key.weight": (H * 4, 5), "key.bias": (H * 4,),
        "value.weight": (H * 2, 9), "value.bias": (H * 2,),
        "output.weight": (6, H * 2), "output.bias": (6,),
    }  # fmt: skip
    found = attention(torch.randn(B, T, 7), torch.randn(B, S, 5), torch.randn(B, S, 9))
    assert found.shape == (B, T, 6)


def test_shapes_of_the_lectures():
    """(B, h, T, d_k) @ (B, h, d_k, T) -> (B, h, T, T)."""
    attention = SelfAttention(D, H)
    q, k, v = attention.project(torch.randn(B, T, D))
    assert q.shape == k.shape == v.shape == (B, H, T, D // H)
    assert attention.score(q, k).shape == (B, H, T, T)


def test_a_width_that_the_heads_cannot_share_is_refused():
    with pytest.raises(InputError, match=r"dim \(10\) must be a multiple of heads \(4\)"):
        SelfAttention(10, 4)


def test_self_attention_without_weights_against_a_loop():
    x = torch.randn(4, 3).double()
    for i in range(4):
        scores = [math.exp(x[i] @ x[j]) for j in range(4)]
        expected = sum(score / sum(scores) * x[j] for j, score in enumerate(scores))
        torch.testing.assert_close(self_attention(x)[i], expected)
    batch = torch.randn(2, 5, 4, 3).double()
    torch.testing.assert_close(self_attention(batch)[1, 2], self_attention(batch[1, 2]))


def test_thinking_machines():
    """Scores 112 and 96, d_k = 64: 14 and 12, weights 0.88 and 0.12; eight heads, joined by W^o."""
    attention = SelfAttention(512, 8, Parts(bias=False)).double()
    # The words are e_0 and e_1. In each head q_1 = 112 e_0 + 96 e_1, k_i = e_i, v_1 and v_2 any.
    values = torch.randn(2, 8, 64).double()
    packed = torch.zeros(2, 3, 8, 64).double()
    packed[0, 0, :, 0], packed[0, 0, :, 1] = 112, 96
    packed[0, 1, :, 0] = packed[1, 1, :, 1] = 1
    packed[:, 2] = values
    with torch.no_grad():
        attention.query_key_value.weight.zero_()
        attention.query_key_value.weight[:, :2] = packed.flatten(1).mT
    x = torch.eye(2, 512).double().unsqueeze(0)
    q, k, _ = attention.project(x)
    torch.testing.assert_close((q @ k.mT)[0, :, 0], torch.tensor([[112.0, 96.0]] * 8).double())
    torch.testing.assert_close(
        attention.score(q, k)[0, :, 0], torch.tensor([[14.0, 12.0]] * 8).double()
    )
    with record_attention(attention) as seen:
        found = attention(x)
    first = seen[""][0][0, :, 0]
    assert torch.equal((first * 100).round(), torch.tensor([[88.0, 12.0]] * 8).double())
    weight = 1 / (1 + math.exp(-2))
    joined = (weight * values[0] + (1 - weight) * values[1]).flatten()  # (8 * 64)
    torch.testing.assert_close(found[0, 0], attention.output.weight @ joined)


@MASKED
@pytest.mark.parametrize("watched", [False, True])
def test_a_query_with_nowhere_to_look_gets_zeros_and_finite_gradients(masked, watched):
    attention, run, inputs, _ = multi_head(mask=False, bias=False)
    mask = torch.rand(B, 1, T, S) < 0.5
    mask[1] = False  # a whole sentence of nothing
    mask[0, :, 2] = False
    mask = mask.expand(B, H if masked else 1, T, S)
    for x in inputs:
        x.requires_grad_()
    if watched:
        with record_attention(attention) as seen:
            found = run(*inputs, mask)
        assert (seen[""][0][1] == 0).all()
    else:
        found = run(*inputs, mask)
    assert (found[1] == 0).all()
    assert (found[0, 2] == 0).all()
    assert (found[0, [0, 1, 3]] != 0).any()
    found.square().sum().backward()
    for x in [*inputs, *attention.parameters()]:
        assert x.grad.isfinite().all()
    assert (inputs[0].grad[1] == 0).all()


@pytest.mark.parametrize("name", [name for name in SCORES if name != "location"])
@given(seed=st.integers(0, 2**16))
@settings(max_examples=10, deadline=None)
def test_permuting_positions_permutes_the_result(name, seed):
    g = torch.Generator().manual_seed(seed)
    attention = SelfAttention(D, H, Parts(score=SCORES[name])).double()
    x, order = torch.randn(B, S, D, generator=g).double(), torch.randperm(S, generator=g)
    torch.testing.assert_close(attention(x[:, order]), attention(x)[:, order])


def test_dropout_of_weights_leaves_the_kernel_and_is_off_in_eval():
    attention = SelfAttention(D, H, Parts(dropout=0.5))
    x = torch.randn(B, S, D)
    with record_attention(attention) as seen:
        dropped = attention(x)
        kept = attention.eval()(x)
    torch.testing.assert_close(*seen[""])  # recorded before dropout
    assert not torch.allclose(dropped, kept)
    plain = SelfAttention(D, H)
    plain.load_state_dict(attention.state_dict())
    torch.testing.assert_close(kept, plain(x))


def test_packed_projections_start_as_if_they_were_apart():
    attention = SelfAttention(64, 4)
    bound = math.sqrt(6 / (64 + 64))
    for part in attention.query_key_value.weight.chunk(3):
        assert 0.95 * bound < part.abs().max() <= bound
    assert isinstance(attention.score, ScaledDot)
    assert F.mse_loss(attention.query_key_value.bias, torch.zeros(3 * 64)) == 0
