"""Defaults, presets, files, --set and flags become one config, or a message that helps."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from saccade.config import dump_toml, merge, override, read_toml
from saccade.errors import InputError
from saccade.training import settings as module
from saccade.training.settings import TrainConfig, resolve

TASK = {"task": {"name": "translate", "train": ["a", "b"]}}


def resolved(*layers: Mapping[str, Any], sets: tuple[str, ...] = ()) -> Any:
    return resolve(override(merge(TASK, *layers), sets))


def test_each_layer_wins_over_the_one_before() -> None:
    default = TrainConfig()
    file = {"model": {"preset": "base", "dim": 64, "heads": 2}, "train": {"warmup": 7}}
    assert resolved().train.schedule == default.schedule == "linear"
    by_preset = resolved({"model": {"preset": "base"}})
    assert (by_preset.train.schedule, by_preset.train.warmup) == ("paper", 4000)
    by_file = resolved(file)
    assert (by_file.train.schedule, by_file.train.warmup) == ("paper", 7)
    assert (by_file.model["dim"], by_file.model["layers"]) == (64, 6)
    by_set = override(merge(TASK, file), ["train.warmup=8", "model.dim=32"])
    assert (resolve(by_set).train.warmup, resolve(by_set).model["dim"]) == (8, 32)
    by_flag = resolve(merge(by_set, {"train": {"warmup": 9}}))
    assert (by_flag.train.warmup, by_flag.model["dim"]) == (9, 32)


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ({"modle": {}}, r"unknown section \[modle\]; did you mean 'model'"),
        ({"model": {"dimm": 3}}, "unknown key 'model.dimm'; did you mean 'model.dim'"),
        ({"train": {"step": 3}}, "unknown key 'train.step'; did you mean 'train.steps'"),
        ({"task": {"trian": ["a"]}}, "unknown key 'task.trian'; did you mean 'task.train'"),
        ({"train": {"optimizer": {"beta": 0.1}}}, "unknown key 'train.optimizer.beta'; did you"),
        ({"model": {"name": "transfromer"}}, "unknown model 'transfromer'; did you mean 'transf"),
        ({"task": {"name": "translat"}}, "unknown task 'translat'; did you mean 'translate'"),
        ({"model": {"preset": "tinny"}}, "no preset 'tinny'; did you mean 'tiny'"),
        ({"model": {"target_vocab_size": 9}}, "target_vocab_size comes from the data"),
        ({"model": {"dim": "wide"}}, "model.dim = 'wide'; expected an integer"),
        ({"model": {"preset": ["tiny"]}}, "preset"),
        (
            {"model": {"nope": 9}},
            "unknown key 'model.nope'; known: dim, layers",
        ),  # not what data say
        ({"train": {"threads": 100_000}}, "train.threads is 100,000, it may be 512 at most"),
        ({"train": {"processes": 100_000}}, "processes is 100,000, it may be 512 at most"),
        ({"model": 3}, "model"),
        ({"task": 3}, "task"),
        ({"train": 3}, "train"),
    ],
)
def test_mistakes_are_named(layer: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolved(layer)


@pytest.mark.parametrize(
    "set_",
    [
        "train.steps=0", "train.batch_tokens=0", "train.accumulate=0", "train.processes=0",
        "train.keep=0", "train.average=0", "train.patience=0", "train.minutes=0",
        "train.peak_rate=0", "train.clip=0", "train.warmup=-1", "train.ema=1", "train.ema=-0.5",
        "train.smoothing=1", "train.smoothing=-0.1", "train.schedule=cosin", "train.minutes=nan",
        "train.optimizer.beta1=1", "train.optimizer.beta2=-0.1", "train.optimizer.eps=-1",
        "train.optimizer.momentum=2", "train.optimizer.weight_decay=-1", "train.minutes=inf",
        "train.precision=float16", "task.max_length=0", "task.vocab_size=0",
    ],
)  # fmt: skip
def test_values_that_cannot_be_meant_are_refused(set_: str) -> None:
    key = set_.partition("=")[0]
    with pytest.raises(InputError, match=re.escape(key)):
        resolved(sets=(set_,))


def test_a_model_that_does_not_do_the_task_names_those_that_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Deaf(module.MODELS["transformer"]):  # type: ignore[misc,name-defined]
        tasks = ("listen",)

    monkeypatch.setitem(module.MODELS, "deaf", Deaf)
    with pytest.raises(
        InputError, match="'deaf' does not do 'translate'; these do: seq2seq, transformer"
    ):
        resolved({"model": {"name": "deaf"}})


def test_a_task_that_lacks_something_is_refused_before_any_work(tmp_path: Path) -> None:
    file = tmp_path / "bare.py"
    file.write_text(
        "from saccade.tasks.translate import Translate\n"
        "class Bare:\n"
        "    Config = Translate.Config\n"
        "    prepare = Translate.prepare\n"
        "class Mute(Translate): stream = None\n"
    )
    for name, lacks in {
        "Bare": "kind, model_field_names, usual_model, defaults",
        "Mute": "stream",
    }.items():
        config = merge(TASK, {"task": {"name": f"{file}:{name}"}})
        with pytest.raises(InputError, match=f"{name}' lacks {lacks}"):
            resolve(config, allow_code=True)


def test_a_task_that_no_model_does_says_what_such_a_model_must_have(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from saccade.models.transformer import Transformer\n"
        "from saccade.tasks.translate import Translate\n"
        "class Same(Translate): pass\n"
        "class Listen(Translate): kind = 'listen'\n"
        "class Ear(Transformer): tasks = ('listen',)\n"
    )
    same = merge(TASK, {"task": {"name": f"{file}:Same"}})
    assert resolve(same, allow_code=True).model_name == "transformer"
    listen = merge(TASK, {"task": {"name": f"{file}:Listen"}})
    with pytest.raises(InputError, match=r"'transformer' does not do .*Listen.*'listen' .*`tasks`"):
        resolve(listen, allow_code=True)
    heard = merge(listen, {"model": {"name": f"{file}:Ear"}})
    assert resolve(heard, allow_code=True).model_class.__name__ == "Ear"


@pytest.mark.parametrize("preset", ["tiny", "small", "base", "big"])
def test_a_config_file_gives_the_same_settings_again(tmp_path: Path, preset: str) -> None:
    first = resolved({"model": {"preset": preset}}, sets=("train.optimizer=sgd", "train.ema=0.9"))
    (tmp_path / "config.toml").write_text(dump_toml(first.plain()), encoding="utf-8")
    assert resolve(read_toml(tmp_path / "config.toml")) == first


def test_code_runs_only_when_allowed(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from saccade.models.transformer import Transformer as Mine\n")
    config = merge(TASK, {"model": {"name": f"{file}:Mine"}})
    with pytest.raises(InputError, match="--allow-code"):
        resolve(config)
    assert resolve(config, allow_code=True).model_class.__name__ == "Transformer"
