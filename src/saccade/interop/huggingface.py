"""Hugging Face folders, in and out: config, weights, tokenizer. No code of a folder is ever run."""

import json
import os
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from saccade.config import part
from saccade.data.tokenizers import Tokenizer
from saccade.errors import InputError, nearest
from saccade.interop.architectures import ARCHITECTURES, Architecture
from saccade.interop.cards import exported_card, imported_card
from saccade.interop.vocabularies import TheirTokenizer, read_tokenizer, tokenizer_files
from saccade.interop.weights import TheirWeights, checksums, their_weights, weight_files
from saccade.models import MODELS
from saccade.tasks.task import Warn
from saccade.training.checkpoint import read_object, save_tensors, write_file
from saccade.training.model import load
from saccade.training.run import Run, build_module, named_weights
from saccade.training.settings import Settings, resolve

CONFIG, GENERATION = "config.json", "generation_config.json"
CHANGING = {  # keys of any config that make another model of it
    "auto_map": "it names code, which saccade does not run",
    "quantization_config": "its weights are quantized; export it in full precision",
    "adapter": "merge adapters into the weights first",
}
KEPT = {  # of the generation config; or it says nothing about generation
    "bos_token_id", "eos_token_id", "pad_token_id", "suppress_tokens", "transformers_version",
    "_from_model_config", "use_cache",
}  # fmt: skip


# --- in ----------------------------------------------------------------------------------------


def read_folder(folder: Path, run: Run, warn: Warn) -> Run:
    """Make a run of a folder; all is checked before anything is written."""
    if run.exists:
        raise InputError(f"{run.path} holds a run already; choose another --out")
    if not folder.is_dir():
        raise InputError(f"{folder} is not a folder; give one with {CONFIG} and model.safetensors")
    config = read_object(folder / CONFIG)
    architecture = _architecture(config, folder / CONFIG)
    model = architecture.settings(config, str(folder / CONFIG))
    _tell(config, architecture, warn)
    files = weight_files(folder)
    vocab_size = config.get("vocab_size")
    if not isinstance(vocab_size, int) or vocab_size < 1:
        raise InputError(f"{folder / CONFIG}: vocab_size is {vocab_size!r}")
    found = read_tokenizer(folder, vocab_size, warn)
    _check_controls(config, found.tokenizer, folder / CONFIG)
    ends = _ends(folder, found.tokenizer, warn)
    settings = _settings(architecture, model, found, ends=ends, run=run)
    with ExitStack() as stack:
        theirs = TheirWeights(files, architecture, stack)
        theirs.check_names(architecture.weights(settings.model))
        run_task = settings.task_class(settings.task, found.tokenizer)
        shapes = named_weights(build_module(settings, run_task, meta=True))
        theirs.check_shapes(architecture.weights(settings.model), shapes)
        weights = theirs.read(architecture.weights(settings.model))
    assert weights.keys() == shapes.keys(), weights.keys() ^ shapes.keys()
    origin = {
        "format": "huggingface",
        "folder": folder.resolve().name,
        "name": _text(config.get("_name_or_path")),
        "architecture": architecture.class_name,
        "transformers": _text(config.get("transformers_version")),
        "sha256": checksums(files),
    }
    with run.locked(), run.preparing():
        found.tokenizer.save(run.path / "tokenizer.json")
        run.write_weights(weights, {"format": "pt"}, remedy="take another copy of that folder")
        run.write_environment({"imported": origin, "data": {}})
        size = sum(tensor.numel() for tensor in weights.values())
        run.write_text(run.card.name, imported_card(run, settings, origin, size))
        run.begin(settings)
    return run


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _architecture(config: Mapping[str, Any], path: Path) -> Architecture:
    kind = config.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        raise InputError(f"{path}: model_type is {kind!r}; {nearest(str(kind), ARCHITECTURES)}")
    for key, reason in CHANGING.items():
        if config.get(key):
            raise InputError(f"{path}: {key}: {reason}")
    return ARCHITECTURES[kind]


def _tell(config: Mapping[str, Any], architecture: Architecture, warn: Warn) -> None:
    """What is in the config and does not come along."""
    if unknown := architecture.unknown(config):
        warn(f"{CONFIG}: ignored, not known here: {', '.join(unknown)}")
    for difference in architecture.unequal(config):
        warn(f"{CONFIG}: {difference}; saccade has one setting for both and takes the second")


def _check_controls(config: Mapping[str, Any], tokenizer: Tokenizer, path: Path) -> None:
    """Begin and end by their names must be those that the config says by number."""
    for role, ours in (("bos", tokenizer.bos), ("eos", tokenizer.eos)):
        key = f"{role}_token_id"
        number = config.get(key)
        if number in (None, ours, [ours]):
            continue
        there = isinstance(number, int) and tokenizer.inner.id_to_token(number)
        raise InputError(
            f"{path}: {key} is {number} ({there or 'no token'}), but by its name {role} is "
            f"{tokenizer.inner.id_to_token(ours)!r} ({ours})"
        )


def _ends(folder: Path, tokenizer: Tokenizer, warn: Warn) -> bool:
    """Whether the model may end a text by itself: unless its end is suppressed."""
    path = folder / GENERATION
    told = read_object(path) if path.is_file() else {}
    suppressed = told.get("suppress_tokens")
    suppressed = suppressed if isinstance(suppressed, list) else []
    controls = (tokenizer.pad, tokenizer.bos, tokenizer.eos, tokenizer.unk)
    lost = [key for key, value in told.items() if value and key not in KEPT]
    if not all(token in controls for token in suppressed):
        lost.append("suppress_tokens")
    if lost:
        warn(f"{GENERATION}: not kept: {', '.join(sorted(lost))}; say it when you predict")
    return tokenizer.eos not in suppressed


def _settings(
    architecture: Architecture,
    model: dict[str, Any],
    found: TheirTokenizer,
    *,
    ends: bool,
    run: Run,
) -> Settings:
    """The resolved config of the run; the preset is the one it agrees with, if there is one."""
    presets: Mapping[str, Any] = MODELS[architecture.model].PRESETS
    named = [name for name, tables in presets.items() if tables["model"].items() <= model.items()]
    task = {
        "train": [],
        "tokenizer": str(run.path),
        "vocab_size": found.tokenizer.vocab_size,
        "ends": ends,
        "begins": found.begins,
    }
    preset = {"preset": named[0]} if named else {}
    return resolve(
        {
            "task": {"name": architecture.task, **task},
            "model": {"name": architecture.model, **preset, **model},
        }
    )


# --- out ---------------------------------------------------------------------------------------


def write_folder(run: Run, out: Path, warn: Warn) -> None:
    """Write a run as a folder that transformers loads."""
    name, _ = part(run.config().get("model", {}), f"{run.path / 'config.toml'}: [model]")
    kinds = {each.model: kind for kind, each in ARCHITECTURES.items()}
    if name not in kinds:
        raise InputError(
            f"{run.path} is a {name}, for which Hugging Face has no place here; "
            f"these can go there: {', '.join(kinds)}"
        )
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists and is not an empty folder; choose another --out")
    architecture = ARCHITECTURES[kinds[name]]
    model = load(run)
    config = architecture.config(model.settings.model, str(run.path))
    ours = named_weights(model.module)
    layout = list(architecture.weights(model.settings.model))
    lacking = [each.ours for each in layout if each.ours not in ours]
    if lacking:
        warn(f"{len(lacking)} biases that the model does not have are written as zeros")
    out = out.absolute()
    limit: Any = model.module.limit
    fresh = out.with_name(f".tmp-{os.getpid()}-{out.name}")
    fresh.mkdir(parents=True)
    try:
        for file, content in _files(config, kinds[name], model.task, limit).items():
            text = json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False)
            write_file(fresh / file, (text + "\n").encode())
        save_tensors(fresh / "model.safetensors", their_weights(ours, layout), {"format": "pt"})
        card = exported_card(run, model.settings, architecture)
        write_file(fresh / "README.md", card.encode())
        fresh.replace(out)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _files(
    config: Mapping[str, Any], kind: str, task: Any, context: int | None
) -> dict[str, dict[str, Any]]:
    """The JSON files of a folder by name."""
    tokenizer: Tokenizer = task.tokenizer
    pad = None if tokenizer.pad == tokenizer.eos else tokenizer.pad
    roles = {"bos_token_id": tokenizer.bos, "eos_token_id": tokenizer.eos, "pad_token_id": pad}
    unsaid = {"suppress_tokens": list(task.unsaid)} if task.unsaid else {}
    whole = {
        "architectures": [ARCHITECTURES[kind].class_name],
        "model_type": kind,
        **config,
        "vocab_size": tokenizer.vocab_size,
        **roles,
        "torch_dtype": "float32",
    }
    return {
        CONFIG: whole,
        GENERATION: {**roles, **unsaid},
        **tokenizer_files(tokenizer, context, begins=task.begins),
    }
