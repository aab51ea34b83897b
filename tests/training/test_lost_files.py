"""A file of a run that is gone or damaged is made again, or said to be; it is no traceback."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import Killed, die_at, tiny, train

from saccade.config import merge
from saccade.errors import InputError
from saccade.training import run as run_module
from saccade.training.checkpoint import average, load_tensors
from saccade.training.run import Run

WAYS: dict[str, dict[str, Any]] = {
    "best": {"eval_every": 2},
    "average": {"average": 2, "save_every": 2},
    "moving average": {"ema": 0.5, "eval_every": 2},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("damage", ["gone", "cut"])
def test_a_lost_model_is_made_again(
    files: list[str], dev: list[str], tmp_path: Path, way: str, damage: str
) -> None:
    config = tiny(files, {"task": {"dev": dev}, "train": WAYS[way]})
    run, _ = train(config, tmp_path / "run")
    before = load_tensors(run.weights)
    if damage == "gone":
        run.weights.unlink()
    else:
        run.weights.write_bytes(run.weights.read_bytes()[:-9])
    _, warnings = train(config, run.path, resume=True)
    assert "made again of the checkpoint of step" in warnings[0]
    after = load_tensors(run.weights)
    assert before.keys() == after.keys()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert not any("made again" in each for each in train(config, run.path, resume=True)[1])


@pytest.mark.parametrize(("began", "went_on"), [(None, 0.5), (0.5, None)])
def test_it_is_made_again_as_it_was_made_then(
    files: list[str], dev: list[str], tmp_path: Path, began: float | None, went_on: float | None
) -> None:
    """A moving average that came, or went, between the best checkpoint and the newest."""
    settings = {"eval_every": 3, "save_every": 1, "steps": 3}
    config = tiny(files, {"task": {"dev": dev}, "train": settings})
    with_ema, without = (merge(config, {"train": {"ema": 0.5}}), config)
    first, second = (with_ema, without) if began else (without, with_ema)
    run, _ = train(first, tmp_path / "run")
    before = load_tensors(run.weights)
    second = merge(second, {"train": {"steps": 5, "eval_every": 100}})
    with pytest.raises(Killed):  # before another evaluation
        train(second, run.path, resume=True, accept_changes=True, update=die_at(5))
    run.weights.unlink()
    with pytest.raises(Killed):
        train(second, run.path, resume=True, update=die_at(5))
    after = load_tensors(run.weights)
    assert went_on is not began
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


def test_no_model_is_made_of_damaged_checkpoints(
    files: list[str], dev: list[str], tmp_path: Path
) -> None:
    config = tiny(files, {"task": {"dev": dev}, "train": {"average": 2, "save_every": 2}})
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(6))
    run = Run(tmp_path / "run")
    place = run.checkpoints / "step-00000004" / "model.safetensors"
    damaged = bytearray(place.read_bytes())
    damaged[-2] ^= 1
    place.write_bytes(damaged)
    with pytest.raises(InputError, match="step-00000004"):
        average(run.checkpoints, [2, 4])


DEEP = b"[" * 100_000
FILES = {
    "dev.json": [b"[1, 2]", b"{}", b"\xff", DEEP],
    "environment.json": [b"5", DEEP],
    "evals/dev.json": [b'{"metrics": {"BLEU": 5}}', b'{"metrics": {"BLEU": {}}}', b"[]", DEEP],
}


@pytest.fixture(scope="module")
def scored(
    files: list[str], dev: list[str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], Run]:
    config = tiny(files, {"task": {"dev": dev}, "train": {"eval_every": 3}})
    return config, train(config, tmp_path_factory.mktemp("runs") / "run")[0]


@pytest.mark.parametrize(
    ("name", "content"), [(name, content) for name, each in FILES.items() for content in each]
)
def test_what_is_damaged_counts_as_absent(
    scored: tuple[dict[str, Any], Run], name: str, content: bytes
) -> None:
    _, run = scored
    place = run.path / name
    kept = place.read_bytes()
    place.write_bytes(content)
    try:
        assert run.dev() is None or name != "dev.json"
        assert run.evaluation("dev")["metrics"] == {} or name != "evals/dev.json"
        assert run.environment()["data"] == {} or name != "environment.json"
    finally:
        place.write_bytes(kept)


def test_a_lost_dev_set_is_read_again(
    scored: tuple[dict[str, Any], Run],
) -> None:
    config, run = scored
    kept = run.dev()
    (run.path / "dev.json").write_bytes(b"[1, 2]")
    config["train"]["steps"] += 1
    train(config, run.path, resume=True)
    assert run.dev() == kept


@pytest.mark.parametrize("noted", [None, "MKL", "oneDNN"])
def test_another_library_for_products_is_told(
    scored: tuple[dict[str, Any], Run], monkeypatch: pytest.MonkeyPatch, noted: str | None
) -> None:
    """A run that noted none learned when there was but one."""
    config, run = scored
    monkeypatch.setattr(run_module, "gains", lambda: True)
    kept = {name: value for name, value in run.environment().items() if name != "products"}
    run._write_json("environment.json", kept if noted is None else {**kept, "products": noted})
    config["train"]["steps"] += 1
    told = [each for each in train(config, run.path, resume=True)[1] if "products was" in each]
    expected = "products was MKL when the run began and is oneDNN now"
    assert [each[: len(expected)] for each in told] == [expected] * (noted != "oneDNN")


def test_a_name_that_no_file_could_hold_is_refused_at_once(
    files: list[str], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="is not UTF-8"):
        train(tiny(files), tmp_path / "u\udcff")
    assert not list(tmp_path.iterdir())
