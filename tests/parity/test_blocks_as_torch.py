"""Blocks against their twins in torch.nn, with the same weights, forward and backward."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from saccade.blocks.embeddings import TiedOutput, TokenEmbedding
from saccade.blocks.feedforward import FeedForward
from saccade.blocks.masks import causal_mask, combine, masked_softmax, padding_mask
from saccade.blocks.norms import PLACEMENTS, LayerNorm
from saccade.blocks.scores import General, ScaledDot

B, T, S, D, V = 2, 3, 5, 8, 11


def test_masked_softmax_and_scaled_dot_are_the_fused_kernel():
    query, memory = torch.randn(B, S, D), torch.randn(B, S, D)
    mask = combine(causal_mask(S), padding_mask(torch.tensor([3, 5]), S).unsqueeze(1))
    a, b = (torch.stack([query, memory]).requires_grad_() for _ in range(2))
    ours = masked_softmax(ScaledDot(D, D)(a[0], a[1]), mask) @ a[1]
    theirs = F.scaled_dot_product_attention(b[0], b[1], b[1], attn_mask=mask)
    torch.testing.assert_close(ours, theirs)
    ours.square().sum().backward()
    theirs.square().sum().backward()
    torch.testing.assert_close(a.grad, b.grad)


def test_general_is_a_bilinear_form():
    ours, theirs = General(D, 6), nn.Bilinear(D, 6, 1, bias=False)
    with torch.no_grad():
        theirs.weight.copy_(ours.key_proj.weight.unsqueeze(0))
    query, memory = torch.randn(B, T, D), torch.randn(B, S, 6)
    expected = theirs(
        query.unsqueeze(2).expand(B, T, S, D).contiguous(),
        memory.unsqueeze(1).expand(B, T, S, 6).contiguous(),
    ).squeeze(-1)
    torch.testing.assert_close(ours(query, ours.prepare(memory)), expected)


def test_embedding_and_tied_output_are_embedding_and_linear():
    ours, theirs = TokenEmbedding(V, D, padding=0), nn.Embedding(V, D, padding_idx=0)
    theirs.load_state_dict(ours.state_dict())
    linear = nn.Linear(D, V, bias=False)
    linear.weight = theirs.weight
    tokens = torch.randint(0, V, (B, T))
    a, b = TiedOutput(ours)(ours(tokens)), linear(theirs(tokens) * math.sqrt(D))
    torch.testing.assert_close(a, b)
    a.square().sum().backward()
    b.square().sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)


def test_feed_forward_in_post_and_pre_norm_is_that_of_torchs_layer():
    for name, norm_first in [("post", False), ("pre", True)]:
        theirs = nn.TransformerEncoderLayer(
            D, 2, 16, dropout=0.0, batch_first=True, norm_first=norm_first
        )
        nn.init.zeros_(theirs.self_attn.out_proj.weight)  # only the second sublayer acts
        nn.init.normal_(theirs.norm2.weight)
        net, place = FeedForward(D, 16), PLACEMENTS[name](D, LayerNorm, 0.0)
        net.expand.load_state_dict(theirs.linear1.state_dict())
        net.contract.load_state_dict(theirs.linear2.state_dict())
        place.norm.load_state_dict(theirs.norm2.state_dict())
        x = torch.randn(B, T, D)
        first = x if norm_first else theirs.norm1(x)
        torch.testing.assert_close(place(first, net), theirs(x))
