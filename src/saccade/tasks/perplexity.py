"""How well a language model predicts a text: all of it, each token once, in one defined way.

A text is read in contexts that lie side by side, or overlap (`stride`), with nothing before the
first token they hold; or from begin to end with a state that is carried. Each is measured in
units of the same rows, whatever the number of workers, so the result is the same too.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.data.documents import Passage
from saccade.data.streams import framed
from saccade.data.tokenizers import Tokenizer
from saccade.errors import InputError
from saccade.models.contract import learns_by_counting
from saccade.tasks.metrics import Metric
from saccade.tasks.task import Evaluation, Plain
from saccade.version import __version__

TOKENS = 4096  # of a unit of contexts
CARRIED_ROWS, CARRIED_TOKENS = 32, 1 << 16  # of a unit of whole texts
LOGITS = 1 << 20  # held at a time


@dataclass(frozen=True, slots=True)
class Reading:
    """How a text is read."""

    context: int  # tokens at a time
    stride: int  # tokens from one context to the next
    carry: bool  # a state goes on from context to context, and they lie side by side
    memory: int | None = None  # tokens that a carried state holds; None: it is not counted in any

    def __str__(self) -> str:
        moved = "carried:yes" if self.carry else f"stride:{self.stride}|carried:no"
        held = f"|memory:{self.memory}" if self.carry and self.memory is not None else ""
        return f"context:{self.context}|{moved}{held}"


@dataclass(frozen=True, slots=True)
class Row:
    """Tokens read in one go, of which the last `scored` count, and what passages those are of."""

    ids: list[int]
    passages: list[tuple[int, int]]  # number, tokens

    @property
    def scored(self) -> int:
        return sum(count for _, count in self.passages)


def units(
    passages: Sequence[Passage], tokenizer: Tokenizer, reading: Reading, *, ends: bool
) -> list[Plain]:
    """The work: rows by the number of their tokens, some together."""
    found = tokenizer.encode_batch([passage.text for passage in passages])
    texts = _texts(passages, found, tokenizer, ends=ends)
    rows = [row for text in texts for row in _rows(text, reading)]
    if not rows:
        raise InputError("the text has no token to score: the tokenizer leaves all of it out")
    most = CARRIED_TOKENS if reading.carry else TOKENS
    parts: list[list[Row]] = []
    for row in sorted(rows, key=lambda row: -len(row.ids)):
        room = most // len(parts[-1][0].ids) if parts else 0
        if not parts or len(parts[-1]) >= (min(room, CARRIED_ROWS) if reading.carry else room):
            parts.append([])
        parts[-1].append(row)
    # Here, where they are encoded once: scores are taken many times while a model is trained.
    pairs = zip(found, passages, strict=True)
    exact = all(tokenizer.decode(ids) == passage.text for ids, passage in pairs)
    return [{"rows": [[row.ids, row.passages] for row in part], "exact": exact} for part in parts]


def _texts(
    passages: Sequence[Passage], found: list[list[int]], tokenizer: Tokenizer, *, ends: bool
) -> Iterator[tuple[list[int], list[tuple[int, int]]]]:
    """The tokens of each text, and how many of them, the begin aside, each passage has."""
    ids: list[int] = []
    owners: list[tuple[int, int]] = []
    for number, (passage, those) in enumerate(zip(passages, found, strict=True)):
        row = framed(passage, those, tokenizer, ends=ends)
        ids += row
        owners.append((number, len(row) - passage.first))
        if passage.last:
            yield ids, owners
            ids, owners = [], []
    if owners:  # a text of which only the beginning is asked about
        yield ids, owners


def _rows(text: tuple[list[int], list[tuple[int, int]]], reading: Reading) -> Iterator[Row]:
    """The contexts of a text; whole if a state is carried. A shorter last one counts like any."""
    ids, owners = text
    if len(ids) < 2:  # the begin alone
        return
    if reading.carry:
        yield Row(ids, [each for each in owners if each[1]])
        return
    left = [[number, count] for number, count in owners]
    begin, end = 1, 1  # of the tokens to score
    while end < len(ids):
        begin, end = end, min(end + (reading.stride if end > 1 else reading.context), len(ids))
        mine, wanted = [], end - begin
        while wanted:
            number, there = left[0]
            taken = min(there, wanted)
            if taken:
                mine.append((number, taken))
            wanted -= taken
            left[0][1] -= taken
            if not left[0][1]:
                left.pop(0)
        # Side by side they share nothing, a short last one too; sliding, each looks back fully.
        sliding = reading.stride < reading.context
        yield Row(ids[max(0, end - 1 - reading.context) if sliding else begin - 1 : end], mine)


@torch.no_grad()
def measure(model: Any, unit: Plain, reading: Reading, unknown: int) -> Plain:
    """Nats by passage, from the rows of a unit: [passage, nats, tokens, of them unknown].

    And the memory of the model, which may be another than in training, and whether the tokens hold
    all of the text.
    """
    measures = []
    for row, values in _read(model, unit, reading):
        place = len(row.ids) - row.scored
        for number, count in row.passages:
            total = float(values[place - 1 : place + count - 1].sum())
            strange = sum(each == unknown for each in row.ids[place : place + count])
            measures.append([number, total if math.isfinite(total) else None, count, strange])
            place += count
    memory = getattr(model, "memory", None)
    return {"memory": memory, "exact": unit["exact"], "passages": measures}


@torch.no_grad()
def by_place(
    model: Any, units: Sequence[Plain], reading: Reading
) -> tuple[Float[Tensor, " T"], Int[Tensor, " T"]]:
    """Nats and tokens by place in the context: at the first, only what is carried is known."""
    nats = torch.zeros(reading.context, dtype=torch.float64)
    tokens = torch.zeros(reading.context, dtype=torch.long)
    for unit in units:
        for row, values in _read(model, unit, reading):
            scored = torch.arange(len(row.ids) - row.scored, len(row.ids)) - 1
            places = scored % reading.context
            nats.index_add_(0, places, values[scored])
            tokens += places.bincount(minlength=reading.context)
    return nats, tokens


def _read(model: Any, unit: Plain, reading: Reading) -> list[tuple[Row, Float[Tensor, " T"]]]:
    """The rows of a unit, each with the nats of all its tokens but the first."""
    rows = [Row(ids, [(number, count) for number, count in owners]) for ids, owners in unit["rows"]]
    device = next((tensor.device for tensor in model.state_dict().values()), None)
    size = max(len(row.ids) for row in rows)
    tokens = torch.tensor([row.ids + [0] * (size - len(row.ids)) for row in rows], device=device)
    found = []
    carry = None
    for start in range(0, size - 1, reading.context):
        stop = min(start + reading.context, size - 1)
        hidden, carry = model(tokens[:, start:stop], carry)
        found.append(_nats(model, hidden, tokens[:, start + 1 : stop + 1]))
    return list(zip(rows, torch.cat(found, dim=1).cpu(), strict=True))


def _nats(
    model: Any, hidden: Float[Tensor, "B T D"], gold: Int[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    """-log p of each gold token, in double precision, some logits at a time."""
    counted = learns_by_counting(model)  # gives log-probabilities, -inf where nothing follows
    flat, wanted = hidden.flatten(0, 1), gold.flatten().unsqueeze(1)
    found = []
    height = max(1, LOGITS // model.config.vocab_size)
    for start in range(0, len(flat), height):
        logits = model.logits(flat[start : start + height]).double()
        log_probs = logits if counted else logits.log_softmax(-1)
        found.append(-log_probs.gather(1, wanted[start : start + height]).squeeze(1))
    return torch.cat(found).view_as(gold)


def score(passages: Sequence[Passage], measures: Sequence[Plain], reading: Reading) -> Evaluation:
    """Loss a token, perplexity a word, bits a character; and the same by passage."""
    nats, tokens, unknown = ([0.0] * len(passages), [0] * len(passages), 0)
    for unit in measures:
        for number, total, count, strange in unit["passages"]:
            nats[number] += math.inf if total is None else total
            tokens[number] += count
            unknown += strange
    counts = {
        "tokens": sum(tokens),
        "words": sum(len(passage.text.split()) for passage in passages),
        "characters": sum(len(passage.text) for passage in passages),
    }
    exact = not unknown and all(unit["exact"] for unit in measures)
    (memory,) = {unit["memory"] for unit in measures}
    read = replace(reading, memory=memory)
    how = f"{read}|version:{__version__}" if exact else f"{read}|lossy|version:{__version__}"
    # fsum: the same whatever the order.
    metrics = language_metrics(math.fsum(nats), counts, how)
    examples = [
        {
            "text": passage.text, "tokens": count, "words": len(passage.text.split()),
            "characters": len(passage.text), "nats": total if math.isfinite(total) else None,
        }
        for passage, total, count in zip(passages, nats, tokens, strict=True)
    ]  # fmt: skip
    return Evaluation(metrics, examples, {**counts, "unknown tokens": unknown})


def language_metrics(nats: float, counts: dict[str, int], how: str) -> list[Metric]:
    """All of the nats, by so many tokens, words (what white space parts) and characters."""
    by = {unit: nats / max(1, count) for unit, count in counts.items()}
    perplexity = math.exp(by["words"]) if by["words"] < 700 else math.inf
    found = {
        "loss": (by["tokens"], f"unit:nats/token|tokens:{counts['tokens']}"),
        "perplexity per word": (perplexity, f"unit:word|words:{counts['words']}|parted:whitespace"),
        "bits per character": (
            by["characters"] / math.log(2),
            f"unit:bits/character|characters:{counts['characters']}",
        ),
    }
    return [Metric(n, value, f"{unit}|{how}", "smaller") for n, (value, unit) in found.items()]
