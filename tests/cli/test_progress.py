"""What a bar shows is of the run that trains now."""

from pathlib import Path
from typing import Any

from tiny_runs import tiny, write_corpus

from saccade.cli.progress import Bar
from saccade.training.start import Start, train_seeds
from saccade.training.trainer import Events


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
