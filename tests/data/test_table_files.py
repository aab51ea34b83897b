"""Tables: TSV, CSV, JSONL and Parquet, and what is wrong in them by line or row and column."""

import io
import random
import sys

import pyarrow
import pytest
from pyarrow import parquet

from saccade.data.readers import ParallelText, read_pairs
from saccade.errors import InputError


def test_a_header_may_stand_below_blank_lines(write):
    text = ParallelText([write("a.tsv", "\n \ntarget\tsource\nx\ty\n")])
    assert list(text) == [("y", "x")]


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


def test_the_line_ends_of_csv_are_nothing_odd(write):
    """Those of RFC 4180; in lines of text they are."""
    told = {}
    for name in ("a.csv", "a.tsv"):
        text = ParallelText(
            [write(name, "a,b\r\nc,d\r\n".replace(",", "\t" if "t" in name else ","))]
        )
        assert list(text) == [("a", "b"), ("c", "d")]
        told[name] = text.report.summary()
    assert told == {"a.csv": "", "a.tsv": "2 lines ending in CR LF"}


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


def in_parquet(cells=None, names=None, **columns):
    sink = io.BytesIO()
    parquet.write_table(pyarrow.table(cells or columns, names), sink, use_dictionary=False)
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


TWICE = [["source", "target", "source"], ["a", "b", "c"]]


@pytest.mark.parametrize("columns", [None, ("source", "target"), ("target", "source")])
@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.parquet"])
def test_a_column_that_is_there_twice_is_not_guessed(write, name, columns):
    header, row = TWICE
    tab = {"a.tsv": "\t", "a.csv": ","}.get(name, "")
    lines = "".join(tab.join(cells) + "\n" for cells in TWICE)
    path = write(name, lines if tab else in_parquet([[cell] for cell in row], header))
    with pytest.raises(InputError, match=rf"{name}: 2 columns are called 'source': rename"):
        list(read_pairs([path], columns))


def test_columns_that_nobody_asks_for_may_be_there_twice(write):
    path = write(
        "a.parquet", in_parquet([["a"], ["b"], ["c"], ["d"]], ["x", "source", "x", "target"])
    )
    assert list(read_pairs([path])) == [("b", "d")]


def test_parquet_without_pyarrow_says_what_to_install(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"pip install 'saccade\[parquet\]'"):
        list(read_pairs([write("a.parquet", b"")]))
