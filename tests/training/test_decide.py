"""What a config leaves open is decided by the machine; what cannot go together is refused."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import Killed, die_at, tiny, train

from saccade.config import override
from saccade.errors import InputError, TrainingError
from saccade.training import decide, machine
from saccade.training.checkpoint import steps
from saccade.training.decide import refuse_contradictions
from saccade.training.run import Run
from saccade.training.settings import MOST
from saccade.training.start import Start, train_run


@pytest.mark.parametrize(("steps", "threads"), [(1, 1), (10, machine.cores())])
def test_what_the_machine_decides_is_written_down(
    tmp_path: Path, files: list[str], steps: int, threads: int
) -> None:
    config = override(tiny(files), [f"train.steps={steps}"])
    del config["train"]["processes"], config["train"]["threads"]
    run, _ = train(config, tmp_path / "run")
    written = run.config()["train"]
    assert written["processes"] == 1  # 200 tokens a batch are not worth a second
    assert written["threads"] == threads


def test_threads_are_given_back(
    tmp_path: Path, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.setattr(torch, "get_num_threads", lambda: 7)
    monkeypatch.setattr(torch, "set_num_threads", calls.append)
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(2))
    train(config, tmp_path / "run", resume=True)
    assert calls == [1, 7, 1, 7]


def test_processes_that_pay() -> None:
    assert machine.processes_that_pay("cpu", 100, compiled=False) == 1
    assert machine.processes_that_pay("cpu", 10**6, compiled=False) == machine.cores()
    assert machine.processes_that_pay("cpu", 10**6, compiled=True) == 1


@pytest.mark.parametrize(("processor", "system"), [("arm64", "darwin"), ("AMD64", "win32")])
def test_where_memory_is_not_shared_safely_there_is_one_process(
    tmp_path: Path,
    files: list[str],
    monkeypatch: pytest.MonkeyPatch,
    processor: str,
    system: str,
) -> None:
    monkeypatch.setattr(machine.platform, "machine", lambda: processor)
    monkeypatch.setattr(machine.sys, "platform", system)
    assert machine.processes_that_pay("cpu", 10**6, compiled=False) == 1
    with pytest.raises(InputError, match=r"train\.processes = 2 cannot share memory"):
        train(override(tiny(files), ["train.processes=2"]), tmp_path / "run")


def test_unset_budget_is_a_default_of_minutes(tmp_path: Path, files: list[str]) -> None:
    config = tiny(files)
    del config["train"]["steps"]
    before = time.monotonic() - 3600  # the budget began an hour ago
    with pytest.raises(TrainingError, match="the 15 minutes were over"):
        train_run(config, tmp_path / "run", Start(started_at=before))
    run = Run(tmp_path / "run")
    assert run.config()["train"]["minutes"] == 15
    assert steps(run.checkpoints) == []


def test_the_rate_of_the_paper_needs_a_width(tmp_path: Path, files: list[str]) -> None:
    config = override(tiny(files), ["train.schedule=paper", "train.steps=1"])
    run, _ = train(config, tmp_path / "run")
    settings = run.settings()
    without = {name: value for name, value in settings.model.items() if name != "dim"}
    with pytest.raises(InputError, match=r"'paper' is a formula of model\.dim, which transformer"):
        refuse_contradictions(dataclasses.replace(settings, model=without))


def test_patience_needs_something_to_count(tmp_path: Path, files: list[str]) -> None:
    for sets in (["train.patience=2"], ["train.patience=2", "train.eval_every=2"]):
        with pytest.raises(InputError, match=r"eval_every and task\.dev"):
            train(override(tiny(files), sets), tmp_path / "run")
    with pytest.raises(InputError, match="average_of"):
        train(override(tiny(files), ["train.average_of=best"]), tmp_path / "run")


def test_a_machine_of_many_cores_gives_as_many_threads_as_may_be(
    tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = override(tiny(files), ["train.steps=10"])
    del config["train"]["threads"]
    monkeypatch.setattr(decide, "cores", lambda: 768)
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(1))
    assert Run(tmp_path / "run").config()["train"]["threads"] == MOST["threads"]


def test_more_processes_than_cores_are_told(
    tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decide, "cores", lambda: 1)
    _, quiet = train(tiny(files), tmp_path / "one")
    _, told = train(override(tiny(files), ["train.processes=2"]), tmp_path / "two")
    assert not any("wait for each other" in each for each in quiet)
    assert any("train.processes is 2, and this machine has 1 core:" in each for each in told)
