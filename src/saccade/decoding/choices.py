"""The tokens that each path of a search considers: the most probable ones, best first."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from torch import Tensor

from saccade.decoding.constraints import NEVER
from saccade.decoding.walk import StepRules, log_prob_blocks

MANY = 32  # choices beyond which to sort takes less time than a pass for each


@dataclass(frozen=True, slots=True)
class Considered:
    """The choices of each row of a step, best first; -inf where there are fewer."""

    log_probs: Float[np.ndarray, "N K"]
    tokens: Int[np.ndarray, "N K"]


def consider(
    logits: Float[Tensor, "N V"], position: int, forbid: StepRules, choices: int
) -> Considered:
    """The most probable tokens of each row, the lower id first of equals."""
    choices = min(choices, logits.shape[1])
    blocks = log_prob_blocks(logits, position, forbid)
    parts = [
        (top_cpu if logits.device.type == "cpu" else top_device)(log_probs, choices)
        for _, log_probs in blocks
    ]
    log_probs, tokens = zip(*parts, strict=True)
    return Considered(np.concatenate(log_probs).astype(np.float64), np.concatenate(tokens))


def top_cpu(
    log_probs: Float[Tensor, "N V"], choices: int
) -> tuple[Float[np.ndarray, "N K"], Int[np.ndarray, "N K"]]:
    """The best, struck out, then the best of the rest: for a few choices faster than `topk`."""
    if choices > MANY:
        return _top_many(log_probs.numpy(), choices)
    left, rows = log_probs.numpy(), np.arange(len(log_probs))
    values = np.empty((len(left), choices), left.dtype)
    tokens = np.empty((len(left), choices), np.int64)
    for choice in range(choices):
        token = left.argmax(-1)  # the first of equals
        tokens[:, choice], values[:, choice] = token, left[rows, token]
        left[rows, token] = NEVER
    return values, tokens


def _top_many(
    log_probs: Float[np.ndarray, "N V"], choices: int
) -> tuple[Float[np.ndarray, "N K"], Int[np.ndarray, "N K"]]:
    """The same for many: all that reach the value of the last choice, sorted, equals by id."""
    last = log_probs.shape[1] - choices
    least = np.partition(log_probs, last, axis=1)[:, last]  # (N,)
    tokens = np.empty((len(log_probs), choices), np.int64)
    for row, (values, enough) in enumerate(zip(log_probs, least, strict=True)):
        reach = np.flatnonzero(values >= enough)  # more than `choices` only of equals
        tokens[row] = reach[np.argsort(-values[reach], kind="stable")[:choices]]
    return np.take_along_axis(log_probs, tokens, axis=1), tokens


def top_device(
    log_probs: Float[Tensor, "N V"], choices: int
) -> tuple[Float[np.ndarray, "N K"], Int[np.ndarray, "N K"]]:
    """The same where the logits live elsewhere; the order of exact equals is the device's."""
    values, tokens = log_probs.topk(choices)
    return values.cpu().numpy(), tokens.cpu().numpy()
