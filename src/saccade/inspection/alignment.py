"""What a translation looked at: attention as a map of words, and as hard links between them."""

import html
import shutil
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.errors import InputError, nearest
from saccade.inspection.paper import visible
from saccade.inspection.pictures import check_picture_path, heat_map, save_figure

if TYPE_CHECKING:
    import matplotlib.figure

Link = tuple[int, int]  # a word of the source, a word of the target, counted from 0
Span = tuple[int, int]  # characters from, to; an empty span (a special token) lies in no word

SHADES = {0.6: "█", 0.4: "▓", 0.2: "▒", 0.05: "░"}  # from this weight on, the darkest that fits
SKIN_TONES = "🏻🏼🏽🏾🏿"  # they colour the emoji before them
MARKS = ("Mn", "Me", "Mc")  # Unicode categories of what is drawn onto the letter before
NARROWEST = 16  # columns of a terminal


@dataclass(frozen=True, slots=True)
class AttentionMap:
    """The attention of one sentence by layer, in the order of the layers, with its tokens."""

    weights: dict[str, Float[Tensor, "H T S"]]
    source: list[str]
    target: list[str]

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
        if not 0 <= head < len(weights):
            raise InputError(f"no head {head}: this layer has heads 0 to {len(weights) - 1}")
        return weights[head]

    def plot(self, layer: str | None = None, head: int | None = None) -> "matplotlib.figure.Figure":
        return heat_map(self.matrix(layer, head), self.source, self.target)

    def save(self, path: str | Path, layer: str | None = None, head: int | None = None) -> Path:
        """Draw into a PNG or SVG file, by its suffix."""
        check_picture_path(path)
        return save_figure(self.plot(layer, head), path)

    def text(
        self, width: int | None = None, layer: str | None = None, head: int | None = None
    ) -> str:
        """A drawing for the terminal, at most `width` columns wide (by default the terminal's)."""
        width = max(shutil.get_terminal_size().columns, NARROWEST) if width is None else width
        if width < NARROWEST:
            raise InputError(f"width {width} is too narrow to draw in: at least {NARROWEST}")
        return _draw(self.matrix(layer, head).tolist(), self.source, self.target, width)

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return _table(self.matrix().tolist(), self.source, self.target)

    def _layer(self, name: str | None) -> Float[Tensor, "H T S"]:
        if not self.weights:
            raise InputError("no attention was recorded for this sentence")
        name = list(self.weights)[-1] if name is None else name
        if name not in self.weights:
            raise InputError(f"no attention layer {name!r}; {nearest(name, self.weights)}")
        return self.weights[name].detach().to("cpu", torch.float32)


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


def align_words(
    weights: Float[Tensor, "T S"],
    source_spans: Sequence[Span],
    target_spans: Sequence[Span],
    source_word_spans: Sequence[Span],
    target_word_spans: Sequence[Span],
    steps_late: int = 0,
) -> list[Link]:
    """Link each target word to the source word it looks at most (see `word_weights`)."""
    spans = (source_spans, target_spans, source_word_spans, target_word_spans)
    merged = word_weights(weights, *spans, steps_late=steps_late)
    if not merged.numel():
        return []
    best, source = merged.max(dim=1)
    looked = (best > 0).tolist()  # a word that looks nowhere has no link
    return [(s, t) for t, s in enumerate(source.tolist()) if looked[t]]


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


def parse_pharaoh(line: str) -> list[Link]:
    """The links of a line such as "0-0 1-2"."""
    links = []
    for word in line.split():
        source, dash, target = word.partition("-")
        if not (dash and _is_count(source) and _is_count(target)):
            raise InputError(f"not a link: {word!r}; expected source-target, such as 0-0 or 3-12")
        links.append((int(source), int(target)))
    return links


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdigit()


def _shares(pieces: Sequence[Span], words: Sequence[Span]) -> Float[Tensor, "N W"]:
    """How much of each piece lies in each word; a piece over two words is split by characters."""
    overlap = [
        [max(0, min(end, last) - max(start, first)) for first, last in words]
        for start, end in pieces
    ]
    shares = torch.tensor(overlap, dtype=torch.float32).view(len(pieces), len(words))
    return shares / shares.sum(dim=1, keepdim=True).clamp_min(1.0)


def _draw(weights: list[list[float]], source: list[str], target: list[str], width: int) -> str:
    """Source tokens upright on top, a row of shades for each target token, what the shades mean."""
    labels = [_clusters(token) for token in target]
    room = min(max((_width(label) for label in labels), default=0), width // 3)
    columns = [_fit(_clusters(token), 12, each=1) for token in source]
    wide = any(_cell_width(cluster) > 1 for column in columns for cluster in column)
    cell = 2 if wide or room + 1 + 2 * len(source) <= width else 1
    shown = min(len(source), (width - room - 1) // cell)

    tallest = max((len(column) for column in columns[:shown]), default=0)
    lines = []
    for level in range(tallest):
        cells = []
        for column in columns[:shown]:  # words stand on the first row: short ones start lower
            index = level - (tallest - len(column))
            cluster = column[index] if index >= 0 else ""
            cells.append(cluster + " " * (cell - _cell_width(cluster)))
        lines.append(" " * (room + 1) + "".join(cells).rstrip(" "))
    for label, row in zip(labels, weights, strict=True):
        short = _fit(label, room)
        name = " " * (room - _width(short)) + _left_to_right("".join(short))
        cells = [_shade(weight, cell) for weight in row[:shown]]
        lines.append(f"{name} {''.join(cells)}".rstrip(" "))
    legend = "  ".join(f"{shade} {least:.2f}" for least, shade in reversed(SHADES.items()))
    notes = [legend]
    if shown < len(source):
        notes.append(f"{shown} of {len(source)} source tokens shown")
    return "\n".join([*lines, *("".join(_fit(list(note), width)) for note in notes)])


def _shade(weight: float, cell: int) -> str:
    shades = (shade * cell for least, shade in SHADES.items() if weight >= least)
    return next(shades, "·".ljust(cell))


def _clusters(token: str) -> list[str]:
    """The characters as one sees them: marks stay with their letter, of joined emoji the first.

    Terminals disagree how wide joined and coloured emoji are; about their first they agree.
    """
    clusters: list[str] = []
    before = ""
    for c in visible(token):
        category = unicodedata.category(c)
        joined = before == "\u200d" and category == "So"
        if category in MARKS:
            clusters[-1:] = [(clusters[-1] if clusters else " ") + c]
        elif category != "Cf" and c not in SKIN_TONES and not joined:
            clusters.append(c)
        before = c
    return clusters


def _cell_width(cluster: str) -> int:
    """Terminal columns of one cluster: two for East Asian wide characters and emoji."""
    return 2 if cluster and unicodedata.east_asian_width(cluster[0]) in "WF" else len(cluster[:1])


def _width(clusters: Sequence[str]) -> int:
    return sum(map(_cell_width, clusters))


def _fit(clusters: list[str], room: int, each: int | None = None) -> list[str]:
    """Cut to `room` columns (or clusters, when each counts as one), an ellipsis for the rest."""
    sizes = [each or _cell_width(cluster) for cluster in clusters]
    if sum(sizes) <= room:
        return clusters
    kept, used = [], 1
    for cluster, size in zip(clusters, sizes, strict=True):
        if used + size > room:
            break
        kept.append(cluster)
        used += size
    return [*kept, "…"]


def _left_to_right(text: str) -> str:
    """Keep a Hebrew or Arabic label from turning the whole row around."""
    turned = any(unicodedata.bidirectional(c) in ("R", "AL") for c in text)
    return f"\u200e{text}\u200e" if turned else text


def _table(weights: list[list[float]], source: list[str], target: list[str]) -> str:
    """The map as an HTML table: the darkness of a cell is its weight, its number the tooltip."""
    top = max((weight for row in weights for weight in row), default=0.0) or 1.0
    sans = "font:13px system-ui,sans-serif;border-collapse:separate;border-spacing:2px"
    upright = "writing-mode:vertical-rl;transform:rotate(180deg);text-align:left;font-weight:400"
    head = "".join(
        f'<th style="{upright}"><bdi>{html.escape(visible(token))}</bdi></th>' for token in source
    )
    body = ""
    for token, row in zip(target, weights, strict=True):
        name = f"<bdi>{html.escape(visible(token))}</bdi>"
        cells = "".join(
            f'<td title="{weight:.2f}" style="width:22px;height:22px;padding:0;'
            f'background:rgba(27,73,168,{weight / top:.3f})"></td>'
            for weight in row
        )
        body += f'<tr><th style="text-align:right;font-weight:400">{name}</th>{cells}</tr>'
    return f'<table style="{sans}"><tr><th></th>{head}</tr>{body}</table>'
