"""saccade check: saccade's own contract tests on a user's class."""

import traceback

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
    failed = 0
    for promise, test in checks.items():
        problem = _problem(test, cls)
        failed += problem is not None
        say(f"ok    {promise}" if problem is None else f"FAIL  {promise}: {problem}")
    say(f"{kind} {name}: {len(checks) - failed} of {len(checks)} promises kept")
    return 1 if failed else 0


def _problem(test: object, cls: object) -> str | None:
    assert callable(test)
    try:
        test(cls)
    except AssertionError as error:
        return str(error) or "an assertion failed"
    except Exception as error:
        note(traceback.format_exc())
        return f"{type(error).__name__}: {error}"
    return None
