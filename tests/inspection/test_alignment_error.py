"""Links by hand and out of weights, and how far they are apart: worked by hand."""

import gzip

import pytest
import torch

from saccade.data import english_french
from saccade.errors import InputError
from saccade.inspection.alignment_error import (
    LINKERS,
    Gold,
    Reading,
    parse_links,
    read_gold,
    score_alignments,
)


def gold(sure, possible=()):
    return Gold(frozenset(sure), frozenset([*sure, *possible]))


def test_precision_recall_and_error_rate_by_hand():
    # Och & Ney 2003: precision |A & P| / |A|, recall |A & S| / |S|, both in the rate.
    links = [{(0, 0), (1, 2), (2, 1)}]
    found = score_alignments(links, [gold([(0, 0), (1, 1)], [(1, 2)])])
    assert found.precision == pytest.approx(2 / 3)
    assert found.recall == pytest.approx(1 / 2)
    assert found.error_rate == pytest.approx(1 - (1 + 2) / (3 + 2))
    assert (found.hits, found.links) == ([3], [5])


def test_a_corpus_is_scored_by_its_sums():
    links = [{(0, 0)}, {(0, 0), (1, 0), (2, 0)}]
    found = score_alignments(links, [gold([(0, 0)]), gold([(0, 1)])])
    assert found.error_rate == pytest.approx(1 - 2 / 6)
    assert (found.precision, found.recall) == (pytest.approx(1 / 4), pytest.approx(1 / 2))
    assert found.error_rate == pytest.approx(1 - sum(found.hits) / sum(found.links))


def test_without_links_there_is_no_precision():
    found = score_alignments([set()], [gold([(0, 0)])])
    assert (found.precision, found.recall, found.error_rate) == (0, 0, 1)
    with pytest.raises(InputError, match="gold of 1"):
        score_alignments([set(), set()], [gold([(0, 0)])])


def test_links_are_sure_or_possible_and_counted_from_where_they_say():
    assert parse_links("0-0 1p2 1-1") == ({(0, 0), (1, 1)}, {(0, 0), (1, 1), (1, 2)})
    assert parse_links(" 1-1 2p3\n", first=1) == ({(0, 0)}, {(0, 0), (1, 2)})
    assert parse_links("") == (frozenset(), frozenset())
    for wrong in ("1", "1-", "-1", "a-b", "1-2-3", "1?2", "²-1"):
        with pytest.raises(InputError, match="not a link"):
            parse_links(wrong)
    with pytest.raises(InputError, match="counted from 1"):
        parse_links("0-1", first=1)


def test_both_kinds_of_gold_files(tmp_path):
    plain, words = tmp_path / "plain", tmp_path / "words.gz"
    plain.write_text("0-0 1p1\n\n")
    with gzip.open(words, "wt", encoding="utf-8") as file:
        file.write("das Haus ||| the house ||| 1-1 2-2\n")
    assert read_gold(str(plain)) == [gold([(0, 0)], [(1, 1)]), gold([])]
    (found,) = read_gold(str(words), first=1)
    assert (found.source, found.target) == (("das", "Haus"), ("the", "house"))
    assert found.sure == {(0, 0), (1, 1)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-0\n1:2\n", "line 2: not a link: '1:2'"),
        ("a ||| 0-0\n", "line 1: 2 parts"),
        ("a ||| b ||| 0-0 ||| c\n", "line 1: 4 parts"),
    ],
)
def test_what_is_wrong_with_a_gold_file_is_told_with_its_line(tmp_path, text, message):
    (tmp_path / "gold").write_text(text)
    with pytest.raises(InputError, match=message):
        read_gold(str(tmp_path / "gold"))


def test_a_corpus_brings_its_own_links_either_way(monkeypatch):
    pairs = english_french.lecture_pairs()
    monkeypatch.setattr(english_french, "pairs", lambda split: pairs if split == "test" else [])
    there, back = (
        read_gold(f"builtin:{name}/test") for name in ("english-french", "french-english")
    )
    assert there[0].sure == set(pairs[0].alignment)
    assert there[0].source == back[0].target == pairs[0].source_words
    assert back[0].sure == {(t, s) for s, t in pairs[0].alignment}
    for pair, found in zip(pairs, there, strict=True):
        source, target = found.spans(pair.source, pair.target)
        assert [pair.source[a:b] for a, b in source] == list(pair.source_words)
        assert [pair.target[a:b] for a, b in target] == list(pair.target_words)
    with pytest.raises(InputError, match="unknown corpus"):
        read_gold("builtin:english-klingon/test")


def test_links_need_their_words():
    assert gold([(1, 0)]).spans("a bc", "x") == ([(0, 1), (2, 4)], [(0, 1)])
    with pytest.raises(InputError, match=r"source word 2 .from 0., but there are 2"):
        gold([(2, 0)]).spans("a bc", "x")
    with pytest.raises(InputError, match="does not come next"):
        Gold(frozenset(), frozenset(), ("b",), ("x",)).spans("a bc", "x")


def test_links_out_of_weights():
    # rows are target words: the second and third look at the first source word, nobody at the last
    weights = torch.tensor([[0.1, 0.8, 0.1], [0.7, 0.1, 0.2], [0.6, 0.0, 0.4], [0.0, 0.0, 0.0]])
    found = {name: linker(weights) for name, linker in LINKERS.items()}
    assert found["argmax"] == {(1, 0), (0, 1), (0, 2)}
    assert found["mutual"] == {(1, 0), (0, 1)}
    assert found["covering"] == {(1, 0), (0, 1), (0, 2), (2, 2)}
    for linker in LINKERS.values():
        assert (
            linker(torch.zeros(0, 3))
            == linker(torch.zeros(3, 0))
            == linker(torch.zeros(2, 2))
            == set()
        )


def test_a_reading_is_known():
    assert str(Reading()) == "links:covering|layer:mean|step:predicts"
    with pytest.raises(InputError, match="unknown step 'read'; did you mean 'reads'"):
        Reading(step="read")
    with pytest.raises(InputError, match="unknown links"):
        Reading(links="magic")


def test_the_hand_made_sets(data_file):
    for name, pairs in {"de-en": 406, "en-fr": 357, "ro-en": 198}.items():
        found = read_gold(str(data_file(f"wordalign/{name}.gold.txt.gz")), first=1)
        assert len(found) == pairs
        for each in found:
            each.spans(" ".join(each.source or ()), " ".join(each.target or ()))
        assert any(each.possible > each.sure for each in found) == (name != "ro-en")
