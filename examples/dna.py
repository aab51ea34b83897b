"""What follows in DNA? Chains that count against a network that learns, on splice junctions.

The data set is named by SACCADE_DATA (dna); a sequence is a row of a table, its letters are the
tokens. Two bits a base are a coin thrown twice: how far below can one get? About two minutes on
two cores; SACCADE_QUICK=1 makes two updates only.
"""

import os
import sys

import saccade

QUICK = os.environ.get("SACCADE_QUICK", "") not in ("", "0")
OUT = sys.argv[1] if len(sys.argv) > 1 else "runs/dna"
MODELS = {
    "chain of order 1": {"name": "markov", "order": 1, "smoothing": "kneser-ney"},
    "chain of order 4": {"name": "markov", "order": 4, "smoothing": "kneser-ney"},
    "GPT": {"name": "gpt", "dim": 64, "layers": 2, "dropout": 0.2},
}

for name, model in MODELS.items():
    run = saccade.train(
        "generate",
        train="data:dna/splice.train.tsv.gz",
        dev="data:dna/splice.dev.tsv.gz",
        tokenizer="characters",
        out=f"{OUT}/{name.replace(' ', '-')}",
        steps=2 if QUICK else 1500,
        config={"model": model, "task": {"columns": ["sequence"], "context": 62}},
        quiet=True,
    )
    bits = run.evaluation("dev")["metrics"]["bits per character"]["value"]
    print(f"{name:16} {bits:.3f} bits per base")

drawn = saccade.load(run).predict(["CAGGT"] * 3, saccade.DecodeOptions(sample=True, length=40))
print("after CAGGT:", *(each.text for each in drawn), sep="\n  ")
