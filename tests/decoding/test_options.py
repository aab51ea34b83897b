"""Options: what would overflow, run for ever or mean something else is refused."""

import pytest

from saccade.decoding.options import PENALTIES, DecodeOptions
from saccade.decoding.search import LIMITS, LONGEST, SearchOptions
from saccade.errors import InputError

RANGES = [*LIMITS.items(), ("repetition_penalty", PENALTIES)]


@pytest.mark.parametrize(("name", "limits"), RANGES, ids=str)
def test_numbers_have_limits(name, limits):
    lowest, highest = limits
    others = {"beam": 1024} if name == "nbest" else {"beam": 1}
    for value in limits:
        DecodeOptions(**others | {name: value})
    for value in (lowest - 1, highest * 2):
        with pytest.raises(InputError, match=f"{name} is .*, it must be from"):
            DecodeOptions(**others | {name: value})


def test_no_output_is_longer_than_the_longest():
    assert DecodeOptions(max_ratio=LONGEST).max_length(1 << 16) == LONGEST
    assert DecodeOptions(max_ratio=0.0, max_extra=0).max_length(5) == 1


def test_there_is_room_for_a_prefix_and_for_the_shortest_output():
    usual = DecodeOptions(max_ratio=2.0, max_extra=10)
    assert usual.max_length(2) == 14
    assert usual.max_length(2, prefix_length=29) == 43
    assert DecodeOptions(min_length=40).max_length(2) == 41  # and the end
    assert DecodeOptions(min_length=40).max_length(100) == 210
    assert DecodeOptions(length=7, min_length=7).max_length(2, prefix_length=5) == 7
    assert DecodeOptions(min_length=LONGEST).max_length(2, prefix_length=9) == LONGEST


def test_the_shortest_output_is_no_longer_than_the_longest():
    with pytest.raises(InputError, match="min_length is 41, but length is 40: raise length"):
        DecodeOptions(length=40, min_length=41)


def test_one_stop_string_is_no_list_of_letters():
    with pytest.raises(InputError, match=r"such as \['dog'\]"):
        DecodeOptions(beam=1, stop="dog")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam is 0"),
        ({"choices": 0}, "choices is 0"),
        ({"beam": 2, "nbest": 3}, "nbest is 3"),
        ({"length_penalty": -1.0}, "length_penalty"),
        ({"length_penalty": float("nan")}, "length_penalty"),
        ({"max_extra": -1}, "max_extra"),
    ],
)
def test_wrong_options_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        SearchOptions(**options)


def test_the_maximum_length_follows_the_source():
    assert SearchOptions(max_ratio=1.5, max_extra=3).max_length(5) == 10
    assert SearchOptions(max_ratio=0.0, max_extra=0).max_length(5) == 1
