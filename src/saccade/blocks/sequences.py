"""A batch of sequences of different lengths."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from saccade.blocks.masks import padding_mask
from saccade.errors import InputError

SEGMENT = 256  # tokens of a prefix that are read at once


@dataclass(frozen=True, slots=True)
class Padded:
    """Token ids, padded on the right, and how many of each row are real."""

    tokens: Int[Tensor, "B S"]
    lengths: Int[Tensor, " B"]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], pad: int, device: torch.device) -> "Padded":
        """Rows of ids as a batch."""
        size = max(map(len, rows))
        tokens = torch.tensor([[*row, *[pad] * (size - len(row))] for row in rows], device=device)
        return cls(tokens, torch.tensor([len(row) for row in rows], device=device))

    @property
    def mask(self) -> Bool[Tensor, "B 1 1 S"] | None:
        """What may be attended to; None when nothing is padded, which saves the kernel work."""
        size = self.tokens.shape[1]
        if int(self.lengths.min()) == size:
            return None
        return padding_mask(self.lengths, size)[:, None, None]


def check_prefixes(prefix: Sequence[Sequence[int]], rows: int) -> None:
    """Exactly one a row, empty where a row has read nothing."""
    if len(prefix) != rows:
        raise InputError(f"{rows} rows, but {len(prefix)} prefixes: give one a row, or none at all")


def padded_in_front(
    rows: Sequence[Sequence[int]], device: torch.device | None = None
) -> tuple[Int[Tensor, "N T"], Int[Tensor, " N"]]:
    """Prefixes of different lengths, newest token last as in a cache, and how many are real."""
    size = max(map(len, rows), default=0)
    tokens = [[0] * (size - len(row)) + list(row) for row in rows]
    lengths = [len(row) for row in rows]
    return (
        torch.tensor(tokens, dtype=torch.long, device=device).view(len(rows), size),
        torch.tensor(lengths, dtype=torch.long, device=device),
    )
