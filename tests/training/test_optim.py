"""Schedules are their formulas, clipping is the lectures', a flat optimiser is torch's."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from saccade.training.optim import (
    MOMENTS,
    OPTIMIZERS,
    SCHEDULES,
    FlatOptimizer,
    OptimizerConfig,
    Progress,
    Rates,
    clip_scale,
)

RATES = Rates(peak=0.002, warmup=100, dim=512)


def rate(name, step, share=0.0, rates=RATES):
    return SCHEDULES[name](Progress(step, share), rates)


@given(step=st.integers(1, 10**6))
def test_the_papers_schedule_is_equation_3(step):
    rates = Rates(peak=123.0, warmup=4000, dim=512)
    expected = 512**-0.5 * min(step**-0.5, step * 4000**-1.5)
    assert rate("paper", step, rates=rates) == pytest.approx(expected, rel=1e-12)


def test_the_papers_schedule_peaks_at_the_known_value():
    rates = Rates(peak=1.0, warmup=4000, dim=512)
    assert rate("paper", 4000, rates=rates) == pytest.approx(6.987712429686844e-4, rel=1e-9)
    assert rate("paper", 1, rates=rates) == pytest.approx(1.7469281074217107e-7, rel=1e-9)
    values = [rate("paper", step, rates=rates) for step in range(1, 8000)]
    assert max(values) == values[3999]


@pytest.mark.parametrize("name", [name for name in SCHEDULES if name != "paper"])
def test_warm_up_is_a_straight_line_to_the_peak(name):
    for step in (1, 7, 50, 99, 100):
        assert rate(name, step) == pytest.approx(0.002 * step / 100)
    at_once = Rates(peak=0.002, warmup=0, dim=512)
    assert rate(name, 1, rates=at_once) == pytest.approx(0.002)


@given(share=st.floats(0, 1), step=st.integers(101, 10**6))
def test_what_follows_the_warm_up(share, step):
    assert rate("constant", step, share) == 0.002
    assert rate("linear", step, share) == pytest.approx(0.002 * (1 - share))
    cosine = 0.002 * (1 + math.cos(math.pi * share)) / 2
    assert rate("cosine", step, share) == pytest.approx(cosine)
    assert rate("inverse-sqrt", step, share) == pytest.approx(0.002 * math.sqrt(100 / step))


def test_linear_and_cosine_end_at_zero():
    assert rate("linear", 500, 1.0) == 0
    assert rate("cosine", 500, 1.0) == 0


@pytest.mark.parametrize("name", SCHEDULES)
@given(step=st.integers(1, 10**6), share=st.floats(0, 1), warmup=st.integers(0, 10**4))
def test_a_rate_is_never_negative_nor_above_its_peak(name, step, share, warmup):
    rates = Rates(peak=0.01, warmup=warmup, dim=512)
    peak = 512**-0.5 * max(warmup, 1) ** -0.5 if name == "paper" else 0.01
    assert 0 <= rate(name, step, share, rates) <= peak * (1 + 1e-12)


@given(norm=st.floats(0, 1e30), limit=st.floats(1e-6, 1e6))
def test_clipping_is_the_lectures_formula(norm, limit):
    scale = clip_scale(norm, limit)
    if norm <= limit:
        assert scale == 1.0
    else:
        assert scale == limit / norm
        assert scale * norm == pytest.approx(limit)


def test_clipping_is_safe_at_zero_and_exact_at_the_limit():
    assert clip_scale(0.0, 1.0) == clip_scale(0.0, 0.0) == clip_scale(1.0, 1.0) == 1.0
    assert clip_scale(math.nextafter(1.0, 2.0), 1.0) < 1.0
    assert clip_scale(5.0, math.inf) == 1.0


def flat(name, tensors, stretches, **settings):
    """A flat optimiser and the vector it updates."""
    vector = torch.cat([tensor.flatten() for tensor in tensors])
    moments = torch.zeros(MOMENTS[name], len(vector))
    return (
        vector,
        moments,
        FlatOptimizer(OptimizerConfig(name=name, **settings), vector, moments, stretches),
    )


def problem():
    tensors = [torch.randn(3, 4), torch.randn(5, 2), torch.randn(4), torch.randn(3)]
    grads = [[torch.randn_like(tensor) for tensor in tensors] for _ in range(6)]
    return tensors, grads, [0.01, 0.02, 0.03, 0.02, 0.01, 0.005]


WHOLE = [(slice(0, 22), True), (slice(22, 29), False)]  # matrices, vectors


def torchs(name, parameters, decay):
    matrices, vectors = parameters[:2], parameters[2:]
    groups = [
        {"params": matrices, "weight_decay": decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    if name == "sgd":
        return torch.optim.SGD(groups, lr=1.0, momentum=0.9)
    kind = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name]
    return kind(groups, lr=1.0, betas=(0.9, 0.98), eps=1e-9)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_a_flat_optimiser_is_torchs_on_separate_tensors(name, decay):
    tensors, grads, rates = problem()
    vector, _, ours = flat(name, tensors, WHOLE, weight_decay=decay, momentum=0.9)
    parameters = [torch.nn.Parameter(tensor.clone()) for tensor in tensors]
    theirs = torchs(name, parameters, decay)
    for number, (gs, lr) in enumerate(zip(grads, rates, strict=True), start=1):
        ours.step(torch.cat([g.flatten() for g in gs]), lr, number)
        for parameter, g in zip(parameters, gs, strict=True):
            parameter.grad = g
        for group in theirs.param_groups:
            group["lr"] = lr
        theirs.step()
        expected = torch.cat([p.detach().flatten() for p in parameters])
        torch.testing.assert_close(vector, expected, rtol=1e-6, atol=1e-7)


def test_only_matrices_decay():
    tensors, _, _ = problem()
    before = torch.cat([tensor.flatten() for tensor in tensors])
    vector, _, ours = flat("adamw", tensors, WHOLE, weight_decay=0.1)
    ours.step(torch.zeros(29), 0.5, 1)
    torch.testing.assert_close(vector[:22], before[:22] * (1 - 0.5 * 0.1))
    assert torch.equal(vector[22:], before[22:])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_stretches_of_several_ranks_are_the_whole(name):
    tensors, grads, rates = problem()
    settings = {"weight_decay": 0.1, "momentum": 0.9}
    whole, moments, optimizer = flat(name, tensors, WHOLE, **settings)
    parts, shared, _ = flat(name, tensors, WHOLE, **settings)
    ranks = [
        FlatOptimizer(OptimizerConfig(name=name, **settings), parts, shared, stretches)
        for stretches in [
            [(slice(0, 7), True), (slice(22, 22), False)],  # a rank may have none
            [(slice(7, 22), True), (slice(22, 29), False)],
            [(slice(22, 22), True), (slice(29, 29), False)],
        ]
    ]
    for number, (gs, lr) in enumerate(zip(grads, rates, strict=True), start=1):
        g = torch.cat([each.flatten() for each in gs])
        optimizer.step(g, lr, number)
        for rank in ranks:
            rank.step(g, lr, number)
    torch.testing.assert_close(parts, whole, rtol=1e-6, atol=0)
    torch.testing.assert_close(shared, moments, rtol=1e-6, atol=0)


def test_all_it_remembers_is_in_the_callers_moments():
    """A new optimiser over the same memory goes on as the old one would."""
    tensors, grads, rates = problem()
    steady, _, kept = flat("adamw", tensors, WHOLE)
    vector, moments, first = flat("adamw", tensors, WHOLE)
    for number, (gs, lr) in enumerate(zip(grads, rates, strict=True), start=1):
        g = torch.cat([each.flatten() for each in gs])
        kept.step(g, lr, number)
        again = FlatOptimizer(OptimizerConfig(name="adamw"), vector, moments, WHOLE)
        again.step(g, lr, number)
    assert first is not again
    assert torch.equal(vector, steady)


def test_plain_sgd_is_x_minus_rate_times_gradient():
    x, g = torch.randn(29), torch.randn(29)
    vector, moments, optimizer = flat("sgd", [x], WHOLE)
    optimizer.step(g, 0.25, 1)  # a power of two: rate * g is exact, so is the formula
    assert torch.equal(vector, x - 0.25 * g)
    assert (moments == 0).all()
