"""Attention along given translations: each row is where it should be, whatever the batch."""

import pytest
import torch
from tiny_runs import pairs, tiny, train, write_corpus

from saccade.blocks.recording import record_attention
from saccade.blocks.sequences import Padded
from saccade.data import batches
from saccade.errors import InputError
from saccade.inspection.alignment_error import Gold, Reading
from saccade.inspection.forced import (
    Alignable,
    Forced,
    Told,
    align,
    check_reading,
    forced_attention,
)
from saccade.training.model import load


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("forced")
    more = {"model": {"layers": 2}, "task": {"tokenizer": "words"}}
    run, _ = train(tiny(write_corpus(folder), more), folder / "run")
    return load(run)


TEXTS = pairs(7, seed=5)


def test_rows_are_what_the_whole_model_records_when_it_is_taught(model):
    """Step by step, as decoding goes, equals all positions at once, as training goes."""
    source, target = TEXTS[0]
    ((_, found),) = forced_attention(model.task, model.module, [(source, target)])
    ids = torch.tensor([[*model.task.source.encode(source), model.task.source.eos]])
    told = torch.tensor([[model.task.target.bos, *model.task.target.encode(target)]])
    with torch.no_grad(), record_attention(model.module, model.module.alignment_layers) as seen:
        model.module(Padded(ids, torch.tensor([ids.shape[1]])), told)
    assert list(found.layers) == model.module.alignment_layers
    for name, weights in found.layers.items():
        torch.testing.assert_close(weights, seen[name][0][0].mean(dim=0), atol=1e-5, rtol=1e-4)
        assert weights.shape == (told.shape[1], ids.shape[1])


def test_neighbours_and_batches_change_nothing(model, monkeypatch):
    together = dict(forced_attention(model.task, model.module, TEXTS))
    assert sorted(together) == list(range(len(TEXTS)))
    monkeypatch.setattr(batches, "ROWS", 2)
    apart = dict(forced_attention(model.task, model.module, TEXTS))
    for place, found in together.items():
        for name, weights in found.layers.items():
            torch.testing.assert_close(weights, apart[place].layers[name], atol=1e-5, rtol=1e-4)
            torch.testing.assert_close(weights.sum(dim=1), torch.ones(len(weights)))


def made(rows):
    """Attention of three target words over three source words and the end."""
    words = [(0, 1), (2, 3), (4, 5)]
    return Forced(Told([1, 2, 3, 0], [1, 2, 3], [*words, (0, 0)], words), {"only": rows}), words


def test_off_by_one_is_a_choice():
    # the step that predicts y1 looks at nothing of use; the one that reads it looks at its source
    late = torch.eye(4)[[3, 0, 1, 2]]
    found, words = made(late)
    reads, predicts = (
        found.words(words, words, Reading(step=step)) for step in ("reads", "predicts")
    )
    torch.testing.assert_close(reads, torch.eye(3))
    torch.testing.assert_close(predicts, torch.eye(4)[[3, 0, 1], :3])
    on_time, _ = made(torch.eye(4))
    torch.testing.assert_close(on_time.words(words, words, Reading()), torch.eye(3))


def test_the_mean_is_over_layers_and_one_can_be_chosen():
    found, words = made(torch.eye(4))
    both = Forced(found.told, {"a": torch.eye(4), "b": torch.zeros(4, 4)})
    torch.testing.assert_close(both.words(words, words, Reading()), torch.eye(3) / 2)
    torch.testing.assert_close(both.words(words, words, Reading(layer="a")), torch.eye(3))


def test_links_are_between_the_words_of_the_gold(model):
    gold = [
        Gold(frozenset({(0, 0)}), frozenset({(0, 0)}), tuple(s.split()), tuple(t.split()))
        for s, t in TEXTS
    ]
    texts = Alignable.of(TEXTS, gold, "gold")
    for (source, target), links in zip(
        TEXTS, align(model.task, model.module, texts, Reading(links="argmax")), strict=True
    ):
        assert {t for _, t in links} == set(range(len(target.split())))
        assert {s for s, _ in links} <= set(range(len(source.split())))


def test_what_does_not_fit_is_refused_before_the_work(model):
    none = Gold(frozenset(), frozenset())
    with pytest.raises(InputError, match=r"gold has links for 1 pairs, but there are 7"):
        Alignable.of(TEXTS, [none], "gold")
    far = Gold(frozenset({(99, 0)}), frozenset({(99, 0)}))
    with pytest.raises(InputError, match="gold, line 2: a link names source word 99"):
        Alignable.of(TEXTS[:2], [none, far], "gold")
    with pytest.raises(InputError, match="no attention layer 'x'; known: mean, decoder"):
        check_reading(model.module, Reading(layer="x"))

    class Blind:
        alignment_layers = ()

    with pytest.raises(InputError, match="no attention from target to source"):
        check_reading(Blind(), Reading())
