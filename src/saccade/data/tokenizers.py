"""Text to token ids and back, on the Rust `tokenizers` library: five kinds, one set of specials.

The special tokens have ids 0 to 3 in every vocabulary trained here, and text never becomes one of
them: they are not registered as "added tokens", which the library would look for inside a text,
and every kind cuts at `<` and `>`, so that no piece of text can be spelt like them.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers as hf
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from saccade.data.durable import replace_file
from saccade.data.foreign import GROWTH, SLACK, checked, guarded, read_content, special_ids
from saccade.errors import InputError, nearest

SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
PAD, BOS, EOS, UNK = range(4)
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())  # one printable letter for each byte
Ids = tuple[int, int, int, int]


class Tokenizer:
    """A trained tokenizer: text to ids, ids to text, and what to show people."""

    def __init__(self, inner: hf.Tokenizer, specials: Ids = (PAD, BOS, EOS, UNK)):
        self.inner = inner
        self.pad, self.bos, self.eos, self.unk = specials
        self.specials = frozenset(specials)
        self.controls = frozenset({self.pad, self.bos, self.eos})
        self.byte_level = '"ByteLevel"' in json.dumps(json.loads(inner.to_str())["decoder"])
        self._shown: dict[int, str] = {}  # pieces as people read them

    @property
    def vocab_size(self) -> int:
        return self.inner.get_vocab_size(with_added_tokens=True)

    @property
    def lowercase(self) -> bool:
        """Whether capitals are read as small letters."""
        found = str(json.loads(self.inner.to_str())["normalizer"])
        return "'Lowercase'" in found or "'lowercase': True" in found

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without begin and end; no text gives a control id."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """`encode` of many texts, on all cores."""
        with guarded("encode"):
            found = self.inner.encode_batch_fast(list(texts), add_special_tokens=False)
            rows = [encoding.ids for encoding in found]
        return [self._textual(ids, text) for ids, text in zip(rows, texts, strict=True)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of these ids; the special ones are skipped."""
        with guarded("decode"):
            return self.inner.decode([int(i) for i in ids if i not in self.specials])

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Each piece as people read it: `▁` for a space, escapes for what cannot be printed."""
        shown = self._shown
        return [shown.get(i) or shown.setdefault(i, self._show(i)) for i in map(int, ids)]

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The characters [start, end) of each token of `encode(text)`, without outer spaces."""
        with guarded("encode"):
            found = self.inner.encode(text, add_special_tokens=False)
        places = zip(found.ids, found.offsets, strict=True)
        return [_trim(text, *place) for i, place in places if i not in self.controls]

    def save(self, path: str | Path) -> None:
        """Write a tokenizer.json as the `tokenizers` library has it, whole or not at all."""
        replace_file(Path(path), [self.inner.to_str(pretty=True).encode()])

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read a tokenizer.json, ours or another's; it is checked before it is used."""
        return cls.parse(read_content(Path(path)), Path(path))

    @classmethod
    def parse(cls, content: dict[str, Any], path: Path) -> "Tokenizer":
        """The tokenizer that `path` describes in the way of a tokenizer.json."""
        inner = checked(content, path)
        return cls(inner, special_ids(inner, str(path)))

    def _textual(self, ids: list[int], text: str) -> list[int]:
        """Without control ids: a model from elsewhere may spell them, or mean one by unknown."""
        if len(ids) > GROWTH * len(text.encode()) + SLACK:
            raise InputError(f"the tokenizer makes {len(ids):,} tokens of {len(text):,} characters")
        if self.controls.isdisjoint(ids):  # always so with ours
            return ids
        return [i for i in ids if i not in self.controls]

    def _show(self, token: int) -> str:
        piece = self.inner.id_to_token(token) or SPECIALS[UNK]
        if self.byte_level and all(letter in LETTERS for letter in piece):
            piece = bytes(map(LETTERS.__getitem__, piece)).decode(errors="backslashreplace")
            piece = piece.replace(" ", "▁")
        piece = piece.strip(" ") or "▁"
        return piece if piece.isprintable() else piece.encode("unicode_escape").decode()


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    if not piece.strip():
        return start, end
    return start + len(piece) - len(piece.lstrip()), end - len(piece) + len(piece.rstrip())


def _byte_letters() -> dict[str, int]:
    """GPT-2's alphabet: printable Latin-1 stands for itself, the other bytes from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(b): b for b in printable} | {chr(0x100 + n): b for n, b in enumerate(others)}


LETTERS = _byte_letters()

# Training cost grows with the longest word: long texts are cut between words, or inside giant ones.
CHUNK = re.compile(r".{1,512}(?=\s)|.{1,128}", re.DOTALL)
UNBROKEN = 8192  # characters without a space that a line may contribute to a unigram model


def _chunks(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        yield from (text,) if len(text) <= 512 else CHUNK.findall(text)


def _unigram_chunks(texts: Iterable[str]) -> Iterator[str]:
    """A megabyte without a space would take this trainer minutes: its beginning has to do."""
    for text in texts:
        unbroken = 0
        for chunk in _chunks([text]):
            unbroken += 0 if len(chunk) < 128 or " " in chunk else len(chunk)
            if unbroken <= UNBROKEN:
                yield chunk


def _some(texts: Iterable[str]) -> Iterator[str]:
    """The texts that are not empty; there must be one."""
    empty = True
    for text in filter(None, texts):
        empty = False
        yield text
    if empty:
        raise InputError("no text to train a tokenizer on")


def _nothing(texts: Iterable[str]) -> Iterator[str]:  # noqa: ARG001
    return iter(())


# A word is letters and digits; French elisions (l', qu') and English endings ('s, 'll) stand
# apart; a sign takes its spaces along, so that decoding puts back exactly those.
WORD = "|".join(
    [
        r"(?i:(?:[cdjlmnst]|qu|jusqu|lorsqu|puisqu|quoiqu)['’](?=\p{L}))",
        r"\p{N}+(?:[.,]\p{N}+)+",
        r"[\p{L}\p{M}\p{N}_]+(?:['’](?!(?i:s|re|ve|ll|d|m)\b)\p{L}+)*",
        r" ?['’](?i:s|re|ve|ll|d|m)\b ?",
        r" ?[^\s\p{L}\p{M}\p{N}_] ?",
    ]
)


def _join_words() -> decoders.Decoder:
    """A space between two words, none beside a sign: it has brought its own."""
    border = "\x01"
    return decoders.Sequence(
        [
            decoders.Replace(Regex(r"^(?=[\p{L}\p{M}\p{N}_])"), border),
            decoders.Fuse(),
            decoders.Replace(
                Regex(rf"(?<=[\p{{L}}\p{{M}}\p{{N}}_]){border}(?=[\p{{L}}\p{{M}}\p{{N}}_])"), " "
            ),
            decoders.Replace(border, ""),
        ]
    )


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of tokenizer is put together and trained."""

    model: Callable[[], models.Model]
    cut: Callable[[], pre_tokenizers.PreTokenizer]
    join: Callable[[], decoders.Decoder]
    trainer: Callable[[int], trainers.Trainer]
    smallest: int = len(SPECIALS) + 1
    texts: Callable[[Iterable[str]], Iterator[str]] = _chunks
    alphabet: bool = False  # a character that no text showed is unknown for ever


def _cut_bytes() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.ByteLevel(add_prefix_space=False)


def _bpe_trainer(vocab_size: int) -> trainers.Trainer:
    return trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIALS),
        initial_alphabet=BYTES,
        show_progress=False,
    )


def _unigram_trainer(vocab_size: int) -> trainers.Trainer:
    return trainers.UnigramTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIALS),
        unk_token=SPECIALS[UNK],
        initial_alphabet=BYTES,
        show_progress=False,
    )


def _word_trainer(vocab_size: int) -> trainers.Trainer:
    return trainers.WordLevelTrainer(
        vocab_size=vocab_size, special_tokens=list(SPECIALS), show_progress=False
    )


def _character_trainer(vocab_size: int) -> trainers.Trainer:
    """BPE's alphabet alone: no pair is ever frequent enough to be merged."""
    return trainers.BpeTrainer(
        vocab_size=vocab_size,
        limit_alphabet=vocab_size - len(SPECIALS),
        special_tokens=list(SPECIALS),
        min_frequency=1 << 62,
        show_progress=False,
    )


EVERY_BYTE = len(SPECIALS) + len(BYTES)  # with these, nothing is ever unknown

TOKENIZERS = {
    "bpe": Kind(models.BPE, _cut_bytes, decoders.ByteLevel, _bpe_trainer, EVERY_BYTE),
    "unigram": Kind(
        models.Unigram,
        _cut_bytes,
        decoders.ByteLevel,
        _unigram_trainer,
        EVERY_BYTE,
        _unigram_chunks,
    ),
    "words": Kind(
        lambda: models.WordLevel(vocab={SPECIALS[UNK]: 0}, unk_token=SPECIALS[UNK]),
        lambda: pre_tokenizers.Split(Regex(WORD), "removed", invert=True),
        _join_words,
        _word_trainer,
    ),
    "characters": Kind(
        lambda: models.BPE(unk_token=SPECIALS[UNK]),
        lambda: pre_tokenizers.Split(Regex(r"\s?\S{1,64}|\s"), "isolated"),
        decoders.Fuse,
        _character_trainer,
        alphabet=True,
    ),
    "bytes": Kind(
        models.BPE,
        _cut_bytes,
        decoders.ByteLevel,
        lambda _: _bpe_trainer(EVERY_BYTE),
        texts=_nothing,
    ),
}


def train_tokenizer(
    kind: str, texts: Iterable[str], vocab_size: int, lowercase: bool = False
) -> Tokenizer:
    """A tokenizer learnt from `texts`, of at most `vocab_size` tokens; equal texts, equal file."""
    if kind not in TOKENIZERS:
        raise InputError(f"unknown tokenizer {kind!r}; {nearest(kind, TOKENIZERS)}")
    made = TOKENIZERS[kind]
    if vocab_size < made.smallest:
        raise InputError(f"vocab_size = {vocab_size}; {kind} needs at least {made.smallest}")
    inner = hf.Tokenizer(made.model())
    inner.pre_tokenizer, inner.decoder = made.cut(), made.join()
    if lowercase:
        inner.normalizer = normalizers.Lowercase()
    with guarded("learn from"):
        learned = made.texts(_some(texts))
        if made.alphabet:
            learned = iter([_alphabet(learned, vocab_size - len(SPECIALS), lowercase)])
        inner.train_from_iterator(learned, made.trainer(vocab_size))
    return Tokenizer(_settled(inner))


def _alphabet(texts: Iterable[str], most: int, lowercase: bool) -> str:
    """The most frequent characters, of equal ones the first: the library takes some of those."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(normalizers.Lowercase().normalize_str(text) if lowercase else text)
    return "".join(sorted(counts, key=lambda letter: (-counts[letter], letter))[:most])


def _settled(inner: hf.Tokenizer) -> hf.Tokenizer:
    """The trained tokenizer, with no added tokens and nothing that depends on hash order."""
    content = json.loads(inner.to_str())
    content["added_tokens"] = []
    if content["model"]["type"] == "Unigram":
        specials, pieces = content["model"]["vocab"][:4], content["model"]["vocab"][4:]
        # Bytes the text never showed are scored from the lowest upwards in the order of a hash
        # table, 1e-4 apart; and sums differ in their last bits. Level the first, round the second.
        lowest = min(score for _, score in pieces)
        unseen = lowest + 1e-4 * (len(BYTES) + 1)
        level = [(p, lowest if len(p) == 1 and s < unseen else s) for p, s in pieces]
        order = sorted(((-round(score, 6), piece) for piece, score in level))
        content["model"]["vocab"] = [*specials, *([piece, -score] for score, piece in order)]
    return hf.Tokenizer.from_str(json.dumps(content, ensure_ascii=False))
