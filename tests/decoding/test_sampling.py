"""Sampling: the right frequencies, the same draw in any batch, filters by their definition."""

import pytest
import torch
from decoding.tiny_decoders import BOS, EOS, D, Table, TinyAttention, TinyRNN, rescore, steps_of
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding.constraints import Banned
from saccade.decoding.sampling import Draw, sample, temperature, top_k, top_p
from saccade.decoding.search import SearchOptions, greedy_search
from saccade.decoding.walk import Bounds, stream
from saccade.errors import InputError

OPTIONS = SearchOptions()
LOGITS = torch.tensor([[0.5, 0.25, 0.15, 0.1]], dtype=torch.float64).log()


def drawn(decoder, state, draw, lengths, constraints=()):
    return sample(
        decoder,
        state,
        Bounds(first=BOS, eos=EOS, max_lengths=lengths, constraints=constraints),
        draw=draw,
        options=OPTIONS,
    )


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([], [0.5, 0.25, 0.15, 0.1]),
        ([top_k(2)], [2 / 3, 1 / 3, 0, 0]),
        ([top_p(0.8)], [0.5 / 0.9, 0.25 / 0.9, 0.15 / 0.9, 0]),
        ([temperature(0.5)], [0.25 / 0.345, 0.0625 / 0.345, 0.0225 / 0.345, 0.01 / 0.345]),
        ([temperature(0.5), top_k(2)], [0.8, 0.2, 0, 0]),
    ],
)
def test_frequencies(filters, expected):
    count = 4000
    draw = Draw(seed=5, examples=range(count), filters=filters)
    tokens = draw(LOGITS.expand(count, -1), range(count), 0)
    observed = torch.bincount(tokens, minlength=4)
    wanted = count * torch.tensor(expected, dtype=torch.float64)
    possible = wanted > 0
    assert (observed[~possible] == 0).all()
    chi_square = ((observed - wanted)[possible] ** 2 / wanted[possible]).sum()
    assert chi_square < 16.3  # one in a thousand at three degrees of freedom


def test_positions_and_seeds_are_independent():
    fixed = range(2000)
    draws = [
        Draw(seed=seed, examples=fixed)(LOGITS.expand(2000, -1), fixed, position)
        for seed, position in ((1, 0), (1, 1), (2, 0))
    ]
    chance = 0.5**2 + 0.25**2 + 0.15**2 + 0.1**2
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert (draws[a] == draws[b]).double().mean().item() == pytest.approx(chance, abs=0.04)


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(6)), st.integers(1, 6), st.sampled_from([TinyRNN, TinyAttention]))
def test_alone_as_in_any_batch(order, size, model):
    torch.manual_seed(1)
    decoder, inputs = model(8), torch.randn(6, D, dtype=torch.float64)
    lengths, batch, filters = [9, 3, 9, 1, 6, 9], order[:size], [temperature(1.3), top_p(0.9)]
    together = drawn(
        decoder,
        decoder.start(inputs[batch]),
        Draw(seed=7, examples=batch, filters=filters),
        [lengths[b] for b in batch],
    )
    for b, ours in zip(batch, together, strict=True):
        one = Draw(seed=7, examples=[b], filters=filters)
        (alone,) = drawn(decoder, decoder.start(inputs[[b]]), one, [lengths[b]])
        assert (ours.tokens, ours.finished) == (alone.tokens, alone.finished)
        own = rescore(decoder, decoder.start(inputs[[b]]), steps_of(ours))
        assert ours.token_log_probs == pytest.approx(own, abs=1e-10)  # the model's, unfiltered


@pytest.mark.parametrize("value", [1e-9, 1e-37, 1e-40, 1e-50])
def test_a_tiny_temperature_is_greedy_in_float32_too(value):
    logits = torch.tensor([[-1.0, -0.5, float("-inf")]]).log_softmax(-1)
    assert Draw(seed=1, examples=[0], filters=[temperature(value)])(logits, [0], 0).tolist() == [1]


@pytest.mark.parametrize("value", [0.0, 1e-9, 1e-300])
def test_no_temperature_is_greedy(value):
    decoder, inputs = TinyRNN(8), torch.randn(4, D, dtype=torch.float64)
    state, lengths = decoder.start(inputs), [8, 2, 8, 5]
    greedy = greedy_search(
        decoder, state, Bounds(first=BOS, eos=EOS, max_lengths=lengths), options=OPTIONS
    )
    draw = Draw(seed=1, examples=range(4), filters=[temperature(value)])
    assert [[each] for each in drawn(decoder, state, draw, lengths)] == greedy


def test_stream_is_the_sample_piece_by_piece():
    decoder, inputs = TinyRNN(8), torch.randn(1, D, dtype=torch.float64)
    state, draw = decoder.start(inputs), Draw(seed=3, examples=[11])
    (whole,) = drawn(decoder, state, draw, [12])
    pieces = list(stream(decoder, state, Bounds(first=BOS, eos=EOS, max_lengths=[12]), choose=draw))
    assert [token for token, _ in pieces] == whole.tokens
    assert [value for _, value in pieces] == whole.token_log_probs[: len(whole.tokens)]
    with pytest.raises(InputError, match="one sequence"):
        next(
            stream(
                decoder, decoder.start(inputs.repeat(2, 1)), Bounds(first=0, eos=1, max_lengths=[3])
            )
        )


def test_streaming_leaves_the_callers_gradients_on():
    decoder = TinyRNN(8)
    state = decoder.start(torch.randn(1, D, dtype=torch.float64))
    for _ in stream(decoder, state, Bounds(first=BOS, eos=EOS, max_lengths=[3])):
        assert torch.is_grad_enabled()


def test_impossible_tokens_are_never_drawn():
    """Heights at the edges: nothing without mass, even beside a mass of one."""
    logits = torch.tensor([[float("-inf"), 0.0, float("-inf")]], dtype=torch.float64)

    class Edge(Draw):
        def uniform(self, example, position):  # noqa: ARG002
            return [0.0, 1 - 2**-53][example]

    assert Edge(seed=0, examples=[0, 1])(logits.expand(2, -1), [0, 1], 0).tolist() == [1, 1]
    three = torch.tensor([[0.0, 0.0, 0.0, float("-inf")]]).log_softmax(-1)
    assert Edge(seed=0, examples=[0, 1])(three.expand(2, -1), [0, 1], 0).tolist() == [0, 2]


def test_dead_ends_and_constraints():
    table = torch.zeros(2, 4, 4, 4, dtype=torch.float64)
    table[1] = float("-inf")
    decoder = Table(table)
    draw = Draw(seed=0, examples=[0, 1])
    free, stuck = drawn(decoder, decoder.start([0, 1]), draw, [4, 4], [Banned((BOS, EOS, 3))])
    assert free.tokens == [2, 2, 2, 2]
    assert free.log_prob == pytest.approx(4 * torch.tensor(0.25).log().item())
    assert (stuck.tokens, stuck.finished) == ([], False)


def test_top_p_keeps_the_fewest_that_reach_p():
    logits = torch.randn(20, 30, dtype=torch.float64)
    for p in (0.01, 0.5, 0.99):
        kept = top_p(p)(logits) > float("-inf")
        mass = logits.softmax(-1)
        for row in range(20):
            inside = mass[row][kept[row]]
            assert inside.sum() >= p
            assert inside.sum() - inside.min() < p
            assert inside.min() >= mass[row][~kept[row]].max()
    assert torch.equal(top_p(1.0)(logits), logits)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: temperature(-1.0),
        lambda: temperature(1e39),
        lambda: top_k(0),
        lambda: top_p(0.0),
        lambda: top_p(1.1),
    ],
)
def test_wrong_filters_are_refused(wrong):
    with pytest.raises(InputError, match="must be"):
        wrong()


def test_example_numbers_must_match():
    decoder = TinyRNN()
    with pytest.raises(InputError, match="example numbers"):
        drawn(decoder, decoder.start(torch.zeros(2, D)), Draw(seed=0, examples=[1]), [3, 3])
