"""A checkpoint comes back bit by bit; what is corrupted or hostile is refused."""

import hashlib
import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor
from training.checkpoint_samples import fail, identical, make, same

from saccade.errors import InputError, TrainingError
from saccade.training.checkpoint import (
    CODES,
    Checkpoint,
    load,
    load_latest,
    load_tensors,
    prune,
    save,
    save_tensors,
    steps,
    verify,
)

# --- round trips -------------------------------------------------------------------------------


def every_dtype() -> dict[str, Tensor]:
    raw = {code: torch.arange(48, dtype=torch.uint8) for code in CODES.values()}
    raw["BOOL"] %= 2
    return {code: raw[code].view(dtype) for dtype, code in CODES.items()}


def awkward() -> dict[str, Tensor]:
    grid = torch.randn(4, 6)
    return {
        "scalar": torch.tensor(3.25),
        "count": torch.tensor(2**53 + 1),
        "empty": torch.empty(0, 3),
        "empty too": torch.empty(0),
        "transposed": torch.randn(3, 5).T,
        "view": grid[1:3, 2:4],
        "expanded": torch.randn(1).expand(7),
        "nan": torch.tensor([float("nan"), float("-inf"), -0.0]),
        "half": torch.randn(5).bfloat16(),
        "parameter": torch.nn.Parameter(torch.randn(2)),
        'a "name" with \\ and é': torch.ones(1, dtype=torch.int8),
    }


@pytest.mark.parametrize("tensors", [every_dtype(), awkward(), {}], ids=["dtypes", "awkward", "no"])
def test_tensors_come_back_bit_by_bit(tmp_path: Path, tensors: dict[str, Tensor]) -> None:
    path = tmp_path / "a.safetensors"
    save_tensors(path, tensors, {"format": "pt"})
    raw = {name: t.detach() for name, t in tensors.items()}
    assert identical(load_tensors(path), raw)
    assert identical(load_tensors(path, {n: t.to("meta") for n, t in tensors.items()}), raw)
    assert identical(safetensors.torch.load(path.read_bytes()), raw)  # any reader agrees


def test_the_header_is_aligned_and_carries_the_metadata(tmp_path: Path) -> None:
    save_tensors(tmp_path / "a", {"odd": torch.ones(3).bool(), "b": torch.ones(2)}, {"who": "me"})
    data = (tmp_path / "a").read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert length % 8 == 0
    assert header["__metadata__"] == {"who": "me"}
    assert header["b"]["data_offsets"][0] == 0  # wider elements first


def test_a_loaded_tensor_is_no_view_of_its_file(tmp_path: Path) -> None:
    save_tensors(tmp_path / "a", {"a": torch.ones(5000)}, {})
    loaded = load_tensors(tmp_path / "a")["a"]
    with (tmp_path / "a").open("r+b") as file:
        file.truncate(0)
    assert loaded.sum() == 5000


def test_a_checkpoint_comes_back_whole(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "checkpoints"
    path = save(folder, make(1234))
    assert path == folder / "step-00001234"
    names = {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"}
    assert {file.name for file in path.iterdir()} == names
    assert same(load(path), make(1234))
    assert same(load_latest(folder, fail), make(1234))
    verify(path)
    manifest = json.loads((path / "manifest.json").read_text())
    for name, entry in manifest["files"].items():
        data = (path / name).read_bytes()
        assert entry == {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def test_the_newest_is_the_highest_step(tmp_path: Path) -> None:
    for step in (5, 123_456_789, 99_999_999, 0):
        save(tmp_path, make(step))
    (tmp_path / "step-12").mkdir()
    (tmp_path / "notes").mkdir()
    assert steps(tmp_path) == [0, 5, 99_999_999, 123_456_789]
    assert same(load_latest(tmp_path, fail), make(123_456_789))


def test_no_folder_is_no_checkpoint(tmp_path: Path) -> None:
    assert steps(tmp_path / "none") == []
    assert load_latest(tmp_path / "none", fail) is None


def test_a_step_can_be_saved_again(tmp_path: Path) -> None:
    for value in (0.0, 0.0, 0.25):
        save(tmp_path, make(7, value))
        assert same(load_latest(tmp_path, fail), make(7, value))
    assert [p.name for p in tmp_path.iterdir()] == ["step-00000007"]


# --- what is never saved -----------------------------------------------------------------------


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("stem", ["model", "ema"])
def test_non_finite_weights_are_refused_by_name(tmp_path: Path, stem: str, bad: float) -> None:
    save(tmp_path, make(1))
    weights = {"fine": torch.ones(3), "broken": torch.tensor([1.0, bad])}
    with pytest.raises(TrainingError, match="'broken' is not finite"):
        save(tmp_path, Checkpoint(step=2, tensors={stem: weights}, state={}))
    assert steps(tmp_path) == [1]


def test_state_is_strict_json(tmp_path: Path) -> None:
    for bad in (float("nan"), float("inf"), {1, 2}, torch.ones(1)):
        with pytest.raises(TrainingError, match="state 'best'"):
            save(tmp_path, Checkpoint(step=1, tensors={}, state={"best": bad}))
    for lossy in ((1, 2), {1: 2}):
        with pytest.raises(AssertionError, match="would come back changed"):
            save(tmp_path, Checkpoint(step=1, tensors={}, state={"best": lossy}))
    assert steps(tmp_path) == []


def test_tied_tensors_are_refused_by_name(tmp_path: Path) -> None:
    weight = torch.ones(3)
    tied = {"embedding": weight, "output": weight}
    with pytest.raises(AssertionError, match="'embedding' and 'output' are tied"):
        save(tmp_path, Checkpoint(step=1, tensors={"model": tied}, state={}))


# --- corrupted ---------------------------------------------------------------------------------


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def edit(**changes: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


DAMAGE: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "a bit flipped": ("model.safetensors", flip),
    "a bit flipped in the state": ("state.json", flip),
    "truncated": ("optimizer.safetensors", lambda p: p.write_bytes(p.read_bytes()[:-1])),
    "emptied": ("model.safetensors", lambda p: p.write_bytes(b"")),
    "grown": ("model.safetensors", lambda p: p.write_bytes(p.read_bytes() + b" ")),
    "a file missing": ("optimizer.safetensors", Path.unlink),
    "no manifest": ("manifest.json", Path.unlink),
    "half a manifest": ("manifest.json", lambda p: p.write_bytes(p.read_bytes()[:30])),
    "a list as manifest": ("manifest.json", lambda p: p.write_text("[]")),
    "deep JSON": ("manifest.json", lambda p: p.write_text("[" * 100_000)),
    "bytes as manifest": ("manifest.json", lambda p: p.write_bytes(b"\xff\xfe\x00")),
    "another step": ("manifest.json", edit(step=1)),
    "another format": ("manifest.json", edit(format=2)),
    "no files": ("manifest.json", edit(files={})),
    "no sums": ("manifest.json", edit(files={"state.json": None})),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_passed_over_loudly(tmp_path: Path, damage: str) -> None:
    save(tmp_path, make(1))
    name, harm = DAMAGE[damage]
    bad = save(tmp_path, make(2))
    harm(bad / name)
    warnings: list[str] = []
    assert same(load_latest(tmp_path, warnings.append), make(1))
    (warning,) = warnings
    assert str(bad) in warning
    for read in (load, verify):
        with pytest.raises(InputError, match="step-00000002"):
            read(bad)
    save(tmp_path, make(2))
    assert same(load_latest(tmp_path, fail), make(2))


def test_a_manifest_names_no_file_of_another_folder(tmp_path: Path) -> None:
    path = save(tmp_path / "checkpoints", make(1))
    save_tensors(tmp_path / "secret.safetensors", {"a": torch.ones(1)}, {})
    data = (tmp_path / "secret.safetensors").read_bytes()
    files = json.loads((path / "manifest.json").read_text())["files"]
    for name in ("../../secret.safetensors", str(tmp_path / "secret.safetensors")):
        outside = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        edit(files={**files, name: outside})(path / "manifest.json")
        with pytest.raises(InputError, match="bad entry"):
            load(path)


def test_state_with_nan_is_refused_though_its_sum_agrees(tmp_path: Path) -> None:
    path = save(tmp_path, make(1))
    data = b'{"best": NaN}'
    (path / "state.json").write_bytes(data)
    entry = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    edit(files={"state.json": entry})(path / "manifest.json")
    with pytest.raises(InputError, match="NaN is not JSON"):
        load(path)


def header(text: str | bytes, data: bytes = b"", length: int | None = None) -> bytes:
    text = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(start: int, end: int, shape: str = "[1]", dtype: str = "F32") -> str:
    return f'{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}'


HOSTILE = {
    "empty": b"",
    "short": b"\x01\x02",
    "huge header": header("{}", length=2**63),
    "header beyond the file": header("{}", length=1000),
    "not JSON": header("{{{{"),
    "not UTF-8": header(b'{"\xff":1}'),
    "deep": header("[" * 50_000),
    "a pickle": b"\x80\x02}q\x00." * 10,
    "huge shape": header(f'{{"a":{entry(0, 4, "[1099511627776]")}}}', b"\0" * 4),
    "overflowing shape": header(f'{{"a":{entry(0, 4, "[4294967296,4294967296,4]")}}}', b"\0" * 4),
    "huge offsets": header(f'{{"a":{entry(0, 2**40, "[274877906944]")}}}', b"\0" * 4),
    "negative": header(f'{{"a":{entry(0, 4, "[-1]")}}}', b"\0" * 4),
    "backwards": header(f'{{"a":{entry(4, 0)}}}', b"\0" * 4),
    "overlap": header(f'{{"a":{entry(0, 4)},"b":{entry(0, 4)}}}', b"\0" * 4),
    "half overlap": header(f'{{"a":{entry(0, 8, "[2]")},"b":{entry(4, 12, "[2]")}}}', b"\0" * 12),
    "gap": header(f'{{"a":{entry(0, 4)},"b":{entry(8, 12)}}}', b"\0" * 12),
    "data left over": header(f'{{"a":{entry(0, 4)}}}', b"\0" * 8),
    "too little data": header(f'{{"a":{entry(0, 4)}}}', b"\0" * 3),
    "unknown dtype": header(f'{{"a":{entry(0, 4, "[1]", "OBJ")}}}', b"\0" * 4),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(HOSTILE[name])
    with pytest.raises(InputError, match=r"model\.safetensors: not a valid safetensors file"):
        load_tensors(path)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_tensors(tmp_path / "none.safetensors")
    with pytest.raises(InputError, match="cannot be read"):
        load_tensors(tmp_path)


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ({"a": (2, 3), "b": (1,)}, "lacks b"),
        ({}, "has a, which this model has not"),
        ({"a": (3, 2)}, r"'a' is \(2, 3\) torch.float32; this model has \(3, 2\)"),
        ({"a": (2, 3, 1)}, r"'a' is \(2, 3\)"),
    ],
)
def test_tensors_must_be_the_expected_ones(
    tmp_path: Path, expected: dict[str, tuple[int, ...]], message: str
) -> None:
    path = tmp_path / "model.safetensors"
    save_tensors(path, {"a": torch.ones(2, 3)}, {})
    meta = {name: torch.empty(shape, device="meta") for name, shape in expected.items()}
    with pytest.raises(InputError, match=message):
        load_tensors(path, meta)
    with pytest.raises(InputError, match=r"this model has \(2, 3\) torch.float64"):
        load_tensors(path, {"a": torch.ones(2, 3).double()})


# --- rotation ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keep", "protected", "damaged", "left"),
    [
        (3, (), (), [4, 5, 6]),
        (2, (), (), [5, 6]),
        (1, (), (), [5, 6]),  # never fewer than two
        (0, (), (), [5, 6]),
        (-1, (), (), [5, 6]),
        (9, (), (), [1, 2, 3, 4, 5, 6]),
        (2, (1, 3), (), [1, 3, 5, 6]),  # the best, those to average
        (2, (99,), (), [5, 6]),
        (2, (), (6,), [4, 5, 6]),
        (2, (), (5, 6), [3, 4, 5, 6]),
        (2, (), (1, 3, 4, 5), [2, 5, 6]),
        (2, (), (1, 2, 3, 4, 5, 6), [5, 6]),
    ],
)
def test_rotation(
    tmp_path: Path, keep: int, protected: tuple[int, ...], damaged: tuple[int, ...], left: list[int]
) -> None:
    for step in range(1, 7):
        path = save(tmp_path, make(step))
        if step in damaged:
            flip(path / "model.safetensors")
    prune(tmp_path, keep, protected)
    assert steps(tmp_path) == left
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]
    prune(tmp_path, keep, protected)
    assert steps(tmp_path) == left
