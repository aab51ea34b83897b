"""Heads switched off: none changes nothing, all contribute nothing, on every path alike."""

import pytest
import torch
from contracts.decoder_variants import BOS, EOS, Variant, padded

from saccade.blocks.attention import SelfAttention
from saccade.blocks.recording import record_attention
from saccade.decoding.search import SearchOptions, beam_search
from saccade.decoding.walk import Bounds
from saccade.errors import InputError
from saccade.inspection.ablation import every_head, without_heads

SOURCES = [[3, 4, 5, 6], [8, 9]]
TARGET = torch.tensor([[BOS, 3, 4], [BOS, 8, 9]])
CROSS = "decoder.1.cross_attention"


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


@pytest.fixture
def model():
    return Variant("transformer", {"bias": True}).build()


def test_nothing_off_changes_no_bit(model):
    before = model(padded(*SOURCES), TARGET)
    for off in ({}, {name: [] for name, _ in every_head(model)}):
        with without_heads(model, off):
            assert torch.equal(model(padded(*SOURCES), TARGET), before)


def test_all_heads_off_leave_the_bias_and_the_block_ends():
    attention, x = SelfAttention(8, 2), torch.randn(2, 3, 8)
    before = attention(x)
    with without_heads(attention, {"": [0, 1]}):
        assert torch.equal(attention(x), attention.output.bias.expand(2, 3, 8))
    assert torch.equal(attention(x), before)


def test_one_head_off_takes_its_part_of_the_sum():
    attention, x = SelfAttention(8, 2), torch.randn(2, 3, 8)
    parts = []
    for head in (0, 1):
        with without_heads(attention, {"": [head]}):
            parts.append(attention(x) - attention.output.bias)
    torch.testing.assert_close(sum(parts), attention(x) - attention.output.bias)


def test_watched_or_not_the_result_is_the_same_and_the_weights_stay(model):
    with record_attention(model) as whole:
        model(padded(*SOURCES), TARGET)
    with without_heads(model, {CROSS: [1], "encoder.0.attention": [0]}):
        fused = model(padded(*SOURCES), TARGET)
        with record_attention(model) as seen:
            watched = model(padded(*SOURCES), TARGET)
    torch.testing.assert_close(fused, watched, rtol=0, atol=1e-12)
    first = "encoder.0.attention"  # nothing before it was switched off
    assert torch.equal(seen[first][0], whole[first][0])
    assert not torch.equal(fused, model(padded(*SOURCES), TARGET))


def test_a_beam_goes_on_without_the_head(model):
    """The paths of one source side by side take another way through the attention."""
    options = SearchOptions(beam=3, nbest=3)
    with without_heads(model, {CROSS: [0], "decoder.0.attention": [1]}):
        found = beam_search(
            model,
            model.start(padded(*SOURCES)),
            Bounds(first=BOS, eos=EOS, max_lengths=[6, 6]),
            options=options,
        )
        for source, nbest in zip(SOURCES, found, strict=True):
            for each in nbest:
                steps = each.tokens + [EOS] * each.finished
                read = torch.tensor([[BOS, *steps[:-1]]])
                log_probs = model.logits(model(padded(source), read))[0].log_softmax(-1)
                wanted = log_probs.gather(1, torch.tensor(steps)[:, None])[:, 0]
                torch.testing.assert_close(torch.tensor(each.token_log_probs).double(), wanted)


def test_what_is_not_there_cannot_be_switched_off(model):
    with pytest.raises(InputError, match="no head 2: this layer has heads 0 to 1"):
        without_heads(model, {CROSS: [2]}).__enter__()
    with pytest.raises(InputError, match="did you mean"):
        without_heads(model, {"decoder.1.cross_atention": [0]}).__enter__()
    assert model.decoder[1].cross_attention.switches is None


def test_every_head_is_named_in_order(model):
    heads = every_head(model)
    assert len(heads) == len(set(heads)) == 2 * 2 + 2 * 2 * 2
    assert heads[:2] == [("encoder.0.attention", 0), ("encoder.0.attention", 1)]
