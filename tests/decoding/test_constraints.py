"""Constraints: each by its definition, and under a beam with the history of the surviving path."""

import pytest
import torch
from decoding.tiny_decoders import BOS, EOS, Table, rescore, steps_of
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding.constraints import (
    Banned,
    ForcedPrefix,
    MinimumLength,
    NoRepeat,
    RepetitionPenalty,
)
from saccade.decoding.options import DecodeOptions
from saccade.decoding.search import SearchOptions, beam_search
from saccade.decoding.walk import Bounds
from saccade.errors import InputError

V, LENGTH, NEVER = 5, 8, float("-inf")


def search(decoder, rows, constraints=(), **options):
    return beam_search(
        decoder,
        decoder.start(range(rows)),
        Bounds(first=BOS, eos=EOS, max_lengths=[LENGTH] * rows, constraints=constraints),
        options=SearchOptions(**options),
    )


@pytest.fixture
def decoder():
    return Table(2 * torch.randn(4, LENGTH, V, V, dtype=torch.float64))


beams = pytest.mark.parametrize("beam", [1, 4])


@beams
def test_banned_tokens_never_appear(decoder, beam):
    free = [each for found in search(decoder, 4, beam=beam, nbest=beam) for each in found]
    assert {BOS, 3} <= {token for each in free for token in each.tokens}
    for found in search(decoder, 4, [Banned((BOS, 3))], beam=beam, nbest=beam):
        assert not {BOS, 3} & {token for each in found for token in each.tokens}


@beams
def test_nothing_ends_too_soon(decoder, beam):
    decoder.logits[..., EOS] = 5.0
    for found in search(decoder, 4, beam=beam, nbest=beam, min_length=3):
        assert all(len(each.tokens) >= 3 for each in found)
    assert any(len(found[0].tokens) == 3 for found in search(decoder, 4, beam=beam, min_length=3))


@beams
@pytest.mark.parametrize("n", [1, 2, 3])
def test_no_ngram_twice(decoder, beam, n):
    decoder.logits[:] = decoder.logits[:, :1]  # the same chain at each step: it wants to repeat
    decoder.logits[..., EOS] = -4.0

    def repeats(tokens):
        grams = [tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1)]
        return len(grams) != len(set(grams))

    free = search(decoder, 4, beam=beam, nbest=beam)
    assert any(repeats(each.tokens) for found in free for each in found)
    for found in search(decoder, 4, beam=beam, nbest=beam, no_repeat_ngram=n):
        assert not any(repeats(each.tokens) for each in found)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 2), max_size=9), st.integers(1, 4))
def test_no_repeat_forbids_nothing_else(history, n):
    forbidden = {
        history[i + n - 1]
        for i in range(len(history) - n + 1)
        if history[i : i + n - 1] == history[len(history) - n + 1 :]
    }
    given_history = torch.tensor([history, history], dtype=torch.long).view(2, -1)
    logits = NoRepeat(n)(torch.zeros(2, 4), given_history, torch.tensor([0, 1]))
    for row in logits:
        assert {token for token in range(4) if row[token] == NEVER} == forbidden


@beams
def test_each_sentence_begins_as_told(decoder, beam):
    prefixes = [[2, 3, 2], [], [4], [0, 0]]
    found = search(decoder, 4, [ForcedPrefix(prefixes)], beam=beam, nbest=beam)
    free = search(decoder, 4, beam=beam, nbest=beam)
    assert [each.tokens for each in found[1]] == [each.tokens for each in free[1]]
    for b, (prefix, hypotheses) in enumerate(zip(prefixes, found, strict=True)):
        assert len(hypotheses) == beam
        for each in hypotheses:
            assert each.tokens[: len(prefix)] == prefix
            own = rescore(decoder, decoder.start([b]), steps_of(each))
            assert each.token_log_probs == pytest.approx(own, abs=1e-12)  # the model's own


@beams
def test_a_prefix_may_say_what_is_forbidden_behind_it(decoder, beam):
    prefix = [2, 3, 2, 3, 4]
    rules = [Banned((4,)), ForcedPrefix([prefix, []])]
    options = {"beam": beam, "nbest": beam, "no_repeat_ngram": 2, "min_length": 6}
    found = search(decoder, 2, rules, **options)
    for each in found[0]:
        assert each.tokens[: len(prefix)] == prefix
        assert 4 not in each.tokens[len(prefix) :]
        own = rescore(decoder, decoder.start([0]), steps_of(each))
        assert each.token_log_probs == pytest.approx(own, abs=1e-12)
    free = search(
        decoder, 2, [Banned((4,))], beam=beam, nbest=beam, no_repeat_ngram=2, min_length=6
    )
    assert [each.tokens for each in found[1]] == [each.tokens for each in free[1]]


def test_a_prefix_is_searched_like_its_own_continuation(decoder):
    """After the prefix the beam finds what it finds when started there."""
    found = search(decoder, 1, [ForcedPrefix([[3]])], beam=3, nbest=3, length_penalty=0.0)[0]
    later = Table(decoder.logits[:, 1:])
    rest = beam_search(
        later,
        later.start([0]),
        Bounds(first=3, eos=EOS, max_lengths=[LENGTH - 1]),
        options=SearchOptions(beam=3, nbest=3, length_penalty=0.0),
    )[0]
    assert [each.tokens[1:] for each in found] == [each.tokens for each in rest]


def test_constraints_forbid_and_change_nothing_else():
    logits, history = torch.randn(2, V), torch.tensor([[2, 3, 2], [3, 3, 3]])
    rows = torch.tensor([0, 1])
    every = [Banned((1,)), MinimumLength(5, EOS), NoRepeat(2), ForcedPrefix([[2, 2, 2, 2], []])]
    for constraint in every:
        found = constraint(logits.clone(), history, rows)
        kept = found > NEVER
        assert not kept.all()
        assert torch.equal(found[kept], logits[kept])


def test_no_way_on_ends_the_path(decoder):
    for beam in (1, 3):
        found = search(decoder, 2, [Banned(tuple(range(V)))], beam=beam)
        assert [(only.tokens, only.finished) for (only,) in found] == [([], False)] * 2


def test_mistakes_are_named(decoder):
    with pytest.raises(InputError, match="token 9 is not in the vocabulary of 5"):
        search(decoder, 1, [ForcedPrefix([[9]])])
    with pytest.raises(InputError, match="at least 1"):
        NoRepeat(0)
    for beam in (1, 2):
        with pytest.raises(InputError, match="a preference is of one path"):
            search(decoder, 1, [RepetitionPenalty(2.0, [[]])], beam=beam)
    with pytest.raises(InputError, match="repetition_penalty is of generate and of one path"):
        DecodeOptions(repetition_penalty=2.0, beam=2)
