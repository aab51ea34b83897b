"""Importance of heads, and what a whole prediction looked at, on a run of a moment's training."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import tiny, tiny_text, train, write_text

from saccade.blocks.recording import record_attention
from saccade.blocks.sequences import Padded
from saccade.config import override
from saccade.data.documents import Documents
from saccade.decoding.options import DecodeOptions
from saccade.errors import InputError
from saccade.inspection.ablation import every_head, without_heads
from saccade.inspection.explain import explain
from saccade.inspection.importance import head_importance, text_loss
from saccade.training.model import Model, load

OPTIONS = {
    "greedy": DecodeOptions(beam=1, min_length=3),
    "beam": DecodeOptions(beam=3, nbest=2, min_length=3),
    "sampling": DecodeOptions(sample=True, temperature=2.0, min_length=3),
}
TEXTS = ["a b c d e", "", "h g", "a\x00b <c>"]


@pytest.fixture(scope="module")
def model(files: list[str], tmp_path_factory: pytest.TempPathFactory) -> Model:
    run, _ = train(override(tiny(files), ["train.steps=20"]), tmp_path_factory.mktemp("r") / "run")
    return load(run)


@pytest.mark.parametrize("how", OPTIONS)
def test_all_attention_is_what_teacher_forcing_gives_and_recording_changes_no_token(
    model: Model, how: str
) -> None:
    plain = model.predict(TEXTS, OPTIONS[how])
    found = model.predict(TEXTS, OPTIONS[how], attention="all")
    for text, before, after in zip(TEXTS, plain, found, strict=True):
        assert before.tokens == after.tokens
        for each in [after, *after.alternatives] if text else []:
            with record_attention(model) as seen:
                model.trace(text, each)
            assert each.attention is not None
            maps = each.attention.every()
            assert list(maps) == ["cross", "encoder", "decoder"]
            assert maps["encoder"].target == maps["cross"].source == each.source_tokens
            assert maps["decoder"].target == maps["cross"].target == each.tokens
            assert maps["decoder"].source == ["<s>", *each.tokens[:-1]]
            weights = {name: w for part in maps.values() for name, w in part.weights.items()}
            assert weights.keys() == seen.keys()
            for name, one in weights.items():
                torch.testing.assert_close(one, seen[name][0][0], rtol=0, atol=1e-5)
                torch.testing.assert_close(one.sum(-1), torch.ones(one.shape[:-1]))


def test_layers_are_recorded_by_name(model: Model) -> None:
    (found,) = model.predict(["a b"], attention=["encoder.0.attention"])
    assert found.attention is not None
    assert list(found.attention.weights) == ["encoder.0.attention"]
    assert found.attention.kind == "encoder"
    (usual,) = model.predict(["a b"], attention=True)
    assert usual.attention is not None
    assert list(usual.attention.every()) == ["cross"]
    with pytest.raises(InputError, match="did you mean"):
        model.predict(["a b"], attention=["encoder.0.atention"])


def test_a_prediction_is_explained_with_its_own_tokens(model: Model) -> None:
    found = model("a b c", OPTIONS["beam"])
    told = explain(model, "a b c", token=1, prediction=found)
    assert (told.query, told.keys) == (found.tokens[1], found.source_tokens)
    assert found.attention is not None
    wanted = found.attention.matrix(told.layer, told.head)[1]
    torch.testing.assert_close(told.steps.weights, wanted, rtol=0, atol=1e-5)
    (usual,) = model.predict(["a b c"])
    for layer in ("decoder.0.attention", "decoder.0.cross_attention"):
        alone, given = (
            explain(model, "a b c", layer, prediction=each).to_dict() for each in (None, usual)
        )
        assert alone == given
    with pytest.raises(InputError, match="blank"):
        explain(model, "  ")


def test_the_loss_of_texts_is_minus_the_log_probability_a_token(model: Model) -> None:
    pairs, source, target = {"a b c": "C B A", "h": "H"}, model.task.source, model.task.target
    log_probs = []
    for text, reference in pairs.items():
        said = [*target.encode(reference), target.eos]
        read = Padded.of([[*source.encode(text), source.eos]], source.pad, torch.device("cpu"))
        module: Any = model.module
        with torch.no_grad():
            logits = module.logits(module(read, torch.tensor([[target.bos, *said[:-1]]])))[0]
        log_probs += logits.log_softmax(-1)[range(len(said)), said].tolist()
    wanted = -sum(log_probs) / len(log_probs)
    assert text_loss(model, list(pairs), list(pairs.values())) == pytest.approx(wanted, rel=1e-5)


def test_every_head_is_measured_alone(model: Model, files: list[str]) -> None:
    found = head_importance(model, files, limit=8)
    assert [(each.layer, each.head) for each in found.effects] == every_head(model.module)
    sources, references = (Path(file).read_text().splitlines()[:8] for file in files)
    assert found.whole == text_loss(model, sources, references)
    first = found.effects[0]
    with without_heads(model, {first.layer: [first.head]}):
        assert first.value == text_loss(model, sources, references)
    assert first.harm == first.value - found.whole
    ranked = [each.harm for each in found.ranked()]
    assert ranked == sorted(ranked, reverse=True)
    lines = found.table().split("\n")
    assert len(lines) == 2 + len(found.effects)


def test_quality_falls_when_it_is_worse(model: Model, files: list[str]) -> None:
    layer = "decoder.0.cross_attention"
    found = head_importance(model, files, by="quality", layers=[layer], limit=4)
    assert found.metric == "BLEU"
    assert [each.layer for each in found.effects] == [layer, layer]
    for each in found.effects:
        assert each.harm == pytest.approx(found.whole - each.value)
    with pytest.raises(InputError, match="no heads to switch off in 'nowhere'"):
        head_importance(model, files, layers=["nowhere"])


def test_heads_of_a_language_model_are_measured_on_the_beginning_of_a_text(tmp_path: Path) -> None:
    text = write_text(tmp_path)
    model = load(train(tiny_text([text], {"train": {"steps": 20}}), tmp_path / "run")[0])
    passages = [passage.text for passage in Documents([text])]
    (tmp_path / "beginning.txt").write_text("".join(passages[:2]), encoding="utf-8")
    assert len(passages) > 2
    found = head_importance(model, [text], limit=2)
    assert found.metric == "loss"
    assert found.whole == model.evaluate([str(tmp_path / "beginning.txt")]).main.value
    assert [(each.layer, each.head) for each in found.effects] == every_head(model.module)
    assert any(each.harm for each in found.effects)
