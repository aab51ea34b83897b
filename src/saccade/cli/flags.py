"""What the flags of several verbs share."""

from typing import Annotated

from cyclopts import Parameter

from saccade.errors import InputError

Switch = Annotated[bool, Parameter(negative=(), show_default=False)]


def named_columns(text: str | None) -> tuple[str, ...] | None:
    """What `--columns source,target` names; None when it was not given."""
    if text is None:
        return None
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise InputError(f"--columns {text!r}: names, such as source,target")
    return names
