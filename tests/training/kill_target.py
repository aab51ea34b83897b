"""A small run to be killed: python kill_target.py OUT SOURCE TARGET [section.key=value ...]."""

import sys
from pathlib import Path

from saccade.config import override
from saccade.training.signals import Interrupted
from saccade.training.start import Start, train_run
from saccade.training.trainer import Events


def main(out: str, source: str, target: str, *sets: str) -> None:
    config = {
        "task": {"name": "translate", "train": [source, target], "dev": [source, target],
                 "tokenizer": "characters"},
        "model": {"dim": 16, "layers": 1, "heads": 2, "ffn_dim": 16},
        "train": {"steps": 40, "batch_tokens": 200, "processes": 2, "save_every": 3,
                  "eval_every": 15, "warmup": 10},
    }  # fmt: skip
    events = Events(warn=lambda text: sys.stderr.write(text + "\n"))
    try:
        train_run(override(config, sets), Path(out), Start(resume=True), events)
    except Interrupted as stopped:
        sys.exit(stopped.exit_code)


if __name__ == "__main__":
    main(*sys.argv[1:])
