"""Draw docs/attention.svg: what the demo's translator looks at.

Takes the run in demo/; where there is none, `saccade demo` trains it first.
"""

import sys
from pathlib import Path

import saccade
from saccade.cli import run

SENTENCE = "Jane visite l'Afrique en septembre"
PICTURE = Path(__file__).with_name("attention.svg")
DEMO = PICTURE.parents[1] / "demo"


def main() -> None:
    trained = saccade.Run(DEMO / "run")
    if not trained.weights.is_file() and (failed := run(["demo", "--out", str(DEMO)])):
        sys.exit(failed)
    model = saccade.load(trained)
    found = model(SENTENCE)
    words = model.words(SENTENCE, found)
    sys.stdout.write(f"{found.text}\n{words}\n{words.save(PICTURE)}\n")


if __name__ == "__main__":
    main()
