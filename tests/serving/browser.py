"""A real browser, a server for it, and pages that reach nothing else."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",  # the network is cut off
]  # fmt: skip
INSTALL = "apt-get install chromium fonts-noto-core fonts-noto-cjk fonts-noto-color-emoji"


@contextmanager
def chromium() -> Iterator[Any]:
    """Debian's chromium; without it tests are skipped with what to type, in CI they fail."""
    path = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        missing = f"needs chromium and playwright: {INSTALL}; pip install playwright"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(missing)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS, timeout=180_000)
        yield browser
        browser.close()


@dataclass
class Explorer:
    """A page as a person sees it; what goes wrong in it is kept."""

    page: Any
    address: str
    problems: list[str] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Keep errors, and what was asked for."""
        self.page.on("request", lambda request: self.reached.append(request.url))
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on(
            "console",
            lambda said: self.problems.append(said.text) if said.type == "error" else None,
        )

    def open(self, link: str = "") -> None:
        self.page.goto(self.address + link)
        self.page.wait_for_selector("[data-testid=source]")

    def ask(self, text: str) -> str:
        """Type, press Enter, and read the answer."""
        self.page.fill("[data-testid=source]", text)
        self.page.keyboard.press("Enter")
        self.settle()
        return self.output()

    def settle(self) -> None:
        """Until nothing is being worked on and the picture stands."""
        self.page.wait_for_selector("#work[hidden]", state="attached")
        self.page.wait_for_selector("[data-view] .pane-view > *")

    def output(self, run: str = "small") -> str:
        return str(self.page.inner_text(f"[data-testid=output][data-run={run}]"))

    def texts(self, selector: str) -> list[str]:
        return [str(text) for text in self.page.locator(selector).all_text_contents()]

    def count(self, selector: str) -> int:
        return int(self.page.locator(selector).count())
