"""An update is one function of the whole batch, however split; the not finite is refused."""

import itertools
import math
import os
import time
from pathlib import Path

import pytest
import torch
from training.tiny_objective import Rows, TwoTerms, learner_of, pieces_of, rows

import saccade
from saccade.blocks.dropout import keyed_dropout
from saccade.errors import TrainingError
from saccade.randomness import key
from saccade.training.loop import Command, Weights, call, train
from saccade.training.optim import OptimizerConfig
from saccade.training.team import gather_team

SGD = OptimizerConfig(name="sgd")


@pytest.fixture(autouse=True)
def _one_thread():
    """Bits are promised for equal thread counts."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def run(learner, pieces, steps, rate=0.1):
    return list(itertools.islice(train(learner, pieces, lambda _: rate, 1), steps))


def by_hand(batch):
    """The gradient of  mean(main) + 0.3 mean(aside)  at the start, in one piece."""
    learner = learner_of()
    found, _ = learner.objective(batch, None)
    marked = max(int(batch.marked.sum()), 1)
    loss = found["main"].sum / len(batch.x) + 0.3 * found["aside"].sum / marked
    loss.backward()
    grads = torch.cat([p.grad.flatten() for p in learner.weights.parameters])
    return learner.weights.flat.clone(), grads, found


@pytest.mark.parametrize("sizes", [(11,), (8, 3), (1, 9, 1), (2, 2, 2, 5)])
def test_unequal_micro_batches_are_one_batch(sizes):
    """With plain SGD and no clipping, so that nothing hides a wrong divisor."""
    batch, learner = rows(1), learner_of(config=SGD)
    start, grads, found = by_hand(batch)
    (update,) = run(learner, lambda _: batch.split(*sizes), 1)
    torch.testing.assert_close(learner.weights.flat, start - 0.1 * grads, rtol=1e-5, atol=1e-6)
    assert update.applied
    assert update.count == 11
    assert update.grad_norm == pytest.approx(grads.norm().item(), rel=1e-5)
    assert update.losses["main"] == pytest.approx(found["main"].sum.item() / 11, rel=1e-5)
    marked = int(batch.marked.sum())
    assert update.losses["aside"] == pytest.approx(found["aside"].sum.item() / marked, rel=1e-5)
    assert learner.carries == [1] * len(sizes)  # each piece goes on from its own


def test_a_term_about_nothing_counts_nothing():
    batch = rows(1)
    batch = Rows(batch.x, batch.y, torch.zeros(11, dtype=torch.bool))
    start, grads, _ = by_hand(batch)
    learner = learner_of(config=SGD)
    (update,) = run(learner, lambda _: batch.split(8, 3), 1)
    torch.testing.assert_close(learner.weights.flat, start - 0.1 * grads, rtol=1e-5, atol=1e-6)
    assert update.losses["aside"] == 0


def test_clipping_scales_the_whole_gradient():
    start, grads, _ = by_hand(rows(1))
    learner = learner_of(config=SGD, clip=0.5)
    (update,) = run(learner, lambda _: [rows(1)], 1)
    assert update.grad_norm > 0.5  # as it was before
    expected = start - 0.1 * grads * 0.5 / grads.norm()
    torch.testing.assert_close(learner.weights.flat, expected, rtol=1e-5, atol=1e-6)


def test_parameters_are_views_of_the_flat_vector_matrices_first():
    learner = learner_of()
    weights = learner.weights
    assert [p.ndim >= 2 for p in weights.parameters] == sorted(
        (p.ndim >= 2 for p in learner.objective.parameters()), reverse=True
    )
    weights.flat.zero_()
    assert all((p == 0).all() for p in learner.objective.parameters())
    named = weights.named(weights.flat)
    assert named.keys() == dict(learner.objective.named_parameters()).keys()
    weights.fill(weights.flat, {name: torch.ones_like(part) for name, part in named.items()})
    assert (weights.flat == 1).all()


def poisoned(where):
    batch = rows(99)
    if where == "loss":
        batch.y[3] = math.nan
    else:  # the root of a zero error has no finite slope
        with torch.no_grad():
            batch.y[:] = TwoTermsStart.prediction(batch.x)
        batch.marked[:] = True
    return batch


class TwoTermsStart:
    """What the untrained net predicts."""

    @staticmethod
    def prediction(x):
        return learner_of().objective.net(x).squeeze(1)


@pytest.mark.parametrize("where", ["loss", "gradient"])
def test_what_is_not_finite_is_not_applied(where):
    learner = learner_of()
    before = learner.weights.flat.clone()
    (update,) = run(learner, lambda _: [rows(1), poisoned(where)], 1)
    assert not update.applied
    assert math.isfinite(update.losses["main"]) == (where == "gradient")
    assert learner.refused == 1
    assert torch.equal(learner.weights.flat, before)
    assert (learner.weights.moments == 0).all()


def test_a_refused_update_leaves_no_trace_in_those_after_it():
    """Adam's step number included: as if the bad batch had never come."""
    bad, good = learner_of(ema=0.9), learner_of(ema=0.9)
    batches = [rows(1), poisoned("loss"), rows(2), rows(3)]
    updates = run(bad, lambda step: [batches[step - 1]], 4)
    assert [update.applied for update in updates] == [True, False, True, True]
    assert [update.step for update in updates] == [1, 2, 3, 4]
    run(good, lambda step: [[rows(1), rows(2), rows(3)][step - 1]], 3)
    for name in ("flat", "moments", "ema"):
        assert torch.equal(getattr(bad.weights, name), getattr(good.weights, name)), name


def test_dropout_depends_on_seed_step_and_place_alone():
    learner = learner_of(dropout=0.5, config=SGD)
    start = learner.weights.flat.clone()
    run(learner, pieces_of(learner.team), 1)
    other = learner_of(dropout=0.5, config=SGD)
    torch.rand(100)
    total = 0
    for place, piece in enumerate(rows(1).split(8, 3)):
        with keyed_dropout(key(5, "dropout", 1, place)):
            found, _ = other.objective(piece, None)
        aside = int(rows(1).marked.sum())
        total = total + found["main"].sum / 11 + 0.3 * found["aside"].sum / aside
    total.backward()
    grads = torch.cat([p.grad.flatten() for p in other.weights.parameters])
    torch.testing.assert_close(learner.weights.flat, start - 0.1 * grads, rtol=1e-5, atol=1e-6)


def test_an_average_of_weights_follows_its_formula():
    learner = learner_of(ema=0.5)
    learner.weights.ema.copy_(learner.weights.flat)
    expected = learner.weights.flat.clone()
    for number, _ in enumerate(run_lazily(learner, 12), start=1):
        decay = min(0.5, number / (number + 10))
        expected = decay * expected + (1 - decay) * learner.weights.flat
        torch.testing.assert_close(learner.weights.ema, expected)


def run_lazily(learner, steps):
    return itertools.islice(train(learner, lambda s: [rows(s)], lambda _: 0.1, 1), steps)


def test_the_loop_is_lazy():
    asked = []

    def pieces(step):
        asked.append(step)
        return [rows(step)]

    updates = train(learner_of(), pieces, lambda _: 0.1, 5)
    assert asked == []
    assert next(updates).step == 5
    assert asked == [5]
    next(updates)
    assert asked == [5, 6]


def test_training_learns():
    updates = run(learner_of(), lambda step: [rows(step, 64)], 60, rate=0.03)
    assert updates[-1].losses["main"] < updates[0].losses["main"] / 4


# --- a team ------------------------------------------------------------------------------------


@pytest.fixture
def member(monkeypatch):
    """The command of a member; the source and the tests are on its path."""
    paths = [Path(saccade.__file__).parents[1], Path(__file__).parents[1]]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
    return lambda clip=1e9, die_at=0: ["training.tiny_objective", str(clip), str(die_at)]


def room(size):
    return Weights.floats(TwoTerms(0.5), OptimizerConfig(), size, ema=False)


@pytest.mark.serial
def test_a_team_is_one_process_with_as_many_pieces_to_the_bit(member):
    """With dropout on and gradients clipped."""
    size, clip = 2, 0.1
    team = gather_team(size, room(size), member(clip))
    try:
        learner = learner_of(team, dropout=0.5, clip=clip)
        together = run(learner, pieces_of(team), 5)
        call(learner, Command.MEET)  # the other rank may still be updating its part
        found = learner.weights.flat.clone(), learner.weights.moments.clone()
        call(learner, Command.EVALUATE)
        call(learner, Command.STOP)
        assert [process.wait(timeout=60) for process in team.members] == [0] * (size - 1)
    finally:
        team.disband()
    single = learner_of(dropout=0.5, clip=clip)
    alone = run(single, pieces_of(single.team), 5)
    assert torch.equal(found[0], single.weights.flat)
    assert torch.equal(found[1], single.weights.moments)
    for a, b in zip(together, alone, strict=True):
        assert (a.step, a.losses, a.count) == (b.step, b.losses, b.count)
        assert a.grad_norm == pytest.approx(b.grad_norm, rel=1e-5)


@pytest.mark.serial
def test_a_member_that_dies_is_noticed(member):
    team = gather_team(2, room(2), member(die_at=3))
    try:
        learner = learner_of(team, dropout=0.5)
        updates = train(learner, pieces_of(team), lambda _: 0.1, 1)
        next(updates), next(updates)
        began_at = time.monotonic()
        with pytest.raises(TrainingError, match=r"code 9; .* --resume .* --accept-changes"):
            next(updates)
        assert time.monotonic() - began_at < 60  # and does not wait for ever
    finally:
        team.disband()
    assert team.members == []


@pytest.mark.serial
def test_disband_ends_members_that_wait(member):
    team = gather_team(2, room(2), member())
    (process,) = team.members
    team.disband()
    assert process.poll() is not None
