"""Tables of counting models can be printed and drawn."""

from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from matplotlib.image import imread

from saccade.errors import InputError
from saccade.inspection.tables import Table, mask_table, transition_table, votes_table
from saccade.models.markov import Markov, MarkovConfig

SENTENCES = ["the battery ran down please", "the program ran please"]
WORDS = ["<pad>", *sorted({word for sentence in SENTENCES for word in sentence.split()})]


def ids(text):
    return [WORDS.index(word) for word in text.split()]


def fitted(**settings):
    model = Markov(MarkovConfig(vocab_size=len(WORDS), **settings))
    model.fit([np.array(ids(sentence)) for sentence in SENTENCES])
    return model


def cells(text):
    return [line.split() for line in text.splitlines()]


def test_the_transition_table_in_plain_text():
    lines = cells(transition_table(fitted(order=1), WORDS).text(width=100))
    assert lines[1] == ["battery", "down", "please", "program", "ran", "the"]  # no <pad>
    rows = {line[0]: line[1:] for line in lines[2:]}
    assert rows["ran"] == ["·", "0.50", "0.50", "·", "·", "·"]
    assert rows["please"] == ["·"] * 6  # a dead end
    assert list(rows) == lines[1]


def test_contexts_of_two_words_and_of_a_beginning():
    table = transition_table(fitted(order=2), WORDS)
    assert sorted(table.rows) == [
        "battery ran",
        "program ran",
        "ran down",
        "the battery",
        "the program",
    ]
    smoothed = transition_table(fitted(order=2, smoothing="kneser-ney"), WORDS)
    assert "^ the" in smoothed.rows
    torch.testing.assert_close(smoothed.values.sum(1), torch.ones(len(smoothed.rows)))


def test_the_mask_and_the_votes():
    model = fitted(order=2, skips=True, selective=True)
    mask = mask_table(model, WORDS)
    assert (mask.rows, mask.columns, mask.values.tolist()) == (
        ["ran"],
        ["battery", "program"],
        [[1, 1]],
    )
    votes = votes_table(fitted(order=2, skips=True), WORDS, ids("the program ran"))
    assert cells(votes.text(width=80)) == [
        ["Votes"],
        ["down", "please"],
        ["the,", "ran", "0.50", "0.50"],
        ["program,", "ran", "·", "1"],
        ["sum", "0.50", "1.50"],
    ]


@pytest.mark.parametrize("size", [3, 50])
def test_tables_are_drawn_with_their_words_and_numbers(size, tmp_path):
    words = [f"word{n}" for n in range(size)]
    table = Table(torch.eye(size) * 0.25, words, words, "A title", "share")
    path = table.save(tmp_path / "a.svg")
    drawn = {"".join(node.itertext()) for node in ElementTree.parse(path).iter()}
    assert {*words, "A title", "1  share"} <= drawn
    assert ("0.25" in drawn) == (size == 3)
    assert imread(table.save(tmp_path / "a.png")).shape[0] > 100
    with pytest.raises(InputError, match="ends in"):
        table.save(tmp_path / "a.jpg")


def test_wide_tables_are_cut_and_odd_words_stay_in_line():
    words = ["東京", "e\u0301", "\n", "x" * 40]
    lines = Table(torch.eye(4) * 0.5, words, words).text(width=60).splitlines()
    assert lines[0].split() == ["東京", "e\u0301", "⏎"]
    assert lines[-1] == "3 of 4 columns shown"
    assert lines[1].startswith("東京" + " " * 20 + "  0.50")
    assert lines[2].startswith("e\u0301" + " " * 23 + "     ·")
    assert str(Table(torch.zeros(0, 0), [], [])) == ""


def test_words_that_do_not_fit():
    with pytest.raises(InputError, match="7 words, but 2 are named"):
        transition_table(fitted(order=1), ["a", "b"])
    with pytest.raises(InputError, match="needs as many words"):
        Table(torch.zeros(1, 2), ["a"], ["b"])
