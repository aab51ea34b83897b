"""What is GPT's own: its sizes, its start, its context and what happens beyond it."""

import math

import pytest
import torch
from contracts.decoder_variants import VOCAB, stepped

from saccade.blocks.recording import record_attention
from saccade.config import build
from saccade.errors import InputError
from saccade.models.gpt import GPT, GPTConfig

TINY = {"vocab_size": VOCAB, "dim": 8, "layers": 2, "heads": 2, "dropout": 0.0}
TEXT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4]
CLOSE = {"rtol": 0, "atol": 1e-10}


def tiny(context, **settings):
    return GPT(GPTConfig(**TINY, context=context, **settings)).double().eval()


@pytest.mark.parametrize(
    ("preset", "vocabulary", "parameters"),
    [
        ("gpt", 40478, 116_534_784),
        ("gpt2", 50257, 124_439_808),
        ("gpt2-medium", 50257, 354_823_168),
        ("gpt2-large", 50257, 774_030_080),
        ("gpt2-xl", 50257, 1_557_611_200),
    ],
)
def test_the_presets_have_the_papers_sizes(preset, vocabulary, parameters):
    """As Hugging Face counts openai-gpt, gpt2, gpt2-medium, gpt2-large and gpt2-xl."""
    config = build(GPTConfig, {"vocab_size": vocabulary, **GPT.PRESETS[preset]["model"]}, "model")
    with torch.device("meta"):
        model = GPT(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


def test_the_nano_preset_without_biases_is_nanogpts_model():
    """4 layers, 4 heads, width 128, context 64, no bias; characters of tiny Shakespeare: 0.80 M."""
    values = {"vocab_size": 65, "context": 64, "bias": False, "dropout": 0.0}
    model = GPT(build(GPTConfig, {**GPT.PRESETS["nano"]["model"], **values}, "model"))
    counted = sum(parameter.numel() for parameter in model.parameters())
    assert counted - model.positions.weight.numel() == 65 * 128 + 4 * (12 * 128**2 + 256) + 128
    assert not [name for name, _ in model.named_parameters() if name.endswith("bias")]


def test_the_start_is_the_papers():
    """N(0, 0.02); GPT-2 starts the ends of its 2 x layers residual branches smaller."""
    sizes = {"vocab_size": 500, "dim": 64, "layers": 8, "heads": 2}
    for scaled in (True, False):
        model = GPT(GPTConfig(**sizes, scaled_init=scaled))
        ends = 0.02 / math.sqrt(16) if scaled else 0.02
        for layer in model.layers:
            assert layer.attention.query_key_value.weight.std().item() == pytest.approx(0.02, 0.1)
            assert layer.ffn.expand.weight.std().item() == pytest.approx(0.02, 0.1)
            assert layer.attention.output.weight.std().item() == pytest.approx(ends, 0.1)
            assert layer.ffn.contract.weight.std().item() == pytest.approx(ends, 0.1)
            assert (layer.ffn.contract.bias == 0).all()
        assert model.embedding.weight.std().item() == pytest.approx(0.02, 0.1)
        assert model.positions.weight.std().item() == pytest.approx(0.02, 0.1)


def test_the_output_is_the_embedding():
    model = tiny(8)
    assert model.output_weight is model.embedding.weight
    assert [name for name, _ in model.named_parameters() if "embedding" in name] == [
        "embedding.weight"
    ]


def test_norms_stand_where_each_paper_has_them():
    assert isinstance(tiny(8).norm, torch.nn.LayerNorm)
    assert isinstance(tiny(8, placement="post").norm, torch.nn.Identity)


@torch.no_grad()
def test_it_reads_no_more_than_its_context_at_once():
    model = tiny(6)
    assert model.limit == 6
    model(torch.tensor([TEXT[:6]]))
    with pytest.raises(InputError, match="7 positions, but only 6 were learned"):
        model(torch.tensor([TEXT[:7]]))


def within(model, text):
    """The logits after a text of any length, by reading its newest tokens afresh."""
    return model.logits(model(torch.tensor([text[-model.limit :]]))[0])[0, -1]


@torch.no_grad()
@pytest.mark.parametrize("context", [1, 2, 6])
def test_beyond_its_context_it_reads_the_newest_tokens_again(context):
    model = tiny(context)
    found, state = stepped(model, model.start(1), [TEXT])
    for size in range(1, len(TEXT) + 1):
        torch.testing.assert_close(found[0, size - 1], within(model, TEXT[:size]), **CLOSE)
    assert state.tokens[0].tolist() == TEXT[-context:]


@torch.no_grad()
@pytest.mark.parametrize("size", [4, 5, 6, 7, 19])
def test_a_prefix_may_be_longer_than_the_context(size):
    """And rows beside it shorter: each is what it is alone, before and after it slides."""
    model, prefixes = tiny(6), [TEXT[:size], [], TEXT[:3]]
    found, state = stepped(model, model.start(3, prefixes), [[7, 8, 2, 9, 1]] * 3)
    for row, prefix in enumerate(prefixes):
        for step in range(1, 6):
            expected = within(model, prefix + [7, 8, 2, 9, 1][:step])
            torch.testing.assert_close(found[row, step - 1], expected, **CLOSE)
    later, _ = model.step(torch.tensor([1, 2]), state.select(torch.tensor([1, 0])))
    torch.testing.assert_close(later[0], within(model, [7, 8, 2, 9, 1, 1]), **CLOSE)
    torch.testing.assert_close(later[1], within(model, [*TEXT[:size], 7, 8, 2, 9, 1, 2]), **CLOSE)


@torch.no_grad()
def test_rows_before_and_beyond_the_end_of_the_context_join():
    model = tiny(6)
    _, old = stepped(model, model.start(1), [TEXT[:9]])
    joined = model.start(1, [[4, 4]]).join(old).join(model.start(1))
    found, _ = stepped(model, joined, [[5, 6, 7]] * 3)
    for row, read in enumerate([[4, 4], TEXT[:9], []]):
        torch.testing.assert_close(found[row, -1], within(model, [*read, 5, 6, 7]), **CLOSE)


@torch.no_grad()
def test_recorded_weights_are_those_of_the_formula():
    model, tokens = tiny(12, placement="post"), torch.tensor([TEXT[:5], TEXT[5:10]])
    with record_attention(model) as seen:
        model(tokens)
    assert list(seen) == ["layers.0.attention", "layers.1.attention"]
    x = model.embedding.weight[tokens] + model.positions.weight[:5]
    packed = model.layers[0].attention.query_key_value
    q, k, _ = (x @ packed.weight.T + packed.bias).chunk(3, dim=-1)
    for head, part in enumerate((slice(4), slice(4, 8))):
        scores = q[..., part] @ k[..., part].mT / math.sqrt(4)
        for query in range(5):
            expected = scores[:, query, : query + 1].softmax(-1)
            recorded = seen["layers.0.attention"][0][:, head, query]
            torch.testing.assert_close(recorded[:, : query + 1], expected, **CLOSE)
            assert (recorded[:, query + 1 :] == 0).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"dim": 10, "heads": 4}, r"dim \(10\) must be a multiple of heads \(4\)"),
        ({"context": 0}, "context is 0, it must be from 1"),
        ({"dropout": 1.0}, "dropout is 1.0, it must be from 0 to below 1"),
        ({"ffn_dim": 0}, "ffn_dim is 0"),
    ],
)
def test_a_config_that_cannot_work_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        GPT(build(GPTConfig, {"vocab_size": 9, **settings}, "model"))
