"""saccade export: a run in the format of another library."""

from pathlib import Path

from saccade.cli.terminal import say, warn


def export(run: Path, /, *, to: str, out: Path) -> None:
    """Write a run as a folder for another library; what that cannot express is refused.

    Parameters
    ----------
    run
        A folder that `saccade train` or `saccade import` made.
    to
        The format: huggingface, a folder that transformers loads.
    out
        The new folder.
    """
    from saccade.interop import export_run

    say(f"{to}: {export_run(run, out, to=to, warn=warn)}")
