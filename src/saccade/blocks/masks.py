"""Masks: bool, True = may attend; made only here, applied only by `masked_softmax`."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor


def padding_mask(lengths: Int[Tensor, " B"], size: int) -> Bool[Tensor, "B S"]:
    """The first `lengths[b]` of `size` positions are real, the rest is padding."""
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(1)


def causal_mask(
    queries: int, keys: int | None = None, device: torch.device | None = None
) -> Bool[Tensor, "T S"]:
    """A query sees itself and what came before; with more keys, the queries are the last ones."""
    keys = queries if keys is None else keys
    return torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)


def window_mask(
    queries: int,
    before: int,
    after: int = 0,
    keys: int | None = None,
    device: torch.device | None = None,
) -> Bool[Tensor, "T S"]:
    """A query sees `before` keys behind it, itself, and `after` ahead; the queries are the last."""
    keys = queries if keys is None else keys
    everything = torch.ones(queries, keys, dtype=torch.bool, device=device)
    here = keys - queries
    return everything.tril(here + after).triu(here - before)


def newest_mask(ages: Int[Tensor, " N"], size: int) -> Bool[Tensor, "N 1 1 L"] | None:
    """Each row sees its newest places, as many as it has read; None: all `size` of them."""
    if bool((ages == size).all()):
        return None
    places = torch.arange(size, device=ages.device)
    return (places >= size - ages.unsqueeze(1))[:, None, None]


def near_mask(centres: Float[Tensor, "*B T"], half_width: int, size: int) -> Bool[Tensor, "*B T S"]:
    """A query sees the keys at most `half_width` away from its own centre (Luong et al. 2015)."""
    places = torch.arange(size, device=centres.device)
    return (places - centres.unsqueeze(-1)).abs() <= half_width


def permutation_masks(
    order: Int[Tensor, "*B T"],
) -> tuple[Bool[Tensor, "*B T T"], Bool[Tensor, "*B T T"]]:
    """XLNet (Yang et al. 2019), 2.3: content and query stream; `order[k]` is predicted k-th.

    A position sees those earlier in the factorisation order; only its content stream sees itself.
    """
    place = order.argsort(dim=-1)
    of_query, of_key = place.unsqueeze(-1), place.unsqueeze(-2)
    return of_key <= of_query, of_key < of_query


def combine(*masks: Bool[Tensor, "*#M"] | None) -> Bool[Tensor, "*M"] | None:
    """What all masks allow, broadcast: give padding its query axis, `mask.unsqueeze(-2)`, first."""
    given = [mask for mask in masks if mask is not None]
    if not given:
        return None
    allowed = given[0]
    for mask in given[1:]:
        allowed = allowed & mask
    return allowed


def masked_softmax(
    scores: Float[Tensor, "*B T S"], mask: Bool[Tensor, "*#B #T S"] | None = None
) -> Float[Tensor, "*B T S"]:
    """Softmax over the allowed keys; exact zeros elsewhere, also for a query without any."""
    if mask is None:
        return scores.softmax(dim=-1)
    # The lowest finite number, not -inf: a row of -inf would be 0/0, here and in the gradient.
    lowest = torch.finfo(scores.dtype).min
    forbidden = ~mask
    return scores.masked_fill(forbidden, lowest).softmax(dim=-1).masked_fill(forbidden, 0.0)
