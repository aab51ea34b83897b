"""Pairs come from any format alike, and where there are none, why is told."""

import csv
import gzip
import importlib
import io
import json
import os
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from saccade.data import readers
from saccade.data.documents import Documents
from saccade.data.readers import ParallelText, fingerprint, read_pairs
from saccade.errors import InputError

ODD = "a\0b\x85c\u2028d\re"  # nothing in it ends a line


@pytest.mark.parametrize("content", [b"a\tb\nc\td\n", gzip.compress(b"a\tb\nc\td\n", mtime=0)])
def test_standard_input(monkeypatch, content):
    stdin = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(content)))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert list(read_pairs(["-"])) == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize("read", [ParallelText, Documents])
def test_standard_input_is_one_text(read):
    with pytest.raises(InputError, match="standard input is one text"):
        read(["-", "-"])


def test_what_can_be_read_only_once_has_no_fingerprint(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "fifo")
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path))
    for file, told in (
        (str(tmp_path / "fifo"), "fifo is a pipe and can be read only once: write it to a file"),
        ("data:fifo", "data:fifo is a pipe"),
        (os.devnull, f"{os.devnull} is no regular file"),
        ("-", "standard input can be read only once"),
    ):
        with pytest.raises(InputError, match=told):
            fingerprint([file])


@pytest.mark.parametrize(
    ("read", "files", "columns"),
    [
        (ParallelText, ["p.en", "p.de"], ("nope", "nada")),
        (ParallelText, ["builtin:english-french/dev"], ("source", "target")),
        (Documents, ["p.en"], ("nope",)),
    ],
)
def test_columns_of_files_that_have_none_are_refused(read, files, columns):
    with pytest.raises(InputError, match=rf"--columns '{','.join(columns)}': there are none in"):
        read(files, columns)


@pytest.mark.parametrize(
    "names",
    [("a.tsv", "b.tsv"), ("a.jsonl.gz", "b.csv"), ("a.CSV", "-.tsv"), ("a.en", "b.tsv.GZ")],
)
def test_a_table_is_not_one_of_two_languages(names):
    rule = r"one table alone, with a column for each side, or two files of plain lines"
    with pytest.raises(InputError, match=rf"{names[0]} and {names[1]}: {rule}"):
        ParallelText(names)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("other", ["builtin:english-spanish/dev", "a.en", "a.tsv"])
def test_a_built_in_corpus_is_both_sides(other, place):
    files = ["builtin:english-spanish/train"]
    files.insert(place, other)
    told = rf"{files[0]} and {files[1]}: a built-in corpus is both sides, name one alone"
    with pytest.raises(InputError, match=told):
        ParallelText(files)


def pair_files(write, pairs, pack=lambda content: content):
    """The same pairs in every format, with the columns to ask for."""
    rows = [{"extra": 1, "source": s, "target": t} for s, t in pairs]
    source, target = ("".join(side + "\n" for side in sides) for sides in zip(*pairs, strict=True))
    table = "".join(f"{s}\t{t}\n" for s, t in pairs)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    yield [write("a.en.gz", pack(source.encode())), write("a.fr.gz", pack(target.encode()))], None
    yield [write("a.tsv.gz", pack(table.encode()))], None
    yield (
        [write("b.tsv", "target\tx\tsource\n" + "".join(f"{t}\t\t{s}\n" for s, t in pairs))],
        (
            "source",
            "target",
        ),
    )
    quoted = io.StringIO(newline="")
    sheet = csv.DictWriter(quoted, rows[0], quoting=csv.QUOTE_ALL, lineterminator="\n")
    sheet.writeheader()
    sheet.writerows(rows)
    yield [write("a.csv.gz", pack(quoted.getvalue().encode()))], ("source", "target")
    yield [write("b.csv.gz", pack(quoted.getvalue().encode()))], None  # its header is known
    yield [write("C.CSV.GZ", pack(quoted.getvalue().encode()))], None
    yield [write("a.jsonl.gz", pack(lines.encode()))], None
    sink = io.BytesIO()
    parquet.write_table(pyarrow.Table.from_pylist(rows), sink)
    yield [write("a.parquet", sink.getvalue())], None
    yield [write("b.parquet.gz", pack(sink.getvalue()))], None


@pytest.mark.parametrize("pack", [gzip.compress, bytes])
def test_every_format_gives_the_same_pairs(write, pack):
    pairs = [("The cat", "Le chat"), ("", "vide"), ("x", "  "), (ODD, "é\u2028\u0085"), ("q", "r")]
    for files, columns in pair_files(write, pairs, pack):
        text = ParallelText(files, columns)
        assert list(text) == [pairs[0], pairs[3], pairs[4]], files
        report = text.report
        assert (report.dropped, report.control, report.crlf, report.bad_utf8) == (2, 1, 0, 0), files
        assert report.separators in (1, 2), files  # by line or by cell
        assert list(text) == list(text), "a text can be read again"


def test_line_counts_must_agree(write):
    files = [write("a.en", "1\n2\n3\n"), write("a.fr", "1\n2\n")]
    with pytest.raises(InputError, match=r"a\.en has 3 lines, .*a\.fr has 2 lines"):
        list(read_pairs(files))


@pytest.mark.parametrize(
    ("contents", "told"),
    [
        ({"a.en": b"", "a.fr": b""}, "a.en and {}a.fr are empty: give files with one text a line"),
        ({"a.tsv": b""}, "a.tsv is empty: give a file with one pair a line"),
        ({"a.tsv": b"source\ttarget\n"}, "a.tsv has a header and no pairs below it"),
        (
            {"a.en": b" \n\nx\n", "a.fr": b"\n\n\n"},
            "a.en and {}a.fr: no pair is left of 3, each has a side that is blank",
        ),
        ({"a.tsv": b"a\t\n\n"}, "a.tsv: no pair is left of 2, each has a side that is blank"),
        (
            {"a.en": b"\xff\n\n", "a.fr": b"a\nb\n"},
            "a.en and {}a.fr: no pair is left of 2, each has a side that is blank or not UTF-8 "
            "(1 skipped)",
        ),
    ],
)
def test_why_there_is_nothing_is_told(write, tmp_path, contents, told):
    files = [write(name, content) for name, content in contents.items()]
    with pytest.raises(InputError) as error:
        list(ParallelText(files, on_bad_utf8="skip"))
    assert str(error.value).removeprefix(f"{tmp_path}/") == told.format(*[f"{tmp_path}/"] * 2)


def test_a_skipped_line_takes_its_partner_along(write):
    files = [write("a.en", b"1\n\xff\n3\n"), write("a.fr", "un\ndeux\ntrois\n")]
    text = ParallelText(files, on_bad_utf8="skip")
    assert list(text) == [("1", "un"), ("3", "trois")]
    assert (text.report.bad_utf8, text.report.dropped) == (1, 1)


def test_built_in_corpora_go_both_ways(monkeypatch):
    @dataclass
    class Pair:
        source: str
        target: str

    fake = types.ModuleType("fake_corpus")
    fake.pairs = lambda split: [Pair(f"{split} the cat", "le chat")]
    monkeypatch.setitem(sys.modules, "fake_corpus", fake)
    monkeypatch.setitem(readers.BUILTIN, "english-french", "fake_corpus")
    assert list(read_pairs(["builtin:english-french/train"])) == [("train the cat", "le chat")]
    assert list(read_pairs(["builtin:french-english/dev"])) == [("le chat", "dev the cat")]
    one, other = (fingerprint([f"builtin:english-french/{split}"]) for split in ("train", "dev"))
    assert one != other
    for wrong in ("builtin:english-frenhc/train", "builtin:english-french"):
        with pytest.raises(InputError, match="did you mean 'builtin:english-french/train'"):
            list(read_pairs([wrong]))


def test_every_corpus_that_comes_along_has_a_name():
    modules = {f"saccade.data.{path.stem}" for path in Path(readers.__file__).parent.glob("*.py")}
    corpora = {name for name in modules if hasattr(importlib.import_module(name), "sampled")}
    assert corpora == set(readers.BUILTIN.values())


def test_a_changed_corpus_has_another_fingerprint(write):
    files = [write("a", "1\n"), write("b", "2\n")]
    before = fingerprint(files)
    assert before == fingerprint(files) != fingerprint(files[::-1])
    write("b", "2")
    assert fingerprint(files) != before
    write("b", "")
    write("a", "1\n2\n")
    assert fingerprint(files) != before, "moving a line from one file to the other is a change"
    table = write("a.tsv", "s\tt\nx\ty\n")
    assert ParallelText([table], ("s", "t")).fingerprint() != ParallelText([table]).fingerprint()
