"""Photograph the explorer on the demo's run: docs/explorer.png, and it dark, upright and as a tree.

Takes the run in demo/; where there is none, `saccade demo` trains it first.
"""

import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from playwright.sync_api import sync_playwright

from saccade.cli import run
from saccade.serving.app import create_app
from saccade.serving.engine import Engine, load_runs
from saccade.serving.server import served

DOCS = Path(__file__).parent
DEMO = DOCS.parent / "demo"
SENTENCE = "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]
COMMON = {"text": SENTENCE, "method": "beam", "pin": "target rows 8"}  # "it"
DESK, PHONE = {"width": 1280, "height": 960}, {"width": 390, "height": 844}
PICTURES = [  # file, size, colours, what the link adds
    ("explorer", DESK, "light", {}),
    ("explorer-dark", DESK, "dark", {}),
    ("explorer-tree", DESK, "light", {"view": "tree"}),
    ("explorer-phone", PHONE, "light", {}),
]


def main() -> None:
    folder = DEMO / "run"
    if not (folder / "model.safetensors").is_file() and (
        failed := run(["demo", "--out", str(DEMO)])
    ):
        sys.exit(failed)
    browser = shutil.which("chromium")
    if browser is None:
        sys.exit("needs chromium: apt-get install chromium")
    with exploring(folder) as place, sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=browser, args=FLAGS)
        for name, size, colours, more in PICTURES:
            page = chromium.new_page(viewport=size, color_scheme=colours)
            page.goto(f"{place}#{urlencode({**COMMON, **more})}")
            page.wait_for_selector("[data-view] svg")
            page.wait_for_selector("#work[hidden]", state="attached")
            page.wait_for_timeout(500)  # the arithmetic comes by itself
            page.screenshot(path=DOCS / f"{name}.png", full_page=size is PHONE)
            page.close()
            sys.stdout.write(f"{DOCS / name}.png\n")
        chromium.close()


@contextmanager
def exploring(folder: Path) -> Iterator[str]:
    engine = Engine(load_runs([folder]))
    try:
        with served(create_app(engine)) as place:
            yield place
    finally:
        engine.close()


if __name__ == "__main__":
    main()
