"""The norm study shows what it is for, in a smaller size than the example's."""

from functools import cache

import pytest

from saccade.errors import InputError
from saccade.inspection.norm_study import NormStudy, norm_picture, norm_study
from saccade.inspection.pictures import save_figure

SMALL = NormStudy(batch_sizes=(1, 32), length=6, longer=24, updates=60, rate=0.03, samples=128)


@cache
def small():
    return norm_study(SMALL)


def test_layer_norm_learns_in_any_batch_and_batch_norm_not_from_one_sequence():
    layer, batch = small().by_batch_size["layer"], small().by_batch_size["batch"]
    assert min(layer) > 0.9
    assert batch[1] > 0.9
    assert batch[0] < 0.7


def test_beyond_its_training_batch_norm_refuses_and_guesses_where_layer_norm_holds():
    assert "statistics of 6 time steps" in small().refusal
    layer, untrained, held = small().by_step.values()
    assert min(layer) > 0.9
    assert min(held) > 0.9  # the usual remedy, good as long as statistics do not drift
    assert min(untrained[:6]) > 0.9
    assert untrained[-1] < 0.8


def test_the_study_is_a_function_of_its_seed():
    tiny = [
        norm_study(NormStudy(batch_sizes=(2,), length=2, longer=3, updates=1, seed=seed))
        for seed in (1, 1, 2)
    ]
    assert tiny[0] == tiny[1]
    assert tiny[0].by_step != tiny[2].by_step


def test_by_step_is_of_the_largest_batch_wherever_it_stands():
    up, down = (
        norm_study(NormStudy(batch_sizes=sizes, length=2, longer=3, updates=2))
        for sizes in ((1, 3), (3, 1))
    )
    assert up.by_step == down.by_step


@pytest.mark.parametrize(
    "wrong",
    [{"batch_sizes": ()}, {"batch_sizes": (0, 2)}, {"dim": 0}, {"longer": 12}, {"longer": 513}],
)
def test_sizes_that_show_nothing_are_refused(wrong):
    with pytest.raises(InputError, match=r"at least 1|no longer than|statistics of 512 steps"):
        NormStudy(**wrong)


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_the_picture_has_both_panels(suffix, tmp_path):
    figure = norm_picture(small())
    left, right = figure.axes
    assert [tick.get_text() for tick in left.get_xticklabels()] == ["1", "32"]
    written = [text.get_text() for text in (*left.texts, *right.texts)]
    assert {*small().by_step, "layer norm", "batch norm", "longest in training"} <= set(written)
    assert save_figure(figure, tmp_path / f"norms.{suffix}").stat().st_size > 5000
