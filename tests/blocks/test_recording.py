"""Recording: nothing when off, the formula's weights when on, the right ones along a path."""

import pytest
import torch
import torch.nn.functional as F
from contracts.decoder_variants import BOS, EOS, Variant, padded, stepped

from saccade.blocks.attention import Parts, SelfAttention
from saccade.blocks.recording import record_attention
from saccade.decoding.search import SearchOptions, beam_search
from saccade.decoding.walk import Bounds
from saccade.errors import InputError

SOURCES = [[3, 4, 5, 6], [8, 9], [10, 11, 12, 3, 4]]
TARGET = torch.tensor([[BOS, 3, 4], [BOS, 8, 9], [BOS, 5, 5]])
OWN, CROSS = "decoder.1.attention", "decoder.0.cross_attention"


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


@pytest.fixture
def kernel_calls(monkeypatch):
    """Count the calls of the fused kernel."""
    calls, kernel = [], F.scaled_dot_product_attention

    def counted(*args):
        calls.append(1)
        return kernel(*args)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    return calls


def test_the_kernel_runs_when_nobody_looks_and_the_formula_when_somebody_does(kernel_calls):
    model = Variant("transformer").build()
    attentions = 2 + 2 * 2  # two encoder layers, two decoder layers
    off = model(padded(*SOURCES), TARGET)
    assert len(kernel_calls) == attentions
    with record_attention(model):
        on = model(padded(*SOURCES), TARGET)
    assert len(kernel_calls) == attentions
    torch.testing.assert_close(on, off, rtol=0, atol=1e-12)
    model(padded(*SOURCES), TARGET)
    assert len(kernel_calls) == 2 * attentions


def test_one_layer_watched_leaves_the_others_their_kernel(kernel_calls):
    model = Variant("transformer").build()
    with record_attention(model, layers=[CROSS]) as seen:
        model(padded(*SOURCES), TARGET)
    assert len(kernel_calls) == 5
    assert list(seen) == [CROSS]


def test_watching_ends_with_the_block_also_by_an_exception(kernel_calls):
    model = Variant("transformer").build()
    with pytest.raises(KeyError), record_attention(model):
        raise KeyError
    model(padded(*SOURCES), TARGET)
    assert len(kernel_calls) == 6


def test_an_inner_block_leaves_the_outer_one_watching():
    model = Variant("transformer").build()
    with record_attention(model, layers=[CROSS]) as outer:
        with record_attention(model, layers=[CROSS]) as inner:
            model(padded(*SOURCES), TARGET)
        model(padded(*SOURCES), TARGET)
    assert (len(inner[CROSS]), len(outer[CROSS])) == (1, 1)


def test_dropped_weights_take_the_formula_in_training_and_the_kernel_in_eval(kernel_calls):
    attention = SelfAttention(8, 2, Parts(dropout=0.5))
    attention.train()(torch.randn(1, 3, 8))
    assert len(kernel_calls) == 0
    attention.eval()(torch.randn(1, 3, 8))
    assert len(kernel_calls) == 1


def test_weights_by_layer_name_are_distributions_over_what_may_be_seen():
    model = Variant("transformer").build()
    with record_attention(model) as seen:
        model(padded(*SOURCES), TARGET)
    shapes = {name: [tuple(w.shape) for w in seen[name]] for name in seen}
    assert shapes == {
        f"encoder.{n}.attention": [(3, 2, 5, 5)] for n in range(2)
    } | {f"decoder.{n}.attention": [(3, 2, 3, 3)] for n in range(2)} | {
        f"decoder.{n}.cross_attention": [(3, 2, 3, 5)] for n in range(2)
    }  # fmt: skip
    assert model.alignment_layers == ["decoder.0.cross_attention", "decoder.1.cross_attention"]
    for name in seen:
        (weights,) = seen[name]
        torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:-1]).double())
    for row, source in enumerate(SOURCES):
        for name in [*model.alignment_layers, "encoder.0.attention"]:
            assert (seen[name][0][row, ..., len(source) :] == 0).all()
    assert (seen[OWN][0].triu(1) == 0).all()


def test_recorded_is_the_formula():
    model = Variant("transformer", {"placement": "post"}).build()
    with record_attention(model) as seen:
        model(padded(SOURCES[0]), TARGET[:1])
    layer = model.encoder[0].attention
    x = model.source_embedding(torch.tensor([SOURCES[0]])) + model.positions.first(4)
    q, k, _ = layer.query_key_value(x).chunk(3, -1)
    for head, part in enumerate([slice(0, 4), slice(4, 8)]):
        expected = (q[..., part] @ k[..., part].mT / 2).softmax(-1)  # sqrt(K) = 2
        torch.testing.assert_close(seen["encoder.0.attention"][0][:, head], expected)


def test_heads_can_be_chosen():
    model = Variant("transformer").build()
    with record_attention(model) as both:
        model(padded(*SOURCES), TARGET)
    with record_attention(model, heads=[1]) as one:
        model(padded(*SOURCES), TARGET)
    for name in both:
        assert torch.equal(one[name][0], both[name][0][:, [1]])


def test_an_unknown_layer_is_refused_by_name():
    model = Variant("transformer").build()
    recording = record_attention(model, layers=["decoder.0.cross_atention"])
    with pytest.raises(InputError, match=r"cross_atention'; did you mean"), recording:
        pass


def forced(model, source, target):
    """The weights of one row by teacher forcing, (H, T, S)."""
    with record_attention(model) as seen:
        model(padded(source), torch.tensor([target]))
    return {name: weights[0][0] for name, weights in seen.items()}


@pytest.mark.parametrize("settings", [{}, {"placement": "post", "score": "additive"}])
@pytest.mark.parametrize("beam", [1, 3])
def test_a_path_of_beam_search_has_the_weights_of_teacher_forcing(settings, beam):
    model, options = Variant("transformer", settings).build(), SearchOptions(beam=beam, nbest=beam)
    state = model.start(padded(*SOURCES))
    with record_attention(model) as seen:
        found = beam_search(
            model, state, Bounds(first=BOS, eos=EOS, max_lengths=[8, 3, 6]), options=options
        )
    assert beam == 1 or any(len(set(each.path)) > 1 for nbest in found for each in nbest)
    for source, nbest in zip(SOURCES, found, strict=True):
        for each in nbest:
            steps = each.tokens + [EOS] * each.finished
            expected = forced(model, source, [BOS, *steps[:-1]])
            cross = seen.follow(CROSS, each.path)[..., : len(source)]
            torch.testing.assert_close(cross, expected[CROSS], rtol=0, atol=1e-10)
            for own in (seen.follow(OWN, each.path), seen.follow(OWN, each.path, read=0)):
                torch.testing.assert_close(own, expected[OWN], rtol=0, atol=1e-10)


def test_paths_of_different_ages_follow_their_own_keys():
    """Prompts of different lengths, and a request that joins: keys are newest last in a cache."""
    model = Variant("transformer").build()
    prefixes = [[BOS, 3, 4], [BOS], []]
    steps = torch.tensor([[5, 6, 7], [8, 9, 3], [BOS, 4, 4]])
    state = model.start(padded(*SOURCES[:2]), prefixes[:2]).join(model.start(padded(SOURCES[2])))
    later = model.start(padded([3]), [[BOS, 4, 5, 6, 7, 8]])  # wider than all: their places move
    with record_attention(model) as seen:
        _, state = stepped(model, state, steps[:, :2])
        stepped(model, later.join(state), [[3], *steps[:, 2:].tolist()])
    for row, prefix in enumerate(prefixes):
        path, read = [row, row, row + 1], len(prefix)
        expected = forced(model, SOURCES[row], prefix + steps[row].tolist())
        own = seen.follow(OWN, path, read=read)
        torch.testing.assert_close(own, expected[OWN][:, read:], rtol=0, atol=1e-10)
        cross = seen.follow(CROSS, path)[..., : len(SOURCES[row])]
        torch.testing.assert_close(cross, expected[CROSS][:, read:], rtol=0, atol=1e-10)
