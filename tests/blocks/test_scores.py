"""Each score against a naive double loop, and the properties all of them share."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.blocks.masks import masked_softmax, padding_mask
from saccade.blocks.scores import (
    SCORES,
    Additive,
    Concat,
    Cosine,
    Dot,
    Gaussian,
    General,
    Location,
    batched_product,
)
from saccade.errors import InputError

B, T, S, D = 2, 3, 5, 8
ANY_WIDTHS = ["additive", "concat", "general", "location"]


def scored(score, query, memory):
    return score(query, score.prepare(memory))


def linear(module, x):
    return module.weight @ x


# One query, one key, position of the key -> one number: the lectures' formulas, word by word.
FORMULAS = {
    "additive": lambda m, q, k, _j: (
        m.energy.weight[0] @ torch.tanh(linear(m.query_proj, q) + linear(m.key_proj, k))
    ),
    "concat": lambda m, q, k, _j: (
        m.energy.weight[0] @ torch.tanh(linear(m.joint_proj, torch.cat([q, k])))
    ),
    "dot": lambda _m, q, k, _j: sum(q * k),
    "scaled-dot": lambda _m, q, k, _j: sum(q * k) / math.sqrt(len(q)),
    "general": lambda m, q, k, _j: q @ m.key_proj.weight @ k,
    "location": lambda m, q, _k, j: m.position_proj.weight[j] @ q,
    "cosine": lambda _m, q, k, _j: sum(q * k) / (q.norm() * k.norm()),
    "gaussian": lambda _m, q, k, _j: -sum((q - k) ** 2) / 2,
}


@pytest.mark.parametrize(
    ("name", "key_dim"), [(name, D) for name in SCORES] + [(name, 6) for name in ANY_WIDTHS]
)
@torch.no_grad()
def test_a_score_is_its_formula_in_a_double_loop(name, key_dim):
    score = SCORES[name](D, key_dim)
    query, memory = torch.randn(B, T, D), torch.randn(B, S, key_dim)
    scores = scored(score, query, memory)
    for b, t, s in itertools.product(range(B), range(T), range(S)):
        expected = FORMULAS[name](score, query[b, t], memory[b, s], s)
        torch.testing.assert_close(scores[b, t, s], expected)


@pytest.mark.parametrize("name", [name for name in SCORES if name not in ANY_WIDTHS])
def test_unequal_widths_are_refused_by_name(name):
    with pytest.raises(InputError, match="queries are 8 wide and keys 6; make them equal"):
        SCORES[name](8, 6)


@pytest.mark.parametrize(
    ("name", "size"), [("additive", "hidden_dim"), ("concat", "hidden_dim"), ("location", "limit")]
)
def test_a_score_of_no_size_is_refused(name, size):
    for number in (0, -3):
        with pytest.raises(InputError, match=f"{size} of a score is {number}, it must be at least"):
            SCORES[name](D, D, **{size: number})


@pytest.mark.parametrize("name", SCORES)
@given(seed=st.integers(0, 2**16), keys=st.integers(1, 9))
@settings(max_examples=20, deadline=None)
def test_weights_are_a_distribution_over_the_allowed_keys(name, seed, keys):
    g = torch.Generator().manual_seed(seed)
    query, memory = torch.randn(B, T, D, generator=g), torch.randn(B, keys, D, generator=g)
    mask = torch.rand(B, 1, keys, generator=g) < 0.5
    weights = masked_softmax(scored(SCORES[name](D, D), query, memory), mask)
    assert (weights[~mask.expand_as(weights)] == 0).all()
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).float().expand(B, T))


@pytest.mark.parametrize("name", SCORES)
def test_permuting_the_keys_permutes_the_scores_except_by_location(name):
    score, order = SCORES[name](D, D), torch.tensor([3, 0, 4, 1, 2])
    query, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    straight, permuted = scored(score, query, memory), scored(score, query, memory[:, order])
    assert torch.allclose(straight[..., order], permuted, atol=1e-6) == (name != "location")
    assert torch.equal(straight, permuted) == (name == "location")


@pytest.mark.parametrize("name", SCORES)
def test_prepare_acts_on_each_position_alone(name):
    score, a, b = SCORES[name](D, D), torch.randn(B, 2, D), torch.randn(B, 3, D)
    together = score.prepare(torch.cat([a, b], dim=1))
    torch.testing.assert_close(together, torch.cat([score.prepare(a), score.prepare(b)], dim=1))


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("leading", [(), (B,), (B, 4)])
def test_any_leading_axes(name, leading):
    score = SCORES[name](D, D)
    query, memory = torch.randn(*leading, T, D), torch.randn(*leading, S, D)
    scores = scored(score, query, memory)
    assert scores.shape == (*leading, T, S)
    if leading:
        torch.testing.assert_close(scores[0], scored(score, query[0], memory[0]))


@pytest.mark.parametrize("name", SCORES)
def test_a_source_of_length_zero_gives_no_scores(name):
    scores = scored(SCORES[name](D, D), torch.randn(B, T, D), torch.randn(B, 0, D))
    assert masked_softmax(scores).shape == (B, T, 0)


@pytest.mark.parametrize("name", SCORES)
def test_gradients_reach_query_memory_and_weights(name):
    score = SCORES[name](D, D)
    query = torch.randn(B, T, D, requires_grad=True)
    memory = torch.randn(B, S, D, requires_grad=True)
    masked_softmax(scored(score, query, memory)).square().sum().backward()
    used = [query, *([] if name == "location" else [memory]), *score.parameters()]
    for tensor in used:
        assert tensor.grad.isfinite().all()
        assert tensor.grad.any()


@pytest.mark.parametrize("name", SCORES)
def test_zero_padding_behind_a_mask_is_harmless(name):
    score = SCORES[name](D, D)
    query = torch.randn(B, T, D, requires_grad=True)
    memory = torch.randn(B, S, D)
    memory[:, 3:] = 0
    memory.requires_grad_()
    mask = padding_mask(torch.tensor([3, 3]), S).unsqueeze(1)
    weights = masked_softmax(scored(score, query, memory), mask)
    torch.testing.assert_close(
        weights[..., :3], masked_softmax(scored(score, query, memory[:, :3]))
    )
    weights.square().sum().backward()
    assert query.grad.isfinite().all()
    assert memory.grad is None or not memory.grad[:, 3:].any()


def test_concat_is_additive_with_its_weights_side_by_side():
    additive, concat = Additive(D, 6, hidden_dim=7), Concat(D, 6, hidden_dim=7)
    concat.load_state_dict(
        {
            "joint_proj.weight": torch.cat(
                [additive.query_proj.weight, additive.key_proj.weight], dim=1
            ),
            "energy.weight": additive.energy.weight,
        }
    )
    query, memory = torch.randn(B, T, D), torch.randn(B, S, 6)
    torch.testing.assert_close(scored(additive, query, memory), scored(concat, query, memory))


def test_general_with_the_identity_is_dot():
    general = General(D, D)
    torch.nn.init.eye_(general.key_proj.weight)
    query, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    torch.testing.assert_close(scored(general, query, memory), scored(Dot(D, D), query, memory))


def test_gaussian_and_dot_agree_for_keys_of_equal_norm():
    query = torch.randn(B, T, D)
    memory = 3 * torch.nn.functional.normalize(torch.randn(B, S, D), dim=-1)
    gaussian = masked_softmax(scored(Gaussian(D, D), query, memory))
    dot = masked_softmax(scored(Dot(D, D), query, memory))
    torch.testing.assert_close(gaussian, dot)
    memory[:, 0] *= 2
    assert not torch.allclose(
        masked_softmax(scored(Gaussian(D, D), query, memory)),
        masked_softmax(scored(Dot(D, D), query, memory)),
    )


def test_gaussian_is_exact_far_from_zero():
    points = torch.tensor([[100_000.0], [100_001.0], [100_001.5]])
    expected = torch.tensor([[0, -0.5, -1.125], [-0.5, 0, -0.125], [-1.125, -0.125, 0]])
    points.requires_grad_()
    scores = scored(Gaussian(1, 1), points, points)
    torch.testing.assert_close(scores, expected)
    scores.sum().backward()  # a distance of zero has a slope too
    assert points.grad.isfinite().all()


def test_cosine_ignores_length_and_sharpens():
    query, memory = torch.randn(B, T, D), torch.randn(B, S, D)
    soft = scored(Cosine(D, D), query, memory)
    torch.testing.assert_close(soft, scored(Cosine(D, D), 9 * query, memory / 9))
    torch.testing.assert_close(5 * soft, scored(Cosine(D, D, sharpening=5.0), query, memory))
    assert (soft.abs() <= 1 + 1e-6).all()
    assert not scored(Cosine(D, D), query, torch.zeros(B, S, D)).any()


def test_location_reads_positions_up_to_its_limit():
    score, query = Location(D, D, limit=3), torch.randn(B, T, D)
    short, long = (
        scored(score, query, torch.randn(B, 2, D)),
        scored(score, query, torch.randn(B, S, D)),
    )
    assert torch.equal(short, long[..., :2])
    weights = masked_softmax(long)
    torch.testing.assert_close(weights[..., :3], long[..., :3].softmax(-1))
    assert not weights[..., 3:].any()
    query.requires_grad_()
    masked_softmax(scored(score, query, torch.randn(B, S, D))).square().sum().backward()
    assert query.grad.isfinite().all()


def test_scaled_dot_of_thinking_machines():
    # Scores 112 and 96 at width 64 become 14 and 12, weights 0.88 and 0.12.
    query, memory = torch.zeros(1, 64), torch.zeros(2, 64)
    query[0, 0], memory[0, 0], memory[1, 0] = 1.0, 112.0, 96.0
    scores = scored(SCORES["scaled-dot"](64, 64), query, memory)
    assert scores.tolist() == [[14.0, 12.0]]
    assert [round(weight, 2) for weight in masked_softmax(scores)[0].tolist()] == [0.88, 0.12]


def test_batched_product_goes_matrix_by_matrix():
    a, b = torch.randn(4, 2, 3), torch.randn(4, 3, 5)
    product = batched_product(a, b)
    assert product.shape == (4, 2, 5)
    for n in range(4):
        torch.testing.assert_close(product[n], a[n] @ b[n])
