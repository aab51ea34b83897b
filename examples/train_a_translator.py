"""Train a small English-French translator on the built-in corpus, and see what it looks at.

About two minutes on two cores. SACCADE_QUICK=1 makes two updates only: enough to see every
part work, too few to learn French.
"""

import os
import sys

import saccade

QUICK = os.environ.get("SACCADE_QUICK", "") not in ("", "0")
DEV = None if QUICK else "builtin:english-french/dev"
OUT = sys.argv[1] if len(sys.argv) > 1 else "runs/english-french"

run = saccade.train(
    "translate",
    model="transformer",
    train="builtin:english-french/train",
    dev=DEV,
    out=OUT,
    steps=2 if QUICK else None,
    minutes=None if QUICK else 2.0,
)
model = saccade.load(run)
found = model("Jane visits Africa in September.")
print(found.text, f"(score {found.score:.2f})")
print(found.attention)
if found.attention is not None:
    print(found.attention.save(f"{OUT}/attention.svg"))
