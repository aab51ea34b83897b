"""What an output may hold: nothing that is not text, the beginning it was given, and how much."""

from collections.abc import Sequence

from saccade.data.tokenizers import Tokenizer
from saccade.decoding.constraints import (
    Banned,
    Constraint,
    ForcedPrefix,
    Preference,
    RepetitionPenalty,
)
from saccade.decoding.options import DecodeOptions
from saccade.errors import InputError


def unsaid(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokens that are not text; the end is the one of them that may be said."""
    never = {tokenizer.pad, tokenizer.bos, tokenizer.unk} - {tokenizer.eos}
    return tuple(sorted(never))


def prefix_ids(tokenizer: Tokenizer, prefix: str) -> list[int]:
    """What an output begins with; the unknown, which is never said, cannot begin one."""
    ids = tokenizer.encode(prefix)
    if tokenizer.unk in ids:
        raise InputError(
            f"the prefix {prefix!r} holds what the vocabulary does not: leave that out"
        )
    return ids


def output_constraints(never: tuple[int, ...], begun: Sequence[Sequence[int]]) -> list[Constraint]:
    """Some tokens are never said, and each output begins as it was given."""
    found: list[Constraint] = [Banned(never)]
    if any(begun):
        found.append(ForcedPrefix(begun))
    return found


def output_preferences(
    options: DecodeOptions, prompts: Sequence[Sequence[int]]
) -> list[Preference]:
    """What the options say against repetition of the prompts and the outputs."""
    penalty = options.repetition_penalty
    return [] if penalty == 1 else [RepetitionPenalty(penalty, prompts)]


def output_limits(
    options: DecodeOptions,
    read: Sequence[Sequence[int]],
    begun: Sequence[Sequence[int]],
    most: int | None = None,
) -> list[int]:
    """How many tokens each output may have, its end and what it begins with counted.

    `read` are the inputs, `begun` is what the outputs begin with, `most` is what the model can say.
    """
    found = []
    for given, prefix in zip(read, begun, strict=True):
        limit = options.max_length(len(given), len(prefix))
        limit = limit if most is None else min(limit, most)
        if len(prefix) > limit:
            raise InputError(
                f"the prefix has {len(prefix):,} tokens, but the output at most {limit:,}: "
                "shorten the prefix, or raise length if it was given"
            )
        found.append(limit)
    return found
