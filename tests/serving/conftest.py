"""Two tiny runs, an engine on them, and a client that needs no server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tiny_runs import tiny, train, write_corpus

pytest.importorskip("fastapi", reason="needs FastAPI: pip install 'saccade[serve]'")

from fastapi.testclient import TestClient

from saccade.serving.app import create_app
from saccade.serving.engine import Engine, load_runs


@pytest.fixture(scope="session")
def run_folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Letters to capitals, backwards: `small` has 2 layers of 2 heads, `other` one of 4."""
    folder = tmp_path_factory.mktemp("serving")
    files = write_corpus(folder, count=30)
    common = {
        "task": {"dev": files, "tokenizer": "words"},
        "train": {"steps": 30, "eval_every": 15, "peak_rate": 0.02},
    }
    shapes = {"small": {"layers": 2, "heads": 2}, "other": {"layers": 1, "heads": 4}}
    return [
        train(tiny(files, common, {"model": shape}), folder / name)[0].path
        for name, shape in shapes.items()
    ]


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
