"""Where the tokens of an output stand in its text."""

from collections.abc import Sequence

import pytest

from saccade.data.tokenizers import TOKENIZERS, Tokenizer, train_tokenizer
from saccade.tasks.words import token_spans

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
