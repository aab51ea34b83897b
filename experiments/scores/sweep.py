"""Every score, soft and hard, global and local, on the built-in corpus: one table.

    python experiments/scores/sweep.py --out runs/scores --minutes 3

48 trainings one after the other, 3 minutes each: two hours and a half on two cores. What is
finished is skipped when the same command is given again; with more minutes or steps it goes on.
Fewer of them, or shorter ones:

    python experiments/scores/sweep.py --scores additive dot --attentions global --steps 200
"""

from itertools import product
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts import run as command
from rich.table import Table

import saccade
from saccade.blocks.scores import SCORES
from saccade.cli import must
from saccade.cli.compare import WIDE
from saccade.cli.terminal import console
from saccade.inspection.comparison import Comparison, decimal, rounded

WEIGHTINGS = ("soft", "hard")
ATTENTIONS = ("global", "local-monotonic", "local-predictive")
Names = Annotated[list[str], Parameter(consume_multiple=True, negative=())]


def sweep(
    *,
    out: Path = Path("runs/scores"),
    minutes: float = 3.0,
    steps: int | None = None,
    scores: Names = list(SCORES),  # noqa: B006  cyclopts shows it in the help
    weightings: Names = list(WEIGHTINGS),  # noqa: B006
    attentions: Names = list(ATTENTIONS),  # noqa: B006
    corpus: str = "builtin:french-english",
    set_: Annotated[Names, Parameter(name="--set")] = [],  # noqa: B006
) -> None:
    """Train, score and align every combination, then print the table.

    Parameters
    ----------
    minutes
        Of each training.
    steps
        Of each training, instead of minutes: the same on every machine.
    set
        Settings of every training, as in `saccade train`.
    """
    budget = ["--minutes", minutes] if steps is None else ["--steps", steps]
    more = [word for each in set_ for word in ("--set", each)]
    runs = []
    for score, weighting, attention in product(scores, weightings, attentions):
        run = out / f"{score}-{weighting}-{attention}"
        parts = [f"score={score}", f"weighting={weighting}", f"attention={attention}"]
        settings = [word for part in parts for word in ("--set", f"model.{part}")]
        data = ["--train", f"{corpus}/train", "--dev", f"{corpus}/dev"]
        model = ["--model", "seq2seq", "--set", "task.vocab_size=1500"]
        must(
            "train", "translate", *data, *model, *settings, *more, *budget, "--out", run, "--resume"
        )
        if not saccade.Run(run).scored("test"):
            gold = ["--data", f"{corpus}/test", "--alignments", f"{corpus}/test"]
            must("eval", run, *gold, "--name", "test")
        runs.append(run)
    page = console()
    page.width = max(page.width, WIDE)
    page.print(table(saccade.compare(runs, "test")))


def table(found: Comparison) -> Table:
    """BLEU, AER and speed of every combination, the best first."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    heads = ("BLEU", "±", "AER", "training tokens/s", "decoded examples/s", "parameters")
    shown.add_column("score-weighting-attention", no_wrap=True)
    for head in heads:
        shown.add_column(head, justify="right")
    for run in sorted(found.runs, key=lambda run: -run.main.value):
        scores = {score.name: score.value for score in run.scores}
        around = run.main.interval
        shown.add_row(
            run.name,
            decimal(run.main.value),
            "" if around is None else f"{(around.high - around.low) / 2:.1f}",
            decimal(scores["AER"]),
            rounded(run.training_tokens_per_second),
            rounded(run.examples_per_second),
            rounded(run.parameters),
        )
    return shown


if __name__ == "__main__":
    command(sweep)
