"""What is carried belongs to its lane, is saved, and comes back bit for bit."""

from pathlib import Path
from signal import SIGTERM, raise_signal
from typing import Any

import pytest
import torch
from tiny_runs import Killed, die_at, tiny_text, train, weights_at, write_text

from saccade.config import override
from saccade.errors import InputError
from saccade.inspection.stored import read_runs
from saccade.training import carry
from saccade.training.checkpoint import load_tensors, steps
from saccade.training.model import load
from saccade.training.run import Run
from saccade.training.signals import Interrupted

SRC = Path(__file__).parents[2] / "src"
RNN = ["model.cell=gru", "model.dim=8", "model.layers=2"]
XL = ["model.dim=8", "model.layers=1", "model.heads=2", "model.memory=10", "model.dropout=0.2"]
CARRYING = {"rnn": RNN, "transformer-xl": XL}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [write_text(tmp_path_factory.mktemp("text"), size=700)]


def config(files: list[str], name: str, *sets: str) -> dict[str, Any]:
    plain = tiny_text(files)
    plain["model"] = {"name": name}
    usual = ["train.batch_tokens=96", "task.context=12", "train.save_every=1", "train.keep=50"]
    return override(plain, [*CARRYING[name], *usual, f"task.dev={files}", *sets])


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def equal_runs(one: Run, other: Run, step: int) -> bool:
    return all(
        same(weights_at(one, step, file), weights_at(other, step, file))
        for file in ("model", "moment0", "moment1", "carry")
    )


@pytest.mark.parametrize("name", CARRYING)
def test_a_killed_run_goes_on_with_what_it_carried(
    files: list[str], tmp_path: Path, name: str
) -> None:
    """Killed within an epoch and after one; 8 lanes of about 85 tokens: 8 batches an epoch."""
    told = config(files, name, "train.steps=10")
    whole, _ = train(told, tmp_path / "whole")
    for step in (5, 9):
        with pytest.raises(Killed):
            train(told, tmp_path / "cut", resume=step > 5, update=die_at(step))
    cut, _ = train(told, tmp_path / "cut", resume=True)
    assert equal_runs(whole, cut, 10)
    assert weights_at(cut, 10, "carry")


@pytest.mark.parametrize("change", ["train.batch_tokens=48", "train.accumulate=2"])
@pytest.mark.parametrize("name", CARRYING)
def test_where_micro_batches_changed_nothing_is_carried_over(
    files: list[str], tmp_path: Path, name: str, change: str
) -> None:
    """What is carried is then of the rows there are now, as in a run begun so."""
    with pytest.raises(Killed):
        train(config(files, name), tmp_path / "run", update=die_at(4))
    told = config(files, name, change)
    with pytest.raises(Killed):  # before it has saved anything of the change
        train(told, tmp_path / "run", resume=True, accept_changes=True, update=die_at(4))
    run, _ = train(told, tmp_path / "run", resume=True)
    anew, _ = train(told, tmp_path / "anew")
    shapes = [
        {key: tensor.shape for key, tensor in weights_at(each, 6, "carry").items()}
        for each in (run, anew)
    ]
    assert shapes[0] == shapes[1]


@pytest.mark.serial
def test_a_team_carries_what_one_process_carries(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two ranks of two pieces; killed, they go on where they were, to the same bits."""
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    sets = ["train.steps=4", "train.accumulate=2", "model.dropout=0.0"]
    alone, _ = train(config(files, "rnn", *sets), tmp_path / "alone")
    told = config(files, "rnn", *sets, "train.processes=2")
    team, _ = train(told, tmp_path / "team")
    with pytest.raises(Killed):
        train(told, tmp_path / "cut", update=die_at(3))
    cut, _ = train(told, tmp_path / "cut", resume=True)
    assert equal_runs(team, cut, 4)
    assert not [*team.path.glob(".carry*")]
    pieces = {key.partition(".")[0] for key in weights_at(team, 4, "carry")}
    assert pieces == {"0", "1", "2", "3"}
    for key, tensor in weights_at(alone, 4).items():
        torch.testing.assert_close(weights_at(team, 4)[key], tensor, atol=2e-4, rtol=0)
    values = [run.evaluation("dev")["metrics"]["loss"]["value"] for run in (alone, team)]
    assert values[0] == pytest.approx(values[1], abs=1e-4)


@pytest.mark.serial
def test_a_rank_that_cannot_leave_its_carry_costs_a_checkpoint_and_not_the_run(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(SRC))
    place = tmp_path / "run" / ".carry-1.safetensors"

    def block(_: Any, update: Any) -> None:
        """In the second update, something stands where the other rank writes."""
        if update.step == 2:
            place.mkdir()
        elif update.step == 3:
            place.rmdir()

    told = config(files, "rnn", "train.steps=4", "train.processes=2")
    run, warnings = train(told, tmp_path / "run", update=block)
    assert steps(run.checkpoints) == [1, 3, 4]
    (told_of,) = [each for each in warnings if "no checkpoint at step 2" in each]
    assert "training process 1 could not write what it carries" in told_of


def test_what_is_carried_is_used_and_left_behind_after_an_epoch(
    files: list[str], tmp_path: Path
) -> None:
    """Other weights with and without; and the state after the first batch is that of nothing."""
    carried, _ = train(config(files, "rnn"), tmp_path / "carried")
    apart, _ = train(config(files, "rnn", "task.carry=false"), tmp_path / "apart")
    assert not same(load_tensors(carried.weights), load_tensors(apart.weights))
    assert "carry.safetensors" not in {
        path.name for path in (apart.checkpoints / "step-00000006").iterdir()
    }
    assert "carried:yes" in str(carried.evaluation("dev")["metrics"])
    assert "carried:no" in str(apart.evaluation("dev")["metrics"])


def test_carries_are_packed_by_piece_and_rank() -> None:
    carries = [[{"h": torch.full((2,), 10.0 * rank + n)} for n in range(2)] for rank in range(3)]
    packed = {}
    for rank in range(3):
        packed |= carry.pack(carries[rank], rank, 3)
    assert packed.keys() == {f"{place}.h" for place in range(6)}
    for rank in range(3):
        found = carry.unpack(packed, rank, 3)
        assert all(same(a or {}, b) for a, b in zip(found, carries[rank], strict=True))
    assert carry.unpack({}, 0, 3) == []


# --- the better the smaller; counting ----------------------------------------------------------


def test_the_smallest_loss_is_the_best(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses

    from saccade.tasks.generate import Generate

    score, left = Generate.score, iter([5.0, 3.0, 4.0, 3.0])

    def scripted(self: Any, *given: Any) -> Any:
        found = score(self, *given)
        main = dataclasses.replace(found.main, value=next(left))
        return dataclasses.replace(found, metrics=[main])  # an equal one is no better

    monkeypatch.setattr(Generate, "score", scripted)
    sets = ["train.steps=50", "train.eval_every=2", "train.patience=2"]
    run, _ = train(config(files, "rnn", *sets), tmp_path / "run")
    assert max(steps(run.checkpoints)) == 8
    assert same(load_tensors(run.weights), weights_at(run, 4))
    assert run.evaluation("dev")["metrics"]["loss"] | {"value": 3.0, "better": "smaller"}
    assert "loss 3.0000" in (run.path / "README.md").read_text()


def test_the_best_to_average_are_those_of_the_smallest_loss(
    files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import dataclasses
    import json

    from saccade.tasks.generate import Generate

    score, left = Generate.score, iter([5.0, 3.0, 4.0, 3.5])

    def scripted(self: Any, *given: Any) -> Any:
        found = score(self, *given)
        return dataclasses.replace(
            found, metrics=[dataclasses.replace(found.main, value=next(left))]
        )

    monkeypatch.setattr(Generate, "score", scripted)
    sets = ["train.steps=3", "train.eval_every=1", "train.average=2", "train.average_of=best"]
    run, _ = train(config(files, "rnn", *sets), tmp_path / "run")
    state = json.loads((run.checkpoints / "step-00000003" / "state.json").read_bytes())
    assert state["averaged"] == [2, 3]


def test_a_model_that_counts_is_a_run_like_any(files: list[str], tmp_path: Path) -> None:
    told = tiny_text(files)
    told["model"] = {"name": "markov", "preset": "kneser-ney", "order": 3}
    told["task"]["dev"] = files
    run, _ = train(told, tmp_path / "run")
    model = load(run)
    assert run.settings().train.steps == 1
    kept = run.evaluation("dev")["metrics"]["loss"]["value"]
    assert model.evaluate(files).main.value == pytest.approx(kept)
    assert [line["step"] for line in run.metrics()] == [1]
    card = (run.path / "README.md").read_text()
    assert "markov for generate" in card
    assert f"{model.parameters:,} parameters" in card
    assert model.parameters == read_runs([run.path])[0].parameters > 0
    (found,) = model.predict(["abc"])
    assert found.text
    assert "".join(model.stream("abc")) == found.text
    _, warnings = train(told, run.path, resume=True)
    assert any("finished" in each for each in warnings)
    run.weights.write_bytes(run.weights.read_bytes()[:-20])
    with pytest.raises(InputError, match="not a valid safetensors"):
        load(run)


def test_a_cut_run_of_a_model_that_counts_counts_again(files: list[str], tmp_path: Path) -> None:
    """Stopped after its one update, which is saved; with the same settings and with others."""
    told = tiny_text(files)
    told["model"] = {"name": "markov", "preset": "kneser-ney", "order": 3}
    told["task"]["dev"] = files
    whole, _ = train(told, tmp_path / "whole")
    for name, sets in {"same": [], "other": ["model.order=2"]}.items():
        with pytest.raises(Interrupted):
            train(override(told, sets), tmp_path / name, update=lambda *_: raise_signal(SIGTERM))
        run, _ = train(told, tmp_path / name, resume=True, accept_changes=bool(sets))
        assert same(load_tensors(run.weights), load_tensors(whole.weights))
        assert run.evaluation("dev")["metrics"] == whole.evaluation("dev")["metrics"]
        assert [line["step"] for line in run.metrics()] == [1]


def test_an_impossible_text_has_an_infinite_loss(files: list[str], tmp_path: Path) -> None:
    told = tiny_text(files)
    (tmp_path / "dev.txt").write_text("hgfedcba")
    told["model"] = {"name": "markov", "preset": "first"}
    told["task"]["dev"] = [str(tmp_path / "dev.txt")]
    run, _ = train(told, tmp_path / "run")
    assert run.evaluation("dev")["metrics"]["loss"]["value"] is None
    assert "loss infinite" in (run.path / "README.md").read_text()
