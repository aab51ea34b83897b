"""What a translation looked at: attention as a map of words, and as hard links between them."""

import shutil
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.blocks.recording import check_head
from saccade.errors import InputError, nearest
from saccade.inspection.page import Shown, attention_page, notebook_frame
from saccade.inspection.pictures import check_picture_path, head_grid, heat_map, save_figure
from saccade.inspection.terminal import NARROWEST, draw_map
from saccade.inspection.word_pictures import token_lines

if TYPE_CHECKING:
    import matplotlib.figure

Link = tuple[int, int]  # a word of the source, a word of the target, counted from 0
PAGES = (".html", ".htm")
Span = tuple[int, int]  # characters from, to; an empty span (a special token) lies in no word


@dataclass(frozen=True, slots=True)
class AttentionMap:
    """The attention of one sentence by layer, in the order of the layers, with its tokens."""

    weights: dict[str, Float[Tensor, "H T S"]]
    source: list[str]  # the keys
    target: list[str]  # the queries
    kind: str = "cross"
    others: tuple["AttentionMap", ...] = ()  # of the same sentence: encoder, decoder

    def __post_init__(self) -> None:
        shape = (len(self.target), len(self.source))
        for layer, weights in self.weights.items():
            if weights.shape[1:] != shape:
                raise InputError(
                    f"attention of layer {layer!r} is (heads, target, source) "
                    f"{tuple(weights.shape)}, but there are {shape[0]} target and {shape[1]} "
                    "source tokens"
                )

    def average(self, layer: str | None = None) -> Float[Tensor, "T S"]:
        """The mean over the heads of a layer, by default the last."""
        return self._layer(layer).mean(dim=0)

    def matrix(self, layer: str | None = None, head: int | None = None) -> Float[Tensor, "T S"]:
        """One head of a layer, or without a head the average of all."""
        if head is None:
            return self.average(layer)
        weights = self._layer(layer)
        check_head(head, len(weights))
        return weights[head]

    def every(self) -> dict[str, "AttentionMap"]:
        """The attention of all kinds that were recorded, this one first."""
        return {each.kind: each for each in (self, *self.others)}

    def holding(self, layer: str | None) -> "AttentionMap":
        """The map of that layer among all that were recorded; without a name this one."""
        if layer is None or layer in self.weights:
            return self
        known = {name: each for each in self.others for name in each.weights}
        if layer not in known:
            names = [*self.weights, *known]
            raise InputError(f"no attention layer {layer!r}; {nearest(layer, names)}")
        return known[layer]

    def plot(self, layer: str | None = None, head: int | None = None) -> "matplotlib.figure.Figure":
        """The alignment heat map."""
        seen = self.holding(layer)
        return heat_map(seen.matrix(layer, head), seen.source, seen.target)

    def lines(
        self, layer: str | None = None, head: int | None = None, word: int | None = None
    ) -> "matplotlib.figure.Figure":
        """Lines between the tokens; with `word` those of one target token stand out."""
        seen = self.holding(layer)
        return token_lines(seen.matrix(layer, head), seen.source, seen.target, word=word)

    def grid(self) -> "matplotlib.figure.Figure":
        """All layers and heads at a glance."""
        return head_grid(self.weights)

    def save(self, path: str | Path, layer: str | None = None, head: int | None = None) -> Path:
        """Write a picture (PNG, SVG) or a page to explore (HTML, one file), by the suffix."""
        path = Path(path)
        check_picture_path(path, PAGES)
        if path.suffix.lower() not in PAGES:
            return save_figure(self.plot(layer, head), path)
        path.write_text(self.page(layer, head), encoding="utf-8")
        return path

    def page(self, layer: str | None = None, head: int | None = None) -> str:
        """The page to explore, with all that was recorded; it opens at this layer and head."""
        seen = self.holding(layer)
        seen.matrix(layer, head)  # says what is wrong with them
        name = list(seen.weights)[-1] if layer is None else layer
        return attention_page(self.every(), Shown(seen.kind, name, head))

    def text(
        self, width: int | None = None, layer: str | None = None, head: int | None = None
    ) -> str:
        """A drawing for the terminal, at most `width` columns wide (by default the terminal's)."""
        width = max(shutil.get_terminal_size().columns, NARROWEST) if width is None else width
        if width < NARROWEST:
            raise InputError(f"width {width} is too narrow to draw in: at least {NARROWEST}")
        seen = self.holding(layer)
        return draw_map(seen.matrix(layer, head).tolist(), seen.source, seen.target, width)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return notebook_frame(self.page(), len(self.target)) if self.weights else "no attention"

    def _layer(self, name: str | None) -> Float[Tensor, "H T S"]:
        weights = self.holding(name).weights
        if not weights:
            raise InputError("no attention was recorded for this sentence")
        name = list(weights)[-1] if name is None else name
        return weights[name].detach().to("cpu", torch.float32)


def word_weights(
    weights: Float[Tensor, "T S"],
    source_spans: Sequence[Span],
    target_spans: Sequence[Span],
    source_words: Sequence[Span],
    target_words: Sequence[Span],
    steps_late: int = 0,
) -> Float[Tensor, "T_words S_words"]:
    """Weights between pieces as weights between words: sum over source, mean over target pieces.

    `steps_late` is how many rows after its own a target token's attention is found: 0 where the
    token is predicted, 1 where it is read (Chen et al. 2020). Rows behind the last token (the end
    of the sentence) are allowed; a token without a row says nothing about its word.
    """
    rows, columns = weights.shape
    if rows < len(target_spans) or columns != len(source_spans) or steps_late < 0:
        raise InputError(
            f"weights of {rows} rows and {columns} columns do not fit {len(target_spans)} target "
            f"and {len(source_spans)} source pieces, {steps_late} steps late"
        )
    recorded = weights[steps_late : steps_late + len(target_spans)].float().cpu()
    to_source = _shares(source_spans, source_words)  # (S, S_words)
    to_target = _shares(target_spans, target_words)[: len(recorded)]  # (T, T_words)
    pieces = to_target.sum(dim=0).clamp_min(torch.finfo(torch.float32).tiny)
    return (to_target / pieces).mT @ recorded @ to_source


def alignment_error_rate(
    predicted: Sequence[Collection[Link]],
    sure: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]] | None = None,
) -> float:
    """AER (Och & Ney 2003) of a corpus: 1 - (|A & S| + |A & P|) / (|A| + |S|), S within P."""
    possible = sure if possible is None else possible
    if not len(predicted) == len(sure) == len(possible):
        raise InputError(
            f"alignments of {len(predicted):,} sentences, gold of {len(sure):,} (sure) and "
            f"{len(possible):,} (possible): each sentence needs its own gold links"
        )
    hits = total = 0
    for a, s, p in zip(map(set, predicted), map(set, sure), map(set, possible), strict=True):
        hits += len(a & s) + len(a & (p | s))
        total += len(a) + len(s)
    if not total:
        raise InputError("no links to score: neither the alignment nor the gold has any")
    return 1 - hits / total


def pharaoh(links: Iterable[Link]) -> str:
    """Links as a line such as "0-0 1-2": source-target, counted from 0, in order."""
    return " ".join(f"{source}-{target}" for source, target in sorted(set(links)))


def _shares(pieces: Sequence[Span], words: Sequence[Span]) -> Float[Tensor, "N W"]:
    """How much of each piece lies in each word; a piece over two words is split by characters."""
    overlap = [
        [max(0, min(end, last) - max(start, first)) for first, last in words]
        for start, end in pieces
    ]
    shares = torch.tensor(overlap, dtype=torch.float32).view(len(pieces), len(words))
    return shares / shares.sum(dim=1, keepdim=True).clamp_min(1.0)
