"""Sentence pairs with links made by hand, as files for `saccade eval --alignments`.

    python experiments/alignments/gold.py data:wordalign/de-en.gold.txt.gz de-en --counted-from 1
    saccade eval runs/de-en --data de-en.source de-en.target --alignments de-en.gold

The first command takes `source words ||| target words ||| links`, or `builtin:english-french/test`,
and writes NAME.source, NAME.target (texts, a line each) and NAME.gold (the same pairs with their
words and links, counted from 0). Words of a gold file are put together with spaces between them, as
they stand: what a model learned from should be cut into words alike.
"""

from pathlib import Path
from typing import Literal

from cyclopts import run as command

from saccade.cli.terminal import note
from saccade.data.readers import read_pairs
from saccade.errors import InputError
from saccade.inspection.alignment_error import FIELDS, Gold, read_gold


def export(file: str, name: Path, /, *, counted_from: Literal[0, 1] = 0) -> None:
    """Write the texts and the links of a gold set.

    Parameters
    ----------
    file
        A gold file, or a built-in corpus.
    name
        What the names of the three files begin with.
    counted_from
        The number of a first word in the gold file.
    """
    gold = read_gold(file, counted_from)
    if file.startswith("builtin:"):
        pairs = list(read_pairs([file]))
    else:
        pairs = [joined(number, each) for number, each in enumerate(gold, start=1)]
    columns = {
        "source": [source for source, _ in pairs],
        "target": [target for _, target in pairs],
        "gold": [line(each) for each in gold],
    }
    for suffix, lines in columns.items():
        place = name.with_name(f"{name.name}.{suffix}")
        place.write_text("".join(each + "\n" for each in lines), encoding="utf-8")
        note(f"{place}: {len(lines):,} lines")


def joined(number: int, gold: Gold) -> tuple[str, str]:
    """The two texts of a pair whose gold brings its words along."""
    if gold.source is None or gold.target is None:
        raise InputError(f"line {number} has links alone: there are no words to export")
    return " ".join(gold.source), " ".join(gold.target)


def line(gold: Gold) -> str:
    """Words and links of a pair: sure ones as 0-0, those only possible as 0p0."""
    links = [f"{s}{'-' if (s, t) in gold.sure else 'p'}{t}" for s, t in sorted(gold.possible)]
    return f" {FIELDS} ".join(
        [" ".join(gold.source or ()), " ".join(gold.target or ()), " ".join(links)]
    )


if __name__ == "__main__":
    command(export)
