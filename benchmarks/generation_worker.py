"""One process that goes on with a text: generation_worker.py ENGINE RUN, one thread, batch 1.

On {"length": N, "timed": false} it reads one character and says N more, greedily: answers with
their ids; if timed, with the CPU-seconds used up to each, which other work disturbs less, and how
much of them the attention kernel used, measured where it runs: by itself, again and again, it would
find its keys and values in a warm cache.
"""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from competitors import Answer, answer
from peers import gpt2_twin

from saccade.decoding.options import DecodeOptions
from saccade.training.model import load
from saccade.training.team import follow_parent

PROMPT = "\n"


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
        options = DecodeOptions(beam=1, length=order["length"], length_penalty=0.0)
        if order["timed"]:
            with attention_timed() as attention:
                moments = [
                    (time.process_time(), attention.seconds)
                    for _ in self.model.stream(PROMPT, options)
                ]
            return {"moments": moments}
        [found] = self.model.predict([PROMPT], options)
        return {"ids": found.ids}


class Clock:
    """Seconds so far."""

    seconds = 0.0


@contextlib.contextmanager
def attention_timed() -> Iterator[Clock]:
    """While the block runs, count the CPU-seconds of the attention kernel."""
    clock, kernel = Clock(), F.scaled_dot_product_attention

    def timed(*tensors: Any, **options: Any) -> torch.Tensor:
        begun_at = time.process_time()
        averages = kernel(*tensors, **options)
        clock.seconds += time.process_time() - begun_at
        return averages

    F.scaled_dot_product_attention = timed
    try:
        yield clock
    finally:
        F.scaled_dot_product_attention = kernel


class HuggingFace:
    """`generate` with its cache, the weights and the vocabulary saccade's."""

    def __init__(self, run: Path):
        model = load(run)
        self.tokenizer = model.task.tokenizer
        self.twin: Any = gpt2_twin(model.module)

    @torch.inference_mode()
    def __call__(self, order: Answer) -> Answer:
        prompt = torch.tensor([self.tokenizer.encode(PROMPT)])
        # What saccade never says of plain text; for the check of equal outputs, not for the clock.
        never = {} if not order.get("checked") else {"suppress_tokens": self.never()}
        watched = attention_timed() if order["timed"] else contextlib.nullcontext(Clock())
        with watched as attention:
            moments = Moments(attention)
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

    def __init__(self, attention: Clock) -> None:
        self.attention = attention
        self.found: list[tuple[float, float]] = []

    def put(self, _: Any) -> None:
        self.found.append((time.process_time(), self.attention.seconds))

    def end(self) -> None:
        """Nothing is held back."""


ENGINES: dict[str, Callable[[Path], Callable[[Answer], Answer]]] = {
    "saccade": Saccade,
    "huggingface": HuggingFace,
}


if __name__ == "__main__":
    main(*sys.argv[1:])
