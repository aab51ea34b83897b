"""The whole model against a tiny random MarianMTModel of Hugging Face, weights copied over."""

import pytest
import torch
import transformers

from saccade.blocks.sequences import Padded
from saccade.decoding.search import SearchOptions, beam_search, greedy_search
from saccade.decoding.walk import Bounds
from saccade.models.transformer import Transformer, TransformerConfig

DIM, HEADS, FFN, LAYERS, VOCAB = 16, 4, 24, 2, 29
EOS, PAD = 0, VOCAB - 1  # Marian starts its target with the padding token
SOURCES = [[5, 6, 7, 8, 9, EOS], [10, 11, EOS], [12, 13, 14, 15, EOS]]


def marian(activation):
    config = transformers.MarianConfig(
        vocab_size=VOCAB, decoder_vocab_size=VOCAB, d_model=DIM, encoder_layers=LAYERS,
        decoder_layers=LAYERS, encoder_attention_heads=HEADS, decoder_attention_heads=HEADS,
        encoder_ffn_dim=FFN, decoder_ffn_dim=FFN, max_position_embeddings=64, dropout=0.0,
        activation_function=activation, scale_embedding=True, pad_token_id=PAD, eos_token_id=EOS,
        decoder_start_token_id=PAD, bos_token_id=None, forced_eos_token_id=None,
        attn_implementation="eager", init_std=0.3,
    )  # fmt: skip
    model = transformers.MarianMTModel(config).eval()
    assert (model.final_logits_bias == 0).all()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model


def copy(ours, *theirs):
    """One linear map or norm, from several on top of each other."""
    with torch.no_grad():
        ours.weight.copy_(torch.cat([part.weight for part in theirs]))
        ours.bias.copy_(torch.cat([part.bias for part in theirs]))


def twin(theirs, activation):
    config = TransformerConfig(
        source_vocab_size=VOCAB, target_vocab_size=VOCAB, dim=DIM, layers=LAYERS, heads=HEADS,
        ffn_dim=FFN, placement="post", position="sinusoidal-halves", bias=True,
        activation=activation,
    )  # fmt: skip
    ours = Transformer(config, joint=True).eval()
    with torch.no_grad():
        ours.target_embedding.weight.copy_(theirs.get_input_embeddings().weight)
    pairs = [(ours.encoder, theirs.model.encoder), (ours.decoder, theirs.model.decoder)]
    for mine, other in ((a, b) for x, y in pairs for a, b in zip(x, y.layers, strict=True)):
        own = other.self_attn
        copy(mine.attention.query_key_value, own.q_proj, own.k_proj, own.v_proj)
        copy(mine.attention.output, own.out_proj)
        copy(mine.around_attention.norm, other.self_attn_layer_norm)
        copy(mine.ffn.expand, other.fc1)
        copy(mine.ffn.contract, other.fc2)
        copy(mine.around_ffn.norm, other.final_layer_norm)
        if hasattr(mine, "cross_attention"):
            cross = other.encoder_attn
            copy(mine.cross_attention.query, cross.q_proj)
            copy(mine.cross_attention.key_value, cross.k_proj, cross.v_proj)
            copy(mine.cross_attention.output, cross.out_proj)
            copy(mine.around_cross_attention.norm, other.encoder_attn_layer_norm)
    return ours


@pytest.fixture(params=["relu", "silu"])
def twins(request):
    with torch.no_grad():
        theirs = marian(request.param)
        yield twin(theirs, request.param), theirs


def batch():
    size = max(map(len, SOURCES))
    tokens = torch.tensor([row + [PAD] * (size - len(row)) for row in SOURCES])
    return Padded(tokens, torch.tensor([len(row) for row in SOURCES]))


def marian_inputs(source):
    return {"input_ids": source.tokens, "attention_mask": (source.tokens != PAD).long()}


def test_logits(twins):
    ours, theirs = twins
    source, target = batch(), torch.tensor([[PAD, 3, 4, 5], [PAD, 6, 7, 8], [PAD, 9, 9, 9]])
    found = ours.logits(ours(source, target))
    expected = theirs(**marian_inputs(source), decoder_input_ids=target).logits
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-5)


def test_greedy_finds_the_same_tokens(twins):
    ours, theirs = twins
    source, limit = batch(), 12
    found = greedy_search(
        ours,
        ours.start(source),
        Bounds(first=PAD, eos=EOS, max_lengths=[limit] * 3),
        options=SearchOptions(beam=1),
    )
    ids = theirs.generate(
        **marian_inputs(source), num_beams=1, do_sample=False, max_new_tokens=limit
    )
    for (ours_,), row in zip(found, ids.tolist(), strict=True):
        expected = row[1:]
        expected = expected[: expected.index(EOS)] if EOS in expected else expected
        assert ours_.tokens == expected


def test_beam_results_are_worth_what_hugging_face_says(twins):
    """The searches differ by definition (when a beam ends, how length counts), the scores do not.

    Each of our hypotheses has the log-probability that Marian gives it, and our best is not worse
    than the best that its search finds when length does not count.
    """
    ours, theirs = twins
    source, limit = batch(), 8
    options = SearchOptions(beam=4, nbest=4, length_penalty=0.0)
    found = beam_search(
        ours,
        ours.start(source),
        Bounds(first=PAD, eos=EOS, max_lengths=[limit] * 3),
        options=options,
    )
    best = theirs.generate(
        **marian_inputs(source), num_beams=4, do_sample=False, max_new_tokens=limit,
        length_penalty=0.0, return_dict_in_generate=True, output_scores=True,
    ).sequences_scores  # fmt: skip
    for row, nbest in enumerate(found):
        for each in nbest:
            steps = each.tokens + [EOS] * each.finished
            alone = {"input_ids": torch.tensor([SOURCES[row]])}
            logits = theirs(**alone, decoder_input_ids=torch.tensor([[PAD, *steps[:-1]]])).logits[0]
            expected = logits.log_softmax(-1)[range(len(steps)), steps].sum().item()
            assert each.log_prob == pytest.approx(expected, abs=1e-4)
        assert nbest[0].log_prob >= best[row].item() - 1e-4
