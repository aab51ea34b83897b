"""Our scores are sacrebleu's own, and agree with BLEU counted by hand."""

import math
from collections import Counter

import pytest
import sacrebleu

from saccade.tasks.metrics import sentence_scores, tokenised_bleu, translation_metrics
from saccade.tasks.moses import moses_bleu

HYPOTHESES = ["A man is riding a horse.", "Two dogs run over the green field", "", "He sings."]
REFERENCES = ["A man rides a horse.", "Two dogs run across a green field.", "Yes.", "He sings."]


def bleu_by_hand(hypotheses, references):
    """Papineni et al. 2002: brevity penalty times the geometric mean of clipped precisions."""
    hits, totals = [0] * 4, [0] * 4
    pairs = [(h.split(), r.split()) for h, r in zip(hypotheses, references, strict=True)]
    for hypothesis, reference in pairs:
        for n in range(4):
            h = Counter(zip(*(hypothesis[i:] for i in range(n + 1)), strict=False))
            r = Counter(zip(*(reference[i:] for i in range(n + 1)), strict=False))
            hits[n] += sum((h & r).values())
            totals[n] += sum(h.values())
    length, wanted = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    logs = [math.log(hit / total) for hit, total in zip(hits, totals, strict=True)]
    return 100 * math.exp(min(0, 1 - wanted / length) + sum(logs) / 4)


def test_corpus_scores_are_sacrebleus():
    bleu, chrf = translation_metrics(HYPOTHESES, REFERENCES)
    assert bleu.value == sacrebleu.corpus_bleu(HYPOTHESES, [REFERENCES]).score
    assert chrf.value == sacrebleu.corpus_chrf(HYPOTHESES, [REFERENCES]).score


def test_sentence_scores_are_sacrebleus():
    scores = sentence_scores(HYPOTHESES, REFERENCES)
    for score, hypothesis, reference in zip(scores, HYPOTHESES, REFERENCES, strict=True):
        assert score["bleu"] == sacrebleu.sentence_bleu(hypothesis, [reference]).score
        assert score["chrf"] == sacrebleu.sentence_chrf(hypothesis, [reference]).score


def test_tokenised_bleu_counts_the_tokens_as_they_are():
    hypotheses = ["a man is riding a brown horse .", "two dogs run over the green field ."]
    references = ["a man is riding a horse today .", "two dogs run across the green field ."]
    by_hand = bleu_by_hand(hypotheses, references)
    assert tokenised_bleu(hypotheses, references).value == pytest.approx(by_hand)


def test_moses_bleu_is_bleu_of_moses_tokens():
    hypotheses = ["Der Hund rennt, er bellt nicht.", "„Ja“, sagt sie laut im Haus."]
    references = ["Der Hund rennt, und er bellt laut.", '"Ja", sagt sie laut im Garten.']
    by_hand = bleu_by_hand(
        ["der hund rennt , er bellt nicht .", '" ja " , sagt sie laut im haus .'],
        ["der hund rennt , und er bellt laut .", '" ja " , sagt sie laut im garten .'],
    )
    assert moses_bleu(hypotheses, references, "de").value == pytest.approx(by_hand)
