"""The HTTP API: what it refuses, and that it never answers anything but JSON."""

import json
import math
from threading import Event
from typing import Any

import pytest
from fastapi.testclient import TestClient
from serving.strict_json import strict

from saccade.serving.engine import BusyError, Engine
from saccade.serving.schemas import BODY_LIMIT, TEXT_LIMIT, PredictRequest

TEXT = "a b c d"


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
    assert "content-type application/json" in strict(answer.content)["error"]
    broken = client.post(
        "/v1/predict", content="{bad", headers={"content-type": "application/json"}
    )
    assert strict(broken.content)["error"].startswith("the body is not JSON: ")


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
    job = full._queued(lambda: begun.set() or ending.wait())
    try:
        assert begun.wait(60)
        with pytest.raises(BusyError):
            full.predict(PredictRequest(run="small", texts=["a b"]))
    finally:
        ending.set()
    assert job.result()
    full.close()


def test_numbers_that_are_not_finite_are_never_written() -> None:
    from saccade.serving.schemas import Score

    assert Score(name="x", value=math.nan, signature="").model_dump_json() == (
        '{"name":"x","value":null,"signature":""}'
    )
