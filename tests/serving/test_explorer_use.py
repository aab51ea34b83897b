"""The explorer in a real browser: saved, linked, by keys, in colours and sizes, under attack."""

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from fastapi.testclient import TestClient
from serving.browser import Explorer

from saccade.serving import trace

pytestmark = pytest.mark.serial
TEXT = "a b c d"


def test_the_view_is_saved_as_svg_png_and_html(explorer: Explorer, tmp_path: Path) -> None:
    explorer.ask("a <b> c")
    explorer.page.click("[data-tab=matrix]")
    for kind, begins in (("SVG", b"<svg"), ("PNG", b"\x89PNG"), ("HTML", b"<!doctype html>")):
        explorer.page.click("[data-testid=save]")
        with explorer.page.expect_download() as download:
            explorer.page.click(f"[data-format={kind}]")
        path = tmp_path / f"saved.{kind.lower()}"
        download.value.save_as(path)
        content = path.read_bytes()
        assert content.startswith(begins)
        assert len(content) > 1000
    html = (tmp_path / "saved.html").read_text("utf-8")
    assert "<script" not in html
    assert not re.search(r'(?:src|href)="http', html)
    alone = explorer.page.context.new_page()
    alone.goto(f"file://{tmp_path / 'saved.html'}")
    assert alone.locator("[data-testid=cell]").count() == explorer.count("[data-testid=cell]")
    alone.close()


def test_a_link_restores_the_view(explorer: Explorer) -> None:
    explorer.page.click("[data-method=beam]")
    said = explorer.ask(TEXT)
    explorer.page.click("aside .head[data-layer='0'][data-head='1']")
    explorer.page.click("[data-tab=matrix]")
    explorer.page.click(".matrix [data-axis=rows][data-index='1']")
    explorer.page.focus("aside .head[data-layer='1'][data-head='0']")
    explorer.page.keyboard.press("x")
    explorer.settle()
    said = explorer.output()
    link = explorer.page.url
    other = explorer.page.context.new_page()
    other.goto(link)
    restored = Explorer(other, explorer.address)
    restored.settle()
    assert restored.output() == said
    assert other.get_attribute("[data-tab=matrix]", "aria-selected") == "true"
    assert other.get_attribute(".matrix .pinned", "data-index") == "1"
    assert restored.count("aside .head.chosen[data-layer='0'][data-head='1']") == 1
    assert restored.count("aside .head.off[data-layer='1'][data-head='0']") == 1
    other.close()


def test_all_of_it_works_from_the_keyboard(explorer: Explorer) -> None:
    page = explorer.page
    assert page.evaluate("document.activeElement.dataset.testid") == "source"
    page.keyboard.type(TEXT)
    page.keyboard.press("Enter")
    explorer.settle()
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("JSON.stringify({...document.activeElement.dataset})"))
    names = " ".join(reached)
    for what in ("method", 'testid":"run', "tab", "unit", "axis", "kind", "header"):
        assert what in names, f"Tab never reaches {what}"
    page.focus("[data-tab=lines]")
    page.keyboard.press("ArrowRight")
    assert page.get_attribute("[data-tab=matrix]", "aria-selected") == "true"
    page.focus("aside .head[data-layer='0'][data-head='0']")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert explorer.count("aside .head.chosen[data-layer='1'][data-head='0']") == 1


@pytest.mark.parametrize(
    "explorer", [{"color_scheme": "light"}, {"color_scheme": "dark"}], indirect=True
)
def test_colours_can_be_read(explorer: Explorer) -> None:
    for _ in range(2):  # as the system has it, and after the switch
        values = explorer.page.evaluate(
            """() => Object.fromEntries(["text", "faint", "ink", "warm", "paper", "card", "on-ink"]
              .map(name => [name, getComputedStyle(document.documentElement)
                .getPropertyValue("--" + name).trim()]))"""
        )
        for name in ("text", "faint", "ink", "warm"):
            for ground in ("paper", "card"):
                assert _contrast(values[name], values[ground]) >= 4.5, (name, ground, values)
        assert _contrast(values["on-ink"], values["ink"]) >= 4.5
        explorer.page.click("[data-testid=theme]")


def _contrast(one: str, other: str) -> float:
    """WCAG 2: (lighter + 0.05) / (darker + 0.05) of the relative luminances."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True}


@pytest.mark.parametrize("explorer", [PHONE], indirect=True)
def test_at_390_pixels_the_sentence_stands_upright_and_nothing_hangs_over(
    explorer: Explorer,
) -> None:
    explorer.ask(TEXT)
    for view in ("lines", "matrix", "heads", "arithmetic", "tree", "mask", "positions"):
        explorer.page.click(f"[data-tab={view}]")
        explorer.page.wait_for_timeout(60)
        assert explorer.page.evaluate("document.documentElement.scrollWidth") <= 390, view
    explorer.page.click("[data-tab=lines]")
    boxes = [
        explorer.page.locator(f".sentence [data-axis={axis}][data-index='{n}']").bounding_box()
        for axis, n in (("columns", 0), ("columns", 1), ("rows", 0))
    ]
    assert boxes[1]["y"] > boxes[0]["y"]
    assert boxes[2]["x"] > boxes[0]["x"]
    explorer.page.tap(".sentence [data-axis=rows][data-index='1']")
    assert explorer.count(".sentence .pinned") == 1
    explorer.page.click("[data-testid=runs-page]")
    explorer.page.wait_for_selector("[data-testid=scores]")
    assert explorer.page.evaluate("document.documentElement.scrollWidth") <= 390


# --- what must not happen ---


HOSTILE = [
    "<script>window.broken = true</script>",
    "<img src=x onerror='window.broken = true'>",
    '"><svg onload=window.broken=true> {{7*7}} ${alert(1)}',
    "a \x07 \x00 \u202e \ufeff b",
    "x" * 10_000,
    "😀 漢字 עברית नमस्ते 👩‍👩‍👧",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_shown_and_never_run(explorer: Explorer, text: str) -> None:
    explorer.ask(text)
    for view in ("matrix", "tree", "lines"):
        explorer.page.click(f"[data-tab={view}]")
    assert explorer.page.evaluate("window.broken") is None
    assert explorer.page.evaluate("document.querySelectorAll('main script, main img').length") == 0
    assert explorer.page.evaluate("document.documentElement.scrollWidth") <= 1280
    shown = " ".join(explorer.texts(".sentence [data-axis=columns]"))
    assert shown.strip()
    if text.startswith("<script>"):
        assert "script" in shown


def test_a_hostile_link_is_only_a_link(explorer: Explorer) -> None:
    evil = "<img src=x onerror=window.broken=true>"
    values = dict.fromkeys(("run", "other", "view", "unit", "kind", "page", "pin", "off"), evil)
    explorer.page.goto("about:blank")
    explorer.reached.clear()
    explorer.page.goto(f"{explorer.address}#{urlencode({**values, 'text': TEXT, 'layer': 'x'})}")
    explorer.settle()
    assert explorer.output()
    assert explorer.page.evaluate("window.broken") is None
    with explorer.page.expect_download() as download:
        explorer.page.click("[data-testid=save]")
        explorer.page.click("[data-format=HTML]")
    assert download.value.suggested_filename == "saccade-lines.html"


def test_a_long_text_is_a_canvas_and_lines_only_for_what_is_pinned(explorer: Explorer) -> None:
    explorer.ask(" ".join("abcdefgh"[n % 8] for n in range(90)))
    assert explorer.count("canvas.pixels") == 1
    assert explorer.count("[data-testid=cell]") == 0
    assert explorer.count(".line") == 0
    explorer.page.click(".sentence [data-axis=rows][data-index='0']")
    assert explorer.count(".line.lit") > 0


def test_a_text_may_begin_with_nothing_and_its_search_is_a_tree(explorer: Explorer) -> None:
    explorer.page.select_option("[data-testid=run-choice]", "story")
    explorer.page.click("[data-method=beam]")
    explorer.page.fill("[data-number=length]", "5")
    explorer.page.click("[data-testid=source]")
    explorer.page.keyboard.press("Enter")
    explorer.page.wait_for_selector("[data-testid=text]")
    explorer.page.click("[data-tab=tree]")
    explorer.page.wait_for_selector("[data-testid=node]")


@pytest.mark.usefixtures("small_pictures")
def test_a_head_of_a_long_text_is_fetched_for_the_same_text(explorer: Explorer) -> None:
    explorer.page.select_option("[data-testid=run-choice]", "story")
    explorer.page.fill("[data-number=length]", "5")
    explorer.page.fill("[data-testid=source]", "a b")
    explorer.page.keyboard.press("Enter")
    explorer.page.wait_for_selector("[data-testid=text]")
    with explorer.page.expect_request("**/v1/predict") as asked:
        explorer.page.click("aside .head[data-layer='1'][data-head='0']")
    assert len(asked.value.post_data_json["output_ids"]) == 5  # the prompt goes as text
    explorer.settle()


def chosen(client: TestClient, text: str, layer: int, head: int) -> list[list[float]]:
    choice = {"kinds": ["cross"], "layer": f"decoder.{layer}.cross_attention", "head": head}
    body = {"run": "small", "texts": [text], "attention": choice}
    found = client.post("/v1/predict", json=body).json()["predictions"][0]["attention"][0]
    return found["chosen"]  # type: ignore[no-any-return]


def shown_weights(explorer: Explorer) -> list[float]:
    return [
        float(cell)
        for cell in explorer.page.eval_on_selector_all(
            "[data-testid=cell]", "all => all.map(each => each.dataset.weight)"
        )
    ]


@pytest.fixture
def small_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every text is a long one, of which only the chosen head comes whole."""
    monkeypatch.setattr(trace, "WEIGHTS_LIMIT", 10)
    monkeypatch.setattr(trace, "THUMBNAIL", 2)


@pytest.mark.usefixtures("small_pictures")
def test_of_two_heads_chosen_in_a_hurry_the_last_is_shown(
    explorer: Explorer, client: TestClient
) -> None:
    explorer.ask(TEXT)
    explorer.page.click("[data-tab=matrix]")
    held: list[Any] = []
    explorer.page.route("**/v1/predict", lambda route: held.append(route))  # noqa: PLW0108  a bound method will not do
    for place in ("[data-layer='0'][data-head='0']", "[data-layer='1'][data-head='1']"):
        with explorer.page.expect_request("**/v1/predict"):
            explorer.page.click(f"aside .head{place}")
    for route in held:  # both were asked before either was answered
        with explorer.page.expect_response("**/v1/predict"):
            route.continue_()
    explorer.settle()
    wanted = [weight for row in chosen(client, TEXT, 1, 1) for weight in row]
    assert shown_weights(explorer) == pytest.approx(wanted, abs=0.0051)


@pytest.mark.usefixtures("small_pictures")
def test_the_chosen_head_stays_chosen_for_the_next_text(
    explorer: Explorer, client: TestClient
) -> None:
    explorer.ask(TEXT)
    explorer.page.click("[data-tab=matrix]")
    explorer.page.click("aside .head[data-layer='1'][data-head='1']")
    explorer.settle()
    explorer.ask("d c b a e")
    wanted = [weight for row in chosen(client, "d c b a e", 1, 1) for weight in row]
    assert shown_weights(explorer) == pytest.approx(wanted, abs=0.0051)


def test_what_is_wrong_is_said_beside_the_text(explorer: Explorer) -> None:
    explorer.page.keyboard.press("Enter")
    assert explorer.page.inner_text("[data-testid=problem]") == "Type a sentence first."
    explorer.page.route("**/v1/predict/stream", lambda route: route.fulfill(
        status=503, content_type="application/json",
        body=json.dumps({"error": "too many requests are waiting", "field": None}),
    ))  # fmt: skip
    explorer.page.fill("[data-testid=source]", TEXT)
    explorer.page.keyboard.press("Enter")
    explorer.page.wait_for_selector("text=too many requests")
    explorer.problems.clear()  # the browser itself names a status that is no success
