"""The explorer in a real browser: typed, clicked and read as a person would, without a network."""

import re
from collections.abc import Iterator
from functools import partial
from threading import Condition
from typing import Any

import pytest
from fastapi.testclient import TestClient
from serving.browser import Explorer

from saccade.serving.engine import Engine
from saccade.serving.schemas import Draft

pytestmark = pytest.mark.serial
TEXT = "a b c d"
CROSS = ["decoder.0.cross_attention", "decoder.1.cross_attention"]


def api(client: TestClient, **request: Any) -> Any:
    body = {"run": "small", "texts": [TEXT], **request}
    return client.post("/v1/predict", json=body).json()["predictions"][0]


def answer(client: TestClient, route: Any, text: str) -> None:
    """What the API answers to a request of the page, with a text that tells it from others."""
    found = client.post("/v1/predict", json=route.request.post_data_json).json()
    found["predictions"][0]["text"] = text
    route.fulfill(json=found)


# --- 1: type, choose, read, point ---


def test_an_empty_page_offers_sentences_to_click(explorer: Explorer) -> None:
    offered = explorer.texts("[data-testid=example]")
    assert len(offered) == 3
    explorer.page.click("[data-testid=example] >> nth=1")
    explorer.settle()
    assert explorer.page.input_value("[data-testid=source]") == offered[1]
    assert explorer.output()


def test_enter_runs_and_the_output_appears_token_by_token(
    explorer: Explorer, client: TestClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once, shown, seen, drafts = engine.stream, Condition(), set[str](), list[str]()

    def see(text: str) -> None:
        with shown:
            seen.add(text)
            shown.notify()

    def slowly(request: Any) -> Iterator[Any]:
        for event in at_once(request):
            yield event
            if isinstance(event, Draft) and event.text:  # so small a model says all in one packet
                drafts.append(event.text)
                with shown:
                    shown.wait_for(partial(seen.__contains__, event.text), timeout=60)

    monkeypatch.setattr(engine, "stream", slowly)
    explorer.page.expose_function("see", see)
    explorer.page.evaluate(
        """() => { window.said = []; new MutationObserver(() => {
            const text = document.querySelector("[data-testid=output]")?.textContent;
            if (!text || window.said.at(-1) === text) return;
            window.said.push(text);
            window.see(text);
        }).observe(document.body, {subtree: true, childList: true, characterData: true}); }"""
    )
    expected = api(client)["text"]
    assert explorer.ask(TEXT) == expected
    said = explorer.page.evaluate("window.said")
    assert said == [*dict.fromkeys([*drafts, expected])]
    assert len(said) > 2
    assert all(expected.startswith(text) for text in said)


def test_the_decoding_that_is_chosen_is_used(explorer: Explorer, client: TestClient) -> None:
    explorer.page.click("[data-method=beam]")
    explorer.page.fill("[data-number=beam]", "3")
    explorer.page.fill("[data-number=choices]", "2")
    assert (
        explorer.ask(TEXT)
        == api(client, decoding={"method": "beam", "beam": 3, "choices": 2})["text"]
    )
    explorer.page.click("[data-method=sample]")
    explorer.page.fill("[data-number=seed]", "11")
    explorer.page.fill("[data-number=temperature]", "2")
    drawn = {"method": "sample", "seed": 11, "temperature": 2, "top_p": 1}
    assert explorer.ask(TEXT) == api(client, decoding=drawn)["text"]


def test_pointing_at_a_word_lights_up_its_partners_in_both_directions(
    explorer: Explorer, client: TestClient
) -> None:
    explorer.ask(TEXT)
    weights = _average(api(client, attention={}))
    for axis, across in (("rows", "columns"), ("columns", "rows")):
        explorer.page.hover(f".sentence [data-axis={axis}][data-index='1']")
        filled = explorer.page.eval_on_selector_all(
            f".sentence [data-axis={across}] .fill",
            "all => all.map(each => Number(each.getAttribute('fill-opacity')))",
        )
        partners = weights[1] if axis == "rows" else [row[1] for row in weights]
        assert filled.index(max(filled)) == partners.index(max(partners))
        assert explorer.count(".line.lit") == sum(weight >= 0.005 for weight in partners)


def test_click_pins_escape_lets_go_and_arrows_walk(explorer: Explorer) -> None:
    explorer.ask(TEXT)
    explorer.page.click(".sentence [data-axis=rows][data-index='0']")
    explorer.page.mouse.move(0, 0)
    assert explorer.count(".sentence .pinned") == 1
    first = explorer.texts("aside h2")
    explorer.page.keyboard.press("ArrowRight")
    assert explorer.page.evaluate("document.activeElement.dataset.index") == "1"
    assert explorer.texts("aside h2") != first
    explorer.page.keyboard.press("Enter")
    assert explorer.page.get_attribute(".sentence .pinned", "data-index") == "1"
    explorer.page.keyboard.press("Escape")
    assert explorer.count(".pinned") == 0


def _average(prediction: Any) -> list[list[float]]:
    heads = [head for layer in prediction["attention"][0]["layers"] for head in layer["weights"]]
    rows, columns = range(len(heads[0])), range(len(heads[0][0]))
    return [[sum(head[t][s] for head in heads) / len(heads) for s in columns] for t in rows]


# --- 2: the views ---


def test_the_matrix_shows_the_weights(explorer: Explorer, client: TestClient) -> None:
    explorer.ask(TEXT)
    explorer.page.click("[data-tab=matrix]")
    weights = _average(api(client, attention={}))
    assert explorer.count("[data-testid=cell]") == sum(map(len, weights))
    for t, row in enumerate(weights):
        for s, weight in enumerate(row):
            cell = f"[data-testid=cell][data-row='{t}'][data-column='{s}']"
            shown = explorer.page.get_attribute(cell, "data-weight")
            assert float(shown) == pytest.approx(weight, abs=0.0051)
    explorer.page.hover("[data-testid=cell][data-row='2'][data-column='1']")
    assert explorer.page.get_attribute(".frame", "visibility") == "visible"


def test_a_head_is_chosen_in_the_grid_and_enlarged(explorer: Explorer, client: TestClient) -> None:
    explorer.ask(TEXT)
    assert explorer.count("aside .head") == 4
    explorer.page.click("[data-tab=heads]")
    explorer.page.click("main .large .head[data-layer='1'][data-head='0']")
    head = api(client, attention={})["attention"][0]["layers"][1]["weights"][0]
    cell = "[data-testid=enlarged] [data-testid=cell][data-row='1'][data-column='2']"
    shown = explorer.page.get_attribute(cell, "data-weight")
    assert float(shown) == pytest.approx(head[1][2], abs=0.0051)
    assert "layer 2, head 1" in explorer.page.inner_text("aside")
    explorer.page.click("[data-kind=encoder]")
    source = len(api(client)["source"]["tokens"])
    assert explorer.count("[data-testid=enlarged] [data-testid=cell]") == source**2


def test_the_arithmetic_walk_has_the_numbers_of_explain(
    explorer: Explorer, client: TestClient
) -> None:
    explorer.ask(TEXT)
    explorer.page.click(".sentence [data-axis=rows][data-index='2']")
    explorer.page.click("aside .head[data-layer='1'][data-head='1']")
    explorer.page.click("[data-tab=arithmetic]")
    explorer.page.wait_for_selector("[data-testid=arithmetic]")
    request = {"run": "small", "text": TEXT, "layer": CROSS[1], "head": 1, "token": 2}
    found = client.post("/v1/explain", json=request).json()
    shown = explorer.page.locator("[data-testid=arithmetic] tbody td[data-step=weights]")
    numbers = [float(text) for text in shown.all_inner_texts()]
    assert numbers == pytest.approx([*sorted(found["weights"], reverse=True), 1.0], abs=0.0051)
    explorer.page.click(".walk button:text('softmax')")
    assert explorer.count("td.lit[data-step=weights]") == len(numbers)
    assert "weights" in explorer.page.inner_text("[data-testid=walk]")
    explorer.page.click("text=next →")
    assert explorer.count("td.lit[data-step=weighted]") == len(numbers)


def test_mask_and_positions(explorer: Explorer, client: TestClient) -> None:
    explorer.ask(TEXT)
    target = len(api(client)["target"]["tokens"])
    explorer.page.click("[data-kind=decoder]")
    explorer.page.click("[data-tab=mask]")
    assert explorer.count("[data-may=true]") == target * (target + 1) // 2
    assert "Causal" in explorer.page.inner_text("[data-view=mask]")
    explorer.page.click("[data-tab=positions]")
    explorer.page.wait_for_selector("[data-testid=positions] canvas")
    assert "20 positions by 16 dimensions" in explorer.page.inner_text("[data-view=positions]")


# --- 3: the beam tree ---


def test_the_beam_tree_and_a_path_that_was_dropped(explorer: Explorer, client: TestClient) -> None:
    explorer.page.click("[data-method=beam]")
    said = explorer.ask(TEXT)
    explorer.page.click("[data-tab=tree]")
    decoding = {"method": "beam", "beam": 4, "choices": 4}
    nodes = api(client, decoding=decoding, tree=True)["tree"]
    assert explorer.count("[data-testid=node]") == len(nodes)
    assert explorer.count(".node.returned") == sum(node["returned"] for node in nodes)
    dropped = next(n for n, node in enumerate(nodes) if not node["kept"] and node["step"] == 2)
    asked: list[Any] = []

    def mark(route: Any) -> None:
        asked.append(route.request.post_data_json["output_ids"])
        answer(client, route, "DROPPED")

    explorer.page.route("**/v1/predict", mark)
    explorer.page.click(f"[data-node='{dropped}']")
    explorer.page.wait_for_selector("[data-testid=returned]")
    explorer.settle()
    assert explorer.output() == "DROPPED"
    assert asked[0] == [nodes[number]["id"] for number in path(nodes, dropped)]
    explorer.page.click("[data-tab=matrix]")
    assert explorer.count(".matrix [data-axis=rows]") == 3
    explorer.page.click("[data-testid=returned]")
    explorer.page.wait_for_selector("[data-testid=returned]", state="detached")
    assert explorer.output() == said


def path(nodes: Any, last: int) -> list[int]:
    """The numbers of the nodes from the root to the last."""
    return [*path(nodes, nodes[last]["parent"]), last] if last >= 0 else []


# --- 4: heads off ---


def test_heads_are_switched_off_and_the_difference_is_marked(
    explorer: Explorer, client: TestClient
) -> None:
    before = explorer.ask(TEXT)
    off = {CROSS[0]: [0, 1], CROSS[1]: [0, 1]}
    expected = f"{api(client, heads_off=off)['text']} OTHER"

    def mark(route: Any) -> None:
        """The text differs, even if the tiny model does not use its attention."""
        request = route.request.post_data_json
        text = api(client, **request)["text"]
        answer(client, route, f"{text} OTHER" if request["heads_off"] == off else text)

    explorer.page.route("**/v1/predict", mark)
    for layer in (0, 1):
        explorer.page.focus(f"[data-header-layer='{layer}']")
        explorer.page.keyboard.press("x")
    explorer.page.locator("[data-testid=output]", has_text=re.compile(f"^{expected}$")).wait_for()
    assert explorer.count("aside .head.off") == 4
    assert before in explorer.page.inner_text("[data-testid=before]")
    assert explorer.count("mark.differs") > 0
    explorer.page.click("[data-testid=all-on]")
    explorer.settle()
    assert explorer.output() == before
    assert explorer.count(".head.off") == 0


def test_an_answer_that_is_overtaken_is_not_shown(explorer: Explorer, client: TestClient) -> None:
    explorer.ask(TEXT)
    held: list[Any] = []
    explorer.page.route(
        "**/v1/predict",
        lambda route: answer(client, route, "NEWEST") if held else held.append(route),
    )
    for layer in (0, 1):
        explorer.page.focus(f"[data-header-layer='{layer}']")
        explorer.page.keyboard.press("x")
    explorer.page.locator("[data-testid=output]", has_text=re.compile("^NEWEST$")).wait_for()
    with explorer.page.expect_response("**/v1/predict"):
        answer(client, held[0], "OVERTAKEN")
    explorer.settle()
    assert explorer.output() == "NEWEST"


def test_with_other_heads_no_path_of_the_old_tree_is_left(explorer: Explorer) -> None:
    explorer.page.click("[data-method=beam]")
    explorer.ask(TEXT)
    explorer.page.click("[data-tab=tree]")
    explorer.page.click(".node:not(.kept) >> nth=0")
    explorer.page.wait_for_selector("[data-testid=returned]")
    explorer.settle()
    explorer.page.focus("[data-header-layer='1']")
    explorer.page.keyboard.press("x")
    explorer.page.wait_for_selector("[data-testid=before]")
    explorer.settle()
    assert explorer.count("[data-testid=returned]") == 0


def test_the_focus_stays_where_it_was(explorer: Explorer) -> None:
    """The grid is drawn anew with every answer: whoever uses keys goes on from the same head."""
    explorer.ask(TEXT)
    for place in ("[data-header-layer='1']", "aside .head[data-layer='1'][data-head='0']"):
        grid = explorer.page.query_selector("aside .heads")
        explorer.page.focus(place)
        explorer.page.keyboard.press("x")
        explorer.page.wait_for_function("grid => !grid.isConnected", arg=grid)
        assert explorer.page.evaluate(f"document.activeElement.matches({place!r})")


# --- 5: two runs ---


def test_two_runs_side_by_side(explorer: Explorer, client: TestClient) -> None:
    said = explorer.ask(TEXT)
    explorer.page.select_option("[data-testid=compare-choice]", "other")
    explorer.page.wait_for_selector("[data-view][data-run=other] .sentence")
    explorer.settle()  # both runs are asked
    theirs = client.post("/v1/predict", json={"run": "other", "texts": [TEXT]}).json()
    assert explorer.output("small") == said
    assert explorer.output("other") == theirs["predictions"][0]["text"]
    if explorer.output("other") != said:
        assert explorer.count("mark.differs") > 0
    explorer.page.click("[data-run=small] .sentence [data-axis=columns][data-index='1']")
    assert explorer.count(".sentence .pinned") == 2, "the selection is one for both"
    boxes = [
        explorer.page.locator(f".pane[data-run={run}]").bounding_box() for run in ("small", "other")
    ]
    assert boxes[0]["y"] == boxes[1]["y"]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]


# --- 6: what fits the task ---


def test_the_next_token_distribution_of_the_pinned_word(
    explorer: Explorer, client: TestClient
) -> None:
    explorer.ask(TEXT)
    explorer.page.click(".sentence [data-axis=rows][data-index='1']")
    token = api(client, alternatives=5)["target"]["tokens"][1]
    assert f"step 2 · p {token['probability']:.2f}" in explorer.page.inner_text("aside")
    shown = explorer.texts("[data-testid=choices] .number")
    assert shown == [f"{each['probability']:.2f}" for each in token["alternatives"]]


def test_a_language_model_shows_one_text_and_what_could_come_next(
    explorer: Explorer, client: TestClient
) -> None:
    explorer.page.select_option("[data-testid=run-choice]", "story")
    assert explorer.page.inner_text("[data-testid=run]").startswith("Continue")
    explorer.page.click("[data-method=sample]")
    explorer.page.fill("[data-number=length]", "5")
    explorer.page.fill("[data-testid=source]", "a b")
    explorer.page.keyboard.press("Enter")
    explorer.page.wait_for_selector("[data-testid=text]")
    drawn = {"method": "sample", "seed": 1, "temperature": 1, "top_p": 1, "length": 5}
    request = {"run": "story", "texts": ["a b"], "decoding": drawn, "alternatives": 5}
    found = client.post("/v1/predict", json={**request, "attention": {"kinds": ["decoder"]}}).json()
    tokens = found["predictions"][0]["target"]["tokens"]
    assert explorer.count("[data-testid=text] .token") == len(tokens) + 1
    assert explorer.count("[data-testid=text] .given") == 3
    explorer.page.click("[data-testid=text] .token >> nth=4")
    assert f"step 4 · p {tokens[3]['probability']:.2f}" in explorer.page.inner_text("aside")
    inked = explorer.page.eval_on_selector_all(
        "[data-testid=text] .token",
        "all => all.map(each => each.style.getPropertyValue('--weight'))",
    )
    heads = [
        h for layer in found["predictions"][0]["attention"][0]["layers"] for h in layer["weights"]
    ]
    mean = [sum(head[3][key] for head in heads) / len(heads) for key in range(4)]
    assert [float(weight) for weight in inked[:4]] == pytest.approx(mean, abs=1e-3)
    explorer.page.click("[data-tab=arithmetic]")
    explorer.page.wait_for_selector("[data-testid=arithmetic]")


# --- 7: the runs page ---


def test_the_runs_page(explorer: Explorer, client: TestClient) -> None:
    explorer.page.click("[data-testid=runs-page]")
    explorer.page.wait_for_selector("[data-testid=scores]")
    table = explorer.page.inner_text("[data-testid=scores]")
    for run in client.get("/v1/runs").json()["runs"]:
        assert run["name"] in table
        assert f"{run['score']['value']:.2f}" in table
    assert explorer.count("[data-testid=curves] svg") >= 3
    assert explorer.count("[data-testid=lengths] svg") >= 1
    explorer.page.click("[data-testid=card] >> nth=0")
    assert "# transformer for translate" in explorer.page.inner_text("[data-testid=card] >> nth=0")
