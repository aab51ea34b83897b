"""Files that survive a kill and a power cut: written whole beside their place, then renamed."""

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any, BinaryIO

Chunk = bytes | memoryview


def replace_file(path: Path, chunks: Iterable[Chunk]) -> None:
    """Write one file so that at any moment the old or the new one is there, whole."""
    fresh = beside(path)
    try:
        write_durably(fresh, chunks)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
    flush_folder(path.parent)


def beside(path: Path) -> Path:
    """Where this process writes what is to be at `path`."""
    return path.with_name(f".tmp-{os.getpid()}-{path.name}")


def remove_leftovers(folder: Path) -> None:
    """Tidy up after processes that died while writing; this one must not be writing there."""
    for path in folder.iterdir() if folder.is_dir() else ():
        owner = re.match(r"\.tmp-(\d+)-", path.name)
        if owner and (int(owner[1]) == os.getpid() or not _alive(int(owner[1]))):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it lives, and is another user's
        return True
    return True


def write_durably(path: Path, chunks: Iterable[Chunk]) -> dict[str, Any]:
    """Write and flush to the disk; the size and sum of what was meant to be written."""
    size, digest = 0, hashlib.sha256()
    with path.open("wb") as file:
        for chunk in chunks:
            file.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        settle(file)
    return {"size": size, "sha256": digest.hexdigest()}


def settle(file: BinaryIO) -> None:
    """On the disk, not on its way there."""
    file.flush()
    os.fsync(file.fileno())


def flush_folder(folder: Path) -> None:
    """Make renames and new names in this folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network disks cannot
            raise
    finally:
        os.close(descriptor)
