"""The HTTP API: what it answers, what it refuses, and that it never answers anything but JSON."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from threading import Event
from typing import Any

import pytest
import torch
from fastapi.testclient import TestClient

from saccade.decoding.options import DecodeOptions
from saccade.errors import InputError
from saccade.serving import folder, trace
from saccade.serving.app import create_app
from saccade.serving.engine import BusyError, Engine
from saccade.serving.schemas import BODY_LIMIT, TEXT_LIMIT, Decoding, PredictRequest
from saccade.tasks.generate import Generate
from saccade.training.model import Model

EVERYTHING = ["cross", "encoder", "decoder"]
TEXT = "a b c d"


def strict(content: bytes) -> Any:
    """JSON as the standard has it: NaN and infinity are refused."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(content, parse_constant=refuse)


def predicted(client: TestClient, **request: Any) -> Any:
    answer = client.post("/v1/predict", json={"run": "small", "texts": [TEXT], **request})
    assert answer.status_code == 200, answer.text
    return strict(answer.content)["predictions"][0]


# --- what it answers ---


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


# --- what it refuses ---


@pytest.mark.parametrize(
    ("change", "status", "says"),
    [
        ({"run": "smal"}, 404, "did you mean 'small'?"),
        ({"texts": []}, 422, "texts"),
        ({"texts": ["a"] * 33}, 422, "texts"),
        ({"texts": ["a" * (TEXT_LIMIT + 1)]}, 422, "texts.0"),
        ({"texts": "a b"}, 422, "texts"),
        ({"surprise": 1}, 422, "surprise"),
        ({"decoding": {"method": "magic"}}, 422, "decoding.method"),
        ({"decoding": {"method": "beam", "beam": 0}}, 422, "decoding.beam"),
        ({"decoding": {"method": "beam", "beam": 2, "nbest": 3}}, 422, "nbest is 3"),
        ({"decoding": {"method": "sample"}, "tree": True}, 422, "tree"),
        ({"attention": {"kinds": ["sideways"]}}, 422, "attention.kinds.0"),
        ({"heads_off": {"nowhere": [0]}}, 422, "no attention is called 'nowhere'"),
        ({"heads_off": {"encoder.0.attention": [9]}}, 422, "no head 9"),
        ({"texts": ["a", "b"], "output_ids": [5]}, 422, "exactly one text"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(
    client: TestClient, change: dict[str, Any], status: int, says: str
) -> None:
    answer = client.post("/v1/predict", json={"run": "small", "texts": [TEXT], **change})
    assert answer.status_code == status
    failure = strict(answer.content)
    assert says in failure["error"]
    assert "\n" not in failure["error"]
    assert set(failure) == {"error", "field"}


@pytest.mark.parametrize(
    "body",
    [
        b'{"run": "small", "texts": ["a"], "decoding": {"method": "sample", "temperature": NaN}}',
        b'{"run": "small", "texts": ["a"], "decoding": {"method": "sample", "top_p": Infinity}}',
        b"[" * 200_000,
        b"{",
        b"\xff\xfe",
        b"",
    ],
)
def test_a_body_that_is_no_json_is_refused(client: TestClient, body: bytes) -> None:
    answer = client.post("/v1/predict", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422)
    assert strict(answer.content)["error"]


def test_text_of_another_type_is_refused(client: TestClient) -> None:
    """So that a page elsewhere cannot ask without the browser asking us first."""
    body = json.dumps({"run": "small", "texts": [TEXT]})
    answer = client.post("/v1/predict", content=body, headers={"content-type": "text/plain"})
    assert answer.status_code == 422


def test_a_body_over_the_limit_is_refused_with_or_without_its_length(client: TestClient) -> None:
    large = b" " * (BODY_LIMIT + 1)
    for content in (large, iter([large[: BODY_LIMIT // 2]] * 3)):
        answer = client.post(
            "/v1/predict", content=content, headers={"content-type": "application/json"}
        )
        assert answer.status_code == 413
        assert "larger" in strict(answer.content)["error"]


def test_paths_that_are_not_there(client: TestClient) -> None:
    for path in ("/v1/nothing", "/docs", "/redoc", "/../schemas.py", "/v1/runs/nobody"):
        answer = client.get(path)
        assert answer.status_code == 404
        assert strict(answer.content)["error"]
    assert client.get("/v1/predict").status_code == 404


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:8080", 200),
        ("localhost:1234", 200),
        ("[::1]:80", 200),
        ("192.168.1.7:8080", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost.evil.example:80", 421),
        ("", 421),
        ("[", 421),
    ],
)
def test_only_its_own_names_are_answered(client: TestClient, host: str, status: int) -> None:
    answer = client.get("/health", headers={"host": host})
    assert answer.status_code == status
    strict(answer.content)


def test_a_page_from_elsewhere_may_not_ask(client: TestClient) -> None:
    own = {"host": "127.0.0.1:8080", "origin": "http://127.0.0.1:8080"}
    assert client.get("/health", headers=own).status_code == 200
    for origin in ("http://evil.example", "null", "http://127.0.0.1:9999", "http://["):
        refused = client.get("/health", headers={**own, "origin": origin})
        assert refused.status_code == 403


def test_every_answer_says_what_a_browser_may_do_with_it(client: TestClient) -> None:
    answers = [client.get(path) for path in ("/", "/health", "/main.js", "/nothing")]
    answers.append(client.get("/", headers={"host": "evil.example"}))
    for answer in answers:
        assert answer.headers["content-security-policy"].startswith("default-src 'self'")
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert answers[0].headers["content-type"].startswith("text/html")
    assert answers[2].headers["content-type"].startswith("text/javascript")


def test_a_failure_inside_is_one_sentence_too(
    client: TestClient, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("secret")

    monkeypatch.setattr(engine.models["small"], "predict", broken)
    request = {"run": "small", "texts": [TEXT]}
    for path in ("/v1/predict", "/v1/predict/stream"):
        answer = client.post(path, json=request)
        assert "the server failed" in answer.text
        assert "secret" not in answer.text


def test_an_engine_that_is_full_says_so(engine: Engine) -> None:
    full = Engine(engine.models, waiting=1)
    begun, ending = Event(), Event()
    job = full._queued(lambda: begun.set() or ending.wait(10))
    assert begun.wait(10)
    with pytest.raises(BusyError):
        full.predict(PredictRequest(run="small", texts=["a b"]))
    ending.set()
    assert job.result()
    full.close()


def test_numbers_that_are_not_finite_are_never_written() -> None:
    from saccade.serving.schemas import Score

    assert Score(name="x", value=math.nan, signature="").model_dump_json() == (
        '{"name":"x","value":null,"signature":""}'
    )
