"""Where the tokens of an output stand in its text, and what its words looked at."""

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
import torch

from saccade.data.tokenizers import TOKENIZERS, Tokenizer, train_tokenizer
from saccade.inspection.alignment import AttentionMap
from saccade.tasks.task import Prediction
from saccade.tasks.words import token_spans, word_map

TEXT = "The cat  sat; it's 12 o'clock.\n\n Ça va ? 日本語 🙂👩‍👩‍👧 e\u0301 \ufffd end "


@pytest.mark.parametrize("name", TOKENIZERS)
def test_spans_end_where_every_prefix_decoded_ends(name: str) -> None:
    tokenizer = train_tokenizer(name, [TEXT, "the cat"] * 20, 300, lowercase=False)
    ids = [tokenizer.bos, *tokenizer.encode(TEXT), tokenizer.eos, *tokenizer.encode(TEXT)]
    prefixes = [len(tokenizer.decode(ids[: count + 1])) for count in range(len(ids))]
    assert [end for _, end in token_spans(tokenizer, ids)] == prefixes


def test_a_long_text_is_decoded_a_few_times_not_once_a_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tokenizer = train_tokenizer("bytes", [TEXT], 300, lowercase=False)
    decoded, decode = 0, Tokenizer.decode

    def counted(self: Tokenizer, ids: Sequence[int]) -> str:
        nonlocal decoded
        decoded += len(ids)
        return decode(self, ids)

    monkeypatch.setattr(Tokenizer, "decode", counted)
    broken = tokenizer.encode("日")[:1] * 500  # bytes that never make a letter
    for ids in (tokenizer.encode(TEXT * 20), broken):
        decoded = 0
        token_spans(tokenizer, ids)
        assert decoded < 50 * len(ids)


def looked(read: int, weights: list[list[float]], steps_late: int = 0) -> list[list[float]]:
    """What the words `a b` said of `a b c` looked at, when only `read` tokens were read."""
    tokenizer = train_tokenizer("words", ["a b c"], 300, lowercase=False)
    task = SimpleNamespace(source=tokenizer, target=tokenizer)
    source, said = [*["a", "b", "c"][:read], "</s>"], ["a", "b", "</s>"]
    prediction = Prediction(
        text="a b", score=0.0, tokens=said, source_tokens=source, ids=tokenizer.encode("a b"),
        attention=AttentionMap({"only": torch.tensor([weights])}, source, said),
    )  # fmt: skip
    found: list[list[float]] = word_map(task, "a b c", prediction, steps_late).average().tolist()
    return found


def test_the_end_of_a_text_that_was_cut_is_no_word_of_it() -> None:
    whole = [[0.5, 0.25, 0.25, 0.0], [0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 1.0, 0.0]]
    assert looked(3, whole) == [[0.5, 0.25, 0.25], [0.0, 0.5, 0.0]]
    cut = [[0.25, 0.75], [1.0, 0.0], [0.5, 0.5]]  # `a` and the end
    assert looked(1, cut) == [[0.25, 0.0, 0.0], [1.0, 0.0, 0.0]]


def test_a_word_may_be_what_the_step_after_looked_at() -> None:
    weights = [[0.5, 0.25, 0.25, 0.0], [0.0, 0.5, 0.0, 0.5], [0.0, 0.0, 1.0, 0.0]]
    assert looked(3, weights, steps_late=1) == [[0.0, 0.5, 0.0], [0.0, 0.0, 1.0]]
