"""Folk tunes in ABC notation, written by a recurrent network, character by character.

The data set is named by SACCADE_DATA (nottingham_abc). Nothing here knows what a tune is: text
goes in, text comes out. Some five minutes on two cores; SACCADE_QUICK=1 makes two updates only.
"""

import os
import sys

import saccade

QUICK = os.environ.get("SACCADE_QUICK", "") not in ("", "0")
OUT = sys.argv[1] if len(sys.argv) > 1 else "runs/folk-tunes"

run = saccade.train(
    "generate",
    model="rnn",
    train="data:nottingham_abc/train.abc.gz",
    dev=None if QUICK else "data:nottingham_abc/dev.abc.gz",
    tokenizer="characters",
    out=OUT,
    steps=2 if QUICK else None,
    minutes=None if QUICK else 5.0,
    config={"model": {"dropout": 0.2}},
)
model = saccade.load(run)
options = saccade.DecodeOptions(
    sample=True, temperature=0.8, length=40 if QUICK else 600, stop=("\n\n",)
)
print("X:1")
for piece in model.stream("X:1\n", options):
    print(piece, end="", flush=True)
print("\n% paste it into any ABC player")
