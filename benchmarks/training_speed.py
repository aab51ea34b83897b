"""Training speed: saccade against Hugging Face Marian and torch.nn.Transformer, taking turns."""

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from competitors import WAITS, Spec, competing
from report import Report, Target, ratios
from turns import ENDLESS, TrainingOptions, Turns, best, fill, speeds, take_turns


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """A preset as it is trained here, and how much faster than Hugging Face it is to be."""

    preset: str
    batch_tokens: int
    vocab_size: int
    wanted: float

    def config(self, train: Sequence[str]) -> dict[str, Any]:
        return {
            "task": {"name": "translate", "train": list(train), "vocab_size": self.vocab_size},
            "model": {"name": "transformer", "preset": self.preset},
            "train": {
                "batch_tokens": self.batch_tokens,
                "steps": ENDLESS,
                "save_every": ENDLESS,
            },
        }


SETUPS = {
    "small": Setup(preset="small", batch_tokens=4096, vocab_size=8000, wanted=1.4),
    "tiny": Setup(preset="tiny", batch_tokens=1152, vocab_size=4000, wanted=1.5),
}


def data(name: str, corpus: str = "multi30k") -> str:
    """A file of a corpus, in the folder that SACCADE_DATA names."""
    folder = os.environ.get("SACCADE_DATA")
    if not folder or not Path(folder, corpus, name).is_file():
        raise SystemExit(f"SACCADE_DATA must name the folder that holds {corpus}/{name}")
    return str(Path(folder, corpus, name))


def training_speed(setup: Setup, options: TrainingOptions) -> Report:
    report = Report(
        f"training-{setup.preset}",
        f"Training, `{setup.preset}`, Multi30k en-de, {setup.batch_tokens:,} target positions a "
        f"batch, {setup.vocab_size // 1000}k subwords",
        ["", "target tokens/s", "target tokens per CPU-second", "ratio to Hugging Face"],
    )
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch, "run")
        config = setup.config([data("train.en.gz"), data("train.de.gz")])
        Path(f"{run}.json").write_text(json.dumps(config))
        with competing(_specs(run, options.waits)) as found:
            turns = take_turns(found, options)
    _fill(report, setup, turns)
    return report


def _specs(run: Path, waits: Sequence[str]) -> list[Spec]:
    """Saccade comes first: it makes the tokenizer and the token store that all use."""
    cores = str(len(os.sched_getaffinity(0)))
    script = "training_worker.py"
    peers = [
        Spec(f"{title}, {cores} threads, {wait}", script, [[kind, str(run), cores]], WAITS[wait])
        for kind, title in (("marian", "Hugging Face Marian"), ("torch", "torch.nn.Transformer"))
        for wait in waits
    ]
    places = [["marian", str(run), "1", str(rank), cores, f"{run}.meet"] for rank in range(2)]
    team = Spec("Hugging Face Marian in 2 processes of 1 thread (DDP)", script, places)
    saccade = Spec("saccade", script, [["saccade", str(run), "1"]])
    return [saccade, *peers, team] if cores == "2" else [saccade, *peers]


def _fill(report: Report, setup: Setup, turns: Turns) -> None:
    wall = speeds(turns, "tokens")
    base = best(wall, "Hugging Face Marian,")
    fill(report, turns, "tokens", base)
    report.targets += [
        Target(
            "saccade to Hugging Face Marian at its best", setup.wanted,
            ratios(wall["saccade"], wall[base]).median,
        ),
        Target(
            "saccade to torch.nn.Transformer at its best", 1.0,
            ratios(wall["saccade"], wall[best(wall, "torch.nn.Transformer")]).median,
        ),
    ]  # fmt: skip
    report.notes.append(f"ratios are to {base}, the fastest thread setting of Hugging Face")
