"""Their tokenizer files and our Tokenizer: the same ids for the same text, both ways."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Inner
from tokenizers import decoders, models, pre_tokenizers

from saccade.data.foreign import ROLES, guarded, read_content
from saccade.data.tokenizers import Tokenizer
from saccade.errors import InputError
from saccade.tasks.task import Warn
from saccade.training.checkpoint import read_object

MERGES_BYTES = 1 << 26
CONTROLS = dict.fromkeys(name for names in ROLES.values() for name in names)
FILE, CONFIG = "tokenizer.json", "tokenizer_config.json"


@dataclass(frozen=True, slots=True)
class TheirTokenizer:
    """A tokenizer of theirs, and whether it puts the begin before each text."""

    tokenizer: Tokenizer
    begins: bool


def read_tokenizer(folder: Path, vocab_size: int, warn: Warn) -> TheirTokenizer:
    """The tokenizer of a folder, of just as many tokens as the model has."""
    path = folder / FILE
    content = read_content(path) if path.is_file() else _old_files(folder)
    told = read_object(folder / CONFIG) if (folder / CONFIG).is_file() else {}
    if "auto_map" in told:
        raise InputError(f"{folder / CONFIG}: auto_map names code, which saccade does not run")
    cut = content.get("pre_tokenizer")
    if "add_prefix_space" in told and isinstance(cut, dict) and cut.get("type") == "ByteLevel":
        content["pre_tokenizer"] = {**cut, "add_prefix_space": bool(told["add_prefix_space"])}
    tokenizer = Tokenizer.parse(content, path)
    known = tokenizer.vocab_size
    if known > vocab_size:
        raise InputError(
            f"{path}: has {known} tokens; vocab_size in config.json is only {vocab_size}"
        )
    if known < vocab_size:
        warn(
            f"the model has {vocab_size - known} more tokens than its tokenizer; they are "
            f"called {_unused(known)} and so on"
        )
        tokenizer = Tokenizer.parse(_filled(tokenizer, vocab_size), path)
    # A tokenizer.json says itself what it adds; the older files leave it to the config.
    begins = _begins(tokenizer, warn) if path.is_file() else bool(told.get("add_bos_token"))
    return TheirTokenizer(tokenizer, begins)


def _old_files(folder: Path) -> dict[str, Any]:
    """What a tokenizer.json would say, from GPT-2's own vocab.json and merges.txt."""
    vocab, merges = folder / "vocab.json", folder / "merges.txt"
    for path in (vocab, merges):
        if not path.is_file():
            raise InputError(
                f"{folder}: no {FILE}, and no {path.name} either; the tokenizer's files belong to "
                "the model's"
            )
        if path.stat().st_size > MERGES_BYTES:
            raise InputError(f"{path}: larger than {MERGES_BYTES >> 20} MB, not read")
    with guarded(f"read {vocab} and {merges}:"):
        numbers, pairs = models.BPE.read_file(str(vocab), str(merges))
        inner = Inner(models.BPE(numbers, pairs))
        inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        inner.decoder = decoders.ByteLevel()
        inner.add_special_tokens([name for name in CONTROLS if name in numbers])
        added = folder / "added_tokens.json"
        later = read_object(added) if added.is_file() else {}
        inner.add_tokens(sorted(later, key=lambda name: later[name]))  # each takes the next number
        content: dict[str, Any] = json.loads(inner.to_str())
    return content


def _unused(number: int) -> str:
    return f"<|unused-{number}|>"


def _filled(tokenizer: Tokenizer, vocab_size: int) -> dict[str, Any]:
    """With a token for each number that had none; text never becomes one of them."""
    content: dict[str, Any] = json.loads(tokenizer.inner.to_str())
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    content["added_tokens"] += [
        {"id": number, "content": _unused(number), **plain, "special": True}
        for number in range(tokenizer.vocab_size, vocab_size)
    ]
    return content


def _begins(tokenizer: Tokenizer, warn: Warn) -> bool:
    """Whether their tokenizer puts the begin before a text."""
    with guarded("encode"):
        bare = tokenizer.inner.encode("a", add_special_tokens=False).ids
        dressed = tokenizer.inner.encode("a", add_special_tokens=True).ids
    begins = dressed == [tokenizer.bos, *bare]
    if not begins and dressed != bare:
        warn("the tokenizer puts special tokens around a text, which saccade leaves out")
    return begins


def tokenizer_files(tokenizer: Tokenizer, context: int | None, *, begins: bool) -> dict[str, Any]:
    """The contents of tokenizer.json and of tokenizer_config.json."""
    content: dict[str, Any] = json.loads(tokenizer.inner.to_str())
    roles = {"bos": tokenizer.bos, "eos": tokenizer.eos}
    if tokenizer.pad != tokenizer.eos:
        roles["pad"] = tokenizer.pad
    if tokenizer.unk != tokenizer.eos:
        roles["unk"] = tokenizer.unk
    names = {f"{role}_token": tokenizer.inner.id_to_token(i) for role, i in roles.items()}
    if begins:
        bos = names["bos_token"]
        text = [{"Sequence": {"id": "A", "type_id": 0}}]
        begin = [{"SpecialToken": {"id": bos, "type_id": 0}}]
        content["post_processor"] = {
            "type": "TemplateProcessing",
            "single": [*begin, *text],
            "pair": [*begin, *text, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {bos: {"id": bos, "ids": [tokenizer.bos], "tokens": [bos]}},
        }
    told = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        **names,
        "clean_up_tokenization_spaces": False,
        **({} if context is None else {"model_max_length": context}),
    }
    return {FILE: content, CONFIG: told}
