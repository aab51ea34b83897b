"""A run can die at any moment and resume to the very same weights, bit by bit."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

TARGET = Path(__file__).parent / "kill_target.py"
SRC = Path(__file__).parents[2] / "src"


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Forty sentences of letters and the same in capitals, backwards."""
    folder, draw = tmp_path_factory.mktemp("corpus"), random.Random(1)
    rows = [[draw.choice("abcdefgh") for _ in range(draw.randint(2, 8))] for _ in range(40)]
    (folder / "source").write_text("".join(" ".join(row) + "\n" for row in rows))
    (folder / "target").write_text("".join(" ".join(row[::-1]).upper() + "\n" for row in rows))
    return [str(folder / "source"), str(folder / "target")]


def start(out: Path, corpus: list[str], *sets: str) -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, str(TARGET), str(out), *corpus, *sets],
        env={"PYTHONPATH": str(SRC), "PATH": "", "OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
    )


def finish(out: Path, corpus: list[str], *sets: str) -> None:
    process = start(out, corpus, *sets)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()


def weights(out: Path) -> tuple[bytes, ...]:
    last = sorted((out / "checkpoints").glob("step-*"))[-1]
    files = sorted(last.glob("*.safetensors"))
    assert len(files) >= 3
    return (out / "model.safetensors").read_bytes(), *(file.read_bytes() for file in files)


KILLED = ("train.steps=60", "train.save_every=1")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, corpus: list[str]) -> tuple[bytes, ...]:
    """The weights of the run that nobody disturbs."""
    out = tmp_path_factory.mktemp("whole") / "run"
    finish(out, corpus, *KILLED)
    return weights(out)


@pytest.mark.serial
@pytest.mark.parametrize(
    "number", [*range(10), *(pytest.param(n, marks=pytest.mark.slow) for n in range(10, 100))]
)
def test_a_kill_changes_nothing(
    tmp_path: Path, corpus: list[str], whole: tuple[bytes, ...], number: int
) -> None:
    draw = random.Random(number)
    process = start(tmp_path / "run", corpus, *KILLED)
    if number % 5:  # wait until it trains and saves, at every step; else anywhere in the start
        while process.poll() is None and not list(tmp_path.glob("run/checkpoints/step-*")):
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 1))
    else:
        time.sleep(draw.uniform(0, 4))
    process.kill()
    process.communicate()
    finish(tmp_path / "run", corpus, *KILLED)
    assert weights(tmp_path / "run") == whole


@pytest.mark.serial
def test_terminated_saves_and_continues(tmp_path: Path, corpus: list[str]) -> None:
    settings = ("train.steps=60", "train.save_every=50", "train.ema=0.9")
    finish(tmp_path / "whole", corpus, *settings)
    process = start(tmp_path / "cut", corpus, *settings)
    while not (tmp_path / "cut" / "metrics.jsonl").exists():
        time.sleep(0.01)
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == 143
    assert list((tmp_path / "cut" / "checkpoints").glob("step-*"))
    finish(tmp_path / "cut", corpus, *settings)
    assert weights(tmp_path / "cut") == weights(tmp_path / "whole")
