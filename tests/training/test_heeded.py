"""A setting that would do nothing is refused; what nobody set, or a run was begun with, is not."""

import re
from pathlib import Path

import pytest
from tiny_runs import tiny, train

from saccade.config import override
from saccade.errors import InputError
from saccade.training.checkpoint import steps
from saccade.training.decide import decided, refuse_contradictions
from saccade.training.settings import resolve


@pytest.mark.parametrize(
    ("sets", "told"),
    [
        (["schedule=paper", "peak_rate=1e-3"], "peak_rate = 0.001 does nothing with train.sched"),
        (["schedule=paper", "floor=0.1"], "schedule = 'paper': leave it out, or take linear or"),
        (["schedule=constant", "floor=0.1"], "train.floor = 0.1 does nothing with train.schedule"),
        (["optimizer=sgd", "optimizer.beta1=0.8"], "name = 'sgd': leave it out, or take adam or"),
        (["optimizer.momentum=0.9"], "optimizer.name = 'adamw': leave it out, or take sgd"),
    ],
)
def test_what_would_not_be_heeded_is_refused(
    tmp_path: Path, files: list[str], sets: list[str], told: str
) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        train(override(tiny(files), [f"train.{each}" for each in sets]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("task", "sets"),
    [
        ("translate", ["model.preset=base"]),
        ("translate", ["model.preset=big", "train.peak_rate=6e-3"]),
        ("translate", ["train.optimizer=sgd", "train.optimizer.momentum=0.9"]),
        ("translate", ["train.schedule=cosine", "train.floor=0.1", "train.peak_rate=1e-3"]),
        ("generate", ["train.schedule=paper"]),  # its rates are another default
        ("generate", ["train.schedule=paper", "model.preset=gpt2"]),
    ],
)
def test_what_is_heeded_or_was_set_by_nobody_is_not_refused(task: str, sets: list[str]) -> None:
    config = {"task": {"name": task, "train": ["a", "b"]}}
    refuse_contradictions(decided(resolve(override(config, sets))))


def test_a_run_begun_with_what_is_not_heeded_resumes(tmp_path: Path, files: list[str]) -> None:
    config = override(tiny(files), ["train.schedule=paper", "train.steps=1"])
    run, _ = train(config, tmp_path / "run")
    place = run.path / "config.toml"
    place.write_text(place.read_text().replace("peak_rate = 0.006", "peak_rate = 0.001"))
    more = override(config, ["train.steps=2", "train.peak_rate=0.001"])
    train(more, run.path, resume=True)
    other = override(more, ["train.steps=3", "train.peak_rate=0.002"])
    with pytest.raises(InputError, match=r"peak_rate = 0\.002 does nothing"):
        train(other, run.path, resume=True, accept_changes=True)
    assert steps(run.checkpoints)[-1] == 2
