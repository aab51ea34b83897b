"""A text without a source read once more, for who watches: every number is what decoding had."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.blocks.recording import newest_query


@torch.inference_mode()
def reread(model: Any, ids: Sequence[int]) -> Float[Tensor, "T V"]:
    """The logits after each token: at once where that equals decoding, else step by step."""
    device = next(chain(model.parameters(), model.buffers())).device
    read = torch.tensor(ids, device=device)
    if model.sight is None or len(ids) <= model.sight:
        hidden, _ = model(read[None])
        logits: Tensor = model.logits(hidden)[0]
        return logits
    state, steps = model.start(1), []
    with newest_query(model):
        for token in read.split(1):
            logits, state = model.step(token, state)
            steps.append(logits)
    return torch.cat(steps)


def looks(calls: Sequence[Tensor]) -> Float[Tensor, "H T T"]:
    """What was recorded of a layer meanwhile, as one map: out of sight is zero."""
    if len(calls) == 1:
        return calls[0][0]
    weights = calls[0].new_zeros(calls[0].shape[1], len(calls), len(calls))
    for step, call in enumerate(calls, start=1):  # a step looks at the newest tokens
        weights[:, step - 1, step - call.shape[-1] : step] = call[0, :, -1]
    return weights
