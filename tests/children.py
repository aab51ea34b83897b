"""Processes that a test starts, and what they use."""

import functools
import resource
import subprocess
import sys


def seconds_of_children() -> float:
    """Of processor time, used by those that have ended: a busy machine does not matter."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@functools.cache
def quick_seconds() -> float:
    """Of processor time, for what imports nothing heavy: 3 times what every command imports."""
    command, times = [sys.executable, "-c", "import cyclopts, rich.console, rich.markdown"], []
    for _ in range(3):  # the first may have to compile it
        before = seconds_of_children()
        subprocess.run(command, check=True)
        times.append(seconds_of_children() - before)
    return 3 * min(times)
