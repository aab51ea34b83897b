"""What goes wrong in training: numbers that are none, full disks and memory, signals."""

import dataclasses
import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import Learn, close, everything, mean, tiny, train, weights_at

from saccade.config import override
from saccade.errors import InputError, TrainingError
from saccade.tasks.objectives import TranslateObjective
from saccade.tasks.translate import Translate
from saccade.training import checkpoint, trainer
from saccade.training.checkpoint import load_tensors, steps
from saccade.training.crew import Crew, assemble
from saccade.training.failures import answer_of, attempted, out_of_memory, told_of
from saccade.training.run import Run
from saccade.training.signals import Interrupted
from saccade.training.team import Team


def poison(monkeypatch: pytest.MonkeyPatch, bad: Callable[[int], bool]) -> None:
    """Make the loss of these updates NaN."""
    forward, calls = TranslateObjective.forward, itertools.count(1)

    def poisoned(self: Any, batch: Any, carry: Any) -> Any:
        terms, carry = forward(self, batch, carry)
        if bad(next(calls)):
            terms = {name: dataclasses.replace(t, sum=t.sum * float("nan"))
                     for name, t in terms.items()}  # fmt: skip
        return terms, carry

    monkeypatch.setattr(TranslateObjective, "forward", poisoned)


def test_an_update_that_is_not_finite_is_not_applied(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, lambda call: call in (3, 4, 6))
    config = override(tiny(files), ["train.save_every=1", "train.keep=9"])
    run, warnings = train(config, tmp_path / "run")
    assert [text.split(" was")[0] for text in warnings] == ["update 3", "update 4", "update 6"]
    assert all("epoch" in text and "batch" in text for text in warnings)
    assert close(weights_at(run, 2), weights_at(run, 4))
    assert not close(weights_at(run, 4), weights_at(run, 5))
    state = json.loads((run.checkpoints / "step-00000006" / "state.json").read_bytes())
    assert (state["refused"], state["refused_in_a_row"]) == (3, 1)


def test_ten_in_a_row_stop_the_run_also_across_sittings(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, lambda call: call > 2)
    config = override(tiny(files), ["train.save_every=4", "train.steps=99"])
    updates: list[int] = []
    with pytest.raises(TrainingError, match=r"10 updates in a row.*peak_rate"):
        train(config, tmp_path / "run", update=lambda _, update: updates.append(update.step))
    assert updates[-1] == 11  # the twelfth is the tenth refused
    with pytest.raises(TrainingError, match="10 updates in a row"):
        train(config, tmp_path / "run", resume=True,
              update=lambda _, update: updates.append(update.step))  # fmt: skip
    assert updates[-3:] == [9, 10, 11]  # six of the ten are in the checkpoint of step 8


@pytest.mark.parametrize("average", [1, 3])
def test_a_full_disk_does_not_stop_training(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, average: int
) -> None:
    save = checkpoint.save

    def full(folder: Path, found: checkpoint.Checkpoint) -> Path:
        if found.step in (3, 4):
            raise TrainingError("no space left")
        return save(folder, found)

    monkeypatch.setattr(trainer.checkpoint, "save", full)
    config = override(tiny(files), ["train.save_every=1", f"train.average={average}"])
    run, warnings = train(config, tmp_path / "run")
    assert [text for text in warnings if "no space" in text] == [
        f"no checkpoint at step {step}: no space left" for step in (3, 4)
    ]
    assert run.weights.is_file()
    assert steps(run.checkpoints)[-2:] == [5, 6]
    if average > 1:
        expected = mean(*(weights_at(run, step) for step in (2, 5, 6)))
        assert close(load_tensors(run.weights), expected, atol=1e-7)


def test_a_disk_that_stays_full_still_gives_a_model(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise TrainingError("no space left")

    def no_metrics(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trainer.checkpoint, "save", full)
    monkeypatch.setattr(Run, "append_metrics", no_metrics)
    config = override(tiny(files), ["train.average=2", "train.save_every=3", "train.steps=10"])
    run, warnings = train(config, tmp_path / "run")
    assert run.weights.is_file()
    assert any("metrics of step 10 not written" in text for text in warnings)


OUT_OF_MEMORY = [
    MemoryError(),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"),
    torch.OutOfMemoryError("CUDA out of memory"),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY)
def test_out_of_memory_in_an_evaluation_is_told(
    learn: Learn, dev: list[str], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def greedy(*_: Any) -> None:
        raise error

    monkeypatch.setattr(Translate, "measure", greedy)
    told = r"out of memory in the evaluation at step 2; .*task\.dev.*train\.processes.*--resume"
    with pytest.raises(TrainingError, match=told):
        learn(f"task.dev={dev}", "train.eval_every=2")


def test_what_an_evaluation_warns_of_is_told_once(
    files: list[str], dev: list[str], tmp_path: Path
) -> None:
    sets = [f"task.dev={dev}", "train.eval_every=2", "task.max_length=3"]
    _, warnings = train(override(tiny(files), sets), tmp_path / "run")
    (told,) = [text for text in warnings if text.startswith("dev: ")]
    assert "sources are too long" in told


@pytest.mark.parametrize(
    "error", [*OUT_OF_MEMORY, FloatingPointError("no number"), InputError("x")]
)
def test_an_error_of_another_process_is_what_it_was(error: Exception) -> None:
    def work() -> None:
        raise error

    reply = json.loads(json.dumps(attempted(work)))
    meant = MemoryError if out_of_memory(error) else type(error)
    with pytest.raises(meant) as raised:
        answer_of(reply)
    assert str(raised.value) == str(error)
    assert answer_of(attempted(lambda: [1])) == [1]


def test_a_rank_tells_what_went_wrong_in_its_share_of_an_evaluation(
    learn: Learn, dev: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured(crew: Crew) -> Any:
        raise FloatingPointError(f"rank {crew.team.rank} is beyond numbers")

    run = learn(f"task.dev={dev}")
    settings = run.settings()
    task = settings.task_class.load(settings.task, run.path)
    crew = assemble(run, settings, task, lambda _: Team(), lambda _: None)
    monkeypatch.setattr(Crew, "measure_dev", measured)
    with (tmp_path / "channel").open("w") as channel:
        crew.report_dev(channel)
    with pytest.raises(FloatingPointError, match="rank 0 is beyond numbers"):
        answer_of(json.loads((tmp_path / "channel").read_text()))


@pytest.mark.parametrize("error", OUT_OF_MEMORY)
def test_out_of_memory_names_the_keys(
    learn: Learn, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def greedy(*_: Any) -> None:
        raise error

    monkeypatch.setattr(TranslateObjective, "forward", greedy)
    with pytest.raises(TrainingError, match=r"update 1.*200.*train\.accumulate.*train\.batch_tok"):
        learn()


def advised(error: TrainingError) -> dict[str, bool]:
    """The flags it names, as `train` takes them."""
    return {flag.replace("-", "_"): True for flag in re.findall(r"--([a-z-]+)", str(error))}


@pytest.mark.parametrize("remedy", ["train.accumulate=2", "train.batch_tokens=60"])
def test_what_to_do_when_out_of_memory_helps(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remedy: str
) -> None:
    forward = TranslateObjective.forward

    def greedy(self: Any, batch: Any, carry: Any) -> Any:
        if batch.target.numel() > 120:
            raise MemoryError
        return forward(self, batch, carry)

    monkeypatch.setattr(TranslateObjective, "forward", greedy)
    where = r"out of memory in update \d+ \(epoch 1, batch \d+, \d+ examples from \d+\)"
    with pytest.raises(TrainingError, match=where) as told:
        train(tiny(files), tmp_path / "run")
    remedied = override(tiny(files), [remedy])
    run, _ = train(remedied, tmp_path / "run", **advised(told.value))
    assert steps(run.checkpoints)[-1] == 6


def test_what_to_do_when_updates_are_refused_helps(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, lambda call: call < 11)
    config = override(tiny(files), ["train.steps=20"])
    with pytest.raises(TrainingError, match="10 updates in a row") as told:
        train(config, tmp_path / "run")
    lower = override(config, ["train.peak_rate=1e-3"])
    run, _ = train(lower, tmp_path / "run", **advised(told.value))
    assert steps(run.checkpoints)[-1] == 20


def test_with_the_rate_of_the_paper_the_warm_up_is_the_remedy(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poison(monkeypatch, lambda call: call < 11)
    config = override(tiny(files), ["train.steps=20", "train.schedule=paper"])
    with pytest.raises(TrainingError, match=r"10 updates in a row.*raise train\.warmup") as told:
        train(config, tmp_path / "run")
    assert "peak_rate" not in str(told.value)
    longer = override(config, ["train.warmup=9"])
    run, _ = train(longer, tmp_path / "run", **advised(told.value))
    assert steps(run.checkpoints)[-1] == 20
    broken = {"w": torch.tensor(torch.nan)}
    with pytest.raises(TrainingError, match=r"'w' is not finite.*intact: raise train\.warmup"):
        run.write_weights(broken, {}, remedy=run.settings().train.calmer)
    with pytest.raises(TrainingError, match=r"raise train\.warmup and train it anew"):  # noqa: SIM117
        with told_of(run.path, run.settings().train, "scoring"):
            raise FloatingPointError("logits are NaN")


def test_other_errors_are_not_dressed_up(learn: Learn, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("sizes of tensors")

    monkeypatch.setattr(TranslateObjective, "forward", broken)
    with pytest.raises(RuntimeError, match="sizes of tensors"):
        learn()


@pytest.mark.parametrize(("dev_too", "told"), [(True, "logits are NaN"), (False, "not finite")])
def test_a_model_beyond_numbers_is_not_written(
    learn: Learn, dev: list[str], tmp_path: Path, dev_too: bool, told: str
) -> None:
    sets = ["train.peak_rate=1e39", "train.warmup=0"] + [f"task.dev={dev}"] * dev_too
    with pytest.raises(TrainingError, match=rf"{told}.*lower train\.peak_rate"):
        learn(*sets, out=tmp_path / "run")
    assert not (tmp_path / "run" / "model.safetensors").exists()


def test_scores_that_cannot_be_kept_stop_nothing(
    files: list[str], dev: list[str], tmp_path: Path
) -> None:
    def block(running: trainer.Trainer, update: Any) -> None:
        place = running.crew.run.path / "evals"
        if update.step < 5:
            place.touch()  # no folder can be made there
        else:
            place.unlink(missing_ok=True)

    sets = [f"task.dev={dev}", "train.eval_every=2", "train.save_every=2"]
    run, warnings = train(override(tiny(files), sets), tmp_path / "run", update=block)
    assert sum("the best model so far was not written" in each for each in warnings) == 2
    assert close(load_tensors(run.weights), weights_at(run, 6))


def test_what_a_kill_left_half_written_is_gone_when_the_run_goes_on(
    files: list[str], dev: list[str], tmp_path: Path
) -> None:
    config = override(tiny(files), [f"task.dev={dev}", "train.steps=1"])
    run, _ = train(config, tmp_path / "run")
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    before = everything(run.path).keys()
    left = [f".tmp-{dead.pid}-model.safetensors", f"evals/.tmp-{dead.pid}-test.json"]
    kept = [f"evals/.tmp-{os.getppid()}-test.json", ".tmp-mine"]  # of one that lives, and nobody's
    for name in left + kept:
        (run.path / name).write_bytes(b"half")
    with pytest.raises(InputError, match="--resume"):
        train(config, run.path)
    assert everything(run.path).keys() == {*before, *left, *kept}
    train(override(config, ["train.steps=2"]), run.path, resume=True)
    assert {name for name in everything(run.path) if ".tmp-" in name} == {*kept}


def test_in_a_folder_that_is_no_run_nothing_is_tidied(files: list[str], tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as dead:
        pass
    (tmp_path / f".tmp-{dead.pid}-mine").write_text("dear")
    with pytest.raises(InputError, match="not empty"):
        train(tiny(files), tmp_path, resume=True)
    (tmp_path / "config.toml").write_text("[server]\nport = 80\n")
    with pytest.raises(InputError, match="of another kind"):
        train(tiny(files), tmp_path, resume=True)
    assert everything(tmp_path).keys() == {f".tmp-{dead.pid}-mine", "config.toml"}


# --- signals -----------------------------------------------------------------------------------


@pytest.mark.parametrize("saved", [None, 2])
def test_a_signal_on_a_full_disk_is_an_error_that_names_the_last_good_step(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saved: int | None
) -> None:
    save = checkpoint.save

    def full(folder: Path, found: checkpoint.Checkpoint) -> Path:
        if found.step == saved:
            return save(folder, found)
        raise TrainingError("no space left")

    def stop(_: Any, update: Any) -> None:
        if update.step == 4:
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(trainer.checkpoint, "save", full)
    config = override(tiny(files), ["train.save_every=1"])
    goes_on = "begins anew" if saved is None else "goes on from step 2,"
    with pytest.raises(TrainingError, match=f"SIGTERM, and step 4 could not.*{goes_on}"):
        train(config, tmp_path / "run", update=stop)
    monkeypatch.undo()
    with pytest.raises(Interrupted, match="SIGTERM"):
        train(config, tmp_path / "run", update=stop, resume=True)
    assert steps(tmp_path / "run" / "checkpoints")[-1] == 4


def test_a_signal_in_the_last_evaluation_is_heard_when_all_is_saved(
    learn: Learn, dev: list[str], tmp_path: Path
) -> None:
    """Of several seeds, the next is not begun."""

    def stop(*_: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    sets = (f"task.dev={dev}", "train.eval_every=6")
    with pytest.raises(Interrupted, match="SIGTERM"):
        learn(*sets, out=tmp_path / "run", finish=stop)
    heard: list[int] = []
    learn(*sets, out=tmp_path / "run", resume=True, update=lambda _, u: heard.append(u.step))
    assert heard == []


def test_signals_are_given_back(learn: Learn) -> None:
    before = signal.getsignal(signal.SIGINT)
    learn()
    assert signal.getsignal(signal.SIGINT) is before
