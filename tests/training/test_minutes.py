"""A budget of minutes: the schedule ends there, and earlier sittings count."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import tiny, train

from saccade.config import override
from saccade.errors import TrainingError
from saccade.tasks.translate import Translate
from saccade.training.checkpoint import steps

UPDATE, EVALUATION = 0.1, 0.15  # seconds that each takes


class Clock:
    """What training reads the time from: it stands still unless it is moved on."""

    def __init__(self) -> None:
        self.now, self.updates = 1000.0, 0

    def monotonic(self) -> float:
        return self.now

    def update(self, *_: Any) -> None:
        self.now, self.updates = self.now + UPDATE, self.updates + 1
        assert self.updates < 100, "nothing ends this run"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock, score = Clock(), Translate.score
    for module in ("start", "trainer"):
        monkeypatch.setattr(f"saccade.training.{module}.time", clock)

    def slow(*arguments: Any) -> Any:
        clock.now += EVALUATION
        return score(*arguments)

    monkeypatch.setattr(Translate, "score", slow)
    return clock


def by_the_clock(files: list[str], *sets: str) -> dict[str, Any]:
    config = override(tiny(files), ["train.minutes=0.05", "train.warmup=0", *sets])
    del config["train"]["steps"]
    return config


def test_minutes_are_a_budget_and_the_rate_ends_with_it(
    files: list[str], dev: list[str], tmp_path: Path, clock: Clock
) -> None:
    rates: list[float] = []

    def update(_: Any, update: Any) -> None:
        rates.append(update.rate)
        clock.update()

    begun_at = clock.now - 0.5  # starting up took half a second
    run, _ = train(
        by_the_clock(files, f"task.dev={dev}", "train.peak_rate=1e-3"), tmp_path / "run",
        update=update, started_at=begun_at,
    )  # fmt: skip
    assert clock.now - begun_at == pytest.approx(3, abs=UPDATE)  # with the evaluation
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 0.7e-3
    assert rates[-1] < 0.3e-3
    assert run.evaluation("dev")["metrics"]


def test_the_evaluation_of_an_average_has_its_time_too(
    files: list[str], tmp_path: Path, clock: Clock
) -> None:
    shares: list[float] = []

    def look(trainer: Any, _: Any) -> None:
        trainer.started_at, trainer.standing.reserve = clock.now - 30, 10.0
        trainer.standing.idle = 0.0
        shares.append(trainer.share)
        trainer.config = dataclasses.replace(trainer.config, average=2)
        shares.append(trainer.share)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(by_the_clock(files, "train.minutes=1"), tmp_path / "run", update=look)
    assert shares == pytest.approx([30 / 50, 30 / 40])


def test_earlier_sittings_count(files: list[str], tmp_path: Path, clock: Clock) -> None:
    config = by_the_clock(files, "train.minutes=1")

    class Enough(Exception):  # noqa: N818
        pass

    def stop(trainer: Any, _: Any) -> None:
        clock.now += 54
        trainer.save()
        raise Enough

    with pytest.raises(Enough):
        train(config, tmp_path / "run", update=stop)
    clock.now += 3600  # between sittings no time counts
    seen: list[float] = []

    def look(trainer: Any, _: Any) -> None:
        clock.update()
        seen.append(trainer.seconds)

    train(config, tmp_path / "run", resume=True, update=look)
    assert seen[0] == pytest.approx(54 + UPDATE)
    assert seen[-1] == pytest.approx(57, abs=2 * UPDATE)  # 3 are kept for an evaluation


def test_minutes_that_are_over_before_the_first_update_are_no_success(
    files: list[str], tmp_path: Path, clock: Clock
) -> None:
    late = clock.now - 60
    with pytest.raises(TrainingError, match=r"over before the first update.*more --minutes"):
        train(by_the_clock(files), tmp_path / "run", started_at=late)
    run, _ = train(by_the_clock(files), tmp_path / "run", resume=True, update=clock.update)
    assert run.metrics()[-1]["step"] > 0


def test_of_steps_and_minutes_the_first_ends_the_run(
    files: list[str], tmp_path: Path, clock: Clock
) -> None:
    few = override(by_the_clock(files), ["train.steps=3", "train.minutes=60"])
    run, _ = train(few, tmp_path / "few", update=clock.update)
    assert steps(run.checkpoints)[-1] == 3
    begun_at = clock.now
    many = override(by_the_clock(files), ["train.steps=1000000", "train.minutes=0.02"])
    train(many, tmp_path / "many", update=clock.update)
    assert clock.now - begun_at == pytest.approx(1.2, abs=UPDATE)
