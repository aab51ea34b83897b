"""A run is a folder: config, weights, tokenizers, metrics, a model card; nothing is pickled."""

import json
import math
import os
import platform
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from saccade.blocks.meta import shapes_only
from saccade.blocks.products import gains
from saccade.config import dump_toml, override, read_toml
from saccade.data.durable import remove_leftovers
from saccade.errors import InputError, TrainingError
from saccade.inspection.stored import read_log
from saccade.models.contract import learns_by_counting
from saccade.tasks.task import Evaluation, Plain, Task
from saccade.training.checkpoint import (
    load_tensors,
    non_finite,
    save_tensors,
    told_as_training_error,
    write_file,
)
from saccade.training.machine import cores
from saccade.training.settings import FORMAT, Settings, resolve
from saccade.version import __version__

# What a run consists of: nobody else's output goes there.
PARTS = re.compile(
    r"(config\.toml|.*\.safetensors|tokenizer.*\.json|task\.json|environment\.json|dev\.json|"
    r"metrics\.jsonl|README\.md|checkpoints|evals|tokens|tensorboard)"
)
MARK = ".saccade-preparing"  # there while a run is being prepared: what is beside it may be wiped


@dataclass(frozen=True)
class Run:
    """The places in a run's folder, and how to read and write them."""

    path: Path

    def __fspath__(self) -> str:
        """A run is accepted wherever a path is."""
        return str(self.path)

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def weights(self) -> Path:
        return self.path / "model.safetensors"

    @property
    def card(self) -> Path:
        """Written when the model is final."""
        return self.path / "README.md"

    @property
    def tokens(self) -> Path:
        return self.path / "tokens"

    @property
    def init(self) -> str | None:
        """The run whose weights it was begun from, as it was named then."""
        return self.environment().get("init")

    @property
    def exists(self) -> bool:
        return (self.path / "config.toml").is_file()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Inside, the folder is there, and no other process prepares or trains this run."""
        refuse_unwritable_name(self.path)
        if self.path.exists() and not self.path.is_dir():
            raise InputError(f"{self.path} is a file; choose another --out")
        ours = [path for path in (self.path, *self.path.parents) if not path.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        with _locked(self.path):
            try:
                yield
            finally:
                with suppress(OSError):  # something came of it
                    for path in ours:
                        path.rmdir()

    def prepare(self) -> None:
        """Begin a new run in an empty place, locked; nothing of the user's is ever touched."""
        if (self.path / MARK).exists():  # a start that died before the run began
            self._empty()
        if any(self.path.iterdir()):
            raise InputError(
                f"{self.path} is not empty and holds no saccade run; choose another --out"
            )
        (self.path / MARK).touch()

    @contextmanager
    def preparing(self) -> Iterator[None]:
        """`prepare`; what fails inside leaves nothing behind."""
        self.prepare()
        try:
            yield
        except BaseException:
            self._empty()
            raise

    def _empty(self) -> None:
        """The mark goes last: what a kill leaves of this is still ours to wipe."""
        for path in sorted(self.path.iterdir(), key=lambda path: path.name == MARK):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()

    def begin(self, settings: Settings) -> None:
        """From here on the folder is a run."""
        header = {"format": FORMAT, "saccade": __version__}
        write_file(self.path / "config.toml", dump_toml({**header, **settings.plain()}).encode())
        (self.path / MARK).unlink(missing_ok=True)

    def tidy(self) -> None:
        """Of a run, locked: remove the files that processes killed while writing left behind."""
        for folder in (self.path, self.path / "evals"):
            with suppress(OSError):  # of no harm, and no reason not to go on
                remove_leftovers(folder)

    def config(self) -> dict[str, Any]:
        if not self.exists:
            hint = _similar(self.path)
            raise InputError(f"{self.path} is not a saccade run (no config.toml){hint}")
        config = read_toml(self.path / "config.toml")
        if "format" not in config:
            raise InputError(
                f"{self.path} is not a saccade run (its config.toml is of another kind)"
            )
        version = config["format"]
        if type(version) is not int or version < 1:
            raise InputError(
                f"{self.path / 'config.toml'}: format = {version!r}, which no saccade wrote"
            )
        if version > FORMAT:
            raise InputError(
                f"{self.path}: written by saccade {config.get('saccade')} in format {version}, "
                f"this one reads up to {FORMAT}; update saccade"
            )
        return config

    def settings(self, *, allow_code: bool = False, changes: Sequence[str] = ()) -> Settings:
        """What it was told, with `section.key=value` changed."""
        config = override(self.config(), changes)
        try:
            return resolve(config, allow_code=allow_code)
        except InputError as error:
            where = "" if changes else f"{self.path / 'config.toml'}: "  # else, who knows which
            raise InputError(f"{where}{error}") from None

    def dev(self) -> Plain | None:
        """The dev set as it was when the run began, in the task's own form; None if it is gone."""
        found = _read_json(self.path / "dev.json")
        return found if isinstance(found, dict) and found else None

    # --- what training writes ---

    def write_dev(self, examples: Plain | None) -> None:
        """The dev set to keep; without one its scores go, too."""
        if examples is not None:
            self._write_json("dev.json", examples)
            return
        for name in ("dev.json", "evals/dev.json"):
            (self.path / name).unlink(missing_ok=True)

    def write_environment(self, values: Mapping[str, Any]) -> None:
        self._write_json("environment.json", {**environment(), **values})

    def environment(self) -> dict[str, Any]:
        """What `write_environment` wrote, the marks of its data sets among it."""
        found = _read_json(self.path / "environment.json")
        found = found if isinstance(found, dict) else {}
        return {**found, "data": found["data"] if isinstance(found.get("data"), dict) else {}}

    def append_metrics(self, values: Mapping[str, Any]) -> None:
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(values, allow_nan=False) + "\n")

    def metrics(self) -> list[dict[str, Any]]:
        return read_log(self.path)

    def cut_metrics(self, step: int) -> None:
        """Forget what was logged after `step`: it will be logged again."""
        kept = [json.dumps(line) + "\n" for line in self.metrics() if line["step"] <= step]
        if (self.path / "metrics.jsonl").exists():
            write_file(self.path / "metrics.jsonl", "".join(kept).encode())

    def write_evaluation(self, name: str, evaluation: Evaluation) -> None:
        with told_as_training_error(self.path / "evals"):
            (self.path / "evals").mkdir(exist_ok=True)
        self._write_json(f"evals/{name}.json", evaluation_json(evaluation, examples=True))

    def evaluation(self, name: str) -> dict[str, Any]:
        """What `write_evaluation` wrote; no metrics when nothing was."""
        found = _read_json(self.path / "evals" / f"{name}.json")
        metrics = found.get("metrics") if isinstance(found, dict) else None
        sound = isinstance(metrics, dict) and all(
            isinstance(each, dict) and "value" in each for each in metrics.values()
        )
        return found if sound else {"metrics": {}}

    def scored(self, name: str) -> bool:
        """Whether the weights as they are now have been evaluated under this name."""
        kept = self.path / "evals" / f"{name}.json"
        return kept.is_file() and kept.stat().st_mtime_ns >= self.weights.stat().st_mtime_ns

    def write_weights(
        self, tensors: Mapping[str, Tensor], metadata: Mapping[str, str], *, remedy: str
    ) -> None:
        if name := non_finite(tensors):
            raise TrainingError(
                f"the model's {name!r} is not finite, so it is not written; what was there before "
                f"is intact: {remedy}"
            )
        save_tensors(self.weights, tensors, metadata)

    def write_text(self, name: str, text: str) -> None:
        write_file(self.path / name, text.encode())

    def _write_json(self, name: str, values: Mapping[str, Any]) -> None:
        text = json.dumps(values, ensure_ascii=False, indent=1, allow_nan=False)
        write_file(self.path / name, text.encode())


def run_around(place: Path) -> Path | None:
    """The run of which this file is a part, if it is one."""
    for folder in place.resolve().parents:
        part = place.resolve().relative_to(folder).parts[0]
        if Run(folder).exists and PARTS.fullmatch(part):
            return folder
    return None


def evaluation_json(evaluation: Evaluation, *, examples: bool) -> dict[str, Any]:
    metrics = {
        metric.name: {
            "value": metric.value if math.isfinite(metric.value) else None,  # JSON has no infinity
            "signature": metric.signature,
            "better": metric.better,
        }
        for metric in evaluation.metrics
    }
    values: dict[str, Any] = {"metrics": metrics, **evaluation.counts}
    if evaluation.decoding:
        values["decoding"] = evaluation.decoding
    if evaluation.seconds:
        values["seconds"] = evaluation.seconds
        values["examples_per_second"] = len(evaluation.examples) / evaluation.seconds
    return {**values, "by_example": evaluation.examples} if examples else values


def _read_json(path: Path) -> Any:
    """What a file of a run holds; None if it is gone, or of no use."""
    try:
        return json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return None


def refuse_unwritable_name(path: Path) -> None:
    """A run is named in files of its own and of others, which are UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise InputError(f"{str(path)!r} is not UTF-8; choose another --out") from None


def environment() -> dict[str, Any]:
    """What the bits of a result depend on, besides the config and the data."""
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "products": "oneDNN" if gains() else "MKL",
        "machine": platform.machine(),
        "cores": cores(),
    }


def named_weights(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, what is shared once."""
    tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    persistent = model.state_dict().keys()
    return {name: tensor.detach() for name, tensor in tensors.items() if name in persistent}


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Inside, no other process holds it, where the system can lock a folder."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            there = os.path.samestat(os.fstat(descriptor), folder.stat())
        except (BlockingIOError, FileNotFoundError):
            there = False
        if not there:  # or it was, until the process that made it failed and removed it
            raise InputError(f"{folder}: another process is training this run")
        yield
    finally:
        os.close(descriptor)


def _similar(path: Path) -> str:
    """The runs that may have been meant."""
    for where, place in (("inside", path), ("beside", path.parent)):
        runs = sorted(str(found.parent) for found in place.glob("*/config.toml"))
        if runs:
            return f"; runs {where} it: {', '.join(runs[:5])}"
    return ""


def build_module(settings: Settings, task: Task, *, meta: bool = False) -> nn.Module:
    config = settings.model_config(task.model_fields())
    with torch.device("cpu"), shapes_only() if meta else nullcontext():
        module: nn.Module = task.build(settings.model_class, config)
    return module


def load_module(run: Run, settings: Settings, task: Task, changes: Sequence[str] = ()) -> nn.Module:
    """The model of a run; sizes are compared before anything is allocated."""
    if not run.weights.is_file():
        raise InputError(
            f"{run.path} holds no model yet: continue it with `saccade train ... --resume`"
        )
    if learns_by_counting(settings.model_class):  # its tables are as large as the data
        return _load_tables(run, build_module(settings, task))
    shapes = named_weights(build_module(settings, task, meta=True))
    try:
        tensors = load_tensors(run.weights, shapes)
    except InputError as error:
        if not changes:
            raise
        changed = ", ".join(changes)
        raise InputError(f"{changed}: what the run learned does not fit this: {error}") from None
    if name := non_finite(tensors):
        raise InputError(f"{run.weights}: {name!r} is not finite; no model can be made of it")
    module = build_module(settings, task)
    for name, tensor in named_weights(module).items():
        tensor.copy_(tensors[name])
    return module.eval()


def _load_tables(run: Run, module: nn.Module) -> nn.Module:
    try:
        module.load_state_dict(load_tensors(run.weights))
    except RuntimeError as error:
        raise InputError(f"{run.weights}: does not fit this model: {error}") from None
    return module.eval()
