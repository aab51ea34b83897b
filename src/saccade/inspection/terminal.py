"""Drawings and tables for the terminal, whose columns stay straight whatever the script."""

import unicodedata
from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from saccade.inspection.paper import visible

SHADES = {0.6: "█", 0.4: "▓", 0.2: "▒", 0.05: "░"}  # from this weight on, the darkest that fits
SKIN_TONES = "🏻🏼🏽🏾🏿"  # they colour the emoji before them
MARKS = ("Mn", "Me", "Mc")  # Unicode categories of what is drawn onto the letter before
NARROWEST = 16  # columns of a terminal
SHOWN = 3  # numbers of a vector
LONGEST = 24  # columns of a token in a table


def vector(values: Float[Tensor, " N"]) -> str:
    """The first numbers of a vector."""
    more = " …" if len(values) > SHOWN else ""
    return "[" + " ".join(f"{value:z6.2f}" for value in values[:SHOWN].tolist()) + more + "]"


def label(token: str) -> str:
    """A token as one can read it in a line of other things."""
    return left_to_right("".join(fit(clusters_of(token), LONGEST)))


def table(columns: Sequence[Sequence[str]]) -> list[str]:
    """Lines of columns side by side: the first, of tokens, flush left, the others right."""
    names = [fit(clusters_of(cell), LONGEST) for cell in columns[0]]
    room = max(map(width_of, names), default=0)
    first = [left_to_right("".join(name)) + " " * (room - width_of(name)) for name in names]
    widths = [max(map(len, column), default=0) for column in columns[1:]]
    return [
        "  ".join([name, *(cell.rjust(width) for cell, width in zip(row, widths, strict=True))])
        for name, *row in zip(first, *columns[1:], strict=True)
    ]


def draw_map(weights: list[list[float]], source: list[str], target: list[str], width: int) -> str:
    """Source tokens upright on top, a row of shades for each target token, what the shades mean."""
    labels = [clusters_of(token) for token in target]
    room = min(max((width_of(label) for label in labels), default=0), width // 3)
    columns = [fit(clusters_of(token), 12, each=1) for token in source]
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
        short = fit(label, room)
        name = " " * (room - width_of(short)) + left_to_right("".join(short))
        cells = [_shade(weight, cell) for weight in row[:shown]]
        lines.append(f"{name} {''.join(cells)}".rstrip(" "))
    legend = "  ".join(f"{shade} {least:.2f}" for least, shade in reversed(SHADES.items()))
    notes = [legend]
    if shown < len(source):
        notes.append(f"{shown} of {len(source)} source tokens shown")
    return "\n".join([*lines, *("".join(fit(list(note), width)) for note in notes)])


def _shade(weight: float, cell: int) -> str:
    shades = (shade * cell for least, shade in SHADES.items() if weight >= least)
    return next(shades, "·".ljust(cell))


def clusters_of(token: str) -> list[str]:
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


def width_of(clusters: Sequence[str]) -> int:
    return sum(map(_cell_width, clusters))


def fit(clusters: list[str], room: int, each: int | None = None) -> list[str]:
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


def left_to_right(text: str) -> str:
    """Keep a Hebrew or Arabic label from turning the whole row around."""
    turned = any(unicodedata.bidirectional(c) in ("R", "AL") for c in text)
    return f"\u200e{text}\u200e" if turned else text
