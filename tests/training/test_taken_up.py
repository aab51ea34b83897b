"""A run that is taken up again: what may have changed since, what may not, and what follows."""

import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import (
    Killed,
    die_at,
    everything,
    tiny,
    tiny_text,
    train,
    write_text,
)

from saccade.config import merge, override
from saccade.errors import InputError
from saccade.training import decide, trainer
from saccade.training.checkpoint import load, save, steps
from saccade.training.run import Run
from saccade.training.settings import MAY_CHANGE
from saccade.training.standing import Standing

# --- longer, or with fewer limits --------------------------------------------------------------


def test_more_steps_lengthen_a_finished_run(tmp_path: Path, config: dict[str, Any]) -> None:
    run, _ = train(config, tmp_path / "run")
    seen: list[int] = []
    longer = override(config, ["train.steps=9"])
    train(longer, run.path, resume=True, update=lambda _, update: seen.append(update.step))
    assert seen == [7, 8, 9]
    assert run.config()["train"]["steps"] == 9
    _, warnings = train(longer, run.path, resume=True)
    assert "finished" in warnings[0]


@pytest.mark.parametrize(("dies", "again"), [(7, [7, 8, 9, 10, 11, 12]), (11, [11, 12])])
def test_a_lengthened_run_that_dies_is_not_finished(
    tmp_path: Path, config: dict[str, Any], dies: int, again: list[int]
) -> None:
    run, _ = train(config, tmp_path / "run")
    longer = override(config, ["train.steps=12"])
    with pytest.raises(Killed):
        train(longer, run.path, resume=True, update=die_at(dies))  # 7: before it saves anything
    seen: list[int] = []
    train(longer, run.path, resume=True, update=lambda _, update: seen.append(update.step))
    assert seen == again
    _, warnings = train(longer, run.path, resume=True)
    assert "finished" in warnings[0]


def test_a_lengthened_run_is_evaluated_on_its_way(tmp_path: Path, files: list[str]) -> None:
    config = tiny(files, {"task": {"dev": files}})
    run, _ = train(config, tmp_path / "run")
    train(override(config, ["train.steps=12"]), run.path, resume=True)
    evaluated = [line["step"] for line in run.metrics() if "dev BLEU" in line]
    assert [step for step in evaluated if 6 < step < 12]


def test_an_unfinished_run_that_is_lengthened_is_evaluated_on_its_way(
    tmp_path: Path, files: list[str]
) -> None:
    config = override(tiny(files, {"task": {"dev": files}}), ["train.steps=10"])
    with pytest.raises(Killed):
        train(override(config, ["train.save_every=8"]), tmp_path / "run", update=die_at(9))
    run, _ = train(override(config, ["train.steps=20"]), tmp_path / "run", resume=True)
    evaluated = [line["step"] for line in run.metrics() if "dev BLEU" in line]
    assert evaluated == [2, 4, 6, 8, 12, 16, 20]


def test_a_limit_that_ended_a_run_may_be_lifted(tmp_path: Path, config: dict[str, Any]) -> None:
    impatient = override(config, ["train.patience=1", "train.eval_every=1", "train.peak_rate=1e-9"])
    run, _ = train(impatient, tmp_path / "run")
    assert steps(run.checkpoints)[-1] == 2
    _, warnings = train(impatient, run.path, resume=True)
    assert "finished" in warnings[0]
    del impatient["train"]["patience"]
    train(impatient, run.path, resume=True)
    assert steps(run.checkpoints)[-1] == 6


def test_another_limit_does_not_begin_a_finished_run_again(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    run, _ = train(config, tmp_path / "run")
    for sets in (["train.minutes=5"], ["train.steps=5"]):
        _, warnings = train(override(config, sets), run.path, resume=True)
        assert "finished" in warnings[0]


def test_a_budget_that_is_not_said_again_holds_on(tmp_path: Path, config: dict[str, Any]) -> None:
    run, _ = train(config, tmp_path / "run")
    del config["train"]["steps"]
    _, warnings = train(config, run.path, resume=True)
    assert "finished" in warnings[0]
    assert "minutes" not in run.config()["train"]


@pytest.mark.parametrize(("old", "now"), [(None, []), (12.5, [12.5]), ([1.0, 2.0], [1.0, 2.0])])
def test_the_best_of_an_older_checkpoint_is_understood(old: Any, now: list[float]) -> None:
    assert Standing.of({"step": 3, "best": old}) == Standing(step=3, best=now)


@pytest.mark.parametrize(
    ("change", "key"), [({"mood": 1}, "mood"), ({"best": None}, "best"), ({"step": None}, "step")]
)
def test_a_checkpoint_of_another_saccade_is_told(
    tmp_path: Path, files: list[str], change: dict[str, Any], key: str
) -> None:
    run, _ = train(override(tiny(files), ["train.steps=1"]), tmp_path / "run")
    (found,) = steps(run.checkpoints)
    whole = load(run.checkpoints / f"step-{found:08d}")
    state = {**whole.state, **change}
    state = {name: value for name, value in state.items() if name != key or value is not None}
    save(run.checkpoints, dataclasses.replace(whole, state=state))
    before = everything(run.path)
    with pytest.raises(InputError, match=rf"step 1 was written by another saccade \(key '{key}'\)"):
        train(override(tiny(files), ["train.steps=2"]), run.path, resume=True)
    assert everything(run.path) == before


# --- with another config -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "set_", ["train.seed=2", "model.dropout=0.3", "train.batch_tokens=90", "task.max_length=99"]
)
def test_another_config_is_refused_and_named(
    tmp_path: Path, config: dict[str, Any], set_: str
) -> None:
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(5))
    before = everything(tmp_path / "run")
    changed = override(config, [set_])
    with pytest.raises(InputError, match=re.escape(set_.partition("=")[0]) + " was"):
        train(changed, tmp_path / "run", resume=True)
    assert everything(tmp_path / "run") == before
    run, _ = train(changed, tmp_path / "run", resume=True, accept_changes=True)
    assert steps(run.checkpoints)[-1] == 6


def test_what_may_change_may_change(tmp_path: Path, config: dict[str, Any]) -> None:
    values = {
        "steps": 7, "minutes": 9.0, "patience": 5, "eval_every": 2, "save_every": 3, "keep": 4,
        "device": "cpu", "threads": 2,
    }  # fmt: skip
    assert set(values) == set(MAY_CHANGE)
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(5))
    run, warnings = train(merge(config, {"train": values}), tmp_path / "run", resume=True)
    assert run.config()["train"] == {**run.config()["train"], **values}
    assert any("threads was 1" in warning and "not the same to the bit" in warning
               for warning in warnings)  # fmt: skip


@pytest.mark.serial
def test_processes_are_those_of_the_run_unless_others_are_asked_for(
    tmp_path: Path, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "src"))
    monkeypatch.setattr(decide, "processes_that_pay", lambda *_: 2)  # here and now
    monkeypatch.setattr(decide, "cores", lambda: 2)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)  # two wait for each other
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(5))
    before = everything(tmp_path / "run")
    with pytest.raises(InputError, match=r"train\.processes was 1, is 2"):
        train(override(config, ["train.processes=2"]), tmp_path / "run", resume=True)
    assert everything(tmp_path / "run") == before
    unsaid = override(config, ["train.steps=20"])
    del unsaid["train"]["processes"], unsaid["train"]["threads"]
    with pytest.raises(Killed):
        train(unsaid, tmp_path / "run", resume=True, update=die_at(9))
    written = Run(tmp_path / "run").config()["train"]
    assert (written["processes"], written["threads"]) == (1, 2)
    several = override(config, ["train.steps=10", "train.processes=2"])
    sizes: list[int] = []
    train(
        several, tmp_path / "run", resume=True, accept_changes=True,
        update=lambda trainer, _: sizes.append(trainer.crew.team.size),
    )  # fmt: skip
    assert set(sizes) == {2}


@pytest.mark.parametrize(
    ("set_", "survives"),
    [("train.ema=0.9", True), ("train.optimizer=adamw", False), ("model.dim=32", False)],
)
def test_accepted_changes_fit_or_are_refused(
    tmp_path: Path, config: dict[str, Any], set_: str, survives: bool
) -> None:
    config = override(config, ["train.optimizer=sgd"])
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(5))
    before = everything(tmp_path / "run")
    changed = override(config, [set_])
    if survives:
        run, _ = train(changed, tmp_path / "run", resume=True, accept_changes=True)
        assert steps(run.checkpoints)[-1] == 6
        return
    with pytest.raises(InputError, match="does not fit"):
        train(changed, tmp_path / "run", resume=True, accept_changes=True)
    assert everything(tmp_path / "run") == before


def test_a_tokenizer_is_the_same_under_another_name(
    tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _ = train(tiny(files), tmp_path / "first")
    monkeypatch.chdir(tmp_path)
    config = tiny(files, {"task": {"tokenizer": "first/"}})
    run, _ = train(config, tmp_path / "run")
    for name in ("first", str(first.path)):
        longer = override(config, [f"task.tokenizer={name}"])
        _, warnings = train(longer, run.path, resume=True)
        assert "finished" in warnings[0]


@pytest.mark.parametrize("accept", [True, False])
@pytest.mark.parametrize(
    "set_", ["task.tokenizer=words", "task.lowercase=true", "task.vocab_size=99"]
)
def test_what_was_learned_stays_with_its_tokenizer(
    tmp_path: Path, config: dict[str, Any], set_: str, accept: bool
) -> None:
    run, _ = train(config, tmp_path / "run")
    before = everything(run.path)
    changed = override(config, [set_, "train.steps=9"])
    with pytest.raises(
        InputError, match=rf"{set_.partition('=')[0]} was .*of no use then: choose another --out"
    ):
        train(changed, run.path, resume=True, accept_changes=accept)
    assert everything(run.path) == before


def test_a_run_of_another_task_is_not_continued(tmp_path: Path, config: dict[str, Any]) -> None:
    other, _ = train(tiny_text([write_text(tmp_path)]), tmp_path / "other")
    for accept in (False, True):
        with pytest.raises(InputError, match=r"task\.name was 'generate', is 'translate'|model"):
            train(config, other.path, resume=True, accept_changes=accept)


def test_a_run_moves_to_a_machine_without_its_device(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(5))
    file = tmp_path / "run" / "config.toml"
    file.write_text(file.read_text().replace('device = "auto"', 'device = "mps"'))
    run, _ = train(override(config, ["train.device=cpu"]), tmp_path / "run", resume=True)
    assert steps(run.checkpoints)[-1] == 6


def test_a_run_moves_to_a_machine_that_cannot_share_memory(
    tmp_path: Path, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(5))
    file = tmp_path / "run" / "config.toml"
    file.write_text(file.read_text().replace("processes = 1", "processes = 2"))
    monkeypatch.setattr(decide, "can_share_memory", lambda: False)
    with pytest.raises(InputError, match=r"processes was 2, is 1"):
        train(config, tmp_path / "run", resume=True)
    run, _ = train(config, tmp_path / "run", resume=True, accept_changes=True)
    assert steps(run.checkpoints)[-1] == 6


def test_accepting_changes_where_there_are_none_changes_nothing(tmp_path: Path) -> None:
    """Also of what a recurrent network carries from update to update."""
    config = tiny_text([write_text(tmp_path)], {"train": {"save_every": 1}})
    config["model"] = {"name": "rnn", "dim": 16, "layers": 1, "dropout": 0.1}
    whole, _ = train(config, tmp_path / "whole")
    with pytest.raises(Killed):
        train(config, tmp_path / "cut", update=die_at(4))
    cut, _ = train(config, tmp_path / "cut", resume=True, accept_changes=True)
    assert cut.weights.read_bytes() == whole.weights.read_bytes()


def test_an_average_of_the_best_may_be_asked_for_later(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    config = override(config, ["train.average=2"])
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(5))  # at 2 it saved and did not evaluate
    changed = override(config, ["train.average_of=best"])
    run, _ = train(changed, tmp_path / "run", resume=True, accept_changes=True)
    assert steps(run.checkpoints)[-1] == 6


def test_an_average_of_a_run_that_patience_ends_is_the_same_after_a_kill(
    tmp_path: Path, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = ["train.patience=1", "train.average=2", "train.schedule=constant"]
    config = override(config, sets)
    del config["train"]["steps"], config["train"]["save_every"]
    whole, _ = train(config, tmp_path / "whole")
    monkeypatch.setattr(trainer, "SAVE_SECONDS", 0.0)  # as on a slow machine
    with pytest.raises(Killed):
        train(config, tmp_path / "cut", update=die_at(5))
    cut, _ = train(config, tmp_path / "cut", resume=True)
    assert cut.weights.read_bytes() == whole.weights.read_bytes()


def test_patience_that_is_over_is_told_and_more_steps_do_not_help(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    config = override(config, ["train.patience=1", "train.eval_every=1", "train.peak_rate=1e-9"])
    run, _ = train(config, tmp_path / "run")
    assert steps(run.checkpoints)[-1] < 6
    before = everything(run.path)
    for sets in ([], ["train.steps=100"]):
        _, warnings = train(override(config, sets), run.path, resume=True)
        assert warnings[0].endswith("nothing to do (a larger train.patience goes on)")
        assert everything(run.path) == before
    run, _ = train(override(config, ["train.patience=2"]), run.path, resume=True)
    assert steps(run.checkpoints)[-1] > max(int(name[-8:]) for name in _folders(before))


def _folders(files: dict[str, bytes]) -> set[str]:
    return {Path(name).parent.name for name in files if name.startswith("checkpoints/")}
