"""Gradients through time: known cells give known norms, and each cell fades as the theory says."""

import math
from functools import cache

import pytest
from matplotlib.figure import Figure

from saccade.config import find
from saccade.errors import InputError
from saccade.inspection.gradients import (
    LECTURE,
    GradientStudy,
    clip_factor,
    gradient_by_distance,
    gradient_picture,
)
from saccade.inspection.pictures import save_figure
from saccade.training.optim import clip_scale

KNOWN = """
import torch
from saccade.blocks.cells import Cell

class Leaky(Cell):
    keep = 0.9

    def __init__(self, input_dim, dim):
        super().__init__(input_dim, dim)
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, x, state):
        return (self.keep * state[0] + self.scale * x,)

class Forgetful(Leaky):
    keep = 0.0
"""


@cache
def lecture():
    return gradient_by_distance()


@pytest.fixture
def known(tmp_path):
    path = tmp_path / "known.py"
    path.write_text(KNOWN)
    find({}, f"{path}:Leaky", what="cell", allow_code=True)
    return path


def test_a_cell_that_keeps_nine_tenths_has_a_gradient_of_nine_tenths_a_step(known):
    (leaky,) = gradient_by_distance([f"{known}:Leaky"], GradientStudy(distance=200)).values()
    assert leaky.plain == pytest.approx([0.9**k for k in range(201)])


def test_attention_reaches_what_a_cell_has_forgotten(known):
    (gone,) = gradient_by_distance([f"{known}:Forgetful"], GradientStudy(distance=20)).values()
    assert gone.plain == pytest.approx([1.0] + [0.0] * 20)
    assert min(gone.attended) > 0


def test_a_plain_cell_vanishes_or_explodes_to_a_distance_of_150():
    assert lecture()["rnn"].plain[150] < 1e-30
    assert lecture()["rnn, large weights"].plain[150] > 1e6
    for norms in lecture().values():
        for curve in (norms.plain, norms.clipped, norms.attended):
            assert len(curve) == 151
            assert all(math.isfinite(norm) for norm in curve)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_gates_that_are_open_keep_a_path_and_gates_half_open_do_not(cell):
    assert lecture()[cell].plain[150] < 1e-20
    kept = lecture()[f"{cell}, open gates"].plain
    assert kept[150] > 1e-2 * kept[10]


def test_attention_makes_the_distance_irrelevant():
    for name in ("rnn", "lstm", "gru"):
        far = lecture()[name].attended[30:]
        assert max(far) < 20 * min(far)
        assert min(far) > 1e-4


def test_clipping_is_one_factor_for_all_distances_and_none_below_the_limit():
    for norms in lecture().values():
        factor = clip_scale(norms.whole, GradientStudy().clip)
        assert norms.clipped == [factor * norm for norm in norms.plain]
        assert (factor == 1) == (norms.whole <= 5)
    assert lecture()["rnn, large weights"].whole > 1e6
    for norm in (0.0, 1.0, 5.0, 5.0000001, 1e30):
        assert clip_factor(norm, 5.0) == clip_scale(norm, 5.0)


def test_the_same_seed_gives_the_same_numbers_and_another_gives_others():
    tiny = [
        gradient_by_distance(["gru"], GradientStudy(distance=5, dim=4, seed=seed))
        for seed in (1, 1, 2)
    ]
    assert tiny[0] == tiny[1]
    assert tiny[0] != tiny[2]


def test_what_cannot_be_measured_is_refused():
    with pytest.raises(InputError, match="unknown cell 'gruu'"):
        gradient_by_distance(["gruu"])
    with pytest.raises(InputError, match=r"unknown start of a cell 'opened gates'.*open gates"):
        gradient_by_distance([("gru", "opened gates")])
    with pytest.raises(InputError, match="at least 1"):
        gradient_by_distance(["gru"], GradientStudy(distance=0))


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_picture_names_every_cell(suffix, tmp_path):
    figure = gradient_picture(lecture())
    assert isinstance(figure, Figure)
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == list(lecture())
    assert len(lecture()) == len(LECTURE)
    path = save_figure(figure, tmp_path / f"gradients.{suffix}")
    assert path.stat().st_size > 5000
