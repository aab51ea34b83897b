"""Models from elsewhere, and ours for elsewhere. To add a format: write the file, add a line."""

import warnings
from collections.abc import Callable
from pathlib import Path

from saccade.errors import InputError, nearest
from saccade.interop import huggingface
from saccade.tasks.task import Warn
from saccade.training.run import Run

EXPORTS: dict[str, Callable[[Run, Path, Warn], None]] = {"huggingface": huggingface.write_folder}


def _say(text: str) -> None:
    warnings.warn(text, stacklevel=3)


def import_run(folder: str | Path, out: str | Path, *, warn: Warn = _say) -> Run:
    """A Hugging Face folder becomes a run, ready to predict, to be scored and to be trained on."""
    return huggingface.read_folder(Path(folder), Run(Path(out)), warn)


def export_run(
    run: str | Path | Run, out: str | Path, *, to: str = "huggingface", warn: Warn = _say
) -> Path:
    """A run in another format, in a folder of its own; appears whole or not at all."""
    if to not in EXPORTS:
        raise InputError(f"unknown format {to!r}; {nearest(to, EXPORTS)}")
    run, out = run if isinstance(run, Run) else Run(Path(run)), Path(out)
    EXPORTS[to](run, out, warn)
    return out
