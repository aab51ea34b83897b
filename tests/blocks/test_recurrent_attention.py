"""Windows, weightings and projections against their formulas in naive loops."""

import math

import pytest
import torch

from saccade.blocks.dropout import keyed_dropout
from saccade.blocks.masks import masked_softmax, padding_mask
from saccade.blocks.recording import record_attention, record_inside
from saccade.blocks.recurrent_attention import (
    ATTENTIONS,
    PROJECTIONS,
    WEIGHTINGS,
    Focus,
    Hard,
    RecurrentAttention,
)
from saccade.blocks.scores import SCORES
from saccade.errors import InputError
from saccade.inspection.ablation import without_heads

B, T, S, D = 3, 4, 6, 5
LENGTHS = torch.tensor([6, 3, 1])
LOCAL = ["local-monotonic", "local-predictive"]


def built(window="global", weighting="soft", score="additive", memory="shared", **window_settings):
    attention = RecurrentAttention(
        D,
        PROJECTIONS[memory](7, D),
        score=SCORES[score],
        window=ATTENTIONS[window](D, **window_settings),
        weighting=WEIGHTINGS[weighting](D),
    )
    return attention.double().eval()


def asked(attention, lengths=LENGTHS, size=S, steps=T):
    """Query, memory, mask and steps of a batch, and the recorded weights (B, T, S) and context."""
    rows = len(lengths)
    query, memory = torch.randn(rows, steps, D).double(), torch.randn(rows, size, 7).double()
    mask = padding_mask(lengths, size).unsqueeze(1)
    keys, values = attention.prepare(memory)
    numbers = torch.arange(steps).expand(rows, -1)
    with record_attention(attention) as seen:
        context, _ = attention(query, keys, values, mask, numbers)
    return query, memory, seen, context


def softmax(logits):
    highest = max(logits.values())
    powers = {place: math.exp(logit - highest) for place, logit in logits.items()}
    return {place: power / sum(powers.values()) for place, power in powers.items()}


def naive_weights(attention, query, memory, length, step):
    """Luong et al. 2015, 3.2, for one query: the weight of each place, by the formulas."""
    window, keys = attention.window, attention.projection(memory.unsqueeze(0))[0]
    logits = attention.score(query[None, None], attention.score.prepare(keys))[0, 0]
    name = type(window).__name__
    centre = {
        "Global": lambda: 0.0,
        "LocalMonotonic": lambda: float(step),
        "LocalPredictive": lambda: float(
            length
            / (1 + torch.exp(-window.place.weight[0] @ torch.tanh(window.hidden.weight @ query)))
        ),
    }[name]()
    reach = math.inf if name == "Global" else window.half_width
    seen = [place for place in range(length) if abs(place - centre) <= reach]
    weights = softmax({place: float(logits[place]) for place in seen}) if seen else {}
    if name == "LocalPredictive":
        sigma = window.half_width / 2
        for place in weights:
            weights[place] *= math.exp(-((place - centre) ** 2) / (2 * sigma**2))
    return [weights.get(place, 0.0) for place in range(len(memory))]


@pytest.mark.parametrize("score", ["additive", "general", "dot", "location"])
@pytest.mark.parametrize(
    ("window", "half_width"), [("global", None), *((w, d) for w in LOCAL for d in (1, 2, 50))]
)
@torch.no_grad()
def test_recorded_weights_and_context_are_the_formula(window, half_width, score):
    settings = {} if half_width is None else {"half_width": half_width}
    attention = built(window, score=score, **settings)
    query, memory, seen, context = asked(attention)
    (weights,) = seen[""]
    assert weights.shape == (B, 1, T, S)
    values = attention.projection(memory)[1]
    for row, length in enumerate(LENGTHS.tolist()):
        for step in range(T):
            expected = naive_weights(attention, query[row, step], memory[row], length, step)
            torch.testing.assert_close(weights[row, 0, step], torch.tensor(expected).double())
            pooled = sum(w * v for w, v in zip(expected, values[row], strict=True))
            torch.testing.assert_close(context[row, step], pooled)


@torch.no_grad()
def test_a_window_wider_than_the_source_is_global_attention():
    local, everywhere = built("local-monotonic", half_width=100), built("global")
    everywhere.load_state_dict(local.state_dict())
    torch.manual_seed(1)
    *_, local_context = asked(local)
    torch.manual_seed(1)
    *_, context = asked(everywhere)
    torch.testing.assert_close(local_context, context)


@torch.no_grad()
def test_a_step_beyond_the_window_looks_at_nothing():
    *_, seen, context = asked(built("local-monotonic", half_width=1), torch.tensor([2]), 2, steps=5)
    assert seen[""][0].sum(-1)[0, 0].tolist() == pytest.approx([1, 1, 1, 0, 0])
    assert (context[0, 3:] == 0).all()


@pytest.mark.parametrize("window", sorted(ATTENTIONS.keys() - {"none"}))
@pytest.mark.parametrize("weighting", WEIGHTINGS)
def test_sources_of_length_one_and_zero_are_defined(window, weighting):
    attention = built(window, weighting).train()
    query = torch.randn(2, 1, D, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(2, 1, 7, dtype=torch.float64)
    mask = torch.tensor([[[True]], [[False]]])
    keys, values = attention.prepare(memory)
    with record_attention(attention, [""]) as seen:
        context, choice = attention(query, keys, values, mask, torch.zeros(2, 1, dtype=torch.long))
    (weights,) = seen[""]
    assert weights[1].item() == 0
    assert 0 < weights[0].item() <= 1
    loss = context.sum()
    if choice is not None:
        assert choice.log_probs.tolist() == [[0.0], [0.0]]  # there was nothing to choose
        loss = loss + choice.log_probs.sum() + choice.entropy.sum()
    loss.backward()
    assert query.grad is None or query.grad.isfinite().all()


def test_a_window_must_reach_somewhere():
    for window in LOCAL:
        with pytest.raises(InputError, match="half_width of a local attention is 0"):
            built(window, half_width=0)


@pytest.mark.parametrize("window", ["global", *LOCAL])
@torch.no_grad()
def test_hard_attention_looks_at_the_most_probable_place_and_tells_all_probabilities(window):
    attention = built(window, "hard")
    query, memory, seen, _ = asked(attention)
    (weights,), (probabilities,) = seen[""], seen["weighting"]
    torch.testing.assert_close(probabilities.sum(-1), (probabilities > 0).any(-1).double())
    assert ((weights == 0) | (weights == 1)).all()
    assert (weights.sum(-1) == (probabilities > 0).any(-1)).all()
    assert torch.equal((weights * probabilities).sum(-1), probabilities.amax(-1))
    for row, length in enumerate(LENGTHS.tolist()):
        soft = torch.tensor(naive_weights(attention, query[row, 0], memory[row], length, 0))
        torch.testing.assert_close(probabilities[row, 0, 0], (soft / soft.sum()).double())


def test_places_are_drawn_by_their_probabilities_and_never_where_none_may_look():
    hard, draws = Hard(D).double().train(), 20_000
    logits = torch.tensor([1.0, 0.0, 9.0, -1.0]).double().expand(1, draws, 4)
    mask = torch.tensor([True, True, False, True]).expand(1, draws, 4)
    with keyed_dropout(7):
        chosen, choice = hard(torch.zeros(1, draws, D).double(), logits, Focus(mask))
    assert (chosen.sum(-1) == 1).all()
    expected = torch.tensor([1.0, 0.0, -math.inf, -1.0]).softmax(-1).double()
    torch.testing.assert_close(chosen.mean(1)[0], expected, rtol=0, atol=0.015)
    torch.testing.assert_close(
        choice.log_probs.exp().detach(), (chosen * expected).sum(-1), rtol=1e-6, atol=0
    )
    entropy = -sum(p * math.log(p) for p in expected.tolist() if p)
    assert choice.entropy[0, 0].item() == pytest.approx(entropy)
    with keyed_dropout(7):
        again, _ = hard(torch.zeros(1, draws, D).double(), logits, Focus(mask))
    assert torch.equal(again, chosen)  # a function of the key


def test_keys_and_values_apart_are_two_maps():
    apart, shared = PROJECTIONS["apart"](7, D), PROJECTIONS["shared"](7, D)
    memory = torch.randn(2, 3, 7)
    keys, values = apart(memory)
    torch.testing.assert_close(keys, memory @ apart.key.weight.mT)
    torch.testing.assert_close(values, memory @ apart.value.weight.mT)
    keys, values = shared(memory)
    assert keys is values
    assert PROJECTIONS["unchanged"](7, D)(memory) == (memory, memory)


def test_a_score_that_compares_numbers_refuses_an_unchanged_memory():
    built(memory="unchanged", score="general")
    with pytest.raises(InputError, match="queries are 5 wide and keys 7"):
        built(memory="unchanged", score="dot")


def test_what_it_computes_can_be_probed_and_switched_off():
    attention = built("local-predictive")
    query, memory = torch.randn(2, 3, D).double(), torch.randn(2, 5, 7).double()
    steps = torch.arange(3).expand(2, 3)
    keys, values = attention.prepare(memory)
    whole, _ = attention(query, keys, values, None, steps)
    with record_inside(attention, "") as calls:
        watched, _ = attention(query, keys, values, None, steps)
    (inside,) = calls
    torch.testing.assert_close(watched, whole)
    torch.testing.assert_close(inside.averages[:, 0], whole)
    torch.testing.assert_close(inside.scores[:, 0], attention.score(query, keys))
    torch.testing.assert_close((inside.weights @ inside.values)[:, 0], whole)
    soft = masked_softmax(inside.scores, inside.mask)
    torch.testing.assert_close(inside.weights, soft * inside.factor)
    assert inside.probabilities is None
    with without_heads(attention, {"": [0]}):
        assert (attention(query, keys, values, None, steps)[0] == 0).all()
