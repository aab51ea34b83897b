"""What a tokenizer learns from."""

import pytest

from saccade.tasks.vocabularies import spread


@pytest.mark.parametrize("size", [0, 1, 4, 5, 8, 9, 100, 1001])
def test_what_is_kept_is_every_nth_of_all(size: int) -> None:
    kept = spread(range(size), 4)
    every = kept[1] if len(kept) > 1 else 1
    assert kept == list(range(0, size, every))
    assert len(kept) <= 4
    assert len(kept) >= 2 or size < 2
    assert every == 1 or size > 4
