"""saccade demo: the whole story on the built-in corpus, in about two minutes on two cores."""

import math
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from saccade.cli.decode import EngineFlags, SearchFlags
from saccade.cli.flags import Switch
from saccade.cli.terminal import console, note, this_command
from saccade.errors import InputError, TooShortError, TrainingError, install

if TYPE_CHECKING:
    from rich.console import Console

    from saccade.training.model import Model
    from saccade.training.run import Run

CORPUS = "builtin:french-english"
MARK = ".saccade-demo"  # in a folder that a demo made
NEW = "run.new"  # what is still being trained: an earlier demo's run stays until this one is
OLD = "run.old"  # that one, while the new one takes its place
PICTURES = ("alignment.png", "alignment.svg")
MADE = {MARK, ".gitignore", NEW, OLD, "run", *PICTURES}  # what it may replace
VOCABULARY = "task.vocab_size=1500"  # the corpus has about as many words
AFTER_MINUTES = 0.3  # what scoring and drawing take
ENOUGH = 500  # updates: with fewer, what it says is often wrong
QUICK_STEPS, QUICK_TESTS = 30, 16
QUICK = ("train.batch_tokens=256", "train.threads=1")
UNSEEN = 2  # test sentences shown
SHOWN = "Jane visite l'Afrique en septembre"
TRANSLATED = (
    SHOWN,
    "L'animal n'a pas traversé la rue parce qu'il était trop fatigué.",
    "L'animal n'a pas traversé la rue parce qu'elle était trop large.",
    "la zone économique européenne",
)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DemoFlags:
    """Where to, and how long."""

    out: Path = Path("demo")
    """Folder for the run and the pictures; what an earlier demo left there is replaced."""
    minutes: float = 2.0
    """Minutes in all, training and scoring included."""
    quick: Annotated[Switch, Parameter(env_var="SACCADE_QUICK")] = False
    """Only check that it works: a few steps, a few sentences."""


def demo(*, flags: DemoFlags = DemoFlags()) -> int | None:
    """Train a French-English translator on the built-in corpus, score it, look inside it."""
    if not 0 < flags.minutes < math.inf:
        raise InputError(f"--minutes {flags.minutes:g}: it must be a number above 0")
    with _room(flags.out):
        return _shown(flags)


def _shown(flags: DemoFlags) -> int | None:
    from saccade.cli.train import called_with
    from saccade.training.model import load
    from saccade.training.signals import Interrupted

    page = console()
    page.print("[bold]saccade demo[/]: learning French → English from the built-in corpus")
    page.print(f"[dim]{_plan(flags)}[/]\n")
    try:
        trained = _trained(flags)
    except Interrupted as stop:
        note(f"{stop}; the demo starts anew with: {this_command(*called_with.get())}")
        return stop.exit_code
    run = _in_place(trained, flags.out)
    model = load(run.path)
    if not flags.quick and (made := model.run.metrics()[-1]["step"]) < ENOUGH:
        page.print(f"[dim]only {made:,} updates in this time: with --minutes 5 it says more[/]")
    tested = _score(page, model, quick=flags.quick)
    _translate(page, model, tested)
    _look_inside(page, model, flags.out)
    _say_next(page, run)
    return None


@contextmanager
def _room(out: Path) -> Iterator[None]:
    """Inside, the folder is this demo's; of what was there only a demo's own is ever removed."""
    from saccade.training.run import Run

    if out.exists():
        if not out.is_dir() or (any(out.iterdir()) and not (out / MARK).is_file()):
            raise InputError(f"{out} is there and no demo made it; choose another --out")
        if others := sorted(path.name for path in out.iterdir() if path.name not in MADE):
            raise InputError(
                f"{out} holds what no demo made: {', '.join(others)}; move it, or choose "
                "another --out"
            )
    with Run(out).locked():  # to the end: scores and pictures are still to come after the training
        (out / MARK).touch()
        with Run(out / "run").locked(), Run(out / NEW).locked():  # either may be trained on
            for name in (NEW, OLD):
                _remove(out / name)
        (out / ".gitignore").write_text("*\n")
        yield


def _in_place(trained: "Run", out: Path) -> "Run":
    """Replace what an earlier demo made; its folder stays: it may be the current one, or a link."""
    from saccade.training.run import Run

    run = Run(out / "run")
    with run.locked():
        run.path.rename(out / OLD)
        trained.path.rename(run.path)
        for name in (OLD, *PICTURES):
            _remove(out / name)
    card = run.card.read_text(encoding="utf-8")
    run.write_text(run.card.name, card.replace(str(trained.path), str(run.path)))
    return run


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _plan(flags: DemoFlags) -> str:
    if flags.quick:
        return f"quick: {QUICK_STEPS} steps, just to see it work"
    return f"40,000 sentence pairs, a Transformer, {flags.minutes:g} minutes on this machine"


def _trained(flags: DemoFlags) -> "Run":
    from saccade.cli.train import TrainFlags, began_at, train_with

    chosen = TrainFlags(
        out=flags.out / NEW,
        model="transformer",
        preset="tiny",
        train=[f"{CORPUS}/train"],
        dev=None if flags.quick else [f"{CORPUS}/dev"],
        steps=QUICK_STEPS if flags.quick else None,
        minutes=None if flags.quick else max(0.1, flags.minutes - AFTER_MINUTES),
        processes=1 if flags.quick else None,
        set=[VOCABULARY, *QUICK] if flags.quick else [VOCABULARY],
    )
    try:
        (run,) = train_with(chosen, chosen.tables("translate"), [], started_at=began_at.get())
    except TooShortError:
        raise TrainingError(
            f"{flags.minutes:g} minutes were over before it could learn: on this machine, or with "
            "so much else at work, the demo needs more --minutes"
        ) from None
    return run


def _score(page: "Console", model: "Model", *, quick: bool) -> list[dict[str, Any]]:
    """Score it on the test set; what it made of each example of it."""
    from saccade.cli.evaluate import score_all

    examples = model.task.examples([f"{CORPUS}/test"], note)
    if quick:
        examples = {side: texts[:QUICK_TESTS] for side, texts in examples.items()}
    one = 1 if quick else None
    decoding, workers = SearchFlags(beam=one), EngineFlags(workers=one)
    found = score_all(model, examples, decoding, workers)
    stated = decoding.stated(model.task.options)
    evaluation = replace(found, decoding={**stated, "precision": workers.precision})
    model.run.write_evaluation("test", evaluation)
    page.print(
        f"\n[bold]How good is it?[/] {len(found.examples):,} sentences of shapes it never saw:"
    )
    for metric in evaluation.metrics:
        page.print(f"  {metric.name:5} [bold]{metric.value:5.1f}[/]  [dim]{metric.signature}[/]")
    return evaluation.examples


def _translate(page: "Console", model: "Model", tested: list[dict[str, Any]]) -> None:
    from rich.markup import escape

    page.print("\n[bold]What does it say?[/] Sentences of the lectures; it has learned from these:")
    found = model.predict(list(TRANSLATED))
    for source, prediction in zip(TRANSLATED, found, strict=True):
        page.print(f"  {source}")
        page.print(f"  [blue]{escape(prediction.text)}[/]\n")
    page.print(f"The first {UNSEEN} of the test set; it has never seen these:")
    for example in tested[:UNSEEN]:
        page.print(f"  {escape(example['source'])}")
        page.print(f"  [blue]{escape(example['prediction'])}[/]")
        page.print(f"  [dim]meant: {escape(example['reference'])}[/]\n")


def _look_inside(page: "Console", model: "Model", out: Path) -> None:
    prediction = model(SHOWN)
    assert prediction.attention is not None
    words = model.words(SHOWN, prediction)
    drawn = words if words.target else prediction.attention  # it may say nothing but the end
    page.print("[bold]What did it look at?[/] Each English word (a row) and the French words:\n")
    for line in drawn.text(width=min(76, max(40, page.width - 2))).split("\n"):
        page.print(f"  {line}", markup=False)
    for suffix in ("png", "svg"):
        drawn.save(out / f"alignment.{suffix}")
    page.print(f"\n  as pictures: {out / 'alignment.png'}, {out / 'alignment.svg'}")


def _say_next(page: "Console", run: "Run") -> None:
    from rich.markup import escape

    path = run.path
    page.print("\n[bold]What next?[/]")
    browsing = [] if find_spec("fastapi") else [(install("serve"), "once, for the next line")]
    for command, does in (
        (f'echo "Jane visite Paris." | {this_command("predict", path)}', "translate your own"),
        *browsing,
        (this_command("explore", path), "see what it looks at, in a browser"),
        (this_command("eval", path, "--data", f"{CORPUS}/test"), "score it again"),
        (this_command("train", "--help"), "train on your own files"),
        (this_command("models"), "see what else there is"),
    ):
        page.print(f"  {escape(command)}  [dim]# {does}[/]")
