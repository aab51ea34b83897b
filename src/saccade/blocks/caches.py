"""What an attentive decoder remembers: its own past by row, and the sources, stored once."""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.blocks.attention import CrossAttention, SelfAttention, split_heads


@dataclass(frozen=True, slots=True)
class KeyValueCache:
    """Keys and values of every layer, newest last, so that rows of any age grow alike."""

    store: Float[Tensor, "layers 2 N H L K"]
    ages: Int[Tensor, " N"]  # how many tokens each row has read
    mask: Bool[Tensor, "N 1 1 L"] | None  # None: all rows are of one age

    @classmethod
    def empty(cls, layers: int, rows: int, heads: int, head_dim: int, like: Tensor) -> "KeyValueCache":
        store = like.new_empty(layers, 2, rows, heads, 0, head_dim)
        return cls(store, torch.zeros(rows, dtype=torch.long, device=like.device), None)

    def select(self, rows: Int[Tensor, " M"]) -> "KeyValueCache":
        mask = None if self.mask is None else self.mask[rows]
        return replace(self, store=self.store[:, :, rows], ages=self.ages[rows], mask=mask)

    def join(self, other: "KeyValueCache") -> "KeyValueCache":
        size = max(self.store.shape[-2], other.store.shape[-2])
        ages = torch.cat([self.ages, other.ages])
        store = torch.cat([_widen(self.store, size), _widen(other.store, size)], dim=2)
        return replace(self, store=store, ages=ages, mask=_newest(ages, size))

    def grow(self, counts: Int[Tensor, " N"], size: int) -> "KeyValueCache":
        """Room for `size` more tokens, the last `counts` of which are real in each row.

        The room is new memory, written once by the step that asked for it: the old value stays.
        """
        layers, two, rows, heads, length, head_dim = self.store.shape
        store = self.store.new_empty(layers, two, rows, heads, length + size, head_dim)
        store[..., :length, :] = self.store
        ages = self.ages + counts
        mask = self.mask
        if size > 1:
            mask = _newest(ages, length + size)
        elif mask is not None:
            mask = F.pad(mask, (0, 1), value=True)
        return replace(self, store=store, ages=ages, mask=mask)

    def attend(
        self,
        layer: int,
        attention: SelfAttention,
        x: Float[Tensor, "N T D"],
        mask: Bool[Tensor, "#N 1 #T L"] | None,
    ) -> Float[Tensor, "N T D"]:
        """Write the keys and values of x into the newest places, and attend to all."""
        query, keys, values = attention.project(x)
        self.store[layer, 0, :, :, -x.shape[1] :] = keys
        self.store[layer, 1, :, :, -x.shape[1] :] = values
        return attention.attend(query, self.store[layer, 0], self.store[layer, 1], mask)


@dataclass(frozen=True, slots=True)
class SourceMemory:
    """Keys and values of every layer for each source; rows point to their source."""

    store: Float[Tensor, "layers 2 B H S K"]
    mask: Bool[Tensor, "B 1 1 S"] | None
    index: Int[Tensor, " N"]  # the source of each row
    # Rows of one source are put side by side, as if they were positions of one query: place of
    # each row in a (B, width) grid. None: row i is alone with source i.
    places: Int[Tensor, " N"] | None
    width: int

    @classmethod
    def of(
        cls, store: Float[Tensor, "layers 2 B H S K"], mask: Bool[Tensor, "B 1 1 S"] | None
    ) -> "SourceMemory":
        index = torch.arange(store.shape[2], device=store.device)
        return cls(store, mask, index, None, 1)

    def select(self, rows: Int[Tensor, " M"]) -> "SourceMemory":
        return self._pointing(self.index[rows])._compact()

    def join(self, other: "SourceMemory") -> "SourceMemory":
        size = max(self.store.shape[-2], other.store.shape[-2])
        sources = self.store.shape[2]
        store = torch.cat([_pad(self.store, size), _pad(other.store, size)], dim=2)
        mask = None
        if (
            self.mask is not None
            or other.mask is not None
            or size != min(self.store.shape[-2], other.store.shape[-2])
        ):
            mask = torch.cat([self._full_mask(size), other._full_mask(size)])
        joined = replace(self, store=store, mask=mask)
        return joined._pointing(torch.cat([self.index, other.index + sources]))

    def attend(
        self, layer: int, attention: CrossAttention, x: Float[Tensor, "N T D"]
    ) -> Float[Tensor, "N T D"]:
        keys, values = self.store[layer]
        if self.places is None:
            return attention(x, keys, values, self.mask)
        if x.shape[1] > 1 or attention.watcher is not None:
            mask = None if self.mask is None else self.mask[self.index]
            return attention(x, keys[self.index], values[self.index], mask)
        query = attention.query(x).squeeze(1)  # (N, D)
        grid = query.new_zeros(keys.shape[0] * self.width, query.shape[-1])
        grid[self.places] = query
        heads = split_heads(grid.unflatten(0, (-1, self.width)), attention.heads)  # (B, H, W, K)
        context = attention.context(heads, keys, values, self.mask).flatten(0, 1)  # (B*W, D)
        return attention.output(context[self.places].unsqueeze(1))

    def _pointing(self, index: Int[Tensor, " M"]) -> "SourceMemory":
        sources = self.store.shape[2]
        if len(index) == sources and torch.equal(index, torch.arange(sources, device=index.device)):
            return replace(self, index=index, places=None, width=1)
        counts = index.bincount(minlength=sources)
        width = int(counts.max()) if len(index) else 1
        order = index.argsort(stable=True)
        first = counts.cumsum(0) - counts  # where the rows of each source begin in `order`
        nth = torch.empty_like(index)
        nth[order] = torch.arange(len(index), device=index.device) - first[index[order]]
        return replace(self, index=index, places=index * width + nth, width=width)

    def _compact(self) -> "SourceMemory":
        """Drop the sources no row points to, once they are many enough to be worth a copy."""
        alive, index = self.index.unique(return_inverse=True)
        if 4 * len(alive) > 3 * self.store.shape[2]:
            return self
        mask = None if self.mask is None else self.mask[alive]
        return replace(self, store=self.store[:, :, alive], mask=mask)._pointing(index)

    def _full_mask(self, size: int) -> Bool[Tensor, "B 1 1 S"]:
        mask = self.mask
        if mask is None:
            shape = (self.store.shape[2], 1, 1, self.store.shape[-2])
            mask = torch.ones(shape, dtype=torch.bool, device=self.store.device)
        return F.pad(mask, (0, size - mask.shape[-1]), value=False)


def _widen(store: Tensor, size: int) -> Tensor:
    """Empty places before the first, so that the newest stay last."""
    return F.pad(store, (0, 0, size - store.shape[-2], 0))


def _pad(store: Tensor, size: int) -> Tensor:
    return F.pad(store, (0, 0, 0, size - store.shape[-2]))


def _newest(ages: Int[Tensor, " N"], size: int) -> Bool[Tensor, "N 1 1 L"] | None:
    """Each row sees its newest places, as many as it has read."""
    if bool((ages == size).all()):
        return None
    places = torch.arange(size, device=ages.device)
    return (places >= size - ages.unsqueeze(1))[:, None, None]
