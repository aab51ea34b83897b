"""What an output may hold: nothing that is not text, and the beginning it was given."""

from collections.abc import Sequence

from saccade.data.tokenizers import Tokenizer
from saccade.decoding.constraints import ForcedPrefix
from saccade.decoding.options import DecodeOptions
from saccade.errors import InputError


def unsaid(tokenizer: Tokenizer) -> tuple[int, ...]:
    """The tokens that are not text; the end is the one of them that may be said."""
    never = {tokenizer.pad, tokenizer.bos, tokenizer.unk} - {tokenizer.eos}
    return tuple(sorted(never))


def forced_prefix(tokenizer: Tokenizer, prefixes: Sequence[str]) -> ForcedPrefix:
    """What each output begins with; the unknown, which is never said, cannot begin one."""
    rows = [tokenizer.encode(prefix) for prefix in prefixes]
    for prefix, ids in zip(prefixes, rows, strict=True):
        if tokenizer.unk in ids:
            raise InputError(
                f"the prefix {prefix!r} holds what the vocabulary does not: leave that out"
            )
    return ForcedPrefix(rows)


def refuse_of_generate(options: DecodeOptions) -> None:
    """What continues a prompt, asked of a translation."""
    if options.stop or options.repetition_penalty != 1:
        raise InputError("stop and repetition_penalty are of generate, not of translate")
