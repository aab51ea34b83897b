"""What an attentive decoder remembers of its sources: keys and values, stored once, by index."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from saccade.blocks.attention import CrossAttention, split_heads
from saccade.blocks.masks import padding_mask
from saccade.blocks.recurrent_attention import NoAttention, RecurrentAttention
from saccade.blocks.reinforce import Choice


@dataclass(frozen=True, slots=True)
class SourceMemory:
    """Keys and values of every layer for each source; rows point to their source."""

    keys: Float[Tensor, "layers B H S A"]
    values: Float[Tensor, "layers B H S K"]
    mask: Bool[Tensor, "B 1 1 S"] | None
    index: Int[Tensor, " N"]  # the source of each row
    # Rows of one source are put side by side, as if they were positions of one query: the cell of
    # each row in a (B, width) grid. None: the rows fill it in order.
    cells: Int[Tensor, " N"] | None
    width: int

    @classmethod
    def of(
        cls,
        keys: Float[Tensor, "layers B H S A"],
        values: Float[Tensor, "layers B H S K"],
        mask: Bool[Tensor, "B 1 1 S"] | None,
    ) -> "SourceMemory":
        index = torch.arange(keys.shape[1], device=keys.device)
        return cls(keys, values, mask, index, None, 1)

    @property
    def alone(self) -> bool:
        """Whether row i is the only one of source i."""
        return self.cells is None and self.width == 1

    def select(self, rows: Int[Tensor, " M"]) -> "SourceMemory":
        index = self.index[rows]
        return self if torch.equal(index, self.index) else self._pointing(index)._compact()

    def join(self, other: "SourceMemory") -> "SourceMemory":
        sizes = {self.keys.shape[-2], other.keys.shape[-2]}
        size = max(sizes)
        keys = torch.cat([_pad(self.keys, size), _pad(other.keys, size)], dim=1)
        values = torch.cat([_pad(self.values, size), _pad(other.values, size)], dim=1)
        mask = None
        if self.mask is not None or other.mask is not None or len(sizes) > 1:
            mask = torch.cat([self._full_mask(size), other._full_mask(size)])
        joined = replace(self, keys=keys, values=values, mask=mask)
        return joined._pointing(torch.cat([self.index, other.index + self.keys.shape[1]]))

    def attend(
        self, layer: int, attention: CrossAttention, x: Float[Tensor, "N T D"]
    ) -> Float[Tensor, "N T D"]:
        keys, values = self.keys[layer], self.values[layer]
        if self.alone:
            return attention(x, keys, values, self.mask)
        if x.shape[1] > 1 or attention.watched:
            mask = None if self.mask is None else self.mask[self.index]
            return attention(x, keys[self.index], values[self.index], mask)
        query = self.side_by_side(attention.query(x).squeeze(1))  # (B, W, D)
        context = attention.context(split_heads(query, attention.heads), keys, values, self.mask)
        return attention.output(self.apart(context).unsqueeze(1))

    def look(
        self,
        attention: RecurrentAttention | NoAttention,
        query: Float[Tensor, "N T Q"],
        steps: Int[Tensor, "N T"],
    ) -> tuple[Float[Tensor, "N T P"], Choice | None]:
        """A recurrent decoder's attention: one layer, one head, in a search one step at a time."""
        # Squeezed, not selected: the gradient of a selection is a copy full of zeros, each step.
        keys, values = self.keys.squeeze((0, 2)), self.values.squeeze((0, 2))  # (B, S, A)
        mask = None if self.mask is None else self.mask.squeeze(1)  # (B, 1, S)
        if self.alone:
            return attention(query, keys, values, mask, steps)
        if attention.watched:
            mask = None if mask is None else mask[self.index]
            return attention(query, keys[self.index], values[self.index], mask, steps)
        query, steps = self.side_by_side(query.squeeze(1)), self.side_by_side(steps.squeeze(1))
        context, choice = attention(query, keys, values, mask, steps)
        assert choice is None, "nothing is drawn when not training"
        return self.apart(context).unsqueeze(1), None

    def side_by_side(self, x: Shaped[Tensor, "N *D"]) -> Shaped[Tensor, "B W *D"]:
        """The rows of each source as if they were positions of one query."""
        sources, width = self.keys.shape[1], self.width
        if self.cells is not None:
            grid = x.new_zeros(sources * width, *x.shape[1:])
            grid[self.cells] = x
            x = grid
        return x.view(sources, width, *x.shape[1:])

    def apart(self, x: Float[Tensor, "B W D"]) -> Float[Tensor, "N D"]:
        rows = x.flatten(0, 1)
        return rows if self.cells is None else rows[self.cells]

    def _pointing(self, index: Int[Tensor, " M"]) -> "SourceMemory":
        sources, number = self.keys.shape[1], torch.arange(len(index), device=index.device)
        counts = index.bincount(minlength=sources)
        width = int(counts.max()) if len(index) else 1
        order = index.argsort(stable=True)
        first = counts.cumsum(0) - counts  # where the rows of each source begin in `order`
        nth = torch.empty_like(index)
        nth[order] = number - first[index[order]]
        cells = index * width + nth
        full = len(index) == sources * width and torch.equal(cells, number)
        return replace(self, index=index, cells=None if full else cells, width=width)

    def _compact(self) -> "SourceMemory":
        """Drop the sources no row points to, once they are many enough to be worth a copy."""
        alive, index = self.index.unique(return_inverse=True)
        if 4 * len(alive) > 3 * self.keys.shape[1]:
            return self
        mask = None if self.mask is None else self.mask[alive]
        kept = replace(self, keys=self.keys[:, alive], values=self.values[:, alive], mask=mask)
        return kept._pointing(index)

    def _full_mask(self, size: int) -> Bool[Tensor, "B 1 1 S"]:
        if self.mask is None:
            _, sources, _, length, _ = self.keys.shape
            lengths = torch.full((sources,), length, device=self.keys.device)
            return padding_mask(lengths, size)[:, None, None]
        return F.pad(self.mask, (0, size - self.mask.shape[-1]), value=False)


def _pad(store: Tensor, size: int) -> Tensor:
    return F.pad(store, (0, 0, 0, size - store.shape[-2]))
