"""Text is read as it was written: nothing shifts, nothing is lost without being counted."""

import csv
import gzip
import importlib
import io
import json
import os
import random
import sys
import types
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from saccade.data import readers
from saccade.data.documents import Documents
from saccade.data.lines import TextReport, read_lines
from saccade.data.readers import ParallelText, fingerprint, read_pairs
from saccade.errors import InputError

ODD = "a\0b\x0bc\x0cd\x1ce\x85f\u2028g\u2029h\ri"  # str.splitlines would make nine of it


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


def report_of(path):
    counts = Counter()
    lines = list(read_lines(path, counts=counts))
    return lines, TextReport(**counts)


def test_only_newline_ends_a_line(write):
    lines, report = report_of(write("a.txt", f"{ODD}\nsecond\r\nlast"))
    assert lines == [ODD, "second", "last"]
    assert report == TextReport(lines=3, crlf=1, control=1, separators=1)
    assert "control" in report.summary()


@settings(deadline=None)
@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]))))
def test_lines_come_back_as_written(tmp_path_factory, lines):
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes("".join(line + "\n" for line in lines).encode())
    if not (lines and lines[0].startswith("\ufeff")) and "\0" not in "".join(lines):
        assert list(read_lines(path)) == lines


def test_a_trailing_newline_gives_no_extra_line_and_blank_lines_count(write):
    assert report_of(write("a", "x\n"))[0] == report_of(write("b", "x"))[0] == ["x"]
    assert report_of(write("c", "x\n\n \n")) == (["x", "", " "], TextReport(lines=3, empty=2))
    assert report_of(write("e", "x\r"))[0] == ["x\r"], "a return alone ends nothing"
    assert report_of(write("d", "")) == ([], TextReport())
    assert TextReport(lines=7).summary() == ""


def test_a_byte_order_mark_is_stripped_once(write):
    lines, report = report_of(write("a", b"\xef\xbb\xbfx\n\xef\xbb\xbfy\n"))
    assert lines == ["x", "\ufeffy"]
    assert report.bom == 1


TEXTS = {
    "English": "Some text, here.\nMore",
    "a short first line": "Hi.\nHow are you?\n",
    "an empty first line": "\nHow are you?\n",
    "few letters": "Hi.\n",
    "French": "« Cœur – voilà… » dit-elle\n",
    "Russian": "Да.\nОна сказала: «Нет — никогда»\n",
    "Greek": "Καλημέρα, κόσμε!\n",
    "Arabic": "صباح الخير يا عالم\n",
    "Hindi": "नमस्ते दुनिया\n",
    "Thai": "สวัสดีชาวโลกทุกคนในวันนี้\n",
    "Thai without a space": ("สวัสดีชาวโลกทุกคนในวันนี้" * 5 + "\n") * 20,
    "beyond the sample": "Ещё одно предложение 🙂\n" * 2000,
}


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-32", "UTF-16LE", "UTF-16BE", "UTF-32BE"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_other_encodings_are_refused_by_name(write, monkeypatch, text, encoding, pack):
    content = pack(text.encode(encoding))
    path = write("a b", content)
    convert = f"iconv -f {encoding} -t UTF-8"
    command = f"{convert} '.*a b'" if pack is bytes else rf"gzip -dc '.*a b' \| {convert}"
    with pytest.raises(InputError, match=f"{encoding}, not UTF-8; convert it: {command} > NEW"):
        list(read_lines(path))
    stdin = types.SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(content)))
    monkeypatch.setattr(sys, "stdin", stdin)
    with pytest.raises(InputError, match=f"-: this is {encoding}"):
        list(read_lines("-"))


@pytest.mark.parametrize("encoding", ["UTF-16LE", "UTF-16BE"])
def test_chinese_in_another_encoding_is_no_utf8(write, encoding):
    with pytest.raises(InputError, match="not UTF-8"):
        list(read_lines(write("a", "今天天气很好。\n我们去公园吧。\n".encode(encoding))))


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "a\0",
        "a\0b",
        "\0" * 5000,
        "\0a" * 3,
        "one\0two three\0\nfour\0\n" * 300,
        "".join(map(chr, range(128))) * 40,
        "".join(map(chr, range(32))) * 200,
        "".join(f"{chr(code)}\n" for code in range(1000)),  # a list of characters
        "a\tb\nc\td\n" * 300 + "\0\n",
        "Да\0нет, 今天\0 🙂\n" * 300,
        "\x04\x01\0\x10",
    ],
)
def test_odd_utf8_is_read_as_it_is(write, text):
    written = text.replace("\r\n", "\n").removesuffix("\n")
    assert "\n".join(read_lines(write("a", text))) == written


def test_invalid_utf8_names_line_and_byte_or_is_counted(write):
    path = write("a", b"\xef\xbb\xbfgood\nab\xffcd\nend\n")
    with pytest.raises(InputError, match=r"line 2: byte 3 of the line \(byte 11 of the file\).*ff"):
        list(read_lines(path))
    counts = Counter()
    assert list(read_lines(path, on_bad_utf8="skip", counts=counts)) == ["good", "end"]
    assert list(read_lines(path, on_bad_utf8="replace", counts=counts)) == ["good", "ab�cd", "end"]
    assert counts["bad_utf8"] == 2


def test_gzip_is_known_by_its_bytes_and_damage_is_told(write):
    packed = gzip.compress(b"one\ntwo\n" * 1000)
    assert len(list(read_lines(write("no-ending", packed)))) == 2000
    assert list(read_lines(write("plain.gz", "x\n"))) == ["x"]
    two_members = write("members.gz", gzip.compress(b"one\n", mtime=0) + gzip.compress(b"two\n"))
    assert list(read_lines(two_members)) == ["one", "two"]
    damaged = bytearray(packed)
    damaged[len(packed) // 2] ^= 255
    for broken in (packed[:-9], packed[: len(packed) // 2], bytes(damaged), packed + b"garbage"):
        with pytest.raises(InputError, match="gzip"):
            list(read_lines(write("broken.gz", broken)))


def test_a_line_of_a_megabyte(write):
    lines, _ = report_of(write("a", "x" * 2**20 + "\ny\n"))
    assert [len(line) for line in lines] == [2**20, 1]


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


@pytest.mark.parametrize("names", [("a.tsv", "b.tsv"), ("a.jsonl.gz", "b.csv"), ("a.CSV", "-.tsv")])
def test_two_tables_are_not_two_languages(names):
    rule = r"one table at a time, or two files of plain lines; put the rows of both into one"
    with pytest.raises(InputError, match=rf"{names[0]} and {names[1]}: {rule}"):
        ParallelText(names)
    ParallelText(["a.tsv", "b.en"])  # an unusual name for lines, but not two tables


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        list(read_lines(tmp_path / "absent"))
    with pytest.raises(InputError, match="folder"):
        list(read_lines(tmp_path))


def test_names_under_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("SACCADE_DATA", raising=False)
    with pytest.raises(InputError, match="SACCADE_DATA"):
        readers.resolve("data:x.txt")
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path))
    with pytest.raises(InputError, match=r"data:x.txt: no such file \("):
        readers.resolve("data:x.txt")
    (tmp_path / "x.txt").write_text("x\n")
    assert list(read_lines("data:x.txt")) == ["x"]


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


def test_a_header_may_stand_below_blank_lines(write):
    text = ParallelText([write("a.tsv", "\n \ntarget\tsource\nx\ty\n")])
    assert list(text) == [("y", "x")]


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


def test_half_a_surrogate_pair_is_replaced_or_skipped(write):
    path = write(
        "a.jsonl", '{"source": "a", "target": "x\\ud800"}\n{"source": "b", "target": "c"}\n'
    )
    assert list(read_pairs([path], on_bad_utf8="skip")) == [("b", "c")]
    assert list(read_pairs([path], on_bad_utf8="replace")) == [("a", "x\ufffd"), ("b", "c")]


def test_csv_is_quoted_and_a_bad_line_takes_its_row_along(write):
    path = write("a.csv", b'"a, ""b""\nc\n\nd",x\r\n\n"e\xff\nf",y\ng,z')
    with pytest.raises(InputError, match="line 6: byte 3 of the line"):
        list(read_pairs([path]))
    first, last = ('a, "b"\nc\n\nd', "x"), ("g", "z")
    assert list(read_pairs([path], on_bad_utf8="skip")) == [first, last]
    replaced = list(read_pairs([path], on_bad_utf8="replace"))
    assert replaced == [first, ("e\ufffd\nf", "y"), last]
    long = "x" * 200_000
    assert list(read_pairs([write("b.csv", f"{long},y\n")])) == [(long, "y")]


@pytest.mark.parametrize("tab", ["\t", ","], ids=["tsv", "csv"])
@pytest.mark.parametrize("header", [True, False])
def test_a_line_of_spaces_is_a_blank_row(write, tab, header):
    rows = ["source\ttarget", "a\tb", "", "  ", "\u3000", " \t ", "c\td"][not header :]
    path = write({"\t": "a.tsv", ",": "a.csv"}[tab], "\n".join(rows).replace("\t", tab))
    text = ParallelText([path])
    assert list(text) == [("a", "b"), ("c", "d")]
    assert text.report.dropped == 4
    assert text.report.empty == {"\t": 4, ",": 3}[tab], "a comma is something in a line"


def test_a_return_inside_a_line_of_csv_is_content(write):
    content = 'a\rb,c\r\r\n"d\re\r\nf",\rg\r\n"h\r",i\nj,"k"\r'
    text = ParallelText([write("a.csv", content)])
    assert list(text) == [("a\rb", "c"), ("d\re\nf", "\rg"), ("h\r", "i"), ("j", "k")]
    with pytest.raises(InputError, match=r"line 1: not CSV \(.* expected after"):
        list(read_pairs([write("a.csv", '"a"\rb,c\n')]))


def in_parquet(**columns):
    sink = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), sink, use_dictionary=False)
    return sink.getvalue()


@pytest.mark.parametrize("kind", [pyarrow.string(), pyarrow.dictionary("int32", "string")])
def test_invalid_utf8_in_parquet_names_row_and_byte_or_is_counted(write, kind):
    source = pyarrow.array([b"a", b"ab\xffc", b"c"]).view("string").cast(kind)
    path = write("a.parquet", in_parquet(source=source, target=["x", "y", "z"]))
    with pytest.raises(InputError, match=r"row 2, column 'source': byte 3 is 0xff, not UTF-8"):
        list(read_pairs([path]))
    skipping = ParallelText([path], on_bad_utf8="skip")
    assert list(skipping) == [("a", "x"), ("c", "z")]
    assert (skipping.report.bad_utf8, skipping.report.dropped) == (1, 1)
    assert list(read_pairs([path], on_bad_utf8="replace"))[1] == ("ab\ufffdc", "y")


def test_damaged_parquet_is_named(write):
    sound = in_parquet(source=[f"the cat {n}" for n in range(99)], target=["x"] * 99)
    for start in (0, 4, 40, len(sound) - 200):
        damaged = sound[:start] + bytes(byte ^ 255 for byte in sound[start:])
        with pytest.raises(InputError, match=r"a\.parquet: .*damaged"):
            list(read_pairs([write("a.parquet", damaged[: start + 60] + sound[start + 60 :])]))


def test_parquet_is_held_a_piece_at_a_time(write):
    noise = [random.Random(n).randbytes(1000).hex() for n in range(3000)]
    content = in_parquet(source=noise, target=noise)
    before = pyarrow.total_allocated_bytes()
    reading = read_pairs([write("a.parquet", content)])
    assert next(reading) == (noise[0], noise[0])
    assert pyarrow.total_allocated_bytes() - before < len(content) / 2
    reading.close()


@pytest.mark.parametrize(
    ("name", "content", "columns", "message"),
    [
        ("a.tsv", "a\tb\nc\n", None, "line 2: 1 columns"),
        ("a.tsv", "a\tb\tc\n", None, "line 1: 3 columns"),
        ("a.tsv", "src\ttrg\nc\td\n", ("source", "trg"), "no column 'source'"),
        ("a.tsv", "", None, "is empty: give a file with one pair a line"),
        ("a.tsv", "\t\n", None, "no pair is left of 1, each has a side that is blank"),
        ("a.csv", "a,b\nc\n", None, "line 2: 1 columns, expected 2 separated by commas"),
        ("a.csv", '"a\n",b\n"c\nd",e\n"f\n\n', None, r"line 5: not CSV \(unexpected end"),
        ("a.csv", '"a"b,c\n', None, "line 1: not CSV"),
        ("a.csv", "src,trg\nc,d\n", ("source", "trg"), "no column 'source'"),
        ("a.jsonl", '{"source": "a", "target": "b"}\n{"source"\n', None, "line 2: not JSON"),
        ("a.jsonl", "[" * 100_000, None, "line 1: not JSON"),
        ("a.jsonl", "[1]", None, "line 1: expected an object"),
        ("a.jsonl", '{"source": "a", "tarte": "b"}', None, "no column 'target'; did you mean"),
        ("a.jsonl", '{"source": "a", "target": 3}', None, "line 1: column 'target' holds int"),
        ("a.jsonl", '{"source": "a", "target": "\\ud800"}', None, "line 1: half a surrogate"),
        ("a.parquet", "PAR1 not really", None, "Parquet"),
        ("a.parquet", in_parquet(source=["a"], target=[1]), None, "'target' holds int64, expected"),
        ("a.txt", "a\tb\n", None, "ends in .tsv, .csv, .jsonl"),
    ],
)
def test_wrong_data_is_told_with_its_place(write, name, content, columns, message):
    with pytest.raises(InputError, match=message):
        list(read_pairs([write(name, content)], columns))


def test_parquet_without_pyarrow_says_what_to_install(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install 'saccade\[parquet\]'"):
        list(read_pairs([write("a.parquet", b"")]))


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
