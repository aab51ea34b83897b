"""The pictures of the lectures: each is drawn whole, and shows what it is about."""

import warnings

import pytest
import torch
from inspection.test_pictures import svg_words
from matplotlib.image import imread
from matplotlib.patches import PathPatch

from saccade.blocks.positions import Sinusoidal
from saccade.decoding.tree import ROOT, BeamNode, BeamTree
from saccade.errors import InputError
from saccade.inspection.alignment import AttentionMap
from saccade.inspection.fonts import colour_font, families, missing
from saccade.inspection.input_pictures import (
    embedding_plus_positions,
    lecture_masks,
    masks_picture,
    position_layouts,
)
from saccade.inspection.pictures import distributions, heat_map, save_figure
from saccade.inspection.tree_picture import beam_tree
from saccade.inspection.word_pictures import head_questions, token_lines, word_heads

IT = [
    "The", "animal", "did", "not", "cross", "the", "street", "because", "it", "was", "too", "tired",
]  # fmt: skip
JANE, SAID = ["Jane", "visite", "l'Afrique", "en", "septembre"], ["Jane", "visits", "Africa"]
QUESTIONS = ["what?", "when?", "who?"]
VOCABULARY = ["</s>", "les", "pauvres", "the", "poor", "are"]


def weights(*shape):
    return torch.randn(shape).mul(2).softmax(-1)


def grown():
    """A tree of two paths kept and two choices each, as in the lectures (k = t = 2)."""
    tree = BeamTree()
    first = [
        tree.add(BeamNode(0, 0, ROOT, token, log_prob, kept=True, finished=False))
        for token, log_prob in ((3, -0.1), (4, -2.4))
    ]
    ends = [
        tree.add(BeamNode(0, 1, parent, token, log_prob, kept=kept, finished=token == 0))
        for parent, token, log_prob, kept in (
            (first[0], 4, -0.5, True), (first[0], 5, -1.2, True), (first[1], 0, -3.0, False),
            (first[1], 5, -4.0, False),
        )
    ]  # fmt: skip
    tree.mark(ends[0])
    return tree


def tree_picture(tree=None):
    return beam_tree(tree or grown(), lambda token: VOCABULARY[token], title="k = t = 2")


PICTURES = {
    "lines": (lambda: token_lines(weights(3, 5), JANE, SAID, "Lines", word=2), [*JANE, *SAID]),
    "it": (
        lambda: word_heads({f"{h} heads": weights(h, 12) for h in (1, 2, 8)}, IT, "it"),
        [*IT, "1 heads", "8 heads", "8", "1  weight of what “it” looks at"],
    ),
    "questions": (
        lambda: head_questions(weights(3, 5), JANE, "l'Afrique", QUESTIONS),
        [*JANE, *QUESTIONS, "What each head asks of “l'Afrique”"],
    ),
    "positions": (position_layouts, ["interleaved", "halves", "dimension"]),
    "masks": (lecture_masks, ["causal", "padding", "permutation 3 2 4 1, content", "query"]),
    "named masks": (
        lambda: masks_picture({"m": torch.eye(2, 3).bool()}, {"m": (["a", "b"], list("xyz"))}),
        ["a", "b", "x", "y", "z", "m"],
    ),
    "embedding": (
        lambda: embedding_plus_positions(
            torch.ones(4, 10), Sinusoidal(10).first(4), ["I", "love", "Transformers", "!"]
        ),
        ["love", "Transformers", "+ position", "= what enters", "1.84"],  # 1 + sin(1)
    ),
    "before and after": (
        lambda: distributions(torch.eye(3), weights(3, 3), list("abc"), before=weights(3, 3)),
        ["target", "before training", "after training", "step 3"],
    ),
    "tree": (tree_picture, ["the", "poor", "are", "</s>", "0.90", "0.67", "k = t = 2"]),
}


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_a_whole_png_and_an_svg_with_its_words(name, tmp_path):
    draw, words = PICTURES[name]
    figure = draw()
    height, width, _ = imread(save_figure(figure, tmp_path / "a.png")).shape
    assert 100 < height < 3000
    assert 100 < width < 3000
    assert set(words) <= set(svg_words(save_figure(figure, tmp_path / "a.svg")))


def test_a_line_for_each_weight_that_counts_and_the_strongest_is_the_widest():
    matrix = torch.tensor([[0.9, 0.1, 0.0], [0.01, 0.5, 0.49]])
    drawn = token_lines(matrix, list("abc"), list("xy")).axes[0].patches
    lines = [patch for patch in drawn if isinstance(patch, PathPatch)]
    assert len(lines) == 4
    assert max(lines, key=lambda line: line.get_linewidth()) is lines[0]
    chosen = token_lines(matrix, list("abc"), list("xy"), word=1).axes[0].patches
    assert chosen[0].get_alpha() < chosen[2].get_alpha()


def test_both_layouts_hold_the_same_numbers():
    above, below = (axes.images[0].get_array() for axes in position_layouts(20, 512).axes[:2])
    assert above.shape == below.shape == (20, 512)
    assert (above[:, 0::2] == below[:, :256]).all()
    assert (above[:, 1::2] == below[:, 256:]).all()


def test_an_edge_of_the_tree_is_as_wide_as_it_is_probable_and_the_returned_path_is_inked():
    edges = tree_picture().axes[0].lines
    assert len(edges) == 6
    widths = [edge.get_linewidth() for edge in edges]
    assert widths[0] == max(widths)
    colors = [edge.get_color() for edge in edges]
    assert colors[0] == colors[2]  # the, poor: returned
    assert len({colors[0], colors[3], colors[4]}) == 3  # returned, kept, dropped
    with pytest.raises(InputError, match="no candidates of sentence 7"):
        beam_tree(grown(), str, sentence=7)


def test_what_does_not_fit_is_named():
    with pytest.raises(InputError, match="do not fit 1 target and 3 source"):
        token_lines(weights(2, 3), list("abc"), ["x"])
    with pytest.raises(InputError, match="3 questions and 4 words"):
        head_questions(weights(3, 5), JANE[:4], "x", QUESTIONS)
    with pytest.raises(InputError, match="must have one shape"):
        embedding_plus_positions(torch.ones(2, 4), torch.ones(2, 4), ["a"])
    with pytest.raises(InputError, match="no panel"):
        word_heads({}, IT, "it")


def test_a_map_draws_its_lines_and_its_grid():
    seen = AttentionMap({"a": weights(2, 3, 5), "b": weights(2, 3, 5)}, JANE, SAID)
    assert len(seen.grid().axes) == 4
    assert seen.lines("a", head=1, word=0).axes


# --- fonts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", ["東京", "안녕", "שלום", "مرحبا", "नमस्ते", "สวัสดี"])
def test_a_script_is_drawn_where_a_font_has_it(word, tmp_path):
    if missing([word]):
        pytest.skip(f"no font for {word}: install one, such as fonts-noto")
    figure = heat_map(torch.ones(1, 1), [word], [word], title=word)
    with warnings.catch_warnings():  # matplotlib warns of a glyph that no font of the text has
        warnings.simplefilter("error")
        figure.savefig(tmp_path / "a.png")


def test_an_emoji_is_drawn_by_an_outline_or_as_an_image(tmp_path):
    word = "🙂"
    if missing([word]) and colour_font(word) is None:
        pytest.skip("no font has emoji: install one, such as fonts-noto-color-emoji")
    figure = heat_map(torch.zeros(2, 2), [f"▁{word}", "a"], ["a", "b"])
    pixels = imread(save_figure(figure, tmp_path / "a.png"))[..., :3]
    if missing([word]):  # the one thing in the picture that is yellow, above the cells
        rows, columns = ((pixels[..., 0] > 0.8) & (pixels[..., 2] < 0.4)).nonzero()
        assert len(rows) > 20
        height, width, _ = pixels.shape
        assert rows.max() < 0.55 * height
        assert columns.min() > 0.15 * width
    assert f"▁{word}" in svg_words(save_figure(figure, tmp_path / "a.svg"))
    assert {text.get_alpha() for text in figure.axes[0].get_xticklabels()} == {None}


def test_plain_words_need_no_other_font():
    assert families("plain — words…") == families()
    private = "\U000f1234"  # nobody's
    assert families(private) == families()
    assert missing(["a", "\u200d"]) == set()
