"""What the flags of several verbs share."""

from typing import Annotated

from cyclopts import Parameter

from saccade.errors import InputError

Switch = Annotated[bool, Parameter(negative=(), show_default=False)]


def two_columns(text: str | None) -> tuple[str, str] | None:
    """What `--columns source,target` names; None when it was not given."""
    if text is None:
        return None
    match [name.strip() for name in text.split(",")]:
        case [source, target]:
            return source, target
    raise InputError(f"--columns {text!r}: two names, such as source,target")
