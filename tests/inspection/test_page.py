"""The page: one file without a network, words that stay words, and hands that can use it."""

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
import torch
from serving.browser import chromium

from saccade.errors import InputError
from saccade.inspection.alignment import AttentionMap

HOSTILE = [
    "<script>alert(1)</script>", "</script><img src=x onerror=alert(2)>", "<!--", "]]>", "%(data)s",
    "\x00\n\u2028", "\u202eabc", "\ud800", "x" * 10_000, "&lt;", "\"'`${1}", "שלום", "東京", "🙂",
]  # fmt: skip
SOURCE, TARGET = ["Jane", "▁visite", "</s>"], ["Jane", "▁visits"]


def make(source=SOURCE, target=TARGET, heads=2, layers=2, kind="cross"):
    g = torch.Generator().manual_seed(1)
    size = (heads, len(target), len(source))
    names = [f"decoder.{n}.cross_attention" for n in range(layers)]
    weights = {name: torch.randn(size, generator=g).mul(3).softmax(-1) for name in names}
    return AttentionMap(weights, list(source), list(target), kind)


class Reader(HTMLParser):
    """What a browser would see: tags, scripts, and every address."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.addresses, self.inside = [], [], [], None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href", "srcset")]
        self.inside = tag if tag == "script" else None
        if tag == "script":
            self.scripts.append([dict(attrs), ""])
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data):
        if self.inside:
            self.scripts[-1][1] += data

    def handle_endtag(self, tag):
        self.inside = None if tag == "script" else self.inside


def read_data(page):
    return json.loads(Reader(page).scripts[0][1])


def test_one_file_that_names_no_other():
    page = make().page()
    seen = Reader(page)
    assert seen.addresses == []
    assert not {"link", "img", "iframe", "object", "base", "form"} & set(seen.tags)
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", page)
    assert "default-src 'none'" in page


def test_the_policy_allows_the_one_script_and_no_other():
    seen = Reader(make().page())
    (_, data), (attributes, script) = seen.scripts
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in make().page()
    assert attributes == {}
    assert json.loads(data)["chosen"] == {"map": 0, "layer": 1, "head": -1}


def test_hostile_words_are_data_and_nothing_else():
    plain, hostile = Reader(make(["a"] * 14, ["a"] * 14).page()), make(HOSTILE, HOSTILE).page()
    seen = Reader(hostile)
    assert seen.tags == plain.tags
    assert seen.scripts[1] == plain.scripts[1]
    tokens = read_data(hostile)["maps"][0]["source"]
    assert tokens[:5] == HOSTILE[:5]
    assert tokens[5] == "·⏎·"
    assert not any(c in "".join(tokens) for c in "\x00\n\u2028\u202e\ud800")
    assert max(map(len, tokens)) < 10_000


def test_the_weights_arrive():
    seen = make()
    layers = read_data(seen.page())["maps"][0]["layers"]
    assert [layer["short"] for layer in layers] == ["L1", "L2"]
    for layer, wanted in zip(layers, seen.weights.values(), strict=True):
        whole = torch.frombuffer(bytearray(base64.b64decode(layer["weights"])), dtype=torch.uint16)
        found = whole.float().reshape(wanted.shape) / 65535 * layer["scale"]
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-5)


def test_damaged_and_great_weights_do_not_break_it():
    odd = AttentionMap({"x": torch.tensor([[[float("nan"), 3.0]]])}, ["a", "b"], ["c"])
    (layer,) = read_data(odd.page())["maps"][0]["layers"]
    assert (layer["scale"], layer["short"]) == (3.0, "x")


def test_saved_by_its_suffix_at_the_layer_and_head_asked_for(tmp_path: Path):
    inner = make(SOURCE, SOURCE, kind="encoder")
    renamed = {name.replace("decoder", "encoder"): w for name, w in inner.weights.items()}
    both = AttentionMap(
        make().weights, SOURCE, TARGET, others=(AttentionMap(renamed, SOURCE, SOURCE, "encoder"),)
    )
    saved = both.save(tmp_path / "a.html", "encoder.0.cross_attention", 1).read_text("utf-8")
    data = read_data(saved)
    assert [each["kind"] for each in data["maps"]] == ["cross", "encoder"]
    assert data["chosen"] == {"map": 1, "layer": 0, "head": 1}
    with pytest.raises(InputError, match="no head 7"):
        both.save(tmp_path / "b.html", head=7)
    with pytest.raises(InputError, match=r"\.png or \.svg or \.html"):
        both.save(tmp_path / "b.pdf")
    assert not (tmp_path / "b.html").exists()


def test_a_notebook_gets_the_page_in_a_frame_that_touches_nothing():
    found = make(HOSTILE, HOSTILE)._repr_html_()
    (frame,) = re.findall(r"<[^>]*>", found.replace("></iframe>", ">"))[:1]
    assert frame.startswith('<iframe sandbox="allow-scripts"')
    inner = html.unescape(re.search(r'srcdoc="([^"]*)"', found)[1])
    assert inner == make(HOSTILE, HOSTILE).page()


# --- in a browser ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a map's page; whatever goes wrong in it, or leaves it, fails the test."""
    page, wrong = browser.new_page(viewport={"width": 1280, "height": 800}), []
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.on(
        "request", lambda request: wrong.append(request.url) if "file:" not in request.url else 0
    )

    def show(seen):
        page.goto(seen.save(tmp_path / "a.html").as_uri())
        return page

    yield show
    page.close()
    assert [each for each in wrong if each != (tmp_path / "a.html").as_uri()] == []


@pytest.mark.serial
def test_pointing_at_a_word_shows_what_it_looks_at_both_ways(opened):
    seen = make()
    page = opened(seen)
    matrix = seen.matrix()

    def told():
        return page.locator("#weights tr td:last-child").all_inner_texts()

    page.hover("#queries .token:nth-child(2)")
    assert page.inner_text("#who") == "“visits” looks at · L2, average"
    assert told() == [f"{w:.2f}" for w in sorted(matrix[1].tolist(), reverse=True)]
    assert page.locator("#loud path").count() == int((matrix[1] >= 0.005).sum())
    page.hover("#keys .token:nth-child(1)")
    assert page.inner_text("#who") == "“Jane” is looked at by · L2, average"
    assert told() == [f"{w:.2f}" for w in sorted(matrix[:, 0].tolist(), reverse=True)]

    page.click("#heads .layer:nth-child(1) .thumb:nth-child(3)")
    page.click("#queries .token:nth-child(1)")
    page.mouse.move(1, 1)  # pinned: it stays
    row = seen.matrix("decoder.0.cross_attention", 1)[0]
    assert page.inner_text("#who") == "“Jane” looks at · L1, head 1"
    assert told() == [f"{w:.2f}" for w in sorted(row.tolist(), reverse=True)]
    page.keyboard.press("ArrowRight")
    assert "visits" in page.inner_text("#who")
    page.keyboard.press("Escape")
    assert told() == []


@pytest.mark.serial
def test_hostile_and_long_texts_are_shown_as_they_are(opened):
    page = opened(make(HOSTILE, HOSTILE))
    shown = page.locator("#queries .token").all_inner_texts()
    assert shown[:4] == HOSTILE[:4]
    assert page.evaluate("document.body.scrollWidth <= innerWidth")
    long = [f"word{n}" for n in range(150)]
    page = opened(make(long, long, heads=1))
    assert page.locator("#matrix canvas").count() == 1
    assert page.locator("#quiet path").count() == 0
    page.hover("#queries .token:nth-child(9)")
    assert page.locator("#loud path").count() > 0
    page.set_viewport_size({"width": 390, "height": 700})
    assert page.evaluate("document.body.scrollWidth <= innerWidth")
