"""A tiny corpus, a run trained on it, and the command called in this process."""

import io
import random
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

import pytest

from saccade.cli import run

WORDS = ["the", "a", "cat", "dog", "house", "sees", "eats", "big", "red", "old", "man"]
TINY = [
    *("--set", "model.dim=16", "--set", "model.ffn_dim=16", "--set", "model.layers=1"),
    *("--set", "model.heads=2", "--set", "task.vocab_size=280", "--set", "train.threads=1"),
    *("--set", "train.batch_tokens=128", "--processes", "1"),
]


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


def command(*arguments: object, stdin: bytes = b"") -> Said:
    """What the command answers, without starting a process."""
    out, err, before = io.StringIO(), io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(stdin)))
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = run([str(argument) for argument in arguments])
    finally:
        sys.stdin = before
    return Said(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def saccade() -> Callable[..., Said]:
    return command


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """train.en, train.de, dev.en and dev.de: each word spelt backwards."""
    folder, draw = tmp_path_factory.mktemp("corpus"), random.Random(1)
    for name, size in (("train", 60), ("dev", 4)):
        lines = [draw.choices(WORDS, k=draw.randint(2, 6)) for _ in range(size)]
        (folder / f"{name}.en").write_text("".join(" ".join(line) + "\n" for line in lines))
        (folder / f"{name}.de").write_text(
            "".join(" ".join(word[::-1] for word in line) + "\n" for line in lines)
        )
    return folder


def train_arguments(corpus: Path, out: Path) -> list[str]:
    files = {
        name: [str(corpus / f"{name}.{side}") for side in ("en", "de")] for name in ("train", "dev")
    }
    data = ["--train", *files["train"], "--dev", *files["dev"]]
    return ["train", "translate", *data, "--out", str(out), "--steps", "20", *TINY]


@pytest.fixture(scope="session")
def trained(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Said]:
    out = tmp_path_factory.mktemp("runs") / "run"
    return out, command(*train_arguments(corpus, out), "--set", "train.eval_every=20")


@pytest.fixture(scope="session")
def run_folder(trained: tuple[Path, Said]) -> Path:
    return trained[0]
