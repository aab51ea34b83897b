"""saccade check: saccade's own contract tests on a user's class."""

import inspect
import traceback
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from saccade.cli.terminal import note, say
from saccade.errors import InputError, Terminated

if TYPE_CHECKING:
    from saccade.inspection.score_checks import Check


def check(name: str, /) -> int:
    """Test whether your model, score or task keeps saccade's promises, one line a promise.

    The file is run: naming it here is consent, so no --allow-code is needed.

    Parameters
    ----------
    name
        Your class, as FILE.py:Class.
    """
    from saccade.config import find

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


def checks_for(cls: Any) -> tuple[str, Mapping[str, "Check"]]:
    """What a class is, by what it has: a score, a model or a task, and the checks of that kind."""
    from saccade.inspection.model_checks import model_checks
    from saccade.inspection.score_checks import SCORE_CHECKS
    from saccade.tasks.task_checks import TASK_CHECKS

    kinds: dict[str, tuple[tuple[str, ...], Mapping[str, Check]]] = {
        "model": (("start", "step", "Config"), model_checks(cls)),
        "score": (("prepare", "forward"), SCORE_CHECKS),
        "task": (("prepare", "Config"), TASK_CHECKS),
    }
    if not inspect.isclass(cls):
        told = getattr(cls, "__name__", repr(cls))  # of a function without its address
        raise InputError(f"{told} is not a class; name one, as FILE.py:Class")
    for kind, (methods, checks) in kinds.items():
        if all(hasattr(cls, name) for name in methods):
            return kind, checks
    raise InputError(
        f"{cls.__name__} is neither a model (start, step, Config) nor a score (prepare, forward) "
        "nor a task (prepare, Config)"
    )


def _tested(test: "Check", cls: object) -> tuple[str, str]:
    """The verdict, and why it is so."""
    from saccade.inspection.score_checks import UncheckedError

    try:
        test(cls)
    except UncheckedError as error:
        return "--", f": not checked: {error}"
    except AssertionError as error:
        return "FAIL", f": {str(error) or 'an assertion failed'}"
    except Terminated:
        raise
    except (Exception, SystemExit) as error:
        note(traceback.format_exc())
        return "FAIL", f": {type(error).__name__}: {error}"
    return "ok", ""
