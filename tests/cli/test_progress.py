"""What a bar shows is of the run that trains now."""

import re
from pathlib import Path
from typing import Any

import pytest
from tiny_runs import tiny, write_corpus

from saccade.cli.progress import Bar, Log, in_millions
from saccade.training.start import Start, train_run, train_seeds
from saccade.training.trainer import Events


def test_few_parameters_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [in_millions(n) for n in (12_345, 99_999, 100_000)] == ["12,345", "99,999", "0.1 M"]
    config = tiny(write_corpus(tmp_path), {"train": {"steps": 1}})
    train_run(config, tmp_path / "run", events=Events(start=Log().start))
    told = capsys.readouterr().err
    assert re.search(r"transformer tiny, \d,\d{3} parameters, 1 step, 1 process", told), told


def test_the_bar_begins_anew_for_the_next_seed(tmp_path: Path) -> None:
    files = write_corpus(tmp_path)
    bar, seen = Bar(), list[tuple[bool, str, float]]()

    def start(trainer: Any) -> None:
        bar.start(trainer)
        (task,) = bar.progress.tasks
        seen.append((bar.progress.live.is_started, bar.best, task.completed))

    events = Events(start, bar.update, bar.evaluation, bar.warn, bar.finish)
    try:
        config, out = tiny(files, {"task": {"dev": files}}), tmp_path / "seeds"
        train_seeds(config, out, [1, 2], Start(), events)
        assert "best" in bar.best
        assert not bar.progress.live.is_started
    finally:
        bar.close()
    assert seen == [(True, "", 0.0)] * 2
