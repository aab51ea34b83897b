"""Moses tokens of strings worked out by hand from the rules of the Moses scripts."""

import gzip

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.errors import InputError
from saccade.tasks.moses import moses_bleu, normalize_punctuation, tokenize

NBSP = "\u00a0"


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("en", "Hello, world.", "Hello , world ."),
        ("en", "It's the dogs' bowl, isn't it?", "It 's the dogs ' bowl , isn 't it ?"),
        ("en", "the 1990's", "the 1990 's"),
        ("en", "A,B,C and 5,300 or 3.14,", "A , B , C and 5,300 or 3.14 ,"),
        ("en", "in the year 2007,", "in the year 2007 ,"),
        ("en", "Dr. Who met Mr. X. Then left.", "Dr. Who met Mr. X. Then left ."),
        ("en", "See No. 7. No. Never.", "See No. 7 . No . Never ."),
        ("en", "a well-known U-Bahn (#8)!", "a well-known U-Bahn ( # 8 ) !"),
        ("en", "wait...what.... now", "wait ... what .... now"),
        ("en", "The end...", "The end ..."),
        ("en", "he said 'go.'", "he said ' go . '"),
        ("en", "the u.s. team", "the u.s. team"),
        ("en", "stop. go. Run.", "stop. go . Run ."),
        ("en", "x_y & <a|b> [c]", "x _ y & < a | b > [ c ]"),
        ("en", "a\x07b\tc\x1cd", "ab cd"),
        ("de", "McDonald's-Menü für \"Kids' Food\".", "McDonald ' s-Menü für \" Kids ' Food \" ."),
        ("de", "Am 4. Juli, z.B. E.S.E. Electronics", "Am 4. Juli , z.B. E.S.E. Electronics"),
        ("de", "Trikot mit der Nummer 10.", "Trikot mit der Nummer 10."),
        ("de", "Trikot mit der Nummer 100.", "Trikot mit der Nummer 100 ."),
        ("de", "Er isst einen Keks .", "Er isst einen Keks ."),
        ("fr", "L'eau n'est pas d'ici.", "L' eau n' est pas d' ici ."),
        ("fr", "aujourd'hui, l'été", "aujourd' hui , l' été"),
        ("fr", "l'an '98", "l' an ' 98"),
        ("en", "", ""),
        ("de", " . ", "."),
    ],
)
def test_tokens(language, text, tokens):
    assert " ".join(tokenize(text, language)) == tokens


@pytest.mark.parametrize(
    ("language", "text", "normal"),
    [
        ("en", "“Yes,” she said — ‘no’…", "\"Yes,\" she said - 'no'..."),
        ("en", "it’s a “quote”, here", 'it\'s a "quote," here'),
        ("de", "„Nein,“ sagte er – „nie.“", '"Nein", sagte er - "nie".'),
        ("fr", f"«{NBSP}Oui{NBSP}»{NBSP}!", '"Oui" !'),
        ("fr", f"Quoi{NBSP}? 50{NBSP}% de 3{NBSP}cm", "Quoi? 50% de 3 cm"),
        ("de", f"10{NBSP}000", "10,000"),
        ("en", f"10{NBSP}000", "10.000"),
        ("en", "a( b )c : d ; 5 % (e) .", "a (b) c: d; 5% (e)."),
        ("en", "''a'' `b`", " \" a \" 'b'"),
    ],
)
def test_normal_punctuation(language, text, normal):
    assert normalize_punctuation(text, language) == normal


@given(st.text(max_size=60), st.sampled_from(["en", "de", "fr"]))
@settings(max_examples=150, deadline=None)
def test_tokens_keep_the_letters_and_hold_no_space(text, language):
    tokens = tokenize(text, language)
    assert all(token and not any(c.isspace() for c in token) for token in tokens)
    kept = [c for c in text if not c.isspace() and ord(c) > 31]
    assert "".join(tokens) == "".join(kept)
    normalize_punctuation(text, language)


def test_moses_bleu_ignores_case_and_quotes_and_says_so():
    references = ["Ein Mann hält „etwas“ – fest.", "Sie geht, und er bleibt hier."]
    hypotheses = ['ein MANN hält "etwas" - fest.', "Sie geht , und er bleibt hier ."]
    metric = moses_bleu(hypotheses, references, "de")
    assert metric.value == pytest.approx(100)
    assert metric.name == "BLEU (lowercased Moses tokens)"
    assert "moses-tokenizer-de" in metric.signature
    assert "tok:none" in metric.signature


def test_a_language_without_rules_is_refused():
    with pytest.raises(InputError, match=r"no Moses rules for language 'ja'; known: en, de, fr"):
        tokenize("x", "ja")
    with pytest.raises(InputError, match="2 hypotheses but 1 references"):
        moses_bleu(["a", "b"], ["a"], "en")


@pytest.mark.data
def test_multi30k_has_the_reference_length_of_the_literature(data_file):
    path = data_file("multi30k/test_2016_flickr.de.gz")
    with gzip.open(path, "rt", encoding="utf-8", newline="\n") as lines:
        lengths = [
            len(tokenize(normalize_punctuation(line.rstrip("\n").lower(), "de"), "de"))
            for line in lines
        ]
    assert len(lengths) == 1000
    assert sum(lengths) == 12_103
