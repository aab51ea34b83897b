"""saccade explore: what runs look at, in a browser."""

import sys
import webbrowser
from dataclasses import dataclass
from pathlib import Path

from cyclopts import Parameter

from saccade.cli.flags import Switch
from saccade.cli.serve import ServeFlags, serve_runs
from saccade.cli.terminal import note, say


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ExploreFlags(ServeFlags):
    """Where the page is, and whether to open it."""

    no_browser: Switch = False
    """Only print the address."""


def explore(*runs: Path, flags: ExploreFlags = ExploreFlags()) -> int:
    """Open a page that shows what runs look at: type a text, see every head; Ctrl-C ends it.

    Parameters
    ----------
    runs
        Folders that `saccade train` made; two can be compared side by side.
    """

    def ready(address: str) -> None:
        say(address)
        sys.stdout.flush()
        note("the explorer is there; Ctrl-C ends it")
        if sys.stdout.isatty() and not flags.no_browser:
            webbrowser.open(address)

    return serve_runs(runs, flags, ready)
