"""Training speed of a small GPT, nanoGPT's recipe for a CPU: saccade against Hugging Face GPT-2."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from competitors import WAITS, Spec, competing
from report import Report, Target, ratios
from training_speed import data
from turns import ENDLESS, TrainingOptions, best, fill, speeds, take_turns

WANTED = 1.3
LANGUAGE = TrainingOptions(steps=100, warmup=20)  # iterations are short: some 50 milliseconds
HF = "Hugging Face GPT-2"


def language_config() -> dict[str, Any]:
    """4 layers, 4 heads, width 128, context 64, batch 12, characters; with biases, as GPT-2 has."""
    return {
        "task": {
            "name": "generate", "train": [data("train.txt.gz", "tinyshakespeare")],
            "tokenizer": "characters", "context": 64,
        },
        "model": {"name": "gpt", "preset": "nano", "dropout": 0.0},
        "train": {"batch_tokens": 12 * 64, "steps": ENDLESS, "save_every": ENDLESS},
    }  # fmt: skip


def language_speed(options: TrainingOptions) -> Report:
    report = Report(
        "language",
        "Training, GPT of 4 layers, 4 heads, width 128, context 64, batch 12 (nanoGPT's recipe for "
        "a CPU), characters of tiny Shakespeare",
        ["", "iterations/s", "iterations per CPU-second", "ratio to Hugging Face"],
    )
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch, "run")
        Path(f"{run}.json").write_text(json.dumps(language_config()))
        with competing(_specs(run, options)) as found:
            turns = take_turns(found, options)
    wall = speeds(turns, "steps")
    base = best(wall, f"{HF},")
    fill(report, turns, "steps", base)
    reached = ratios(wall["saccade"], wall[base]).median
    report.targets.append(Target(f"saccade to {HF} at its best", WANTED, reached))
    report.notes.append(f"ratios are to {base}, the fastest thread setting of Hugging Face")
    return report


def _specs(run: Path, options: TrainingOptions) -> list[Spec]:
    """One thread is a setting, too: for tensors as small as these it may be the best."""
    cores, script = str(len(os.sched_getaffinity(0))), "training_worker.py"
    found = [
        Spec("saccade", script, [["saccade", str(run), "1"]]),
        Spec(f"{HF}, 1 thread", script, [["gpt2", str(run), "1"]]),
    ]
    if cores == "1":
        return found
    found += [
        Spec(f"{HF}, {cores} threads, {wait}", script, [["gpt2", str(run), cores]], WAITS[wait])
        for wait in options.waits
    ]
    places = [["gpt2", str(run), "1", str(rank), "2", f"{run}.meet"] for rank in range(2)]
    return [*found, Spec(f"{HF} in 2 processes of 1 thread (DDP)", script, places)]
