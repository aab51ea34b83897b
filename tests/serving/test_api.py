"""The HTTP API: what it answers."""

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient
from serving.strict_json import strict

from saccade.decoding.options import DecodeOptions
from saccade.errors import InputError
from saccade.inspection.explain import Explanation, Steps
from saccade.serving import folder, schemas, trace
from saccade.serving.app import create_app
from saccade.serving.engine import Engine
from saccade.serving.schemas import Decoding
from saccade.tasks.generate import Generate
from saccade.training.model import Model

EVERYTHING = ["cross", "encoder", "decoder"]
TEXT = "a b c d"


def predicted(client: TestClient, **request: Any) -> Any:
    answer = client.post("/v1/predict", json={"run": "small", "texts": [TEXT], **request})
    assert answer.status_code == 200, answer.text
    return strict(answer.content)["predictions"][0]


def test_health_and_runs(client: TestClient) -> None:
    assert strict(client.get("/health").content)["status"] == "ok"
    runs = strict(client.get("/v1/runs").content)["runs"]
    assert [run["name"] for run in runs] == ["small", "other", "story"]
    small, other, story = runs
    assert [(each["kind"], each["heads"]) for each in other["attention"]] == [("cross", [1])]
    assert [(each["kind"], each["heads"]) for each in story["attention"]] == [("decoder", [2, 2])]
    kinds = {each["kind"]: each for each in small["attention"]}
    assert list(kinds) == EVERYTHING
    assert kinds["cross"]["layers"] == ["decoder.0.cross_attention", "decoder.1.cross_attention"]
    assert kinds["cross"]["heads"] == [2, 2]
    assert small["examples"]
    assert small["score"]["name"] == "BLEU"


def test_a_run_of_ones_own_task_is_served_as_its_kind_is(engine: Engine) -> None:
    story = engine.models["story"]
    mine = replace(story.settings, task_name="mine.py:Mine")
    own = Engine({"own": Model(story.run, mine, story.task, story.module)})
    assert [each.task for each in own.runs().runs] == ["generate"]
    own.close()

    class Listen(Generate):
        kind = "listen"

    heard = Listen(story.task.config, story.task.tokenizer)  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"'mine.py:Mine' cannot be served yet"):
        Engine({"own": Model(story.run, mine, heard, story.module)})


def test_the_details_of_a_run(client: TestClient) -> None:
    details = strict(client.get("/v1/runs/small").content)
    assert details["card"].startswith("# transformer for translate")
    assert [step for step, _ in details["curves"]["dev BLEU"]] == [15, 30]
    assert len(details["curves"]["loss"]) > 1
    (dev,) = details["evaluations"]
    bands = dev["by_length"]
    assert sum(band["examples"] for band in bands) == dev["examples"] == 30
    assert all(a["longest"] < b["shortest"] for a, b in pairwise(bands))
    assert details["config"]["model"]["heads"] == "2"


@pytest.mark.parametrize("run", ["small", "story"])
def test_quality_by_length_is_the_metric_itself(
    client: TestClient, engine: Engine, run: str
) -> None:
    (dev,) = strict(client.get(f"/v1/runs/{run}").content)["evaluations"]
    kept = engine.models[run].run.evaluation("dev")
    (whole,) = folder.by_length(kept, bands=1)
    values = {name: metric["value"] for name, metric in kept["metrics"].items()}
    assert whole.scores == pytest.approx({name: values[name] for name in whole.scores})
    assert next(iter(values)) in whole.scores
    assert {*dev["by_length"][0]["scores"]} == {*whole.scores}
    assert folder.by_length({**kept, "metrics": {}}) == folder.by_length({}) == []


@pytest.mark.parametrize("files", [["a.en", "b.de"], ["a.en.gz", "b.de.GZ"]])
def test_the_endings_of_files_name_languages(files: list[str]) -> None:
    assert folder.languages(files) == "en → de"
    assert folder.languages(["a.english", "b.de"]) == folder.languages(["a.tsv"]) == ""


def test_positions_are_the_models_own(client: TestClient, engine: Engine) -> None:
    found = strict(client.get("/v1/runs/small/positions?size=7").content)
    module: Any = engine.models["small"].module
    torch.testing.assert_close(
        torch.tensor(found["rows"]), module.positions.first(7), atol=1e-4, rtol=0
    )


def test_folders_of_the_same_name_are_told_apart(engine: Engine) -> None:
    again = Engine({"a/x": engine.models["small"], "b/x": engine.models["other"]})
    with TestClient(create_app(again), base_url="http://127.0.0.1") as client:
        assert client.get("/v1/runs/a%2Fx").json()["summary"]["model"] == "transformer"
        assert client.get("/v1/runs/b%2Fx").json()["summary"]["model"] == "seq2seq"
        assert client.get("/v1/runs/a%2Fx/positions?size=3").json()["dim"] == 16
        assert "no vectors" in client.get("/v1/runs/b%2Fx/positions").json()["error"]
    again.close()


def test_a_prediction_is_that_of_the_model(client: TestClient, engine: Engine) -> None:
    model = engine.models["small"]
    for decoding, options in (
        ({"method": "greedy"}, DecodeOptions(beam=1)),
        ({"method": "beam", "beam": 3, "choices": 2}, DecodeOptions(beam=3, choices=2)),
        ({"method": "sample", "seed": 7}, DecodeOptions(sample=True, seed=7)),
    ):
        found, expected = predicted(client, decoding=decoding), model.predict([TEXT], options)[0]
        assert found["text"] == expected.text
        assert found["score"] == pytest.approx(expected.score)
        assert found["finished"] == expected.finished
        assert [token["id"] for token in found["target"]["tokens"]][: len(expected.ids)] == (
            expected.ids
        )


def test_several_texts_are_answered_in_order_and_nothing_is_nothing(client: TestClient) -> None:
    request = {"run": "small", "texts": ["a b", "", "c d e", " \n"], "attention": {}}
    found = strict(client.post("/v1/predict", json=request).content)["predictions"]
    assert [len(each["target"]["tokens"]) > 0 for each in found] == [True, False, True, False]
    assert found[0]["text"] == predicted(client, texts=["a b"])["text"]
    assert found[1]["attention"] == []


def test_attention_is_what_was_recorded_while_decoding(client: TestClient, engine: Engine) -> None:
    model = engine.models["small"]
    found = predicted(client, attention={"kinds": EVERYTHING})
    (expected,) = model.predict([TEXT], DecodeOptions(beam=1), attention="all")
    assert expected.attention is not None
    by_kind = {each["kind"]: each for each in found["attention"]}
    assert list(by_kind) == EVERYTHING
    for recorded in (expected.attention, *expected.attention.others):
        for layer in by_kind[recorded.kind]["layers"]:
            weights = torch.tensor(layer["weights"])
            torch.testing.assert_close(weights, recorded.weights[layer["name"]], atol=1e-4, rtol=0)
    shapes = {kind: _shape(each["layers"][0]["weights"]) for kind, each in by_kind.items()}
    source, target = len(found["source"]["tokens"]), len(found["target"]["tokens"])
    assert shapes == {
        "cross": (2, target, source),
        "encoder": (2, source, source),
        "decoder": (2, target, target),
    }
    assert len(found["read"]["tokens"]) == target
    for each in found["attention"]:
        weights = torch.tensor(each["layers"][0]["weights"])
        torch.testing.assert_close(
            weights.sum(-1), torch.ones(weights.shape[:2]), atol=1e-2, rtol=0
        )


def _shape(nested: Any) -> tuple[int, ...]:
    return tuple(torch.tensor(nested).shape)


def test_the_alternatives_are_the_most_probable_and_the_chosen_one_is_greedys(
    client: TestClient,
) -> None:
    found = predicted(client, alternatives=3)
    for token in found["target"]["tokens"]:
        values = [each["probability"] for each in token["alternatives"]]
        assert values == sorted(values, reverse=True)
        assert len(values) == 3
        assert token["id"] == token["alternatives"][0]["id"]
        assert token["probability"] == pytest.approx(values[0])


def test_the_tree_holds_every_step_and_the_returned_path(client: TestClient) -> None:
    decoding = {"method": "beam", "beam": 2, "choices": 3}
    found = predicted(client, decoding=decoding, tree=True)
    nodes = found["tree"]
    returned = [node["id"] for node in nodes if node["returned"]]
    assert returned == [token["id"] for token in found["target"]["tokens"]]
    for node in nodes:
        assert 0 <= node["probability"] <= 1
        before = 0 if node["parent"] < 0 else nodes[node["parent"]]["log_prob"]
        assert math.log(node["probability"]) == pytest.approx(node["log_prob"] - before)
    assert not found["text"] or found["text"] == predicted(client, decoding=decoding)["text"]


def test_a_given_output_is_looked_into_instead_of_decoded(client: TestClient) -> None:
    tree = predicted(client, decoding={"method": "beam", "beam": 3}, tree=True)["tree"]
    other = next(n for n, node in enumerate(tree) if not node["returned"] and node["step"] == 2)
    ids = []
    while other >= 0:
        ids.insert(0, tree[other]["id"])
        other = tree[other]["parent"]
    found = predicted(client, output_ids=ids, attention={}, alternatives=2)
    assert [token["id"] for token in found["target"]["tokens"]] == ids
    assert _shape(found["attention"][0]["layers"][0]["weights"])[1] == len(ids)
    refused = client.post(
        "/v1/predict", json={"run": "small", "texts": [TEXT], "output_ids": [10**6]}
    )
    assert "vocabulary" in strict(refused.content)["error"]


def test_heads_that_are_off_change_this_request_and_no_other(client: TestClient) -> None:
    before = predicted(client, alternatives=1)
    off = {f"decoder.{n}.cross_attention": [0, 1] for n in range(2)}
    changed = predicted(client, alternatives=1, heads_off=off)
    probabilities = [
        [token["probability"] for token in each["target"]["tokens"]] for each in (before, changed)
    ]
    assert probabilities[0] != probabilities[1]
    assert predicted(client, alternatives=1) == before


def test_a_long_text_comes_small_with_the_chosen_head_whole(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = predicted(client, attention={"kinds": ["cross"]})["attention"][0]
    monkeypatch.setattr(trace, "WEIGHTS_LIMIT", 1)
    monkeypatch.setattr(trace, "THUMBNAIL", 2)
    layer = whole["layers"][1]
    choice = {"kinds": ["cross"], "layer": layer["name"], "head": 1}
    small = predicted(client, attention=choice)["attention"][0]
    assert small["scale"] > 1
    assert small["chosen"] == layer["weights"][1]
    assert max(_shape(small["layers"][0]["weights"])[1:]) <= 2
    assert torch.tensor(small["layers"][1]["weights"]).max() == torch.tensor(layer["weights"]).max()


def test_explain_gives_the_numbers_of_one_head(client: TestClient) -> None:
    request = {
        "run": "small",
        "text": TEXT,
        "layer": "decoder.1.cross_attention",
        "head": 1,
        "token": 0,
        "decoding": {"method": "greedy"},
    }
    found = strict(client.post("/v1/explain", json=request).content)
    attention = predicted(client, attention={})["attention"][0]["layers"][1]["weights"]
    assert found["weights"] == pytest.approx(attention[1][0], abs=1e-4)
    products = torch.tensor(found["k"]) @ torch.tensor(found["q"])
    torch.testing.assert_close(products, torch.tensor(found["products"]))
    torch.testing.assert_close(products / found["scale"], torch.tensor(found["scores"]))


def test_every_step_of_an_explanation_is_sent() -> None:
    ones = torch.ones(2)
    steps = Steps(weights=ones / 2, factor=ones, probabilities=ones / 4)
    made = Explanation("attention", 0, 1, 0, "x", ["a", "b"], "", steps)
    sent = schemas.Explanation(**made.to_dict()).model_dump()
    assert sent == made.to_dict()
    assert (sent["factor"], sent["probabilities"]) == ([1, 1], [0.25, 0.25])


@pytest.mark.parametrize("length", [3, 40], ids=["within", "beyond the context"])
def test_a_language_model_looks_back_at_its_prompt_and_its_own_words(
    client: TestClient, engine: Engine, length: int
) -> None:
    decoding = {"method": "sample", "seed": 2, "length": length}
    request = {"run": "story", "texts": ["a b"], "decoding": decoding, "alternatives": 4}
    answer = client.post("/v1/predict", json={**request, "attention": {"kinds": ["decoder"]}})
    found = strict(answer.content)["predictions"][0]
    model = engine.models["story"]
    (expected,) = model.predict(["a b"], DecodeOptions(sample=True, seed=2, length=length))
    target, read = found["target"]["tokens"], found["read"]["tokens"]
    assert found["source"] is None
    assert found["text"] == expected.text
    assert [token["given"] for token in target].count(True) == 2
    said = [token for token in target if not token["given"]]
    logs = [math.log(token["probability"]) for token in said]
    assert logs == pytest.approx(expected.token_scores, abs=1e-3)
    assert [token["id"] for token in read[1:]] == [token["id"] for token in target[:-1]]
    weights = torch.tensor(found["attention"][0]["layers"][1]["weights"])
    assert weights.shape == (2, len(target), len(read))
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, len(target)), atol=1e-2, rtol=0)
    assert not weights.triu(1).any()


def test_a_language_model_searches_a_tree_and_its_stream_tells_of_the_search(
    client: TestClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoding = {"method": "beam", "beam": 3, "length": 6}
    request = {"run": "story", "texts": ["a b"], "decoding": decoding, "tree": True}
    found = predicted(client, **request)
    (expected,) = engine.models["story"].predict(["a b"], DecodeOptions(
        beam=3, length=6, length_penalty=0.0
    ))  # fmt: skip
    assert found["text"] == expected.text
    returned = [node["id"] for node in found["tree"] if node["returned"]]
    assert sorted(returned) == sorted(expected.ids)
    monkeypatch.setattr(Model, "stream", None)  # one greedy path is not what is searched
    answer = client.post("/v1/predict/stream", json={**request, "tree": False})
    assert answer.text.count("event: draft") >= 5
    for setting in ({"stop": ["x"]}, {"repetition_penalty": 2.0}):
        refused = client.post("/v1/predict", json={**request, "decoding": setting})
        assert "tree" in strict(refused.content)["error"]


def test_decoding_has_all_that_the_command_line_has(client: TestClient, engine: Engine) -> None:
    model, request = engine.models["story"], {"run": "story", "texts": ["a b"]}
    decoding = {"length": 30, "repetition_penalty": 3.0}
    said = predicted(client, **request, decoding=decoding)["text"]
    options = DecodeOptions(beam=1, length=30, length_penalty=0.0, repetition_penalty=3.0)
    assert said == model.predict(["a b"], options)[0].text
    stop = said[3:5]
    stopped = predicted(client, **request, decoding={**decoding, "stop": [stop]})["text"]
    assert stopped == said[: said.index(stop)]


def test_beam_search_keeps_several_paths_where_the_task_usually_draws() -> None:
    assert Decoding(method="beam").options(Generate.options).beam == DecodeOptions().beam
    assert Decoding(method="beam", beam=2).options(Generate.options).beam == 2


def test_a_text_too_long_to_look_into_is_refused(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace, "LONGEST", 6)
    request = {"run": "story", "texts": ["a b"], "decoding": {"length": 5}}
    assert predicted(client, **request)["text"]
    for wanted in ({"attention": {"kinds": ["decoder"]}}, {"alternatives": 1}):
        refused = client.post("/v1/predict", json={**request, **wanted})
        assert refused.status_code == 422
        assert "too many to look into" in strict(refused.content)["error"]


STREAMED: list[dict[str, Any]] = [
    *(
        {"run": "small", "texts": [TEXT], "decoding": {"method": method}}
        for method in ("greedy", "beam", "sample")
    ),
    {"run": "story", "texts": ["a b"], "decoding": {"length": 20, "repetition_penalty": 0.5}},
]


@pytest.mark.parametrize("request_", STREAMED, ids=lambda each: str(each["decoding"]))
def test_a_stream_grows_and_ends_with_what_predict_gives(
    client: TestClient, request_: dict[str, Any]
) -> None:
    answer = client.post("/v1/predict/stream", json=request_)
    assert answer.headers["content-type"].startswith("text/event-stream")
    events = [event.split("\n", 1) for event in answer.text.strip().split("\n\n")]
    assert [name for name, _ in events[:-1]] == ["event: draft"] * (len(events) - 1)
    assert events[-1][0] == "event: done"
    done = strict(events[-1][1].removeprefix("data: ").encode())
    assert done["predictions"][0] == predicted(client, **request_)  # its score, too
    drafts = [strict(data.removeprefix("data: ").encode())["text"] for _, data in events[:-1]]
    assert len(drafts) > 1
    if request_["decoding"].get("method") != "beam":
        assert all(b.startswith(a) for a, b in pairwise(drafts))
