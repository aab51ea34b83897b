"""A Hugging Face folder becomes a run that computes, says and reads the same."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from interop.tiny_gpt2 import (
    END,
    TEXTS,
    bpe,
    change_json,
    fast,
    gpt2,
    greedy,
    theirs,
    write_folder,
    write_old_tokenizer,
    write_tokenizer,
)
from tiny_runs import train, write_text
from tokenizers.processors import TemplateProcessing

import saccade
from saccade.decoding.options import DecodeOptions
from saccade.interop.architectures import ARCHITECTURES, Weight
from saccade.models.gpt import GPTConfig
from saccade.training.checkpoint import load_tensors, save_tensors
from saccade.training.model import Model

PROMPTS = ["the cat", "a", " and the dog ate it all", "🙂", "I've"]
GREEDY = DecodeOptions(beam=1, length=30)
Folder = tuple[Path, Any]


def ours(folder: Path, out: Path) -> tuple[Model, list[str]]:
    """The model that is made of a folder, and what was warned of."""
    said: list[str] = []
    return saccade.load(saccade.import_run(folder, out, warn=said.append)), said


def check_logits(model: Model, other: Any) -> None:
    tokens = torch.randint(0, other.config.vocab_size, (3, 40))
    with torch.no_grad():
        found = model.module.logits(model.module(tokens)[0])
        torch.testing.assert_close(found, other(tokens).logits, rtol=0, atol=1e-5)


# --- the same model ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "told",
    [{}, {"activation_function": "gelu", "n_inner": 24}, {"activation_function": "relu"}],
    ids=["as-gpt2", "gelu-inner", "relu"],
)
def test_logits(tmp_path: Path, told: dict[str, Any]) -> None:
    other = write_folder(tmp_path / "theirs", **told)
    model, said = ours(tmp_path / "theirs", tmp_path / "run")
    assert said == []
    check_logits(model, other)


def test_greedy_says_the_same_token_by_token(their_folder: Folder, imported: Path) -> None:
    folder, other = their_folder
    wanted = greedy(other, fast(folder), PROMPTS, 30)
    found = saccade.load(imported).predict(PROMPTS, GREEDY)
    assert [each.ids for each in found] == wanted
    assert len({tuple(each) for each in wanted}) == len(PROMPTS), "they differ"
    assert max(map(len, wanted)) == 30


def test_an_end_ends_a_text_as_there(their_folder: Folder, tmp_path: Path) -> None:
    """The embedding of what was said fifth changes places with the end's."""
    folder, other = tmp_path / "theirs", their_folder[1]
    said = greedy(other, fast(their_folder[0]), PROMPTS[:1], 30)[0]
    place = next(n for n, each in enumerate(said) if n > 3 and each not in said[:n])
    shutil.copytree(their_folder[0], folder)
    tensors = load_tensors(folder / "model.safetensors")
    end, rows = other.config.eos_token_id, tensors["transformer.wte.weight"]
    rows[[end, said[place]]] = rows[[said[place], end]]
    save_tensors(folder / "model.safetensors", tensors, {"format": "pt"})
    wanted = greedy(theirs(folder), fast(folder), PROMPTS, 30)
    found = ours(folder, tmp_path / "run")[0].predict(PROMPTS, GREEDY)
    assert [each.ids for each in found] == wanted
    assert len(wanted[0]) == place


def test_in_several_files(their_folder: Folder, tmp_path: Path, imported: Path) -> None:
    folder, other = their_folder
    shards = tmp_path / "shards"
    shutil.copytree(folder, shards)
    (shards / "model.safetensors").unlink()
    other.save_pretrained(shards, max_shard_size="10KB")
    assert len(list(shards.glob("model-*.safetensors"))) > 2
    same_weights(ours(shards, tmp_path / "run")[0], imported)


def same_weights(model: Model, run: Path) -> None:
    found = load_tensors(model.run.weights)
    wanted = load_tensors(run / "model.safetensors")
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor), name


def test_as_the_first_folders_were_written(
    their_folder: Folder, imported: Path, tmp_path: Path
) -> None:
    """The body alone, with its masks among the weights, the output beside it, an old config."""
    folder = tmp_path / "old"
    shutil.copytree(their_folder[0], folder)
    tensors = load_tensors(folder / "model.safetensors")
    bare = {name.removeprefix("transformer."): each for name, each in tensors.items()}
    bare |= {"h.0.attn.bias": torch.ones(1, 1, 64, 64), "h.0.attn.masked_bias": torch.tensor(-1e4)}
    bare["lm_head.weight"] = bare["wte.weight"].clone()
    save_tensors(folder / "model.safetensors", bare, {"format": "pt"})
    change_json(folder / "config.json", n_ctx=64, torch_dtype="float32")
    same_weights(ours(folder, tmp_path / "run")[0], imported)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_exact(tmp_path: Path, dtype: torch.dtype) -> None:
    other = gpt2(bpe().get_vocab_size()).to(dtype)
    other.save_pretrained(tmp_path / "theirs")
    write_tokenizer(tmp_path / "theirs", bpe())
    check_logits(ours(tmp_path / "theirs", tmp_path / "run")[0], other.float())


def test_more_rows_than_tokens(tmp_path: Path) -> None:
    size = bpe().get_vocab_size()
    other = write_folder(tmp_path / "theirs", vocab_size=size + 7)
    model, said = ours(tmp_path / "theirs", tmp_path / "run")
    assert "7 more tokens" in said[0]
    check_logits(model, other)
    tokenizer = model.task.tokenizer
    unused = tokenizer.inner.id_to_token(size + 6)
    assert max(tokenizer.encode(f"a {unused}")) < size - 1
    assert tokenizer.decode(tokenizer.encode(f"a {unused}")) == f"a {unused}"


# --- the same tokens ---------------------------------------------------------------------------


def check_ids(model: Model, other: Any) -> None:
    tokenizer = model.task.tokenizer
    for text in TEXTS:
        assert tokenizer.encode(text) == other(text)["input_ids"], text
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert (tokenizer.bos, tokenizer.eos) == (other.bos_token_id, other.eos_token_id)
    assert tokenizer.vocab_size == len(other)
    text = f"a{END}b"
    assert tokenizer.eos not in tokenizer.encode(text)
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_ids(their_folder: Folder, imported: Path) -> None:
    check_ids(saccade.load(imported), fast(their_folder[0]))


@pytest.mark.parametrize("added", [{}, {"<|user|>": 0}], ids=["plain", "added"])
def test_ids_of_the_older_files(tmp_path: Path, added: dict[str, int]) -> None:
    """vocab.json with the end in it and merges.txt, perhaps with tokens that came later."""
    folder, inner = tmp_path / "old", bpe()
    size = inner.get_vocab_size() + len(added)
    gpt2(size, end=size - 1 - len(added)).save_pretrained(folder)
    write_old_tokenizer(folder, inner)
    if added:
        change_json(folder / "added_tokens.json", **dict.fromkeys(added, size - 1))
    other = transformers.GPT2Tokenizer.from_pretrained(folder)
    model, _ = ours(folder, tmp_path / "run")
    check_ids(model, other)
    assert all(model.task.tokenizer.encode(f"x {name}")[-1] == size - 1 for name in added)


def test_a_space_before_the_first_word(their_folder: Folder, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    shutil.copytree(their_folder[0], folder)
    change_json(
        folder / "tokenizer_config.json", add_prefix_space=True, tokenizer_class="GPT2Tokenizer"
    )
    model, other = ours(folder, tmp_path / "run")[0], fast(folder)
    for text in filter(None, TEXTS):
        assert model.task.tokenizer.encode(text) == other(text)["input_ids"], text


@pytest.mark.parametrize("old", [False, True])
def test_a_begin_that_their_tokenizer_adds(their_folder: Folder, tmp_path: Path, old: bool) -> None:
    folder, inner = tmp_path / "theirs", bpe()
    shutil.copytree(their_folder[0], folder)
    if old:
        (folder / "tokenizer.json").unlink()
        write_old_tokenizer(folder, inner, add_bos_token=True)
    else:
        end = (END, inner.token_to_id(END))
        inner.post_processor = TemplateProcessing(single=f"{END} $A", special_tokens=[end])
        write_tokenizer(folder, inner)
    other = fast(folder)
    assert other("a")["input_ids"][0] == other.bos_token_id
    found = ours(folder, tmp_path / "run")[0].predict(PROMPTS, GREEDY)
    assert [each.ids for each in found] == greedy(their_folder[1], other, PROMPTS, 30)


# --- a whole run -------------------------------------------------------------------------------


def test_the_run_says_where_it_came_from(imported: Path, their_folder: Folder) -> None:
    there = {path.name for path in imported.iterdir()}
    files = {"config.toml", "model.safetensors", "tokenizer.json", "environment.json", "README.md"}
    assert there == files
    origin = json.loads((imported / "environment.json").read_text())["imported"]
    assert origin["folder"] == their_folder[0].name
    card = (imported / "README.md").read_text()
    assert "tiny-gpt2" in card
    assert origin["sha256"]["model.safetensors"] in card


def test_it_is_scored_and_trained_on(imported: Path, tmp_path: Path) -> None:
    text = write_text(tmp_path)
    scores = saccade.load(imported).evaluate([text])
    config = {
        "task": {"name": "generate", "train": [text]},
        "model": {"name": "gpt", "dropout": 0.0},
        "train": {"steps": 2, "processes": 1, "threads": 1, "peak_rate": 1e-9, "batch_tokens": 128},
    }
    run, said = train(config, tmp_path / "tuned", init=str(imported))
    assert said == []
    tuned = saccade.load(run)
    assert tuned.settings.task.context == 64, "as the model has it"
    assert tuned.evaluate([text]).main.value == pytest.approx(scores.main.value, abs=1e-4)


def test_an_imported_run_has_nothing_to_resume(imported: Path, tmp_path: Path) -> None:
    imported = shutil.copytree(imported, tmp_path / "run")
    with pytest.raises(saccade.InputError, match="no checkpoint to continue from"):
        train(saccade.Run(imported).config(), imported, resume=True)


# --- the tables --------------------------------------------------------------------------------


def test_every_setting_and_every_key_is_accounted_for() -> None:
    entry = ARCHITECTURES["gpt2"]
    known = {key.ours for key in entry.keys} | entry.ours_only.keys() | entry.ours_idle
    assert known == set(GPTConfig.__dataclass_fields__) - {"vocab_size"}
    config = transformers.GPT2Config().to_dict()
    assert entry.unknown(config) == []
    assert entry.unequal(config) == []
    assert {key.theirs: config[key.theirs] for key in entry.keys} == {
        key.theirs: key.default for key in entry.keys
    }
    settings = {**entry.settings({}, ""), "bias": True, "scaled_init": True}
    assert entry.settings(entry.config(settings, ""), "") == entry.settings({}, "")


@pytest.mark.parametrize("turned", [False, True])
def test_packed_projections_come_apart_and_together(turned: bool) -> None:
    packed = torch.randn(12, 5)
    weight = Weight("qkv", ("q", "k", "v"), turned)
    parts = weight.parted(packed)
    assert torch.equal(parts["k"], packed[4:8].T if turned else packed[4:8])
    assert torch.equal(weight.joined(list(parts.values())), packed)
