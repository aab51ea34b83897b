"""Draw docs/attention.svg: the attention of the demo's translator.

Trains for two minutes, unless that has been done: `python docs/make_picture.py [RUN]`.
"""

import sys
from pathlib import Path

import saccade

SENTENCE = "the European economic area"  # three words that French puts in another order
PICTURE = Path(__file__).with_name("attention.svg")


def main() -> None:
    place = Path(sys.argv[1] if len(sys.argv) > 1 else "runs/picture")
    saccade.train(
        "translate",
        train=["builtin:english-french/train"],
        dev=["builtin:english-french/dev"],
        out=place,
        minutes=2.0,
        resume=True,
    )
    found = saccade.load(place)(SENTENCE)
    assert found.attention is not None
    sys.stdout.write(f"{found.text}\n{found.attention}\n{found.attention.save(PICTURE)}\n")


if __name__ == "__main__":
    main()
