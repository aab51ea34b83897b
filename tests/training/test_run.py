"""A run is a folder: what is in it, and what of it is not believed."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import everything, tiny, train

import saccade
from saccade.config import override, read_toml
from saccade.errors import InputError
from saccade.training.checkpoint import load_tensors, save_tensors
from saccade.training.model import load
from saccade.training.run import Run
from saccade.training.settings import FORMAT, resolve


@pytest.fixture(scope="module")
def trained(files: list[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = tiny(files, {"task": {"dev": files}, "train": {"steps": 10, "eval_every": 10}})
    return train(config, tmp_path_factory.mktemp("runs") / "run")[0]


@pytest.fixture
def copy(trained: Run, tmp_path: Path) -> Path:
    """A run to be spoilt."""
    return Path(shutil.copytree(trained.path, tmp_path / "copy"))


def test_a_run_holds_what_it_should(trained: Run) -> None:
    names = {path.name for path in trained.path.iterdir()}
    assert names == {  # no task.json: all that translate needs is in its config and tokenizer
        "config.toml", "model.safetensors", "tokenizer.json", "environment.json", "metrics.jsonl",
        "evals", "README.md", "checkpoints", "tokens", "dev.json",
    }  # fmt: skip
    config = read_toml(trained.path / "config.toml")
    assert (config["format"], config["saccade"]) == (FORMAT, saccade.__version__)
    environment = json.loads((trained.path / "environment.json").read_bytes())
    assert {"threads", "torch", "cpu", "data"} <= environment.keys()
    assert environment["data"].keys() == {"train", "dev"}
    evaluation = json.loads((trained.path / "evals" / "dev.json").read_bytes())
    assert len(evaluation["by_example"]) == 40
    assert "signature" in evaluation["metrics"]["BLEU"]
    card = (trained.path / "README.md").read_text()
    assert evaluation["metrics"]["BLEU"]["signature"] in card
    assert "train.source" in card
    (again,) = re.findall(r"^saccade train .*$", card, re.MULTILINE)
    assert again == f"saccade train --config {trained.path}/config.toml --out NEW"


def test_separate_vocabularies_are_two_files(files: list[str], tmp_path: Path) -> None:
    run, _ = train(override(tiny(files), ["task.joint=false"]), tmp_path / "run")
    names = {path.name for path in run.path.glob("tokenizer*")}
    assert names == {"tokenizer.source.json", "tokenizer.target.json"}


def test_the_config_of_a_run_says_all_and_gives_the_same_again(
    trained: Run, tmp_path: Path
) -> None:
    assert resolve(trained.config()) == trained.settings()
    again, _ = train(trained.config(), tmp_path / "again")
    assert again.weights.read_bytes() == trained.weights.read_bytes()
    skip = {"environment.json", "metrics.jsonl", "README.md"}  # they tell the time
    one, other = everything(trained.path), everything(again.path)
    top = {name for name in one if "/" not in name} - skip
    assert {name: one[name] for name in top} == {name: other[name] for name in top}


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (FORMAT + 1, "format 2, this one reads up to 1; update saccade"),
        ('"x"', "format = 'x', which no saccade wrote"),
        ("true", "format = True, which no saccade wrote"),
        (-3, "format = -3, which no saccade wrote"),
    ],
)
def test_a_later_format_says_what_to_do(copy: Path, form: object, message: str) -> None:
    config = (copy / "config.toml").read_text()
    (copy / "config.toml").write_text(config.replace(f"format = {FORMAT}", f"format = {form}"))
    with pytest.raises(InputError, match=message):
        load(copy)


def test_what_is_not_there_is_said(trained: Run, tmp_path: Path, copy: Path) -> None:
    with pytest.raises(InputError, match="not a saccade run"):
        load(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"runs beside it: .*run"):
        load(trained.path.parent / "rnu")
    with pytest.raises(InputError, match=r"runs inside it: .*run"):
        load(trained.path.parent)
    (copy / "model.safetensors").unlink()
    with pytest.raises(InputError, match="holds no model yet"):
        load(copy)


def spoil_shape(folder: Path) -> None:
    tensors = load_tensors(folder / "model.safetensors")
    name = sorted(tensors)[0]
    save_tensors(folder / "model.safetensors", {**tensors, name: torch.zeros(3)}, {})


def spoil_numbers(folder: Path) -> None:
    tensors = load_tensors(folder / "model.safetensors")
    name = sorted(tensors)[0]
    tensors[name].view(-1)[0] = float("nan")
    save_tensors(folder / "model.safetensors", tensors, {})


def spoil_names(folder: Path) -> None:
    tensors = load_tensors(folder / "model.safetensors")
    save_tensors(folder / "model.safetensors", {**tensors, "extra": torch.zeros(3)}, {})


def spoil_bytes(name: str, data: bytes) -> Any:
    return lambda folder: (folder / name).write_bytes(data)


def spoil_config(old: str, new: str) -> Any:
    def spoil(folder: Path) -> None:
        text = (folder / "config.toml").read_text()
        assert old in text
        (folder / "config.toml").write_text(text.replace(old, new))

    return spoil


def spoil_tokenizer(folder: Path) -> None:
    """More tokens than the weights have rows."""
    values = json.loads((folder / "tokenizer.json").read_bytes())
    vocabulary = values["model"]["vocab"]
    vocabulary["new"] = len(vocabulary)
    (folder / "tokenizer.json").write_text(json.dumps(values))


@pytest.mark.parametrize(
    "spoil",
    [
        spoil_shape,
        spoil_numbers,
        spoil_names,
        spoil_bytes("model.safetensors", b"\xff" * 64),
        spoil_bytes("model.safetensors", b""),
        spoil_bytes("tokenizer.json", b"{"),
        spoil_bytes("tokenizer.json", b"{}"),
        spoil_bytes("tokenizer.json", b"[1]"),
        spoil_bytes("config.toml", b"format = 1\n[model"),
        spoil_bytes("config.toml", b"format = 1\nmodel = 3\n"),
        spoil_bytes("config.toml", b"\xff\xfe"),
        spoil_config("dim = 16", "dim = 16\nsurprise = 1"),
        spoil_config("dim = 16", "dim = 1000000000000"),
        spoil_config("dim = 16", "dim = -16"),
        spoil_config("layers = 1", "layers = 1000000000"),
        spoil_config('name = "transformer"', 'name = "evil.py:Class"'),
        spoil_config('name = "translate"', 'name = "/tmp/evil.py:Class"'),
        spoil_tokenizer,
        lambda folder: (folder / "tokenizer.json").unlink(),
    ],
)
@pytest.mark.filterwarnings("error")
def test_a_hostile_run_is_refused(copy: Path, spoil: Any) -> None:
    spoil(copy)
    with pytest.raises(InputError):
        load(copy)
