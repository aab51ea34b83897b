"""Two tiny runs, an engine on them, and a client that needs no server."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import tiny, train, write_corpus

pytest.importorskip("fastapi", reason="needs FastAPI: pip install 'saccade[serve]'")

from fastapi.testclient import TestClient
from serving.browser import Explorer, chromium

from saccade.serving.app import create_app
from saccade.serving.engine import Engine, load_runs
from saccade.serving.server import served


@pytest.fixture(scope="session")
def run_folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Letters to capitals, backwards: a Transformer of 2 layers and 2 heads, a GRU; and a GPT."""
    folder = tmp_path_factory.mktemp("serving")
    files = write_corpus(folder, count=30)
    common = tiny(
        files,
        {
            "task": {"dev": files, "tokenizer": "words"},
            "model": {"layers": 2},
            "train": {"steps": 30, "eval_every": 15, "peak_rate": 0.02},
        },
    )
    recurrent = {**common, "model": {"name": "seq2seq", "dim": 16}}
    story = {
        "task": {"name": "generate", "train": files[:1], "dev": files[:1], "tokenizer": "bytes"},
        "model": {"name": "gpt", "dim": 16, "layers": 2, "heads": 2, "context": 32},
        "train": {**common["train"], "steps": 4, "eval_every": 4},
    }
    configs = {"small": common, "other": recurrent, "story": story}
    return [train(config, folder / name)[0].path for name, config in configs.items()]


@pytest.fixture(scope="session")
def engine(run_folders: list[Path]) -> Iterator[Engine]:
    engine = Engine(load_runs(run_folders))
    yield engine
    engine.close()


@pytest.fixture(scope="session")
def client(engine: Engine) -> TestClient:
    return TestClient(
        create_app(engine), base_url="http://127.0.0.1", raise_server_exceptions=False
    )


@pytest.fixture(scope="package")
def address(engine: Engine) -> Iterator[str]:
    with served(create_app(engine)) as found:
        yield found


@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="package")
def contexts() -> dict[str, Any]:
    """One a way of looking: what a browser has fetched once, it keeps."""
    return {}


@pytest.fixture
def explorer(
    browser: Any, address: str, contexts: dict[str, Any], request: pytest.FixtureRequest
) -> Iterator[Explorer]:
    """A fresh page of 1280 x 900; a test may ask for another `viewport` and `color_scheme`."""
    how = {"viewport": {"width": 1280, "height": 900}, **getattr(request, "param", {})}
    if str(how) not in contexts:
        contexts[str(how)] = browser.new_context(**how)
        contexts[str(how)].set_default_timeout(60_000)  # goto, and other pages of it, included
    page = contexts[str(how)].new_page()
    explorer = Explorer(page, address)
    explorer.watch()
    explorer.open()
    yield explorer
    assert explorer.problems == []
    assert all(url.startswith((address, "blob:", "data:")) for url in explorer.reached)
    page.evaluate("localStorage.clear()")
    page.close()
