"""Alignments: links and error rates worked out by hand, drawings that keep their width."""

import unicodedata

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.errors import InputError
from saccade.inspection.alignment import (
    AttentionMap,
    alignment_error_rate,
    pharaoh,
    word_weights,
)
from saccade.inspection.alignment_error import best_source, parse_links
from saccade.inspection.page import static_table

SOURCE = ["Jane", "visite", "l'", "Afrique", "en", "septembre"]
TARGET = ["Jane", "visits", "Africa", "in", "September"]


def make_map(source=SOURCE, target=TARGET, heads=3, layers=("first", "last")):
    g = torch.Generator().manual_seed(1)
    size = (heads, len(target), len(source))
    return AttentionMap(
        {name: torch.randn(size, generator=g).mul(3).softmax(-1) for name in layers},
        list(source),
        list(target),
    )


# Links


def test_pieces_are_summed_over_the_source_and_averaged_over_the_target():
    # source "Afrika ist", pieces Afri|ka|ist; target "Africa is big", pieces Afr|ica|is|big
    weights = torch.tensor([[0.3, 0.3, 0.4], [0.2, 0.2, 0.6], [0.0, 0.1, 0.9], [0.4, 0.35, 0.25]])
    spans = (
        [(0, 4), (4, 6), (7, 10)],
        [(0, 3), (3, 6), (6, 9), (9, 13)],  # the last two with their space, as byte-level BPE has
        [(0, 6), (7, 10)],
        [(0, 6), (7, 9), (10, 13)],
    )
    expected = torch.tensor([[0.5, 0.5], [0.1, 0.9], [0.75, 0.25]])
    torch.testing.assert_close(word_weights(weights, *spans), expected)
    # "big" looks most at the piece Afri, and with ka even more at its word
    assert {(1, 1), (0, 2)} <= best_source(word_weights(weights, *spans))


def test_the_sum_decides_not_the_strongest_piece():
    weights = torch.tensor([[0.3, 0.3, 0.4]])
    pieces = [(0, 2), (2, 4), (5, 8)]
    merged = word_weights(weights, pieces, [(0, 3)], [(0, 4), (5, 8)], [(0, 3)])
    assert best_source(merged) == {(0, 0)}


def test_a_piece_over_two_words_is_split_by_characters():
    weights = torch.tensor([[1.0]])
    merged = word_weights(weights, [(0, 4)], [(0, 1)], [(0, 1), (1, 4)], [(0, 1)])
    torch.testing.assert_close(merged, torch.tensor([[0.25, 0.75]]))


def test_special_tokens_belong_to_no_word_and_idle_words_have_no_link():
    weights = torch.tensor([[0.1, 0.9], [0.0, 1.0], [0.5, 0.5]])  # the second source piece is </s>
    pieces = ([(0, 3), (3, 3)], [(0, 2), (3, 5)])
    assert best_source(word_weights(weights, *pieces, [(0, 3)], [(0, 2), (3, 5)])) == {(0, 0)}
    assert best_source(word_weights(weights, *pieces, [], [(0, 2)])) == set()


def test_late_attention_is_read_from_later_rows():
    words = [(0, 1), (2, 3), (4, 5)]
    late = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])

    def links(weights, steps_late):
        spans = (words, words, words, words)
        return best_source(word_weights(weights, *spans, steps_late=steps_late))

    assert links(late, 1) == {(0, 0), (1, 1), (2, 2)}
    assert links(late, 0) == {(2, 0), (0, 1), (1, 2)}
    # without the row of the end of the sentence, the last word is left alone
    assert links(late[:3], 1) == {(0, 0), (1, 1)}


def test_weights_that_do_not_fit_the_spans_are_refused():
    with pytest.raises(InputError, match="1 rows and 2 columns do not fit 1 target and 1 source"):
        word_weights(torch.ones(1, 2), [(0, 1)], [(0, 1)], [(0, 1)], [(0, 1)])
    with pytest.raises(InputError, match="-1 steps late"):
        word_weights(torch.ones(1, 1), [(0, 1)], [(0, 1)], [(0, 1)], [(0, 1)], steps_late=-1)


# Alignment error rate


def test_error_rate_by_hand():
    predicted, sure, possible = [{(0, 0), (1, 2), (2, 1)}], [{(0, 0), (1, 1)}], [{(1, 2)}]
    # |A & S| = 1, |A & P| = 2 (P holds the sure ones too), |A| + |S| = 5
    assert alignment_error_rate(predicted, sure, possible) == pytest.approx(1 - 3 / 5)
    assert alignment_error_rate(predicted, sure) == pytest.approx(1 - 2 / 5)


def test_error_rate_of_a_corpus_is_of_its_sums():
    predicted = [[(0, 0)], [(0, 0), (1, 0), (2, 0)]]
    sure = [[(0, 0)], [(0, 1)]]
    # rates 0 and 1 would average to 0.5; the sums give 1 - 2 / 6
    assert alignment_error_rate(predicted, sure) == pytest.approx(1 - 2 / 6)


def test_error_rate_at_its_ends():
    links = [[(0, 0), (1, 1)]]
    assert alignment_error_rate(links, links) == 0
    assert alignment_error_rate([[(0, 1)]], links) == 1
    assert alignment_error_rate([[]], links) == 1
    # links that are only possible cost nothing
    assert alignment_error_rate([[*links[0], (5, 5)]], links, [[(5, 5)]]) == 0
    with pytest.raises(InputError, match="no links"):
        alignment_error_rate([[]], [[]])
    with pytest.raises(InputError, match="alignments of 2 sentences, gold of 1"):
        alignment_error_rate([[], []], links)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99))))
@settings(max_examples=50, deadline=None)
def test_pharaoh_there_and_back(links):
    assert parse_links(pharaoh(links)) == (set(links), set(links))


def test_pharaoh_is_in_order():
    assert pharaoh([(1, 2), (0, 0), (1, 2)]) == "0-0 1-2"


# The map


def test_the_default_is_the_average_of_the_last_layer():
    seen = make_map()
    torch.testing.assert_close(seen.matrix(), seen.weights["last"].mean(0))
    torch.testing.assert_close(seen.average("first"), seen.weights["first"].mean(0))
    torch.testing.assert_close(seen.matrix("first", 2), seen.weights["first"][2])


def test_an_unknown_layer_or_head_is_named():
    with pytest.raises(InputError, match="no attention layer 'frist'; did you mean 'first'"):
        make_map().matrix("frist")
    with pytest.raises(InputError, match="no head 3: this layer has heads 0 to 2"):
        make_map().matrix(head=3)
    with pytest.raises(InputError, match="no attention was recorded"):
        AttentionMap({}, ["a"], ["b"]).matrix()
    with pytest.raises(InputError, match="2 target and 1 source"):
        AttentionMap({"x": torch.ones(1, 1, 1)}, ["a"], ["b", "c"])


def columns(line):
    """Terminal columns of a line, counted apart from the code under test."""
    hidden = ("Mn", "Me", "Mc", "Cf")
    shown = [c for c in line if unicodedata.category(c) not in hidden]
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in shown)


TOKENS = st.lists(
    st.one_of(
        st.sampled_from(
            ["東京", "שלום", "مرحبا", "🙂", "👩‍👩‍👧", "👋🏽", "e\u0301te\u0301", "\n", "", "a" * 50]
        ),
        st.text(st.characters(codec="utf-8"), max_size=8),
    ),
    max_size=30,
)


@given(TOKENS, TOKENS, st.integers(16, 120))
@settings(max_examples=120, deadline=None)
def test_a_drawing_keeps_its_width_and_has_a_row_for_each_target_token(source, target, width):
    text = make_map(source, target, heads=1, layers=("only",)).text(width)
    lines = text.split("\n")
    assert all(columns(line) <= width for line in lines)
    legend = max(i for i, line in enumerate(lines) if line.startswith("░ 0.05"))
    rows = lines[legend - len(target) : legend]
    assert len(rows) == len(target)
    assert not source or all(row[-1] in "·░▒▓█" for row in rows)


def test_the_drawing_shows_where_the_weight_is():
    weights = torch.eye(3).flip(1).unsqueeze(0)
    lines = AttentionMap({"x": weights}, ["a", "b", "c"], ["u", "v", "w"]).text(40).split("\n")
    assert lines[0] == "  a b c"
    assert [line[0] for line in lines[1:4]] == ["u", "v", "w"]
    assert [line.index("██") for line in lines[1:4]] == [6, 4, 2]


def test_wide_characters_keep_the_columns_straight():
    seen = AttentionMap({"x": torch.eye(2).unsqueeze(0)}, ["東京", "a"], ["日", "b"])
    assert seen.text(40).split("\n")[:4] == ["   東", "   京a", "日 ██·", " b · ██"]


def test_marks_stay_on_their_letters_and_joined_emoji_show_the_first():
    seen = AttentionMap({"x": torch.ones(1, 1, 2)}, ["e\u0301a", "👩‍👩‍👧"], ["\u0301"])
    assert seen.text(40).split("\n")[:3] == ["  e\u0301", "  a 👩", " \u0301 ████"]


def test_a_right_to_left_label_is_fenced_in():
    seen = AttentionMap({"x": torch.ones(1, 1, 1)}, ["a"], ["שלום"])
    assert seen.text(40).split("\n")[1].startswith("\u200eשלום\u200e ██")


def test_the_drawing_has_no_escape_codes_and_a_least_width(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    text = str(make_map())
    assert "\x1b" not in text
    assert max(map(len, text.split("\n"))) <= 50
    with pytest.raises(InputError, match="too narrow"):
        make_map().text(15)


def test_html_escapes_what_is_text():
    shown = static_table([[0.5, 0.5]], ["<b>", "&"], ["</td>"])
    assert "&lt;b&gt;" in shown
    assert "&amp;" in shown
    assert shown.count("</td>") == 2  # the two cells, not the token


def test_save_by_suffix(tmp_path):
    seen = make_map()
    assert seen.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert "septembre" in seen.save(tmp_path / "a.svg", "first", 1).read_text("utf-8")
    with pytest.raises(InputError, match=r"ends in \.png or \.svg"):
        seen.save(tmp_path / "a.pdf")
    with pytest.raises(InputError, match="there is no folder"):
        seen.save(tmp_path / "none" / "a.png")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.png", "a.svg"]
