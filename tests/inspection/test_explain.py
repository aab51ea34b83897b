"""Step by step: the lecture's numbers, and the layer's own output from the numbers shown."""

import dataclasses
import json
import math

import pytest
import torch
from contracts.decoder_variants import BOS, Variant, padded
from torch import nn

from saccade.blocks.masks import masked_softmax
from saccade.blocks.recording import Observed, record_inside
from saccade.blocks.relative import RelativeDot
from saccade.blocks.scores import SCORES
from saccade.errors import InputError
from saccade.inspection.ablation import without_heads
from saccade.inspection.explain import (
    FORMULAS,
    Explanation,
    _default_layer,
    _find_token,
    explain,
    work_out,
)
from saccade.inspection.traces import Tokens, kind_of

SOURCE, TARGET = [3, 4, 5, 6], [BOS, 7, 8]
TOKENS = Tokens(list("abcd"), ["<s>", "x", "y"], ["x", "y", "</s>"])


class Reader:
    """A module with a text already chosen: what `explain` asks of a model."""

    def __init__(self, module):
        self.module = module

    def predict(self, texts):
        self.trace(texts[0], None)  # with other numbers of calls: they are not to be mixed up
        return [None]

    def trace(self, text, prediction):  # noqa: ARG002
        with torch.no_grad():
            self.module(padded(SOURCE), torch.tensor([TARGET]))
        return TOKENS


def outputs(module, layer):
    """What a layer gives out while the text is read, (T, D)."""
    kept = []
    part = module.get_submodule(layer)
    hook = part.register_forward_hook(lambda *call: kept.append(call[-1][0]))
    Reader(module).trace("", None)
    hook.remove()
    return torch.cat(kept)


# --- the lecture: "Thinking Machines" ------------------------------------------------------------


def thinking_machines():
    """Eight heads of width 64; the first asks q = (1, 1, ...) and finds products 112 and 96."""
    q, k = torch.ones(8, 64), torch.zeros(8, 2, 64)
    k[0, 0], k[0, 1] = 112 / 64, 96 / 64
    v = torch.randn(8, 2, 64)
    return q, k, v


def test_thinking_machines_from_112_and_96_to_the_output():
    q, k, v = thinking_machines()
    w_o = nn.Linear(512, 512, bias=False)
    steps = work_out(q, k, v, output=w_o)
    assert steps.products.tolist() == [112, 96]
    assert steps.scale == 8
    assert steps.scores.tolist() == [14, 12]
    assert [round(weight, 2) for weight in steps.weights.tolist()] == [0.88, 0.12]
    first, second = steps.weights.tolist()
    torch.testing.assert_close(steps.weighted, torch.stack([first * v[0, 0], second * v[0, 1]]))
    torch.testing.assert_close(steps.average, first * v[0, 0] + second * v[0, 1])
    # the other heads see equal products, so each averages its values
    joined = torch.cat([steps.average, *v[1:].mean(1)])
    torch.testing.assert_close(steps.joined, joined)
    torch.testing.assert_close(steps.output, joined @ w_o.weight.T)


def test_a_masked_key_weighs_nothing():
    q, k, v = thinking_machines()
    steps = work_out(q, k, v, mask=torch.tensor([False, True]))
    assert steps.weights.tolist() == [0, 1]
    torch.testing.assert_close(steps.average, v[0, 1])


# --- a model's own layers ------------------------------------------------------------------------

LAYERS = ["encoder.1.attention", "decoder.0.attention", "decoder.1.cross_attention"]
CASES = [
    *(("scaled-dot", layer) for layer in LAYERS),
    ("additive", LAYERS[1]),
    ("cosine", LAYERS[2]),
]


@pytest.mark.parametrize(("score", "layer"), CASES)
def test_the_numbers_reproduce_the_output_of_the_layer(score, layer):
    module = Variant("transformer", {"score": score, "bias": True}).build()
    wanted = outputs(module, layer)
    found = explain(Reader(module), "", layer, head=1, token=1)
    torch.testing.assert_close(found.steps.output, wanted[1], rtol=0, atol=1e-10)
    weights = masked_softmax(found.steps.scores[None], found.steps.allowed[None])[0]
    torch.testing.assert_close(found.steps.weights, weights)
    torch.testing.assert_close(found.steps.average, weights @ found.steps.v)
    assert ("√" in found.formula) == (found.steps.scale is not None)


def test_every_score_has_a_formula():
    assert {*SCORES.values(), RelativeDot} <= FORMULAS.keys()


def test_the_parts_recorded_are_of_the_chosen_head_and_token():
    module, layer = Variant("transformer").build(), "decoder.1.cross_attention"
    with record_inside(module, layer) as everything:
        Reader(module).trace("", None)
    with record_inside(module, layer, head=1, token=2) as one:
        Reader(module).trace("", None)
    (whole,), (part,) = everything, one
    assert part.query.shape == (1, 1, 1, 4)
    assert part.keys.shape == (1, 1, 4, 4)
    for name in ("weights", "query", "scores", "averages"):
        assert torch.equal(getattr(part, name)[0, 0, 0], getattr(whole, name)[0, 1, 2])
    assert torch.equal(part.values[0, 0], whole.values[0, 1])


def test_the_causal_mask_is_told():
    found = explain(Reader(Variant("transformer").build()), "", "decoder.0.attention", 0, 1)
    assert found.steps.allowed.tolist() == [True, True, False]
    assert (found.query, found.keys) == ("y", ["<s>", "x", "y"])
    assert "masked" in found.table()
    assert "masked" not in explain(Reader(Variant("transformer").build()), "").table()


def test_a_head_that_is_off_adds_nothing_to_the_output():
    module, layer = Variant("transformer").build(), "decoder.1.cross_attention"
    with without_heads(module, {layer: [0]}):
        wanted = outputs(module, layer)
        found = explain(Reader(module), "", layer, 1, 2)
    torch.testing.assert_close(found.steps.output, wanted[2])
    assert (found.steps.joined[:4] == 0).all()


def test_a_token_is_found_by_place_or_text():
    model = Reader(Variant("transformer").build())
    by_text, by_place = explain(model, "", token="y"), explain(model, "", token=1)
    assert by_text.to_dict() == by_place.to_dict()
    assert by_text.layer == "decoder.1.cross_attention"
    with pytest.raises(InputError, match="no token 3: there are 0 to 2: x y"):
        explain(model, "", token=3)
    with pytest.raises(InputError, match="no token is 'z'; known: x, y, </s>"):
        explain(model, "", token="z")
    with pytest.raises(InputError, match="no head 2: this layer has heads 0 to 1"):
        explain(model, "", head=2)
    with pytest.raises(InputError, match=r"did you mean 'encoder\.0\.attention'"):
        explain(model, "", "encoder.0.atention")


def test_to_dict_is_strict_json_with_the_numbers():
    found = explain(Reader(Variant("transformer").build()), "", "decoder.0.attention", 1, 0)
    read = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert read["weights"] == [1, 0, 0]
    assert read["k"] == found.steps.k.tolist()
    assert read["scale"] == 2
    assert read["keys"] == ["<s>", "x", "y"]


def test_the_table_holds_the_numbers_it_shows():
    model = Reader(Variant("transformer").build())
    found = explain(model, "", "encoder.0.attention", 1, "c")
    lines = found.table().split("\n")
    row = next(line for line in lines if line.startswith("d "))
    for numbers in (found.steps.products, found.steps.scores, found.steps.weights):
        assert f"{numbers[3]:.2f}" in row
    assert any(line.startswith("sum") and "1.00" in line for line in lines)
    assert "q·k / √K" in found.table()


# --- windows and choices: what stands between scores and weights ---------------------------------

LOCAL = {"attention": {"name": "local-predictive", "half_width": 2}}
HARD = {"weighting": "hard"}
BETWEEN = {"factor", "probabilities"}


@pytest.mark.parametrize("token", range(3))
def test_a_windows_factor_leads_from_the_softmax_to_the_weights(token):
    module = Variant("seq2seq", LOCAL).build()
    found = explain(Reader(module), "", token=token)
    steps = found.steps
    soft = masked_softmax(steps.scores[None], steps.allowed[None])[0]
    torch.testing.assert_close(steps.weights, soft * steps.factor)  # as it is, not made to sum up
    assert not torch.allclose(steps.weights, soft)
    torch.testing.assert_close(steps.average, steps.weights @ steps.v)
    with record_inside(module, "attention") as calls:
        Reader(module).trace("", None)
    query = torch.cat([call.query for call in calls], dim=2)[0, :, token : token + 1]
    centre = module.attention.window.centres(query, len(SOURCE)).item()  # sigma is 1
    expected = [math.exp(-((place - centre) ** 2) / 2) for place in range(len(SOURCE))]
    assert steps.factor.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("settings", [HARD, {**HARD, **LOCAL}], ids=["global", "local"])
def test_a_hard_attention_shows_the_probabilities_it_chose_by(settings):
    found = explain(Reader(Variant("seq2seq", settings).build()), "", token=1)
    steps = found.steps
    soft = masked_softmax(steps.scores[None], steps.allowed[None])[0]
    if steps.factor is not None:
        soft = soft * steps.factor / (soft * steps.factor).sum()
    torch.testing.assert_close(steps.probabilities, soft)
    chosen = torch.nn.functional.one_hot(soft.argmax(), len(SOURCE))
    assert steps.weights.tolist() == chosen.tolist()


WAYS = [
    (LOCAL, ["score", "factor", "weight"], ["weight softmax(score) times factor"]),
    (HARD, ["score", "probability", "weight"], ["probability softmax(score)"]),
    (
        {**HARD, **LOCAL},
        ["score", "factor", "probability", "weight"],
        ["probability softmax(score) times factor, made to sum to one"],
    ),
    ({}, ["score", "weight"], []),
    ({"attention": {"name": "local-monotonic", "half_width": 2}}, ["score", "weight"], []),
]


@pytest.mark.parametrize(("settings", "titles", "told"), WAYS, ids=lambda each: str(each)[:50])
def test_the_table_has_a_column_for_what_stands_between(settings, titles, told):
    found = explain(Reader(Variant("seq2seq", settings).build()), "", token=1)
    lines = found.table().split("\n")
    head, first = lines[lines.index("") + 1], lines[lines.index("") + 2]
    assert [word for word in head.split() if word in ("k", "times", "v") or word in titles] == [
        "k", *titles, "weight", "times", "v",
    ]  # fmt: skip
    for name in BETWEEN & {name for name, value in found.to_dict().items() if value is not None}:
        assert f" {getattr(found.steps, name)[0]:.2f} " in first
    ways = [line for line in lines[: lines.index("")] if "softmax" in line]
    assert ways == told
    assert ("weight 1 for the most probable key" in lines) == ("probability" in titles)


def test_keys_behind_the_mask_are_cut_from_every_column():
    found = explain(Reader(Variant("seq2seq", {**HARD, **LOCAL}).build()), "")
    allowed = torch.tensor([True, True, True, False])
    cut = dataclasses.replace(found, steps=dataclasses.replace(found.steps, allowed=allowed))
    assert "and 1 later token, masked" in cut.table()


# --- an attention that shows its weights alone ---------------------------------------------------


class Recurrent(nn.Module):
    """Looks at each source position in turn, one call a step."""

    alignment_layers = ("attention",)

    def __init__(self):
        super().__init__()
        self.attention = Observed()

    def forward(self, source, target):
        for step in range(target.shape[1]):
            if self.attention.watcher is not None:
                weights = torch.eye(source.tokens.shape[1])[step]
                self.attention.watcher(weights[None, None, None])


def test_a_part_of_an_attention_is_of_its_kind():
    assert kind_of(Recurrent(), "attention.weighting") == "cross"
    assert kind_of(Recurrent(), "attention2") == "decoder"
    assert kind_of(Variant("transformer").build(), "encoder.1.attention") == "encoder"


def test_what_an_attention_does_not_show_is_left_out():
    found = explain(Reader(Recurrent()), "", token=1)
    assert found.steps.weights.tolist() == [0, 1, 0, 0]
    assert found.formula == ""
    assert {name for name, value in found.to_dict().items() if value is None} == {
        "q", "k", "products", "scale", "scores", "allowed", "factor", "probabilities", "v",
        "weighted", "average", "joined", "output",
    }  # fmt: skip
    assert [line.split()[-1] for line in found.table().split("\n")[2:]] == [
        "weight", "0.00", "1.00", "0.00", "0.00", "1.00",
    ]  # fmt: skip
    with (
        pytest.raises(InputError, match="cannot be switched off"),
        without_heads(Recurrent(), {"attention": [0]}),
    ):
        pass


def test_keys_that_the_mask_hides_at_the_end_are_told_in_one_line():
    q, k = torch.ones(1, 2), torch.arange(10.0).view(1, 5, 2)
    mask = torch.tensor([False, True, True, False, False])
    steps = work_out(q, k, k, mask=mask)
    keys = [*"abcde"]
    found = Explanation("layer", 0, 1, 2, "c", keys, "", steps)
    told = found.table()
    assert "and 2 later tokens, masked" in told
    assert [line.split()[0] for line in told.splitlines()[4:7]] == [*"abc"]
    assert len(found.to_dict()["weights"]) == 5
    alone = dataclasses.replace(found, steps=work_out(q, k, k))
    assert "masked" not in alone.table()


def test_a_model_without_attention_is_refused():
    class Counts(torch.nn.Module):
        """As a Markov chain: it never heard of attention."""

    with pytest.raises(InputError, match="no attention to explain"):
        _default_layer(Counts())


def test_a_token_that_is_not_there_is_told_with_those_that_are():
    with pytest.raises(InputError, match="no token 2: there are 0 to 1: Elle </s>"):
        _find_token(2, ["Elle", "</s>"])
