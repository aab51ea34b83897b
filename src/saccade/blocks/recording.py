"""Look inside a model while it runs, at no cost when off.

`record_attention` keeps the weights of every attention, `record_inside` all that one computes.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from saccade.errors import InputError, nearest

# The parts with a row a query.
BY_QUERY = ("weights", "query", "scores", "mask", "factor", "probabilities", "averages")


@dataclass(frozen=True, slots=True)
class Inside:
    """What one call of an attention computed, in order; what it has no such thing as is None."""

    weights: Float[Tensor, "B H T S"]
    query: Float[Tensor, "B H T Q"] | None = None
    keys: Float[Tensor, "B H S A"] | None = None  # as the score prepared them
    values: Float[Tensor, "B H S P"] | None = None
    scores: Float[Tensor, "B H T S"] | None = None  # before mask and softmax
    mask: Bool[Tensor, "#B #H #T S"] | None = None
    averages: Float[Tensor, "B H T P"] | None = None  # of the values, before any head is left out
    factor: Float[Tensor, "B H T S"] | None = None  # of a window, on what the softmax gives
    probabilities: Float[Tensor, "B H T S"] | None = None  # that a hard attention chooses by

    def of(self, heads: slice, queries: slice) -> "Inside":
        """A copy on the CPU, of some heads and queries."""
        cuts: dict[str, tuple[slice, ...]] = dict.fromkeys(BY_QUERY, (heads, queries))
        cuts |= dict.fromkeys(("keys", "values"), (heads,))
        found = {name: getattr(self, name) for name in cuts}
        if self.mask is not None:
            found["mask"] = self.mask.expand_as(self.weights)
        parts: dict[str, Any] = {
            name: None if x is None else x[:, *cuts[name]].detach().to("cpu", copy=True)
            for name, x in found.items()
        }
        return Inside(**parts)

    def newest(self) -> "Inside":
        """Of the last query alone."""
        parts = {name: getattr(self, name) for name in BY_QUERY}
        last: dict[str, Any] = {
            name: None if x is None else x[:, :, -1:] for name, x in parts.items()
        }
        return replace(self, **last)


class Observed(nn.Module):
    """An attention whose weights can be watched, and if it says so more than its weights."""

    probes: ClassVar[bool] = False  # True: it calls `probe` with what it computed
    switchable: ClassVar[bool] = False  # True: it passes what its heads found to `kept`
    heads: int = 1
    sums_to_one: bool = True  # False: a window may leave a query less, or nothing, to look at
    watcher: Callable[[Tensor], None] | None = None  # set by record_attention
    probe: Callable[[Inside], None] | None = None  # set by record_inside
    switches: Tensor | None = None  # (H,), 0 for a head that is off; set by without_heads

    @property
    def watched(self) -> bool:
        """Whether somebody looks, so that the formula must be computed in the open."""
        return self.watcher is not None or self.probe is not None

    def kept(self, averages: Float[Tensor, "B H T P"]) -> Float[Tensor, "B H T P"]:
        """What the heads found, zeros for those switched off."""
        if self.switches is None:
            return averages
        return averages * self.switches.to(averages)[:, None, None]


@dataclass(frozen=True, slots=True)
class Seen(Mapping[str, list[Tensor]]):
    """The weights by layer name, a (B, H, T, S) tensor for each call of the layer."""

    calls: dict[str, list[Tensor]] = field(default_factory=dict)

    def __getitem__(self, layer: str) -> list[Tensor]:
        return self.calls[layer]

    def __iter__(self) -> Iterator[str]:
        return iter(self.calls)

    def __len__(self) -> int:
        return len(self.calls)

    def follow(
        self, layer: str, path: Sequence[int], read: int | None = None
    ) -> Float[Tensor, "H T S"]:
        """The weights along a path of a search: its row in the batch of each step.

        Steps see ever more keys in self-attention: what a step could not see yet is zero. There,
        `read` says how many tokens the path had read before: its own keys are the newest, last.
        """
        rows = [self.calls[layer][step][row] for step, row in enumerate(path)]  # each (H, 1, S)
        if read is not None:
            rows = [row[..., -(read + step) :] for step, row in enumerate(rows, start=1)]
        longest = max(row.shape[-1] for row in rows)
        padded = [nn.functional.pad(row, (0, longest - row.shape[-1])) for row in rows]
        return torch.cat(padded, dim=1)


def attentions(model: Any) -> dict[str, Observed]:
    """Every attention of a module (or of what holds one as `.module`), by name, in its order."""
    module = model if isinstance(model, nn.Module) else model.module
    return {name: part for name, part in module.named_modules() if isinstance(part, Observed)}


def find_attention(model: Any, layer: str) -> Observed:
    """The attention of that name; an unknown one is the caller's mistake."""
    known = attentions(model)
    if layer not in known:
        raise InputError(f"no attention is called {layer!r}; {nearest(layer, known)}")
    return known[layer]


@contextmanager
def record_attention(
    model: Any, layers: Collection[str] | None = None, heads: Sequence[int] | None = None
) -> Iterator[Seen]:
    """Collect the attention weights of `model` (of some layers and heads) while the block runs."""
    seen = Seen()

    def watch(name: str) -> Callable[[Tensor], None]:
        def keep(weights: Tensor) -> None:
            chosen = weights if heads is None else weights[:, list(heads)]
            seen.calls.setdefault(name, []).append(chosen.detach().to("cpu", copy=True))

        return keep

    names = attentions(model) if layers is None else layers
    with assigned({find_attention(model, name): {"watcher": watch(name)} for name in names}):
        yield seen


@contextmanager
def record_inside(
    model: Any, layer: str, head: int | None = None, token: int | None = None
) -> Iterator[list[Inside]]:
    """Collect all that one attention computes, of one head and one query if chosen, call by call.

    An attention that does not probe gives its weights alone.
    """
    attention = find_attention(model, layer)
    calls: list[Inside] = []

    def keep(inside: Inside) -> None:
        calls.append(inside.of(_one(head), _one(token)))

    hooks: dict[str, Callable[[Any], None]] = {"watcher": lambda weights: keep(Inside(weights))}
    if attention.probes:
        hooks = {"probe": keep}
    with assigned({attention: hooks}):
        yield calls


@contextmanager
def newest_query(model: Any) -> Iterator[None]:
    """Who watches sees of each call its last query: the others were seen before.

    A model that slides beyond its context reads all of it again for each token.
    """

    def last(tell: Callable[[Any], None] | None, part: Callable[[Any], Any]) -> Any:
        return None if tell is None else lambda seen: tell(part(seen))

    hooks = {
        attention: {
            "watcher": last(attention.watcher, lambda weights: weights[:, :, -1:]),
            "probe": last(attention.probe, Inside.newest),
        }
        for attention in attentions(model).values()
    }
    with assigned(hooks):
        yield


def _one(place: int | None) -> slice:
    return slice(None) if place is None else slice(place, place + 1)


def check_head(head: int, heads: int) -> None:
    """Heads are counted from 0."""
    if not 0 <= head < heads:
        raise InputError(f"no head {head}: this layer has heads 0 to {heads - 1}")


@contextmanager
def assigned(values: Mapping[Observed, Mapping[str, Any]]) -> Iterator[None]:
    """Attributes of attentions for the time of a block, then what they were before."""
    before = {
        attention: {name: getattr(attention, name) for name in new}
        for attention, new in values.items()
    }
    _assign(values)
    try:
        yield
    finally:
        _assign(before)


def _assign(values: Mapping[Observed, Mapping[str, Any]]) -> None:
    for attention, attributes in values.items():
        for name, value in attributes.items():
            setattr(attention, name, value)
