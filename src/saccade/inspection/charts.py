"""Charts of a comparison: each takes numbers and returns a matplotlib Figure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from saccade.errors import InputError
from saccade.inspection.comparison import INPUTS, Comparison, decimal, rounded
from saccade.inspection.paper import (
    CURVES,
    FAINT,
    LINE,
    TEXT,
    Number,
    axes_at,
    beside,
    draw_lines,
    drawing,
    label_axes,
    page,
    put_title,
    say,
    sheet,
)
from saccade.inspection.paper import Point as Place
from saccade.inspection.pictures import SUFFIXES, save_figure
from saccade.inspection.resampling import Bucket, Interval
from saccade.inspection.stored import Point

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    import matplotlib.axes
    import matplotlib.figure

ROW = 0.42  # inches of a bar and the room around it
SMOOTHED = 60  # points of a loss curve that are left: more are noise


@dataclass(frozen=True, slots=True)
class Bar:
    """A value, what is written at its end, and the whiskers around it; None leaves a dash."""

    value: float | None
    words: str
    interval: Interval | None = None


def bar_columns(
    rows: Sequence[str], columns: Mapping[str, Sequence[Bar]], title: str = ""
) -> "matplotlib.figure.Figure":
    """A row for each run, a column of bars for each thing measured, every column on its scale."""
    if not rows or not columns:
        raise InputError("no bars to draw")
    width, gap, height = 1.9, 0.75, ROW * len(rows)
    with drawing():
        figure = sheet(len(columns) * (width + gap) - gap, height)
        for number, (name, bars) in enumerate(columns.items()):
            axes = axes_at(figure, (number * (width + gap), 0.0, width, height))
            _draw_bars(axes, bars)
            beside(axes, (0.0, 1 + 0.12 / height), name, "left")
            for row, run in enumerate(rows if number == 0 else ()):
                across = axes.get_yaxis_transform()
                place = (-0.06, row)
                say(axes, place, run, transform=across, color=TEXT, align=("right", "center"))
        put_title(figure.axes[0], title, lift=0.2)
    return figure


def _draw_bars(axes: "matplotlib.axes.Axes", bars: Sequence[Bar]) -> None:
    highs = [bar.interval.high for bar in bars if bar.interval is not None]
    top = max([*(bar.value or 0.0 for bar in bars), *highs]) or 1.0
    for row, bar in enumerate(bars):
        value = bar.value or 0.0
        axes.barh(row, value, height=0.56, color=CURVES[row % len(CURVES)][0], alpha=0.55, lw=0)
        ends = [value]
        if bar.interval is not None:
            ends = [bar.interval.low, bar.interval.high]
            axes.plot(ends, [row, row], color=TEXT, linewidth=1.2, solid_capstyle="butt")
        place = (max(value, *ends) + 0.03 * top, row)
        say(axes, place, bar.words, color=TEXT, align=("left", "center"))
    axes.set(xlim=(0, top), ylim=(len(bars) - 0.5, -0.5), xticks=[], yticks=[])
    axes.spines["left"].set(visible=True, color=LINE, linewidth=0.8)


def learning_curves(
    losses: Mapping[str, Sequence[Point]],
    quality: Mapping[str, Sequence[Point]],
    metric: str,
    title: str = "",
) -> "matplotlib.figure.Figure":
    """The loss by updates, and the metric of the dev set by minutes: who is ahead, and when."""
    panels: list[tuple[str, str, dict[str, list[Place]]]] = []
    if any(losses.values()):
        by_step = {n: _thinned([(p.step, p.value) for p in points]) for n, points in losses.items()}
        panels.append(("updates", "training loss", by_step))
    if any(quality.values()):
        by_time = {n: [(p.minutes, p.value) for p in points] for n, points in quality.items()}
        panels.append(("minutes of training", f"dev {metric}", by_time))
    if not panels:
        raise InputError("no learning curve to draw: the runs' logs are empty")
    width, height, gap = 4.2, 2.9, 1.9
    with drawing():
        figure = sheet(len(panels) * (width + gap) - gap, height)
        for number, (across, up, curves) in enumerate(panels):
            axes = axes_at(figure, (number * (width + gap), 0.0, width, height))
            draw_lines(axes, curves, marker="o" if number or not any(losses.values()) else "")
            label_axes(axes, across, up)
        put_title(figure.axes[0], title)
    return figure


def quality_by_length(
    values: Mapping[str, Sequence[float]],
    buckets: Sequence[Bucket],
    metric: str,
    longest_in_training: Number | None = None,
    title: str = "",
    unit: str = INPUTS["source"],
) -> "matplotlib.figure.Figure":
    """Quality by the length of the source (Bahdanau et al. 2015, figure 2), bucket by bucket."""
    if not buckets:
        raise InputError("no buckets of length to draw")
    with drawing():
        figure, axes = page(5.6, 3.2)
        places = [bucket.mean for bucket in buckets]
        curves = {name: list(zip(places, row, strict=True)) for name, row in values.items()}
        best = max(value for row in values.values() for value in row)
        axes.set_ylim(0, 1.06 * best or 1)  # from zero: how far it falls is what is to be seen
        draw_lines(axes, curves, marker="o")
        label_axes(axes, unit, metric)
        axes.set_xticks(places, [f"{bucket}\n({len(bucket.places):,})" for bucket in buckets])
        if longest_in_training is not None:
            _mark_longest(axes, longest_in_training)
        put_title(axes, title, lift=0.16 if longest_in_training is not None else 0.0)
    return figure


def loss_by_place(values: Mapping[str, Sequence[float]]) -> "matplotlib.figure.Figure":
    """The loss by place in the context (nats a token): what is carried helps the first most."""
    if not any(values.values()):
        raise InputError("no loss by place to draw")
    with drawing():
        figure, axes = page(5.6, 3.2)
        draw_lines(axes, {name: list(enumerate(row, 1)) for name, row in values.items()}, "")
        label_axes(axes, "place in the context", "loss, nats a token")
    return figure


def _mark_longest(axes: "matplotlib.axes.Axes", longest: Number) -> None:
    axes.axvline(longest, color=FAINT, linewidth=0.8, linestyle=(0, (4, 4)))
    across, align = axes.get_xaxis_transform(), ("center", "bottom")
    words = f"longest in training: {longest}"
    say(axes, (longest, 1.01), words, transform=across, size=8, align=align)


def save_charts(comparison: Comparison, folder: Path) -> list[Path]:
    """Every chart there are numbers for, as PNG and SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {name: draw(comparison) for name, draw in CHARTS.items()}
    return [
        save_figure(figure, folder / f"{name}{suffix}")
        for name, figure in figures.items()
        if figure is not None
        for suffix in SUFFIXES
    ]


def _overview(comparison: Comparison) -> "matplotlib.figure.Figure | None":
    runs = comparison.runs
    columns = {
        comparison.metric: [
            Bar(run.main.value, decimal(run.main.value), run.main.interval) for run in runs
        ],
        "parameters": [_bar(run.parameters) for run in runs],
        "training tokens/s": [_bar(run.training_tokens_per_second) for run in runs],
        "examples decoded/s": [_bar(run.examples_per_second) for run in runs],
    }
    known = {
        name: bars for name, bars in columns.items() if any(bar.value is not None for bar in bars)
    }
    title = f"{comparison.evaluation}, {comparison.examples:,} examples"
    return bar_columns([run.name for run in runs], known, title)


def _bar(value: float | None) -> Bar:
    return Bar(value, rounded(value))


def _curves_chart(comparison: Comparison) -> "matplotlib.figure.Figure | None":
    losses = {run.name: run.losses for run in comparison.runs}
    quality = {run.name: run.dev_curve for run in comparison.runs}
    if not any(losses.values()) and not any(quality.values()):
        return None
    return learning_curves(losses, quality, comparison.metric, "Learning")


def _lengths_chart(comparison: Comparison) -> "matplotlib.figure.Figure | None":
    values = {run.name: run.by_length for run in comparison.runs if run.by_length is not None}
    if not values or not comparison.buckets:
        return None
    title = f"{comparison.metric} by length, {comparison.evaluation}"
    return quality_by_length(
        values, comparison.buckets, comparison.metric, title=title, unit=comparison.unit
    )


CHARTS: dict[str, Callable[[Comparison], "matplotlib.figure.Figure | None"]] = {
    "overview": _overview,
    "learning": _curves_chart,
    "by-length": _lengths_chart,
}


def _thinned(points: Sequence[Place]) -> list[Place]:
    """Means of neighbours, at most SMOOTHED of them."""
    size = -(-len(points) // SMOOTHED) or 1
    groups = [points[start : start + size] for start in range(0, len(points), size)]
    return [
        (sum(x for x, _ in group) / len(group), sum(y for _, y in group) / len(group))
        for group in groups
    ]
