"""Pictures of what a model does, each a function that returns a matplotlib Figure."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from jaxtyping import Bool, Float
from torch import Tensor

from saccade.errors import InputError
from saccade.inspection.emoji import emoji_as_images
from saccade.inspection.paper import (
    FAINT,
    Number,
    array,
    axes_at,
    beside,
    draw_cells,
    drawing,
    frame,
    height_of,
    ink,
    page,
    put_key,
    put_title,
    put_words,
    say,
    sheet,
    write_numbers,
)

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    import matplotlib.figure

SUFFIXES = (".png", ".svg")
CELL = 0.34  # inches


def heat_map(
    weights: Float[Tensor, "T S"],
    source: Sequence[str],
    target: Sequence[str],
    title: str = "",
    top: Number | None = None,
) -> "matplotlib.figure.Figure":
    """Who looks where: a row for each target word, source words on top; `top` is full ink."""
    rows, columns = weights.shape
    if (rows, columns) != (len(target), len(source)):
        raise InputError(
            f"a map of {rows} rows and {columns} columns needs as many target and source words, "
            f"not {len(target)} and {len(source)}"
        )
    top = float(top or 0) or (float(weights.max()) if weights.numel() else 0.0) or 1.0
    cell = CELL if max(rows, columns) <= 60 else CELL / 2
    with drawing():
        figure, axes = page(columns * cell, rows * cell)
        draw_cells(axes, weights, top=top, gap=1.5 if cell == CELL else 0.0)
        put_words(axes, source, target, size=10 if cell == CELL else 5)
        put_key(figure, ("0", f"{top:.2f}"), "weight")
        put_title(axes, title, lift=height_of(source))
    return figure


def head_grid(
    weights: Mapping[str, Float[Tensor, "H T S"]], title: str = ""
) -> "matplotlib.figure.Figure":
    """All heads at a glance: a row for each layer, a thumbnail for each head."""
    if not weights:
        raise InputError("no attention to draw: no layer was recorded")
    heads = max(layer.shape[0] for layer in weights.values())
    side, gap, left = 1.0, 0.12, 0.1
    step = side + gap
    width, height = heads * step, len(weights) * step
    with drawing():
        figure = sheet(left + width, height)
        for row, (name, layer) in enumerate(weights.items()):
            for head, matrix in enumerate(layer):
                box = (left + head * step, height - row * step - side, side, side)
                axes = axes_at(figure, box)
                draw_cells(axes, matrix, top=1.0, gap=0.0)
                frame(axes)
                if head == 0:
                    beside(axes, (-0.1, 0.5), name, "right")
        for head in range(heads):
            place = ((left + head * step + side / 2) / (left + width), 1 + 0.08 / height)
            say(figure, place, str(head + 1), align=("center", "bottom"))
        put_title(figure.axes[0], title, lift=0.26)
    return figure


def positions_picture(
    encoding: Float[Tensor, "T D"], title: str = "Positions"
) -> "matplotlib.figure.Figure":
    """Position encodings, a row for each position (20 x 512 in the lectures), paler is lower."""
    rows = encoding.shape[0]
    low, high = float(encoding.min()), float(encoding.max())
    with drawing():
        figure, axes = page(7.2, max(1.6, 3.2 * min(rows, 60) / 20))
        axes.imshow(
            array(encoding), cmap=ink(), vmin=low, vmax=high, aspect="auto", interpolation="none"
        )
        frame(axes)
        axes.tick_params(labelsize=9, colors=FAINT)
        axes.locator_params(integer=True)
        axes.set_xlabel("dimension", fontsize=9, color=FAINT, labelpad=6)
        axes.set_ylabel("position", fontsize=9, color=FAINT, labelpad=6)
        put_key(figure, (f"{low:.2g}", f"{high:.2g}"), "value", drop=0.68)
        put_title(axes, title)
    return figure


def mask_picture(
    mask: Bool[Tensor, "T S"],
    keys: Sequence[str] | None = None,
    queries: Sequence[str] | None = None,
    title: str = "",
) -> "matplotlib.figure.Figure":
    """Who may look where (causal, padding, permutation): inked means allowed."""
    rows, columns = mask.shape
    keys = [str(index + 1) for index in range(columns)] if keys is None else keys
    queries = [str(index + 1) for index in range(rows)] if queries is None else queries
    with drawing():
        figure, axes = page(columns * CELL, rows * CELL)
        draw_cells(axes, mask.float(), top=1.0, gap=1.5)
        put_words(axes, keys, queries, size=10)
        put_title(axes, title, lift=height_of(keys))
    return figure


def distributions(
    target: Float[Tensor, "T V"],
    predicted: Float[Tensor, "T V"],
    words: Sequence[str],
    steps: Sequence[str] | None = None,
    title: str = "",
    before: Float[Tensor, "T V"] | None = None,
) -> "matplotlib.figure.Figure":
    """The wanted and the predicted distribution over words, a row for each step of decoding.

    With `before`, what was predicted before training stands between them.
    """
    panels = {"target": target, "predicted": predicted}
    if before is not None:
        panels = {"target": target, "before training": before, "after training": predicted}
    rows, columns = target.shape
    steps = [f"step {index + 1}" for index in range(rows)] if steps is None else steps
    cell, gap = 0.46, 0.9
    width, height = columns * cell, rows * cell
    with drawing():
        figure = sheet(len(panels) * (width + gap) - gap, height)
        for index, (name, matrix) in enumerate(panels.items()):
            axes = axes_at(figure, (index * (width + gap), 0.0, width, height))
            draw_cells(axes, matrix, top=1.0, gap=1.5)
            put_words(axes, words, steps if index == 0 else [""] * rows, size=10)
            write_numbers(axes, matrix)
            axes.set_xlabel(name, fontsize=10, color=FAINT, labelpad=8)
        put_title(figure.axes[0], title, lift=height_of(words))
    return figure


def save_figure(figure: "matplotlib.figure.Figure", path: str | Path) -> Path:
    """Write PNG or SVG by the suffix, the same bytes for the same picture."""
    path = Path(path)
    check_picture_path(path)
    vector = path.suffix.lower() == ".svg"  # there words stay words, and readers have emoji
    undated = {"Date": None} if vector else {"Software": None}
    with drawing(), nullcontext() if vector else emoji_as_images(figure):
        figure.savefig(path, dpi=160, bbox_inches="tight", pad_inches=0.25, metadata=undated)
    return path


def check_picture_path(path: str | Path, also: Sequence[str] = ()) -> None:
    """Refuse a file that is neither PNG nor SVG or has no folder, before any work is done."""
    path = Path(path)
    if path.suffix.lower() not in (*SUFFIXES, *also):
        known = " or ".join((*SUFFIXES, *also))
        raise InputError(f"cannot draw into {str(path)!r}: the name of a picture ends in {known}")
    if not path.parent.is_dir():
        raise InputError(f"cannot draw into {str(path)!r}: there is no folder {str(path.parent)!r}")
