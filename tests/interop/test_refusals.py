"""What saccade cannot represent, and what may not be trusted, is refused by name."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from interop.tiny_gpt2 import change_json

import saccade
from saccade.training.checkpoint import load_tensors, save_tensors

Folder = tuple[Path, Any]


@pytest.fixture
def folder(their_folder: Folder, tmp_path: Path) -> Path:
    """A copy to spoil."""
    return Path(shutil.copytree(their_folder[0], tmp_path / "theirs"))


def refused(folder: Path, match: str) -> None:
    out = folder.parent / "new" / "run"
    with pytest.raises(saccade.InputError, match=match):
        saccade.import_run(folder, out, warn=lambda _: None)
    assert not out.parent.exists(), "nothing is left behind"


KEYS: dict[str, Any] = {
    "layer_norm_epsilon": 1e-6,
    "scale_attn_weights": False,
    "scale_attn_by_inverse_layer_idx": True,
    "add_cross_attention": True,
    "tie_word_embeddings": False,
    "activation_function": "quick_gelu",
    "auto_map": {"AutoModel": "modeling.Mine"},
    "quantization_config": {"bits": 4},
    "model_type": "llama",
    "vocab_size": 300,
    "eos_token_id": 5,
    "bos_token_id": [7, 8],
    "n_layer": 900,
    "n_inner": 65,
}


@pytest.mark.parametrize("key", KEYS)
def test_a_key(folder: Path, key: str) -> None:
    change_json(folder / "config.json", **{key: KEYS[key]})
    if key == "auto_map":
        (folder / "modeling.py").write_text("raise SystemExit('code of the folder was run')")
    named = {"n_layer": r"lacks transformer\.h\.2", "n_inner": "c_fc"}
    refused(folder, named.get(key, key))


@pytest.mark.parametrize("key", ["n_head", "n_embd", "n_layer", "n_positions", "resid_pdrop"])
@pytest.mark.parametrize("value", ["4", -1, 3.5, [4]])
def test_a_value_that_is_none(folder: Path, key: str, value: object) -> None:
    change_json(folder / "config.json", **{key: value})
    refused(folder, rf"{key} is|\w+ is (-1|3.5), it must be")


def test_a_word_about_what_is_ignored(folder: Path) -> None:
    said: list[str] = []
    change_json(folder / "config.json", rotary_dim=8, embd_pdrop=0.3)
    change_json(folder / "generation_config.json", do_sample=True, temperature=0.7)
    saccade.import_run(folder, folder.parent / "run", warn=said.append)
    assert "rotary_dim" in said[0]
    assert "embd_pdrop is 0.3, resid_pdrop is 0.1" in said[1]
    assert "do_sample, temperature" in said[2]
    with pytest.warns(UserWarning, match="config.json") as heard:
        saccade.import_run(folder, folder.parent / "again")
    assert [str(each.message) for each in heard] == said


@pytest.mark.parametrize("name", ["pytorch_model.bin", "tf_model.h5"])
def test_pickles_are_not_read(folder: Path, name: str) -> None:
    (folder / "model.safetensors").rename(folder / name)
    refused(folder, rf"(?s){name}.*save_pretrained\(")


def test_no_weights_no_config_no_tokenizer_no_folder(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    refused(folder, r"no tokenizer.json, and no vocab.json")
    (folder / "model.safetensors").unlink()
    refused(folder, r"no weights in it")
    (folder / "config.json").unlink()
    refused(folder, r"config.json: cannot be read")
    refused(folder / "none", "not a folder")


Tensors = dict[str, torch.Tensor]
SPOILT: dict[str, tuple[Callable[[Tensors], object], str]] = {
    "lacking": (lambda t: t.pop("transformer.h.1.mlp.c_fc.bias"), r"lacks .*h\.1\.mlp\.c_fc\.bias"),
    "more": (lambda t: t.update(score=torch.ones(2)), "has score"),
    "narrow": (
        lambda t: t.update({"transformer.wte.weight": torch.ones(304, 8)}),
        r"wte.weight is \[304, 8\]; by config.json it is \[304, 16\]",
    ),
    "integers": (
        lambda t: t.update({"transformer.ln_f.bias": torch.ones(16, dtype=torch.int8)}),
        "ln_f.bias is I8",
    ),
    "untied": (lambda t: t.update({"lm_head.weight": torch.ones(304, 16)}), "tie_word_embeddings"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_weights_that_do_not_fit(folder: Path, case: str) -> None:
    spoil, message = SPOILT[case]
    tensors = load_tensors(folder / "model.safetensors")
    spoil(tensors)
    save_tensors(folder / "model.safetensors", tensors, {})
    refused(folder, message)


def test_a_broken_file(folder: Path) -> None:
    data = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(data[:-100])
    refused(folder, "not a valid safetensors file")


@pytest.mark.parametrize("place", ["../secret.safetensors", "/etc/passwd", "gone.safetensors", 7])
def test_an_index_names_files_of_its_folder(folder: Path, place: object) -> None:
    (folder / "model.safetensors").rename(folder.parent / "secret.safetensors")
    index = {"weight_map": {"transformer.wte.weight": place}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(folder, "index.json: ")


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("tokenizer_config.json", {"auto_map": ["a.B", None]}, "auto_map"),
        ("tokenizer.json", {"added_tokens": []}, "no end token"),
        ("tokenizer.json", {"normalizer": {"type": "Python"}}, "unknown normalizer"),
        ("vocab.json", {}, "not numbered"),
    ],
)
def test_a_tokenizer(folder: Path, file: str, change: dict[str, Any], message: str) -> None:
    if file == "vocab.json":  # the end has a number far off
        (folder / "tokenizer.json").unlink()
        change = {"a": 0, "b": 1, "<|endoftext|>": 303}
        (folder / "merges.txt").write_text("#version: 0.2\n")
    change_json(folder / file, **change)
    refused(folder, message)


def test_a_place_that_is_taken(their_folder: Folder, imported: Path, tmp_path: Path) -> None:
    with pytest.raises(saccade.InputError, match="holds a run already"):
        saccade.import_run(their_folder[0], imported)
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(saccade.InputError, match="not empty"):
        saccade.import_run(their_folder[0], tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
