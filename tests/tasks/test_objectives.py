"""What translate minimises: of real tokens alone, and when two passes shall agree (R-Drop)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from tiny_runs import Killed, close, die_at, tiny, train, weights_at

from saccade.blocks.agreement import agreeing_cross_entropy
from saccade.blocks.dropout import keyed_dropout
from saccade.blocks.sequences import Padded
from saccade.config import merge
from saccade.data.batches import PairBatch
from saccade.errors import InputError
from saccade.models.transformer import Transformer, TransformerConfig
from saccade.tasks.objectives import AgreeingObjective, TranslateObjective, translate_objective

AGREE: Mapping[str, Any] = {"task": {"agreement": 2.0}, "model": {"dropout": 0.3}}


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(3)
    config = TransformerConfig(
        source_vocab_size=9, target_vocab_size=9, dim=8, heads=2, layers=1, dropout=0.4
    )
    return Transformer(config, joint=True).double().train()


@pytest.fixture
def batch() -> PairBatch:
    lengths = torch.tensor([4, 2])
    source = torch.tensor([[3, 4, 5, 2], [6, 2, 0, 0]])
    target = torch.tensor([[1, 5, 4, 3, 2], [1, 6, 2, 0, 0]])
    return PairBatch(source, lengths, target, lengths)


def test_padding_is_no_part_of_the_loss(model: Transformer, batch: PairBatch) -> None:
    wider = PairBatch(
        F.pad(batch.source, (0, 3)), batch.source_lengths,
        F.pad(batch.target, (0, 2)), batch.target_lengths,
    )  # fmt: skip
    one, other = (
        TranslateObjective(model.eval(), 0.1)(each, None)[0]["loss"] for each in (batch, wider)
    )
    assert one.count == other.count == 6
    torch.testing.assert_close(one.sum, other.sum)


def test_each_pair_is_read_twice_and_padding_loses_nothing(
    model: Transformer, batch: PairBatch
) -> None:
    objective = translate_objective(model, 0.1, agreement=3.0)
    with keyed_dropout(7):
        terms, _ = objective(batch, None)
    with keyed_dropout(7):
        twice = Padded(torch.cat([batch.source] * 2), torch.cat([batch.source_lengths] * 2))
        hidden = model(twice, torch.cat([batch.target[:, :-1]] * 2))
    real = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0), (1, 1)]
    first = torch.stack([hidden[row, place] for row, place in real])
    second = torch.stack([hidden[row + 2, place] for row, place in real])
    gold = torch.stack([batch.target[row, place + 1] for row, place in real])
    wanted = agreeing_cross_entropy(first, second, model.output_weight, gold, 0.1, 3.0)
    learned = wanted.total - 3 / 2 * wanted.divergence  # what is told ...
    torch.testing.assert_close(terms["loss"].sum, learned)
    own, whole = (  # ... and what is minimised
        torch.autograd.grad(each, model.output_weight, retain_graph=True)[0]
        for each in (terms["loss"].sum, wanted.total)
    )
    torch.testing.assert_close(own, whole)
    torch.testing.assert_close(terms["divergence"].sum, wanted.divergence)
    assert terms["divergence"].sum > 0.01  # the passes did differ
    assert [(term.count, term.weight) for term in terms.values()] == [(6, 1.0), (6, 0.0)]


def test_without_dropout_or_when_it_is_scored_it_is_the_plain_loss(
    model: Transformer, batch: PairBatch
) -> None:
    agreeing, plain = AgreeingObjective(model, 0.1, 3.0), TranslateObjective(model, 0.1)
    assert set(agreeing.eval()(batch, None)[0]) == {"loss"}
    found, wanted = (each.eval()(batch, None)[0]["loss"].sum for each in (agreeing, plain))
    assert found == wanted
    agreeing.train()
    for module in model.modules():
        if hasattr(module, "p"):
            module.p = 0.0
    torch.testing.assert_close(agreeing(batch, None)[0]["loss"].sum, wanted)


def test_nobody_asks_nobody_pays(model: Transformer) -> None:
    assert type(translate_objective(model, 0.1)) is TranslateObjective


def test_how_far_apart_the_passes_are_is_told(files: list[str], tmp_path: Path) -> None:
    apart: list[float] = []
    train(
        tiny(files, AGREE),
        tmp_path / "run",
        update=lambda _, update: apart.append(update.losses["divergence"]),
    )
    assert len(apart) == 6
    assert min(apart) > 0


def test_taken_up_it_gives_the_same_bits(files: list[str], tmp_path: Path) -> None:
    config = tiny(files, AGREE, {"train": {"save_every": 2}})
    whole, _ = train(config, tmp_path / "whole")
    with pytest.raises(Killed):
        train(config, tmp_path / "parts", update=die_at(5))
    parts, _ = train(config, tmp_path / "parts", resume=True)
    assert close(weights_at(whole, 6), weights_at(parts, 6))


def test_any_dropout_will_do(files: list[str], tmp_path: Path) -> None:
    settings = {"task": {"agreement": 2.0}, "model": {"dropout": 0.0, "ffn_dropout": 0.3}}
    train(tiny(files, settings), tmp_path / "run")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"task": {"agreement": 2.0}, "model": {"dropout": 0.0}}, "model.dropout above 0"),
        ({"task": {"agreement": -1.0}}, "agreement is -1.0, it must be at least 0"),
        (
            {"task": {"agreement": 2.0}, "model": {"name": "seq2seq", "sampling": "linear"}},
            "reads words of its own",
        ),
        (
            {"task": {"agreement": 2.0}, "model": {"name": "seq2seq", "weighting": "hard"}},
            "a model whose weighting is hard",
        ),
    ],
)
def test_what_cannot_agree_is_refused(
    files: list[str], tmp_path: Path, settings: dict[str, Any], says: str
) -> None:
    config = merge({"task": {"name": "translate", "train": files}}, settings)
    with pytest.raises(InputError, match=says):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()
