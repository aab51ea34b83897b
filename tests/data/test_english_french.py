"""The built-in English-French corpus: sizes, splits, alignments, and French as it should be."""

import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain, pairwise

import jaxtyping
import pytest

from saccade.data import english_french, french_morphology
from saccade.data import english_french_words as words
from saccade.data.english_french import Pair, lecture_pairs, pairs, spans
from saccade.data.english_french_clauses import relative
from saccade.data.english_french_phrases import Setting, noun_phrase
from saccade.data.grammar import (
    SPLITS,
    Agreement,
    Derivation,
    WishedDerivation,
    detokenise,
    known_split,
)
from saccade.errors import InputError

ELISION = re.compile(
    r"\b(le|la|de|ne|je|que|me|ce|ma|sa) ([aeiouhâàéèêîôœAEIOUHÉÎ]|y\b)", re.IGNORECASE
)
CONTRACTION = re.compile(r"\b(de|à) (le|les) (?!\d)", re.IGNORECASE)


@contextmanager
def unchecked() -> Iterator[None]:
    """Without the check of annotations: a corpus takes millions of small calls."""
    jaxtyping.config.update("jaxtyping_disable", True)  # noqa: FBT003
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", False)  # noqa: FBT003


@pytest.fixture(scope="module")
def corpus() -> dict[str, list[Pair]]:
    """A smaller training set than the real one, which `test_full_size` looks at."""
    with pytest.MonkeyPatch.context() as patch, unchecked():
        patch.setitem(english_french.SIZES, "train", 8000)
        english_french.sampled.cache_clear()
        found = {split: pairs(split) for split in SPLITS}
    english_french.sampled.cache_clear()
    return found


FULL_SIZE = """
from saccade.data import english_french as c
train, dev, test = map(c.pairs, ("train", "dev", "test"))
assert [len(train), len(dev), len(test)] == [40_000, 1_000, 1_000]
assert c.vocabulary(dev + test) <= c.vocabulary(train)
shapes = [{pair.shape for pair in split} for split in (train, dev, test)]
assert sum(map(len, shapes)) == len(set().union(*shapes))
assert len({pair.source for pair in train + dev + test}) == 42_000
assert len({pair.target for pair in train + dev + test}) == 42_000
lengths = [len(pair.source_words) for pair in train]
assert all(lengths.count(length) > 100 for length in range(3, 30))
for side in ("source_words", "target_words"):
    assert 500 < len({word.lower() for pair in train for word in getattr(pair, side)}) < 1200
"""


def run(code: str, hash_seed: str = "0") -> str:
    """What the code prints in a process of its own, where annotations are not checked."""
    environment = {"PYTHONHASHSEED": hash_seed, "PYTHONIOENCODING": "utf-8"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_full_size() -> None:
    run(FULL_SIZE)


def test_annotations_are_true() -> None:
    derived(100)


@pytest.fixture(scope="module")
def every(corpus: dict[str, list[Pair]]) -> list[Pair]:
    return list(chain.from_iterable(corpus.values()))


def derived(count: int) -> list[Pair]:
    choices = english_french.numbers("a test")
    found = []
    for _ in range(count):
        d = Derivation(choices)
        shape = english_french.draw_shape(d)
        found.append(english_french.finished(d, shape, str(shape)))
    return found


def links(pair: Pair) -> set[tuple[str, str]]:
    return {(pair.source_words[i], pair.target_words[j]) for i, j in pair.alignment}


def find(source: str) -> Pair:
    return next(pair for pair in lecture_pairs() if pair.source == source)


def test_a_sentence_means_one_thing(every: list[Pair]) -> None:
    assert len({pair.source for pair in every}) == len(every)
    assert len({pair.target for pair in every}) == len(every)


def test_the_grammar_is_not_ambiguous() -> None:
    """Without the sampler's guard: no English with two French sentences, nor the reverse."""
    forward: dict[str, str] = {}
    backward: dict[str, str] = {}
    with unchecked():
        found = derived(5000)
    for pair in found:
        assert forward.setdefault(pair.source, pair.target) == pair.target
        assert backward.setdefault(pair.target, pair.source) == pair.source


def test_the_same_in_every_process() -> None:
    code = (
        "from saccade.data import english_french as c;"
        "c.SIZES['train'] = 300; print('\\n'.join(map(repr, c.pairs('train'))))"
    )
    first = run(code, "1")
    assert first == run(code, "2")
    with pytest.MonkeyPatch.context() as patch, unchecked():
        patch.setitem(english_french.SIZES, "train", 300)
        english_french.sampled.cache_clear()
        assert first.splitlines() == [repr(pair) for pair in pairs("train")]
    english_french.sampled.cache_clear()


def test_unknown_split() -> None:
    with pytest.raises(InputError, match="did you mean 'train'"):
        known_split("trian")


def test_words_and_text_agree(every: list[Pair]) -> None:
    for pair in every:
        for text, parts in ((pair.source, pair.source_words), (pair.target, pair.target_words)):
            assert detokenise(parts) == text
    for pair in every[::20]:
        for text, parts in ((pair.source, pair.source_words), (pair.target, pair.target_words)):
            found = spans(text, parts)
            assert [text[start:end] for start, end in found] == list(parts)
            assert all(a[1] <= b[0] for a, b in pairwise(found))


def test_spans_refuse_other_words() -> None:
    assert spans("l'Afrique.", ["l'", "Afrique", "."]) == [(0, 2), (2, 9), (9, 10)]
    with pytest.raises(InputError, match="'Asie' does not come next"):
        spans("l'Afrique.", ["l'", "Asie", "."])
    with pytest.raises(InputError, match="'Afrique' does not come next"):
        spans("l'Afrique.", ["Afrique", "."])


def test_every_word_is_aligned(every: list[Pair]) -> None:
    for pair in every:
        assert list(pair.alignment) == sorted(set(pair.alignment))
        assert {i for i, _ in pair.alignment} == set(range(len(pair.source_words))), pair
        assert {j for _, j in pair.alignment} == set(range(len(pair.target_words))), pair


def test_nouns_are_aligned_with_their_translation(every: list[Pair]) -> None:
    french = {n.english[k]: n.french[k] for n in words.NOUNS for k in (0, 1)}
    for pair in every[::10]:
        translated = links(pair)
        for word in pair.source_words:
            if word in french:
                assert (word, french[word]) in translated, pair


@pytest.mark.parametrize(
    "french",
    [
        "Jane visite l'Afrique en septembre",
        "Ils regardent .",
        "Voulez-vous chanter avec moi?",
        "les pauvres sont démunis",
        "la zone économique européenne",
        "L'accord sur la zone économique européenne a été signé en août 1992.",
    ],
)
def test_lecture_sentences(french: str, corpus: dict[str, list[Pair]]) -> None:
    wanted = french.replace(" .", ".")
    assert wanted in {pair.target for pair in lecture_pairs()}
    assert wanted in {pair.target for pair in corpus["train"]}


def test_adjectives_behind_the_noun_cross() -> None:
    pair = find("the European economic area")
    assert pair.target_words == ("la", "zone", "économique", "européenne")
    assert pair.alignment == ((0, 0), (1, 3), (2, 2), (3, 1))


def test_it_looks_at_its_noun() -> None:
    tired = find("The animal did not cross the street because it was too tired.")
    wide = find("The animal did not cross the street because it was too wide.")
    assert tired.target == "L'animal n'a pas traversé la rue parce qu'il était trop fatigué."
    assert wide.target == "L'animal n'a pas traversé la rue parce qu'elle était trop large."
    assert ("it", "il") in links(tired)
    assert ("it", "elle") in links(wide)
    assert {("did", "a"), ("not", "n'"), ("not", "pas"), ("cross", "traversé")} <= links(wide)


def test_it_is_il_as_often_as_elle(every: list[Pair]) -> None:
    pronouns = Counter(
        french for pair in every for english, french in links(pair) if english == "it"
    )
    assert set(pronouns) == {"il", "elle"}
    assert min(pronouns.values()) > 150


def test_elision_and_contraction(every: list[Pair]) -> None:
    for pair in every:
        assert not ELISION.search(pair.target), pair.target
        assert not CONTRACTION.search(pair.target), pair.target


def test_elided_words_stand_before_vowels(every: list[Pair]) -> None:
    elided = {"l'", "d'", "n'", "j'", "qu'", "m'", "cet"}
    for pair in every:
        for word, following in zip(pair.target_words, pair.target_words[1:], strict=False):
            if word.lower() in elided:
                assert following[0].lower() in "aeiouhyâàéèêîôœ", pair.target


def test_determiners_agree_with_nouns(every: list[Pair]) -> None:
    masculine = {"le", "un", "du", "au", "ce", "cet"}
    feminine = {"la", "une", "cette", "ma", "sa"}
    gender = {n.french[0]: n.feminine for n in words.NOUNS}
    singular, many = set(gender), {n.french[1] for n in words.NOUNS}
    plural_only = {"les", "des", "aux", "ces", "mes", "ses", "vos", "nos", "leurs", "plusieurs"}
    seen = Counter[str]()
    for pair in every:
        for word, noun in zip(pair.target_words, pair.target_words[1:], strict=False):
            determiner = word.lower()
            if determiner in masculine | feminine and noun in singular:
                assert gender[noun] == (determiner in feminine), pair.target
                seen[determiner] += 1
            if determiner in plural_only and noun in singular | many:
                assert noun in many, pair.target
                seen[determiner] += 1
    assert set(seen) == masculine | feminine | plural_only


@pytest.mark.parametrize("noun", words.NOUNS, ids=str)
def test_adjectives_agree_with_every_noun(noun: words.Noun) -> None:
    for adjective in (*words.BEFORE[noun.kind], *words.AFTER[noun.kind]):
        for is_plural in (False, True):
            phrase = noun_phrase(
                WishedDerivation(), noun, words.THE, [adjective], is_plural=is_plural
            )
            said = [word for word, _ in phrase.target]
            form = adjective.french(Agreement(3, is_plural, noun.feminine))
            vowel = french_morphology.begins_with_vowel(noun.french[0])
            if adjective.precedes and vowel and not is_plural and not noun.feminine:
                form = adjective.before_vowel
            order = [form, noun.french[is_plural]]
            assert said[1:] == (order if adjective.precedes else order[::-1])


def test_participle_agrees_with_what_stands_before() -> None:
    choices = WishedDerivation("letter", "write", "name", "Paul")
    phrase = relative(choices, Setting(("document",), (words.THE,), numbers=("plural",)))
    assert " ".join(word for word, _ in phrase.target) == "les lettres que Paul a écrites"


def test_participle_agrees_with_the_subject(every: list[Pair]) -> None:
    names = {name.name: name.feminine for name in words.NAMES}
    found = Counter[bool]()
    going = re.compile(
        r"(?:^|, |\bque |qu')(\w+) (?:est|n'est pas) (?:allé|né|venu|arrivé|resté)(e?)\b"
    )
    for pair in every:
        for name, ending in going.findall(pair.target):
            if name in names:
                assert names[name] == (ending == "e"), pair.target
                found[names[name]] += 1
    assert min(found[True], found[False]) > 5


def test_a_and_an(every: list[Pair]) -> None:
    for pair in every:
        for word, following in zip(pair.source_words, pair.source_words[1:], strict=False):
            vowel = following[0] in "aeiouAEIOU" and not following.startswith(("Eu", "uni"))
            if word.lower() in ("a", "an"):
                assert (word.lower() == "an") == vowel, pair.source


def test_negation_surrounds_the_verb(every: list[Pair]) -> None:
    for pair in every:
        french = [word.lower() for word in pair.target_words]
        starts = [i for i, word in enumerate(french) if word in ("ne", "n'")]
        ends = [i for i, word in enumerate(french) if word == "pas"]
        assert len(starts) == len(ends), pair.target
        assert all(2 <= end - start <= 4 for start, end in zip(starts, ends, strict=True)), pair


def test_no_indefinite_article_under_negation(every: list[Pair]) -> None:
    for pair in every:
        assert not re.search(r"\bpas (un|une) ", pair.target), pair.target
        if re.search(r"\bpas (du|des) ", pair.target):
            assert "from " in pair.source, pair.target
        assert not re.search(
            r"\bdes (petit|grand|vieux|vieille|beau|belle|nouv|bon|jeune)e?l?l?e?s ", pair.target
        ), pair.target


@pytest.mark.parametrize(
    ("infinitive", "forms"),
    [
        ("manger", "mange mangeons mangez mangera mangeait mangions mangé"),
        ("être", "suis est sommes sont sera était étions été"),
        ("avoir", "ai a avons ont aura avait eu"),
        ("aller", "vais va allons vont ira allait allé"),
        ("voir", "voit voyons voient verra voyait vu"),
        ("acheter", "achète achetons achèterons achetait acheté"),
        ("envoyer", "envoie envoyons enverra envoyait envoyé"),
        ("écrire", "écrit écrivons écrira écrivait écrit"),
    ],
)
def test_conjugation(infinitive: str, forms: str) -> None:
    verb = french_morphology.conjugate(infinitive)
    known = {*chain.from_iterable(verb.tenses.values()), verb.participle}
    assert set(forms.split()) <= known


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("de le roi", "du roi"),
        ("de le hôtel", "de l' hôtel"),
        ("à les États-Unis", "aux États-Unis"),
        ("je ne ai pas", "je n' ai pas"),
        ("parce que elle", "parce qu' elle"),
        ("il ne y a pas de eau", "il n' y a pas d' eau"),
        ("ma amie", "mon amie"),
        ("le 1er mars", "le 1er mars"),
    ],
)
def test_words_meet(before: str, after: str) -> None:
    finished = french_morphology.finish([(word, 1 << i) for i, word in enumerate(before.split())])
    assert " ".join(word for word, _ in finished) == after
    joined = 0
    for _, concepts in finished:
        joined |= concepts
    assert joined == (1 << len(before.split())) - 1


def test_countries_cities_and_dates(every: list[Pair]) -> None:
    text = "\n".join(f"{pair.source}\t{pair.target}" for pair in every)
    for english, french in (
        ("in France", "en France"),
        ("in Canada", "au Canada"),
        ("in the United States", "aux États-Unis"),
        ("in Paris", "à Paris"),
        ("from Italy", "d'Italie"),
        ("from Japan", "du Japon"),
        (r"on March \d+", r"le \d+ mars"),
        (r"on \w+ 1", r"le 1er \w+"),
    ):
        assert re.search(rf"{english}\b[^\t\n]*\t[^\n]*{french}\b", text), english
