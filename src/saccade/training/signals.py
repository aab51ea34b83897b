"""Ctrl-C and SIGTERM: noted, and acted upon when the update at hand is done."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any


class Interrupted(Exception):  # noqa: N818  not an error: the work is saved
    """A signal asked the run to stop; it has saved what it had."""

    def __init__(self, number: int):
        super().__init__(f"stopped by {signal.Signals(number).name}")
        self.exit_code = 128 + number


@contextlib.contextmanager
def noted_signals(note: Callable[[int], None]) -> Iterator[None]:
    """Inside, the two signals are told to `note` and do nothing else."""

    def handle(number: int, _: Any) -> None:
        note(number)

    before: dict[signal.Signals, Any] = {}
    with contextlib.suppress(ValueError):  # not the main thread: then signals are the caller's
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, handle)
    try:
        yield
    finally:
        for which, handler in before.items():
            signal.signal(which, handler)
