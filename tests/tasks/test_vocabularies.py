"""What a tokenizer learns from."""

from pathlib import Path

import pytest

from saccade.data.readers import ParallelText
from saccade.tasks import vocabularies
from saccade.tasks.vocabularies import spread, train_tokenizers


@pytest.mark.parametrize("size", [0, 1, 4, 5, 8, 9, 100, 1001])
def test_what_is_kept_is_every_nth_of_all(size: int) -> None:
    kept = spread(range(size), 4)
    every = kept[1] if len(kept) > 1 else 1
    assert kept == list(range(0, size, every))
    assert len(kept) <= 4
    assert len(kept) >= 2 or size < 2
    assert every == 1 or size > 4


@pytest.mark.parametrize("joint", [False, True])
def test_characters_of_late_pairs_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joint: bool
) -> None:
    monkeypatch.setattr(vocabularies, "SENTENCES", 2)
    (tmp_path / "t.tsv").write_text("ab\tcd\nba\tdc\naß\tc☃\n")
    text = ParallelText([str(tmp_path / "t.tsv")])
    source, target = train_tokenizers(text, "characters", 50, joint=joint, lowercase=False)
    assert (source.decode(source.encode("aßb")), target.decode(target.encode("c☃"))) == (
        "aßb",
        "c☃",
    )
    assert joint == (source.unk not in source.encode("☃"))
