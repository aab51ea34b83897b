"""The promises of a score, each a function that says what is broken; see `model_checks.py`."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from saccade.blocks.masks import masked_softmax
from saccade.blocks.scores import Score
from saccade.randomness import seeded

Check = Callable[[Any], None]  # of a class; raises AssertionError, or UncheckedError

CLOSE = 1e-9
WIDTH = 8


class UncheckedError(Exception):
    """A promise that could not be put to the test; the message says why."""


def near(found: Tensor, wanted: Tensor, message: str) -> None:
    """Equal but for rounding, -inf included."""
    shapes = (tuple(found.shape), tuple(wanted.shape))
    assert shapes[0] == shapes[1], f"{message}: shape {shapes[0]} is not {shapes[1]}"
    same = torch.allclose(found, wanted, rtol=0, atol=CLOSE, equal_nan=False)
    assert same, f"{message}: they differ by up to {(found - wanted).abs().max():.2g}"


def _random(*shape: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _score(cls: Any) -> Any:
    assert issubclass(cls, Score), "a score must extend saccade.blocks.scores.Score"
    with seeded(1):
        return cls(WIDTH, WIDTH).double().eval()


def prepares_each_position_alone(cls: Any) -> None:
    """`prepare` of two halves, joined, is `prepare` of the whole: keys can be cached."""
    score, memory = _score(cls), _random(2, 6, WIDTH)
    halves = torch.cat([score.prepare(memory[:, :4]), score.prepare(memory[:, 4:])], dim=1)
    near(halves, score.prepare(memory), "prepare mixes positions; let it act on each alone")


def scores_every_pair(cls: Any) -> None:
    """A logit for each query and key, whatever axes stand in front."""
    score = _score(cls)
    query, memory = _random(2, 3, 5, WIDTH), _random(2, 3, 6, WIDTH, seed=2)
    logits = score(query, score.prepare(memory))
    assert logits.shape == (2, 3, 5, 6), (
        f"queries (2, 3, 5, {WIDTH}) and keys of 6 positions must give logits (2, 3, 5, 6), "
        f"not {tuple(logits.shape)}"
    )
    alone = score(query[0, 0], score.prepare(memory[0, 0]))
    near(logits[0, 0], alone, "a row of a batch is not what it is alone")


def gives_a_distribution(cls: Any) -> None:
    """Masked and normalised: sums to one, zero where masked, all zeros where nothing is allowed."""
    score = _score(cls)
    logits = score(_random(2, 3, WIDTH), score.prepare(_random(2, 6, WIDTH, seed=2)))
    mask = torch.ones(2, 3, 6, dtype=torch.bool)
    mask[:, :, 4:] = False
    mask[1, 2] = False
    weights = masked_softmax(logits, mask)
    assert (weights >= 0).all(), "weights are negative or not numbers"
    assert (weights[~mask] == 0).all(), "a masked position got weight"
    sums = weights.sum(-1)
    expected = torch.ones_like(sums)
    expected[1, 2] = 0
    near(sums, expected, "weights do not sum to one (or zero where nothing may be looked at)")


def ignores_the_order_of_keys(cls: Any) -> None:
    """Keys in another order give the same logits in that order, unless `depends_on_position`."""
    score, query, memory = _score(cls), _random(2, 3, WIDTH), _random(2, 6, WIDTH, seed=2)
    if getattr(score, "depends_on_position", False):
        raise UncheckedError("it says depends_on_position = True")
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    near(
        score(query, score.prepare(memory[:, order])),
        score(query, score.prepare(memory))[..., order],
        "the order of the keys changes logits; if that is meant, set depends_on_position = True",
    )


def has_finite_gradients(cls: Any) -> None:
    """No NaN in a gradient, not even for vectors of zeros or equal ones."""
    score = _score(cls)
    query, memory = _random(2, 3, WIDTH), _random(2, 6, WIDTH, seed=2)
    query[0, 0], memory[0, 0] = 0.0, 0.0
    memory[1, 1] = query[1, 1]
    query.requires_grad_()
    memory.requires_grad_()
    logits = score(query, score.prepare(memory))
    # Finite alone: a score may say -inf where it never looks.
    masked_softmax(logits, torch.isfinite(logits)).square().sum().backward()
    named = {"query": query, "memory": memory, **dict(score.named_parameters())}
    for name, tensor in named.items():
        if tensor.grad is not None:
            assert torch.isfinite(tensor.grad).all(), f"the gradient of {name} is not finite"


SCORE_CHECKS: dict[str, Check] = {
    "a logit for each query and key": scores_every_pair,
    "keys can be cached": prepares_each_position_alone,
    "weights are a distribution": gives_a_distribution,
    "the order of keys does not matter": ignores_the_order_of_keys,
    "gradients are finite": has_finite_gradients,
}
