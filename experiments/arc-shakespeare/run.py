"""From the Markov chain to Transformer-XL on one text: tiny Shakespeare, character by character.

    python experiments/arc-shakespeare/run.py --minutes 5 --out runs/arc-shakespeare

Every model learns from the same training text with the same tokenizer and is scored on all of the
same dev text. What was trained already is not trained again, what was interrupted goes on.
--quick makes two updates of each, to see that it works.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import saccade
from saccade.inspection.charts import loss_by_place
from saccade.inspection.pictures import save_figure
from saccade.tasks.perplexity import by_place

TRAIN, DEV = "data:tinyshakespeare/train.txt.gz", "data:tinyshakespeare/dev.txt.gz"
LEARNS: dict[str, Any] = {"train": {"schedule": "cosine"}}
NANO = {"dim": 128, "layers": 4, "heads": 4, "dropout": 0.1}
# In the order in which they came up: each with its settings beyond the defaults.
STEPS: dict[str, dict[str, Any]] = {
    "Markov 1": {"model": {"name": "markov", "order": 1, "smoothing": "kneser-ney"}},
    "Markov 2": {"model": {"name": "markov", "order": 2, "smoothing": "kneser-ney"}},
    "Markov 2 with skips": {
        "model": {
            "name": "markov", "order": 2, "skips": True, "window": 8, "smoothing": "kneser-ney",
        },
    },
    "Markov 5": {"model": {"name": "markov", "order": 5, "smoothing": "modified-kneser-ney"}},
    "RNN": {**LEARNS, "model": {"name": "rnn", "preset": "rnn", "dim": 256}},
    "GRU": {**LEARNS, "model": {"name": "rnn", "preset": "gru", "dim": 256}},
    "LSTM": {**LEARNS, "model": {"name": "rnn", "preset": "lstm", "dim": 256}},
    "GPT": {**LEARNS, "model": {"name": "gpt", **NANO}},
    "Transformer-XL": {**LEARNS, "model": {"name": "transformer-xl", "memory": 128, **NANO}},
}  # fmt: skip
# Of the same size: one begins each context with nothing, one carries its memory.
PLACED, FIRST = ("GPT", "Transformer-XL"), 16
# Why a step may be behind the one before it.
REASONS = {
    "Markov 2 with skips": "pairs vote, each alone: of characters far apart none tells much",
    "RNN": "minutes of training against counts of the whole text; and its gradients vanish",
    "GRU": "in the same minutes a third of the RNN's updates: its kernel is the slowest here",
    "GPT": "each context begins with nothing, and attention is learned late: it takes more minutes",
}


def trained(name: str, config: dict[str, Any], told: argparse.Namespace) -> saccade.Run:
    """The run of one step: made now, gone on with, or there already."""
    counts = config["model"]["name"] == "markov"
    return saccade.train(
        "generate",
        train=TRAIN,
        dev=DEV,
        tokenizer="characters",
        out=told.out / name.lower().replace(" ", "-"),
        steps=2 if told.quick and not counts else None,
        minutes=None if told.quick or counts else told.minutes,
        resume=True,
        config={"task": {"context": 128}, **config},
        quiet=told.quick,
    )


def show_places(runs: dict[str, saccade.Run], out: Path) -> None:
    """The loss by place in the context, side by side: a chart, and the first places as numbers."""
    found = {}
    for name, run in runs.items():
        model = saccade.load(run)
        units = model.task.units(model.task.examples([DEV], lambda _: None))
        nats, tokens = by_place(model.module, units, model.task.reading)
        found[name] = (nats / tokens.clamp(min=1)).tolist()
        first, rest = (
            float(nats[part].sum() / tokens[part].sum())
            for part in (slice(FIRST), slice(FIRST, None))
        )
        print(f"{name:20} loss {first:.3f} at the first {FIRST} places, {rest:.3f} at the others")
    save_figure(loss_by_place(found), out / "loss-by-place.svg")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/arc-shakespeare"))
    parser.add_argument("--minutes", type=float, default=5.0, help="of training, for each network")
    parser.add_argument("--only", nargs="*", default=list(STEPS), help="steps by name")
    quick = os.environ.get("SACCADE_QUICK", "") not in ("", "0")
    parser.add_argument("--quick", action="store_true", default=quick)
    told = parser.parse_args()
    print(f"{'':20} {'bits/char':>9} {'parameters':>11} {'seconds':>8}")
    before, runs = float("inf"), {}
    for name in told.only:
        run = runs[name] = trained(name, STEPS[name], told)
        bits = run.evaluation("dev")["metrics"]["bits per character"]["value"]
        seconds = run.metrics()[-1]["seconds"]
        note = f"  ({REASONS.get(name, 'no reason known')})" if bits >= before else ""
        parameters = saccade.load(run).parameters
        print(f"{name:20} {bits:9.3f} {parameters:11,} {seconds:8.0f}{note}", flush=True)
        before = bits
    if runs.keys() >= set(PLACED):
        show_places({name: runs[name] for name in PLACED}, told.out)


if __name__ == "__main__":
    main()
