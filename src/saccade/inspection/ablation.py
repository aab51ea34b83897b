"""Switch heads off, without retraining: what a model does without them shows what they did."""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch

from saccade.blocks.recording import assigned, attentions, check_head, find_attention
from saccade.errors import InputError

Heads = Mapping[str, Collection[int]]  # layer name -> heads, counted from 0


@contextmanager
def without_heads(model: Any, off: Heads) -> Iterator[None]:
    """While the block runs, the model goes on as if these heads had found nothing (zeros)."""
    switches = {}
    for layer, heads in off.items():
        attention = find_attention(model, layer)
        if not attention.switchable:
            raise InputError(f"the heads of {layer!r} cannot be switched off")
        on = torch.ones(attention.heads)
        for head in heads:
            check_head(head, attention.heads)
            on[head] = 0.0
        switches[attention] = {"switches": on}
    with assigned(switches):
        yield


def every_head(model: Any) -> list[tuple[str, int]]:
    """The heads that can be switched off: (layer, head), in the order of the model."""
    return [
        (layer, head)
        for layer, attention in attentions(model).items()
        if attention.switchable
        for head in range(attention.heads)
    ]
