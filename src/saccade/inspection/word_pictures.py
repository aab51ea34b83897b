"""Pictures of what words look at: lines between words, and one word under many heads."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from jaxtyping import Float
from torch import Tensor

from saccade.errors import InputError
from saccade.inspection.paper import (
    INK,
    TEXT,
    axes_at,
    draw_cells,
    drawing,
    height_of,
    page,
    put_key,
    put_title,
    put_words,
    say,
    sheet,
    shown_width,
    write_numbers,
)

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    import matplotlib.axes
    import matplotlib.figure

CELL = 0.34  # inches
LEAST = 0.02  # weights below have no line


def token_lines(
    weights: Float[Tensor, "T S"],
    source: Sequence[str],
    target: Sequence[str],
    title: str = "",
    word: int | None = None,
) -> "matplotlib.figure.Figure":
    """Lines from each target word down from the source words it looks at; of one word, or all."""
    if weights.shape != (len(target), len(source)):
        raise InputError(
            f"weights of {tuple(weights.shape)} do not fit {len(target)} target and "
            f"{len(source)} source words"
        )
    rows = [_places(source), _places(target)]
    width = max(rows[0][1], rows[1][1], 1.0)
    top, bottom = 1.5, 0.0
    with drawing():
        figure, axes = page(width, top)
        axes.set(xlim=(0, width), ylim=(bottom, top), xticks=[], yticks=[])
        keys, queries = (
            [place + (width - total) / 2 for place in places] for places, total in rows
        )
        for query, line in enumerate(weights.tolist()):
            faint = 1.0 if word in (None, query) else 0.08
            for key, weight in enumerate(line):
                if weight >= LEAST:
                    ends = ((keys[key], top - 0.14), (queries[query], bottom + 0.16))
                    _curve(axes, *ends, min(weight, 1.0), faint)
        for places, words, height in ((keys, source, top), (queries, target, bottom)):
            for index, (place, text) in enumerate(zip(places, words, strict=True)):
                chosen = words is target and index == word
                color = INK if chosen else TEXT
                say(axes, (place, height), text, size=11, color=color, align=("center", "center"))
        put_title(axes, title, lift=0.1)
    return figure


def word_heads(
    panels: Mapping[str, Float[Tensor, "_ _S"]],
    words: Sequence[str],
    word: str,
    title: str = "",
) -> "matplotlib.figure.Figure":
    """What one word looks at under models of different numbers of heads: a column for each head.

    The lectures' "it" in "The animal did not cross the street because it was too tired", with 1,
    2 and 8 heads; a panel is (heads, words).
    """
    if not panels:
        raise InputError("no panel to draw: give the weights of a word by the name of a model")
    gap, height = 0.7, len(words) * CELL
    widths = [CELL * len(weights) for weights in panels.values()]
    with drawing():
        figure = sheet(sum(widths) + gap * (len(widths) - 1), height)
        left = 0.0
        for index, (name, weights) in enumerate(panels.items()):
            axes = axes_at(figure, (left, 0.0, widths[index], height))
            draw_cells(axes, weights.mT, top=1.0, gap=1.5)
            heads = [str(head + 1) for head in range(len(weights))]
            put_words(axes, heads, words if index == 0 else [""] * len(words), size=10)
            axes.set_xlabel(name, fontsize=10, color=TEXT, labelpad=8)
            left += widths[index] + gap
        put_key(figure, ("0", "1"), f"weight of what “{word}” looks at", drop=0.72)
        put_title(figure.axes[0], title, lift=0.3)
    return figure


def head_questions(
    weights: Float[Tensor, "H S"],
    words: Sequence[str],
    word: str,
    questions: Sequence[str],
    title: str = "",
) -> "matplotlib.figure.Figure":
    """The questions heads ask of one word (what, when, who): a row a head, with its answers.

    The lectures' "l'Afrique" in "Jane visite l'Afrique en septembre".
    """
    if weights.shape != (len(questions), len(words)):
        raise InputError(
            f"weights of {tuple(weights.shape)} do not fit {len(questions)} questions and "
            f"{len(words)} words"
        )
    cell = 0.62
    with drawing():
        figure, axes = page(len(words) * cell, len(questions) * 0.42)
        draw_cells(axes, weights, top=1.0, gap=1.5)
        put_words(axes, words, questions, size=11)
        write_numbers(axes, weights)
        put_title(axes, title or f"What each head asks of “{word}”", lift=height_of(words))
    return figure


def _places(words: Sequence[str]) -> tuple[list[float], float]:
    """The middles of words side by side, in inches, and how much room they take."""
    places, total = [], 0.0
    for word in words:
        width = 0.26 + 0.095 * shown_width(word)
        places.append(total + width / 2)
        total += width
    return places, total


def _curve(
    axes: "matplotlib.axes.Axes",
    start: tuple[float, float],
    end: tuple[float, float],
    weight: float,
    faint: float,
) -> None:
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    middle = (start[1] + end[1]) / 2
    points = [start, (start[0], middle), (end[0], middle), end]
    path = Path(points, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    look = {"edgecolor": INK, "facecolor": "none", "capstyle": "round"}
    axes.add_patch(PathPatch(path, linewidth=0.5 + 3 * weight, alpha=weight * faint, **look))
