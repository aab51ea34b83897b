"""Look into a model once an output is known: one pass gives every attention and every choice.

Decoding takes the fast path; this reads source and output again, together (teacher forcing), which
gives the same numbers as watching each step, for a path that was dropped as for the one returned.
"""

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.blocks.recording import Observed, record_attention
from saccade.blocks.sequences import Padded
from saccade.errors import InputError, nearest
from saccade.serving.schemas import Attention, AttentionChoice, Kind, Layer, Matrix, Side

WEIGHTS_LIMIT = 1_000_000  # numbers of an answer: beyond, heads are sent small
THUMBNAIL = 48  # rows and columns of a small one
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Trace:
    """What one reading of a source and its output showed."""

    weights: dict[Kind, dict[str, Float[Tensor, "H T S"]]] = field(default_factory=dict)
    log_probs: Float[Tensor, "T V"] | None = None  # before each token of the output


@torch.inference_mode()
def read_pair(
    module: Any, source: Sequence[int], target: Sequence[int], kinds: Collection[Kind]
) -> Trace:
    """A translation read again: `target` begins with bos; row t is the choice after token t."""
    device = next(module.parameters()).device
    tokens = torch.tensor([list(source)], device=device)
    padded = Padded(tokens, torch.tensor([len(source)], device=device))
    layers = [name for kind in kinds for name in attention_layers(module).get(kind, [])]
    with record_attention(module, layers) as seen:
        hidden = module(padded, torch.tensor([list(target)], device=device))
    weight = module.output_weight
    log_probs = F.linear(hidden[0].to(weight.dtype), weight).float().log_softmax(-1).cpu()
    found: dict[Kind, dict[str, Tensor]] = {}
    for kind, names in attention_layers(module).items():
        if kind in kinds:
            found[kind] = {name: torch.cat([w[0] for w in seen[name]], dim=1) for name in names}
    return Trace(found, log_probs)


def attention_layers(module: nn.Module) -> dict[Kind, list[str]]:
    """The attentions of a model by what they join; the names of an encoder begin with it."""
    cross = list(getattr(module, "alignment_layers", []))
    found: dict[Kind, list[str]] = {"cross": cross, "encoder": [], "decoder": []}
    for name, part in module.named_modules():
        if isinstance(part, Observed) and name not in cross:
            found["encoder" if name.startswith("encoder") else "decoder"].append(name)
    return {kind: names for kind, names in found.items() if names}


def alternatives(
    log_probs: Float[Tensor, "T V"], count: int
) -> tuple[Float[Tensor, "T K"], Int[Tensor, "T K"]]:
    """The most probable tokens of each step and their probabilities."""
    best = log_probs.topk(min(count, log_probs.shape[1]))
    return best.values.exp(), best.indices


SIDES: dict[Kind, tuple[Side, Side]] = {
    "cross": ("target", "source"),
    "encoder": ("source", "source"),
    "decoder": ("target", "read"),
}


def packed(trace: Trace, choice: AttentionChoice) -> list[Attention]:
    """The attentions as numbers to send: all of them, or small ones and the chosen one whole."""
    total = sum(w.numel() for layers in trace.weights.values() for w in layers.values())
    found = []
    for kind, layers in trace.weights.items():
        longest = max(max(w.shape[1:]) for w in layers.values())
        scale = 1 if total <= WEIGHTS_LIMIT else math.ceil(longest / THUMBNAIL)
        rows, columns = SIDES[kind]
        found.append(
            Attention(
                kind=kind,
                rows=rows,
                columns=columns,
                causal=kind == "decoder",
                scale=scale,
                layers=[
                    Layer(name=name, weights=_rounded(_pooled(w, scale)))
                    for name, w in layers.items()
                ],
                chosen=None if scale == 1 else _rounded(_chosen(layers, choice)),
            )
        )
    return found


def _chosen(layers: dict[str, Float[Tensor, "H T S"]], choice: AttentionChoice) -> Tensor:
    """One head; without a head the mean of a layer, without a layer the mean of all."""
    if choice.layer is None:
        return torch.stack([w.mean(dim=0) for w in layers.values()]).mean(dim=0)
    if choice.layer not in layers:
        raise InputError(
            f"no attention layer {choice.layer!r} here; {nearest(choice.layer, layers)}"
        )
    weights = layers[choice.layer]
    if choice.head is None:
        return weights.mean(dim=0)
    if choice.head >= len(weights):
        raise InputError(f"no head {choice.head}: this layer has heads 0 to {len(weights) - 1}")
    return weights[choice.head]


def _pooled(weights: Float[Tensor, "H T S"], scale: int) -> Float[Tensor, "H t s"]:
    return weights if scale == 1 else F.max_pool2d(weights, scale, ceil_mode=True)


def _rounded(weights: Tensor) -> Matrix | list[Matrix]:
    found: Matrix | list[Matrix] = weights.double().round(decimals=DIGITS).tolist()
    return found


@contextmanager
def without_heads(module: nn.Module, off: Mapping[str, Sequence[int]]) -> Iterator[None]:
    """Inside, these heads (by layer) add nothing: their part of what is joined is zero."""
    parts: dict[str, Any] = dict(module.named_modules())
    hooks = []
    try:
        for name, heads in off.items():
            output = parts[name].output
            keep = torch.ones(parts[name].heads, dtype=torch.bool)
            keep[list(heads)] = False
            gate = keep.repeat_interleave(output.in_features // len(keep))
            hooks.append(output.register_forward_pre_hook(_gated(gate)))
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _gated(gate: Tensor) -> Any:
    def hook(_: nn.Module, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return (inputs[0] * gate.to(inputs[0]), *inputs[1:])

    return hook
