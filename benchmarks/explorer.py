"""How the explorer feels: from Enter to the picture, in the grid of heads, and with a long text.

Times are taken in the page: from the key to the second frame after the last change.
"""

import json
import random
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from competitors import say
from report import Report, Spread, Target

CORPUS = "builtin:french-english"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
LAYERS, HEADS, TOKENS = 6, 8, 64
LONG = 512
SENTENCE = " ".join(["le chat voit la vieille maison de Jane en septembre"] * 3)

# Resolves to the milliseconds that `act` and all it sets off take.
TIMED = """async (act) => {
  const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  const started = performance.now();
  (new Function(act.code))();
  if (act.until) while (!document.querySelector(act.until)) await frame();
  await frame();
  return performance.now() - started;
}"""


@dataclass(frozen=True, slots=True)
class ExplorerOptions:
    rounds: int = 9
    run: Path | None = None  # a `small` run; made and hardly trained when absent


def explorer(options: ExplorerOptions) -> Report:
    """The three measurements, by a real browser."""
    from playwright.sync_api import sync_playwright

    browser = shutil.which("chromium")
    if browser is None:
        raise SystemExit("needs chromium: apt-get install chromium")
    with (
        tempfile.TemporaryDirectory() as folder,
        exploring(options.run or small_run(Path(folder))) as place,
        sync_playwright() as playwright,
    ):
        # The page forbids code from strings; what measures it may use it.
        chromium = playwright.chromium.launch(executable_path=browser, args=FLAGS)
        context = chromium.new_context(viewport={"width": 1280, "height": 900}, bypass_csp=True)
        measured = {
            "Enter to picture, 20 tokens": keystrokes(context, place, options.rounds),
            "a click in the grid": clicks(context, place, options.rounds),
            "the longest standstill, 512 tokens": standstills(context, place),
        }
        chromium.close()
    wanted = dict(zip(measured, (500.0, 100.0, 1000.0), strict=True))
    return Report(
        name="explorer",
        title="The explorer",
        columns=["", "milliseconds"],
        rows=[[name, str(Spread.of(times))] for name, times in measured.items()],
        targets=[
            Target(f"{name}, milliseconds", wanted[name], Spread.of(times).median, at_most=True)
            for name, times in measured.items()
        ],
        notes=[f"grid of {LAYERS} layers x {HEADS} heads x {TOKENS} tokens, answers made up"],
        measurements=measured,
    )


def keystrokes(context: Any, place: str, rounds: int) -> list[float]:
    """From Enter to the drawn matrix; the text changes every time."""
    page = context.new_page()
    page.goto(place)
    page.wait_for_selector("[data-testid=source]")
    times = []
    for number in range(rounds + 1):
        words = SENTENCE.split()[: 19 - number % 2]
        page.fill("[data-testid=source]", " ".join(words))
        act = """document.querySelectorAll("[data-view]").forEach((each) => each.remove());
          document.querySelector("[data-testid=source]").dispatchEvent(
            new KeyboardEvent("keydown", {key: "Enter", bubbles: true, cancelable: true}));"""
        times.append(page.evaluate(TIMED, {"code": act, "until": "[data-testid=cell]"}))
    page.close()
    return [float(time) for time in times[1:]]


def clicks(context: Any, place: str, rounds: int) -> list[float]:
    """Choose one head after the other in a large grid."""
    page = context.new_page()
    page.route("**/v1/predict/stream", lambda route: route.fulfill(
        content_type="text/event-stream", body=f"event: done\ndata: {json.dumps(made_up())}\n\n"
    ))  # fmt: skip
    page.goto(place)
    page.fill("[data-testid=source]", "a")
    page.keyboard.press("Enter")
    page.wait_for_selector("[data-view] svg, [data-view] canvas")
    times = []
    for number in range(2 * rounds):
        head = f"aside .head[data-layer='{number % LAYERS}'][data-head='{number % HEADS}']"
        act = f'document.querySelector("{head}").click()'
        times.append(page.evaluate(TIMED, {"code": act, "until": None}))
    page.close()
    return [float(time) for time in times[1:]]


def standstills(context: Any, place: str) -> list[float]:
    """The longest time in which the page could not react while a long text came in."""
    page = context.new_page()
    page.goto(place)
    page.evaluate(
        """() => { window.blocked = [0]; new PerformanceObserver((list) => {
          for (const each of list.getEntries()) window.blocked.push(each.duration);
        }).observe({type: "longtask"}); }"""
    )
    page.fill("[data-testid=source]", " ".join((SENTENCE.split() * 30)[:LONG]))
    page.keyboard.press("Enter")
    page.wait_for_selector("canvas.pixels", timeout=300_000)
    page.wait_for_timeout(500)
    blocked = page.evaluate("window.blocked")
    page.close()
    return [max(float(time) for time in blocked)]


def made_up() -> dict[str, Any]:
    """An answer with a large grid, as the API would give it."""
    draw = random.Random(1)

    def matrix() -> list[list[float]]:
        rows = [[draw.random() ** 8 for _ in range(TOKENS)] for _ in range(TOKENS)]
        return [[round(weight / sum(row), 4) for weight in row] for row in rows]

    tokens = [{"text": f"w{n}", "word": n, "id": n, "given": False, "probability": 0.5,
               "alternatives": []} for n in range(TOKENS)]  # fmt: skip
    sentence = {"text": "", "tokens": tokens, "words": [token["text"] for token in tokens]}
    layers = [
        {"name": f"decoder.{n}", "weights": [matrix() for _ in range(HEADS)]} for n in range(LAYERS)
    ]
    attention = {"kind": "cross", "rows": "target", "columns": "source", "causal": False,
                 "scale": 1, "layers": layers, "chosen": None}  # fmt: skip
    prediction = {"text": "", "score": 0, "truncated": False, "source": sentence,
                  "target": sentence, "read": sentence, "alternatives": [],
                  "attention": [attention], "tree": []}  # fmt: skip
    return {"run": "run", "predictions": [prediction], "seconds": 0}


@contextmanager
def exploring(folder: Path) -> Iterator[str]:
    from saccade.serving.app import create_app
    from saccade.serving.engine import Engine, load_runs
    from saccade.serving.server import served

    engine = Engine(load_runs([folder]))
    try:
        with served(create_app(engine)) as place:
            yield place
    finally:
        engine.close()


def small_run(folder: Path) -> Path:
    """A `small` Transformer after one update: as slow as a trained one, and its outputs longer."""
    import saccade

    say("no run was given: making a `small` one, hardly trained")
    made = saccade.train(
        "translate",
        train=f"{CORPUS}/train",
        preset="small",
        steps=1,
        out=folder / "run",
        quiet=True,
    )
    return made.path
