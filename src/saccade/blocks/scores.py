"""Attention scores: how well does each query match each key?

Every score is a module with two pure methods, so any of them fits any attention:

    keys   = score.prepare(memory)   # once a source; each position alone, so keys can be appended
    logits = score(query, keys)      # each step

Widths: Q of a query, K of a key, A hidden; "*B" is any leading axes (batch, heads).
"""

import math
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from saccade.blocks.products import Linear
from saccade.config import find, fitting, part
from saccade.errors import InputError


class Score(nn.Module):
    """The contract; a score of your own has these two methods and this constructor."""

    depends_on_position = False  # True: keys in another order may get other logits

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__()
        self.query_dim, self.key_dim = query_dim, key_dim

    def prepare(self, memory: Float[Tensor, "*B S K"]) -> Float[Tensor, "*B S A"]:
        """What can be computed before any query is known."""
        return memory

    def forward(
        self, query: Float[Tensor, "*B T Q"], keys: Float[Tensor, "*B S A"]
    ) -> Float[Tensor, "*B T S"]:
        """The logits of the attention weights, before mask and softmax."""
        raise NotImplementedError


class Additive(Score):
    """Bahdanau et al. 2015, A.1.2:  v . tanh(Wq q + Wk k)."""

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int | None = None):
        super().__init__(query_dim, key_dim)
        hidden_dim = _positive(query_dim if hidden_dim is None else hidden_dim, "hidden_dim")
        self.query_proj = Linear(query_dim, hidden_dim, bias=False)  # Wq
        self.key_proj = Linear(key_dim, hidden_dim, bias=False)  # Wk
        self.energy = Linear(hidden_dim, 1, bias=False)  # v

    def prepare(self, memory: Float[Tensor, "*B S K"]) -> Float[Tensor, "*B S A"]:
        return self.key_proj(memory)

    def forward(
        self, query: Float[Tensor, "*B T Q"], keys: Float[Tensor, "*B S A"]
    ) -> Float[Tensor, "*B T S"]:
        return _energies(self.energy, self.query_proj(query), keys)


class Concat(Score):
    """Luong et al. 2015, "concat":  v . tanh(W [q; k]), which is additive with W = [Wq Wk]."""

    def __init__(self, query_dim: int, key_dim: int, hidden_dim: int | None = None):
        super().__init__(query_dim, key_dim)
        hidden_dim = _positive(query_dim if hidden_dim is None else hidden_dim, "hidden_dim")
        self.joint_proj = Linear(query_dim + key_dim, hidden_dim, bias=False)  # W
        self.energy = Linear(hidden_dim, 1, bias=False)  # v

    def prepare(self, memory: Float[Tensor, "*B S K"]) -> Float[Tensor, "*B S A"]:
        # W's columns for the key, so that no pair of query and key has to be written side by side.
        return F.linear(memory, self.joint_proj.weight[:, self.query_dim :])

    def forward(
        self, query: Float[Tensor, "*B T Q"], keys: Float[Tensor, "*B S A"]
    ) -> Float[Tensor, "*B T S"]:
        query = F.linear(query, self.joint_proj.weight[:, : self.query_dim])
        return _energies(self.energy, query, keys)


def _positive(size: int, name: str) -> int:
    if size < 1:
        raise InputError(f"{name} of a score is {size}, it must be at least 1")
    return size


def _energies(
    energy: nn.Module, query: Float[Tensor, "*B T A"], keys: Float[Tensor, "*B S A"]
) -> Float[Tensor, "*B T S"]:
    pairs = query.unsqueeze(-2) + keys.unsqueeze(-3)  # (*B, T, S, A)
    return energy(pairs.tanh_()).squeeze(-1)  # in place: the largest tensor of the model


class General(Score):
    """Luong et al. 2015, "general":  q . W k."""

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__(query_dim, key_dim)
        self.key_proj = Linear(key_dim, query_dim, bias=False)  # W

    def prepare(self, memory: Float[Tensor, "*B S K"]) -> Float[Tensor, "*B S Q"]:
        return self.key_proj(memory)

    def forward(
        self, query: Float[Tensor, "*B T Q"], keys: Float[Tensor, "*B S Q"]
    ) -> Float[Tensor, "*B T S"]:
        return query @ keys.mT


class Location(Score):
    """Luong et al. 2015, "location":  W q, a row for each source position, blind to the keys.

    As in the paper's footnote, a source shorter than `limit` uses the first rows, and what a longer
    one has beyond is never looked at (logit -inf).
    """

    depends_on_position = True

    def __init__(self, query_dim: int, key_dim: int, limit: int = 128):
        super().__init__(query_dim, key_dim)
        self.limit = _positive(limit, "limit")
        self.position_proj = Linear(query_dim, limit, bias=False)  # W

    def prepare(self, memory: Float[Tensor, "*B S K"]) -> Float[Tensor, "*B S 0"]:
        return memory[..., :0]  # how many there are is all that counts

    def forward(
        self, query: Float[Tensor, "*B T Q"], keys: Float[Tensor, "*B S 0"]
    ) -> Float[Tensor, "*B T S"]:
        size = keys.shape[-2]
        logits = F.linear(query, self.position_proj.weight[:size])
        return F.pad(logits, (0, max(size - self.limit, 0)), value=-math.inf)


class EqualWidths(Score):
    """A score that compares query and key number by number."""

    def __init__(self, query_dim: int, key_dim: int):
        super().__init__(query_dim, key_dim)
        if query_dim != key_dim:
            raise InputError(
                f"{type(self).__name__} score: queries are {query_dim} wide and keys {key_dim}; "
                "make them equal, or use additive, concat or general, which take any widths"
            )


class Dot(EqualWidths):
    """Luong et al. 2015, "dot":  q . k."""

    def forward(
        self, query: Float[Tensor, "*B T K"], keys: Float[Tensor, "*B S K"]
    ) -> Float[Tensor, "*B T S"]:
        return query @ keys.mT


class ScaledDot(EqualWidths):
    """Vaswani et al. 2017, eq. 1:  q . k / sqrt(K)."""

    def forward(
        self, query: Float[Tensor, "*B T K"], keys: Float[Tensor, "*B S K"]
    ) -> Float[Tensor, "*B T S"]:
        return (query / math.sqrt(self.query_dim)) @ keys.mT


class Cosine(EqualWidths):
    """Graves et al. 2014, 3.3.1:  sharpening * q . k / (|q| |k|), 0 for a vector of zeros."""

    def __init__(self, query_dim: int, key_dim: int, sharpening: float = 1.0):
        super().__init__(query_dim, key_dim)
        self.sharpening = sharpening

    def prepare(self, memory: Float[Tensor, "*B S K"]) -> Float[Tensor, "*B S K"]:
        return F.normalize(memory, dim=-1, eps=1e-6)

    def forward(
        self, query: Float[Tensor, "*B T K"], keys: Float[Tensor, "*B S K"]
    ) -> Float[Tensor, "*B T S"]:
        return self.sharpening * F.normalize(query, dim=-1, eps=1e-6) @ keys.mT


class Gaussian(EqualWidths):
    """The kernel of Nadaraya and Watson 1964:  -|q - k|^2 / 2."""

    def forward(
        self, query: Float[Tensor, "*B T K"], keys: Float[Tensor, "*B S K"]
    ) -> Float[Tensor, "*B T S"]:
        # Not by |q|^2 - 2 q.k + |k|^2, which loses all digits for near points far from zero.
        distance = torch.cdist(query, keys, compute_mode="donot_use_mm_for_euclid_dist")
        return distance.square() / -2


SCORES: dict[str, type[Score]] = {
    "additive": Additive,
    "concat": Concat,
    "dot": Dot,
    "scaled-dot": ScaledDot,
    "general": General,
    "location": Location,
    "cosine": Cosine,
    "gaussian": Gaussian,
}


def score_part(value: str | Mapping[str, Any]) -> tuple[type[Score], dict[str, Any]]:
    """The score that `model.score` names, and its parameters, which it has."""
    name, parameters = part(value, "model.score")
    kind = find(SCORES, name, what="model.score")
    if not (isinstance(kind, type) and issubclass(kind, Score)):
        raise InputError(f"model.score {name!r} must extend saccade.blocks.scores.Score")
    return kind, fitting(kind, parameters, "model.score")


def batched_product(a: Float[Tensor, "N A B"], b: Float[Tensor, "N B C"]) -> Float[Tensor, "N A C"]:
    """N matrix products at once, matrix by matrix (not element by element)."""
    return torch.bmm(a, b)
