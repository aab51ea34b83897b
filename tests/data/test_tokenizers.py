"""Tokenizers lose nothing, never make control ids of text, and train the same every time."""

import errno
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import saccade
from saccade.data.tokenizers import SPECIALS, TOKENIZERS, Tokenizer, train_tokenizer
from saccade.errors import InputError

TEXTS = [
    "Jane visite l'Afrique en septembre.",
    "Où est-il ? Aujourd'hui, qu'elle parle !",
    "The animal didn't cross the street because it was too tired.",
    "It's the boy's dog (a big one), isn't it?",
    "<pad> <s> </s> <unk> <pad><s></s><unk>",
] * 8
LOSSLESS = ("bpe", "unigram", "bytes")
HOSTILE = st.sampled_from(
    [*SPECIALS, " ", "  ", "\0", "🙂", "é", "▁", "Ġ", "\n", "\u2028", "<", ">"]
)
TEXT = st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | HOSTILE).map(
    "".join
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Each kind as trained, and as it comes back from its file."""
    folder, made = tmp_path_factory.mktemp("tokenizers"), {}
    for kind in TOKENIZERS:
        made[kind] = train_tokenizer(kind, TEXTS, 300)
        made[kind].save(folder / f"{kind}.json")
        made[f"{kind} loaded"] = Tokenizer.load(folder / f"{kind}.json")
    return made


@settings(deadline=None, max_examples=50)
@given(TEXT)
def test_text_is_text(trained, text):
    for name, tokenizer in trained.items():
        ids = tokenizer.encode(text)
        assert not {tokenizer.pad, tokenizer.bos, tokenizer.eos} & set(ids), name
        assert all(0 <= i < tokenizer.vocab_size for i in ids), name
        assert ids == tokenizer.encode_batch([text, "x"])[0], name
        assert ids == trained[name.split()[0]].encode(text), name
        spans = tokenizer.spans(text)
        assert len(spans) == len(ids) == len(tokenizer.tokens(ids)), name
        assert all(0 <= start <= end <= len(text) for start, end in spans), name
        if name.split()[0] in LOSSLESS:
            assert tokenizer.decode(ids) == text, name
            assert tokenizer.unk not in ids


@pytest.fixture(scope="module")
def characters():
    return train_tokenizer("characters", ["abcdefghijklmnopé <>/-'"], 100)


@settings(deadline=None)
@given(st.text("abcdefghijklmnopé <>/-'", max_size=30))
def test_known_characters_come_back(characters, text):
    assert characters.decode(characters.encode(text)) == text
    assert len(characters.encode(text)) == len(text)


def test_one_set_of_specials(trained):
    for tokenizer in trained.values():
        assert (tokenizer.pad, tokenizer.bos, tokenizer.eos, tokenizer.unk) == (0, 1, 2, 3)
        assert tokenizer.tokens([0, 1, 2, 3]) == list(SPECIALS)
        ids = tokenizer.encode("the street")
        assert tokenizer.decode([1, *ids, 2, 0, 0]) == tokenizer.decode(ids)


def test_words_stand_apart_and_come_back(trained):
    tokenizer = trained["words loaded"]
    for text in TEXTS[:4]:
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.tokens(tokenizer.encode(TEXTS[0]))[1:5] == ["visite", "l'", "Afrique", "en"]
    assert tokenizer.tokens(tokenizer.encode(TEXTS[3]))[:5] == ["It", "'s", "the", "boy", "'s"]
    assert tokenizer.unk in tokenizer.encode("an unheard word")


def test_pieces_are_readable_and_spans_point_at_them():
    tokenizer = train_tokenizer("bpe", ["le garçon a mangé"] * 50, 400)
    ids = tokenizer.encode("le garçon a")
    assert tokenizer.tokens(ids) == ["le", "▁garçon", "▁a"]
    assert tokenizer.spans("le garçon a") == [(0, 2), (3, 9), (10, 11)]
    assert tokenizer.tokens(tokenizer.encode("\n\0")) == ["\\n", "\\x00"]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_lowercase_and_size(kind):
    tokenizer = train_tokenizer(kind, TEXTS, 280, lowercase=True)
    assert tokenizer.encode("THE Street") == tokenizer.encode("the street")
    assert tokenizer.vocab_size <= 280
    if kind in ("words", "characters"):
        assert train_tokenizer(kind, TEXTS, 12).vocab_size == 12


def test_training_gives_the_same_file_in_every_process(tmp_path):
    """Hash tables of the library are seeded anew in every process."""
    script = (
        "import hashlib, sys; from saccade.data.tokenizers import *\n"
        "texts = [f'{w} {w}{n} the cat é' for n in range(40) for w in ('one', 'two', 'dreißig')]\n"
        "for kind in TOKENIZERS:\n"
        "    train_tokenizer(kind, texts, 400).save(sys.argv[1])\n"
        "    print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "tokenizer.json")]
    environment = os.environ | {"PYTHONPATH": str(Path(saccade.__file__).parents[1])}
    one, other = (
        subprocess.run(command, capture_output=True, check=True, env=environment) for _ in range(2)
    )
    assert one.stdout == other.stdout
    assert len(set(one.stdout.split())) == len(TOKENIZERS)


def test_a_saved_tokenizer_is_on_the_disk_before_it_has_its_name(tmp_path, trained, monkeypatch):
    fsync, replace, seen = os.fsync, os.replace, []

    def flushed(descriptor):
        fsync(descriptor)
        place = Path(f"/proc/self/fd/{descriptor}").readlink()
        seen.append(place if place.is_dir() else place.read_bytes())

    def renamed(old, new):
        replace(old, new)
        seen.append(Path(new).name)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", renamed)
    path = tmp_path / "tokenizer.json"
    trained["bpe"].save(path)
    assert seen == [path.read_bytes(), path.name, tmp_path]


def test_a_full_disk_leaves_the_tokenizer_that_was_there(tmp_path, trained, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "tokenizer.json"
    trained["bpe"].save(path)
    before = path.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        trained["words"].save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "characters"])
def test_a_megabyte_without_a_space_is_no_trouble(kind):
    digits = "".join(hashlib.sha256(str(n).encode()).hexdigest() for n in range(2**14))
    tokenizer = train_tokenizer(kind, [*TEXTS, digits], 300)
    assert kind == "words" or tokenizer.decode(tokenizer.encode(digits)) == digits


@pytest.mark.parametrize(
    ("kind", "texts", "size", "message"),
    [
        ("bep", TEXTS, 300, "did you mean 'bpe'"),
        ("bpe", TEXTS, 100, "at least 260"),
        ("unigram", [], 300, "no text"),
        ("words", ["", ""], 300, "no text"),
    ],
)
def test_wrong_calls(kind, texts, size, message):
    with pytest.raises(InputError, match=message):
        train_tokenizer(kind, texts, size)


def foreign(tmp_path, **changes):
    """A unigram vocabulary from elsewhere: its end token is a piece, and added to the tokenizer."""
    pieces = ["<unk>", "</s>", "<pad>", "▁", "a", "b", "<", "/", "s", ">", "a</s>"]
    end = {"id": 1, "content": "</s>", "special": False, "normalized": False}
    content = {
        "version": "1.0",
        "truncation": {"max_length": 1, "strategy": "LongestFirst", "stride": 0},
        "padding": None,
        "added_tokens": [end | dict.fromkeys(["single_word", "lstrip", "rstrip"], False)],
        "normalizer": None,
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
        "post_processor": None,
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always"},
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [[p, -1.0] for p in pieces]},
    }
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(content | changes))
    return path


def test_a_tokenizer_from_elsewhere(tmp_path):
    tokenizer = Tokenizer.load(foreign(tmp_path))
    assert (tokenizer.unk, tokenizer.eos, tokenizer.pad) == (0, 1, 2)
    assert tokenizer.bos == tokenizer.eos, "who has no begin uses the end"
    assert tokenizer.decode(tokenizer.encode("ab ba")) == "ab ba"
    for text in ("</s>", "a</s>b <pad>", "b</s>"):
        ids = tokenizer.encode(text)
        assert not {1, 2} & set(ids)
        assert len(tokenizer.spans(text)) == len(ids)
    tokenizer.save(tmp_path / "again.json")
    assert Tokenizer.load(tmp_path / "again.json").encode("b</s> a") == tokenizer.encode("b</s> a")


def test_an_added_end_token_in_a_text_keeps_its_letters(tmp_path, trained):
    content = json.loads(trained["bytes"].inner.to_str())
    flags = dict.fromkeys(["single_word", "lstrip", "rstrip", "normalized", "special"], False)
    content["added_tokens"] = [{"id": 2, "content": "</s>"} | flags]
    (tmp_path / "t.json").write_text(json.dumps(content))
    tokenizer = Tokenizer.load(tmp_path / "t.json")
    assert tokenizer.decode(tokenizer.encode("a</s>b")) == "a</s>b"


WORDS = {name: number for number, name in enumerate([*SPECIALS, "a", "b"])}


@pytest.mark.parametrize("unknown", ["<unk>", "</s>"])
def test_one_that_numbers_its_specials_as_ours_may_still_spell_them(tmp_path, unknown):
    path = foreign(
        tmp_path,
        added_tokens=[],
        pre_tokenizer={"type": "WhitespaceSplit"},
        model={"type": "WordLevel", "vocab": WORDS, "unk_token": unknown},
    )
    tokenizer = Tokenizer.load(path)
    ids = tokenizer.encode("a </s> <s> c b <pad>")
    assert ids == [4, 3, 5] if unknown == "<unk>" else [4, 5]
    assert len(tokenizer.spans("a </s> <s> c b <pad>")) == len(ids)


REPLACE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aaaaaaaa"}
ANYWHERE = REPLACE | {"pattern": {"Regex": "(?=.)"}, "content": "a"}
BYTES_AGAIN = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}


def numbered(**numbers):
    return {"model": {"type": "WordLevel", "vocab": WORDS | numbers, "unk_token": "<unk>"}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"normalizer": {"type": "Nfc"}}, "unknown normalizer 'Nfc'"),
        ({"decoder": {"type": "Sequence", "decoders": [{"type": "Evil"}]}}, "unknown decoder"),
        ({"pre_tokenizer": {"no": "type"}}, "unknown pre_tokenizer None"),
        ({"model": {"type": "BPE", "dropout": 0.5, "vocab": {}, "merges": []}}, "dropout"),
        ({"normalizer": REPLACE | {"content": "x" * 99}}, "inserts more than"),
        ({"normalizer": {"type": "Sequence", "normalizers": [REPLACE] * 9}}, "times longer"),
        ({"normalizer": {"type": "Sequence", "normalizers": [REPLACE] * 99}}, "parts"),
        ({"normalizer": {"type": "Sequence", "normalizers": [ANYWHERE] * 5}}, "32 times longer"),
        ({"normalizer": REPLACE | {"pattern": {"String": ""}}}, "its pattern is empty"),
        (
            {"pre_tokenizer": {"type": "Sequence", "pretokenizers": [BYTES_AGAIN] * 5}},
            "32 times longer",
        ),
        ({"normalizer": {"type": "Sequence", "normalizers": 5}}, "normalizers is '5', expected a"),
        ({"normalizer": {"type": "Prepend", "prepend": None}}, "prepend is None, expected text"),
        ({"added_tokens": 5}, "added_tokens is '5', expected a list"),
        ({"added_tokens": [{"content": []}]}, "cannot read"),
        (numbered(c=1000), "7 tokens are not numbered 0 to 6"),
        (numbered(c=2), "7 tokens are not numbered 0 to 6"),
        ({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}}, "cannot"),
        ({"model": {"type": "Unigram", "unk_id": 7, "vocab": []}}, "cannot read"),
        (
            {
                "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"},
                "added_tokens": [],
            },
            "no end",
        ),
        ({"model": 3}, "no model"),
        (
            {"model": {"type": "WordPiece", "vocab": {}, "max_input_chars_per_word": 10**9}},
            "max_input_chars_per_word is 1000000000, at most 256 go",
        ),
    ],
)
def test_a_hostile_tokenizer_is_refused(tmp_path, changes, message):
    with pytest.raises(InputError, match=message):
        Tokenizer.load(foreign(tmp_path, **changes)).encode("a text")


def test_files_that_are_no_tokenizers(tmp_path):
    for content in (b"", b"\xff", b"[" * 100_000, b"[]"):
        (tmp_path / "t.json").write_bytes(content)
        with pytest.raises(InputError, match="not a tokenizer"):
            Tokenizer.load(tmp_path / "t.json")
    with pytest.raises(InputError, match="cannot be read"):
        Tokenizer.load(tmp_path / "absent.json")


def test_text_that_no_utf8_can_hold_is_an_input_error(trained):
    with pytest.raises(InputError):
        trained["bpe"].encode("\ud800")
