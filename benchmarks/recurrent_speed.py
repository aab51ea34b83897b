"""Training speed of recurrent translation: saccade's `seq2seq` against JoeyNMT's, taking turns.

JoeyNMT knows one order, Luong's (first the cell, then attention), with either score. `saccade` is
the same function: keys and values are the encoder's own states, embeddings and output are tied.
"""

import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from competitors import WAITS, Spec, competing
from joeynmt_environment import REQUIREMENT, joeynmt_python
from report import Report, Target, ratios
from training_speed import data
from training_worker import saccade_batches
from turns import ENDLESS, TrainingOptions, Turns, best, fill, speeds, take_turns

from saccade.training.run import Run

SCORES = {"general": "luong", "additive": "bahdanau"}  # saccade's names and JoeyNMT's
PEER = "JoeyNMT"


@dataclass(frozen=True, kw_only=True, slots=True)
class RecurrentSetup:
    """A model that both have, its relatives that only saccade has, and what is to be reached."""

    name: str
    title: str
    score: str
    cell: str
    input_feeding: bool = True
    wanted: float | None = None  # None: for information
    others: dict[str, dict[str, Any]] = field(default_factory=dict)  # changes to the model, by name
    wanted_of: Sequence[str] = ("saccade",)
    dim: int = 256
    dropout: float = 0.2
    batch_tokens: int = 2048
    vocab_size: int = 8000
    smoothing: float = 0.1

    def config(self, changes: dict[str, Any]) -> dict[str, Any]:
        """What saccade trains."""
        model = {
            "name": "seq2seq", "dim": self.dim, "cell": self.cell, "score": self.score,
            "order": "luong", "input_feeding": self.input_feeding, "memory": "unchanged",
            "dropout": self.dropout,
        }  # fmt: skip
        train = [data("train.en.gz"), data("train.de.gz")]
        return {
            "task": {"name": "translate", "train": train, "vocab_size": self.vocab_size},
            "model": {**model, **changes},
            "train": {
                "batch_tokens": self.batch_tokens, "smoothing": self.smoothing,
                "steps": ENDLESS, "save_every": ENDLESS,
            },
        }  # fmt: skip

    def peer(self, vocab_size: int) -> dict[str, Any]:
        """The same for JoeyNMT, in its words."""
        side = {
            "type": "recurrent", "rnn_type": self.cell, "hidden_size": self.dim,
            "embeddings": {"embedding_dim": self.dim, "dropout": self.dropout},
        }  # fmt: skip
        looks = {
            "attention": SCORES[self.score], "input_feeding": self.input_feeding,
            "hidden_dropout": self.dropout,
        }  # fmt: skip
        return {
            "vocab_size": vocab_size,
            "model": {
                "tied_embeddings": True, "tied_softmax": True,
                "encoder": {**side, "bidirectional": True}, "decoder": {**side, **looks},
            },
            "training": {
                "optimizer": "adam", "learning_rate": 1e-4, "normalization": "tokens",
                "label_smoothing": self.smoothing, "clip_grad_norm": 1.0,
            },
        }  # fmt: skip


RECURRENT = (
    RecurrentSetup(
        name="luong", title="Luong: LSTM, general score, input feeding",
        score="general", cell="lstm", wanted=1.6,
        others={"saccade, keys and values mapped (its default)": {"memory": "shared"}},
    ),
    RecurrentSetup(
        name="bahdanau", title="Bahdanau: GRU, additive score",
        score="additive", cell="gru", wanted=1.4,
        others={"saccade, the paper's order": {"order": "bahdanau"}},
        wanted_of=("saccade", "saccade, the paper's order"),
    ),
    RecurrentSetup(
        name="unfed", title="Luong without input feeding: LSTM, general score",
        score="general", cell="lstm", input_feeding=False,
    ),
)  # fmt: skip


def recurrent_speed(setup: RecurrentSetup, options: TrainingOptions) -> Report:
    report = Report(
        f"recurrent-{setup.name}",
        f"Training, {setup.title}; hidden {setup.dim}, bidirectional encoder, Multi30k en-de, "
        f"{setup.batch_tokens:,} target positions a batch, {setup.vocab_size // 1000}k subwords",
        ["", "target tokens/s", "target tokens per CPU-second", f"ratio to {PEER}"],
    )
    python = joeynmt_python()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        with competing(_ours(setup, scratch)) as ours:  # the first makes tokenizer and store
            _give(setup, scratch, options.updates)
            with competing(_theirs(scratch, python, options.waits)) as theirs:
                turns = take_turns([*ours, *theirs], options)
    _fill(report, setup, turns)
    return report


def _ours(setup: RecurrentSetup, scratch: Path) -> list[Spec]:
    found = []
    for number, (name, changes) in enumerate({"saccade": {}, **setup.others}.items()):
        run = scratch / str(number)
        config = setup.config(changes)
        if number:
            config["task"]["tokenizer"] = str(scratch / "0")
        Path(f"{run}.json").write_text(json.dumps(config))
        found.append(Spec(name, "training_worker.py", [["saccade", str(run), "1"]]))
    return found


def _theirs(scratch: Path, python: str, waits: Sequence[str]) -> list[Spec]:
    cores = str(len(os.sched_getaffinity(0)))
    given = [str(scratch / "model.json"), str(scratch / "batches.npz")]

    def spec(threads: str, wait: str) -> Spec:
        name = f"{PEER}, {threads} threads, {wait}" if threads != "1" else f"{PEER}, 1 thread"
        return Spec(name, "joeynmt_worker.py", [[*given, threads]], WAITS[wait], python)

    return [spec("1", "default"), *(spec(cores, wait) for wait in waits if cores != "1")]


def _give(setup: RecurrentSetup, scratch: Path, count: int) -> None:
    """Write the model that JoeyNMT is to build and saccade's batches, in JoeyNMT's numbers."""
    run = Run(scratch / "0")
    settings = run.settings()
    task = settings.task_class.load(settings.task, run.path)
    tokenizer = task.target
    numbers = torch.arange(tokenizer.vocab_size)
    mine = [tokenizer.unk, tokenizer.pad, tokenizer.bos, tokenizer.eos]
    assert sorted(mine) == [0, 1, 2, 3], "only these change their places"
    numbers[mine] = torch.arange(4)
    arrays = {}
    for number, batch in enumerate(islice(saccade_batches(task, run, settings), count)):
        arrays[f"source.{number}"] = numbers[batch.source].numpy()
        arrays[f"lengths.{number}"] = batch.source_lengths.numpy()
        arrays[f"target.{number}"] = numbers[batch.target].numpy()
    np.savez(scratch / "batches.npz", **arrays)
    (scratch / "model.json").write_text(json.dumps(setup.peer(tokenizer.vocab_size)))


def _fill(report: Report, setup: RecurrentSetup, turns: Turns) -> None:
    wall = speeds(turns, "tokens")
    base = best(wall, PEER)
    fill(report, turns, "tokens", base)
    if setup.wanted is not None:
        report.targets += [
            Target(f"{name} to {PEER}", setup.wanted, ratios(wall[name], wall[base]).median)
            for name in setup.wanted_of
        ]
    report.notes.append(f"ratios are to {base}, its fastest thread setting ({REQUIREMENT})")
