"""A small run that ends itself: python kill_target.py OUT SOURCE TARGET [section.key=value ...].

ENDING="SIGTERM 12" raises the signal in update 12. ENDING="SIGALRM 12 0.03" is a kill by the kernel
so long after it, wherever the run is by then: in its last update it waits for it.
"""

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from saccade.config import override
from saccade.training.signals import Interrupted
from saccade.training.start import Start, train_run
from saccade.training.trainer import Events


def ending(last: int, name: str, step: str, seconds: str = "") -> Callable[[Any, Any], None]:
    """Look at every update, and end the process as it was asked."""

    def look(_: Any, update: Any) -> None:
        if update.step == int(step) and seconds:
            signal.setitimer(signal.ITIMER_REAL, float(seconds))
        elif update.step == int(step):
            signal.raise_signal(signal.Signals[name])
        elif update.step == last and seconds:
            signal.pause()

    return look


def main(out: str, source: str, target: str, *sets: str) -> None:
    config = {
        "task": {"name": "translate", "train": [source, target], "dev": [source, target],
                 "tokenizer": "characters"},
        "model": {"dim": 16, "layers": 1, "heads": 2, "ffn_dim": 16},
        "train": {"steps": 40, "batch_tokens": 200, "processes": 2, "save_every": 3,
                  "eval_every": 15, "warmup": 10},
    }  # fmt: skip
    config = override(config, sets)
    events = Events(warn=lambda text: sys.stderr.write(text + "\n"))
    if how := os.environ.get("ENDING", "").split():
        events = replace(events, update=ending(config["train"]["steps"], *how))
    try:
        train_run(config, Path(out), Start(resume=True), events)
    except Interrupted as stopped:
        sys.exit(stopped.exit_code)


if __name__ == "__main__":
    main(*sys.argv[1:])
