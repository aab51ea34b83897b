"""When to stop, what to keep, which weights become the model, and what never stops a run."""

import dataclasses
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import tiny, train, weights_at, write_corpus

from saccade.config import override
from saccade.errors import InputError, TrainingError
from saccade.tasks.objectives import TranslateObjective
from saccade.tasks.translate import Translate
from saccade.training import checkpoint, trainer
from saccade.training.checkpoint import load_tensors, steps
from saccade.training.run import Run
from saccade.training.signals import Interrupted

Weights = dict[str, torch.Tensor]
SRC = Path(__file__).parents[2] / "src"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_corpus(tmp_path_factory.mktemp("corpus"), "dev", 3, seed=2)


Learn = Callable[..., Run]


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


def close(one: Weights, other: Weights, atol: float = 0.0) -> bool:
    assert one.keys() == other.keys()
    return all(torch.allclose(one[name], other[name], rtol=0, atol=atol) for name in one)


def mean(*those: Weights) -> Weights:
    return {
        name: torch.stack([each[name].double() for each in those]).mean(0).float()
        for name in those[0]
    }


# --- stopping and choosing ---------------------------------------------------------------------


def test_patience_ends_and_the_best_is_kept(
    learn: Learn, dev: list[str], scores: Callable[..., None]
) -> None:
    scores(1.0, 5.0, 4.0, 5.0, 9.0)
    run = learn(
        f"task.dev={dev}", "train.steps=50", "train.eval_every=2", "train.save_every=2",
        "train.patience=2", "train.keep=9",
    )  # fmt: skip
    assert steps(run.checkpoints) == [2, 4, 6, 8]  # an equal score is no better one
    assert close(load_tensors(run.weights), weights_at(run, 4))
    assert run.evaluation("dev")["metrics"]["BLEU"]["value"] == 5.0
    state = json.loads((run.checkpoints / "step-00000008" / "state.json").read_bytes())
    assert (state["best_step"], state["stale"], state["finished"]) == (4, 2, True)


def test_a_metric_that_is_no_number_is_never_the_best(
    learn: Learn, dev: list[str], scores: Callable[..., None]
) -> None:
    scores(float("nan"), 3.0, float("inf"))
    sets = (f"task.dev={dev}", "train.eval_every=2", "train.save_every=2", "train.keep=9")
    run = learn(*sets)
    assert close(load_tensors(run.weights), weights_at(run, 4))
    scores(*[float("nan")] * 3)
    assert close(load_tensors(learn(*sets).weights), weights_at(run, 6))


def test_equal_scores_are_told_apart_by_the_next_metric(
    learn: Learn, dev: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a model that has no whole phrase right yet: BLEU is zero, chrF grows."""
    score, left = Translate.score, iter([1.0, 3.0, 2.0])

    def scripted(self: Any, *texts: Any) -> Any:
        found = score(self, *texts)
        values = (0.0, next(left))
        pairs = zip(found.metrics, values, strict=True)
        metrics = [dataclasses.replace(metric, value=value) for metric, value in pairs]
        return dataclasses.replace(found, metrics=metrics)

    monkeypatch.setattr(Translate, "score", scripted)
    run = learn(f"task.dev={dev}", "train.eval_every=2", "train.save_every=2", "train.keep=9")
    assert close(load_tensors(run.weights), weights_at(run, 4))


def test_unset_evaluations_are_five_over_the_budget(learn: Learn, dev: list[str]) -> None:
    run = learn(f"task.dev={dev}", "train.steps=20")
    found = [line["step"] for line in run.metrics() if "dev BLEU" in line]
    assert found == [4, 8, 12, 16, 20]


def test_the_newest_are_kept(learn: Learn) -> None:
    run = learn("train.save_every=1", "train.keep=3", "train.steps=7")
    assert steps(run.checkpoints) == [5, 6, 7]


def test_rotation_spares_the_best(
    learn: Learn, dev: list[str], scores: Callable[..., None]
) -> None:
    scores(5.0, 1.0, 4.0, 3.0)
    run = learn(
        f"task.dev={dev}", "train.steps=12", "train.eval_every=3", "train.save_every=5",
        "train.keep=2",
    )  # fmt: skip
    assert steps(run.checkpoints) == [3, 10, 12]  # 3 was saved for its score alone
    assert close(load_tensors(run.weights), weights_at(run, 3))


# --- averages ----------------------------------------------------------------------------------


def test_the_average_is_of_the_last(learn: Learn) -> None:
    run = learn("train.average=3", "train.save_every=2", "train.steps=9")
    assert steps(run.checkpoints) == [6, 8, 9]
    expected = mean(*(weights_at(run, step) for step in (6, 8, 9)))
    assert close(load_tensors(run.weights), expected, atol=1e-7)


def test_the_average_is_of_the_best(
    learn: Learn, dev: list[str], scores: Callable[..., None]
) -> None:
    scores(7.0, 1.0, 8.0, 2.0, 3.0, 6.5)
    run = learn(
        f"task.dev={dev}", "train.average=2", "train.average_of=best", "train.eval_every=2",
        "train.save_every=1", "train.steps=10",
    )  # fmt: skip
    assert {2, 6} <= set(steps(run.checkpoints))  # rotation spares them
    expected = mean(weights_at(run, 2), weights_at(run, 6))
    assert close(load_tensors(run.weights), expected, atol=1e-7)
    assert run.evaluation("dev")["metrics"]["BLEU"]["value"] == 6.5  # of the average itself


def test_the_moving_average_follows_its_formula_and_is_the_model(learn: Learn) -> None:
    run = learn("train.ema=0.6", "train.save_every=1", "train.keep=99", "train.steps=20")
    average = weights_at(run, 1, "ema")
    for step in range(2, 21):
        now, decay = weights_at(run, step), min(0.6, step / (step + 10))
        average = {name: decay * average[name] + (1 - decay) * now[name] for name in now}
        assert close(weights_at(run, step, "ema"), average, atol=1e-6)
    assert close(load_tensors(run.weights), weights_at(run, 20, "ema"))
    assert not close(load_tensors(run.weights), weights_at(run, 20), atol=1e-5)


def test_evaluating_the_moving_average_leaves_training_alone(learn: Learn, dev: list[str]) -> None:
    plain = learn("train.ema=0.6")
    evaluated = learn("train.ema=0.6", f"task.dev={dev}", "train.eval_every=1")
    for file in ("model", "ema"):
        assert close(weights_at(plain, 6, file), weights_at(evaluated, 6, file))


def test_two_averages_at_once_are_refused(learn: Learn, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"train\.ema and train\.average"):
        learn("train.ema=0.6", "train.average=2", out=tmp_path / "never")
    assert not (tmp_path / "never").exists()


# --- what goes wrong ---------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"),
        torch.OutOfMemoryError("CUDA out of memory"),
    ],
)
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
    with pytest.raises(TrainingError, match="out of memory") as told:
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


def test_other_errors_are_not_dressed_up(learn: Learn, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("sizes of tensors")

    monkeypatch.setattr(TranslateObjective, "forward", broken)
    with pytest.raises(RuntimeError, match="sizes of tensors"):
        learn()


# --- minutes -----------------------------------------------------------------------------------


def by_the_clock(files: list[str], *sets: str) -> dict[str, Any]:
    config = override(tiny(files), ["train.minutes=0.05", "train.warmup=0", *sets])
    del config["train"]["steps"]
    return config


@pytest.mark.serial
def test_minutes_are_a_budget_and_the_rate_ends_with_it(
    files: list[str], dev: list[str], tmp_path: Path
) -> None:
    rates: list[float] = []
    begun_at = time.monotonic()
    run, _ = train(
        by_the_clock(files, f"task.dev={dev}", "train.peak_rate=1e-3"), tmp_path / "run",
        update=lambda _, update: rates.append(update.rate),
    )  # fmt: skip
    assert time.monotonic() - begun_at < 6  # of 3 seconds, on a machine that may be busy
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 0.7e-3
    assert rates[-1] < 0.3e-3
    assert run.evaluation("dev")["metrics"]


def test_the_evaluation_of_an_average_has_its_time_too(files: list[str], tmp_path: Path) -> None:
    shares: list[float] = []

    def look(trainer: Any, _: Any) -> None:
        trainer.started_at, trainer.standing.reserve = time.monotonic() - 30, 10.0
        trainer.standing.idle = 0.0
        shares.append(trainer.share)
        trainer.config = dataclasses.replace(trainer.config, average=2)
        shares.append(trainer.share)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(by_the_clock(files, "train.minutes=1"), tmp_path / "run", update=look)
    assert shares == pytest.approx([30 / 50, 30 / 40], rel=1e-2)


@pytest.mark.serial
def test_earlier_sittings_count(files: list[str], tmp_path: Path) -> None:
    config = by_the_clock(files, "train.minutes=1")

    class Enough(Exception):  # noqa: N818
        pass

    def stop(trainer: Any, _: Any) -> None:
        trainer.before = 54.0
        trainer.save()
        raise Enough

    with pytest.raises(Enough):
        train(config, tmp_path / "run", update=stop)
    seen: list[float] = []
    begun_at = time.monotonic()
    train(config, tmp_path / "run", resume=True, update=lambda t, _: seen.append(t.seconds))
    assert time.monotonic() - begun_at < 10
    assert seen[0] > 54
    assert seen[-1] < 63


@pytest.mark.serial
def test_minutes_that_are_over_before_the_first_update_are_no_success(
    files: list[str], tmp_path: Path
) -> None:
    late = time.monotonic() - 60
    with pytest.raises(TrainingError, match=r"over before the first update.*more --minutes"):
        train(by_the_clock(files), tmp_path / "run", started_at=late)
    run, _ = train(by_the_clock(files), tmp_path / "run", resume=True)
    assert run.metrics()[-1]["step"] > 0


def test_of_steps_and_minutes_the_first_ends_the_run(files: list[str], tmp_path: Path) -> None:
    few = override(by_the_clock(files), ["train.steps=3", "train.minutes=60"])
    assert steps(train(few, tmp_path / "few")[0].checkpoints)[-1] == 3
    begun_at = time.monotonic()
    many = override(by_the_clock(files), ["train.steps=1000000", "train.minutes=0.02"])
    train(many, tmp_path / "many")
    assert time.monotonic() - begun_at < 6


# --- the same result, however it is worked out -------------------------------------------------


EXACT = ("model.dropout=0.0", "train.optimizer=sgd", "train.peak_rate=0.1")


def test_the_same_number_gives_the_same_bits(learn: Learn) -> None:
    one, other, third = learn(), learn(), learn("train.seed=2")
    assert one.weights.read_bytes() == other.weights.read_bytes()
    assert one.weights.read_bytes() != third.weights.read_bytes()


def test_accumulation_changes_nothing(learn: Learn) -> None:
    whole, pieces = learn(*EXACT), learn(*EXACT, "train.accumulate=3")
    assert close(load_tensors(whole.weights), load_tensors(pieces.weights), atol=1e-5)


@pytest.mark.serial
@pytest.mark.usefixtures("team")
def test_a_team_changes_nothing(learn: Learn, dev: list[str]) -> None:
    sets = (*EXACT, f"task.dev={dev}", "train.eval_every=3")
    alone, two = learn(*sets), learn(*sets, "train.processes=2")
    assert close(load_tensors(alone.weights), load_tensors(two.weights), atol=1e-5)
    assert alone.evaluation("dev")["by_example"] == two.evaluation("dev")["by_example"]


@pytest.mark.serial
@pytest.mark.usefixtures("team")
def test_a_team_gives_the_same_bits_twice_and_those_of_accumulation(learn: Learn) -> None:
    one, other = learn("train.processes=2"), learn("train.processes=2")
    alone = learn("train.accumulate=2")
    assert one.weights.read_bytes() == other.weights.read_bytes()
    assert close(load_tensors(one.weights), load_tensors(alone.weights), atol=1e-5)


@pytest.mark.serial
@pytest.mark.usefixtures("team")
def test_a_batch_too_small_for_the_team_is_shared_all_the_same(learn: Learn) -> None:
    sets = (*EXACT, "train.batch_tokens=1")  # an example a batch: one rank has nothing to do
    alone, two = learn(*sets), learn(*sets, "train.processes=2")
    assert close(load_tensors(alone.weights), load_tensors(two.weights), atol=1e-5)


def test_bfloat16_trains_finite_weights_in_float32(learn: Learn) -> None:
    losses: list[float] = []
    run = learn("train.precision=bfloat16", "train.steps=20",
                update=lambda _, update: losses.append(update.losses["loss"]))  # fmt: skip
    found = load_tensors(run.weights)
    assert all(t.dtype == torch.float32 and bool(t.isfinite().all()) for t in found.values())
    assert losses[-1] < losses[0]
    assert not close(found, load_tensors(learn("train.steps=20").weights))


@pytest.mark.parametrize(("dev_too", "told"), [(True, "logits are NaN"), (False, "not finite")])
def test_a_model_beyond_numbers_is_not_written(
    learn: Learn, dev: list[str], tmp_path: Path, dev_too: bool, told: str
) -> None:
    sets = ["train.peak_rate=1e39", "train.warmup=0"] + [f"task.dev={dev}"] * dev_too
    with pytest.raises(TrainingError, match=rf"{told}.*lower train\.peak_rate|{told}"):
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


@pytest.mark.slow
@pytest.mark.serial
def test_a_compiled_model_learns_the_same(files: list[str], tmp_path: Path) -> None:
    """In a process of its own: the checker of annotations cannot be compiled."""
    target = Path(__file__).parent / "kill_target.py"
    sets = (*EXACT, "train.processes=1", "train.steps=4", "train.eval_every=4")
    for name, compiled in (("plain", "false"), ("compiled", "true")):
        subprocess.run(
            [sys.executable, target, tmp_path / name, *files, *sets, f"train.compile={compiled}"],
            env={**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"},
            check=True,
        )
    plain, compiled_run = Run(tmp_path / "plain"), Run(tmp_path / "compiled")
    assert close(load_tensors(plain.weights), load_tensors(compiled_run.weights), atol=1e-4)


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
