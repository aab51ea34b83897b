"""Lines are read as they were written: nothing shifts, nothing is lost without being counted."""

import gzip
import io
import sys
import types
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.data import readers
from saccade.data.lines import TextReport, read_lines
from saccade.errors import InputError

ODD = "a\0b\x0bc\x0cd\x1ce\x85f\u2028g\u2029h\ri"  # str.splitlines would make nine of it


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
    assert TextReport(crlf=1, empty=2).summary() == "1 line ending in CR LF, 2 blank lines"
    assert (
        TextReport(bom=2, dropped=1).summary().endswith("1 pair dropped (a side blank or skipped)")
    )


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
