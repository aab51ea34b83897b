"""One process that translates: decoding_worker.py ENGINE RUN PRECISION WORKERS [CT2-FOLDER].

On {"texts": [...], "beam": W, "batch": N, "limit": L, "forced": false} it answers with the
translations and the number of their tokens, ends included. From text to text: tokenizers count.
"""

import contextlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from competitors import Answer, answer
from peers import hugging_face, translator

from saccade.decoding.options import DecodeOptions
from saccade.training.machine import keep_memory
from saccade.training.model import load
from saccade.training.team import follow_parent

LENGTH_PENALTY = 1.0  # the same for all: it decides how long outputs are


@dataclass(frozen=True, slots=True)
class Order:
    """What to decode, and how."""

    texts: list[str]
    beam: int
    batch: int
    limit: int  # tokens of an output, its end included: the same for every sentence and engine
    forced: bool  # every output is as long as that: for models that were not trained

    @property
    def least(self) -> int:
        """Tokens before the end may come."""
        return self.limit - 1 if self.forced else 0

    def options(self) -> DecodeOptions:
        return DecodeOptions(
            beam=self.beam, max_ratio=0.0, max_extra=self.limit, min_length=self.least,
            length_penalty=LENGTH_PENALTY,
        )  # fmt: skip


class Engine(Protocol):
    """Something that translates: the texts, and how many tokens they took."""

    def __call__(self, order: Order) -> tuple[list[str], int]: ...


def main(engine: str, run: str, precision: str, workers: str, *folder: str) -> None:
    follow_parent()
    torch.set_num_threads(1)
    translate = ENGINES[engine](Path(run), precision, int(workers), *map(Path, folder))

    def work(command: Answer) -> Answer:
        if not command["texts"]:  # another process has this turn
            return {"texts": [], "tokens": 0}
        texts, tokens = translate(Order(**command))
        return {"texts": texts, "tokens": tokens}

    with contextlib.redirect_stdout(sys.stderr):  # an answer is one line, whatever a library prints
        work({"texts": ["warm", "up"], "beam": 2, "batch": 2, "limit": 9, "forced": False})
    answer(work, {})


class Saccade:
    """What a worker of `saccade predict` does."""

    def __init__(self, run: Path, precision: Any, _: int):
        keep_memory()
        self.model = load(run, precision=precision)

    def __call__(self, order: Order) -> tuple[list[str], int]:
        found, options = [], order.options()
        if order.batch == 1:
            for text in order.texts:
                found += self.model.predict([text], options)
        else:
            found = self.model.predict(order.texts, options)
        return [each.text for each in found], sum(len(each.tokens) for each in found)


class HuggingFace:
    """`generate`, in batches by length."""

    def __init__(self, run: Path, _: str, __: int):
        model = load(run)
        self.source, self.target = model.task.source, model.task.target
        ids = (self.target.pad, self.target.bos, self.target.eos)
        self.twin: Any = hugging_face(model.module, *ids)

    @torch.inference_mode()
    def __call__(self, order: Order) -> tuple[list[str], int]:
        sources = [[*ids, self.source.eos] for ids in self.source.encode_batch(order.texts)]
        texts, count = [""] * len(sources), 0
        for rows in _by_length(sources, order.batch):
            found = self._generate([sources[row] for row in rows], order)
            for row, ids in zip(rows, found, strict=True):
                count += len(ids)
                texts[row] = self.target.decode([i for i in ids if i != self.target.eos])
        return texts, count

    def _generate(self, rows: list[list[int]], order: Order) -> list[list[int]]:
        """Token ids with their end."""
        pad, size = self.source.pad, max(map(len, rows))
        padded = torch.tensor([row + [pad] * (size - len(row)) for row in rows])
        least = {"min_new_tokens": order.limit} if order.forced else {}
        found = self.twin.generate(
            input_ids=padded,
            attention_mask=(padded != pad).long(),
            num_beams=order.beam,
            do_sample=False,
            length_penalty=LENGTH_PENALTY,
            max_new_tokens=order.limit,
            **least,
        )
        return [[i for i in row if i != self.target.pad] for row in found[:, 1:].tolist()]


class CTranslate2:
    """The production engine, given the same weights and vocabulary."""

    def __init__(self, run: Path, precision: str, workers: int, folder: Path):
        task = load(run).task
        self.source, self.target = task.source, task.target
        self.names = token_names(task.target.vocab_size)
        self.engine = translator(folder, precision, workers)

    def __call__(self, order: Order) -> tuple[list[str], int]:
        encoded = self.source.encode_batch(order.texts)
        sources = [[self.names[i] for i in (*ids, self.source.eos)] for ids in encoded]
        if order.batch == 1:
            found = [self._translate([row], order)[0] for row in sources]
        else:
            found = self._translate(sources, order)
        texts = [self.target.decode(ids) for ids in found]
        return texts, sum(min(len(ids) + 1, order.limit) for ids in found)

    def _translate(self, rows: list[list[str]], order: Order) -> list[list[int]]:
        """Token ids without their end."""
        found = self.engine.translate_batch(
            rows,
            beam_size=order.beam,
            max_batch_size=order.batch,
            max_decoding_length=order.limit,
            length_penalty=LENGTH_PENALTY,
            min_decoding_length=max(1, order.least),
        )
        return [[int(name) for name in each.hypotheses[0]] for each in found]


def token_names(vocab_size: int) -> list[str]:
    """CTranslate2 knows tokens by name: their numbers will do."""
    return [str(number) for number in range(vocab_size)]


def _by_length(sources: Sequence[Sequence[int]], size: int) -> list[list[int]]:
    order = sorted(range(len(sources)), key=lambda row: len(sources[row]))
    return [order[start : start + size] for start in range(0, len(order), size)]


ENGINES: dict[str, Callable[..., Engine]] = {
    "saccade": Saccade,
    "huggingface": HuggingFace,
    "ctranslate2": CTranslate2,
}


if __name__ == "__main__":
    main(*sys.argv[1:])
