"""Pictures are whole files with the words in them, the same bytes each time, without a warning."""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from matplotlib import rcParams
from matplotlib.figure import Figure
from matplotlib.image import imread

from saccade.errors import InputError
from saccade.inspection import paper
from saccade.inspection.charts import learning_curves, quality_by_length
from saccade.inspection.paper import visible
from saccade.inspection.pictures import (
    distributions,
    head_grid,
    heat_map,
    mask_picture,
    positions_picture,
    save_figure,
)
from saccade.inspection.resampling import length_buckets
from saccade.inspection.stored import Point

WORDS = ["They", "are", "watching", "."]
CURVES = {"with attention": [26.0, 27.0, 26.5], "_plain $x$": [25.0, 9.0, float("nan")]}
POINTS = {name: [Point(n, n / 2, y) for n, y in enumerate(row)] for name, row in CURVES.items()}


def weights(rows, columns, heads=None):
    shape = (rows, columns) if heads is None else (heads, rows, columns)
    return torch.randn(shape).softmax(-1)


PICTURES = {
    "heat map": (lambda: heat_map(weights(3, 4), WORDS, ["Ils", "regardent", "."], "Map"), WORDS),
    "head grid": (
        lambda: head_grid({"L1": weights(3, 4, 2), "L2": weights(5, 5, 4)}, "Heads"),
        ["L1", "L2", "1", "4", "Heads"],
    ),
    "positions": (lambda: positions_picture(torch.randn(20, 512)), ["position", "dimension"]),
    "causal mask": (lambda: mask_picture(torch.ones(4, 4).tril().bool(), WORDS, WORDS), WORDS),
    "numbered mask": (lambda: mask_picture(torch.rand(2, 12) > 0.5), ["1", "2", "12"]),
    "learning curves": (
        lambda: learning_curves(POINTS, POINTS, "BLEU", "Runs"),
        [*CURVES, "updates", "minutes of training", "dev BLEU", "Runs"],
    ),
    "quality by length": (
        lambda: quality_by_length(CURVES, length_buckets([10, 20, 30], 3), "BLEU", 20),
        [*CURVES, "BLEU", "longest in training: 20"],
    ),
    "distributions": (
        lambda: distributions(torch.eye(4), weights(4, 4), WORDS),
        [*WORDS, "target", "predicted", "step 1", "1.00"],
    ),
}


def svg_words(path):
    root = ElementTree.parse(path).getroot()
    assert root.tag.endswith("svg")
    return ["".join(node.itertext()) for node in root.iter() if node.tag.endswith("text")]


@pytest.mark.parametrize("name", PICTURES)
def test_every_picture_is_a_whole_png_and_an_svg_with_its_words(name, tmp_path):
    draw, words = PICTURES[name]
    figure = draw()
    assert isinstance(figure, Figure)
    height, width, _ = imread(save_figure(figure, tmp_path / "a.png")).shape
    assert 100 < height < 3000
    assert 100 < width < 3000
    assert set(words) <= set(svg_words(save_figure(figure, tmp_path / "a.svg")))


def test_the_same_picture_is_the_same_bytes(tmp_path):
    matrix = weights(3, 4)
    for suffix in ("png", "svg"):
        first, second = (
            save_figure(heat_map(matrix, WORDS, WORDS[:3]), tmp_path / f"{n}.{suffix}").read_bytes()
            for n in (1, 2)
        )
        assert first == second
        assert b"<dc:date>" not in first


def test_odd_tokens_are_drawn_without_a_warning(tmp_path):
    odd = [
        "東京",
        "🙂",
        "שלום",
        "नमस्ते",
        "$5 or $6",
        "\n",
        "\x00",
        "",
        " ",
        "\ud800",
        "x" * 90,
        "<&>",
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = heat_map(torch.eye(len(odd)), odd, odd, title="$a$ 東京")
        save_figure(figure, tmp_path / "a.png")
        words = svg_words(save_figure(figure, tmp_path / "a.svg"))
    assert {"東京", "🙂", "$5 or $6", "⏎", "<&>", "x" * 23 + "…", "$a$ 東京"} <= set(words)


def test_the_darkest_cell_is_the_heaviest():
    matrix = torch.tensor([[0.1, 0.7], [0.4, 0.2]])
    (mesh,) = heat_map(matrix, ["a", "b"], ["c", "d"]).axes[0].collections
    shades = mesh.to_rgba(mesh.get_array())[..., :3].sum(-1).reshape(-1)
    assert shades.argsort().tolist() == matrix.flatten().argsort(descending=True).tolist()


def test_empty_and_flat_maps_and_half_precision_are_drawn(tmp_path):
    for matrix in (torch.zeros(0, 0), torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.bfloat16)):
        rows, columns = matrix.shape
        save_figure(heat_map(matrix, WORDS[:columns], WORDS[:rows]), tmp_path / "a.png")
    one = {"none yet": [], "one": [Point(1, 0.0, 2.0)]}
    save_figure(learning_curves(one, {}, "loss"), tmp_path / "b.svg")


def test_drawing_leaves_no_trace_in_matplotlib():
    before = dict(rcParams)
    heat_map(weights(2, 2), ["a", "b"], ["c", "d"])
    assert dict(rcParams) == before
    assert "pyplot" not in Path(paper.__file__).read_text("utf-8")


def test_matplotlib_is_imported_only_to_draw():
    code = "import sys, saccade.inspection.alignment; assert 'matplotlib' not in sys.modules"
    environment = {**os.environ, "PYTHONPATH": str(Path(paper.__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_what_cannot_be_drawn_is_named(tmp_path):
    with pytest.raises(InputError, match="needs as many target and source words, not 1 and 2"):
        heat_map(torch.eye(2), ["a", "b"], ["c"])
    with pytest.raises(InputError, match="no layer was recorded"):
        head_grid({})
    with pytest.raises(InputError, match=r"ends in \.png or \.svg"):
        save_figure(Figure(), tmp_path / "a.jpg")


def test_visible():
    assert visible("a\nb\t\x07") == "a⏎b⇥·"
    assert visible("  ") == "␣␣"
    assert visible("été") == "été"
