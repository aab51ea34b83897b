"""The best translators of RESULTS.md, from English to German or French: one command, two hours.

    python experiments/multi30k/run.py --target de --out runs/multi30k

Four trainings, each with the settings of a file beside this one: both directions at once, from
there a forward and a backward model, and from there again the last one, which learns from the pairs
and from what those two make of them. Each command is shown as it is given. What is finished is
skipped when the same command is given again, what was interrupted goes on. SACCADE_DATA names the
folder with the data sets. --quick makes two updates of each part with a few pairs, to see that it
works, in a folder of its own.
"""

import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter
from cyclopts import run as command

import saccade
from saccade.cli import WRONG_INPUT, must
from saccade.cli.flags import Switch
from saccade.cli.terminal import note, say
from saccade.config import read_toml
from saccade.data.lines import read_lines
from saccade.errors import InputError
from saccade.tasks.metrics import figure, translation_metrics

HERE = Path(__file__).parent
TEST = "test_2016_flickr"
LANGUAGES = {"de": "German", "fr": "French"}
LONGER = {"de": 28_000}  # updates of the forward model, more than in its file: that of RESULTS.md
PAIRS = 20  # of each data set, with --quick
PUBLISHED = "BLEU (lowercased Moses tokens)"


def recipe(
    *,
    target: Literal["de", "fr"] = "de",
    out: Path = Path("runs/multi30k"),
    quick: Annotated[Switch, Parameter(env_var="SACCADE_QUICK")] = False,
) -> None:
    """Train the parts one after the other, score the last one, and print its scores.

    Parameters
    ----------
    target
        The language to translate English into.
    out
        Its parts are in OUT/en-TARGET.
    quick
        Two updates of each part with a few pairs, in OUT/quick: only to see that it works.
    """
    folder = (out / "quick" if quick else out) / f"en-{target}"
    folder.mkdir(parents=True, exist_ok=True)
    train, dev, test = data_sets(target, folder, few=quick)
    english, foreign = train
    cut = 2 if quick else None

    pairs = joined(folder, "both", [english, foreign], [foreign, english])
    both = trained("both-directions", folder / "both-directions", [pairs, dev], cut)
    updates = cut or LONGER.get(target)
    forward = trained(f"en-{target}", folder / "forward", [train, dev], updates, both)
    turned = [train[::-1], dev[::-1]]
    backward = trained("backward", folder / "backward", turned, cut, both)

    said = translated(forward, english, folder / f"forward.{target}")
    told = translated(backward, foreign, folder / "backward.en")
    pairs = joined(folder, "diverse", [english, english, told], [foreign, said, foreign])
    last = trained("diversified", folder / "diversified", [pairs, dev], cut, both)
    if not last.scored("test"):
        flags = ["--moses", target, "--beam", 5, "--name", "test"]
        must("eval", last.path, "--data", *test, *flags)
    say(f"\nEnglish to {LANGUAGES[target]}, {TEST}, beam 5:")
    report(last)


def data_sets(target: str, folder: Path, *, few: bool) -> list[list[str]]:
    """Training, dev and test, English and the other language; with `few`, their first lines."""
    told = read_toml(HERE / f"en-{target}.toml")["task"]
    test = [f"data:multi30k/{TEST}.{side}.gz" for side in ("en", target)]
    found = [told["train"], told["dev"], test]
    return [[shortened(name, folder) for name in files] for files in found] if few else found


def shortened(name: str, folder: Path) -> str:
    """The first lines of a file, as a file."""
    place = folder / Path(name).name.removesuffix(".gz")
    lines = list(read_lines(name))[:PAIRS]
    place.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return str(place)


def joined(folder: Path, name: str, sources: list[str], targets: list[str]) -> list[str]:
    """Files one after the other, as one file for each side."""
    sides = {folder / f"{name}.source": sources, folder / f"{name}.target": targets}
    for place, files in sides.items():
        lines = [line + "\n" for file in files for line in read_lines(file)]
        place.write_text("".join(lines), encoding="utf-8")
    return [str(place) for place in sides]


def trained(
    settings: str,
    run: Path,
    data: list[list[str]],
    steps: int | None,
    init: saccade.Run | None = None,
) -> saccade.Run:
    """The run of one part: made now, gone on with, or there already."""
    train, dev = data
    how = ["--train", *train, "--dev", *dev]
    how += [] if steps is None else ["--steps", steps]
    if init is not None and not saccade.Run(run).exists:  # later the folders may lie elsewhere
        how += ["--init", init.path]
    must("train", "--config", HERE / f"{settings}.toml", *how, "--out", run, "--resume")
    return saccade.Run(run)


def translated(run: saccade.Run, texts: str, output: Path) -> str:
    """What a model makes of the texts, unless what is there is newer than the model."""
    if not output.is_file() or output.stat().st_mtime_ns < run.weights.stat().st_mtime_ns:
        must("predict", run.path, "--input", texts, "--output", output)
    return str(output)


def report(run: saccade.Run) -> None:
    """The scores of the same translations: as published, and of detokenised text by sacrebleu."""
    kept = run.evaluation("test")
    columns = ([row[side] for row in kept["by_example"]] for side in ("prediction", "reference"))
    cased, _ = translation_metrics(*columns)
    published, without = (kept["metrics"][name] for name in (PUBLISHED, "BLEU"))
    rows = {
        f"{PUBLISHED}, as published": (published["value"], published["signature"]),
        "BLEU (detokenised, without case)": (without["value"], without["signature"]),
        "BLEU (detokenised, cased: the model writes no capitals)": (cased.value, cased.signature),
    }
    for name, (value, signature) in rows.items():
        say(f"{name} {figure(value)} ({signature})")


if __name__ == "__main__":
    try:
        command(recipe)
    except InputError as error:
        note(f"error: {error}")
        sys.exit(WRONG_INPUT)
