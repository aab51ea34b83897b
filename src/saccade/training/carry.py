"""What a task carries from one update to the next, between the ranks and the checkpoint.

Each rank holds the carries of its own micro-batches; only rank 0 writes checkpoints. They are
handed over in files, one a rank, that lie in the run's folder for a moment.
"""

from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from saccade.training.checkpoint import load_tensors, save_tensors

Carry = dict[str, Tensor] | None  # of one micro-batch: tensors by name, rows on some axis


def pack(carries: Sequence[Carry], rank: int, ranks: int) -> dict[str, Tensor]:
    """By name, each with the number of its micro-batch among those of all ranks."""
    return {
        f"{number * ranks + rank}.{name}": tensor.detach().clone()
        for number, carry in enumerate(carries)
        for name, tensor in (carry or {}).items()
    }


def unpack(tensors: dict[str, Tensor], rank: int, ranks: int) -> list[Carry]:
    """The carries of one rank, from those of all."""
    found: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        place, _, inner = name.partition(".")
        found.setdefault(int(place), {})[inner] = tensor
    mine = [place for place in found if place % ranks == rank]
    return [found.get(number * ranks + rank) for number in range(len(mine))]


def leave(folder: Path, rank: int, tensors: dict[str, Tensor]) -> None:
    """Put a rank's carries where another process takes them up."""
    save_tensors(_place(folder, rank), tensors, {})


def take(folder: Path, rank: int) -> dict[str, Tensor]:
    """What was left for or by this rank, once; nothing when nothing was."""
    place = _place(folder, rank)
    if not left(folder, rank):
        return {}
    found = load_tensors(place)
    place.unlink()
    return found


def left(folder: Path, rank: int) -> bool:
    """Whether there is anything to take, be it that nothing is carried."""
    return _place(folder, rank).is_file()


def _place(folder: Path, rank: int) -> Path:
    return folder / f".carry-{rank}.safetensors"
