"""Ink on paper: the page, cells, words and lines that every picture is made of.

One hue whose darkness is the weight, a warm one for what differs, a plain sans for words.
"""

import math
import threading
import unicodedata
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from saccade.inspection.fonts import families

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    import matplotlib.axes
    import matplotlib.figure

Number = int | float  # a checker at run time takes no int for a float
Point = tuple[Number, Number]

PAPER, TEXT, FAINT, LINE = "#ffffff", "#1f2328", "#6b7280", "#dfe3ea"
EMPTY, INK, WARM = "#f6f8fc", "#1b49a8", "#b4532a"
CURVES = [(INK, "-"), (WARM, "-"), (FAINT, "-"), (INK, ":"), (WARM, ":"), (FAINT, ":")]
LONGEST_LABEL = 24  # characters
UNSEEN = ("Cc", "Cs", "Cn", "Zl", "Zp")  # Unicode categories that draw nothing, or break lines
TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"  # turn what follows around
_DRAWING = threading.Lock()  # matplotlib's settings and Python's warning filters are global


def visible(token: str) -> str:
    """A token as one can see it: controls and blanks drawn, nothing that breaks a line or XML."""
    named = {"\n": "⏎", "\t": "⇥", **dict.fromkeys(TURNS, "·")}
    shown = "".join(
        named.get(c, "·") if c in named or unicodedata.category(c) in UNSEEN else c for c in token
    )
    return shown if shown.strip() else "␣" * len(shown)


@contextmanager
def drawing() -> Iterator[None]:
    """The settings for the time of one drawing; missing glyphs are boxes, not warnings."""
    import matplotlib

    settings: Any = {
        "font.family": families(),
        "text.color": TEXT,
        "axes.unicode_minus": False,
        "svg.fonttype": "none",  # words stay words: searchable, and any reader's fonts draw them
        "svg.hashsalt": "saccade",
    }
    with _DRAWING, matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        warnings.filterwarnings("ignore", message=".*Matplotlib currently does not support.*")
        yield


def sheet(width: float, height: float) -> "matplotlib.figure.Figure":
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Words hang over the edges: saving cuts the page to what is drawn on it.
    figure = Figure(figsize=(max(width, 0.5), max(height, 0.5)), facecolor=PAPER)
    FigureCanvasAgg(figure)
    return figure


def axes_at(
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


def page(width: float, height: float) -> tuple["matplotlib.figure.Figure", "matplotlib.axes.Axes"]:
    figure = sheet(width, height)
    return figure, axes_at(figure, (0.0, 0.0, width, height))


def ink() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("ink", [EMPTY, INK])


def array(values: Shaped[Tensor, "T S"]) -> Any:
    return values.detach().to("cpu", torch.float32).numpy()


def draw_cells(
    axes: "matplotlib.axes.Axes", values: Float[Tensor, "T S"], *, top: float, gap: float
) -> None:
    rows, columns = values.shape
    look: dict[str, Any] = {"cmap": ink(), "vmin": 0, "vmax": top}
    if values.numel() and gap:
        axes.pcolormesh(array(values), edgecolors=PAPER, linewidth=gap, **look)
    elif values.numel():  # one image instead of a shape for each cell
        extent = (0, columns, rows, 0)
        axes.imshow(array(values), aspect="auto", interpolation="none", extent=extent, **look)
    axes.set(xlim=(0, max(columns, 1)), ylim=(max(rows, 1), 0), xticks=[], yticks=[])


def put_words(
    axes: "matplotlib.axes.Axes", above: Sequence[str], beside: Sequence[str], *, size: int
) -> None:
    axes.xaxis.tick_top()
    columns, rows = [_short(word) for word in above], [_short(word) for word in beside]
    axes.set_xticks([index + 0.5 for index in range(len(columns))])
    axes.set_yticks([index + 0.5 for index in range(len(rows))])
    # parse_math: "$5 or $6" is money, not a formula
    turn: dict[str, Any] = {"rotation": 45, "ha": "left", "rotation_mode": "anchor"}
    if all(len(word) <= 2 for word in columns):
        turn = {"rotation": 0, "ha": "center"}
    look: dict[str, Any] = {"fontsize": size, "parse_math": False}
    axes.set_xticklabels(columns, **look, **turn, family=families("".join(columns)))
    axes.set_yticklabels(rows, **look, family=families("".join(rows)))


def _short(word: str) -> str:
    word = visible(word) if word else ""
    return word if len(word) <= LONGEST_LABEL else word[: LONGEST_LABEL - 1] + "…"


def shown_width(word: str) -> int:
    """About how many letters wide a word is when drawn; East Asian ones count twice."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in _short(word))
    return len(_short(word)) + wide


def height_of(words: Sequence[str]) -> float:
    """Inches that the words above a picture take when turned by 45 degrees."""
    longest = max((len(_short(word)) for word in words), default=0)
    return 0.26 + 0.06 * longest if longest > 2 else 0.3


def say(
    page: Any,
    place: tuple[Number, Number],
    words: str,
    *,
    transform: Any = None,
    size: int = 9,
    color: str = FAINT,
    align: tuple[str, str] = ("left", "bottom"),
) -> None:
    where = {} if transform is None else {"transform": transform}
    ha, va = align
    words = visible(words)
    look = {"fontsize": size, "color": color, "family": families(words)}
    page.text(*place, words, ha=ha, va=va, parse_math=False, **look, **where)


def write_numbers(
    axes: "matplotlib.axes.Axes",
    values: Float[Tensor, "T S"],
    *,
    least: float = 0.005,
    size: int = 8,
    dark: Float[Tensor, "T S"] | None = None,
) -> None:
    """Two decimals in every cell; `dark` says how much ink is behind each, by default its value."""
    behind = values if dark is None else dark
    for row, (line, shades) in enumerate(zip(values.tolist(), behind.tolist(), strict=True)):
        for column, (value, shade) in enumerate(zip(line, shades, strict=True)):
            if abs(value) >= least:
                place, color = (column + 0.5, row + 0.5), PAPER if shade > 0.55 else TEXT
                say(axes, place, f"{value:.2f}", size=size, color=color, align=("center", "center"))


def beside(
    axes: "matplotlib.axes.Axes",
    place: tuple[Number, Number],
    words: str,
    align: str,
    color: str = FAINT,
) -> None:
    """Words at a place given in parts of the axes, mostly just outside them."""
    say(axes, place, words, transform=axes.transAxes, color=color, align=(align, "center"))


def put_title(axes: "matplotlib.axes.Axes", title: str, lift: float = 0.0) -> None:
    """A title `lift` inches above the picture, over the words that stand there."""
    if title:
        height = axes.get_window_extent().height / axes.figure.dpi  # inches
        place = (0.0, 1 + (lift + 0.14) / height)
        say(axes, place, title, transform=axes.transAxes, size=12, color=TEXT)


def put_key(
    figure: "matplotlib.figure.Figure", ends: tuple[str, str], words: str, drop: float = 0.26
) -> None:
    """The scale from paper to ink, `drop` inches below the picture, with its two ends."""
    axes = axes_at(figure, (0.0, -drop, 0.9, 0.09))
    axes.imshow([[step / 64 for step in range(65)]], cmap=ink(), aspect="auto")
    axes.set(xticks=[], yticks=[])
    beside(axes, (-0.06, 0.5), ends[0], "right")
    beside(axes, (1.06, 0.5), f"{ends[1]}  {words}", "left")


def frame(axes: "matplotlib.axes.Axes") -> None:
    for spine in axes.spines.values():
        spine.set(visible=True, color=LINE, linewidth=0.8)


def label_axes(axes: "matplotlib.axes.Axes", across: str, up: str) -> None:
    axes.grid(axis="y", color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.spines["bottom"].set(visible=True, color=LINE, linewidth=0.8)
    axes.tick_params(labelsize=9, colors=FAINT)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
    axes.set_xlabel(across, fontsize=9, color=FAINT, labelpad=6)
    axes.set_ylabel(visible(up), fontsize=9, color=FAINT, labelpad=6, parse_math=False)


def draw_lines(
    axes: "matplotlib.axes.Axes", curves: Mapping[str, Sequence[Point]], marker: str
) -> None:
    """A line for each run, its name at its end, names pushed apart where lines meet."""
    ends = []
    for index, (name, points) in enumerate(curves.items()):
        color, line = CURVES[index % len(CURVES)]
        across, up = [x for x, _ in points], [y for _, y in points]
        shown = marker if len(points) > 1 else "o"  # a line of one point would not be seen
        axes.plot(across, up, color=color, linestyle=line, linewidth=1.6, marker=shown, ms=3.5)
        finite = [point for point in points if math.isfinite(point[1])]
        if finite:  # a diverged run is named where it was last seen
            ends.append((finite[-1], name, color))
    axes.autoscale_view()  # so that the ends are where they will be drawn
    to_axes = axes.transData + axes.transAxes.inverted()
    floor = -1.0
    for end, name, color in sorted(ends, key=lambda item: item[0][1]):
        floor = max(float(to_axes.transform(end)[1]), floor + 0.07)
        beside(axes, (1.02, floor), name, "left", color)
