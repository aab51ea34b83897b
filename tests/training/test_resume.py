"""A run can die at any moment and resume to the very same weights, bit by bit."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tiny_runs import write_corpus

TARGET = Path(__file__).parent / "kill_target.py"
SRC = Path(__file__).parents[2] / "src"
STEPS = 30
KILLED = (f"train.steps={STEPS}", "train.ema=0.9", "train.save_every=1")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@contextmanager
def started(
    out: Path, corpus: list[str], *sets: str, ending: str = ""
) -> Iterator["subprocess.Popen[bytes]"]:
    """A training process that ends as kill_target.py says; none is left behind."""
    with subprocess.Popen(
        [sys.executable, str(TARGET), str(out), *corpus, *sets],
        env={**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1", "ENDING": ending},
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(out: Path, corpus: list[str], *sets: str, ending: str = "") -> tuple[int, str]:
    """The exit code of a run, and what it said."""
    with started(out, corpus, *sets, ending=ending) as process:
        _, errors = process.communicate(timeout=600)
    return process.returncode, errors.decode()


def finish(out: Path, corpus: list[str], *sets: str) -> None:
    code, errors = ended(out, corpus, *sets)
    assert code == 0, errors


def last_step(out: Path) -> int:
    return max((int(path.name[5:]) for path in out.glob("checkpoints/step-*")), default=0)


def weights(out: Path) -> tuple[bytes, ...]:
    files = sorted((out / "checkpoints" / f"step-{last_step(out):08d}").glob("*.safetensors"))
    assert len(files) >= 3
    return (out / "model.safetensors").read_bytes(), *(file.read_bytes() for file in files)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, corpus: list[str]) -> tuple[bytes, ...]:
    """The weights of the run that nobody disturbs."""
    out = tmp_path_factory.mktemp("whole") / "run"
    finish(out, corpus, *KILLED)
    assert last_step(out) == STEPS
    return weights(out)


@pytest.mark.serial
@pytest.mark.parametrize(
    "number", [*range(10), *(pytest.param(n, marks=pytest.mark.slow) for n in range(10, 100))]
)
def test_a_kill_changes_nothing(
    tmp_path: Path, corpus: list[str], whole: tuple[bytes, ...], number: int
) -> None:
    """One in five while it starts, one while it ends, the others as it trains and saves."""
    draw, out, kind = random.Random(number), tmp_path / "run", number % 5
    if kind == 0:  # a quick machine may be done
        with started(out, corpus, *KILLED) as process:
            time.sleep(draw.uniform(0, 3))
            process.kill()
    else:
        step = STEPS if kind == 1 else draw.randint(1, STEPS // 2)
        ending = f"SIGALRM {step} {draw.uniform(1e-6, 0.05)}"
        code, errors = ended(out, corpus, *KILLED, ending=ending)
        assert code == -signal.SIGALRM or (kind, code) == (1, 0), errors
    finish(out, corpus, *KILLED)
    assert weights(out) == whole


@pytest.mark.serial
def test_terminated_saves_and_continues(
    tmp_path: Path, corpus: list[str], whole: tuple[bytes, ...]
) -> None:
    out, settings = tmp_path / "run", (*KILLED, f"train.save_every={STEPS}")
    code, errors = ended(out, corpus, *settings, ending="SIGTERM 12")
    assert code == 143, errors
    assert last_step(out) == 12
    finish(out, corpus, *settings)
    assert weights(out) == whole
