"""The same result, however it is worked out: accumulated, in a team, compiled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_runs import Killed, Learn, close, die_at

from saccade.blocks import products
from saccade.training.checkpoint import load_tensors
from saccade.training.run import Run

SRC = Path(__file__).parents[2] / "src"
EXACT = ("model.dropout=0.0", "train.optimizer=sgd", "train.peak_rate=0.1")


def test_the_same_number_gives_the_same_bits(learn: Learn) -> None:
    one, other, third = learn(), learn(), learn("train.seed=2")
    assert one.weights.read_bytes() == other.weights.read_bytes()
    assert one.weights.read_bytes() != third.weights.read_bytes()


def test_what_the_caller_draws_stays_as_it_was(learn: Learn) -> None:
    torch.manual_seed(123)
    drawn = torch.rand(3)
    torch.manual_seed(123)
    learn("model.dropout=0.1")
    assert torch.equal(torch.rand(3), drawn)


def test_accumulation_changes_nothing(learn: Learn) -> None:
    whole, pieces = learn(*EXACT), learn(*EXACT, "train.accumulate=3")
    assert close(load_tensors(whole.weights), load_tensors(pieces.weights), atol=1e-5)


@pytest.mark.serial
@pytest.mark.usefixtures("team")
def test_a_team_changes_nothing(learn: Learn, dev: list[str]) -> None:
    sets = (*EXACT, f"task.dev={dev}", "train.eval_every=3")
    alone, two = learn(*sets), learn(*sets, "train.processes=2")
    assert close(load_tensors(alone.weights), load_tensors(two.weights), atol=1e-5)
    assert alone.evaluation("dev")["by_example"] == two.evaluation("dev")["by_example"]


@pytest.mark.serial
@pytest.mark.usefixtures("team")
def test_a_team_gives_the_same_bits_twice_and_those_of_accumulation(learn: Learn) -> None:
    one, other = learn("train.processes=2"), learn("train.processes=2")
    alone = learn("train.accumulate=2")
    assert one.weights.read_bytes() == other.weights.read_bytes()
    theirs = load_tensors(alone.weights)
    assert all(torch.equal(each, theirs[n]) for n, each in load_tensors(one.weights).items())


WIDE = ("model.dim=32", "model.ffn_dim=64", "train.batch_tokens=400")


@pytest.mark.usefixtures("wide")
def test_wide_products_learn_the_same(learn: Learn, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = learn(*EXACT, *WIDE), learn(*EXACT, *WIDE)
    assert one.weights.read_bytes() == other.weights.read_bytes()
    monkeypatch.setattr(products, "gains", lambda: False)
    assert close(load_tensors(one.weights), load_tensors(learn(*EXACT, *WIDE).weights), atol=1e-4)


@pytest.mark.usefixtures("wide")
def test_with_wide_products_a_run_that_died_goes_on_to_the_same_bits(
    learn: Learn, tmp_path: Path
) -> None:
    sets = (*WIDE, "train.schedule=constant", "train.save_every=2")
    whole, cut = learn(*sets), tmp_path / "cut"
    with pytest.raises(Killed):
        learn(*sets, out=cut, update=die_at(5))
    assert whole.weights.read_bytes() == learn(*sets, out=cut, resume=True).weights.read_bytes()


@pytest.mark.serial
@pytest.mark.usefixtures("team")
def test_a_batch_too_small_for_the_team_is_shared_all_the_same(learn: Learn) -> None:
    sets = (*EXACT, "train.batch_tokens=1")  # an example a batch: one rank has nothing to do
    alone, two = learn(*sets), learn(*sets, "train.processes=2")
    assert close(load_tensors(alone.weights), load_tensors(two.weights), atol=1e-5)


def test_bfloat16_trains_finite_weights_in_float32(learn: Learn) -> None:
    losses: list[float] = []
    run = learn("train.precision=bfloat16", "train.steps=20",
                update=lambda _, update: losses.append(update.losses["loss"]))  # fmt: skip
    found = load_tensors(run.weights)
    assert all(t.dtype == torch.float32 and bool(t.isfinite().all()) for t in found.values())
    assert losses[-1] < losses[0]
    assert not close(found, load_tensors(learn("train.steps=20").weights))


@pytest.mark.slow
@pytest.mark.serial
def test_a_compiled_model_learns_the_same(files: list[str], tmp_path: Path) -> None:
    """In a process of its own: the checker of annotations cannot be compiled."""
    target = Path(__file__).parent / "kill_target.py"
    sets = (*EXACT, "train.processes=1", "train.steps=4", "train.eval_every=4")
    for name, compiled in (("plain", "false"), ("compiled", "true")):
        subprocess.run(
            [sys.executable, target, tmp_path / name, *files, *sets, f"train.compile={compiled}"],
            env={**os.environ, "PYTHONPATH": str(SRC), "OMP_NUM_THREADS": "1"},
            check=True,
        )
    plain, compiled_run = Run(tmp_path / "plain"), Run(tmp_path / "compiled")
    assert close(load_tensors(plain.weights), load_tensors(compiled_run.weights), atol=1e-4)
