"""Sampling: sequences drawn from the model, after filters that are small functions on logits.

A draw is keyed by (seed, example, position), one uniform number and the inverse of the cumulative
distribution, so that a result never depends on the batch it is drawn in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float, Float64, Int
from torch import Tensor

from saccade.blocks.state import Decoder, S
from saccade.decoding.constraints import NEVER
from saccade.decoding.search import SearchOptions
from saccade.decoding.walk import Bounds, Hypothesis, gather_hypotheses, walk
from saccade.errors import InputError
from saccade.randomness import key

Filter: TypeAlias = Callable[[Tensor], Tensor]  # logits (N, V) to logits (N, V)

HOTTEST = 100
COLDEST = torch.finfo(torch.float32).tiny  # below, it would be 0 in the numbers that it divides


def temperature(value: float) -> Filter:
    """Divide the logits: below 1 sharper, above 1 flatter, 0 the most probable token alone."""
    if not 0 <= value <= HOTTEST:
        raise InputError(f"temperature is {value}, it must be from 0 to {HOTTEST}")

    def divided(logits: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
        return (logits - logits.amax(-1, keepdim=True)) / value  # the best is 0: no overflow

    def best_alone(logits: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
        best = logits.argmax(-1, keepdim=True)
        return torch.full_like(logits, NEVER).scatter(1, best, logits.gather(1, best))

    return divided if value >= COLDEST else best_alone


def top_k(k: int) -> Filter:
    """Keep the k most probable tokens, and those equal to the last of them (Fan et al. 2018)."""
    if k < 1:
        raise InputError(f"top-k is {k}, it must be at least 1")

    def kept(logits: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
        last = logits.topk(min(k, logits.shape[1])).values[:, -1:]
        return logits.masked_fill(logits < last, NEVER)

    return kept


def top_p(p: float) -> Filter:
    """Keep the fewest most probable tokens whose mass reaches p (nucleus, Holtzman et al. 2019)."""
    if not 0 < p <= 1:
        raise InputError(f"top-p is {p}, it must be above 0 and at most 1")

    def kept(logits: Float[Tensor, "N V"]) -> Float[Tensor, "N V"]:
        ordered, tokens = logits.sort(dim=-1, descending=True, stable=True)
        mass = _exact(ordered).softmax(-1)
        before = mass.cumsum(-1) - mass  # the mass of all that is more probable
        reached = (before >= p).to(tokens.device)
        beyond = torch.empty_like(reached).scatter_(1, tokens, reached)
        return logits.masked_fill(beyond, NEVER)

    return kept if p < 1 else lambda logits: logits


def _exact(logits: Float[Tensor, "N V"]) -> Float64[Tensor, "N V"]:
    """In float64, which mps has not: from there, on the CPU."""
    return (logits.cpu() if logits.is_mps else logits).double()


@dataclass(frozen=True, kw_only=True, slots=True)
class Draw:
    """A `choose` for `walk`: draws by (seed, number of the example, position)."""

    seed: int
    examples: Sequence[int]  # the number of each sentence, the same in whatever batch it comes
    filters: Sequence[Filter] = ()

    def __call__(
        self, log_probs: Float[Tensor, "N V"], sentences: Sequence[int], position: int
    ) -> Int[Tensor, " N"]:
        for each in self.filters:
            log_probs = each(log_probs)
        mass = _exact(log_probs).softmax(-1).cumsum(-1)  # (N, V)
        uniform = [self.uniform(self.examples[sentence], position) for sentence in sentences]
        height = mass.new_tensor(uniform).unsqueeze(1) * mass[:, -1:]
        # Rounded up to the whole mass, a height would lie above every token.
        height = height.minimum(mass[:, -1:].nextafter(torch.zeros_like(height)))
        # The first token whose cumulated mass is above: never one of mass zero.
        token = torch.searchsorted(mass, height, right=True).squeeze(1)
        token = token.clamp(max=mass.shape[1] - 1)  # a row without any mass is all NaN
        return token.to(log_probs.device)

    def uniform(self, example: int, position: int) -> float:
        """A number in [0, 1) with 53 random bits."""
        return float(key(self.seed, "sample", example, position) >> 10) / 2**53


def sample(
    decoder: Decoder[S], state: S, bounds: Bounds, options: SearchOptions, draw: Draw
) -> list[Hypothesis]:
    """One drawn sequence a sentence; log-probabilities are the model's own, before the filters."""
    if len(draw.examples) != state.rows:
        raise InputError(f"{state.rows} sentences, but {len(draw.examples)} example numbers")
    steps = walk(decoder, state, options.narrow(bounds), choose=draw)
    return gather_hypotheses(
        steps, state.rows, eos=bounds.eos, length_penalty=options.length_penalty
    )
