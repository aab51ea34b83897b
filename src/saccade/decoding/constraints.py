"""Constraints: what a search or a sampler may choose next, given what the path holds so far.

A constraint forbids tokens by setting them to -inf; it never changes what the others are worth, so
that every log-probability stays the model's own. Its input is fresh at every step: it may write
into that, or return a new tensor. A preference is weighed in when one path is chosen token by
token, not in what the token is worth: it returns a new one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.errors import InputError

NEVER = float("-inf")


@runtime_checkable
class Constraint(Protocol):
    """Anything that forbids tokens; `history` is without bos, `sentence` numbers a row's source."""

    def __call__(
        self,
        logits: Float[Tensor, "N V"],
        history: Int[Tensor, "N t"],
        sentence: Int[Tensor, " N"],
    ) -> Float[Tensor, "N V"]: ...


@dataclass(frozen=True, slots=True)
class Banned:
    """Tokens that never appear, such as padding, bos or the unknown word."""

    tokens: tuple[int, ...]

    def __call__(
        self,
        logits: Float[Tensor, "N V"],
        history: Int[Tensor, "N t"],  # noqa: ARG002
        sentence: Int[Tensor, " N"],  # noqa: ARG002
    ) -> Float[Tensor, "N V"]:
        return logits.index_fill_(1, _ids(self.tokens, logits.device), NEVER)


@cache
def _ids(tokens: tuple[int, ...], device: torch.device) -> Int[Tensor, " n"]:
    """Made once: a step of a small model is some hundred such operations."""
    with torch.inference_mode(mode=False):  # whoever asked first, others may train with it
        return torch.tensor(tokens, dtype=torch.long, device=device)


@dataclass(frozen=True, slots=True)
class MinimumLength:
    """No end before `length` tokens stand (the end itself not counted)."""

    length: int
    eos: int

    def __call__(
        self,
        logits: Float[Tensor, "N V"],
        history: Int[Tensor, "N t"],
        sentence: Int[Tensor, " N"],
    ) -> Float[Tensor, "N V"]:
        if history.shape[1] >= self.length:
            return logits
        return Banned((self.eos,))(logits, history, sentence)


@dataclass(frozen=True, slots=True)
class NoRepeat:
    """No n-gram appears twice in a path (Paulus et al. 2017, there with n = 3)."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise InputError(f"no-repeat n-grams: n is {self.n}, it must be at least 1")

    def __call__(
        self,
        logits: Float[Tensor, "N V"],
        history: Int[Tensor, "N t"],
        sentence: Int[Tensor, " N"],  # noqa: ARG002
    ) -> Float[Tensor, "N V"]:
        length = history.shape[1]
        if length < self.n:
            return logits
        grams = history.unfold(1, self.n, 1)  # (N, t-n+1, n)
        latest = history[:, length - self.n + 1 :].unsqueeze(1)  # (N, 1, n-1)
        again = (grams[..., :-1] == latest).all(-1)  # (N, t-n+1)
        rows, places = again.nonzero(as_tuple=True)
        return logits.index_put((rows, grams[rows, places, -1]), logits.new_tensor(NEVER))


class ForcedPrefix:
    """Each sentence begins with its own tokens (an empty list: no wish); then it is free."""

    def __init__(self, prefixes: Sequence[Sequence[int]]) -> None:
        longest = max(map(len, prefixes), default=0)
        free = -1
        padded = [[*prefix, *[free] * (longest - len(prefix))] for prefix in prefixes]
        self.tokens = torch.tensor(padded, dtype=torch.long).view(len(prefixes), longest)

    def __call__(
        self,
        logits: Float[Tensor, "N V"],
        history: Int[Tensor, "N t"],
        sentence: Int[Tensor, " N"],
    ) -> Float[Tensor, "N V"]:
        position = history.shape[1]
        if position >= self.tokens.shape[1]:
            return logits
        wanted = self.tokens[sentence.cpu(), position].to(logits.device).unsqueeze(1)  # (N, 1)
        if wanted.max() >= logits.shape[1]:
            raise InputError(
                f"forced prefix: token {int(wanted.max())} is not in the vocabulary of "
                f"{logits.shape[1]}"
            )
        others = torch.arange(logits.shape[1], device=logits.device) != wanted
        return logits.masked_fill(others & (wanted >= 0), NEVER)


class Preference:
    """A constraint that only makes tokens more or less likely to be chosen."""


class RepetitionPenalty(Preference):
    """What was said, or stands in the prompt, loses by a factor of its log-probability.

    CTRL (Keskar et al. 2019) divides logits, whose zero is arbitrary; a log-probability is <= 0.
    """

    def __init__(self, penalty: float, prompts: Sequence[Sequence[int]]) -> None:
        self.penalty = penalty
        longest = max(map(len, prompts), default=0)
        padded = [[*prompt, *[-1] * (longest - len(prompt))] for prompt in prompts]
        self.prompts = torch.tensor(padded, dtype=torch.long).view(len(prompts), longest)

    def __call__(
        self,
        logits: Float[Tensor, "N V"],
        history: Int[Tensor, "N t"],
        sentence: Int[Tensor, " N"],
    ) -> Float[Tensor, "N V"]:
        prompt = self.prompts[sentence.cpu()].to(history.device)
        read = torch.cat([prompt, history], dim=1)
        said = logits.new_zeros(len(logits), logits.shape[1] + 1)
        said.scatter_(1, torch.where(read < 0, logits.shape[1], read), 1.0)
        return logits * (1 + (self.penalty - 1) * said[:, :-1])
