"""Starting, repeating and continuing: what is in the way stays, what failed leaves nothing."""

import dataclasses
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
    write_corpus,
    write_text,
)

from saccade.blocks.norms import LayerNorm
from saccade.config import merge, override
from saccade.errors import InputError
from saccade.tasks import generate, translate
from saccade.tasks.translate import Translate
from saccade.training import trainer
from saccade.training.checkpoint import load_tensors, steps
from saccade.training.run import MARK, Run
from saccade.training.start import Start, mean_and_spread, train_run, train_seeds


def killed(*_: Any, **__: Any) -> None:
    """In place of work that must not be begun."""
    raise Killed


# --- the folder --------------------------------------------------------------------------------


def test_a_folder_with_something_else_in_it_is_left_alone(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    for resume in (False, True):
        with pytest.raises(InputError, match="not empty and holds no saccade run"):
            train(config, tmp_path, resume=resume)
    assert everything(tmp_path) == {"letter.txt": b"dear"}
    with pytest.raises(InputError, match="is a file"):
        train(config, tmp_path / "letter.txt")


def test_a_config_of_another_program_is_not_a_run(tmp_path: Path, config: dict[str, Any]) -> None:
    (tmp_path / "config.toml").write_text("[server]\nport = 80\n")
    with pytest.raises(InputError, match="not a saccade run"):
        train(config, tmp_path, resume=True)
    assert everything(tmp_path) == {"config.toml": b"[server]\nport = 80\n"}


def test_a_run_is_continued_only_when_asked_to(tmp_path: Path, config: dict[str, Any]) -> None:
    run, _ = train(config, tmp_path / "run")
    before = everything(run.path)
    with pytest.raises(InputError, match="holds a run already; add --resume"):
        train(config, run.path)
    _, warnings = train(config, run.path, resume=True)
    told = "is finished; nothing to do (more --steps or --minutes go on)"
    assert warnings == [f"{run.path} {told}"]
    assert everything(run.path) == before


def test_resume_starts_when_there_is_nothing(tmp_path: Path, config: dict[str, Any]) -> None:
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "empty", tmp_path / "new" / "deep"):
        run, _ = train(config, out, resume=True)
        assert run.weights.is_file()


def test_a_final_model_without_checkpoints_is_not_begun_anew(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    run, _ = train(config, tmp_path / "run")
    shutil.rmtree(run.checkpoints)
    before = everything(run.path)
    for sets in ([], ["train.steps=9"]):
        with pytest.raises(InputError, match=r"a model but no checkpoint .* --out.* --init .*run"):
            train(override(config, sets), run.path, resume=True)
    assert everything(run.path) == before


def test_one_that_died_between_its_first_model_and_checkpoint_begins_anew(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    whole, _ = train(config, tmp_path / "whole")
    run, _ = train(config, tmp_path / "run")
    shutil.rmtree(run.checkpoints)
    run.card.unlink()
    _, warnings = train(config, run.path, resume=True)
    assert f"{run.path} ended before its first checkpoint: it begins anew" in warnings
    assert run.weights.read_bytes() == whole.weights.read_bytes()


def test_a_final_model_has_a_checkpoint_before_its_card(
    tmp_path: Path, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def card(training: trainer.Trainer) -> str:
        assert steps(training.crew.run.checkpoints)
        raise Killed

    monkeypatch.setattr(trainer, "model_card", card)
    config = override(config, ["train.save_every=100", "train.eval_every=100"])
    with pytest.raises(Killed):
        train(config, tmp_path / "run")


def test_a_run_whose_checkpoints_are_all_damaged_is_not_begun_anew(
    tmp_path: Path, files: list[str]
) -> None:
    config = override(tiny(files), ["train.save_every=1"])
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(3))
    run = Run(tmp_path / "run")
    for file in run.checkpoints.glob("*/state.json"):
        file.write_bytes(b"{}")
    before = everything(run.path)
    with pytest.raises(InputError, match="no checkpoint of it can be read; choose another --out"):
        train(config, run.path, resume=True)
    assert everything(run.path) == before


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda lines: [*lines[:-1], b"caf\xe9\n"], "line 40.*not UTF-8"),
        (lambda lines: lines[:-1], "39.*40|40.*39"),
        (lambda _: [], "no pair|lines"),
    ],
)
@pytest.mark.parametrize("name", ["train", "dev"])
def test_a_failed_start_leaves_nothing(
    tmp_path: Path, config: dict[str, Any], name: str, spoil: Any, message: str
) -> None:
    bad = write_corpus(tmp_path, "bad")
    lines = Path(bad[1]).read_bytes().splitlines(keepends=True)
    Path(bad[1]).write_bytes(b"".join(spoil(lines)))
    (tmp_path / "mine").mkdir()
    for out in (tmp_path / "mine", tmp_path / "made" / "run"):
        with pytest.raises(InputError, match=message):
            train(merge(config, {"task": {name: bad}}), out)
    assert not list((tmp_path / "mine").iterdir())
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(
    ("set_", "message"),
    [
        ("train.device=abacus", "not usable here; usable: auto"),
        ("model.norm=layer", "batch norm over time"),  # made to depend on the batch
        ("task.train=['nowhere', 'none']", "nowhere: no such file"),
    ],
)
def test_what_cannot_train_is_refused_before_the_folder_is_a_run(
    tmp_path: Path,
    config: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    set_: str,
    message: str,
) -> None:
    monkeypatch.setattr(LayerNorm, "depends_on_batch", True, raising=False)
    with pytest.raises(InputError, match=message):
        train(override(config, [set_, "train.accumulate=2"]), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_dev_set_of_blank_lines_is_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    (tmp_path / "blank").write_text("\n\n")
    blank = [str(tmp_path / "blank")] * 2
    with pytest.raises(
        InputError, match=r"blank: no pair is left of 2, each has a side that is blank"
    ):
        train(merge(config, {"task": {"dev": blank}}), tmp_path / "run")


@pytest.mark.parametrize(
    ("dev", "message"),
    [
        (["{train}", "nowhere"], "nowhere: no such file"),
        (["{train}"], "parallel text in plain lines is two files"),
        (["builtin:english-spanihs/dev"], "unknown corpus"),
    ],
)
def test_wrong_dev_files_are_told_before_a_tokenizer_is_trained(
    tmp_path: Path,
    files: list[str],
    monkeypatch: pytest.MonkeyPatch,
    dev: list[str],
    message: str,
) -> None:
    monkeypatch.setattr(translate, "train_tokenizers", killed)
    named = [file.format(train=files[0]) for file in dev]
    with pytest.raises(InputError, match=message):
        train(tiny(files, {"task": {"dev": named}}), tmp_path / "run")
    with pytest.raises(Killed):
        train(tiny(files, {"task": {"dev": files}}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_wrong_dev_texts_are_told_before_a_tokenizer_is_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generate, "train_on_texts", killed)
    text = write_text(tmp_path)
    for dev, message in (([text, "nowhere"], "nowhere: no such file"), ([text, "a.csv"], "both")):
        with pytest.raises(InputError, match=message):
            train(tiny_text([text], {"task": {"dev": dev}}), tmp_path / "run")


def test_what_is_wrong_in_dev_texts_is_told_before_the_tokens_are_stored(
    tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Translate, "store", killed)
    (tmp_path / "short").write_text("a\n")
    with pytest.raises(InputError, match="short has 1 line: "):
        train(tiny(files, {"task": {"dev": [files[0], str(tmp_path / "short")]}}), tmp_path / "run")


def test_a_start_killed_while_preparing_is_begun_anew(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")  # it stays one
    run = Run(tmp_path / "run")
    with run.locked():
        run.prepare()
        (run.path / "tokenizer.json").write_text("half a tok")
        (run.path / "tokens").mkdir()
    again, _ = train(config, run.path)
    assert run.path.is_symlink()
    whole, _ = train(config, tmp_path / "whole")
    assert again.weights.read_bytes() == whole.weights.read_bytes()
    assert not (run.path / MARK).exists()


# --- one at a time -----------------------------------------------------------------------------


def test_a_run_that_trains_is_left_alone_by_others(tmp_path: Path, config: dict[str, Any]) -> None:
    refused: list[bool] = []

    def intrude(*_: Any) -> None:
        before = everything(tmp_path / "run")
        with pytest.raises(InputError, match="another process is training"):
            train(override(config, ["train.steps=9"]), tmp_path / "run", resume=True)
        refused.append(everything(tmp_path / "run") == before)

    run, _ = train(config, tmp_path / "run", update=intrude)
    assert refused == [True] * 6
    assert run.config()["train"]["steps"] == 6
    train(override(config, ["train.steps=7"]), run.path, resume=True)  # now it may


def test_a_run_that_is_being_prepared_is_left_alone_by_others(
    tmp_path: Path, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare, refused = Translate.prepare, []

    def intruded(settings: Any, folder: Path) -> Any:
        task = prepare(settings, folder)
        before = everything(folder)
        with pytest.raises(InputError, match="another process is training"):
            train(config, folder, resume=True)
        refused.append(everything(folder) == before)
        return task

    monkeypatch.setattr(Translate, "prepare", intruded)
    train(config, tmp_path / "deep" / "run")
    assert refused == [True]


def test_what_blocks_in_training_is_not_taken_for_the_lock(
    tmp_path: Path, config: dict[str, Any]
) -> None:
    def blocked(*_: Any) -> None:
        raise BlockingIOError("a pipe is full")

    with pytest.raises(BlockingIOError, match="a pipe is full"):
        train(config, tmp_path / "run", update=blocked)


# --- what is logged ----------------------------------------------------------------------------


@pytest.mark.parametrize("saved", [True, False])
def test_what_was_logged_after_the_checkpoint_is_logged_once(
    tmp_path: Path, files: list[str], saved: bool
) -> None:
    sets = ["train.steps=40", f"train.save_every={15 if saved else 1000}"]
    config = override(tiny(files), sets)
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(35))
    run = Run(tmp_path / "run")
    with (run.path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 40, "lo')  # killed while writing it
    assert [line["step"] for line in run.metrics()] == [10, 20, 30]
    train(config, run.path, resume=True)
    lines = (run.path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [10, 20, 30, 40]


def test_the_card_of_a_resumed_run_tells_its_quality(
    tmp_path: Path, config: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    scores = iter([9.0, 8.0, 7.0])
    score = Translate.score

    def falling(self: Any, *texts: Any) -> Any:
        found = score(self, *texts)
        worse = dataclasses.replace(found.main, value=next(scores))
        return dataclasses.replace(found, metrics=[worse, *found.metrics[1:]])

    monkeypatch.setattr(Translate, "score", falling)
    with pytest.raises(Killed):
        train(config, tmp_path / "run", update=die_at(5))  # after the best, at step 3
    run, _ = train(config, tmp_path / "run", resume=True)
    card = (run.path / "README.md").read_text()
    assert "BLEU 9.00 (nrefs:1" in card
    assert "6 updates" in card


# --- seeds -------------------------------------------------------------------------------------


def test_seeds_are_runs_side_by_side(tmp_path: Path, files: list[str]) -> None:
    runs = train_seeds(tiny(files), tmp_path, [1, 2])
    assert [run.path.name for run in runs] == ["seed-1", "seed-2"]
    assert [run.config()["train"]["seed"] for run in runs] == [1, 2]
    first, second = (load_tensors(run.weights) for run in runs)
    assert any(not torch.equal(first[name], second[name]) for name in first)
    alone = train_run(override(tiny(files), ["train.seed=2"]), tmp_path / "alone")
    assert alone.weights.read_bytes() == runs[1].weights.read_bytes()


def test_the_folder_of_several_seeds_is_theirs_alone(tmp_path: Path, files: list[str]) -> None:
    config = override(tiny(files), ["train.steps=1"])
    run, _ = train(config, tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    before = everything(tmp_path)
    for start in (Start(), Start(resume=True)):
        with pytest.raises(InputError, match="holds a run already; several seeds need another"):
            train_seeds(config, run.path, [1, 2], start)
        with pytest.raises(InputError, match="not empty and holds no runs of several seeds"):
            train_seeds(config, tmp_path / "mine", [1, 2], start)
    assert everything(tmp_path) == before
    train_seeds(config, tmp_path / "seeds", [1])
    (tmp_path / "seeds" / "charts").mkdir()  # as of any run, what was laid beside may stay
    assert len(train_seeds(config, tmp_path / "seeds", [2])) == 1


def test_a_seed_that_is_there_is_refused_before_any_is_trained(
    tmp_path: Path, files: list[str]
) -> None:
    config = override(tiny(files), ["train.steps=1"])
    train_seeds(config, tmp_path, [1])
    with pytest.raises(InputError, match="seed-1 holds a run already; add --resume"):
        train_seeds(config, tmp_path, [9, 1])
    assert [path.name for path in tmp_path.iterdir()] == ["seed-1"]
    runs = train_seeds(config, tmp_path, [9, 1], Start(resume=True))
    assert [run.path.name for run in runs] == ["seed-9", "seed-1"]


def test_mean_and_spread() -> None:
    mean, spread = mean_and_spread([1.0, 2.0, 3.0])
    assert (mean, spread) == pytest.approx((2.0, 1.0))
    assert mean_and_spread([4.0]) == (4.0, 0.0)
