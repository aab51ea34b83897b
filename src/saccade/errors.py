"""What goes wrong because of the call or the data: told in one message, with exit code 2."""

import shlex
import sys
from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """The call, the config or the data is wrong; the message says what, where and what to do."""


class TrainingError(RuntimeError):
    """The work itself failed (exit code 1); what was saved before is intact."""


class TooShortError(TrainingError):
    """The time was over before anything was learned."""


class Terminated(SystemExit):
    """SIGTERM came while there was nothing to save; unlike another SystemExit, no code's doing."""


def nearest(name: str, known: Iterable[str], prefix: str = "") -> str:
    """The end of an error message: the known name nearest to `name`, or all of them."""
    known = list(known)
    guess = get_close_matches(name, known, n=1)
    return (
        f"did you mean {prefix + guess[0]!r}?" if guess else f"known: {', '.join(map(str, known))}"
    )


def install(extra: str) -> str:
    """The line to paste that adds an optional part to the environment this runs in."""
    return f"{shlex.quote(sys.executable)} -m pip install 'saccade[{extra}]'"
