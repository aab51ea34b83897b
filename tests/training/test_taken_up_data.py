"""A run that is taken up again with other data, or other code: refused, or taken in whole."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import (
    Killed,
    die_at,
    everything,
    tiny,
    tiny_text,
    train,
    weights_at,
    write_corpus,
    write_text,
)

from saccade.config import override
from saccade.errors import InputError
from saccade.training.checkpoint import load_tensors

DEV = {"train": {"eval_every": 3, "save_every": 2}}


def test_another_corpus_is_refused_until_accepted_and_then_learned_from(tmp_path: Path) -> None:
    files, dev = write_corpus(tmp_path), write_corpus(tmp_path, "dev", 8)
    config = tiny(files, {"task": {"dev": dev}}, DEV)
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(5))
    write_corpus(tmp_path, "train", 30, seed=2)
    write_corpus(tmp_path, "dev", 5, seed=2)
    with pytest.raises(InputError, match="the train and dev data changed"):
        train(config, tmp_path / "run", resume=True)
    seen: list[int] = []
    run, _ = train(
        config, tmp_path / "run", resume=True, accept_changes=True,
        update=lambda trainer, _: seen.append(len(trainer.crew.store)),
    )  # fmt: skip
    assert set(seen) == {30}
    assert len(run.dev()["source"]) == 5
    train(override(config, ["train.steps=7"]), run.path, resume=True)  # and it is no news again


def test_another_dev_set_starts_its_scores_anew(tmp_path: Path, config: dict[str, Any]) -> None:
    config = override(config, ["train.eval_every=1"])
    run, _ = train(config, tmp_path / "run")
    other = write_corpus(tmp_path, "other", 3, seed=5)
    longer = override(config, [f"task.dev={other}", "train.steps=7", "train.peak_rate=1e-9"])
    train(longer, run.path, resume=True, accept_changes=True)
    scored = run.evaluation("dev")
    assert len(scored["by_example"]) == 3
    state = json.loads((run.checkpoints / "step-00000007" / "state.json").read_bytes())
    assert (state["best_step"], list(state["values"])) == (7, ["7"])


@pytest.mark.parametrize("killed", [False, True])
def test_scores_of_before_are_forgotten_after_a_kill_too(
    tmp_path: Path, config: dict[str, Any], killed: bool
) -> None:
    run, _ = train(override(config, ["train.eval_every=1"]), tmp_path / "run")
    longer = override(config, ["task.max_length=60", "train.steps=9"])  # what is scored changes
    if killed:
        with pytest.raises(Killed):
            train(longer, run.path, resume=True, accept_changes=True, update=die_at(7))
        state = json.loads((run.checkpoints / "step-00000006" / "state.json").read_bytes())
        assert (state["best"], state["values"]) == ([], {})
    train(longer, run.path, resume=True, accept_changes=not killed)
    state = json.loads((run.checkpoints / "step-00000009" / "state.json").read_bytes())
    assert list(state["values"]) == ["9"]


def test_the_best_stays_the_best_where_only_the_way_of_learning_changed(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    run, _ = train(override(config, ["train.eval_every=1"]), tmp_path / "run")
    before = json.loads((run.checkpoints / "step-00000006" / "state.json").read_bytes())
    assert before["best"]
    other = override(config, ["task.agreement=2", "model.dropout=0.1", "train.steps=9"])
    with pytest.raises(Killed):
        train(other, run.path, resume=True, accept_changes=True, update=die_at(7))
    after = json.loads((run.checkpoints / "step-00000006" / "state.json").read_bytes())
    assert (after["best"], after["best_step"]) == (before["best"], before["best_step"])


def test_the_best_stays_the_best_where_only_the_name_of_dev_changed(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    run, _ = train(override(config, ["train.eval_every=1"]), tmp_path / "run")
    before = json.loads((run.checkpoints / "step-00000006" / "state.json").read_bytes())
    assert before["best"]
    moved = tmp_path / "moved"
    moved.mkdir()
    dev = [str(Path(file).rename(moved / Path(file).name)) for file in write_corpus(tmp_path, "d")]
    config["task"]["dev"] = dev
    with pytest.raises(Killed):
        train(override(config, ["train.steps=9"]), run.path, resume=True, accept_changes=True,
              update=die_at(7))  # fmt: skip
    after = json.loads((run.checkpoints / "step-00000006" / "state.json").read_bytes())
    assert after["best"] == before["best"]


def test_data_that_is_refused_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    files, dev = write_corpus(tmp_path), write_corpus(tmp_path, "dev", 8)
    config = tiny(files, {"task": {"dev": dev}}, DEV)
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(5))
    before = everything(tmp_path / "run")
    write_corpus(tmp_path, "train", 30, seed=2)
    Path(dev[0]).write_text("one line too few\n")
    with pytest.raises(InputError, match="lines"):
        train(config, tmp_path / "run", resume=True, accept_changes=True)
    assert everything(tmp_path / "run") == before


def test_a_token_store_of_other_data_is_made_again(tmp_path: Path) -> None:
    """Killed while a change was taken in that was undone since."""
    files = write_corpus(tmp_path)
    with pytest.raises(Killed):
        train(tiny(files, {"train": {"save_every": 2}}), tmp_path / "run", update=die_at(5))
    other, _ = train(tiny(write_corpus(tmp_path, "other", 30, seed=2)), tmp_path / "other")
    shutil.rmtree(tmp_path / "run" / "tokens")
    shutil.copytree(other.tokens, tmp_path / "run" / "tokens")
    seen: list[int] = []
    train(
        tiny(files, {"train": {"save_every": 2}}), tmp_path / "run", resume=True,
        update=lambda trainer, _: seen.append(len(trainer.crew.store)),
    )  # fmt: skip
    assert set(seen) == {40}


def test_the_same_data_may_lie_elsewhere(tmp_path: Path) -> None:
    """They are known by what they hold; other data under another name are other data."""
    files = write_corpus(tmp_path)
    with pytest.raises(Killed):
        train(tiny(files, {"train": {"save_every": 2}}), tmp_path / "run", update=die_at(5))
    whole, _ = train(tiny(files, {"train": {"save_every": 2}}), tmp_path / "whole")
    (tmp_path / "there").mkdir()
    moved = [str(shutil.copy(file, tmp_path / "there")) for file in files]
    config = tiny(moved, {"train": {"save_every": 2}})
    other = tiny(write_corpus(tmp_path, "other", seed=2), {"train": {"save_every": 2}})
    for wrong in (other, tiny(moved[::-1], {"train": {"save_every": 2}})):
        with pytest.raises(InputError, match="the train data changed"):
            train(wrong, tmp_path / "run", resume=True)
    run, _ = train(config, tmp_path / "run", resume=True)
    assert run.weights.read_bytes() == whole.weights.read_bytes()
    assert run.config()["task"]["train"] == moved
    with pytest.raises(InputError, match="the train data changed"):  # also of a finished run
        train(other, run.path, resume=True)


def test_data_that_lie_elsewhere_keep_the_bits_also_when_changes_are_accepted(
    tmp_path: Path,
) -> None:
    """A carry belongs to the lanes of a batch, and these are as they were."""
    files = [write_text(tmp_path)]
    config = tiny_text(files, {"train": {"save_every": 2}})
    config["model"] = {"name": "rnn", "dim": 8}
    whole, _ = train(config, tmp_path / "whole")
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(5))
    moved = [str(shutil.copy(files[0], tmp_path / "elsewhere"))]
    config["task"]["train"] = moved
    run, _ = train(config, tmp_path / "run", resume=True, accept_changes=True)
    assert run.weights.read_bytes() == whole.weights.read_bytes()


def test_a_finished_run_keeps_what_it_is_of(tmp_path: Path, config: dict[str, Any]) -> None:
    run, _ = train(config, tmp_path / "run")
    (tmp_path / "there").mkdir()
    moved = [str(shutil.copy(file, tmp_path / "there")) for file in config["task"]["train"]]
    other = write_corpus(tmp_path, "other", seed=2)
    before = everything(run.path)
    for change in ({"train": moved}, {"train": other, "dev": other}, {"train": other}):
        changed = {**config, "task": {**config["task"], **change}}
        accept = change["train"] is other
        _, warnings = train(changed, run.path, resume=True, accept_changes=accept)
        assert "finished" in warnings[-1]
        assert everything(run.path) == before


def test_what_is_named_otherwise_is_told(tmp_path: Path, config: dict[str, Any]) -> None:
    run, _ = train(config, tmp_path / "run")
    longer = override(config, ["train.steps=9"])
    other = write_corpus(tmp_path, "other", seed=2)
    with pytest.raises(InputError, match=r"the train data changed .*task\.train was .*other"):
        train(override(longer, [f"task.train={other}"]), run.path, resume=True)
    del longer["task"]["dev"]
    with pytest.raises(InputError, match=r"task\.dev was \[.*is None"):
        train(longer, run.path, resume=True)


def test_the_same_bytes_as_a_table_are_other_data(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("text\n" + "a b c\n" * 40)
    recipe = {"task": {"name": "generate", "tokenizer": "characters"},
              "model": {"name": "gpt", "dim": 8, "layers": 1, "heads": 1}}  # fmt: skip
    config = tiny([str(text)], recipe, {"train": {"save_every": 2}})
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(5))
    config["task"]["train"] = [str(shutil.copy(text, tmp_path / "text.csv"))]
    with pytest.raises(InputError, match=r"task\.train was"):
        train(config, tmp_path / "run", resume=True)


@pytest.mark.parametrize("content", [None, b"{", b"[]"])
def test_a_lost_note_of_the_data_is_told_as_such(tmp_path: Path, content: bytes | None) -> None:
    config = tiny(write_corpus(tmp_path), {"train": {"save_every": 2}})
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(5))
    (tmp_path / "run" / "environment.json").unlink()
    if content is not None:
        (tmp_path / "run" / "environment.json").write_bytes(content)
    with pytest.raises(InputError, match=r"environment\.json is gone or damaged"):
        train(config, tmp_path / "run", resume=True)
    train(config, tmp_path / "run", resume=True, accept_changes=True)


@pytest.mark.parametrize("content", [None, b"", b'{"source": ["a', b'{"source": 3, "target": []}'])
def test_a_dev_set_that_is_lost_is_read_again(
    tmp_path: Path, config: dict[str, Any], content: bytes | None
) -> None:
    run, _ = train(config, tmp_path / "run")
    kept = run.dev()
    (run.path / "dev.json").unlink()
    if content is not None:
        (run.path / "dev.json").write_bytes(content)
    train(override(config, ["train.steps=9"]), run.path, resume=True)
    assert run.dev() == kept
    assert "dev BLEU" in run.metrics()[-1]


def test_a_dev_set_may_be_given_up(tmp_path: Path, config: dict[str, Any]) -> None:
    run, _ = train(config, tmp_path / "run")
    del config["task"]["dev"]
    longer = override(config, ["train.steps=9"])
    evaluated: list[int] = []
    train(
        longer, run.path, resume=True, accept_changes=True,
        evaluation=lambda trainer, *_: evaluated.append(trainer.standing.step),
    )  # fmt: skip
    assert (evaluated, run.dev()) == ([], None)
    assert "not evaluated" in (run.path / "README.md").read_text()
    final, written = weights_at(run, 9), load_tensors(run.weights)
    assert all(torch.equal(written[name], tensor) for name, tensor in final.items())


def test_a_missing_corpus_is_named_on_resume(tmp_path: Path) -> None:
    files = write_corpus(tmp_path)
    with pytest.raises(Killed):
        train(tiny(files), tmp_path / "run", update=die_at(5))
    Path(files[1]).unlink()
    with pytest.raises(InputError, match="no such file"):
        train(tiny(files), tmp_path / "run", resume=True)


def test_a_run_of_the_users_own_code_is_continued(tmp_path: Path, files: list[str]) -> None:
    (tmp_path / "mine.py").write_text("from saccade.models.transformer import Transformer as Me\n")
    config = tiny(files, {"model": {"name": f"{tmp_path / 'mine.py'}:Me"}})
    run, _ = train(config, tmp_path / "run", allow_code=True)
    _, warnings = train(config, run.path, allow_code=True, resume=True)
    assert "finished" in warnings[0]
    train(config, tmp_path / "next", allow_code=True, init=str(run.path))
    with (tmp_path / "mine.py").open("a") as file:
        file.write("# other code than what was allowed\n")
    with pytest.raises(InputError, match="allow-code"):
        train(config, run.path, resume=True)


def test_code_that_makes_another_model_now_is_told(tmp_path: Path, files: list[str]) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("from saccade.models.transformer import Transformer as Me\n")
    config = tiny(files, {"model": {"name": f"{mine}:Me"}})
    with pytest.raises(Killed):
        train(override(config, ["train.save_every=1"]), tmp_path / "run",
              update=die_at(3), allow_code=True)  # fmt: skip
    mine.write_text(
        "from torch import nn\nfrom saccade.models.transformer import Transformer\n\n"
        "class Me(Transformer):\n    def __init__(self, config, *, joint):\n"
        "        super().__init__(config, joint=joint)\n        self.extra = nn.Linear(2, 2)\n"
    )
    with pytest.raises(InputError, match="its checkpoint does not fit the changed model"):
        train(config, tmp_path / "run", resume=True, allow_code=True)
