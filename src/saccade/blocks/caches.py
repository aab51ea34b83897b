"""What an attentive decoder remembers of its own past: keys and values, row by row."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from saccade.blocks.attention import SelfAttention
from saccade.blocks.masks import causal_mask, combine, newest_mask
from saccade.blocks.positions import Positions

SPARE = 4  # places, at least


class Room:
    """Memory for the keys and values of a cache, with places to spare behind those in use."""

    __slots__ = ("keys", "used", "values")

    def __init__(
        self,
        keys: Float[Tensor, "layers N H C A"],
        values: Float[Tensor, "layers N H C K"],
        used: int,
    ):
        self.keys, self.values = keys, values
        self.used = used  # places that some cache has; only the one that ends here may go on

    def takes(self, start: int, end: int) -> bool:
        """Whether the places from start to end are there and nobody's."""
        same_mode = self.keys.is_inference() == torch.is_inference_mode_enabled()
        return same_mode and self.used == start and end <= self.keys.shape[-2]

    def shown(self, length: int, end: int) -> tuple[Tensor, Tensor]:
        """The `length` places before `end`, of keys and of values."""
        start = end - length
        return self.keys.narrow(-2, start, length), self.values.narrow(-2, start, length)

    def select(self, rows: Int[Tensor, " M"], used: int) -> "Room":
        """A copy for some rows."""
        rows = rows.to(self.keys.device)  # search works on the CPU
        return Room(self.keys.index_select(1, rows), self.values.index_select(1, rows), used)


class LayerCache(NamedTuple):
    """All that one layer of a cache shows, and its newest places, to be written once."""

    keys: Float[Tensor, "N H L A"]
    values: Float[Tensor, "N H L K"]
    new_keys: Float[Tensor, "N H T A"]
    new_values: Float[Tensor, "N H T K"]

    def write(
        self, keys: Float[Tensor, "N H T A"], values: Float[Tensor, "N H T K"]
    ) -> tuple[Float[Tensor, "N H L A"], Float[Tensor, "N H L K"]]:
        """Fill the newest places; all that the layer has now."""
        self.new_keys.copy_(keys)
        self.new_values.copy_(values)
        return self.keys, self.values


@dataclass(frozen=True, slots=True)
class KeyValueCache:
    """Keys and values of every layer, newest last, so that rows of any age grow alike.

    A value: what it shows never changes. Growing writes behind it, into room that several caches
    share, if it is the newest of them; an older one, having another future, grows in a copy.
    """

    keys: Float[Tensor, "layers N H L A"]  # as the score prepared them, which sets their width
    values: Float[Tensor, "layers N H L K"]
    ages: Int[Tensor, " N"]  # how many tokens each row has read
    mask: Bool[Tensor, "N 1 1 L"] | None  # None: all rows are of one age
    room: Room | None = None  # None: no places to spare
    end: int = 0  # the place in the room behind the newest token

    @classmethod
    def of(
        cls, keys: Float[Tensor, "layers N H L A"], values: Float[Tensor, "layers N H L K"]
    ) -> "KeyValueCache":
        """Rows that have all read the same number of tokens, none at the start."""
        _, rows, _, length, _ = keys.shape
        return cls(keys, values, torch.full((rows,), length, device=keys.device), None)

    @classmethod
    def empty(
        cls, layers: int, rows: int, heads: int, like: Float[Tensor, "V D"]
    ) -> "KeyValueCache":
        """Rows that have read nothing, for a model as wide as its embedding."""
        nothing = like.new_empty(layers, rows, heads, 0, like.shape[1] // heads)
        return cls.of(nothing, nothing)

    @property
    def length(self) -> int:
        """How many tokens the oldest row has read."""
        return self.keys.shape[-2]

    def select(self, rows: Int[Tensor, " M"]) -> "KeyValueCache":
        ages = self.ages[rows]
        if self.mask is None and self.room is not None:  # with the places to spare: one copy a step
            room = self.room.select(rows, self.end)
            return KeyValueCache(*room.shown(self.length, self.end), ages, None, room, self.end)
        keys, values = self.keys[:, rows], self.values[:, rows]
        if self.mask is None:
            return KeyValueCache(keys, values, ages, None)
        oldest = int(ages.max()) if len(ages) else 0  # places that only older rows had are dropped
        unused = keys.shape[-2] - oldest
        keys, values = keys[..., unused:, :], values[..., unused:, :]
        return KeyValueCache(keys, values, ages, newest_mask(ages, oldest))

    def join(self, other: "KeyValueCache") -> "KeyValueCache":
        size = max(self.length, other.length)
        ages = torch.cat([self.ages, other.ages])
        keys = torch.cat([_widen(self.keys, size), _widen(other.keys, size)], dim=1)
        values = torch.cat([_widen(self.values, size), _widen(other.values, size)], dim=1)
        return KeyValueCache(keys, values, ages, newest_mask(ages, size))

    def newest(self, size: int) -> "KeyValueCache":
        """Only the last `size` places: what came before is forgotten."""
        if self.length <= size:
            return self
        start, ages = self.length - size, self.ages.clamp(max=size)
        keys, values = self.keys[..., start:, :], self.values[..., start:, :]
        mask = None if self.mask is None else newest_mask(ages, size)
        return KeyValueCache(keys, values, ages, mask, self.room, self.end)

    def grow(self, size: int, counts: Int[Tensor, " N"] | None = None) -> "KeyValueCache":
        """Places for `size` more tokens; with `counts`, only the last so many of a row are real.

        They are written once, by the step that asked for them.
        """
        length = self.length + size
        room, end = self.room, self.end + size
        if room is None or not room.takes(self.end, end):
            # Greedy search fills what is to spare, beam search copies it at each choice of rows.
            spare = max(SPARE, length // 4)
            keys, values = (_lengthen(s, size + spare) for s in (self.keys, self.values))
            room, end = Room(keys, values, self.length), length
        room.used = end
        keys, values = room.shown(length, end)
        if counts is not None:
            ages = self.ages + counts
            return KeyValueCache(keys, values, ages, newest_mask(ages, length), room, end)
        mask = None if self.mask is None else F.pad(self.mask, (0, size), value=True)
        return KeyValueCache(keys, values, self.ages + size, mask, room, end)

    def encode(self, positions: Positions, size: int) -> Float[Tensor, "*N T D"]:
        """The vectors of the positions of the newest tokens."""
        if self.mask is None:  # all rows are of one age
            return positions.first(self.length)[-size:]
        before = torch.arange(size, 0, -1, device=self.ages.device)
        return positions((self.ages.unsqueeze(1) - before).clamp(min=0))  # 0: no token

    def mask_of(self, size: int) -> Bool[Tensor, "#N 1 #T L"] | None:
        """What the newest tokens may look at: themselves and what their row read before."""
        if size == 1:
            return self.mask
        causal = causal_mask(size, self.length, device=self.keys.device)
        return combine(self.mask, causal[None, None])

    def layers(self) -> Iterator[LayerCache]:
        """Every layer with its newest place; without gradients, as all are cut out at once."""
        stores = (self.keys, self.values)
        newest = (store.narrow(-2, self.length - 1, 1) for store in stores)
        return map(LayerCache._make, zip(*(x.unbind() for x in (*stores, *newest)), strict=True))

    def append(
        self,
        layer: int,
        keys: Float[Tensor, "N H T A"],
        values: Float[Tensor, "N H T K"],
    ) -> tuple[Float[Tensor, "N H L A"], Float[Tensor, "N H L K"]]:
        """Write a layer's keys and values into the newest places; all that it has now."""
        stores, size = (self.keys[layer], self.values[layer]), keys.shape[-2]
        newest = (store.narrow(-2, self.length - size, size) for store in stores)
        return LayerCache(*stores, *newest).write(keys, values)

    def attend(
        self,
        layer: int,
        attention: SelfAttention,
        x: Float[Tensor, "N T D"],
        mask: Bool[Tensor, "#N 1 #T L"] | None,
    ) -> Float[Tensor, "N T D"]:
        """Write the keys and values of x into the newest places, and attend to all."""
        query, keys, values = attention.project(x)
        return attention.attend(query, *self.append(layer, keys, values), mask)


def _widen(store: Tensor, size: int) -> Tensor:
    """Empty places before the first, so that the newest stay last."""
    return F.pad(store, (0, 0, size - store.shape[-2], 0))


def _lengthen(store: Tensor, size: int) -> Tensor:
    """A copy with `size` unwritten places after the last."""
    *others, length, width = store.shape
    longer = store.new_empty(*others, length + size, width)
    longer[..., :length, :] = store
    return longer
