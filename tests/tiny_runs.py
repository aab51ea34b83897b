"""A corpus of forty lines, and runs so small that training one takes a moment."""

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from saccade.config import merge
from saccade.training.checkpoint import load_tensors
from saccade.training.run import Run
from saccade.training.start import Start, train_run
from saccade.training.trainer import Events

Pair = tuple[str, str]
Weights = dict[str, torch.Tensor]
Learn = Callable[..., Run]  # settings to the run they give, see tests/training/conftest.py


def pairs(count: int = 40, seed: int = 1) -> list[Pair]:
    """Letters, and the same in capitals, backwards."""
    draw = random.Random(seed)
    rows = [[draw.choice("abcdefgh") for _ in range(draw.randint(2, 8))] for _ in range(count)]
    return [(" ".join(row), " ".join(row[::-1]).upper()) for row in rows]


def write_corpus(folder: Path, name: str = "train", count: int = 40, seed: int = 1) -> list[str]:
    """Two files of lines."""
    sides = zip(*pairs(count, seed), strict=True)
    files = [folder / f"{name}.{side}" for side in ("source", "target")]
    for file, lines in zip(files, sides, strict=True):
        file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return [str(file) for file in files]


def tiny(files: list[str], *layers: Mapping[str, Any]) -> dict[str, Any]:
    """The smallest config that trains; the first file pair is both train and dev."""
    return merge(
        {
            "task": {"name": "translate", "train": files, "tokenizer": "characters"},
            "model": {"dim": 16, "layers": 1, "heads": 2, "ffn_dim": 16},
            "train": {"steps": 6, "batch_tokens": 200, "processes": 1, "threads": 1, "warmup": 2},
        },
        *layers,
    )


def write_text(folder: Path, name: str = "train.txt", size: int = 3000, seed: int = 1) -> str:
    """Letters in words and lines, each followed by one of its neighbours in the alphabet."""
    draw, letters = random.Random(seed), "abcdefgh"
    place, text = 0, []
    for number in range(size):
        place = (place + draw.choice((1, 1, 1, 2))) % len(letters)
        text.append("\n" if number % 37 == 36 else " " if number % 5 == 4 else letters[place])
    (folder / name).write_text("".join(text), encoding="utf-8")
    return str(folder / name)


def tiny_text(files: list[str], *layers: Mapping[str, Any]) -> dict[str, Any]:
    """The smallest config of a language model."""
    return merge(
        {
            "task": {
                "name": "generate", "train": files, "tokenizer": "characters", "context": 16,
            },
            "model": {"name": "gpt", "dim": 16, "layers": 1, "heads": 2, "dropout": 0.1},
            "train": {"steps": 6, "batch_tokens": 128, "processes": 1, "threads": 1, "warmup": 2},
        },
        *layers,
    )  # fmt: skip


def train(config: Mapping[str, Any], out: Path, **how: Any) -> tuple[Run, list[str]]:
    """The run, and what it warned of; `how` are fields of Start and of Events."""
    warnings: list[str] = []
    hears = {name: how.pop(name) for name in ("update", "evaluation", "finish") if name in how}
    return train_run(config, out, Start(**how), Events(warn=warnings.append, **hears)), warnings


class Killed(BaseException):
    """What a kill looks like from inside: nothing after it runs."""


def die_at(step: int) -> Callable[[Any, Any], None]:
    def update(_: Any, update: Any) -> None:
        if update.step == step:
            raise Killed

    return update


def everything(folder: Path) -> dict[str, bytes]:
    """All files of a folder, hidden ones too, with their bytes."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def weights_at(run: Run, step: int, file: str = "model") -> dict[str, torch.Tensor]:
    return load_tensors(run.checkpoints / f"step-{step:08d}" / f"{file}.safetensors")


def close(one: Weights, other: Weights, atol: float = 0.0) -> bool:
    """The same tensors under the same names, within a tolerance."""
    assert one.keys() == other.keys()
    return all(torch.allclose(one[name], other[name], rtol=0, atol=atol) for name in one)


def mean(*those: Weights) -> Weights:
    """Of each tensor by itself."""
    return {
        name: torch.stack([each[name].double() for each in those]).mean(0).float()
        for name in those[0]
    }
