"""Pictures of what a model does: ink on paper, one hue whose darkness is the weight."""

import threading
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from saccade.errors import InputError

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    import matplotlib.axes
    import matplotlib.figure

PAPER, TEXT, FAINT, LINE = "#ffffff", "#1f2328", "#6b7280", "#dfe3ea"
EMPTY, INK, WARM = "#f6f8fc", "#1b49a8", "#b4532a"
CURVES = [(INK, "-"), (WARM, "-"), (FAINT, "-"), (INK, ":"), (WARM, ":"), (FAINT, ":")]
SANS = ["Inter", "Helvetica Neue", "Noto Sans", "Liberation Sans", "DejaVu Sans"]
# Tried in turn for each character the sans lacks; only those installed are named to matplotlib.
FALLBACKS = [
    *("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Hiragino Sans", "Yu Gothic"),
    *("Microsoft YaHei", "PingFang SC", "WenQuanYi Zen Hei", "Malgun Gothic", "Noto Sans Hebrew"),
    *("Noto Sans Arabic", "Noto Sans Devanagari", "Noto Emoji", "Symbola"),
]
SUFFIXES = (".png", ".svg")
CELL = 0.34  # inches
LONGEST_LABEL = 24  # characters
_DRAWING = threading.Lock()  # matplotlib's settings and Python's warning filters are global


def heat_map(
    weights: Float[Tensor, "T S"],
    source: Sequence[str],
    target: Sequence[str],
    title: str = "",
    top: float | None = None,
) -> "matplotlib.figure.Figure":
    """Who looks where: a row for each target word, source words on top; `top` is full ink."""
    rows, columns = weights.shape
    if (rows, columns) != (len(target), len(source)):
        raise InputError(
            f"a map of {rows} rows and {columns} columns needs as many target and source words, "
            f"not {len(target)} and {len(source)}"
        )
    top = top or (float(weights.max()) if weights.numel() else 0.0) or 1.0
    cell = CELL if max(rows, columns) <= 60 else CELL / 2
    with _style():
        figure, axes = _page(columns * cell, rows * cell)
        _cells(axes, weights, top=top, gap=1.5 if cell == CELL else 0.0)
        _words(axes, source, target, size=10 if cell == CELL else 5)
        _key(figure, ("0", f"{top:.2f}"), "weight")
        _title(axes, title, lift=_height(source))
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
    with _style():
        figure = _figure(width + left, height)
        for row, (name, layer) in enumerate(weights.items()):
            for head, matrix in enumerate(layer):
                box = (left + head * step, height - row * step - side, side, side)
                axes = _axes(figure, box)
                _cells(axes, matrix, top=1.0, gap=0.0)
                _frame(axes)
                if row == 0:
                    axes.set_title(str(head + 1), fontsize=9, color=FAINT, pad=5)
                if head == 0:
                    inside, align = axes.transAxes, ("right", "center")
                    _say(axes, (-0.1, 0.5), name, transform=inside, align=align)
        _title(figure.axes[0], title, lift=0.22)
    return figure


def positions_picture(
    encoding: Float[Tensor, "T D"], title: str = "Positions"
) -> "matplotlib.figure.Figure":
    """Position encodings, a row for each position (20 x 512 in the lectures), paler is lower."""
    rows = encoding.shape[0]
    low, high = float(encoding.min()), float(encoding.max())
    with _style():
        figure, axes = _page(7.2, max(1.6, 3.2 * min(rows, 60) / 20))
        axes.imshow(
            _array(encoding), cmap=_ink(), vmin=low, vmax=high, aspect="auto", interpolation="none"
        )
        _frame(axes)
        axes.tick_params(labelsize=9, colors=FAINT)
        axes.locator_params(integer=True)
        axes.set_xlabel("dimension", fontsize=9, color=FAINT, labelpad=6)
        axes.set_ylabel("position", fontsize=9, color=FAINT, labelpad=6)
        _key(figure, (f"{low:.2g}", f"{high:.2g}"), "value", drop=0.68)
        _title(axes, title)
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
    with _style():
        figure, axes = _page(columns * CELL, rows * CELL)
        _cells(axes, mask.float(), top=1.0, gap=1.5)
        _words(axes, keys, queries, size=10)
        _title(axes, title, lift=_height(keys))
    return figure


def learning_curve(
    curves: Mapping[str, Sequence[tuple[float, float]]], quality: str, title: str = ""
) -> "matplotlib.figure.Figure":
    """Quality (or loss) over training steps: (step, value) points for each run."""
    with _style():
        figure, axes = _page(5.6, 3.2)
        _lines(axes, curves, marker="")
        _label_axes(axes, "step", quality)
        _title(axes, title)
    return figure


def quality_by_length(
    curves: Mapping[str, Sequence[tuple[float, float]]],
    quality: str,
    longest_in_training: float | None = None,
    title: str = "",
) -> "matplotlib.figure.Figure":
    """Quality over sentence length (Bahdanau et al. 2015, figure 2): (length, value) points."""
    with _style():
        figure, axes = _page(5.6, 3.2)
        _lines(axes, curves, marker="o")
        if longest_in_training is not None:
            axes.axvline(longest_in_training, color=FAINT, linewidth=0.8, linestyle=(0, (4, 4)))
            where = (longest_in_training, 1.01)
            across, align = axes.get_xaxis_transform(), ("center", "bottom")
            _say(axes, where, "longest in training", transform=across, size=8, align=align)
        _label_axes(axes, "sentence length", quality)
        _title(axes, title, lift=0.16 if longest_in_training is not None else 0.0)
    return figure


def distributions(
    target: Float[Tensor, "T V"],
    predicted: Float[Tensor, "T V"],
    words: Sequence[str],
    steps: Sequence[str] | None = None,
    title: str = "",
) -> "matplotlib.figure.Figure":
    """The wanted and the predicted distribution over words, a row for each step of decoding."""
    rows, columns = target.shape
    steps = [f"step {index + 1}" for index in range(rows)] if steps is None else steps
    cell, gap = 0.46, 0.9
    width, height = columns * cell, rows * cell
    with _style():
        figure = _figure(2 * width + gap, height)
        for index, (name, matrix) in enumerate({"target": target, "predicted": predicted}.items()):
            axes = _axes(figure, (index * (width + gap), 0.0, width, height))
            _cells(axes, matrix, top=1.0, gap=1.5)
            _words(axes, words, steps if index == 0 else [""] * rows, size=10)
            for (row, column), value in _numbers(matrix):
                color = PAPER if value > 0.5 else TEXT
                place = (column + 0.5, row + 0.5)
                _say(axes, place, f"{value:.2f}", size=8, color=color, align=("center", "center"))
            axes.set_xlabel(name, fontsize=10, color=FAINT, labelpad=8)
        _title(figure.axes[0], title, lift=_height(words))
    return figure


def save_figure(figure: "matplotlib.figure.Figure", path: str | Path) -> Path:
    """Write PNG or SVG by the suffix, the same bytes for the same picture."""
    path = Path(path)
    check_picture_path(path)
    undated = {"Date": None} if path.suffix.lower() == ".svg" else {"Software": None}
    with _style():
        figure.savefig(path, dpi=160, bbox_inches="tight", pad_inches=0.25, metadata=undated)
    return path


def check_picture_path(path: str | Path) -> None:
    """Refuse a file that is neither PNG nor SVG or has no folder, before any work is done."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        known = " or ".join(SUFFIXES)
        raise InputError(f"cannot draw into {str(path)!r}: the name of a picture ends in {known}")
    if not path.parent.is_dir():
        raise InputError(f"cannot draw into {str(path)!r}: there is no folder {str(path.parent)!r}")


def visible(token: str) -> str:
    """A token as one can see it: controls and blanks drawn, nothing that breaks a line or XML."""
    named = {"\n": "⏎", "\t": "⇥"}
    shown = "".join(
        named.get(c, "·") if unicodedata.category(c) in ("Cc", "Cs", "Cn", "Zl", "Zp") else c
        for c in token
    )
    return shown if shown.strip() else "␣" * len(shown)


@contextmanager
def _style() -> Iterator[None]:
    """The settings for the time of one drawing; missing glyphs are boxes, not warnings."""
    import matplotlib

    settings: Any = {
        "font.family": _fonts(),
        "text.color": TEXT,
        "axes.unicode_minus": False,
        "svg.fonttype": "none",  # words stay words: searchable, and any reader's fonts draw them
        "svg.hashsalt": "saccade",
    }
    with _DRAWING, matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        warnings.filterwarnings("ignore", message=".*Matplotlib currently does not support.*")
        yield


def _fonts() -> list[str]:
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    return [name for name in (*SANS, *FALLBACKS) if name in installed] or ["sans-serif"]


def _figure(width: float, height: float) -> "matplotlib.figure.Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Words hang over the edges: saving cuts the page to what is drawn on it.
    figure = Figure(figsize=(max(width, 0.5), max(height, 0.5)), facecolor=PAPER)
    FigureCanvasAgg(figure)
    return figure


def _axes(
    figure: "matplotlib.figure.Figure", box: tuple[float, float, float, float]
) -> "matplotlib.axes.Axes":
    """Bare axes at a place given in inches: left, bottom, width, height."""
    width, height = figure.get_size_inches()
    left, bottom, across, up = box
    place = (left / width, bottom / height, max(across, 0.1) / width, max(up, 0.1) / height)
    axes = figure.add_axes(place)
    axes.set_facecolor(PAPER)
    axes.tick_params(length=0, colors=TEXT)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return axes


def _page(width: float, height: float) -> tuple["matplotlib.figure.Figure", "matplotlib.axes.Axes"]:
    figure = _figure(width, height)
    return figure, _axes(figure, (0.0, 0.0, width, height))


def _ink() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("ink", [EMPTY, INK])


def _array(values: Shaped[Tensor, "T S"]) -> Any:
    return values.detach().to("cpu", torch.float32).numpy()


def _cells(
    axes: "matplotlib.axes.Axes", values: Float[Tensor, "T S"], *, top: float, gap: float
) -> None:
    rows, columns = values.shape
    look: dict[str, Any] = {"cmap": _ink(), "vmin": 0, "vmax": top}
    if values.numel() and gap:
        axes.pcolormesh(_array(values), edgecolors=PAPER, linewidth=gap, **look)
    elif values.numel():  # one image instead of a shape for each cell
        extent = (0, columns, rows, 0)
        axes.imshow(_array(values), aspect="auto", interpolation="none", extent=extent, **look)
    axes.set(xlim=(0, max(columns, 1)), ylim=(max(rows, 1), 0), xticks=[], yticks=[])


def _numbers(values: Float[Tensor, "T S"]) -> Iterator[tuple[tuple[int, int], float]]:
    for row, line in enumerate(values.tolist()):
        for column, value in enumerate(line):
            if value >= 0.005:
                yield (row, column), value


def _words(
    axes: "matplotlib.axes.Axes", above: Sequence[str], beside: Sequence[str], *, size: float
) -> None:
    axes.xaxis.tick_top()
    columns, rows = [_short(word) for word in above], [_short(word) for word in beside]
    axes.set_xticks([index + 0.5 for index in range(len(columns))])
    axes.set_yticks([index + 0.5 for index in range(len(rows))])
    # parse_math: "$5 or $6" is money, not a formula
    turn: dict[str, Any] = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
    if all(len(word) <= 2 for word in columns):
        turn = {"rotation": 0, "ha": "center"}
    axes.set_xticklabels(columns, fontsize=size, parse_math=False, **turn)
    axes.set_yticklabels(rows, fontsize=size, parse_math=False)


def _short(word: str) -> str:
    word = visible(word) if word else ""
    return word if len(word) <= LONGEST_LABEL else word[: LONGEST_LABEL - 1] + "…"


def _height(words: Sequence[str]) -> float:
    """Inches that the words above a picture take when turned by 45 degrees."""
    longest = max((len(_short(word)) for word in words), default=0)
    return 0.26 + 0.06 * longest if longest > 2 else 0.3


def _say(
    page: Any,
    place: tuple[float, float],
    words: str,
    *,
    transform: Any = None,
    size: float = 9,
    color: str = FAINT,
    align: tuple[str, str] = ("left", "bottom"),
) -> None:
    where = {} if transform is None else {"transform": transform}
    ha, va = align
    words = visible(words)
    page.text(*place, words, fontsize=size, color=color, ha=ha, va=va, parse_math=False, **where)


def _title(axes: "matplotlib.axes.Axes", title: str, lift: float = 0.0) -> None:
    """A title `lift` inches above the picture, over the words that stand there."""
    if title:
        height = axes.get_window_extent().height / axes.figure.dpi  # inches
        place = (0.0, 1 + (lift + 0.14) / height)
        _say(axes, place, title, transform=axes.transAxes, size=12, color=TEXT)


def _key(
    figure: "matplotlib.figure.Figure", ends: tuple[str, str], words: str, drop: float = 0.26
) -> None:
    """The scale from paper to ink, `drop` inches below the picture, with its two ends."""
    axes = _axes(figure, (0.0, -drop, 0.9, 0.09))
    axes.imshow([[step / 64 for step in range(65)]], cmap=_ink(), aspect="auto")
    axes.set(xticks=[], yticks=[])
    middle: Any = {"transform": axes.transAxes, "size": 8}
    _say(axes, (-0.06, 0.5), ends[0], align=("right", "center"), **middle)
    _say(axes, (1.06, 0.5), f"{ends[1]}  {words}", align=("left", "center"), **middle)


def _frame(axes: "matplotlib.axes.Axes") -> None:
    for spine in axes.spines.values():
        spine.set(visible=True, color=LINE, linewidth=0.8)


def _label_axes(axes: "matplotlib.axes.Axes", across: str, up: str) -> None:
    axes.grid(axis="y", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines["bottom"].set(visible=True, color=LINE, linewidth=0.8)
    axes.tick_params(labelsize=9, colors=FAINT)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.set_xlabel(across, fontsize=9, color=FAINT, labelpad=6)
    axes.set_ylabel(visible(up), fontsize=9, color=FAINT, labelpad=6, parse_math=False)


def _lines(
    axes: "matplotlib.axes.Axes", curves: Mapping[str, Sequence[tuple[float, float]]], marker: str
) -> None:
    """A line for each run, its name at its end, names pushed apart where lines meet."""
    ends = []
    for index, (name, points) in enumerate(curves.items()):
        color, line = CURVES[index % len(CURVES)]
        across, up = [x for x, _ in points], [y for _, y in points]
        axes.plot(across, up, color=color, linestyle=line, linewidth=1.6, marker=marker, ms=3.5)
        if points:
            ends.append((points[-1], name, color))
    axes.autoscale_view()  # so that the ends are where they will be drawn
    to_axes = axes.transData + axes.transAxes.inverted()
    floor = -1.0
    for end, name, color in sorted(ends, key=lambda item: item[0][1]):
        floor = max(float(to_axes.transform(end)[1]), floor + 0.07)
        place = (1.02, floor)
        align = ("left", "center")
        _say(axes, place, name, transform=axes.transAxes, color=color, align=align)
