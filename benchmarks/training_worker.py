"""One competitor in training: training_worker.py KIND RUN THREADS [RANK SIZE MEETING-POINT].

`saccade` trains the run by saccade's own trainer, as a user would; the peers are trained by a plain
loop over the same batches. On {"steps": N} it makes N updates and answers with what it did.
"""

import itertools
import json
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from competitors import Answer, answer, reply
from peers import TorchTransformer, gpt2, marian
from torch import Tensor, nn

from saccade.training.run import Run
from saccade.training.start import Start, train_run
from saccade.training.team import follow_parent
from saccade.training.trainer import Events


@dataclass(frozen=True, slots=True)
class Kind:
    """How to make a peer and what to show it: (model, batch, rows, ignored) to logits and gold."""

    make: Callable[[Any, Any], nn.Module]
    predict: Callable[[nn.Module, Any, slice, int], tuple[Tensor, Tensor]]
    ignored: Callable[[Any], int]  # the token of a task that is never predicted


def main(kind: str, run: str, threads: str, *place: str) -> None:
    follow_parent()  # a stopped process would outlive a killed benchmark
    if kind == "saccade":
        Saccade().train(Path(run))
        return
    warnings.filterwarnings("ignore", "enable_nested_tensor")  # of torch.nn.Transformer, pre-norm
    torch.set_num_threads(int(threads))
    peer = Peer.of(kind, Run(Path(run)), *place)
    answer(peer.work, {})


class Saccade:
    """The real trainer, held up after every turn by the one event it offers."""

    def __init__(self) -> None:
        self.left = 0
        self.done: Answer = {}

    def train(self, folder: Path) -> None:
        """Make the run that FOLDER.json describes, and train it for as long as somebody asks."""
        config = json.loads(Path(f"{folder}.json").read_text())
        events = Events(start=self.start, update=self.update)
        train_run(config, folder, Start(), events)

    def start(self, trainer: Any) -> None:
        reply({"epoch": len(trainer.crew.order), "processes": trainer.config.processes})
        self.await_turn()

    def update(self, _: Any, update: Any) -> None:
        self.done["tokens"] += update.count
        self.done["steps"] += 1
        self.done["loss"] = update.losses["loss"]
        self.left -= 1
        if not self.left:
            reply(self.done)
            self.await_turn()

    def await_turn(self) -> None:
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        self.left, self.done = json.loads(line)["steps"], {"tokens": 0, "steps": 0}


@dataclass(slots=True)
class Peer:
    """A peer's model in a plain training loop: smoothed cross-entropy, clipping, fused AdamW."""

    kind: Kind
    ignored: int
    batches: Iterator[Any]
    model: nn.Module
    optimizer: torch.optim.Optimizer
    smoothing: float
    clip: float
    rank: int = 0
    size: int = 1

    @classmethod
    def of(cls, kind: str, run: Run, rank: str = "0", size: str = "1", meeting: str = "") -> "Peer":
        settings = run.settings()
        task = settings.task_class.load(settings.task, run.path)
        torch.manual_seed(settings.train.seed)
        made = PEERS[kind]
        model = made.make(settings.model_config(task.model_fields()), task).train()
        if meeting:
            dist.init_process_group(
                "gloo", init_method=f"file://{meeting}", rank=int(rank), world_size=int(size)
            )
            model = nn.parallel.DistributedDataParallel(model)
        train = settings.train
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=1e-4, betas=(0.9, 0.98), weight_decay=0.0, fused=True
        )
        batches = saccade_batches(task, run, settings)
        return cls(
            made, made.ignored(task), batches, model, optimizer, train.smoothing, train.clip,
            int(rank), int(size),
        )  # fmt: skip

    def work(self, command: Answer) -> Answer:
        tokens, steps, loss = 0, command["steps"], 0.0
        for batch in itertools.islice(self.batches, steps):
            count, loss = self.update(batch)
            tokens += count
        if self.rank:  # every process of a team sees whole batches: the first one tells
            tokens = steps = 0
        return {"tokens": tokens, "steps": steps, "loss": loss}

    def update(self, batch: Any) -> tuple[int, float]:
        count = batch.counts["loss"]
        mine = slice(self.rank, None, self.size)
        logits, gold = self.kind.predict(self.model, batch, mine, self.ignored)
        total = F.cross_entropy(
            logits.flatten(0, 1), gold.flatten(), ignore_index=self.ignored, reduction="sum",
            label_smoothing=self.smoothing,
        )  # fmt: skip
        loss = total * (self.size / count)  # a team's gradients are averaged over its members
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return count, loss.item()


def saccade_batches(task: Any, run: Run, settings: Any) -> Iterator[Any]:
    """The very batches that saccade trains on, in its order."""
    store = task.store(run.tokens, lambda _: None)
    order = task.order(store, settings.train.batch_tokens, settings.train.seed)
    for step in itertools.count():
        yield task.collate(store, order.at(step)[2])


def _make_marian(config: Any, task: Any) -> nn.Module:
    return marian(config, task.target.pad, task.target.bos, task.target.eos)


def _make_torch(config: Any, task: Any) -> nn.Module:
    return TorchTransformer(config, task.target.pad)


def _make_gpt2(config: Any, _: Any) -> nn.Module:
    return gpt2(config)


def _marian_predict(model: nn.Module, batch: Any, rows: slice, pad: int) -> tuple[Tensor, Tensor]:
    source, target = batch.source[rows], batch.target[rows]
    found = model(
        input_ids=source,
        attention_mask=(source != pad).long(),
        decoder_input_ids=target[:, :-1],
        use_cache=False,
    )
    return found.logits, target[:, 1:]


def _torch_predict(model: nn.Module, batch: Any, rows: slice, _: int) -> tuple[Tensor, Tensor]:
    target = batch.target[rows]
    return model(batch.source[rows], target[:, :-1]), target[:, 1:]


def _gpt2_predict(model: nn.Module, batch: Any, rows: slice, _: int) -> tuple[Tensor, Tensor]:
    return model(input_ids=batch.tokens[rows], use_cache=False).logits, batch.gold[rows]


def _padding(task: Any) -> int:
    return int(task.target.pad)


def _silent(task: Any) -> int:
    return int(task.silent)


PEERS = {
    "marian": Kind(_make_marian, _marian_predict, _padding),
    "torch": Kind(_make_torch, _torch_predict, _padding),
    "gpt2": Kind(_make_gpt2, _gpt2_predict, _silent),
}


if __name__ == "__main__":
    main(*sys.argv[1:])
