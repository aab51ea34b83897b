"""Attention for recurrent decoders, made of parts: what is looked at x a score x where x how.

    keys, values = attention.prepare(memory)                             # once a source
    context, choice = attention(query, keys, values, mask, steps)        # for any number of steps

A projection makes keys and values of the memory, any score compares them with the query, a window
says where to look (everywhere, or near a place), a weighting makes weights of it (soft: all of it;
hard: one place, drawn while training). Widths: M of the memory, Q of a query, P of a value.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.blocks.attention import ScoreMaker
from saccade.blocks.dropout import keyed_uniform
from saccade.blocks.masks import combine, masked_softmax, near_mask
from saccade.blocks.products import Linear
from saccade.blocks.recording import Inside, Observed
from saccade.blocks.reinforce import Choice, reinforce
from saccade.errors import InputError

# --- what is looked at: keys and values out of the memory -----------------------------------------


class Projection(nn.Module):
    """The contract: (keys, values) of a memory, and how wide each of them is."""

    def __init__(self, key_dim: int, value_dim: int):
        super().__init__()
        self.key_dim, self.value_dim = key_dim, value_dim

    def forward(
        self, memory: Float[Tensor, "B S M"]
    ) -> tuple[Float[Tensor, "B S K"], Float[Tensor, "B S P"]]:
        raise NotImplementedError


class Shared(Projection):
    """One map to the decoder's width, for keys and values alike."""

    def __init__(self, memory_dim: int, dim: int):
        super().__init__(dim, dim)
        self.both = Linear(memory_dim, dim, bias=False)

    def forward(
        self, memory: Float[Tensor, "B S M"]
    ) -> tuple[Float[Tensor, "B S K"], Float[Tensor, "B S P"]]:
        projected = self.both(memory)
        return projected, projected


class Apart(Projection):
    """Keys and values separated: where to look and what to read are two maps."""

    def __init__(self, memory_dim: int, dim: int):
        super().__init__(dim, dim)
        self.key = Linear(memory_dim, dim, bias=False)
        self.value = Linear(memory_dim, dim, bias=False)

    def forward(
        self, memory: Float[Tensor, "B S M"]
    ) -> tuple[Float[Tensor, "B S K"], Float[Tensor, "B S P"]]:
        return self.key(memory), self.value(memory)


class Unchanged(Projection):
    """The papers': the encoder's vectors themselves, whatever their width."""

    def __init__(self, memory_dim: int, dim: int):  # noqa: ARG002  built like the others
        super().__init__(memory_dim, memory_dim)

    def forward(
        self, memory: Float[Tensor, "B S M"]
    ) -> tuple[Float[Tensor, "B S K"], Float[Tensor, "B S P"]]:
        return memory, memory


PROJECTIONS: dict[str, Callable[[int, int], Projection]] = {  # (memory width, decoder width)
    "shared": Shared,
    "apart": Apart,
    "unchanged": Unchanged,
}


# --- where to look --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Focus:
    """Which keys a window allows (None: all), and the log of the factor it puts on each weight."""

    mask: Bool[Tensor, "B T S"] | None = None
    log_factor: Float[Tensor, "B T S"] | None = None


class Global(nn.Module):
    """Luong et al. 2015, 3.1: everywhere."""

    leaves_all = True

    def __init__(self, query_dim: int):  # noqa: ARG002  built like the others
        super().__init__()

    def forward(
        self,
        query: Float[Tensor, "B T Q"],  # noqa: ARG002
        steps: Int[Tensor, "#B T"],  # noqa: ARG002
        mask: Bool[Tensor, "B 1 S"] | None,  # noqa: ARG002
        size: int,  # noqa: ARG002
    ) -> Focus:
        return Focus()


class LocalMonotonic(nn.Module):
    """Luong et al. 2015, 3.2, local-m: the window [t - D, t + D], cut at the source's ends.

    Steps and places count from 0. A step beyond the source and D has nothing to look at.
    """

    def __init__(self, query_dim: int, half_width: int = 10):  # noqa: ARG002  built like the others
        super().__init__()
        self.half_width = _positive(half_width)

    def forward(
        self,
        query: Float[Tensor, "B T Q"],
        steps: Int[Tensor, "#B T"],
        mask: Bool[Tensor, "B 1 S"] | None,  # noqa: ARG002
        size: int,
    ) -> Focus:
        centres = steps.to(query.dtype).expand(query.shape[:2])
        return Focus(near_mask(centres, self.half_width, size))


class LocalPredictive(nn.Module):
    """Luong et al. 2015, eq. 9 and 10:  p = S sigmoid(v . tanh(W h)), a Gaussian around p.

    The window is [p - D, p + D], the Gaussian's sigma D / 2, S the source's own length.
    """

    def __init__(self, query_dim: int, half_width: int = 10):
        super().__init__()
        self.half_width = _positive(half_width)
        self.hidden = Linear(query_dim, query_dim, bias=False)  # W
        self.place = Linear(query_dim, 1, bias=False)  # v

    def centres(
        self, query: Float[Tensor, "B T Q"], lengths: Int[Tensor, "B 1"] | int
    ) -> Float[Tensor, "B T"]:
        return self.place(self.hidden(query).tanh()).sigmoid().squeeze(-1) * lengths

    def forward(
        self,
        query: Float[Tensor, "B T Q"],
        steps: Int[Tensor, "#B T"],  # noqa: ARG002
        mask: Bool[Tensor, "B 1 S"] | None,
        size: int,
    ) -> Focus:
        centres = self.centres(query, size if mask is None else mask.sum(-1))
        distance = torch.arange(size, device=query.device) - centres.unsqueeze(-1)  # (B, T, S)
        sigma = self.half_width / 2
        near = near_mask(centres.detach(), self.half_width, size)
        return Focus(near, distance.square() / (-2 * sigma**2))


def _positive(half_width: int) -> int:
    if half_width < 1:
        raise InputError(f"half_width of a local attention is {half_width}, it must be at least 1")
    return half_width


# --- how to look ----------------------------------------------------------------------------------


class Soft(nn.Module):
    """Look at everything, by weight: softmax(logits), times the window's factor."""

    def __init__(self, query_dim: int):  # noqa: ARG002  built like the others
        super().__init__()

    def forward(
        self,
        query: Float[Tensor, "B T Q"],  # noqa: ARG002
        logits: Float[Tensor, "B T S"],
        focus: Focus,
    ) -> tuple[Float[Tensor, "B T S"], Choice | None]:
        weights = masked_softmax(logits, focus.mask)
        if focus.log_factor is not None:
            weights = weights * focus.log_factor.exp()
        return weights, None


class Hard(Observed):
    """Xu et al. 2015, 4.1: look at one place, drawn while training, the most probable otherwise.

    Its probabilities are what soft attention would weigh with, made to sum to one; they are
    recorded under the name of this module. `discount`: how much a choice answers for the steps
    after it (0 is enough where a context enters nothing but its own output).
    """

    def __init__(self, query_dim: int, entropy: float = 0.01, discount: float = 0.0):
        super().__init__()
        if entropy < 0 or not 0 <= discount <= 1:
            raise InputError(
                f"hard attention: entropy is {entropy} and discount {discount}; "
                "they must be at least 0, and from 0 to 1"
            )
        self.entropy, self.discount = entropy, discount
        self.baseline = Linear(query_dim, 1)

    def forward(
        self, query: Float[Tensor, "B T Q"], logits: Float[Tensor, "B T S"], focus: Focus
    ) -> tuple[Float[Tensor, "B T S"], Choice | None]:
        probabilities = self.probabilities(logits, focus)
        if self.watcher is not None:
            self.watcher(probabilities.unsqueeze(1))
        place = (
            _drawn(probabilities.detach())
            if self.training
            else probabilities.argmax(dim=-1, keepdim=True)
        )
        chosen = torch.zeros_like(probabilities).scatter(-1, place, 1.0)
        chosen = chosen * (probabilities > 0)  # nothing to look at: nothing is
        return chosen, self._choice(query, probabilities, chosen) if self.training else None

    @staticmethod
    def probabilities(logits: Float[Tensor, "B T S"], focus: Focus) -> Float[Tensor, "B T S"]:
        """What a place is chosen by: softmax(logits + the log of the window's factor)."""
        if focus.log_factor is not None:
            logits = logits + focus.log_factor
        return masked_softmax(logits, focus.mask)

    def teach(
        self, choice: Choice, losses: Float[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
        """Losses of the choices and of the baseline, given what each step lost after choosing."""
        return reinforce(choice, losses, discount=self.discount, entropy=self.entropy)

    def _choice(
        self,
        query: Float[Tensor, "B T Q"],
        probabilities: Float[Tensor, "B T S"],
        chosen: Float[Tensor, "B T S"],
    ) -> Choice:
        log_p = probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()
        # What to expect is learned from the query, but must not change what the query is.
        expected = self.baseline(query.detach()).squeeze(-1)
        return Choice((chosen * log_p).sum(-1), -(probabilities * log_p).sum(-1), expected)


def _drawn(probabilities: Float[Tensor, "B T S"]) -> Int[Tensor, "B T 1"]:
    """A place for each query, by the inverse of the cumulative distribution."""
    mass = probabilities.double().cumsum(-1)  # so fine that u < 1 stays below the whole
    height = keyed_uniform(mass[..., :1]) * mass[..., -1:]
    place = torch.searchsorted(mass, height, right=True)  # the first one above: never of mass zero
    return place.clamp(max=mass.shape[-1] - 1)


WEIGHTINGS: dict[str, type[nn.Module]] = {"soft": Soft, "hard": Hard}


# --- all of it ------------------------------------------------------------------------------------


class RecurrentAttention(Observed):
    """Bahdanau et al. 2015, eq. 5 and 6:  c_i = sum_j a_ij h_j, a_i = weighting(score(s, h_j))."""

    probes = switchable = True

    def __init__(
        self,
        query_dim: int,
        projection: Projection,
        *,
        score: ScoreMaker,
        window: nn.Module,
        weighting: nn.Module,
    ):
        super().__init__()
        self.projection = projection
        self.score = score(query_dim, projection.key_dim)
        self.window, self.weighting = window, weighting
        self.sums_to_one = bool(getattr(window, "leaves_all", False))
        self.context_dim = projection.value_dim

    @property
    def watched(self) -> bool:
        """Whether anybody wants the weights, or what hard ones were drawn from."""
        return super().watched or getattr(self.weighting, "watched", False)

    def prepare(
        self, memory: Float[Tensor, "B S M"]
    ) -> tuple[Float[Tensor, "B S A"], Float[Tensor, "B S P"]]:
        keys, values = self.projection(memory)
        return self.score.prepare(keys), values

    def forward(
        self,
        query: Float[Tensor, "B T Q"],
        keys: Float[Tensor, "B S A"],
        values: Float[Tensor, "B S P"],
        mask: Bool[Tensor, "B 1 S"] | None,
        steps: Int[Tensor, "#B T"],
    ) -> tuple[Float[Tensor, "B T P"], Choice | None]:
        """The context of each query; `steps` are their numbers, counted from 0."""
        focus = self.window(query, steps, mask, keys.shape[1])
        focus = Focus(combine(mask, focus.mask), focus.log_factor)
        scores = self.score(query, keys)
        weights, choice = self.weighting(query, scores, focus)
        contexts = weights @ values
        if self.watcher is not None:
            self.watcher(weights.unsqueeze(1))
        if self.probe is not None:
            parts = {"query": query, "keys": keys, "values": values, "averages": contexts}
            self.probe(self._inside(weights, scores, focus, parts))
        return self.kept(contexts.unsqueeze(1)).squeeze(1), choice

    def _inside(
        self,
        weights: Float[Tensor, "B T S"],
        scores: Float[Tensor, "B T S"],
        focus: Focus,
        parts: dict[str, Tensor],
    ) -> Inside:
        """What was computed, as of one head, with all that leads from scores to weights."""
        chosen_by = getattr(self.weighting, "probabilities", None)
        between = {
            "scores": scores,
            "mask": focus.mask,
            "factor": None if focus.log_factor is None else focus.log_factor.exp(),
            "probabilities": None if chosen_by is None else chosen_by(scores, focus),
            "weights": weights,
        }
        found: dict[str, Any] = {
            name: None if x is None else x.unsqueeze(1) for name, x in (parts | between).items()
        }
        return Inside(**found)


class NoAttention(nn.Module):
    """Sutskever et al. 2014: nothing is looked at, and a context is nothing."""

    context_dim = 0
    watched = False

    def __init__(self, query_dim: int):  # noqa: ARG002  built like the others
        super().__init__()

    def prepare(
        self, memory: Float[Tensor, "B S M"]
    ) -> tuple[Float[Tensor, "B S 0"], Float[Tensor, "B S 0"]]:
        nothing = memory[..., :0]
        return nothing, nothing

    def forward(
        self,
        query: Float[Tensor, "B T Q"],
        keys: Float[Tensor, "B S 0"],  # noqa: ARG002
        values: Float[Tensor, "B S 0"],  # noqa: ARG002
        mask: Bool[Tensor, "B 1 S"] | None,  # noqa: ARG002
        steps: Int[Tensor, "#B T"],  # noqa: ARG002
    ) -> tuple[Float[Tensor, "B T 0"], Choice | None]:
        return query[..., :0], None


ATTENTIONS: dict[str, type[nn.Module]] = {  # by where they look; all are built from a query's width
    "none": NoAttention,
    "global": Global,
    "local-monotonic": LocalMonotonic,
    "local-predictive": LocalPredictive,
}
