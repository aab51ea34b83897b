"""saccade compare: runs side by side, from what they have stored."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from saccade.cli.flags import Switch, Whole
from saccade.cli.progress import clock
from saccade.cli.terminal import console, note, say, warn
from saccade.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from saccade.inspection.comparison import ComparedRun, Comparison, Score

WIDE = 1000  # columns: no table is cut, the terminal may wrap its lines
SURE = 0.05  # a difference with a smaller p is marked


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class CompareFlags:
    """What to compare by, and where to draw it."""

    evaluation: Annotated[str | None, Parameter(name="--eval")] = None
    """Scores stored under this name; by default `dev`, else the newest that all runs have."""
    out: Path | None = None
    """Folder for charts (PNG and SVG): overview, learning curves, quality by length."""
    json: Switch = False
    """Print one object with all numbers."""
    buckets: Whole | None = None
    """Parts of about equal size that the data is cut into by length. [default: 4]"""
    rounds: Whole | None = None
    """Samples of the paired bootstrap. [default: 1000]"""
    seed: Whole | None = None
    """What the samples are a function of. [default: 1]"""

    def given(self) -> dict[str, int]:
        """Only what was given: the rest is left to the one place of the defaults."""
        counts = {"buckets": self.buckets, "rounds": self.rounds, "seed": self.seed}
        return {name: value for name, value in counts.items() if value is not None}


def compare(
    runs: Annotated[list[Path], Parameter(negative=())],
    /,
    *,
    flags: CompareFlags = CompareFlags(),
) -> None:
    """Compare runs: quality with a paired bootstrap, size, speed, quality by length.

    Needs no model: everything was stored by training and by `saccade eval`. The runs must have
    been evaluated on the same data.

    Parameters
    ----------
    runs
        Folders that `saccade train` made; the others are compared with the first.
    """
    from saccade.inspection import comparison

    if flags.out is not None and flags.out.exists() and not flags.out.is_dir():
        raise InputError(f"--out {flags.out} is a file; name a folder")
    found = comparison.compare(runs, flags.evaluation, **flags.given())
    for text in found.notes:
        warn(text)
    if flags.json:
        say(json.dumps(found.json(), ensure_ascii=False))
    else:
        show(console(), found)
    if flags.out is not None:
        drawn = found.save(flags.out)
        note(f"drawn: {', '.join(path.name for path in drawn)} in {flags.out}")


def show(page: "Console", found: "Comparison") -> None:
    """The tables of a comparison."""
    from rich.markup import escape

    first = found.runs[0]
    page.width = max(page.width, WIDE)
    page.print(f"[bold]Quality[/] on {escape(found.evaluation)}, {found.examples:,} examples")
    page.print(_quality(found))
    page.print(f"[dim]{escape(first.main.signature)}[/]")
    if any(run.main.difference is not None for run in found.runs):
        page.print(
            f"[dim]Δ from {escape(first.name)}, with its 95 % interval; * where p < {SURE:g} "
            "(paired bootstrap)[/]"
        )
    page.print("\n[bold]Size and speed[/]")
    page.print(_costs(found))
    if found.buckets:
        page.print(f"\n[bold]{found.metric} by length[/]: {found.unit}")
        page.print(_lengths(found))


def _table(*heads: str) -> "Table":
    """Columns of numbers behind the names of the runs."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("run", no_wrap=True)
    for head in heads:
        table.add_column(escape(head), justify="right", no_wrap=True)
    return table


def _quality(found: "Comparison") -> "Table":
    from rich.markup import escape

    from saccade.inspection.comparison import decimal

    others = [score.name for score in found.runs[0].scores[1:]]
    paired = any(run.main.difference is not None for run in found.runs)
    table = _table(found.metric, *(("Δ", "p") if paired else ()), *others)
    for run in found.runs:
        named = {score.name: decimal(score.value) for score in run.scores}
        table.add_row(
            escape(run.name),
            _best(found, run, found.metric, _with_interval(run.main)),
            *(_apart(run.main) if paired else ()),
            *(_best(found, run, name, named.get(name, "–")) for name in others),
        )
    return table


def _costs(found: "Comparison") -> "Table":
    from rich.markup import escape

    from saccade.inspection.comparison import rounded

    table = _table("model", "parameters", "training", "tokens/s", "decoding, examples/s")
    for run in found.runs:
        table.add_row(
            escape(run.name),
            escape(run.model),
            rounded(run.parameters),
            clock(run.training_seconds),
            rounded(run.training_tokens_per_second),
            rounded(run.examples_per_second),
        )
    return table


def _lengths(found: "Comparison") -> "Table":
    from rich.markup import escape

    heads = [f"{bucket} ({len(bucket.places):,})" for bucket in found.buckets]
    table = _table(*heads, "last less first")
    for run in found.runs:
        values, digits = run.by_length or [], _digits(run.main)
        fall = f"{values[-1] - values[0]:+.{digits}f}"
        table.add_row(escape(run.name), *(f"{value:.{digits}f}" for value in values), fall)
    return table


def _with_interval(score: "Score") -> str:
    from saccade.inspection.comparison import decimal

    if score.interval is None:
        return decimal(score.value)
    half = (score.interval.high - score.interval.low) / 2
    return f"{decimal(score.value)} ± {half:.{_digits(score)}f}"


def _digits(score: "Score") -> int:
    """Behind the point: losses and shares have more."""
    return 1 if abs(score.value or 0) >= 10 else 3


def _apart(score: "Score") -> tuple[str, str]:
    """The difference from the first run, and how sure it is."""
    found = score.difference
    if found is None:
        return "", ""
    digits = _digits(score)
    low, high = (f"{end:+.{digits}f}" for end in (found.interval.low, found.interval.high))
    mark = "*" if found.p < SURE else " "
    return f"{found.value:+.{digits}f} ({low} to {high})", f"{found.p:.3f}{mark}"


def _best(found: "Comparison", run: "ComparedRun", name: str, text: str) -> str:
    return f"[bold]{text}[/]" if found.best(name) == run.name else text
