"""What a vector of fixed length costs: BLEU by source length, without and with attention.

    python experiments/lengths/lengths.py --out runs/lengths --minutes 5

Four trainings, the same but for `model.attention` and the sentences learned from: `none` and
`global`, on all lengths and on those of at most `--cap` words. All are tested on sentences of every
length, words unknown to the vocabulary included (Bahdanau et al. 2015, figure 2): it is so small
that a few of a hundred are. What is finished is skipped when the same command is given again, with
more minutes or steps it goes on; `--steps 100` only shows that it works.
"""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts import run as command

import saccade
from saccade.cli import must
from saccade.cli.compare import show
from saccade.cli.terminal import console, say
from saccade.data.readers import read_pairs
from saccade.errors import InputError
from saccade.inspection.charts import quality_by_length
from saccade.inspection.comparison import Comparison
from saccade.inspection.pictures import save_figure

ATTENTIONS = {"no attention": "none", "attention": "global"}
FALLS, HOLDS = 10, 3  # BLEU from the shortest to the longest quarter: at least, less than
VOCABULARY = 800  # words of each side; there are some 600 English and 1,100 French ones
Names = Annotated[list[str], Parameter(consume_multiple=True, negative=())]


def lengths(
    *,
    out: Path = Path("runs/lengths"),
    minutes: float = 5.0,
    steps: int | None = None,
    cap: int = 9,
    corpus: str = "builtin:english-french",
    set_: Annotated[Names, Parameter(name="--set")] = [],  # noqa: B006
) -> None:
    """Train with and without attention, on all lengths and under a cap, and test on all.

    Parameters
    ----------
    minutes
        Of each training.
    steps
        Of each training, instead of minutes: the same on every machine.
    cap
        The most words a source has in the capped training set.
    corpus
        Its splits are CORPUS/train, CORPUS/dev and CORPUS/test.
    set
        Settings of every training, as in `saccade train`.
    """
    out.mkdir(parents=True, exist_ok=True)
    budget = ["--minutes", minutes] if steps is None else ["--steps", steps]
    more = [word for each in set_ for word in ("--set", each)]
    sets = {"all": [f"{corpus}/train"], f"up to {cap}": capped(f"{corpus}/train", cap, out)}
    for words, files in sets.items():
        runs = []
        for name, attention in ATTENTIONS.items():
            run = out / words.replace(" ", "-") / name.replace(" ", "-")
            data = ["--train", *files, "--dev", f"{corpus}/dev"]
            model = ["--model", "seq2seq", "--set", f"model.attention={attention}"]
            vocabulary = ["--set", "task.tokenizer=words", "--set", f"task.vocab_size={VOCABULARY}"]
            how = [*model, *vocabulary, "--set", "task.joint=false", *more, *budget]
            must("train", "translate", *data, *how, "--out", run, "--resume")
            if not saccade.Run(run).scored("test"):
                must("eval", run, "--data", f"{corpus}/test", "--name", "test")
            runs.append(run)
        report(saccade.compare(runs, "test"), out, words, None if words == "all" else cap)
        source, target = unknown(runs[0], f"{corpus}/test")
        say(f"unknown words in the test: {source:.1%} of the source, {target:.1%} of the target")


def capped(files: str, cap: int, out: Path) -> list[str]:
    """The pairs whose source has at most `cap` words, as two files."""
    pairs = [pair for pair in read_pairs([files]) if len(pair[0].split()) <= cap]
    if not pairs:
        raise InputError(f"--cap {cap}: every source of {files} has more words, take a higher one")
    places = [out / f"up-to-{cap}.{side}" for side in ("source", "target")]
    for place, texts in zip(places, zip(*pairs, strict=True), strict=True):
        place.write_text("".join(text + "\n" for text in texts), encoding="utf-8")
    return [str(place) for place in places]


def unknown(run: Path, files: str) -> list[float]:
    """The share of the tokens, of sources and of references, that the vocabulary lacks."""
    task = saccade.load(run).task
    sides = zip((task.source, task.target), zip(*read_pairs([files]), strict=True), strict=True)
    shares = []
    for tokenizer, texts in sides:
        ids = [token for text in texts for token in tokenizer.encode(text)]
        shares.append(ids.count(tokenizer.unk) / len(ids))
    return shares


def report(found: Comparison, out: Path, words: str, longest: int | None) -> None:
    """The table, the figure, and whether the claim, which is of all lengths, holds."""
    say(f"\ntrained on sources of {words} words" if longest else "\ntrained on all lengths")
    show(console(), found)
    values = {run.name: run.by_length or [] for run in found.runs}
    for suffix in (".png", ".svg"):
        figure = quality_by_length(values, found.buckets, found.metric, longest)
        say(str(save_figure(figure, out / f"by-length-{words.replace(' ', '-')}{suffix}")))
    if longest is not None:
        return
    none, attention = (row[0] - row[-1] for row in values.values())
    verdict = "holds" if none >= FALLS and attention < HOLDS else "does not hold here"
    say(
        f"from the shortest to the longest quarter BLEU falls by {none:.1f} without attention "
        f"(claim: {FALLS} or more), by {attention:.1f} with it (claim: less than {HOLDS}): "
        f"the claim {verdict}"
    )


if __name__ == "__main__":
    command(lengths)
