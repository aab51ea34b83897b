"""Processes of one thread each that share memory and update one model together.

On a CPU this is faster than one process with all threads: no operator waits for the slowest core.
Every rank runs the same program; they meet in `exchange`, which is a barrier that carries numbers.
"""

import contextlib
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from saccade.errors import TrainingError
from saccade.training.machine import PARENT, one_thread_environment, python_command

SLOT = 64  # numbers a rank can hand over in one exchange
_SPINS = 2000  # looks before the core is given up: most waits are shorter
_CHECK_SECONDS = 1.0


@dataclass(slots=True)
class Team:
    """One rank of several; alone (size 1) it needs no shared memory and never waits."""

    rank: int = 0
    size: int = 1
    memory: mmap.mmap | None = None
    members: list["subprocess.Popen[str]"] = field(default_factory=list)
    _arrived: np.ndarray = field(default_factory=lambda: np.zeros(1, np.int64))
    _slots: np.ndarray = field(default_factory=lambda: np.zeros((2, 1, SLOT)))
    _round: int = 0
    _used: int = 0
    _parent: int = 0

    @classmethod
    def over(cls, descriptor: int, rank: int, size: int) -> "Team":
        """Join the team whose memory is behind this file descriptor."""
        memory = mmap.mmap(descriptor, 0)
        header = size + 2 * size * SLOT
        numbers = np.frombuffer(memory, np.int64, size)
        slots = np.frombuffer(memory, np.float64, 2 * size * SLOT, offset=8 * size)
        team = cls(rank, size, memory, _arrived=numbers, _slots=slots.reshape(2, size, SLOT))
        team._used, team._parent = _aligned(8 * header), _parent()
        return team

    def share(self, count: int) -> Float[Tensor, " N"]:
        """Zeros seen by all ranks; every rank asks for the same pieces in the same order."""
        if self.memory is None:
            return torch.zeros(count)
        tensor = torch.frombuffer(self.memory, dtype=torch.float32, count=count, offset=self._used)
        self._used += _aligned(4 * count)
        return tensor

    def exchange(self, numbers: Sequence[float]) -> Float[np.ndarray, "size slot"]:
        """Wait for all ranks; what each of them handed over."""
        assert len(numbers) <= SLOT, f"{len(numbers)} numbers, room for {SLOT}"
        self._round += 1
        # Two sets of slots by turns: a rank may write the next before all have read this one.
        slots = self._slots[self._round % 2]
        slots[self.rank, : len(numbers)] = numbers
        self._arrived[self.rank] = self._round
        self._wait()
        return slots[:, : len(numbers)].copy()

    def _wait(self) -> None:
        looks, checked_at = 0, time.monotonic()
        while self._arrived.min() < self._round:
            looks += 1
            if looks < _SPINS:
                continue
            os.sched_yield() if looks < 2 * _SPINS else time.sleep(1e-4)
            if looks % 64 == 0 and time.monotonic() - checked_at > _CHECK_SECONDS:
                self.check()
                checked_at = time.monotonic()

    def check(self) -> None:
        """A dead rank would be waited for for ever."""
        if self.rank and os.getppid() != self._parent:
            sys.exit(1)
        for number, member in enumerate(self.members, start=1):
            if member.poll() is not None:
                raise TrainingError(
                    f"training process {number} ended with code {member.returncode}; the last "
                    "checkpoint is intact: repeat the command with --resume (if memory ran out, "
                    "raise train.accumulate or lower train.batch_tokens and add --accept-changes)"
                )

    def disband(self) -> None:
        """End the other ranks, whatever they do: they hold nothing that is not shared."""
        for member in self.members:
            with contextlib.suppress(ProcessLookupError):
                member.kill()
            member.wait()
            if member.stdout is not None:
                member.stdout.close()
        self.members.clear()


def _aligned(size: int) -> int:
    """Up to a cache line, as torch allocates: kernels are slower elsewhere, and round otherwise."""
    return -(-size // 64) * 64


def gather_team(size: int, floats: int, command: Sequence[str]) -> Team:
    """Rank 0 of a team of `size` with room for `floats`; the others run `command` + their place."""
    if size == 1:
        return Team()
    room = 8 * (size + 2 * size * SLOT) + 4 * floats + 64 * 64
    descriptor = _anonymous_file(room)
    team = Team.over(descriptor, 0, size)
    environment = one_thread_environment()
    for rank in range(1, size):
        place = [str(rank), str(size), str(descriptor)]
        team.members.append(
            subprocess.Popen(  # noqa: S603  our own interpreter and module
                python_command(*command, *place),
                stdout=subprocess.PIPE,
                stdin=subprocess.DEVNULL,
                pass_fds=[descriptor],
                env=environment,
                text=True,
                encoding="utf-8",
            )
        )
    os.close(descriptor)  # the maps keep the memory, and give it back when they go
    return team


def follow_parent() -> None:
    """In a member: signals are the parent's to handle; die with it, even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != _parent():  # it died before we could ask to be told
        sys.exit(1)


def private_output() -> TextIO:
    """Standard output for our answers alone; what a user's code prints goes to standard error."""
    channel = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return channel


def _parent() -> int:
    """The process that started this one, as it said itself."""
    return int(os.environ.get(PARENT, os.getppid()))


def _anonymous_file(size: int) -> int:
    """A file in memory where the system has them, else a temporary one without a name."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("saccade")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.ftruncate(descriptor, size)
    return descriptor
