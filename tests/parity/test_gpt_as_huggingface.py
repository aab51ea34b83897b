"""GPT against a tiny random GPT2LMHeadModel of Hugging Face, weights copied over."""

import pytest
import torch
import transformers

from saccade.decoding.search import SearchOptions, greedy_search
from saccade.decoding.walk import Bounds
from saccade.models.gpt import GPT, GPTConfig

DIM, HEADS, LAYERS, VOCAB, CONTEXT = 16, 4, 3, 29, 24
TOKENS = torch.tensor([[5, 6, 7, 8, 9, 3], [10, 11, 12, 4, 4, 4]])


def gpt2(activation):
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_embd=DIM, n_layer=LAYERS, n_head=HEADS, n_positions=CONTEXT,
        activation_function=activation, attn_implementation="eager", resid_pdrop=0.0,
        embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0, initializer_range=0.3,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def twin(theirs, activation):
    config = GPTConfig(
        vocab_size=VOCAB, dim=DIM, layers=LAYERS, heads=HEADS, context=CONTEXT,
        activation=activation, dropout=0.0,
    )  # fmt: skip
    ours = GPT(config).double().eval()
    other = theirs.transformer
    with torch.no_grad():
        ours.embedding.weight.copy_(other.wte.weight)
        ours.positions.weight.copy_(other.wpe.weight)
        ours.norm.load_state_dict(other.ln_f.state_dict())
        for mine, block in zip(ours.layers, other.h, strict=True):
            mine.around_attention.norm.load_state_dict(block.ln_1.state_dict())
            mine.around_ffn.norm.load_state_dict(block.ln_2.state_dict())
            for linear, conv in [
                (mine.attention.query_key_value, block.attn.c_attn),
                (mine.attention.output, block.attn.c_proj),
                (mine.ffn.expand, block.mlp.c_fc),
                (mine.ffn.contract, block.mlp.c_proj),
            ]:
                linear.weight.copy_(conv.weight.T)  # their Conv1D holds the transpose
                linear.bias.copy_(conv.bias)
    return ours


@pytest.fixture(params=[("gelu_new", "gelu-tanh"), ("gelu", "gelu")], ids=lambda names: names[1])
def twins(request):
    theirs = gpt2(request.param[0])
    return twin(theirs, request.param[1]), theirs


def test_logits_and_gradients(twins):
    ours, theirs = twins
    found, expected = ours.logits(ours(TOKENS)[0]), theirs(TOKENS).logits
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)
    weigh = torch.randn_like(found)
    (a,) = torch.autograd.grad((found * weigh).sum(), [ours.embedding.weight])
    (b,) = torch.autograd.grad((expected * weigh).sum(), [theirs.transformer.wte.weight])
    torch.testing.assert_close(a, b, rtol=0, atol=1e-8)


def test_greedy_finds_the_same_tokens(twins):
    ours, theirs = twins
    prompts, size = TOKENS[:, :4], 12
    state = ours.start(2, prompts[:, :-1].tolist())
    expected = theirs.generate(
        prompts, attention_mask=torch.ones_like(prompts), do_sample=False, max_new_tokens=size,
        pad_token_id=0,
    )  # fmt: skip
    for row in range(2):
        found = greedy_search(
            ours,
            state.select(torch.tensor([row])),
            Bounds(first=int(prompts[row, -1]), eos=0, max_lengths=[size]),
            options=SearchOptions(beam=1),
        )
        wanted = expected[row, 4:].tolist()
        wanted = wanted[: wanted.index(0)] if 0 in wanted else wanted
        assert found[0][0].tokens == wanted
