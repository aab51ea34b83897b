"""One process that goes on with a text: generation_worker.py ENGINE RUN, one thread, batch 1.

On {"length": N, "timed": false} it reads one character and says N more, greedily: answers with
their ids; if timed, with the CPU-seconds used up to each, which other work disturbs less. On
{"attention": [L, ...]} saccade's answers with the CPU-seconds that a token's attention alone takes
when so many are in the cache.
"""

import contextlib
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from competitors import Answer, answer
from peers import gpt2_twin

from saccade.decoding.options import DecodeOptions
from saccade.training.model import load
from saccade.training.team import follow_parent

PROMPT = "\n"
REPEATS = 200  # of a measurement that takes microseconds


def main(engine: str, run: str) -> None:
    follow_parent()
    torch.set_num_threads(1)
    made = ENGINES[engine](Path(run))
    with contextlib.redirect_stdout(sys.stderr):  # an answer is one line, whatever a library prints
        made({"length": 9, "timed": True})
    answer(made, {})


class Saccade:
    """`saccade.load(run)`, as a user calls it."""

    def __init__(self, run: Path):
        self.model = load(run)

    def __call__(self, order: Answer) -> Answer:
        if "attention" in order:
            return {"seconds": [self.attention(length) for length in order["attention"]]}
        options = DecodeOptions(beam=1, length=order["length"], length_penalty=0.0)
        if order["timed"]:
            moments = [time.process_time() for _ in self.model.stream(PROMPT, options)]
            return {"moments": moments}
        [found] = self.model.predict([PROMPT], options)
        return {"ids": found.ids}

    @torch.inference_mode()
    def attention(self, length: int) -> float:
        """Seconds that the attention of all layers takes for one token, the fastest of a few."""
        layers: Any = self.model.module.layers
        heads = self.model.module.config.heads
        width = self.model.module.config.dim // heads
        keys, values = torch.randn(2, len(layers), 1, heads, length, width)
        query = torch.randn(1, heads, 1, width)
        taken = []
        for _ in range(REPEATS):
            begun_at = time.process_time()
            for layer, k, v in zip(layers, keys, values, strict=True):
                layer.attention.context(query, k, v)
            taken.append(time.process_time() - begun_at)
        return sorted(taken)[REPEATS // 2]


class HuggingFace:
    """`generate` with its cache, the weights and the vocabulary saccade's."""

    def __init__(self, run: Path):
        model = load(run)
        self.tokenizer = model.task.tokenizer
        self.twin: Any = gpt2_twin(model.module)

    @torch.inference_mode()
    def __call__(self, order: Answer) -> Answer:
        prompt = torch.tensor([self.tokenizer.encode(PROMPT)])
        moments = Moments()
        # What saccade never says of plain text; for the check of equal outputs, not for the clock.
        never = {} if not order.get("checked") else {"suppress_tokens": self.never()}
        found = self.twin.generate(
            input_ids=prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=False,
            max_new_tokens=order["length"],
            use_cache=True,
            streamer=moments if order["timed"] else None,
            **never,
        )
        if order["timed"]:
            return {"moments": moments.found[1:]}  # the first is the prompt's
        return {"ids": found[0, prompt.shape[1] :].tolist()}

    def never(self) -> list[int]:
        names = ("pad", "bos", "eos", "unk")
        return sorted({getattr(self.tokenizer, name) for name in names})


class Moments:
    """A streamer, in Hugging Face's words, that only looks at the clock."""

    def __init__(self) -> None:
        self.found: list[float] = []

    def put(self, _: Any) -> None:
        self.found.append(time.process_time())

    def end(self) -> None:
        """Nothing is held back."""


ENGINES: dict[str, Callable[[Path], Callable[[Answer], Answer]]] = {
    "saccade": Saccade,
    "huggingface": HuggingFace,
}


if __name__ == "__main__":
    main(*sys.argv[1:])
