"""When to stop, what to keep, and which weights become the model."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import Learn, close, mean, weights_at

from saccade.errors import InputError
from saccade.tasks.translate import Translate
from saccade.training.checkpoint import load_tensors, steps

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
