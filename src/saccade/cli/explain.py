"""saccade explain: the arithmetic of one attention for one token, with its numbers."""

import json as jsonlib
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from saccade.cli.flags import Switch, Whole
from saccade.cli.terminal import say


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Place:
    """What to explain."""

    layer: str | None = None
    """An attention by name; unset: the last that looks from output to input."""
    head: Whole = 0
    """Counted from 0."""
    token: str = "0"  # noqa: S105  not a password
    """Its text, or its place from 0 in the output (encoder: input; generate: all but the 1st)."""


def explain(
    run: Path,
    text: str,
    /,
    *,
    place: Place = Place(),
    json: Switch = False,
    allow_code: Switch = False,
) -> None:
    """Show what one head of a layer did for one token: q, k, scores, weights, their sum.

    Parameters
    ----------
    run
        A folder that `saccade train` made.
    text
        What the model reads.
    json
        All numbers as one JSON object.
    allow_code
        Run a model or task that is somebody's own file.
    """
    from saccade.inspection.explain import explain
    from saccade.training.model import load

    model = load(run, allow_code=allow_code)
    token = int(place.token) if place.token.isdecimal() else place.token
    found = explain(model, text, place.layer, place.head, token)
    say(jsonlib.dumps(found.to_dict(), ensure_ascii=False) if json else found.table())
