"""Tables of models that count: transitions, the votes of pairs, the mask; as text and drawn."""

import shutil
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.errors import InputError
from saccade.inspection.paper import (
    PAPER,
    TEXT,
    draw_cells,
    drawing,
    height_of,
    page,
    put_key,
    put_title,
    put_words,
    say,
    visible,
)
from saccade.inspection.pictures import check_picture_path, save_figure
from saccade.models.markov import Markov

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    import matplotlib.figure

CELL = 0.42  # inches: a number fits into it
MOST_CELLS = 1 << 24
NUMBERED = 40  # rows or columns up to which the cells of a picture hold their numbers
LONGEST = 24  # columns of the terminal that a word may take


@dataclass(frozen=True, slots=True)
class Table:
    """Numbers with a word for each row and each column."""

    values: Float[Tensor, "R C"]
    rows: list[str]
    columns: list[str]
    title: str = ""
    unit: str = "probability"

    def __post_init__(self) -> None:
        if self.values.shape != (len(self.rows), len(self.columns)):
            raise InputError(
                f"a table of {tuple(self.values.shape)} numbers needs as many words, not "
                f"{len(self.rows)} and {len(self.columns)}"
            )

    def text(self, width: int | None = None) -> str:
        """Plain text, of the columns that fit into `width` (by default the terminal's)."""
        width = shutil.get_terminal_size().columns if width is None else width
        names = [_short(name) for name in self.rows]
        heads = [_short(name) for name in self.columns]
        sizes = [max(_width(head), 4) for head in heads]
        edge = max(map(_width, names), default=0)
        shown = 0
        while shown < len(heads) and edge + sum(sizes[: shown + 1]) + 2 * (shown + 1) <= width:
            shown += 1
        lines = [_line("", heads[:shown], edge, sizes)]
        for name, row in zip(names, self.values[:, :shown].tolist(), strict=True):
            lines.append(_line(name, [_number(value) for value in row], edge, sizes))
        if shown < len(heads):
            lines.append(f"{shown} of {len(heads)} columns shown")
        return "\n".join([self.title, *lines] if self.title else lines)

    def __str__(self) -> str:
        return self.text()

    def plot(self) -> "matplotlib.figure.Figure":
        """The darkness of a cell is its number, which stands in it where there is room."""
        height, width = self.values.shape
        roomy = max(height, width) <= NUMBERED
        cell = CELL if roomy else CELL / 3
        top = max(float(self.values.max()) if self.values.numel() else 0.0, 1.0)
        with drawing():
            figure, axes = page(width * cell, height * cell)
            draw_cells(axes, self.values, top=top, gap=1.5 if roomy else 0.0)
            put_words(axes, self.columns, self.rows, size=10 if roomy else 4)
            for row, column in self.values.nonzero().tolist() if roomy else ():
                value = float(self.values[row, column])
                color = PAPER if value > top / 2 else TEXT
                place = (column + 0.5, row + 0.5)
                say(axes, place, _number(value), size=8, color=color, align=("center", "center"))
            put_key(figure, ("0", f"{top:g}"), self.unit)
            put_title(axes, self.title, lift=height_of(self.columns))
        return figure

    def save(self, path: str | Path) -> Path:
        """Draw into a PNG or SVG file, by its suffix."""
        check_picture_path(path)
        return save_figure(self.plot(), path)


def transition_table(model: Markov, words: Sequence[str]) -> Table:
    """What follows each context; words that never occur are left out, dead ends are empty rows."""
    contexts, found = model.transitions()
    _check(words, found.shape[1])
    last = torch.tensor([context[-1] for context in contexts], dtype=torch.long)
    used = found.sum(0) > 0
    used[last[found.sum(1) > 0]] = True  # as a context, or after one
    rows = used[last].nonzero().squeeze(1).tolist()
    columns = used.nonzero().squeeze(1).tolist()
    named = dict(enumerate(words)) | {len(words): "^"}  # the beginning of a text
    names = [" ".join(named[token] for token in contexts[row]) for row in rows]
    return Table(found[rows][:, columns], names, [words[token] for token in columns], "Transitions")


def mask_table(model: Markov, words: Sequence[str]) -> Table:
    """The stack of masks: a row for each current word with a pair that votes, 1 for each."""
    _check(words, model.config.vocab_size)
    kept = [pair for pair in model.pairs() if pair.kept]
    rows, columns = (
        {token: i for i, token in enumerate(sorted(set(tokens)))}
        for tokens in ([pair.current for pair in kept], [pair.earlier for pair in kept])
    )
    if len(rows) * len(columns) > MOST_CELLS:
        raise InputError(f"a mask of {len(rows):,} by {len(columns):,} words is too large to draw")
    values = torch.zeros(len(rows), len(columns))
    for pair in kept:
        values[rows[pair.current], columns[pair.earlier]] = 1
    names, heads = ([words[token] for token in tokens] for tokens in (rows, columns))
    return Table(values, names, heads, "Mask (current word, earlier words)", "kept")


def votes_table(model: Markov, words: Sequence[str], tokens: Sequence[int]) -> Table:
    """How each earlier word, paired with the last one, votes for the next; the sum below."""
    _check(words, model.config.vocab_size)
    earlier, ballots = model.ballots(tokens)
    values = torch.cat([ballots, ballots.sum(0, keepdim=True)]).float().cpu()
    columns = (values[-1] > 0).nonzero().squeeze(1).tolist()
    rows = [f"{words[word]}, {words[tokens[-1]]}" for word in earlier]
    names = [words[token] for token in columns]
    return Table(values[:, columns], [*rows, "sum"], names, "Votes", unit="votes")


def _check(words: Sequence[str], size: int) -> None:
    if len(words) != size:
        raise InputError(f"the vocabulary has {size:,} words, but {len(words):,} are named")


def _line(name: str, cells: Sequence[str], edge: int, sizes: Sequence[int]) -> str:
    parts = [" " * (size - _width(cell)) + cell for cell, size in zip(cells, sizes, strict=False)]
    return "  ".join([name + " " * (edge - _width(name)), *parts]).rstrip()


def _number(value: float) -> str:
    if value == 0:
        return "·"
    return f"{value:.0f}" if value == round(value) else f"{value:.2f}"


def _short(word: str) -> str:
    word = visible(word)
    while _width(word) > LONGEST:
        word = word[:-2] + "…"
    return word


def _width(word: str) -> int:
    """Columns of a terminal: two for East Asian wide characters, none for marks on a letter."""
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in word)
    return len(word) + wide - sum(unicodedata.combining(c) > 0 for c in word)
