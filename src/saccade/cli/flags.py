"""What the flags of several verbs share."""

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Group, Parameter, Token

from saccade.errors import InputError

# The boxes of a verb's help, in this order, behind the flags that have none.
LINES, SEARCH, DRAWS, LINKS, ENGINE = (
    Group(name, sort_key=place)
    for place, name in enumerate(
        ("Lines in and out", "Search", "Draws", "Links read off attention", "Engine"), start=1
    )
)

DATA, MODEL, BUDGET, BEGIN, MACHINE = (  # of training
    Group(name, sort_key=place)
    for place, name in enumerate(
        ("Data", "Model", "Budget", "Begin and resume", "Machine"), start=1
    )
)

Switch = Annotated[bool, Parameter(negative=(), show_default=False)]


def _whole(_: object, tokens: Sequence[Token]) -> int:
    """Cyclopts itself would round: 1.5 to 2."""
    text = tokens[-1].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r}; expected a whole number") from None


Whole = Annotated[int, Parameter(converter=_whole)]


def named_columns(text: str | None) -> tuple[str, ...] | None:
    """What `--columns source,target` names; None when it was not given."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise InputError(f"--columns {text!r}: names, such as source,target")
    return names
