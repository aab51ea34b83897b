"""Pictures of what goes into attention: positions in both layouts, masks, embeddings and sums."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.blocks.masks import causal_mask, padding_mask, permutation_masks
from saccade.blocks.positions import Sinusoidal, SinusoidalHalves
from saccade.errors import InputError
from saccade.inspection.paper import (
    FAINT,
    TEXT,
    array,
    axes_at,
    draw_cells,
    drawing,
    frame,
    height_of,
    ink,
    put_key,
    put_title,
    put_words,
    say,
    sheet,
    write_numbers,
)

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    import matplotlib.figure

CELL = 0.34  # inches
# The lectures' batch.
BATCH = (
    ("Dive", "into", "Deep", "Learning"),
    ("Learn", "to", "code", "<blank>"),
    ("Hello", "world", "<blank>", "<blank>"),
)


def position_layouts(
    positions: int = 20, dim: int = 512, title: str = "Sinusoidal positions"
) -> "matplotlib.figure.Figure":
    """Sines and cosines by turns, and all sines before all cosines: the same numbers reordered."""
    layouts = {"interleaved": Sinusoidal(dim), "halves": SinusoidalHalves(dim)}
    width, height, gap = 7.2, max(0.8, 0.1 * positions), 0.5
    with drawing():
        figure = sheet(width, 2 * height + gap)
        for index, (name, layout) in enumerate(layouts.items()):
            box = (0.0, (1 - index) * (height + gap), width, height)
            axes = axes_at(figure, box)
            look = {"cmap": ink(), "vmin": -1, "vmax": 1, "aspect": "auto"}
            axes.imshow(array(layout.first(positions)), interpolation="none", **look)
            frame(axes)
            axes.tick_params(labelsize=9, colors=FAINT)
            axes.locator_params(integer=True)
            axes.set_ylabel("position", fontsize=9, color=FAINT, labelpad=6)
            say(axes, (0, 1.04), name, transform=axes.transAxes, color=TEXT, size=10)
        figure.axes[1].set_xlabel("dimension", fontsize=9, color=FAINT, labelpad=6)
        put_key(figure, ("-1", "1"), "value", drop=0.68)
        put_title(figure.axes[0], title, lift=0.24)
    return figure


def masks_picture(
    masks: Mapping[str, Bool[Tensor, "_T _S"]],
    words: Mapping[str, tuple[Sequence[str], Sequence[str]]] | None = None,
    title: str = "",
) -> "matplotlib.figure.Figure":
    """Masks side by side, inked where one may look; `words` names the rows and columns of some."""
    words, gap = words or {}, 0.9
    widths = [CELL * mask.shape[1] for mask in masks.values()]
    heights = [CELL * mask.shape[0] for mask in masks.values()]
    with drawing():
        figure = sheet(sum(widths) + gap * (len(widths) - 1), max(heights))
        left = 0.0
        for index, (name, mask) in enumerate(masks.items()):
            box = (left, max(heights) - heights[index], widths[index], heights[index])
            axes = axes_at(figure, box)
            draw_cells(axes, mask.float(), top=1.0, gap=1.5)
            numbered = tuple([str(place + 1) for place in range(size)] for size in mask.shape)
            rows, columns = words.get(name, numbered)
            put_words(axes, columns, rows, size=10)
            axes.set_xlabel(name, fontsize=10, color=TEXT, labelpad=8)
            left += widths[index] + gap
        above = [word for _, columns in words.values() for word in columns]
        put_title(figure.axes[0], title, lift=height_of(above))
    return figure


def lecture_masks(order: Sequence[int] = (2, 1, 3, 0)) -> "matplotlib.figure.Figure":
    """Causal, padding (the lectures' batch) and permutation (XLNet's streams), side by side."""
    lengths = torch.tensor([sum(word != "<blank>" for word in row) for row in BATCH])
    content, query = permutation_masks(torch.tensor(order))
    read = " ".join(str(place + 1) for place in order)
    masks = {
        "causal": causal_mask(len(BATCH[0])),
        "padding": padding_mask(lengths, len(BATCH[0])),
        f"permutation {read}, content": content,
        "query": query,
    }
    return masks_picture(masks, title="Who may look where")


def embedding_plus_positions(
    embedding: Float[Tensor, "T D"],
    positions: Float[Tensor, "T D"],
    words: Sequence[str],
    title: str = "",
) -> "matplotlib.figure.Figure":
    """Word vectors, position vectors and their sums (width 10 for "I love Transformers!")."""
    if embedding.shape != positions.shape or len(embedding) != len(words):
        raise InputError(
            f"embeddings {tuple(embedding.shape)} and positions {tuple(positions.shape)} of "
            f"{len(words)} words must have one shape, a row a word"
        )
    parts = {
        "embedding": embedding,
        "+ position": positions,
        "= what enters": embedding + positions,
    }
    most = max(float(part.abs().max()) for part in parts.values()) or 1.0
    cell, gap = 0.46, 0.55
    width, height = embedding.shape[1] * cell, len(words) * cell
    with drawing():
        figure = sheet(width, 3 * height + 2 * gap)
        for index, (name, part) in enumerate(parts.items()):
            axes = axes_at(figure, (0.0, (2 - index) * (height + gap), width, height))
            shade = (part / most + 1) / 2
            draw_cells(axes, shade, top=1.0, gap=1.5)
            put_words(axes, [], words, size=10)
            write_numbers(axes, part, dark=shade, least=-1.0)
            say(axes, (0, 1.05), name, transform=axes.transAxes, color=TEXT, size=10)
        put_key(figure, (f"{-most:.1f}", f"{most:.1f}"), "value")
        put_title(figure.axes[0], title, lift=0.24)
    return figure
