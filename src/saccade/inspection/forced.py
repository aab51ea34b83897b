"""What a model looks at while it is told what to say: attention along given translations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.blocks.recording import record_attention
from saccade.blocks.sequences import Padded
from saccade.data.batches import by_length
from saccade.errors import InputError, nearest
from saccade.inspection.alignment import Link, Span, word_weights
from saccade.inspection.alignment_error import LINKERS, MEAN, STEPS_LATE, Gold, Reading


@dataclass(frozen=True, slots=True)
class Told:
    """A pair of texts as tokens, the source with its end, and the characters of each."""

    source: list[int]
    target: list[int]
    source_spans: list[Span]
    target_spans: list[Span]


@dataclass(frozen=True, slots=True)
class Forced:
    """The attention of a pair by layer, heads averaged: row t is of the step that predicts token t.

    There is a row more than target tokens: the step that has read the last, and predicts the end.
    """

    told: Told
    layers: dict[str, Float[Tensor, "T S"]]

    def words(
        self, source: Sequence[Span], target: Sequence[Span], reading: Reading
    ) -> Float[Tensor, "T_words S_words"]:
        """The weights between words: source pieces are summed, target pieces averaged."""
        names = list(self.layers) if reading.layer == MEAN else [reading.layer]
        weights = torch.stack([self.layers[name] for name in names]).mean(dim=0)
        spans = (self.told.source_spans, self.told.target_spans, source, target)
        return word_weights(weights, *spans, steps_late=STEPS_LATE[reading.step])


@dataclass(frozen=True, slots=True)
class Alignable:
    """Pairs of texts with gold links, and where the words that the links count stand in them."""

    pairs: list[tuple[str, str]]
    gold: list[Gold]
    words: list[tuple[list[Span], list[Span]]]

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]], gold: Sequence[Gold], file: str) -> "Alignable":
        """Checked: each pair has its links, each link its words; `file` is named if not."""
        if len(gold) != len(pairs):
            raise InputError(
                f"{file} has links for {len(gold):,} pairs, but there are {len(pairs):,} (without "
                "those with a blank side): line n of one belongs to line n of the other"
            )
        words = []
        for number, (pair, links) in enumerate(zip(pairs, gold, strict=True), start=1):
            try:
                words.append(links.spans(*pair))
            except InputError as error:
                raise InputError(f"{file}, line {number}: {error}") from None
        if not any(links.possible for links in gold):
            raise InputError(f"{file}: no links to score, every line is empty")
        return cls(list(pairs), list(gold), words)


def check_reading(model: Any, reading: Reading) -> None:
    """Refuse a layer that the model does not have, before any work is done."""
    layers = getattr(model, "alignment_layers", [])  # a model that reads one text has none
    if not layers:
        raise InputError("this model has no attention from target to source: nothing is aligned")
    known = [MEAN, *layers]
    if reading.layer not in known:
        raise InputError(f"no attention layer {reading.layer!r}; {nearest(reading.layer, known)}")


def align(task: Any, model: Any, texts: Alignable, reading: Reading) -> list[set[Link]]:
    """The links of each source with its given target, between the words that the gold counts."""
    check_reading(model, reading)
    found: list[set[Link]] = [set()] * len(texts.pairs)
    for place, forced in forced_attention(task, model, texts.pairs):
        found[place] = LINKERS[reading.links](forced.words(*texts.words[place], reading))
    return found


def forced_attention(
    task: Any, model: Any, pairs: Sequence[tuple[str, str]]
) -> Iterator[tuple[int, Forced]]:
    """Each pair's place with its attention, longest first: the decoder reads the given target."""
    told = [_told(task, source, target) for source, target in pairs]
    for number, each in enumerate(told, start=1):
        longest = max(len(each.source), len(each.target) + 1)
        if model.limit is not None and longest > model.limit:
            raise InputError(
                f"pair {number} has {longest} tokens on one side, and this model reads at most "
                f"{model.limit}: it cannot be aligned"
            )
    for rows in by_length([len(each.target) for each in told]):
        yield from zip(rows, _forced(task, model, [told[row] for row in rows]), strict=True)


def _told(task: Any, source: str, target: str) -> Told:
    reader, writer = task.source, task.target
    ids = [*reader.encode(source), reader.eos]
    return Told(ids, writer.encode(target), [*reader.spans(source), (0, 0)], writer.spans(target))


@torch.inference_mode()
def _forced(task: Any, model: Any, pairs: list[Told]) -> list[Forced]:
    device = next(model.parameters()).device
    state = model.start(Padded.of([pair.source for pair in pairs], task.source.pad, device))
    said = [[task.target.bos, *pair.target] for pair in pairs]
    told = Padded.of(said, task.target.pad, device).tokens
    with record_attention(model, model.alignment_layers) as seen:
        for tokens in told.unbind(dim=1):
            _, state = model.step(tokens, state)
    found = []
    for row, pair in enumerate(pairs):
        steps, columns = len(pair.target) + 1, len(pair.source)
        layers = {
            name: torch.cat([call[row] for call in calls[:steps]], dim=1).mean(dim=0)[:, :columns]
            for name, calls in seen.items()
        }
        found.append(Forced(pair, layers))
    return found
