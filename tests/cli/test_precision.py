"""In eight bits: the Transformer, by `load` and by the verbs, says nearly the same, and faster."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from cli.conftest import Said
from tiny_runs import tiny, train, write_corpus
from torch import nn

from saccade.blocks.quantized import QuantizedLinear
from saccade.blocks.sequences import Padded
from saccade.config import override
from saccade.training.model import Model, load

Saccade = Callable[..., Said]
TEXTS = ["a b c", "", "h g f e", "b", "d d a c"]
NEAR = 0.03  # of the length of a vector of logits: the steps of seven and eight bits, some layers
FLAGS = ("--precision", "int8", "--beam", 2, "--max-ratio", 1)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_corpus(tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def folder(files: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Transformer whose two sides have vocabularies of their own."""
    sets = ["train.steps=20", "task.joint=false", "model.layers=2"]
    run, _ = train(override(tiny(files), sets), tmp_path_factory.mktemp("r") / "run")
    return run.path


def logits(model: Model) -> torch.Tensor:
    """What it says of some letters, source and target read at once."""
    task: Any = model.task
    source, target, device = task.source, task.target, torch.device("cpu")
    read = Padded.of(
        [[*source.encode(text), source.eos] for text in ("a b c", "h g f")], source.pad, device
    )
    said = torch.tensor([[target.bos, *target.encode("C B A")]] * 2)
    with torch.no_grad():
        found: torch.Tensor = model.module(read, said)
    return found


def test_every_map_of_a_transformer_is_in_eight_bits(folder: Path) -> None:
    exact, eight = load(folder), load(folder, precision="int8")
    kinds = [type(module) for module in eight.module.modules()]
    assert not any(issubclass(kind, nn.Linear) for kind in kinds)
    assert kinds.count(QuantizedLinear) > 10
    wanted, found = logits(exact), logits(eight)
    assert not torch.equal(found, wanted)
    assert (found - wanted).norm() < NEAR * wanted.norm()


def test_step_by_step_it_is_as_near(folder: Path) -> None:
    """A search reads token by token, the fast way, and nearly finds what it found."""
    exact, eight = load(folder), load(folder, precision="int8")
    for wanted, found in zip(exact.predict(TEXTS), eight.predict(TEXTS), strict=True):
        assert found.score == pytest.approx(wanted.score, rel=2 * NEAR)
        assert bool(found.tokens) == bool(wanted.tokens)
    assert [each.score for each in eight.predict(TEXTS)] != [
        each.score for each in exact.predict(TEXTS)
    ]


@pytest.mark.serial
def test_predict_says_the_same_with_any_number_of_workers(saccade: Saccade, folder: Path) -> None:
    stdin = "".join(f"{text}\n" for text in TEXTS * 20).encode()  # more than one job
    alone, two = (
        saccade("predict", folder, *FLAGS, "--json", "--workers", workers, stdin=stdin)
        for workers in (1, 2)
    )
    assert (alone.code, two.code) == (0, 0), alone.err + two.err
    assert alone.out == two.out
    lines = [json.loads(line) for line in alone.out.splitlines()]
    assert len(lines) == len(TEXTS) * 20
    plain = saccade("predict", folder, *FLAGS[2:], "--json", "--workers", 1, stdin=stdin).out
    for line, wanted in zip(lines, map(json.loads, plain.splitlines()), strict=True):
        assert line["score"] == pytest.approx(wanted["score"], rel=2 * NEAR)
    assert alone.out != plain


@pytest.mark.serial
def test_eval_scores_the_same_with_any_number_of_workers(
    saccade: Saccade, folder: Path, files: list[str]
) -> None:
    call = ["eval", folder, "--data", *files, *FLAGS, "--json", "--workers"]
    alone, two = (saccade(*call, workers) for workers in (1, 2))
    assert (alone.code, two.code) == (0, 0), alone.err + two.err
    one, other = (json.loads(said.out) for said in (alone, two))
    assert one["metrics"] == other["metrics"]
    assert one["decoding"]["precision"] == "int8"
