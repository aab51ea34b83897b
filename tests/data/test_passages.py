"""Texts come back as they were written, whole, and their token stream holds all of it."""

import gzip
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data import documents
from saccade.data.documents import Documents, passages
from saccade.data.streams import build_stream, open_stream
from saccade.data.tokenizers import train_tokenizer
from saccade.errors import InputError

TEXT = "First line.\n\n  an indented one\nthe last, without an end"
MANY = "".join(f"{n} bottles on the wall,\n\tso   many!\n\n" for n in range(500))
LETTERS = st.text(st.sampled_from("ab \n\té"), max_size=300)


def written(tmp_path, name, text):
    path = tmp_path / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    return str(path)


def rows(tmp_path, texts, name="a.jsonl"):
    return written(tmp_path, name, "".join(json.dumps({"text": text}) + "\n" for text in texts))


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "tunes.abc"])
@pytest.mark.parametrize("text", [TEXT, MANY, MANY + "\n", "x", "a" * 50_000, "b " * 20_000])
def test_passages_of_a_file_are_the_file(tmp_path, name, text):
    found = list(Documents([written(tmp_path, name, text)]))
    assert "".join(passage.text for passage in found) == text
    assert [p.first for p in found] == [True] + [False] * (len(found) - 1)
    assert [p.last for p in found] == [False] * (len(found) - 1) + [True]
    assert max(len(p.text) for p in found) <= 3 * documents.LONGEST


@settings(deadline=None)
@given(st.lists(LETTERS, max_size=20))
def test_passages_lose_nothing(lines):
    lines = [line + "\n" for line in lines]
    found = list(passages(lines))
    assert "".join(found) == "".join(lines)
    assert all(len(passage) >= documents.PASSAGE for passage in found[:-1])


def test_rows_are_documents_and_files_are_not(tmp_path):
    texts = ["one", "two\nlines\n", "  ", "", MANY]
    found = Documents([rows(tmp_path, texts), rows(tmp_path, ["more"], "b.jsonl.gz")])
    assert found.ends
    read = list(found)
    firsts = [number for number, passage in enumerate(read) if passage.first]
    joined = ["".join(p.text for p in part) for part in np.split(np.array(read, object), firsts)]
    assert joined[1:] == ["one", "two\nlines\n", MANY, "more"]
    assert not Documents([written(tmp_path, "a.txt", "x"), written(tmp_path, "b.txt", "y")]).ends


@pytest.mark.parametrize(
    ("name", "sign"), [("a.tsv", "\t"), ("a.csv", ","), ("a.csv.gz", ","), ("a.csv.GZ", ",")]
)
def test_a_column_is_named(tmp_path, name, sign):
    table = "label\tname\tsequence\n+\ta\tacgt\n-\tb\tttt\n"
    path = written(tmp_path, name, table.replace("\t", sign))
    assert [p.text for p in Documents([path], ("sequence",))] == ["acgt", "ttt"]
    with pytest.raises(InputError, match="did you mean"):
        list(Documents([path], ("sequense",)))
    with pytest.raises(InputError, match="one name, such as text"):
        Documents([path], ("label", "sequence"))


def test_what_cannot_be_read_is_named(tmp_path):
    plain, table = written(tmp_path, "a.txt", "\n"), rows(tmp_path, ["  ", ""])
    with pytest.raises(InputError, match="not both"):
        Documents([plain, table])
    with pytest.raises(InputError, match="there is no text in it"):
        list(Documents([table]))
    with pytest.raises(InputError, match="for translate"):
        Documents(["builtin:english-french/train"])
    with pytest.raises(InputError, match="no such file"):
        list(Documents([str(tmp_path / "none")]))
    with pytest.raises(InputError, match="line 2"):
        list(Documents([written(tmp_path, "c.jsonl", '{"text": "a"}\n{"text": 3}\n')]))


# --- as tokens ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["characters", "bytes", "bpe", "unigram"])
def test_a_stream_decodes_to_the_text(tmp_path, kind):
    """Newlines, tabs and runs of spaces too; as cut in passages, so as a whole."""
    text = MANY + "été 🙂\r\x00\u2028  end\n"
    source = Documents([written(tmp_path, "a.txt", text)])
    tokenizer = train_tokenizer(kind, [text], 300)
    stream = build_stream(tmp_path / "tokens", source, tokenizer, "1")
    assert stream.tokens[0] == tokenizer.bos
    assert tokenizer.decode(stream.tokens.tolist()) == text
    assert stream.starts.tolist() == [0, len(stream)]
    if kind != "unigram":
        assert stream.tokens[1:].tolist() == tokenizer.encode(text)
    again = open_stream(tmp_path / "tokens")
    assert np.array_equal(again.tokens, stream.tokens)


def test_an_unknown_character_is_one_unknown_token():
    tokenizer = train_tokenizer("characters", ["ab\n"], 50)
    known, unknown = tokenizer.encode("a\nb"), tokenizer.encode("aßb☃☃")
    assert tokenizer.decode(known) == "a\nb"
    assert [i == tokenizer.unk for i in unknown] == [False, True, False, True, True]


def test_documents_begin_and_end(tmp_path):
    tokenizer = train_tokenizer("characters", ["ab"], 50)
    stream = build_stream(
        tmp_path / "tokens", Documents([rows(tmp_path, ["ab", "b"])]), tokenizer, "1"
    )
    a, b = tokenizer.encode("ab")
    bos, eos = tokenizer.bos, tokenizer.eos
    assert stream.tokens.tolist() == [bos, a, b, eos, bos, b, eos]
    assert [text.tolist() for text in stream.texts()] == [[bos, a, b, eos], [bos, b, eos]]


def test_a_stream_is_built_once(tmp_path, monkeypatch):
    source = Documents([written(tmp_path, "a.txt", TEXT)])
    tokenizer = train_tokenizer("characters", [TEXT], 50)
    build_stream(tmp_path / "tokens", source, tokenizer, source.fingerprint())
    marks = [source.fingerprint(), Documents(source.files, on_bad_utf8="skip").fingerprint()]
    monkeypatch.setattr(Documents, "__iter__", lambda _: (_ for _ in [1 / 0]))
    build_stream(tmp_path / "tokens", source, tokenizer, marks[0])
    written(tmp_path, "a.txt", TEXT + "!")
    for mark in (marks[1], source.fingerprint()):
        with pytest.raises(ZeroDivisionError):
            build_stream(tmp_path / "tokens", source, tokenizer, mark)
