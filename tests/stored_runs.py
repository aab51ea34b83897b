"""Folders that look like runs to `saccade compare`, without any training."""

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from saccade.tasks.metrics import sentence_scores, translation_metrics

WORDS = ["the", "a", "cat", "dog", "house", "sees", "eats", "big", "red", "old", "man", "and"]


def sentences(count: int = 60, seed: int = 1) -> list[str]:
    """Lines of 2 to 20 words."""
    draw = random.Random(seed)
    return [" ".join(draw.choices(WORDS, k=draw.randint(2, 20))) for _ in range(count)]


def spoiled(lines: Sequence[str], share: float, seed: int = 1) -> list[str]:
    """The lines with this share of their words replaced."""
    draw = random.Random(seed)
    return [
        " ".join("wrong" if draw.random() < share else word for word in line.split())
        for line in lines
    ]


def evaluation(sources: Sequence[str], share: float) -> dict[str, Any]:
    """What `saccade eval` would have stored of a model that copies, with mistakes."""
    predictions = spoiled(sources, share)
    metrics = translation_metrics(predictions, sources)
    columns = zip(sources, predictions, sentence_scores(predictions, sources), strict=True)
    return {
        "metrics": {m.name: {"value": m.value, "signature": m.signature} for m in metrics},
        "examples": len(sources),
        "by_example": [
            {"source": source, "reference": source, "prediction": prediction, **scores}
            for source, prediction, scores in columns
        ],
    }


def write_run(
    folder: Path, share: float = 0.1, task: str = "translate", **evaluations: dict[str, Any]
) -> Path:
    """A run with a config, a log, a header of weights, and what is evaluated."""
    (folder / "evals").mkdir(parents=True)
    (folder / "config.toml").write_text(
        f'format = 1\n[task]\nname = "{task}"\n[model]\nname = "transformer"\n'
    )
    log = [
        {"step": 10, "seconds": 2.0, "rate": 0.1, "grad_norm": 1.0, "tokens": 1000, "loss": 5.0},
        {"step": 20, "seconds": 4.0, "rate": 0.1, "grad_norm": 1.0, "tokens": 2000, "loss": 4.0},
        {"step": 20, "seconds": 90.0, "dev BLEU": 12.5},
        {"step": 30, "seconds": 92.0, "rate": 0.1, "grad_norm": 1.0, "tokens": 3000, "loss": 3.0},
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    header = json.dumps(
        {
            "__metadata__": {"step": "30"},
            "a": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]},
            "b": {"dtype": "F32", "shape": [], "data_offsets": [48, 52]},
        }
    ).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)
    for name, found in (evaluations or {"dev": evaluation(sentences(), share)}).items():
        (folder / "evals" / f"{name}.json").write_text(json.dumps(found))
    return folder
