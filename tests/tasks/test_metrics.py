"""Scores: what must hold whatever the text, and what is refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.errors import InputError
from saccade.tasks.metrics import Metric, sentence_scores, tokenised_bleu, translation_metrics

REFERENCES = ["The cat sat on the mat.", "Jane visits Africa in September.", "It was too tired."]


def test_a_perfect_translation_scores_a_hundred():
    for metric in translation_metrics(REFERENCES, REFERENCES):
        assert metric.value == pytest.approx(100)
    for scores in sentence_scores(REFERENCES, REFERENCES):
        assert scores == {"bleu": pytest.approx(100), "chrf": pytest.approx(100)}


def test_the_signature_tells_case_and_tokens():
    bleu, chrf = translation_metrics(REFERENCES, REFERENCES)
    assert bleu.name == "BLEU"
    assert {"case:mixed", "tok:13a"} <= set(bleu.signature.split("|"))
    assert chrf.name == "chrF2"
    assert "version:" in chrf.signature
    lowered = tokenised_bleu(REFERENCES, REFERENCES)
    assert lowered.name != "BLEU"
    assert {"case:lc", "tok:none"} <= set(lowered.signature.split("|"))


def test_case_counts_in_one_and_not_in_the_other():
    shouted = [line.upper() for line in REFERENCES]
    assert translation_metrics(shouted, REFERENCES)[0].value < 50
    assert tokenised_bleu(shouted, REFERENCES).value == pytest.approx(100)
    assert tokenised_bleu(shouted, REFERENCES, lowercase=False).value < 50


def test_case_is_ignored_where_asked_and_the_signature_says_so():
    shouted = [line.upper() for line in REFERENCES]
    for metric in translation_metrics(shouted, REFERENCES, lowercase=True):
        assert metric.value == pytest.approx(100)
        assert "case:lc" in metric.signature.split("|")
    for scores in sentence_scores(shouted, REFERENCES, lowercase=True):
        assert scores == {"bleu": pytest.approx(100), "chrf": pytest.approx(100)}


def test_an_empty_hypothesis_is_scored_not_refused():
    hypotheses = ["", *REFERENCES[1:]]
    assert 0 < translation_metrics(hypotheses, REFERENCES)[0].value < 100
    assert sentence_scores(hypotheses, REFERENCES)[0] == {"bleu": 0.0, "chrf": 0.0}
    assert [m.value for m in translation_metrics([""], ["a b c d"])] == [0.0, 0.0]


@pytest.mark.parametrize("score", [translation_metrics, sentence_scores, tokenised_bleu])
def test_what_cannot_be_scored_is_named(score):
    with pytest.raises(InputError, match="2 hypotheses but 3 references"):
        score(REFERENCES[:2], REFERENCES)
    with pytest.raises(InputError, match="no sentences"):
        score([], [])
    with pytest.raises(InputError, match="did you mean 'intl'"):
        score(REFERENCES, REFERENCES, tokenize="int")
    with pytest.raises(InputError, match="lists of sentences"):
        score("a b", "a b")


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), min_size=1, max_size=6))
@settings(max_examples=40, deadline=None)
def test_any_text_has_a_score_that_does_not_depend_on_order(pairs):
    forth = translation_metrics(*map(list, zip(*pairs, strict=True)))
    back = translation_metrics(*map(list, zip(*reversed(pairs), strict=True)))
    assert [m.value for m in forth] == pytest.approx([m.value for m in back])
    assert all(0 <= m.value <= 100.0001 for m in forth)


def test_a_metric_prints_with_its_signature():
    assert str(Metric("BLEU", 41.0234, "tok:13a")) == "BLEU 41.02 (tok:13a)"
