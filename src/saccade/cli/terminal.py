"""Where words go: a verb's answer to standard output, everything else to standard error."""

import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from saccade.training.run import Run


def say(text: str = "") -> None:
    """A line of the answer."""
    sys.stdout.write(text + "\n")


def note(text: str) -> None:
    """A line about the work: progress, a warning."""
    sys.stdout.flush()
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def warn(text: str) -> None:
    note(f"warning: {text}")


def tell_unfinished(run: "Run") -> None:
    """What a training that was interrupted has so far is not what it will be."""
    if not run.card.is_file():
        step = max((line["step"] for line in run.metrics()), default=0)
        warn(f"{run.path} is unfinished (step {step:,} or later): train it on with --resume")


def this_command(*arguments: object) -> str:
    """A line to paste: `saccade ...` where the shell finds it, else the way it was called."""
    called = Path(sys.argv[0])
    start = ["saccade"]
    if shutil.which("saccade") is None:
        if called.stem == "saccade":
            start = [sys.argv[0]]
        elif called.parent.name == "saccade":  # python -m saccade: its __main__.py
            start = [sys.executable, "-m", "saccade"]
    return shlex.join([*start, *map(str, arguments)])


def utf8_streams() -> None:
    r"""UTF-8 and plain \n on standard output, whatever the system's settings."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by who started us: nothing is to be heard
            setattr(sys, name, open(os.devnull, "w"))  # noqa: PTH123, SIM115
        reconfigure = getattr(getattr(sys, name), "reconfigure", None)  # a test's stand-in has none
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="replace", newline="\n")


def close_quietly() -> None:
    """The reader of a pipe went away: nothing more can be said, not even while ending."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


def console(*, error: bool = False) -> "Console":
    """A rich console; colours only on a terminal, and never with NO_COLOR."""
    from rich.console import Console

    return Console(stderr=error, highlight=False, soft_wrap=True)
