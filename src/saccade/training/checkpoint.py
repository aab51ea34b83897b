"""Checkpoints that appear whole or not at all, and are believed only when their sums agree.

A checkpoint is a folder `step-00001234` of safetensors files, `state.json` and `manifest.json`
(the size and sha256 of every other file). It is written beside its place, flushed to the disk
and renamed, so a kill or a full disk at any moment leaves the previous one as it was.
"""

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from saccade.data.durable import (
    Chunk,
    beside,
    flush_folder,
    remove_leftovers,
    replace_file,
    write_durably,
)
from saccade.errors import InputError, TrainingError

FORMAT = 1
WEIGHTS = ("model", "ema")  # files whose tensors must be finite
ASIDE = ".replaced-"
SLACK_BYTES = 1 << 20  # for headers, JSON and the folder itself
DTYPES = {  # of safetensors
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "C64": torch.complex64,
}
CODES = {dtype: code for code, dtype in DTYPES.items()}


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All that later decisions read; `tensors` by file ("model", "optimizer", "ema", "carry")."""

    step: int
    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]


# --- writing -----------------------------------------------------------------------------------


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write `folder/step-00001234`; a failure is a TrainingError and hurts no other checkpoint."""
    for stem in WEIGHTS:
        if name := non_finite(checkpoint.tensors.get(stem, {})):
            raise TrainingError(f"{stem}: {name!r} is not finite; not saved")
    state = _strict_json(checkpoint.state)
    target = folder / _name(checkpoint.step)
    with told_as_training_error(target):
        folder.mkdir(parents=True, exist_ok=True)
        remove_leftovers(folder)
        _remove_replaced(folder)
        _check_space(folder, checkpoint.tensors)
        fresh = beside(target)
        try:
            fresh.mkdir()
            _write_files(fresh, checkpoint, state)
            _put_in_place(fresh, target)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return target


def _write_files(fresh: Path, checkpoint: Checkpoint, state: bytes) -> None:
    sums = {}
    for stem, tensors in checkpoint.tensors.items():
        name = f"{stem}.safetensors"
        sums[name] = write_durably(fresh / name, _safetensors(tensors, {}))
    sums["state.json"] = write_durably(fresh / "state.json", [state])
    manifest = {"format": FORMAT, "step": checkpoint.step, "files": sums}
    write_durably(fresh / "manifest.json", [json.dumps(manifest, indent=1).encode()])
    flush_folder(fresh)


def _put_in_place(fresh: Path, target: Path) -> None:
    """Rename; what has the place already steps aside, where `load_latest` still finds it."""
    aside = target.with_name(ASIDE + target.name)
    if target.exists():
        shutil.rmtree(aside, ignore_errors=True)
        target.rename(aside)
    fresh.rename(target)
    flush_folder(target.parent)
    shutil.rmtree(aside, ignore_errors=True)


def write_file(path: Path, data: bytes) -> None:
    """Write one file so that at any moment the old or the new one is there, whole."""
    with told_as_training_error(path):
        replace_file(path, [data])


def save_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write one safetensors file, whole or not at all."""
    with told_as_training_error(path):
        replace_file(path, _safetensors(tensors, metadata))


def _safetensors(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> Iterator[Chunk]:
    """A safetensors file piece by piece: the library would copy every tensor twice to show it."""
    assert sys.byteorder == "little", "safetensors are little-endian"
    _assert_untied(tensors)
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    end = 0
    order = sorted(tensors, key=lambda name: -tensors[name].element_size())  # keeps all aligned
    for name in order:
        tensor, start = tensors[name], end
        end += tensor.nbytes
        shape = list(tensor.shape)
        header[name] = {"dtype": CODES[tensor.dtype], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield len(text).to_bytes(8, "little") + text
    for name in order:
        flat = tensors[name].detach().cpu().contiguous().reshape(-1)
        yield flat.view(torch.uint8).numpy().data


def _assert_untied(tensors: Mapping[str, Tensor]) -> None:
    owners: dict[int, str] = {}
    for name, tensor in tensors.items():
        first = owners.setdefault(tensor.data_ptr(), name)
        assert first == name or not tensor.numel(), f"{first!r} and {name!r} are tied: give one"


def _remove_replaced(folder: Path) -> None:
    """What stepped aside goes, or back to its place if its process died before that was taken."""
    for path in folder.glob(f"{ASIDE}*"):
        place = path.with_name(path.name.removeprefix(ASIDE))
        shutil.rmtree(path) if place.exists() else path.rename(place)


def _check_space(folder: Path, tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
    needed = sum(t.nbytes for named in tensors.values() for t in named.values()) + SLACK_BYTES
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise TrainingError(
            f"{folder}: a checkpoint needs {needed:,} bytes and {free:,} are free; "
            "make room (earlier checkpoints are intact)"
        )


def non_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of the first of these that holds a number beyond numbers."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            return name
    return None


def _strict_json(state: Mapping[str, Any]) -> bytes:
    for key, value in state.items():
        try:
            same = json.loads(json.dumps(value, allow_nan=False)) == value
        except (TypeError, ValueError) as error:
            raise TrainingError(f"state {key!r} = {value!r} is not JSON: {error}") from None
        assert same, f"state {key!r} = {value!r} would come back changed: use lists and text keys"
    return json.dumps(state, allow_nan=False, indent=1).encode()


@contextmanager
def told_as_training_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TrainingError(f"{path}: {error}; what was there before is intact") from error


# --- reading -----------------------------------------------------------------------------------


def _name(step: int) -> str:
    return f"step-{step:08d}"


def steps(folder: Path) -> list[int]:
    """The steps that have a checkpoint, valid or not, oldest first."""
    return sorted({step for step, _ in _places(folder)})


def _places(folder: Path) -> list[tuple[int, Path]]:
    """Checkpoints, newest first; one that was stepping aside when its process died comes last."""
    found = []
    for path in folder.glob("*step-*"):
        name = re.fullmatch(rf"(?:{re.escape(ASIDE)})?step-(\d{{8,}})", path.name)
        if name:
            found.append((int(name[1]), path))
    return sorted(found, key=lambda place: (place[0], place[1].name[0] != "."), reverse=True)


def load_latest(folder: Path, warn: Callable[[str], None]) -> Checkpoint | None:
    """The newest valid checkpoint; invalid ones are named and passed over."""
    for _, path in _places(folder):
        try:
            return load(path)
        except InputError as error:
            warn(f"checkpoint passed over: {error}")
    return None


def load(path: Path) -> Checkpoint:
    """The checkpoint in this folder, after its sums were checked."""
    step, names = _verified(path)
    tensors = {
        Path(name).stem: load_tensors(path / name)
        for name in names
        if name.endswith(".safetensors")
    }
    state = read_object(path / "state.json")
    return Checkpoint(step=step, tensors=tensors, state=state)


def verify(path: Path) -> None:
    """Compare every file with the manifest; InputError names the first that differs."""
    _verified(path)


def _verified(path: Path) -> tuple[int, list[str]]:
    """The step and the file names of a checkpoint whose sums agree."""
    step, sums = _read_manifest(path / "manifest.json")
    named = re.search(r"step-(\d+)$", path.name)
    if named and int(named[1]) != step:
        raise InputError(f"{path}: the manifest is of step {step}")
    for name, (size, digest) in sums.items():
        file = path / name
        try:
            with file.open("rb") as stream:
                if os.fstat(stream.fileno()).st_size != size:
                    raise InputError(f"{file}: is not of the size in the manifest, {size} bytes")
                if hashlib.file_digest(stream, "sha256").hexdigest() != digest:
                    raise InputError(f"{file}: its bytes are not those in the manifest")
        except OSError as error:
            raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    return step, list(sums)


def _read_manifest(path: Path) -> tuple[int, dict[str, tuple[int, str]]]:
    manifest = read_object(path)
    match manifest:
        case {"format": int(form)} if form > FORMAT:
            raise InputError(f"{path}: written by a later saccade (format {form}); update saccade")
        case {"format": int(), "step": int(step), "files": {"state.json": _, **_others}}:
            return step, {name: _sum(path, name, e) for name, e in manifest["files"].items()}
    raise InputError(f"{path}: not the manifest of a checkpoint")


def _sum(path: Path, name: str, entry: object) -> tuple[int, str]:
    plain = re.fullmatch(r"\w[\w.-]*\.(json|safetensors)", name)  # names no other folder
    match entry:
        case {"size": int(size), "sha256": str(digest)} if plain:
            return size, digest
    raise InputError(f"{path}: has a bad entry {name!r}")


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file."""
    try:
        value = json.loads(path.read_bytes(), parse_constant=_refuse_constant)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{path}: holds no JSON object")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def load_tensors(path: Path, expected: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file, of the names, shapes and dtypes of `expected` if given.

    `expected` may be on the meta device. All is compared with the header, which itself must
    agree with the size of the file, before a tensor is made.
    """
    try:
        with safe_open(path, framework="pt") as file:
            if expected is not None:
                _compare(path, file, expected)
            # Cloned, for otherwise a tensor is a view of the file and changes when that does.
            return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except SafetensorError as error:
        raise InputError(f"{path}: not a valid safetensors file: {error}") from None


def _compare(path: Path, file: Any, expected: Mapping[str, Tensor]) -> None:
    names = set(file.keys())
    for problem, those in (("lacks", expected.keys() - names), ("has", names - expected.keys())):
        if those:
            listed = ", ".join(sorted(those)[:5]) + (" ..." if len(those) > 5 else "")
            ending = "" if problem == "lacks" else ", which this model has not"
            raise InputError(f"{path}: {problem} {listed}{ending}")
    for name, tensor in expected.items():
        view = file.get_slice(name)
        shape, dtype = tuple(view.get_shape()), DTYPES.get(view.get_dtype())
        if (shape, dtype) != (tuple(tensor.shape), tensor.dtype):
            wanted = f"{tuple(tensor.shape)} {tensor.dtype}"
            raise InputError(f"{path}: {name!r} is {shape} {dtype}; this model has {wanted}")


# --- rotation ----------------------------------------------------------------------------------


def average(folder: Path, chosen: Sequence[int], stem: str = "model") -> dict[str, Tensor]:
    """The mean of some checkpoints' weights, or of other tensors that they have by name."""
    for step in chosen:
        verify(folder / _name(step))
    found = [load_tensors(folder / _name(step) / f"{stem}.safetensors") for step in chosen]
    return {
        name: torch.stack([each[name].double() for each in found]).mean(0).to(tensor.dtype)
        for name, tensor in found[0].items()
    }


def all_have(folder: Path, chosen: Sequence[int], stem: str) -> bool:
    """Whether each of some checkpoints has tensors of that name."""
    return all((folder / _name(step) / f"{stem}.safetensors").is_file() for step in chosen)


def prune(folder: Path, keep: int, protected: Container[int]) -> None:
    """Delete all but the newest `keep`, the protected steps, and the two newest valid ones."""
    places = _places(folder)
    spared = {path for _, path in places[: max(keep, 0)]}
    spared |= {path for step, path in places if step in protected}
    if len(spared) == len(places):
        return
    spared |= _newest_valid(places, count=2)
    for path in [path for _, path in places if path not in spared]:
        doomed = beside(path)
        with told_as_training_error(path):
            path.rename(doomed)  # first: a half-deleted checkpoint is never seen
        shutil.rmtree(doomed, ignore_errors=True)


def _newest_valid(places: list[tuple[int, Path]], count: int) -> set[Path]:
    found: set[Path] = set()
    for _, path in places:
        if len(found) == count:
            break
        try:
            verify(path)
        except InputError:
            continue
        found.add(path)
    return found
