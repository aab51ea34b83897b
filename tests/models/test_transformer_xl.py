"""What is Transformer-XL's own: the memory, its length, and decoding with it."""

import pytest
import torch
from contracts.decoder_variants import VOCAB, stepped

from saccade.blocks.recording import record_attention
from saccade.config import build
from saccade.errors import InputError
from saccade.models import transformer_xl
from saccade.models.transformer_xl import TransformerXL, TransformerXLConfig

TINY = {"vocab_size": VOCAB, "dim": 8, "layers": 3, "heads": 2, "ffn_dim": 12}
TEXTS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8], [9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4]])
CLOSE = {"rtol": 0, "atol": 1e-10}


@pytest.fixture(params=["post", "pre"])
def model(request):
    torch.manual_seed(1)
    made = TransformerXL(TransformerXLConfig(**TINY, placement=request.param, memory=4))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
        yield made.double().eval()


def in_segments(model, tokens, size):
    """The hidden vectors of a text read in segments, memory carried; and the last memory."""
    found, carry = [], None
    for segment in tokens.split(size, dim=1):
        hidden, carry = model(segment, carry)
        found.append(hidden)
    return torch.cat(found, dim=1), carry


@pytest.mark.parametrize("size", [1, 3, 5, 12])
def test_with_memory_for_all_of_it_segments_are_one_long_text(model, size):
    model.memory = 12
    whole, _ = model(TEXTS)
    found, _ = in_segments(model, TEXTS, size)
    torch.testing.assert_close(found, whole, **CLOSE)


def test_what_it_reads_reaches_further_back_with_every_layer(model):
    """By `memory` a layer (paper, figure 2): with 4 and 3 layers, 12 tokens in steps of one."""
    before, _ = in_segments(model, TEXTS, 1)
    for place in (0, 5):
        changed = TEXTS.clone()
        changed[:, place] = 7
        after, _ = in_segments(model, changed, 1)
        differs = (after != before).any(-1).any(0)
        assert differs.tolist() == [place <= t <= place + 3 * 4 for t in range(12)]
    model.memory = 1
    before, after = in_segments(model, TEXTS, 1)[0], in_segments(model, changed, 1)[0]
    assert (after != before).any(-1).any(0).tolist() == [5 <= t <= 8 for t in range(12)]


def test_the_carry_is_what_each_layer_read_last_and_has_no_gradient(model):
    with torch.enable_grad():
        _, carry = model(TEXTS[:, :3])
        assert {name: each.shape[1] for name, each in carry.items()} == {
            "memory0": 3,
            "memory1": 3,
            "memory2": 3,
        }
        _, carry = model(TEXTS[:, 3:9], carry)
    for each in carry.values():
        assert each.shape == (2, 4, 8)
        assert not each.requires_grad


def test_memory_can_be_longer_in_evaluation_than_in_training(model):
    _, carry = model(TEXTS[:, :4])
    model.memory = 7
    for place in (4, 8):
        with record_attention(model) as seen:
            _, carry = model(TEXTS[:, place : place + 4], carry)
        (weights,) = seen["layers.1.attention"]
        remembered = min(place, 7)
        assert weights.shape == (2, 2, 4, remembered + 4)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 4).double())
        visible = torch.ones(4, remembered + 4, dtype=torch.bool).tril(remembered)
        assert (weights[..., ~visible] == 0).all()
        assert (weights[..., visible] > 0).all()
    model.memory = 2
    assert model(TEXTS[:, :4], carry)[1]["memory0"].shape[1] == 2


@pytest.mark.parametrize("memory", [0, 1, 3, 4, 30])
def test_decoding_is_reading_segments_of_one_token(model, memory):
    model.memory = memory
    hidden, _ = in_segments(model, TEXTS, 1)
    found, state = stepped(model, model.start(2), TEXTS)
    torch.testing.assert_close(found, model.logits(hidden), **CLOSE)
    assert state.past.length == min(memory + 1, 12)


@pytest.mark.parametrize(("memory", "segment"), [(0, 2), (3, 5), (3, 256), (30, 2)])
def test_a_prefix_longer_than_memory_and_segment_is_one_read_token_by_token(
    model, memory, segment, monkeypatch
):
    monkeypatch.setattr(transformer_xl, "SEGMENT", segment)
    model.memory = memory
    prefixes = [TEXTS[0, :9].tolist(), [], TEXTS[1, :4].tolist(), TEXTS[1, :1].tolist()]
    following = [[7, 8, 2, 9, 1, 12]] * 4
    found, _ = stepped(model, model.start(4, prefixes), following)
    for row, prefix in enumerate(prefixes):
        text = torch.tensor([prefix + following[row]])
        expected, _ = stepped(model, model.start(1), text)
        torch.testing.assert_close(found[row], expected[0, len(prefix) :], **CLOSE)


def test_old_and_young_rows_with_a_full_memory_join_and_part(model):
    _, old = stepped(model, model.start(1), TEXTS[:1])
    joined = model.start(1).join(old).join(model.start(1, [[4, 4]]))
    _, joined = stepped(model, joined, [[5, 6, 7, 8, 9]] * 3)
    found, _ = model.step(torch.tensor([3, 3]), joined.select(torch.tensor([2, 1])))
    for row, read in enumerate([[4, 4], TEXTS[0].tolist()]):
        expected, _ = stepped(model, model.start(1), [[*read, 5, 6, 7, 8, 9, 3]])
        torch.testing.assert_close(found[row], expected[0, -1], **CLOSE)


def test_what_is_kept_for_decoding_does_not_grow_beyond_the_memory(model):
    state = model.start(1)
    for _ in range(40):
        _, state = model.step(torch.tensor([3]), state)
        assert state.past.length <= 5
        assert state.past.room.keys.shape[-2] <= 12


@pytest.mark.parametrize(
    ("preset", "vocabulary", "millions"), [("enwik8", 204, 41), ("wikitext103", 267_735, 151)]
)
def test_the_presets_have_the_papers_sizes(preset, vocabulary, millions):
    """Tables 1 and 2 of the paper."""
    values = {"vocab_size": vocabulary, **TransformerXL.PRESETS[preset]["model"]}
    with torch.device("meta"):
        made = TransformerXL(build(TransformerXLConfig, values, "model"))
    assert round(sum(p.numel() for p in made.parameters()) / 1e6) == millions


def test_a_memory_that_cannot_be_is_refused():
    with pytest.raises(InputError, match="memory is -1, it must be from 0"):
        TransformerXLConfig(**TINY, memory=-1)
