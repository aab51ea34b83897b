"""JoeyNMT training by itself, in its own environment: joeynmt_worker.py MODEL BATCHES THREADS.

Its model, loss, optimiser and loop; only the batches are given, those that saccade trains on. So
nothing of saccade is imported here. On {"steps": N} it makes N updates and says what it did.
"""

import contextlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from competitors import Answer, die_with_parent, reply
from joeynmt.batch import Batch
from joeynmt.config import parse_train_args
from joeynmt.model import build_model
from joeynmt.training import TrainManager
from joeynmt.vocabulary import Vocabulary

# That it insists on; a schedule of epochs does nothing within the one that is trained.
UNUSED = {"validation_freq": 1_000_000_000, "batch_size": 1, "scheduling": "exponential"}
SPECIALS = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}  # its order is its numbers


def main(model: str, batches: str, threads: str) -> None:
    die_with_parent()
    torch.set_num_threads(int(threads))
    torch.manual_seed(1)
    wanted = json.loads(Path(model).read_text())
    with tempfile.TemporaryDirectory() as scratch:
        trainer = Trainer(
            rank=0,
            model=_model(wanted),
            model_dir=Path(scratch),
            device=torch.device("cpu"),
            autocast={"device_type": "cpu", "enabled": False},
            train_args=parse_train_args(wanted["training"] | UNUSED),
        )
        data = Data(Path(batches), trainer)
        answers = sys.stdout
        with contextlib.redirect_stdout(sys.stderr):  # an answer is one line, whatever is printed
            data.answers = answers
            trainer.train_and_validate(data, SimpleNamespace())


class Trainer(TrainManager):  # type: ignore[misc]
    """JoeyNMT's own, with a memory for the last loss."""

    loss = 0.0

    def _train_step(self, batch: Batch) -> tuple[float, int]:
        found: tuple[float, int] = super()._train_step(batch)
        self.loss = found[0]
        return found


class Data:
    """What its trainer takes for a data set, the loader of it and the sampler: endless batches.

    The trainer asks for a batch when it is done with the one before: there it waits for its turn.
    """

    def __init__(self, path: Path, trainer: Trainer):
        self.trainer, self.seed, self.batch_sampler = trainer, 0, self
        self.answers = sys.stdout
        with np.load(path) as arrays:
            self.arrays = {name: torch.from_numpy(arrays[name]) for name in arrays.files}

    def make_iter(self, **_: Any) -> "Data":
        return self

    def set_seed(self, seed: int) -> None:
        """Asked for before an epoch; the order is saccade's."""

    def __iter__(self) -> Iterator[Batch]:
        count, number = len(self.arrays) // 3, 0
        steps = self.turn({})
        while True:
            tokens = 0
            for _ in range(steps):
                batch = self.batch(number % count)
                tokens += int(batch.ntokens)
                yield batch
                number += 1
            steps = self.turn({"tokens": tokens, "steps": steps, "loss": self.trainer.loss})

    def turn(self, done: Answer) -> int:
        """Say what was done, and wait for the next order."""
        with contextlib.redirect_stdout(self.answers):
            reply(done)
        line = sys.stdin.readline()
        if not line:
            os._exit(0)  # without the checkpoint that the trainer would write
        return int(json.loads(line)["steps"])

    def batch(self, number: int) -> Batch:
        source, lengths, target = (
            self.arrays[f"{name}.{number}"] for name in ("source", "lengths", "target")
        )
        return Batch(
            src=source, src_length=lengths, src_prompt_mask=None, trg=target,
            trg_prompt_mask=None, indices=torch.arange(len(source)), device=torch.device("cpu"),
            pad_index=self.trainer.model.pad_index, eos_index=self.trainer.model.eos_index,
        )  # fmt: skip


def _model(wanted: dict[str, Any]) -> Any:
    size = wanted["vocab_size"]
    names = [str(number) for number in range(size - len(SPECIALS))]
    specials = {f"{name}_token": text for name, text in SPECIALS.items()}
    numbers = {f"{name}_id": number for number, name in enumerate(SPECIALS)}
    cfg = SimpleNamespace(**specials, **numbers, sep_token=None, sep_id=None, lang_tags=[])
    vocabulary = Vocabulary(names, cfg)
    assert len(vocabulary) == size
    model = build_model(wanted["model"], vocabulary, vocabulary)
    model.loss_function = ("crossentropy", wanted["training"]["label_smoothing"])
    return model


if __name__ == "__main__":
    main(*sys.argv[1:])
