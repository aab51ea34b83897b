"""A store holds what was encoded, is reused while nothing changed, and is never half there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import saccade
from saccade.data import store as stores
from saccade.data.store import build_store
from saccade.data.tokenizers import train_tokenizer
from saccade.errors import InputError

PAIRS = [(f"the cat {n} sees", f"le chat {n * n} voit le {n}") for n in range(300)]


@pytest.fixture(scope="module")
def tokenizers():
    return [train_tokenizer("bpe", side, 300) for side in zip(*PAIRS, strict=True)]


def refuse():
    raise AssertionError("the text was read again")
    yield


def contents(store):
    return [[side.tolist() for side in store.pair(i)] for i in range(len(store))]


def test_holds_what_was_encoded(tmp_path, tokenizers, monkeypatch):
    monkeypatch.setattr(stores, "LINES", 7)  # many chunks, the last one short
    source, target = tokenizers
    store = build_store(tmp_path / "store", PAIRS, source, target, "1")
    assert contents(store) == [[source.encode(s), target.encode(t)] for s, t in PAIRS]
    lengths = [[len(side) for side in pair] for pair in contents(store)]
    assert np.array_equal(np.diff(store.offsets).T, lengths)
    assert store.source.tokens.dtype == np.uint16
    assert (len(store), store.report.pairs, store.report.summary()) == (300, 300, "")
    for outside in (-1, 300):
        with pytest.raises(IndexError):
            store.pair(outside)


@pytest.mark.parametrize("mask", [0o022, 0o077])
def test_is_as_open_to_others_as_any_folder(tmp_path, tokenizers, mask):
    before = os.umask(mask)
    try:
        build_store(tmp_path / "store", PAIRS, *tokenizers, "1")
        (tmp_path / "usual").mkdir()
    finally:
        os.umask(before)
    modes = [(tmp_path / name).stat().st_mode for name in ("store", "usual")]
    assert modes[0] == modes[1]


def test_reused_until_text_tokenizer_or_limit_change(tmp_path, tokenizers):
    folder, (source, target) = tmp_path / "store", tokenizers
    first = build_store(folder, PAIRS, source, target, "1")
    assert contents(build_store(folder, refuse(), source, target, "1")) == contents(first)
    for changed in [
        (source, target, "2", None),
        (target, target, "1", None),
        (source, source, "1", None),
        (source, target, "1", 50),
    ]:
        with pytest.raises(AssertionError, match="read again"):
            build_store(folder, refuse(), *changed)
    assert len(build_store(folder, PAIRS[:9], source, target, "2")) == 9
    assert len(build_store(folder, PAIRS, source, target, "1")) == 300, "and back again"
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


def test_what_is_too_long_or_empty_is_dropped_on_both_sides(tmp_path):
    words = train_tokenizer("words", ["a b"], 10)
    pairs = [("a", "b"), ("a b a", "b"), ("a", "b b b"), (" ", "b"), ("a b", "a b")]
    store = build_store(tmp_path / "store", pairs, words, words, "1", max_length=2)
    assert len(store) == 2
    assert (store.report.pairs, store.report.too_long, store.report.empty) == (2, 2, 1)
    said = "of 5 pairs, dropped: 2 longer than task.max_length, 1 without tokens"
    assert store.report.summary() == said
    with pytest.raises(InputError, match=r"no pair is left.*max_length is 2"):
        build_store(tmp_path / "none", pairs[1:3], words, words, "1", max_length=2)
    assert not (tmp_path / "none").exists()


def test_a_large_vocabulary_needs_wider_numbers(tmp_path):
    many = train_tokenizer("words", [" ".join(f"w{n}" for n in range(70_000))], 80_000)
    store = build_store(tmp_path / "store", [("w69999 w1", "w2")], many, many, "1")
    assert store.source.tokens.dtype == np.uint32
    assert store.pair(0)[0].tolist() == many.encode("w69999 w1")


@pytest.mark.parametrize("name", ["source.tokens", "target.offsets", stores.MANIFEST])
def test_a_damaged_store_is_rebuilt(tmp_path, tokenizers, name):
    folder = tmp_path / "store"
    whole = contents(build_store(folder, PAIRS, *tokenizers, "1"))
    for damage in (lambda path: path.write_bytes(path.read_bytes()[:-8]), Path.unlink):
        damage(folder / name)
        assert contents(build_store(folder, PAIRS, *tokenizers, "1")) == whole


def test_an_error_while_building_leaves_the_old_store(tmp_path, tokenizers):
    folder = tmp_path / "store"
    build_store(folder, PAIRS, *tokenizers, "1")
    with pytest.raises(AssertionError):
        build_store(folder, refuse(), *tokenizers, "2")
    assert len(build_store(folder, refuse(), *tokenizers, "1")) == 300
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


@pytest.mark.serial
def test_a_killed_build_is_not_taken_for_whole(tmp_path, tokenizers):
    script = (
        "import os, signal, sys; from pathlib import Path\n"
        "from saccade.data.store import build_store\n"
        "from saccade.data.tokenizers import train_tokenizer\n"
        "def pairs():\n"
        "    yield from [('a', 'b')] * 10_000\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "each = train_tokenizer('bytes', ['a'], 300)\n"
        "build_store(Path(sys.argv[1]), pairs(), each, each, '1')\n"
    )
    folder = tmp_path / "store"
    environment = os.environ | {"PYTHONPATH": str(Path(saccade.__file__).parents[1])}
    command = [sys.executable, "-c", script, str(folder)]
    assert subprocess.run(command, env=environment).returncode == -signal.SIGKILL
    assert not folder.exists()
    assert len(build_store(folder, PAIRS, *tokenizers, "1")) == 300
    (left,) = tmp_path.glob(".store-*")
    os.utime(left, (0, 0))
    build_store(folder, PAIRS, *tokenizers, "2")
    assert [path.name for path in tmp_path.iterdir()] == ["store"], "what was left is swept up"


@pytest.mark.parametrize("name", ["source.tokens", "target.offsets"])
def test_a_byte_that_changed_is_found(tmp_path, tokenizers, name):
    """Of the same size, so that only what it holds can tell."""
    whole = contents(build_store(tmp_path / "store", PAIRS, *tokenizers, "1"))
    damaged = bytearray((tmp_path / "store" / name).read_bytes())
    damaged[-1] ^= 0xFF
    (tmp_path / "store" / name).write_bytes(damaged)
    assert contents(build_store(tmp_path / "store", PAIRS, *tokenizers, "1")) == whole
