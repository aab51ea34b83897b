"""The Makefile: a second `make demo` installs nothing, another pyproject.toml does."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
NEEDS = ("pyproject.toml", "constraints.txt")


def would_do(folder: Path, target: str) -> str:
    done = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", target],
        cwd=folder, capture_output=True, text=True, env={**os.environ, "MAKEFLAGS": ""},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """One in which `make setup` has been run."""
    for name in ("Makefile", *NEEDS):
        shutil.copy(PROJECT / name, tmp_path)
    (tmp_path / ".venv").mkdir()
    for age, stamp in enumerate((".made", ".setup")):
        (tmp_path / ".venv" / stamp).touch()
        then = time.time() + 10 + age
        os.utime(tmp_path / ".venv" / stamp, (then, then))
    return tmp_path


def test_a_second_demo_installs_nothing(checkout: Path) -> None:
    assert would_do(checkout, "demo") == ".venv/bin/saccade demo\n"


@pytest.mark.parametrize("changed", NEEDS)
def test_what_it_needs_is_installed_when_that_has_changed(checkout: Path, changed: str) -> None:
    then = time.time() + 60
    os.utime(checkout / changed, (then, then))
    assert "pip" in would_do(checkout, "demo")
