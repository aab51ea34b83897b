"""The beam tree: every candidate of every step, which were kept, which were returned."""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from saccade.decoding.tree import ROOT, BeamTree
from saccade.errors import InputError
from saccade.inspection.paper import (
    FAINT,
    INK,
    LINE,
    TEXT,
    drawing,
    page,
    put_title,
    say,
    shown_width,
)

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    import matplotlib.axes
    import matplotlib.figure

ROW = 0.3  # inches
Place = tuple[float, float]


def beam_tree(
    tree: BeamTree, token: Callable[[int], str], sentence: int = 0, title: str = ""
) -> "matplotlib.figure.Figure":
    """A column a step; the width of an edge is its probability; what was dropped stays, faint."""
    chosen = [place for place, node in enumerate(tree.nodes) if node.sentence == sentence]
    if not chosen:
        raise InputError(f"the tree has no candidates of sentence {sentence}")
    words = {place: token(tree.nodes[place].token) for place in chosen}
    width = 0.9 + 0.085 * max(shown_width(word) for word in words.values())
    places = _places(tree, chosen)
    steps = 1 + max(tree.nodes[place].step for place in chosen)
    rows = 1 + max(row for _, row in places.values())
    with drawing():
        figure, axes = page((steps + 0.4) * width, max(rows, 1) * ROW)
        axes.set(xlim=(-0.6, steps), ylim=(rows - 0.5, -0.5), xticks=[], yticks=[])
        places[ROOT] = (-0.5, (rows - 1) / 2)
        for place in chosen:
            _draw_node(axes, tree, place, places, words[place])
        put_title(axes, title)
    return figure


def _places(tree: BeamTree, chosen: list[int]) -> dict[int, Place]:
    """A column a step, in it children in the order of their parents, the most probable first."""
    places: dict[int, Place] = {}
    by_step: dict[int, list[int]] = {}
    for place in chosen:
        by_step.setdefault(tree.nodes[place].step, []).append(place)
    most = max(map(len, by_step.values()))

    def order(place: int) -> tuple[float, float]:
        node = tree.nodes[place]
        above = 0.0 if node.parent == ROOT else places[node.parent][1]
        return above, -node.log_prob

    for step, column in sorted(by_step.items()):
        first = (most - len(column)) / 2
        for rank, place in enumerate(sorted(column, key=order)):
            places[place] = (float(step), first + rank)
    return places


def _draw_node(
    axes: "matplotlib.axes.Axes", tree: BeamTree, place: int, places: dict[int, Place], word: str
) -> None:
    node = tree.nodes[place]
    before = 0.0 if node.parent == ROOT else tree.nodes[node.parent].log_prob
    chance = math.exp(min(0.0, node.log_prob - before))
    (x, y), (x0, y0) = places[place], places[node.parent]
    start = x0 if node.parent == ROOT else x0 + 0.62
    color = INK if node.returned else FAINT if node.kept else LINE
    axes.plot([start, x - 0.06], [y0, y], color=color, linewidth=0.6 + 3 * chance, zorder=1)
    said = TEXT if node.kept else FAINT
    say(axes, (x, y), word, size=10, color=INK if node.returned else said, align=("left", "center"))
    say(axes, (x + 0.6, y), f"{chance:.2f}", size=7, color=FAINT, align=("right", "center"))
