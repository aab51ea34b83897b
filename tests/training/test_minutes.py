"""A budget of minutes: the schedule ends there, and earlier sittings count."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import tiny, train

from saccade.config import override
from saccade.errors import TrainingError
from saccade.training.checkpoint import steps


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
