"""A run becomes a folder that transformers loads, and that computes, says and reads the same."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from interop.tiny_gpt2 import TEXTS, fast, greedy, theirs
from tiny_runs import everything, tiny, tiny_text, train, write_corpus, write_text

import saccade
from saccade.decoding.options import DecodeOptions
from saccade.training.checkpoint import load_tensors
from saccade.training.model import Model
from saccade.training.run import Run

GREEDY = DecodeOptions(beam=1, length=24)
PROMPTS = ["abc", "a", "cd efg ab", "abc a"]


def documents(folder: Path) -> list[str]:
    rows = [json.dumps({"text": "abcab"}) + "\n"] * 60
    (folder / "rows.jsonl").write_text("".join(rows))
    return [str(folder / "rows.jsonl")]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Bytes of a plain text, which never ends."""
    folder = tmp_path_factory.mktemp("plain")
    changed = {"task": {"tokenizer": "bytes", "context": 48}, "model": {"activation": "gelu"}}
    return saccade.load(train(tiny_text([write_text(folder)], changed), folder / "run")[0])


@pytest.fixture(scope="module")
def ending(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Characters of documents, which begin and end; no biases."""
    folder = tmp_path_factory.mktemp("ending")
    changed = {
        "task": {"context": 48},
        "model": {"bias": False},
        "train": {"steps": 80, "peak_rate": 2e-2, "warmup": 10},
    }
    return saccade.load(train(tiny_text(documents(folder), changed), folder / "run")[0])


@pytest.fixture(params=["plain", "ending"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Model, Path]:
    """A model, and the folder it was written to."""
    model: Model = request.getfixturevalue(request.param)
    said: list[str] = []
    out = saccade.export_run(model.run, tmp_path / "theirs", warn=said.append)
    assert [("biases" in each) for each in said] == ([True] if request.param == "ending" else [])
    return model, out


def test_logits_and_tokens(both: tuple[Model, Path]) -> None:
    model, folder = both
    other, tokenizer = theirs(folder), model.task.tokenizer
    tokens = torch.randint(0, tokenizer.vocab_size, (3, 16))
    with torch.no_grad():
        found = model.module.logits(model.module(tokens)[0])
        torch.testing.assert_close(other(tokens).logits, found, rtol=0, atol=1e-5)
    named = fast(folder)
    for text in TEXTS:
        ids = named(text, add_special_tokens=False)["input_ids"]
        assert ids == tokenizer.encode(text), text
        assert named.decode(ids, skip_special_tokens=True) == tokenizer.decode(ids)
    assert (named.bos_token_id, named.eos_token_id, named.pad_token_id) == (1, 2, 0)
    assert (other.config.bos_token_id, other.config.eos_token_id) == (1, 2)


def test_greedy_says_the_same_token_by_token(both: tuple[Model, Path]) -> None:
    """Begins that are read, ends that end, and what is never said, as in saccade."""
    model, folder = both
    found = [each.ids for each in model.predict(PROMPTS, GREEDY)]
    assert found == greedy(theirs(folder), fast(folder), PROMPTS, 24)
    lengths = {len(each) for each in found}
    assert min(lengths) < 24 if model.task.ends else lengths == {24}


def test_there_and_back(both: tuple[Model, Path], tmp_path: Path) -> None:
    model, folder = both
    back = saccade.load(saccade.import_run(folder, tmp_path / "run"))
    assert back.predict(PROMPTS, GREEDY) == model.predict(PROMPTS, GREEDY)
    changed = ("bias", "ffn_dim")
    for name in model.settings.model.keys() - changed:
        assert back.settings.model[name] == model.settings.model[name], name
    mine, its = load_tensors(model.run.weights), load_tensors(back.run.weights)
    assert all(torch.equal(its[name], tensor) for name, tensor in mine.items())
    assert not any(its[name].any() for name in its.keys() - mine.keys())


def test_a_folder_comes_back_as_it_was(
    their_folder: tuple[Path, Any], imported: Path, tmp_path: Path
) -> None:
    folder, _ = their_folder
    out = saccade.export_run(imported, tmp_path / "back")
    before, after = (load_tensors(place / "model.safetensors") for place in (folder, out))
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        assert torch.equal(after[name], tensor), name
    asked, given = (transformers.AutoConfig.from_pretrained(p).to_dict() for p in (folder, out))
    free = {"initializer_range", "_name_or_path"}  # how it began to learn, where it was
    assert {key for key in asked if asked[key] != given.get(key)} <= free
    old, new = fast(folder), fast(out)
    for text in TEXTS:
        assert old(text)["input_ids"] == new(text)["input_ids"]
    assert new.eos_token == old.eos_token
    assert new.model_max_length == 64


def test_what_is_in_the_folder(plain: Model, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    out = saccade.export_run(plain.run, tmp_path / "empty")
    assert {path.name for path in out.iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json", "README.md",
    }  # fmt: skip
    card = (out / "README.md").read_text()
    head = card.split("---\n")[1].splitlines()
    assert {"library_name: transformers", "pipeline_tag: text-generation"} <= set(head)
    assert "train.txt" in card
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


# --- refusals ----------------------------------------------------------------------------------


def test_what_gpt2_cannot_be_is_refused(tmp_path: Path) -> None:
    changed = {"model": {"placement": "post"}, "train": {"steps": 1}}
    run, _ = train(tiny_text([write_text(tmp_path)], changed), tmp_path / "run")
    with pytest.raises(saccade.InputError, match=r"model.placement is 'post'"):
        saccade.export_run(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_model_is_refused(tmp_path: Path) -> None:
    config = tiny(write_corpus(tmp_path), {"train": {"steps": 1}})
    run, _ = train(config, tmp_path / "run")
    with pytest.raises(saccade.InputError, match=r"is a transformer.*: gpt"):
        saccade.export_run(run, tmp_path / "out")


def test_a_place_that_is_taken_is_refused(plain: Model, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    before = everything(tmp_path)
    for place in (tmp_path, tmp_path / "file"):
        with pytest.raises(saccade.InputError, match="choose another"):
            saccade.export_run(plain.run, place)
    assert everything(tmp_path) == before


def test_an_unknown_format_and_no_run_are_refused(plain: Model, tmp_path: Path) -> None:
    with pytest.raises(saccade.InputError, match="did you mean 'huggingface'"):
        saccade.export_run(plain.run, tmp_path / "out", to="hugging-face")
    with pytest.raises(saccade.InputError, match="not a saccade run"):
        saccade.export_run(tmp_path, tmp_path / "out")


def test_what_fails_leaves_nothing(
    plain: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("saccade.interop.huggingface.save_tensors", full)
    with pytest.raises(OSError, match="No space"):
        saccade.export_run(Run(plain.run.path), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
