"""A batch of sequences of different lengths."""

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from saccade.blocks.masks import padding_mask


@dataclass(frozen=True, slots=True)
class Padded:
    """Token ids, padded on the right, and how many of each row are real."""

    tokens: Int[Tensor, "B S"]
    lengths: Int[Tensor, " B"]

    @property
    def mask(self) -> Bool[Tensor, "B 1 1 S"] | None:
        """What may be attended to; None when nothing is padded, which saves the kernel work."""
        size = self.tokens.shape[1]
        if int(self.lengths.min()) == size:
            return None
        return padding_mask(self.lengths, size)[:, None, None]
