"""A trained model in Python: loaded, called, scored."""

import dataclasses
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import pairs, tiny, train, write_corpus

import saccade
from saccade.cli.train import TrainFlags
from saccade.config import dump_toml
from saccade.decoding.tree import BeamTree
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


def test_a_file_in_place_of_several_and_options_that_are_none(
    model: Model, files: list[str], tmp_path: Path
) -> None:
    table = tmp_path / "dev.tsv"
    table.write_text("".join(f"{source}\t{target}\n" for source, target in pairs(6)))
    assert model.evaluate(table, QUICK).metrics == model.evaluate(files, QUICK).metrics
    with pytest.raises(InputError, match="expected DecodeOptions"):
        model._checked({"beam": 3})


ANOTHER_KIND = """
import saccade
model = saccade.load({run!r})
for call in (
    lambda: saccade.DecodeOptions(beam=2.5),
    lambda: saccade.DecodeOptions(beam="3"),
    lambda: saccade.DecodeOptions(length=True),
    lambda: saccade.DecodeOptions(length_penalty="1"),
    lambda: model(None),
    lambda: model(["a", 5]),
    lambda: saccade.load(None),
    lambda: saccade.train("translate", train={files!r}, out="out", seeds=5),
    lambda: saccade.train("translate", train={files!r}, out="out", seeds="1,2"),
    lambda: saccade.train("translate", train={files!r}, out="out", config=[1]),
):
    try:
        call()
    except saccade.InputError as error:
        print(error)
"""
TOLD = [
    "beam is 2.5, it must be a whole number",
    "beam is '3', it must be a whole number",
    "length is True, it must be a whole number",
    "length_penalty is '1', it must be a number",
    "expected a text or a list of texts, not None",
    "expected a text or a list of texts, not ['a', 5]",
    "None is no run: give its folder",
    "seeds = 5; expected a list, such as [1, 2, 3]",
    "seeds = '1,2'; expected a list, such as [1, 2, 3]",
    "config = [1]; expected a table of tables, or a TOML file",
]


@pytest.mark.serial
def test_what_is_of_another_kind_is_told(run: Run, files: list[str], tmp_path: Path) -> None:
    """In a process of its own: here, tests check all types before saccade does."""
    script = ANOTHER_KIND.format(run=str(run.path), files=files)
    found = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines() == TOLD
    assert not list(tmp_path.iterdir())


def test_train_in_python_takes_a_file_of_settings(files: list[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(dump_toml({**tiny(files), "train": {**tiny(files)["train"], "steps": 2}}))
    made = saccade.train("translate", out=tmp_path / "run", config=file, quiet=True, seed=3)
    assert (made.settings().train.steps, made.settings().train.seed) == (2, 3)


def test_a_model_says_what_it_is(model: Model) -> None:
    assert repr(model) == f"<transformer for translate, of {model.run.path}>"


def test_a_tree_is_of_one_text(model: Model) -> None:
    tree = BeamTree()
    model.predict(["a b"], QUICK, tree=tree)
    assert tree.of(0)
    with pytest.raises(InputError, match="a tree is of one text, and these are 2"):
        model.predict(["a b", "a"], QUICK, tree=BeamTree())


def test_train_in_python_takes_every_flag_of_the_command() -> None:
    """What --set says, `config` does."""
    flags = {field.name for field in dataclasses.fields(TrainFlags)} - {"set"}
    assert flags <= inspect.signature(saccade.train).parameters.keys()


def test_seeds_and_columns_in_python(tmp_path: Path) -> None:
    table = tmp_path / "pairs.tsv"
    rows = [("id", "mine", "yours"), *((str(n), *pair) for n, pair in enumerate(pairs(6)))]
    table.write_text("".join("\t".join(row) + "\n" for row in rows) + "7\tcaf")
    with table.open("ab") as file:
        file.write(b"\xe9\tE\n")
    runs = saccade.train(
        "translate", train=table, out=tmp_path / "runs", seeds=[3, 4], columns=["mine", "yours"],
        tokenizer="characters", processes=1, device="cpu", on_bad_utf8="skip", steps=1,
        config={"model": tiny([])["model"], "train": {"batch_tokens": 200}}, quiet=True,
    )  # fmt: skip
    assert [run.path.name for run in runs] == ["seed-3", "seed-4"]
    settings = runs[1].settings()
    assert (settings.train.seed, settings.train.device) == (4, "cpu")
    assert settings.task.columns == ("mine", "yours")
    assert settings.task.on_bad_utf8 == "skip"
    with pytest.raises(InputError, match="--seed is for one run"):
        saccade.train("translate", train=table, out=tmp_path / "no", seed=1, seeds=[1, 2])


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


def test_what_is_odd_about_the_data_is_told_with_the_score(model: Model, tmp_path: Path) -> None:
    for side, text in (("a", "a b\r\n\r\nc\r\n"), ("b", "B A\nB\nC\n")):
        (tmp_path / side).write_text(text, newline="")
    found = model.evaluate([str(tmp_path / side) for side in "ab"])
    assert found.counts == {"examples": 2}
    (told,) = found.warnings
    assert "3 lines ending in CR LF" in told
    assert "1 pair dropped" in told


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
