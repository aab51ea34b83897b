"""Processes that a test starts, and what they use."""

import resource


def seconds_of_children() -> float:
    """Of processor time, used by those that have ended: a busy machine does not matter."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
