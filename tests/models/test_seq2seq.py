"""What is Seq2Seq's own: every combination of parts, the fast paths, drawing, what is refused."""

import itertools

import pytest
import torch
from contracts.decoder_variants import BOS, EOS, Variant, alone, padded, stepped

from saccade.blocks import recurrent_attention
from saccade.blocks.dropout import keyed_dropout
from saccade.blocks.quantized import quantize
from saccade.blocks.recording import record_attention
from saccade.blocks.scores import SCORES
from saccade.config import build
from saccade.data.batches import PairBatch
from saccade.decoding.search import SearchOptions, beam_search
from saccade.decoding.walk import Bounds
from saccade.errors import InputError
from saccade.models.seq2seq import Seq2Seq, Seq2SeqConfig
from saccade.tasks.objectives import DrawnObjective, TranslateObjective, translate_objective

SIZES = {"source_vocab_size": 13, "target_vocab_size": 13}
SOURCES = [[3, 4, 5, 6, 7], [8, 9], [5]]
TARGETS = [[BOS, 3, 4, 5, 6], [BOS, 8, 9, 3, 3], [BOS, 4, 4, 12, 11]]
ATTENTIONS = ["none", "global", "local-monotonic", "local-predictive"]
CELLS = ["rnn", "lstm", "gru", "gru-reset-before"]
ORDERS = [
    {"order": "bahdanau"},
    {"order": "luong", "input_feeding": True},
    {"order": "luong", "input_feeding": False},
]
WEIGHTINGS = ["soft", "hard"]


def combinations():
    """Score x order, with windows, weightings and cells dealt out so that each meets each."""
    for (i, score), (j, order) in itertools.product(enumerate(SCORES), enumerate(ORDERS)):
        attention, weighting = ATTENTIONS[1 + (i + j) % 3], WEIGHTINGS[(i + j) % 2]
        parts = {"attention": attention, "weighting": weighting, "score": score}
        yield Variant("seq2seq", {**order, **parts, "cell": CELLS[(i // 2 + j) % 4]})
    for cell, order in zip(CELLS, itertools.cycle(ORDERS)):
        yield Variant("seq2seq", {**order, "attention": "none", "cell": cell})
    yield Variant("seq2seq", {"attention": "none", "layers": 2, "decoder_layers": 1})
    yield Variant("seq2seq", {"attention": "none", "layers": 1, "decoder_layers": 2})


EACH = pytest.mark.parametrize("variant", list(combinations()), ids=str)


def test_each_part_meets_each():
    met = [variant.settings for variant in combinations() if "score" in variant.settings]
    kinds = {
        "score": list(SCORES), "attention": ATTENTIONS[1:], "weighting": WEIGHTINGS, "cell": CELLS,
    }  # fmt: skip
    for order in ORDERS:
        mine = [settings for settings in met if order.items() <= settings.items()]
        for kind, known in kinds.items():
            assert {settings[kind] for settings in mine} == set(known)
    for one, other in itertools.combinations(kinds, 2):
        if {one, other} != {"score", "cell"}:  # 32 pairs of which 24 are enough
            pairs = {(settings[one], settings[other]) for settings in met}
            assert pairs == set(itertools.product(kinds[one], kinds[other]))


def batch():
    target = torch.tensor([[*row, EOS] for row in TARGETS])
    target[1, 4:] = 0
    source = padded(*SOURCES)
    lengths = torch.tensor([5, 3, 5])
    return PairBatch(source.tokens, source.lengths, target, lengths)


@EACH
def test_every_combination_learns_and_decodes(variant):
    model = variant.build().train()
    with keyed_dropout(3, update=1):
        terms, _ = translate_objective(model, smoothing=0.1)(batch(), None)
    assert set(terms) == ({"loss", "choice", "baseline"} if model.hard else {"loss"})
    sum(term.sum * term.weight for term in terms.values()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
    model.eval()
    with torch.no_grad(), record_attention(model, model.alignment_layers) as seen:
        found = beam_search(
            model,
            model.start(padded(*SOURCES)),
            Bounds(first=BOS, eos=EOS, max_lengths=[5, 5, 5]),
            options=SearchOptions(beam=3, nbest=2),
        )
    for source, (best, _) in zip(SOURCES, found, strict=True):
        gold = [*best.tokens, EOS][: len(best.token_log_probs)]
        forced = alone(model, source, [BOS, *gold[:-1]]).log_softmax(-1)[range(len(gold)), gold]
        torch.testing.assert_close(
            torch.tensor(best.token_log_probs).double(), forced, atol=1e-5, rtol=0
        )
        for layer in seen:
            weights = seen.follow(layer, best.path)
            assert weights.shape == (1, len(best.path), 5)
            assert (weights[..., len(source) :] == 0).all()


@EACH
@torch.no_grad()
def test_unrolling_a_target_is_stepping_through_it(variant):
    model = variant.build()
    found, _ = stepped(model, model.start(padded(*SOURCES)), TARGETS)
    expected = model.logits(model(padded(*SOURCES), torch.tensor(TARGETS)))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("order", ["bahdanau", "luong"])
@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("cell", CELLS)
def test_the_fast_path_has_the_gradients_of_the_equations(cell, layers, order):
    settings = {"cell": cell, "layers": layers, "order": order, "dropout": 0.0}
    model = Variant("seq2seq", settings).build()
    grads = []
    for fused in (True, False):
        model.decoder.stack.fused = model.encoder.stack.fused = fused
        model.zero_grad()
        model(padded(*SOURCES), torch.tensor(TARGETS)).square().sum().backward()
        grads.append([parameter.grad.clone() for parameter in model.parameters()])
    for fast, slow in zip(*grads, strict=True):
        torch.testing.assert_close(fast, slow, rtol=0, atol=1e-9)


# --- drawing --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "discount"),
    [
        ({"order": "luong", "input_feeding": False}, 0.0),  # a context enters its own output only
        ({"order": "luong"}, 1.0),
        ({"order": "bahdanau"}, 1.0),
        ({"order": "bahdanau", "attention": "local-predictive"}, 1.0),
    ],
    ids=str,
)
def test_hard_attention_is_taught_the_gradient_of_the_expected_loss(
    settings, discount, monkeypatch
):
    """All choices enumerated: the mean of what one draw teaches is exact, for every weight."""
    weighting = {"name": "hard", "entropy": 0.0, "discount": discount}
    model = Variant("seq2seq", {**settings, "weighting": weighting, "dropout": 0.0}).build().train()
    objective = translate_objective(model, smoothing=0.0)
    assert isinstance(objective, DrawnObjective)
    example = PairBatch(
        torch.tensor([[3, 4, EOS]]), torch.tensor([3]),
        torch.tensor([[BOS, 5, EOS]]), torch.tensor([2]),
    )  # fmt: skip
    weights = [p for name, p in model.named_parameters() if "baseline" not in name]
    expected, taught = 0.0, 0.0
    for places in itertools.product(range(3), repeat=2):
        left = list(places)
        monkeypatch.setattr(
            recurrent_attention,
            "_drawn",
            lambda p, left=left: torch.tensor([[[left.pop(0)] for _ in range(p.shape[1])]]),
        )
        terms, _ = objective(example, None)
        left.extend(places)
        _, choice = model.unroll(padded([3, 4, EOS]), torch.tensor([[BOS, 5]]))
        probability = choice.log_probs.sum().exp()
        expected = expected + probability * terms["loss"].sum
        taught = taught + probability.detach() * (terms["loss"].sum + terms["choice"].sum)
    wanted = torch.autograd.grad(expected, weights, retain_graph=True)
    found = torch.autograd.grad(taught, weights)
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a, b)


def test_a_model_that_does_not_learn_draws_nothing_and_has_only_a_loss():
    model = Variant("seq2seq", {"weighting": "hard"}).build()
    found, _ = translate_objective(model, smoothing=0.1).eval()(batch(), None)
    wanted, _ = TranslateObjective(model, smoothing=0.1).eval()(batch(), None)
    assert set(found) == {"loss"}
    torch.testing.assert_close(found["loss"].sum, wanted["loss"].sum)
    assert found["loss"].count == wanted["loss"].count


def test_draws_follow_from_the_key():
    model = Variant("seq2seq", {"weighting": "hard", "sampling": "linear"}).build().train()
    seen = []
    for key in (5, 5, 6):
        with keyed_dropout(key, update=4000):
            seen.append(model(padded(*SOURCES), torch.tensor(TARGETS)))
    assert torch.equal(seen[0], seen[1])
    assert not torch.equal(seen[0], seen[2])


# --- scheduled sampling ---------------------------------------------------------------------------


def test_scheduled_sampling_reads_its_own_words_more_and_more():
    sampling = {"name": "linear", "least": 0.0, "updates": 10}
    model = Variant("seq2seq", {"sampling": sampling, "dropout": 0.0}).build()
    source, target = padded(*SOURCES), torch.tensor(TARGETS)
    forced = model(source, target)
    model.train()
    with torch.no_grad(), keyed_dropout(1, update=0):
        torch.testing.assert_close(model(source, target), forced)  # at first, all words are true
    with torch.no_grad(), keyed_dropout(1, update=10):
        free = model.logits(model(source, target))
    state, token = model.eval().start(source), target[:, 0]
    for step in range(target.shape[1]):  # at last none is: it is greedy decoding
        logits, state = model.step(token, state)
        torch.testing.assert_close(free[:, step], logits)
        token = logits.argmax(-1)
    with torch.no_grad(), keyed_dropout(1, update=5):
        between = model.train()(source, target)
    assert not torch.allclose(between, forced)
    torch.testing.assert_close(between[:, 0], forced[:, 0])  # the first is always the start


# --- sources of length zero and one, recording ----------------------------------------------------


@EACH
@torch.no_grad()
def test_an_empty_source_is_defined(variant):
    model = variant.build()
    empty = model.logits(model(padded([]), torch.tensor([TARGETS[0]])))
    assert empty.isfinite().all()
    beside = model.logits(model(padded([], [3, 4], [5]), torch.tensor(TARGETS)))
    torch.testing.assert_close(beside[:1], empty)
    logits, _ = model.step(torch.tensor([BOS]), model.start(padded([])))
    torch.testing.assert_close(logits, empty[:, 0])


@torch.no_grad()
def test_bahdanau_looks_with_the_state_before_and_luong_with_the_current_one():
    source, target = padded(SOURCES[0]), torch.tensor([TARGETS[0]])
    changed = target.clone()
    changed[:, 2] = 9
    for order, same in [("bahdanau", 3), ("luong", 2)]:
        model = Variant("seq2seq", {"order": order, "input_feeding": False}).build()
        weights = []
        for each in (target, changed):
            with record_attention(model, model.alignment_layers) as seen:
                model(source, each)
            weights.append(torch.cat(seen["attention"], dim=2)[0, 0])  # (T, S)
        assert torch.equal(weights[0][:same], weights[1][:same])
        assert not torch.allclose(weights[0][same], weights[1][same])


@torch.no_grad()
def test_hard_attention_records_places_and_probabilities():
    model = Variant("seq2seq", {"weighting": "hard"}).build()
    with record_attention(model) as seen:
        model(padded(*SOURCES), torch.tensor(TARGETS))
    assert set(seen) == {"attention", "attention.weighting"}
    for places, probabilities in zip(seen["attention"], seen["attention.weighting"], strict=True):
        assert torch.equal(places.argmax(-1), probabilities.argmax(-1))
        assert (places.sum(-1) == 1).all()


@pytest.mark.parametrize("score", ["additive", "concat", "location"])
@torch.no_grad()
def test_in_eight_bits_it_says_nearly_the_same(score):
    model = Variant("seq2seq", {"score": score}).build().float()
    source, token = padded(*SOURCES), torch.tensor([BOS] * 3)
    expected, _ = model.step(token, model.start(source))
    found, _ = quantize(model).step(token, model.start(source))
    torch.testing.assert_close(found, expected, rtol=0, atol=0.2)
    assert not torch.equal(found, expected)


# --- sizes, and what is refused -------------------------------------------------------------------


@pytest.mark.parametrize(("preset", "least", "most"), [("tiny", 1.5e6, 3e6), ("small", 3e6, 5e6)])
def test_presets_have_the_sizes_they_claim(preset, least, most):
    values = Seq2Seq.PRESETS[preset]["model"]
    config = Seq2SeqConfig(source_vocab_size=4000, target_vocab_size=4000, **values)
    with torch.device("meta"):
        model = Seq2Seq(config, joint=True)
    assert least < sum(p.numel() for p in model.parameters()) < most


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"cell": "grru"}, "unknown model.cell 'grru'; did you mean 'gru'"),
        ({"score": "aditive"}, "unknown model.score 'aditive'; did you mean 'additive'"),
        ({"score": {"name": "additive", "hidden": 3}}, "unknown key 'model.score.hidden'"),
        ({"score": {"name": "cosine", "sharpening": "high"}}, "model.score.sharpening = 'high'"),
        ({"score": "dot", "memory": "unchanged"}, "model.score.*queries are 256 wide and keys 512"),
        ({"attention": "local"}, "unknown model.attention 'local'"),
        ({"attention": {"name": "local-monotonic", "half_width": 0}}, "half_width .* is 0"),
        ({"attention": {"name": "global", "half_width": 3}}, "it has no parameters"),
        ({"weighting": "harsh"}, "unknown model.weighting 'harsh'; did you mean 'hard'"),
        ({"weighting": {"name": "hard", "discount": 2.0}}, "discount 2.0"),
        ({"order": "loung"}, "model.order = 'loung'; expected 'bahdanau' or 'luong'"),
        ({"encoder": {"name": "convolutional", "kernel": 4}}, "kernel .* is 4, it must be odd"),
        ({"sampling": {"name": "linear", "updates": 0}}, "updates 0"),
        ({"dim": 0}, "dim is 0"),
        ({"dropout": 1.0}, "dropout is 1.0"),
    ],
)
def test_a_config_that_cannot_work_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Seq2Seq(build(Seq2SeqConfig, {**SIZES, **settings}, "model"), joint=False)
