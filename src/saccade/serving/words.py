"""Which tokens make a word: so that people see words where a model sees pieces."""

from collections.abc import Sequence

import regex  # type: ignore[import-untyped]

from saccade.inspection.alignment import Span
from saccade.inspection.paper import visible

# Scripts that put no space between words: there a piece stands for itself.
UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
WORD = regex.compile(rf"[[\p{{L}}\p{{M}}\p{{N}}_]--[{UNSPACED}]]+['’]?", regex.VERSION1)


def group(text: str, spans: Sequence[Span], tokens: Sequence[str]) -> tuple[list[int], list[str]]:
    """The place of each token's word, and the words; a special token lies in none."""
    found = [match.span() for match in WORD.finditer(text)]
    places: list[int] = []
    words: list[str] = []
    current, last = 0, None  # the first word that may still meet a token; that of the last token
    for (start, end), token in zip(spans, tokens, strict=True):
        while current < len(found) and found[current][1] <= start:
            current += 1
        inside = start < end and current < len(found) and found[current][0] < end
        if not inside:
            words.append(visible(token))
        elif current != last:
            first, final = found[current]  # a piece may reach over the word's edge: 's
            words.append(visible(text[min(start, first) : max(end, final)].strip()))
        last = current if inside else None
        places.append(len(words) - 1)
    return places, words
