"""Work that fails, for want of memory or of numbers, ends in one message and exit code 1."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.conftest import Said

from saccade.decoding.options import DecodeOptions
from saccade.inspection import explain
from saccade.tasks.translate import Translate
from saccade.training.checkpoint import load_tensors, save_tensors
from saccade.training.pool import Job, Loading, Pool, Work

Saccade = Callable[..., Said]
OUT_OF_MEMORY = [
    MemoryError(),
    RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9"),
    torch.OutOfMemoryError("CUDA out of memory"),
]


def failed(said: Said, *fragments: str) -> None:
    assert said.code == 1, said.err
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1, said.err
    for fragment in fragments:
        assert fragment in said.err


@pytest.fixture(scope="module")
def beyond(run_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose weights are numbers, but not what is computed with them."""
    run = shutil.copytree(run_folder, tmp_path_factory.mktemp("runs") / "beyond")
    huge = {name: tensor * 0 + 3e38 for name, tensor in load_tensors(run / W).items()}
    save_tensors(run / W, huge, {})
    return run


W = "model.safetensors"


@pytest.mark.parametrize("error", OUT_OF_MEMORY)
def test_out_of_memory_says_what_to_lower(
    saccade: Saccade,
    run_folder: Path,
    corpus: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    def greedy(*_: Any, **__: Any) -> None:
        raise error

    for name in ("predict", "measure", "stream"):
        monkeypatch.setattr(Translate, name, greedy)
    data = ["--data", corpus / "dev.en", corpus / "dev.de"]
    told = [f"{run_folder}: out of memory while", "--workers", "--beam"]
    failed(saccade("predict", run_folder, stdin=b"a\n"), *told)
    failed(saccade("predict", run_folder, "--stream", stdin=b"a\n"), *told)
    failed(saccade("eval", run_folder, *data), *told)
    monkeypatch.setattr(explain, "explain", greedy)
    failed(saccade("explain", run_folder, "the cat"), "out of memory")


def test_an_error_nobody_foresaw_is_not_dressed_up(
    saccade: Saccade, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("sizes of tensors")

    monkeypatch.setattr(Translate, "predict", broken)
    with pytest.raises(RuntimeError, match="sizes of tensors"):
        saccade("predict", run_folder, stdin=b"a\n")


def test_weights_beyond_numbers_are_told(saccade: Saccade, beyond: Path, corpus: Path) -> None:
    data = ["--data", corpus / "dev.en", corpus / "dev.de"]
    for said in (
        saccade("predict", beyond, stdin=b"a\n"),
        saccade("eval", beyond, *data, "--workers", "1"),
    ):
        failed(said, f"{beyond}: ", "logits are NaN", "peak_rate")


@pytest.mark.serial
def test_a_worker_says_truly_what_went_wrong(beyond: Path) -> None:
    workers = Pool(beyond, Work(DecodeOptions()), 1, Loading())
    try:
        with pytest.raises(FloatingPointError, match="logits are NaN"):
            list(workers.map([Job(["a"], [0])]))
    finally:
        workers.close()


def test_predict_ends_with_what_was_odd_about_its_input(
    saccade: Saccade, run_folder: Path, tmp_path: Path
) -> None:
    odd = tmp_path / "odd.en"
    odd.write_bytes(b"\xef\xbb\xbfthe cat\r\n\nbig\0 red\r\nold\xe2\x80\xa8man\r\n")
    said = saccade("predict", run_folder, "--beam", "1", "--input", odd)
    assert said.code == 0
    assert said.err.startswith(
        f"warning: {odd}: 1 byte order mark stripped, 3 lines ending in CR LF, 1 line with "
        "control characters (kept), 1 line with Unicode separators (kept), 1 blank line\n"
    )
