r"""A task of your own: translate, and say how many translations are the reference to the letter.

Run this file to see the scores of three translations. Any model that translates learns it:

    saccade train examples/own_task.py:Exact --model transformer --allow-code \
        --train en.txt fr.txt --dev dev.en.txt dev.fr.txt --out runs/exact
    saccade check examples/own_task.py:Exact
"""

from collections.abc import Sequence
from dataclasses import replace

from saccade.data.tokenizers import train_tokenizer
from saccade.tasks.metrics import Metric
from saccade.tasks.task import Evaluation, Plain
from saccade.tasks.translate import Translate


class Exact(Translate):
    """The task translate, with the share of exact matches beside BLEU and chrF."""

    def score(self, examples: Plain, measures: Sequence[Plain]) -> Evaluation:
        found = super().score(examples, measures)
        rows = [{**row, "exact": row["prediction"] == row["reference"]} for row in found.examples]
        share = 100 * sum(row["exact"] for row in rows) / len(rows)
        metric = Metric("exact match", share, f"unit:percent|examples:{len(rows)}|case:mixed")
        return replace(found, metrics=[*found.metrics, metric], examples=rows)


def main() -> None:
    pairs = [
        ("the cat sleeps", "le chat dort"),
        ("the dog eats", "le chien mange"),
        ("a bird sings", "un oiseau chante"),
    ]
    said = ["le chat dort", "le chien dort", "un oiseau chante"]
    config = Exact.Config(train=["en.txt", "fr.txt"], tokenizer="words")
    words = train_tokenizer("words", [text for pair in pairs for text in pair], 100)
    task = Exact(config, words, words)

    sources, references = zip(*pairs, strict=True)
    examples = {"source": list(sources), "reference": list(references)}
    # What `measure` makes of a unit of work: here by hand, in training by the model.
    made = {"numbers": list(range(len(said))), "texts": said, "cut": 0}
    for metric in task.score(examples, [made]).metrics:
        print(metric)


if __name__ == "__main__":
    main()
