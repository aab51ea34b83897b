"""What this machine offers: devices, cores, memory, and how to use them well."""

import contextlib
import ctypes
import os
import platform
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch

from saccade.errors import InputError

PARENT = "SACCADE_PARENT"  # the process that a process of ours must not outlive


def device_of(name: str) -> torch.device:
    """The device a config names; auto takes a GPU of CUDA, else the CPU (mps lacks float64)."""
    available = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    if name == "auto":
        return torch.device("cuda" if available["cuda"] else "cpu")
    kind = name.partition(":")[0]
    if not available.get(kind, False):
        there = ", ".join(kind for kind, usable in available.items() if usable)
        raise InputError(f"train.device = {name!r} is not usable here; usable: auto, {there}")
    try:
        return torch.device(name)
    except RuntimeError:
        raise InputError(f"train.device = {name!r} is no device; say cpu, cuda or cuda:1") from None


def autocast(precision: str, device: str) -> Callable[[], AbstractContextManager[Any]]:
    if precision == "float32":
        return nullcontext
    return partial(torch.autocast, device_of(device).type, torch.bfloat16)


def cores() -> int:
    """The cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_share_memory() -> bool:
    """Whether stores of one process become visible to others in order: ARM does not promise it."""
    ordered = platform.machine().lower() in ("x86_64", "amd64", "i686")
    return ordered and sys.platform != "win32"


def processes_that_pay(device: str, batch_tokens: int, compiled: bool) -> int:
    """One a core, as long as each has some hundred tokens a step to work on."""
    if device_of(device).type != "cpu" or compiled or not can_share_memory():
        return 1
    return max(1, min(cores(), batch_tokens // 256))


def python_command(module: str, *arguments: str) -> list[str]:
    """A module of ours in a process of its own; -P: no file of the current folder is imported."""
    return [sys.executable, "-P", "-m", module, *arguments]


def one_thread_environment() -> dict[str, str]:
    """For a process of ours: one thread, and saccade found where this one found it."""
    source = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    ours = {"PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false", PARENT: str(os.getpid())}
    return {**os.environ, **threads, **ours}


def keep_memory() -> None:
    """Ask the C library to keep freed memory: fresh pages cost more than the work done in them."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(None)
            for parameter in (-3, -1):  # M_MMAP_THRESHOLD, M_TRIM_THRESHOLD
                library.mallopt(parameter, 1 << 30)
