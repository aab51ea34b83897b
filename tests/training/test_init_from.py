"""--init: weights, tokenizer and shape of another run are taken over, or the start is refused."""

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

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

from saccade import cli
from saccade.config import override
from saccade.errors import InputError
from saccade.training.checkpoint import load_tensors, save_tensors, steps
from saccade.training.run import Run


@pytest.fixture(scope="module")
def parent(files: list[str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    config = tiny(files, {"model": {"dropout": 0.0}})
    return train(config, tmp_path_factory.mktemp("runs") / "parent")[0]


def test_init_takes_over_weights_tokenizer_and_shape(tmp_path: Path, parent: Run) -> None:
    other = write_corpus(tmp_path, "other", 10, seed=9)
    config = override(tiny(other), ["train.steps=1", "train.peak_rate=1e-30"])
    config["model"] = {}  # all that is unset is taken over
    run, _ = train(config, tmp_path / "run", init=str(parent.path))
    theirs = load_tensors(parent.weights)
    assert all(
        torch.equal(tensor, theirs[name]) for name, tensor in load_tensors(run.weights).items()
    )
    assert run.settings().model == parent.settings().model
    name = "tokenizer.json"
    assert (run.path / name).read_bytes() == (parent.path / name).read_bytes()


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("model.dim=32", "model.dim is 16, not 32"),
        ("model.dim=128", "model.dim is 16, not 128"),  # as the preset has it
        ("model.layers=2", "model.layers is 1, not 2"),
        ("model.norm=rms", "model.norm is 'layer', not 'rms'"),
        ("model.score=dot", "model.score is 'scaled-dot', not 'dot'"),
        ("model.preset=small", "model.preset is 'tiny', not 'small'"),
        ("task.tokenizer=words", "task.tokenizer is 'characters', not 'words'"),
        ("task.tokenizer=bpe", "task.tokenizer is 'characters', not 'bpe'"),  # the default
        ("task.vocab_size=70", "task.vocab_size is 4000, not 70"),
        ("task.joint=false", "task.joint is True, not False"),
        ("task.lowercase=true", "task.lowercase is False, not True"),
    ],
)
def test_init_refuses_what_it_would_not_heed(
    tmp_path: Path, parent: Run, files: list[str], setting: str, told: str
) -> None:
    with pytest.raises(InputError, match=re.escape(told)):
        train(override(tiny(files), [setting]), tmp_path / "run", init=str(parent.path))
    assert not (tmp_path / "run").exists()


@pytest.fixture
def small(parent: Run, tmp_path: Path) -> Run:
    """The same with another preset than the default; its values are all the parent's own."""
    shutil.copytree(parent.path, tmp_path / "small")
    config = tmp_path / "small" / "config.toml"
    text = config.read_text()
    assert 'preset = "tiny"' in text
    config.write_text(text.replace('preset = "tiny"', 'preset = "small"'))
    return Run(tmp_path / "small")


def test_init_refuses_the_default_preset_of_a_run_with_another(
    tmp_path: Path, small: Run, files: list[str]
) -> None:
    config = override(tiny(files), ["train.steps=1"])
    with pytest.raises(InputError, match=r"model\.preset is 'small', not 'tiny'"):
        train(override(config, ["model.preset=tiny"]), tmp_path / "run", init=str(small.path))
    assert not (tmp_path / "run").exists()
    same = override(config, ["model.preset=small"])
    run, _ = train(same, tmp_path / "run", init=str(small.path))
    assert run.settings().model == small.settings().model


def test_init_refuses_another_tokenizer_also_on_resume_and_of_a_grandparent(
    tmp_path: Path, parent: Run, files: list[str]
) -> None:
    config = override(tiny(files), ["train.steps=1"])
    child, _ = train(config, tmp_path / "child", init=str(parent.path))
    more = override(config, ["train.steps=2"])
    for setting, out, init in (
        ("task.tokenizer=bpe", child.path, parent.path),
        ("task.tokenizer=bpe", tmp_path / "next", child.path),
        ("model.dim=128", child.path, parent.path),
    ):
        with pytest.raises(InputError, match="--init keeps the shape and the tokenizer"):
            train(override(more, [setting]), out, init=str(init), resume=True)
    train(more, child.path, init=str(parent.path), resume=True)
    named = override(config, [f"task.tokenizer={parent.path}/"])
    train(named, tmp_path / "next", init=str(child.path))  # the kind, or where it came from


def test_init_trains_as_the_preset_of_the_run_does(tmp_path: Path, files: list[str]) -> None:
    shape = tiny(files)
    shape["train"] = {"steps": 1, "processes": 1, "threads": 1}
    base, _ = train(override(shape, ["model.preset=base"]), tmp_path / "base")
    del shape["model"]
    run, _ = train(shape, tmp_path / "run", init=str(base.path))
    train_config = run.settings().train
    assert (train_config.schedule, train_config.warmup) == ("paper", 4000)
    assert train_config.batch_tokens == base.settings().train.batch_tokens


def test_what_counts_takes_no_weights(tmp_path: Path) -> None:
    config = tiny_text([write_text(tmp_path)])
    config["model"] = {"name": "markov"}
    chain, _ = train(config, tmp_path / "chain")
    with pytest.raises(InputError, match=r"--init gives weights, and markov counts"):
        train(config, tmp_path / "next", init=str(chain.path))
    assert not (tmp_path / "next").exists()


def test_init_heeds_a_dropout_that_is_the_default(
    tmp_path: Path, parent: Run, files: list[str]
) -> None:
    sets = ["model.dropout=0.1", "train.steps=1"]
    run, _ = train(override(tiny(files), sets), tmp_path / "run", init=str(parent.path))
    assert run.settings().model == {**parent.settings().model, "dropout": 0.1}


def test_init_heeds_dropout(tmp_path: Path, parent: Run, files: list[str]) -> None:
    sets = ["model.dropout=0.3", "model.ffn_dropout=0.2", "train.steps=1"]
    run, _ = train(override(tiny(files), sets), tmp_path / "run", init=str(parent.path))
    wanted = {**parent.settings().model, "dropout": 0.3, "ffn_dropout": 0.2}
    assert run.settings().model == wanted


def test_the_command_on_the_card_of_a_run_begun_by_init_makes_it_again(
    tmp_path: Path, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other, _ = train(override(tiny(files), ["task.vocab_size=70"]), tmp_path / "parent")
    config = override(tiny(files), ["model.dropout=0.3", "train.steps=2"])
    run, _ = train(config, tmp_path / "a run", init=str(other.path))
    card = (run.path / "README.md").read_text()
    (line,) = re.findall(r"^saccade (train .*)$", card, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    assert cli.run(shlex.split(line)) == 0
    assert (tmp_path / "NEW" / "model.safetensors").read_bytes() == run.weights.read_bytes()


def test_init_fills_the_moving_average_too(tmp_path: Path, parent: Run, files: list[str]) -> None:
    config = override(tiny(files), ["train.steps=1", "train.peak_rate=1e-30", "train.ema=0.5"])
    run, _ = train(config, tmp_path / "run", init=str(parent.path))
    theirs = load_tensors(parent.weights)
    for name, tensor in load_tensors(run.weights).items():
        assert torch.allclose(tensor, theirs[name], atol=1e-6), name


def test_a_run_begun_by_init_resumes_by_the_same_command(
    tmp_path: Path, parent: Run, files: list[str]
) -> None:
    config = override(tiny(files), ["train.save_every=2", "train.seed=5"])
    whole, _ = train(config, tmp_path / "whole", init=str(parent.path), resume=True)
    for step in (1, 5):  # before and after the first checkpoint
        out = tmp_path / f"cut-{step}"
        with pytest.raises(Killed):
            train(config, out, init=str(parent.path), resume=True, update=die_at(step))
        run, _ = train(config, out, init=str(parent.path), resume=True)
        assert run.weights.read_bytes() == whole.weights.read_bytes()


def test_a_run_begun_by_init_goes_on_without_what_it_came_from(
    tmp_path: Path, parent: Run, files: list[str]
) -> None:
    gone = tmp_path / "gone"
    shutil.copytree(parent.path, gone)
    config = override(tiny(files), ["train.save_every=2"])
    with pytest.raises(Killed):
        train(config, tmp_path / "run", init=str(gone), resume=True, update=die_at(3))
    shutil.rmtree(gone)
    run, _ = train(config, tmp_path / "run", init=str(gone), resume=True)
    assert steps(run.checkpoints)[-1] == 6


def test_a_run_that_was_not_begun_from_what_is_named_is_not_resumed(
    tmp_path: Path, parent: Run, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = override(tiny(files), ["train.steps=1"])
    more = override(config, ["train.steps=2"])
    plain, _ = train(config, tmp_path / "plain")
    child, _ = train(config, tmp_path / "child", init=str(parent.path))
    for run, init, told in (
        (plain, parent.path, f"was begun without --init {parent.path}: leave --init out"),
        (child, plain.path, f"was begun from {parent.path}, not from {plain.path}: leave --init"),
    ):
        before = everything(run.path)
        for accept in (False, True):
            with pytest.raises(InputError, match=re.escape(told)):
                train(more, run.path, init=str(init), resume=True, accept_changes=accept)
        assert everything(run.path) == before
    monkeypatch.chdir(parent.path.parent)
    train(more, child.path, init="./parent/", resume=True)  # the same in another spelling


def test_a_run_begun_by_init_goes_on_though_nobody_names_it_again(
    tmp_path: Path, parent: Run, files: list[str]
) -> None:
    config = override(tiny(files), ["train.save_every=2", "train.seed=5"])
    whole, _ = train(config, tmp_path / "whole", init=str(parent.path))
    for step in (1, 5):  # before and after the first checkpoint
        with pytest.raises(Killed):
            train(config, tmp_path / f"cut-{step}", init=str(parent.path), update=die_at(step))
        run, _ = train(config, tmp_path / f"cut-{step}", resume=True)
        assert run.weights.read_bytes() == whole.weights.read_bytes()


def test_init_of_what_is_no_model_leaves_nothing(
    tmp_path: Path, parent: Run, files: list[str]
) -> None:
    shutil.copytree(parent.path, tmp_path / "bare")
    (tmp_path / "bare" / "model.safetensors").unlink()
    for init in (tmp_path / "bare", tmp_path / "nowhere"):
        with pytest.raises(InputError, match=init.name):
            train(tiny(files), tmp_path / "run", init=str(init))
        assert not (tmp_path / "run").exists()


def _truncate(weights: Path) -> None:
    weights.write_bytes(weights.read_bytes()[:-100])


def _poison(weights: Path) -> None:
    tensors = load_tensors(weights)
    next(iter(tensors.values())).fill_(torch.nan)
    save_tensors(weights, tensors, {})


@pytest.mark.parametrize(
    ("damage", "told"), [(_truncate, "not a valid safetensors file"), (_poison, "is not finite")]
)
def test_init_of_a_damaged_model_leaves_nothing(
    tmp_path: Path, parent: Run, files: list[str], damage: Callable[[Path], None], told: str
) -> None:
    damaged = Run(shutil.copytree(parent.path, tmp_path / "damaged"))
    damage(damaged.weights)
    with pytest.raises(InputError, match=rf"damaged/model\.safetensors: .*{told}"):
        train(tiny(files), tmp_path / "run", init=str(damaged.path))
    assert not (tmp_path / "run").exists()


def test_init_from_another_model_is_refused(
    tmp_path: Path, parent: Run, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from saccade.models import MODELS

    monkeypatch.setitem(MODELS, "other", MODELS["transformer"])
    config = tiny(files, {"model": {"name": "other"}})
    with pytest.raises(InputError, match="is a transformer, not other"):
        train(config, tmp_path / "run", init=str(parent.path))
