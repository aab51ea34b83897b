"""Look inside a model while it runs: the weights of every attention, at no cost when off."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn

from saccade.errors import InputError, nearest


class Observed(nn.Module):
    """An attention whose weights can be watched; `watcher` is set by record_attention."""

    watcher: Callable[[Tensor], None] | None = None


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


@contextmanager
def record_attention(
    model: nn.Module, layers: Collection[str] | None = None, heads: Sequence[int] | None = None
) -> Iterator[Seen]:
    """Collect the attention weights of `model` (of some layers and heads) while the block runs."""
    seen = Seen()

    def watch(name: str) -> Callable[[Tensor], None]:
        def keep(weights: Tensor) -> None:
            chosen = weights if heads is None else weights[:, list(heads)]
            seen.calls.setdefault(name, []).append(chosen.detach().to("cpu", copy=True))

        return keep

    observed = {
        name: module for name, module in model.named_modules() if isinstance(module, Observed)
    }
    for name in layers or ():
        if name not in observed:
            raise InputError(f"no attention is called {name!r}; {nearest(name, observed)}")
    watched = {name: observed[name] for name in (observed if layers is None else layers)}
    before = {name: module.watcher for name, module in watched.items()}
    for name, module in watched.items():
        module.watcher = watch(name)
    try:
        yield seen
    finally:
        for name, module in watched.items():
            module.watcher = before[name]
