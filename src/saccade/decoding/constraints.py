"""Constraints: what a search or a sampler may choose next, given what the path holds so far.

A constraint forbids tokens by setting them to -inf; it never changes what the others are worth, so
that every log-probability stays the model's own. Its input is fresh at every step: it may write
into that, or return a new tensor. A preference is called alike; it makes tokens more or less likely
to be chosen on a path of its own, not what they are worth: it always returns a new tensor.
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
NO_TOKEN = -1


@runtime_checkable
class Constraint(Protocol):
    """Anything that forbids tokens; `history` is without bos, `sentence` numbers a row's source."""

    def __call__(
        self,
        log_probs: Float[Tensor, "N V"],
        history: Int[Tensor, "N t"],
        sentence: Int[Tensor, " N"],
    ) -> Float[Tensor, "N V"]: ...


class Preference:
    """Called like a constraint, on the one path that `walk` follows; it is no constraint."""

    def __call__(
        self,
        log_probs: Float[Tensor, "N V"],
        history: Int[Tensor, "N t"],
        sentence: Int[Tensor, " N"],
    ) -> Float[Tensor, "N V"]:
        raise NotImplementedError


def refuse_preferences(constraints: Sequence[Constraint]) -> None:
    """As a constraint it would change what tokens are worth, and with that every score."""
    if any(isinstance(each, Preference) for each in constraints):
        raise InputError("a preference is of one path: give it to `walk` or `stream` as such")


@dataclass(frozen=True, slots=True)
class Banned:
    """Tokens that never appear, such as padding, bos or the unknown word."""

    tokens: tuple[int, ...]

    def __call__(
        self,
        log_probs: Float[Tensor, "N V"],
        history: Int[Tensor, "N t"],  # noqa: ARG002
        sentence: Int[Tensor, " N"],  # noqa: ARG002
    ) -> Float[Tensor, "N V"]:
        return log_probs.index_fill_(1, _ids(self.tokens, log_probs.device), NEVER)


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
        log_probs: Float[Tensor, "N V"],
        history: Int[Tensor, "N t"],
        sentence: Int[Tensor, " N"],
    ) -> Float[Tensor, "N V"]:
        if history.shape[1] >= self.length:
            return log_probs
        return Banned((self.eos,))(log_probs, history, sentence)


@dataclass(frozen=True, slots=True)
class NoRepeat:
    """No n-gram appears twice in a path (Paulus et al. 2017, there with n = 3)."""

    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise InputError(f"no-repeat n-grams: n is {self.n}, it must be at least 1")

    def __call__(
        self,
        log_probs: Float[Tensor, "N V"],
        history: Int[Tensor, "N t"],
        sentence: Int[Tensor, " N"],  # noqa: ARG002
    ) -> Float[Tensor, "N V"]:
        length = history.shape[1]
        if length < self.n:
            return log_probs
        grams = history.unfold(1, self.n, 1)  # (N, t-n+1, n)
        latest = history[:, length - self.n + 1 :].unsqueeze(1)  # (N, 1, n-1)
        again = (grams[..., :-1] == latest).all(-1)  # (N, t-n+1)
        rows, places = again.nonzero(as_tuple=True)
        return log_probs.index_put((rows, grams[rows, places, -1]), log_probs.new_tensor(NEVER))


class ForcedPrefix:
    """Each sentence begins with its own tokens (an empty list: no wish); then it is free.

    The `rules` hold where it is free: a prefix may say what they forbid.
    """

    def __init__(self, prefixes: Sequence[Sequence[int]], rules: Sequence[Constraint] = ()) -> None:
        self.prefixes, self.rules = prefixes, rules
        self.tokens = _filled_up(prefixes)

    def before(self, rules: Sequence[Constraint]) -> "ForcedPrefix":
        """The same, with rules that hold behind it."""
        return ForcedPrefix(self.prefixes, (*self.rules, *rules))

    def __call__(
        self,
        log_probs: Float[Tensor, "N V"],
        history: Int[Tensor, "N t"],
        sentence: Int[Tensor, " N"],
    ) -> Float[Tensor, "N V"]:
        position, forced = history.shape[1], None
        if position < self.tokens.shape[1]:
            wanted = self.tokens[sentence.cpu(), position].to(log_probs.device).unsqueeze(1)
            forced = self._only(log_probs, wanted)
        for rule in self.rules:
            log_probs = rule(log_probs, history, sentence)
        return log_probs if forced is None else torch.where(wanted >= 0, forced, log_probs)

    @staticmethod
    def _only(log_probs: Float[Tensor, "N V"], wanted: Int[Tensor, "N 1"]) -> Float[Tensor, "N V"]:
        """Each row with nothing but its wanted token."""
        if wanted.max() >= log_probs.shape[1]:
            raise InputError(
                f"forced prefix: token {int(wanted.max())} is not in the vocabulary of "
                f"{log_probs.shape[1]}"
            )
        others = torch.arange(log_probs.shape[1], device=log_probs.device) != wanted
        return log_probs.masked_fill(others, NEVER)


class RepetitionPenalty(Preference):
    """A preference: what was said or prompted loses by a factor of its log-probability.

    CTRL (Keskar et al. 2019) divides logits, whose zero is arbitrary; a log-probability is <= 0.
    """

    def __init__(self, penalty: float, prompts: Sequence[Sequence[int]]) -> None:
        self.penalty, self.prompts = penalty, _filled_up(prompts)

    def __call__(
        self,
        log_probs: Float[Tensor, "N V"],
        history: Int[Tensor, "N t"],
        sentence: Int[Tensor, " N"],
    ) -> Float[Tensor, "N V"]:
        prompt = self.prompts[sentence.cpu()].to(history.device)
        read = torch.cat([prompt, history], dim=1)
        said = log_probs.new_zeros(len(log_probs), log_probs.shape[1] + 1)
        said.scatter_(1, torch.where(read < 0, log_probs.shape[1], read), 1.0)
        return log_probs * (1 + (self.penalty - 1) * said[:, :-1])


def _filled_up(rows: Sequence[Sequence[int]]) -> Int[Tensor, "B L"]:
    """Rows of tokens as long as the longest, with NO_TOKEN behind the others."""
    longest = max(map(len, rows), default=0)
    filled = [[*row, *[NO_TOKEN] * (longest - len(row))] for row in rows]
    return torch.tensor(filled, dtype=torch.long).view(len(rows), longest)
