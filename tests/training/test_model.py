"""A trained model in Python: loaded, called, scored."""

import inspect
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import pairs, tiny, train, write_corpus

import saccade
from saccade.errors import InputError
from saccade.tasks.translate import QUICK
from saccade.training.model import Model
from saccade.training.run import Run


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_corpus(tmp_path_factory.mktemp("corpus"), count=6)


@pytest.fixture(scope="module")
def run(files: list[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = tiny(files, {"task": {"dev": files}, "train": {"steps": 20, "eval_every": 20}})
    return train(config, tmp_path_factory.mktemp("runs") / "run")[0]


@pytest.fixture(scope="module")
def model(run: Run) -> Model:
    return saccade.load(run)


def test_train_in_python_says_what_is_wrong_and_takes_what_the_command_takes(
    run: Run, files: list[str], tmp_path: Path
) -> None:
    how = {"config": {"model": tiny(files)["model"], "train": tiny(files)["train"]}, "quiet": True}

    def again(**more: Any) -> Run:
        out = tmp_path / "run"
        return saccade.train("translate", train=files, out=out, tokenizer=run, **how, **more)

    made = again(steps=1)
    name = "tokenizer.json"
    assert (made.path / name).read_bytes() == (run.path / name).read_bytes()
    with pytest.raises(saccade.InputError, match="accept-changes"):
        again(steps=2, seed=9, resume=True)
    assert again(steps=2, seed=9, resume=True, accept_changes=True).settings().train.seed == 9
    assert issubclass(saccade.TrainingError, RuntimeError)
    assert saccade.Interrupted(15).exit_code == 143
    assert set(saccade.__all__) == set(dir(saccade))
    assert all(getattr(saccade, name) for name in saccade.__all__)


def test_a_run_a_path_and_a_name_are_the_same(run: Run) -> None:
    said = [saccade.load(place)("a b").text for place in (run, run.path, str(run.path))]
    assert said[0] == said[1] == said[2]


def test_a_text_gives_a_prediction_and_several_give_several(model: Model) -> None:
    one = model("a b c")
    assert str(one) == one.text
    assert one.tokens
    several = model(["a b c", "d e"])
    assert [each.text for each in several] == [one.text, model("d e").text]
    assert model([]) == []


def test_the_score_is_that_of_training(model: Model, run: Run, files: list[str]) -> None:
    found = model.evaluate(files, QUICK)
    written = run.evaluation("dev")
    for metric in found.metrics:
        assert metric.value == pytest.approx(written["metrics"][metric.name]["value"])
        assert metric.signature == written["metrics"][metric.name]["signature"]
    assert found.examples == written["by_example"]
    assert found.counts == {"examples": 6}


def test_dropout_is_off(model: Model, run: Run) -> None:
    assert run.config()["model"]["dropout"] > 0
    assert not model.module.training
    texts = [source for source, _ in pairs(6)]
    first, second = model.predict(texts), model.predict(texts)
    assert [each.score for each in first] == [each.score for each in second]


def test_prediction_needs_no_gradient(model: Model) -> None:
    with torch.enable_grad():
        found = model("a b")
    assert found.attention is not None
    assert not any(weights.requires_grad for weights in found.attention.weights.values())
    assert sum(p.numel() for p in model.module.parameters()) == model.parameters


def test_an_unknown_precision_is_named(run: Run) -> None:
    unchecked = inspect.unwrap(saccade.load)  # outside of tests nobody checks the annotations
    with pytest.raises(InputError, match="did you mean 'int8'"):
        unchecked(run, precision="int88")  # type: ignore[arg-type]


def test_evaluating_a_missing_file_is_told(model: Model, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        model.evaluate([str(tmp_path / "a"), str(tmp_path / "b")])
