"""Whose tokens an attention looks from and at, and the maps of what was recorded."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from torch import Tensor

from saccade.blocks.recording import Seen, attentions
from saccade.inspection.alignment import AttentionMap

# Record nothing, what looks from output to input, everything, or layers by name.
Watch = bool | Literal["all"] | Sequence[str]


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of one example, as the attentions of a model see them."""

    source: list[str]  # read by the encoder
    read: list[str]  # read by the decoder, the start first
    said: list[str]  # by the decoder: what it predicted after each token it had read

    def of(self, kind: str) -> tuple[list[str], list[str]]:
        """The queries and the keys of a kind of attention; a step is named by what it said."""
        sides = {
            "cross": (self.said, self.source),
            "encoder": (self.source, self.source),
            "decoder": (self.said, self.read),
        }
        return sides[kind]


def kind_of(module: Any, layer: str) -> str:
    """Whether an attention looks from output to input, within the input or within the output."""
    if _within(layer, module.alignment_layers):
        return "cross"
    return "encoder" if _within(layer, getattr(module, "source_layers", ())) else "decoder"


def _within(layer: str, known: Collection[str]) -> bool:
    """One of these, or a part of one (hard attention shows its probabilities too)."""
    return any(f"{layer}.".startswith(f"{name}.") for name in known)


def watched_layers(module: Any, watch: Watch) -> Collection[str]:
    """The names of the layers to record."""
    if isinstance(watch, bool):
        return module.alignment_layers if watch else ()
    return attentions(module) if watch == "all" else watch


def attention_map(
    module: Any, seen: Seen, row: int, path: Sequence[int], tokens: Tokens
) -> AttentionMap:
    """What one sentence looked at: its row in the batch that was encoded, its path in the search.

    The first kind recorded is the map, the rest its `others`.
    """

    def weights(layer: str, kind: str) -> Tensor:
        if kind == "encoder":
            size = len(tokens.source)
            return seen[layer][0][row, :, :size, :size]
        if kind == "decoder":
            return seen.follow(layer, path, read=0)
        return seen.follow(layer, path)[..., : len(tokens.source)]

    maps = []
    for kind in ("cross", "encoder", "decoder"):
        found = {name: weights(name, kind) for name in seen if kind_of(module, name) == kind}
        if found:
            queries, keys = tokens.of(kind)
            maps.append(AttentionMap(found, keys, queries, kind))
    return replace(maps[0], others=tuple(maps[1:]))
