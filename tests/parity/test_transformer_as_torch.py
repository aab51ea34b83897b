"""The whole encoder-decoder against torch.nn.Transformer with the same weights, in float64."""

import pytest
import torch
from torch import nn

from saccade.blocks.sequences import Padded
from saccade.models.transformer import Transformer, TransformerConfig

DIM, HEADS, FFN, LAYERS, VOCAB = 12, 3, 20, 2, 11


def copy(ours, theirs):
    with torch.no_grad():
        ours.weight.copy_(theirs.weight)
        if ours.bias is not None and theirs.bias is not None:
            ours.bias.copy_(theirs.bias)
        elif ours.bias is not None:  # torch drops every bias, we keep those of norms and ffn
            ours.bias.zero_()


def copy_attention(ours, theirs):
    copy(ours.output, theirs.out_proj)
    packed = nn.Linear(DIM, 3 * DIM, bias=theirs.in_proj_bias is not None).double()
    packed.weight, packed.bias = theirs.in_proj_weight, theirs.in_proj_bias
    if hasattr(ours, "query_key_value"):
        copy(ours.query_key_value, packed)
        return
    for linear, rows in [(ours.query, slice(DIM)), (ours.key_value, slice(DIM, None))]:
        part = nn.Linear(DIM, 1, bias=False).double()
        part.weight = nn.Parameter(packed.weight[rows])
        part.bias = None if packed.bias is None else nn.Parameter(packed.bias[rows])
        copy(linear, part)


def copy_layer(ours, theirs):
    copy_attention(ours.attention, theirs.self_attn)
    norms = [ours.around_attention.norm, ours.around_ffn.norm]
    if hasattr(ours, "cross_attention"):
        copy_attention(ours.cross_attention, theirs.multihead_attn)
        norms.insert(1, ours.around_cross_attention.norm)
    for number, norm in enumerate(norms, start=1):
        copy(norm, getattr(theirs, f"norm{number}"))
    copy(ours.ffn.expand, theirs.linear1)
    copy(ours.ffn.contract, theirs.linear2)


def twins(placement, *, bias, activation):
    theirs = nn.Transformer(
        DIM, HEADS, LAYERS, LAYERS, FFN, dropout=0.0, activation=activation, batch_first=True,
        norm_first=placement == "pre", bias=bias, dtype=torch.float64,
    )  # fmt: skip
    if placement == "post":  # torch adds a last norm either way; the paper's layers end in one
        theirs.encoder.norm = theirs.decoder.norm = None
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    config = TransformerConfig(
        source_vocab_size=VOCAB, target_vocab_size=VOCAB, dim=DIM, layers=LAYERS, heads=HEADS,
        ffn_dim=FFN, placement=placement, bias=bias, activation=activation, dropout=0.0,
    )  # fmt: skip
    ours = Transformer(config, joint=False).double()
    for stack in ("encoder", "decoder"):
        for mine, other in zip(getattr(ours, stack), getattr(theirs, stack).layers, strict=True):
            copy_layer(mine, other)
    if placement == "pre":
        copy(ours.encoder_norm, theirs.encoder.norm)
        copy(ours.decoder_norm, theirs.decoder.norm)
    return ours, theirs


@pytest.mark.parametrize("placement", ["pre", "post"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_whole_model_forward_and_backward(placement, bias, activation):
    ours, theirs = twins(placement, bias=bias, activation=activation)
    lengths = torch.tensor([5, 2, 4])
    source, target = torch.randint(0, VOCAB, (3, 5)), torch.randint(0, VOCAB, (3, 4))
    found = ours(Padded(source, lengths), target)

    x = ours.source_embedding(source) + ours.positions.first(5)
    y = ours.target_embedding(target) + ours.positions.first(4)
    padding = torch.arange(5) >= lengths.unsqueeze(1)
    later = torch.ones(4, 4, dtype=torch.bool).triu(1)
    expected = theirs(
        x, y, tgt_mask=later, src_key_padding_mask=padding, memory_key_padding_mask=padding
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)

    weigh, inputs = torch.randn_like(found), [
        ours.source_embedding.weight, ours.target_embedding.weight
    ]  # fmt: skip
    ours_grads = torch.autograd.grad((found * weigh).sum(), inputs)
    their_grads = torch.autograd.grad((expected * weigh).sum(), inputs)
    for a, b in zip(ours_grads, their_grads, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)
