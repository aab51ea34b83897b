"""Look into a model once an output is known: one pass gives every attention and every choice.

Decoding takes the fast path; this reads source and output again, together (teacher forcing), which
gives the same numbers as watching each step, for a path that was dropped as for the one returned.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from saccade.blocks.recording import attentions, check_head, record_attention
from saccade.errors import InputError, nearest
from saccade.inspection.traces import kind_of
from saccade.serving.schemas import Attention, AttentionChoice, Kind, Layer, Side
from saccade.tasks.rereading import looks, reread
from saccade.tasks.task import Prediction
from saccade.training.model import Model

WEIGHTS_LIMIT = 1_000_000  # numbers of an answer: beyond, heads are sent small
LONGEST = 2048  # tokens of a text that is looked into: its maps grow with the square
THUMBNAIL = 48  # rows and columns of a small one
DIGITS = 4
SIDES: dict[Kind, tuple[Side, Side]] = {
    "cross": ("target", "source"),
    "encoder": ("source", "source"),
    "decoder": ("target", "read"),
}


@dataclass(frozen=True, slots=True)
class Trace:
    """What one reading of a source and its output showed."""

    weights: dict[Kind, dict[str, Tensor]] = field(default_factory=dict)  # by layer, (H, T, S)
    log_probs: Float[Tensor, "T V"] | None = None  # before each token of the output


def look(model: Model, text: str, prediction: Prediction, kinds: Collection[Kind]) -> Trace:
    """A prediction read again, watched: row t of all that is seen is the step that said token t."""
    wanted = {kind: names for kind, names in layers_by_kind(model.module).items() if kind in kinds}
    hidden: list[Tensor] = []
    hook = model.module.register_forward_hook(lambda *call: hidden.append(call[-1]))
    try:
        with record_attention(model, [name for names in wanted.values() for name in names]) as seen:
            model.trace(text, prediction)
    finally:
        hook.remove()
    module: Any = model.module
    with torch.inference_mode():
        logits = module.logits(hidden[-1][0])
    found: dict[Kind, dict[str, Tensor]] = {
        kind: {name: torch.cat([w[0] for w in seen[name]], dim=1) for name in names}
        for kind, names in wanted.items()
    }
    return Trace(found, logits.float().log_softmax(-1).cpu())


def look_back(module: Any, ids: Sequence[int], kinds: Collection[Kind]) -> Trace:
    """A text without a source, read again: row t is the step that predicts token t + 1."""
    if len(ids) < 2:
        return Trace()
    if len(ids) > LONGEST:
        raise InputError(
            f"{len(ids):,} tokens are too many to look into, at most {LONGEST:,}: take a shorter "
            "text, or ask for neither attention nor alternatives"
        )
    wanted = {kind: names for kind, names in layers_by_kind(module).items() if kind in kinds}
    with record_attention(module, [name for names in wanted.values() for name in names]) as seen:
        logits = reread(module, ids[:-1])
    found: dict[Kind, dict[str, Tensor]] = {
        kind: {name: looks(seen[name]) for name in names} for kind, names in wanted.items()
    }
    return Trace(found, logits.float().log_softmax(-1).cpu())


def layers_by_kind(module: Any) -> dict[Kind, list[str]]:
    """The attentions of a model by what they join, those between output and input first."""
    found: dict[Kind, list[str]] = {kind: [] for kind in SIDES}
    for name in attentions(module):
        found[cast(Kind, kind_of(module, name))].append(name)
    return {kind: names for kind, names in found.items() if names}


def alternatives(
    log_probs: Float[Tensor, "T V"], count: int
) -> tuple[Float[Tensor, "T K"], Int[Tensor, "T K"]]:
    """The most probable tokens of each step and their probabilities."""
    best = log_probs.topk(min(count, log_probs.shape[1]))
    return best.values.exp(), best.indices


def packed(trace: Trace, choice: AttentionChoice) -> list[Attention]:
    """The attentions as numbers to send: all, or small ones and of the first kind one whole."""
    total = sum(w.numel() for layers in trace.weights.values() for w in layers.values())
    found, first = [], choice.kinds[0]
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
                chosen=_rounded(_chosen(layers, choice)) if scale > 1 and kind == first else None,
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
    check_head(choice.head, len(weights))
    return weights[choice.head]


def _pooled(weights: Float[Tensor, "H T S"], scale: int) -> Float[Tensor, "H t s"]:
    return weights if scale == 1 else F.max_pool2d(weights, scale, ceil_mode=True)


def _rounded(weights: Tensor) -> Any:
    """Nested lists; in double precision, where four digits stay four."""
    return weights.double().round(decimals=DIGITS).tolist()
