"""saccade check: saccade's own contract tests on a user's class."""

import traceback
from collections import Counter
from collections.abc import Callable

from saccade.cli.terminal import note, say
from saccade.errors import InputError


def check(name: str, /) -> int:
    """Test whether your model, score or task keeps saccade's promises, one line a promise.

    The file is run: naming it here is consent, so no --allow-code is needed.

    Parameters
    ----------
    name
        Your class, as FILE.py:Class.
    """
    from saccade.config import find
    from saccade.inspection.contracts import checks_for

    if ".py:" not in name:
        raise InputError(f"{name!r} is not FILE.py:Class, such as my_score.py:MyScore")
    cls: object = find({}, name, what="class", allow_code=True)
    kind, checks = checks_for(cls)
    found: Counter[str] = Counter()
    for promise, test in checks.items():
        verdict, why = _tested(test, cls)
        found[verdict] += 1
        say(f"{verdict:4}  {promise}{why}")
    open_ones = f", {found['--']} not checked" if found["--"] else ""
    say(f"{kind} {name}: {found['ok']} of {len(checks)} promises kept{open_ones}")
    return 1 if found["FAIL"] else 0


def _tested(test: Callable[[object], None], cls: object) -> tuple[str, str]:
    """The verdict, and why it is so."""
    from saccade.inspection.score_contract import UncheckedError

    try:
        test(cls)
    except UncheckedError as error:
        return "--", f": not checked: {error}"
    except AssertionError as error:
        return "FAIL", f": {str(error) or 'an assertion failed'}"
    except Exception as error:
        note(traceback.format_exc())
        return "FAIL", f": {type(error).__name__}: {error}"
    return "ok", ""
