"""Tokens become text as they come: whole letters, nothing of a stop string."""

import pytest
import torch
from decoding.tiny_decoders import Table

from saccade.data.tokenizers import train_tokenizer
from saccade.decoding.constraints import RepetitionPenalty
from saccade.decoding.texts import before_stop, first_stop, spoken, stopping
from saccade.decoding.walk import Bounds, gather_hypotheses, walk

TEXT = "Ünïcödé 🙂🙃 and plain, l'été; a b  c"


def letters(ids):
    return "".join(map(chr, ids))


@pytest.mark.parametrize("kind", ["bytes", "characters", "bpe", "words"])
@pytest.mark.parametrize("before", [0, 3, 30])
def test_pieces_are_the_text(kind, before):
    tokenizer = train_tokenizer(kind, [TEXT], 300)
    ids = tokenizer.encode(TEXT)
    known = tokenizer.decode(ids[:before])
    pieces = list(spoken(tokenizer.decode, ids[:before], ids[before:]))
    if not known.endswith("\ufffd"):
        assert known + "".join(pieces) == tokenizer.decode(ids)
    assert all(pieces)
    assert not any("\ufffd" in piece for piece in pieces)


def test_tokens_before_a_stop_say_all_that_is_said():
    said = ["ab", "c\n", "\n", "d"]

    def decode(ids):
        return "".join(said[i] for i in ids)

    found = [before_stop(decode, [], range(4), [stop]) for stop in ("a", "c", "\n", "\nd", "x")]
    assert found == [0, 1, 2, 2, None]  # a token of which a part is said stays
    assert before_stop(decode, [0], [1, 2], ["c"]) == 0
    tokenizer = train_tokenizer("bytes", ["a"], 300)
    assert before_stop(tokenizer.decode, [], tokenizer.encode("a🙂\n"), ["\n"]) == 5


def test_a_letter_waits_until_it_is_whole():
    tokenizer = train_tokenizer("bytes", ["a"], 300)
    ids = tokenizer.encode("a🙂b")
    assert list(spoken(tokenizer.decode, [], ids)) == ["a", "🙂", "b"]
    first, rest = spoken(tokenizer.decode, [], ids[:3])
    assert first == "a"
    assert "\ufffd" in rest  # what never became whole is shown as broken, at the end


@pytest.mark.parametrize(
    ("stops", "expected"),
    [
        (["you:"], "bot: hi\n"),
        (["\nyou:", "zzz"], "bot: hi"),
        (["yo"], "bot: hi\n"),
        (["b"], ""),
        (["none"], "bot: hi\nyou: yes"),
        (["hi\ny", "t:"], "bo"),
    ],
)
def test_nothing_of_a_stop_string_is_said(stops, expected):
    pieces = list(spoken(letters, [], map(ord, "bot: hi\nyou: yes"), stops))
    assert "".join(pieces) == expected
    assert all(pieces)


def test_what_cannot_begin_a_stop_string_does_not_wait():
    assert list(spoken(letters, [], map(ord, "abcxay"), ["xyz"])) == ["a", "b", "c", "xa", "y"]


def test_the_first_stop():
    assert first_stop("a b c", ["c", "b"]) == 2
    assert first_stop("a b c", ["d"]) is None
    assert first_stop("a b c", []) is None


def test_a_sentence_ends_at_its_stop_and_the_others_go_on():
    """Sent back into the walk, so no step is made for it any more."""
    following = torch.eye(9).roll(1, dims=1) * 9  # after each token the next
    decoder, seen = Table(following.expand(2, 8, 9, 9)), []
    steps = walk(decoder, decoder.start([0, 1]), Bounds(first=[2, 3], eos=1, max_lengths=[4, 4]))
    stopped = stopping(steps, lambda ids: "".join(map(str, ids)), ["45"])
    found = gather_hypotheses(
        (seen.append(step.sentences) or step for step in stopped), 2, eos=1, length_penalty=0.0
    )
    assert [each.tokens for each in found] == [[3, 4, 5], [4, 5]]
    assert seen == [[0, 1], [0, 1], [0]]


def test_a_penalty_weighs_what_was_said_or_prompted():
    penalty = RepetitionPenalty(2.0, [[1], [0, 2]])
    log_probs = torch.log(torch.tensor([[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]]))
    found = penalty(log_probs, torch.tensor([[2], [2]]), torch.tensor([0, 1]))
    weights = torch.tensor([[1.0, 2.0, 2.0], [2.0, 1.0, 2.0]])
    torch.testing.assert_close(found, log_probs * weights)
    forbidden = torch.tensor([[float("-inf"), 0.0, float("-inf")]])
    assert penalty(forbidden, torch.tensor([[0]]), torch.tensor([0])).tolist() == forbidden.tolist()


def test_a_penalty_changes_the_choice_and_not_what_it_is_worth():
    logits = torch.tensor([0.0, 0.0, 3.0, 2.9]).log_softmax(-1).expand(1, 8, 4, 4)
    worth = logits[0, 0, 0].double()
    for penalty, tokens in ((1.0, [2, 2, 2]), (9.0, [2, 3, 0])):
        decoder = Table(logits)
        steps = walk(
            decoder,
            decoder.start([0]),
            Bounds(first=0, eos=9, max_lengths=[3]),
            preferences=[RepetitionPenalty(penalty, [[]])],
        )
        (found,) = gather_hypotheses(steps, 1, eos=9, length_penalty=0.0)
        assert found.tokens == tokens
        assert found.token_log_probs == pytest.approx(worth[tokens].tolist(), abs=1e-6)
