"""The explorer's files: small modules, no code in the markup, nothing from elsewhere."""

import re
from pathlib import Path

import pytest

import saccade.serving.app

PAGE = saccade.serving.app.PAGE
FILES = sorted(path for path in PAGE.iterdir() if path.is_file())
NAMESPACES = {"http://www.w3.org/2000/svg"}  # names, not places


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_is_small_and_reaches_nothing_outside(path: Path) -> None:
    text = path.read_text("utf-8")
    assert len(text.splitlines()) < 300
    assert all(len(line) <= 110 for line in text.splitlines()), "a line is too long to read"
    assert set(re.findall(r"https?://[^\s\"'`<>)]+", text)) <= NAMESPACES
    assert "innerHTML" not in text
    assert "eval(" not in text


def test_every_import_is_a_file_of_the_page() -> None:
    for path in PAGE.glob("*.js"):
        for name in re.findall(r'from "([^"]+)"', path.read_text("utf-8")):
            assert (PAGE / name).is_file(), f"{path.name} imports {name}"


def test_the_markup_holds_no_code() -> None:
    text = (PAGE / "index.html").read_text("utf-8")
    assert not re.search(r"\son\w+=|<style|style=|javascript:", text)
    assert re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL) == [""]
