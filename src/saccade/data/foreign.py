"""A tokenizer.json is a small program: what is let in, and how far it may go.

Parts are accepted by name, growth is bounded before anything runs, and whatever the Rust library
throws (its panics are no Exceptions) becomes one message.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from saccade.errors import InputError, nearest

KNOWN = {
    "model": {"BPE", "Unigram", "WordLevel", "WordPiece"},
    "normalizer": {
        *("Sequence", "Lowercase", "NFC", "NFD", "NFKC", "NFKD", "StripAccents", "Strip"),
        *("BertNormalizer", "Replace", "Prepend", "Nmt", "Precompiled", "ByteLevel"),
    },
    "pre_tokenizer": {
        *("Sequence", "ByteLevel", "Whitespace", "WhitespaceSplit", "BertPreTokenizer", "Split"),
        *("Metaspace", "Punctuation", "Digits", "CharDelimiterSplit", "UnicodeScripts"),
    },
    "decoder": {
        *("Sequence", "ByteLevel", "WordPiece", "Metaspace", "BPEDecoder", "ByteFallback"),
        *("Fuse", "Strip", "Replace"),
    },
    "post_processor": {
        *("Sequence", "TemplateProcessing", "ByteLevel", "BertProcessing", "RobertaProcessing"),
    },
}
NESTED = ("normalizers", "pretokenizers", "decoders", "processors")  # the lists of a Sequence
INSERTS = {"Replace": "content", "Prepend": "prepend"}  # where a part says what it puts in
# Each byte beyond ASCII becomes two; each piece may get a mark: again and again, if repeated.
LENGTHENS = {"ByteLevel": 2, "Metaspace": 2}

# The names a role goes by, ours first. Who has no begin, padding or unknown uses the end.
ROLES = {
    "pad": ("<pad>", "[PAD]", "<|pad|>", "<|endoftext|>"),
    "bos": ("<s>", "<bos>", "[CLS]", "<|startoftext|>", "<|begin_of_text|>", "<|endoftext|>"),
    "eos": ("</s>", "<eos>", "[SEP]", "<|endoftext|>", "<|end_of_text|>", "<|im_end|>"),
    "unk": ("<unk>", "[UNK]"),
}

FILE_BYTES = 1 << 26
PARTS = 32
INSERTED = 16  # characters that one part may put in place of another
WORD = 256  # characters of a word that WordPiece takes apart, in time of their square; BERT's: 100
GROWTH, SLACK = 16, 64  # tokens, and bytes of text, for each byte that comes in


@contextmanager
def guarded(doing: str) -> Iterator[None]:
    """Whatever the library throws, Rust panics included, is one message."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, InputError):
        raise
    except BaseException as error:  # a panic derives from BaseException alone
        raise InputError(f"the tokenizer cannot {doing} this: {str(error)[:200]}") from None


def read_content(path: Path) -> dict[str, Any]:
    """What a tokenizer.json says, not yet checked."""
    try:
        if path.stat().st_size > FILE_BYTES:
            raise InputError(f"{path}: larger than {FILE_BYTES >> 20} MB, not read")
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not a tokenizer.json ({error})") from None
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise InputError(f"{path}: not a tokenizer.json (it has no model)")
    return content


def checked(content: dict[str, Any], path: Path) -> Tokenizer:
    """The tokenizer that was read from `path`, once every part of it is known and bounded."""
    for section, known in KNOWN.items():
        _check(section, known, content.get(section), path)
    if content["model"].get("dropout"):
        raise InputError(f"{path}: BPE dropout would make the same text differ; set it to null")
    longest = content["model"].get("max_input_chars_per_word", 0)
    if not isinstance(longest, int) or longest > WORD:
        raise InputError(
            f"{path}: max_input_chars_per_word is {str(longest)[:40]}, at most {WORD} go: words "
            "that long take minutes; BERT's is 100"
        )
    content = {**content, "truncation": None, "padding": None}  # batches are padded elsewhere
    _hide_controls(content, path)
    with guarded(f"read {path}:"):
        inner = Tokenizer.from_str(json.dumps(content))
        inner.encode_special_tokens = True  # "</s>" in a text is text
        numbers = sorted(inner.get_vocab(with_added_tokens=True).values())
    if numbers != list(range(len(numbers))):
        raise InputError(
            f"{path}: its {len(numbers)} tokens are not numbered 0 to {len(numbers) - 1}"
        )
    return inner


def _check(section: str, known: set[str], part: Any, path: Path) -> None:
    parts, factor = list(_parts(part, path)), 1
    if len(parts) > PARTS:
        raise InputError(f"{path}: {section} has {len(parts)} parts, more than {PARTS}")
    for one in parts:
        kind = one.get("type")
        if not isinstance(kind, str) or kind not in known:
            raise InputError(f"{path}: unknown {section} {kind!r}; {nearest(str(kind), known)}")
        factor *= _growth(one, f"{path}: {section} {kind}")
    if factor > GROWTH:
        raise InputError(f"{path}: {section} may make a text {factor} times longer")


def _growth(part: dict[str, Any], place: str) -> int:
    """How many times longer a part makes a long text at most."""
    kind = part["type"]
    if kind not in INSERTS:
        return LENGTHENS.get(kind, 1)
    inserted = part.get(INSERTS[kind])
    if not isinstance(inserted, str):
        raise InputError(f"{place}: {INSERTS[kind]} is {inserted!r}, expected text")
    if len(inserted) > INSERTED:
        raise InputError(f"{place} inserts more than {INSERTED} characters")
    if kind == "Prepend":
        return 1
    pattern = part.get("pattern")
    if pattern == {"String": ""}:
        raise InputError(f"{place}: its pattern is empty, which is found everywhere")
    # A regular expression may find nothing at all, between any two characters, and keep both.
    kept = isinstance(pattern, dict) and "Regex" in pattern
    return max(1, len(inserted) + kept)


def _parts(part: Any, path: Path) -> Iterator[dict[str, Any]]:
    """A part and, when it is a Sequence, those inside it."""
    if isinstance(part, dict):
        yield part
        for name in NESTED:
            for inner in _list(part, name, path):
                yield from _parts(inner, path)


def _list(content: dict[str, Any], name: str, path: Path) -> list[Any]:
    found = content.get(name)
    if found is not None and not isinstance(found, list):
        raise InputError(f"{path}: {name} is {str(found)[:40]!r}, expected a list")
    return found or []


def _hide_controls(content: dict[str, Any], path: Path) -> None:
    """Mark the control tokens as special, so that `encode_special_tokens` covers them."""
    controls = [name for names in ROLES.values() for name in names]
    for token in _list(content, "added_tokens", path):
        if isinstance(token, dict) and token.get("content") in controls:
            token["special"] = True


def special_ids(inner: Tokenizer, path: str) -> tuple[int, int, int, int]:
    """The ids of padding, begin, end and unknown, by their usual names."""
    eos = _first(inner, ROLES["eos"])
    if eos is None:
        raise InputError(f"{path}: no end token; it must have one of {', '.join(ROLES['eos'])}")
    others = {role: _first(inner, ROLES[role]) for role in ("pad", "bos", "unk")}
    pad, bos, unk = (eos if found is None else found for found in others.values())
    return pad, bos, eos, unk


def _first(inner: Tokenizer, names: tuple[str, ...]) -> int | None:
    ids = (inner.token_to_id(name) for name in names)
    return next((i for i in ids if i is not None), None)
