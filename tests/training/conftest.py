"""What tests of training share: a corpus of forty lines, and how to learn from it."""

import dataclasses
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import Learn, tiny, train, write_corpus

from saccade.config import override
from saccade.tasks.translate import Translate
from saccade.training.run import Run

SRC = Path(__file__).parents[2] / "src"


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_corpus(tmp_path_factory.mktemp("corpus"), "dev", 3, seed=2)


@pytest.fixture
def learn(files: list[str], tmp_path: Path) -> Learn:
    """Train with these settings, in a folder of its own."""
    numbers = itertools.count()

    def call(*sets: str, **how: Any) -> Run:
        out = how.pop("out", tmp_path / f"run-{next(numbers)}")
        return train(override(tiny(files), sets), out, **how)[0]

    return call


@pytest.fixture
def team(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other ranks are processes, which have to find saccade too."""
    monkeypatch.setenv("PYTHONPATH", str(SRC))


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Say what each evaluation is to find."""
    score = Translate.score

    def say(*values: float) -> None:
        left = iter(values)

        def scripted(self: Any, *texts: Any) -> Any:
            found = score(self, *texts)
            main = dataclasses.replace(found.main, value=next(left))
            return dataclasses.replace(found, metrics=[main])

        monkeypatch.setattr(Translate, "score", scripted)

    return say


@pytest.fixture
def config(files: list[str]) -> dict[str, Any]:
    """Six updates, evaluated every third and saved every second."""
    return tiny(files, {"task": {"dev": files}, "train": {"eval_every": 3, "save_every": 2}})
