"""Noun phrases, prepositional phrases and dates of the English-French corpus, side by side."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from saccade.data import english_french_words as words
from saccade.data.english_french_words import Adjective, Determiner, Name, Noun
from saccade.data.french_morphology import begins_with_vowel, plural
from saccade.data.grammar import Agreement, Derivation, Phrase, Word, join, weighted


class Pronoun(NamedTuple):
    """A subject, its forms as an object and after a preposition, and what belongs to it."""

    subject: tuple[str, str]
    object: tuple[str, str]
    after_preposition: tuple[str, str]
    agreement: Agreement
    own: Determiner

    def __str__(self) -> str:
        return self.subject[0]


# Who speaks or is spoken to is masculine, and "you" is one person: the grammar must choose.
I = Pronoun(("I", "je"), ("me", "me"), ("me", "moi"), Agreement(1), words.MY)  # noqa: E741
YOU = Pronoun(("you", "vous"), ("you", "vous"), ("you", "vous"), Agreement(2), words.YOUR)
HE = Pronoun(("he", "il"), ("him", "le"), ("him", "lui"), Agreement(3), words.HIS)
SHE = Pronoun(
    ("she", "elle"), ("her", "la"), ("her", "elle"), Agreement(3, feminine=True), words.HER
)
WE = Pronoun(("we", "nous"), ("us", "nous"), ("us", "nous"), Agreement(1, plural=True), words.OUR)
THEY = Pronoun(
    ("they", "ils"), ("them", "les"), ("them", "eux"), Agreement(3, plural=True), words.THEIR
)
SUBJECT_PRONOUNS = (HE, SHE, I, YOU, WE, THEY)
# Within a sentence "they" may have an antecedent, and would be "elles" if that is feminine.
LATER_PRONOUNS = (HE, SHE, I, YOU, WE)
PREPOSITION_PRONOUNS = (I, YOU, HE, SHE, WE, THEY)
# Not "him" and "her": "l'" would hide which of them it is.
OBJECT_PRONOUNS = (I, YOU, WE, THEY)

COUNTED = weighted(
    {
        words.THE: 10,
        words.A: 7,
        words.THIS: 2,
        words.MANY: 1,
        words.SEVERAL: 1,
        words.TWO: 1,
        words.THREE: 1,
        words.FOUR: 1,
    }
)
DEFINITE = weighted({words.THE: 4, words.THIS: 1})
WHOLE = weighted({words.THE: 6, words.EVERY: 2, words.ALL: 2, words.A: 4})
ONLY_THE = (words.THE,)
NUMBERS = ("singular", "singular", "plural")
MOSTLY_ONE = weighted({"singular": 7, "plural": 1})
OWNERS = ("anybody", "anybody", "own")


def number(d: Derivation, determiner: Determiner, numbers: tuple[str, ...]) -> bool:
    """Whether it is plural: as the determiner says, where it does."""
    if "" in determiner.english:
        return determiner.english[0] == ""
    return d.pick(numbers) == "plural"


def determiner_words(
    d: Derivation, determiner: Determiner, agreement: Agreement, *, before_adjective: bool
) -> Phrase:
    """The determiner on both sides; "des" is "de" before an adjective ("de petites maisons")."""
    english, french = determiner_forms(determiner, agreement)
    if before_adjective and french == ("des",):
        french = ("de",)
    shared = d.concept()
    if len(english) == 1 or len(english) != len(french):
        return Phrase([(word, shared) for word in english], [(word, shared) for word in french])
    bits = [d.concept() for _ in english]
    return Phrase(list(zip(english, bits, strict=True)), list(zip(french, bits, strict=True)))


@cache
def determiner_forms(
    determiner: Determiner, agreement: Agreement
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The words of a determiner in both languages."""
    english = determiner.english[agreement.plural]
    return tuple(english.split()), tuple(determiner.agreeing(agreement).split())


def noun_phrase(
    d: Derivation,
    noun: Noun,
    determiner: Determiner,
    adjectives: Sequence[Adjective] = (),
    *,
    is_plural: bool = False,
) -> Phrase:
    """Determiner, noun and adjectives: "a small red house", "une petite maison rouge".

    What follows the noun in French mirrors the English order:
    "the European economic area", "la zone économique européenne".
    """
    agreement = Agreement(3, is_plural, noun.feminine)
    bit = d.concept()
    before: list[Word] = []
    after: list[Word] = [(noun.french[is_plural], bit)]
    english: list[Word] = []
    for adjective in adjectives:
        concept = d.concept()
        english.append((adjective.english, concept))
        if adjective.precedes:
            before.append((adjective.french(agreement), concept))
        else:
            after.insert(1, (adjective.french(agreement), concept))
    if before and not is_plural and not noun.feminine and begins_with_vowel(after[0][0]):
        before[-1] = (adjectives[len(before) - 1].before_vowel, before[-1][1])
    start = determiner_words(d, determiner, agreement, before_adjective=bool(before))
    return Phrase(
        [*start.source, *english, (noun.english[is_plural], bit)],
        [*start.target, *before, *after],
        agreement,
    )


def some_adjectives(d: Derivation, kind: str, style: str) -> list[Adjective]:
    """Adjectives for a noun of that kind: one, or two that stand around it or both behind it."""
    if style == "two adjectives":
        if words.BEFORE[kind] and words.AFTER[kind] and kind != "pact":
            return [d.pick(words.BEFORE[kind]), d.pick(words.AFTER[kind])]
        if kind in ("pact", "institution"):
            return [d.pick(words.NATION_ADJECTIVES), d.pick(words.FIELD_ADJECTIVES)]
    return [d.pick(words.BEFORE[kind] + words.AFTER[kind])]


class Setting(NamedTuple):
    """What a noun phrase depends on: the kinds of nouns, determiners, and the verb's negation."""

    kinds: tuple[str, ...]
    determiners: tuple[Determiner, ...]
    own: Determiner | None = None  # what belongs to the subject
    negated: bool = False  # "a" becomes "de" under "ne ... pas"
    numbers: tuple[str, ...] = NUMBERS


def described(d: Derivation, setting: Setting, style: str) -> Phrase:
    """A noun with its determiner and as many adjectives as the style says."""
    return with_noun(d, setting, style, d.pick(words.KINDS[d.pick(setting.kinds)]))


def with_noun(d: Derivation, setting: Setting, style: str, noun: Noun) -> Phrase:
    """The same for a given noun."""
    determiner = d.pick(setting.determiners)
    can_be_owned = noun.kind != "person" or noun in words.RELATED
    if setting.own and can_be_owned and determiner is words.THE and d.pick(OWNERS) == "own":
        determiner = setting.own
    uncounted = noun.kind in words.UNCOUNTED
    if uncounted and determiner not in (words.THE, words.THIS, setting.own):
        determiner = words.SOME
    if setting.negated:
        determiner = words.NEGATED.get(determiner, determiner)
    is_plural = not uncounted and number(d, determiner, setting.numbers)
    adjectives = [] if style == "noun" else some_adjectives(d, noun.kind, style)
    return noun_phrase(d, noun, determiner, adjectives, is_plural=is_plural)


def ownable(d: Derivation, setting: Setting) -> Noun:
    """A noun that can belong to somebody: not every person can."""
    kind = d.pick(setting.kinds)
    return d.pick(words.RELATED if kind == "person" else words.KINDS[kind])


def of_noun(d: Derivation, setting: Setting, style: str) -> Phrase:
    """A noun and what it belongs to, "la clé de la maison", or is about, "la loi sur l'union"."""
    setting = setting._replace(determiners=ONLY_THE, own=None)
    whole = with_noun(d, setting, "noun", ownable(d, setting))
    if setting.kinds[0] == "pact":
        style = d.pick(("noun", "adjective", "two adjectives"))
        about = described(d, Setting(("institution",), DEFINITE), style)
        return join(whole, d.same("on", "sur"), about)._replace(agreement=whole.agreement)
    owner = described(d, Setting(POSSESSORS.get(setting.kinds[0], ("person",)), DEFINITE), "noun")
    return join(whole, d.same("of", "de"), owner)._replace(agreement=whole.agreement)


POSSESSORS = {
    "opening": ("building",),
    "institution": ("institution",),
}


def name_and_noun(d: Derivation, setting: Setting, _style: str) -> Phrase:
    """What belongs to somebody: "Jane's book", "le livre de Jane"; 's is both "le" and "de"."""
    noun = ownable(d, setting)
    name = d.pick(words.NAMES)
    is_plural = noun.kind not in words.UNCOUNTED and d.pick(NUMBERS) == "plural"
    agreement = Agreement(3, is_plural, noun.feminine)
    owner, link, bit = d.concept(), d.concept(), d.concept()
    return Phrase(
        [(name.name, owner), ("'s", link), (noun.english[is_plural], bit)],
        [
            (words.THE.agreeing(agreement), link),
            (noun.french[is_plural], bit),
            ("de", link),
            (name.name, owner),
        ],
        agreement,
    )


def coordination(d: Derivation, setting: Setting, _style: str) -> Phrase:
    """Two noun phrases; feminine only if both are."""
    nouns = words.KINDS[d.pick(setting.kinds)]
    if setting.determiners is WHOLE:
        setting = setting._replace(determiners=COUNTED)
    first = with_noun(d, setting, "noun", d.pick(nouns[::2]))
    second = with_noun(d, setting, "noun", d.pick(nouns[1::2]))
    link = d.same("and", "et")
    feminine = first.agreement.feminine and second.agreement.feminine
    return join(first, link, second)._replace(agreement=Agreement(3, True, feminine))  # noqa: FBT003


NounPhrase = Callable[[Derivation, Setting, str], Phrase]
NOUN_PHRASES: dict[str, NounPhrase] = {
    "noun": described,
    "adjective": described,
    "two adjectives": described,
    "of": of_noun,
    "name's": name_and_noun,
    "and": coordination,
}


def name_phrase(d: Derivation, names: tuple[Name, ...] = words.NAMES) -> Phrase:
    """Somebody by name."""
    name = d.pick(names)
    return d.same(name.name, name.name)._replace(agreement=Agreement(3, feminine=name.feminine))


def two_names(d: Derivation) -> Phrase:
    """Two people by name."""
    first, second = name_phrase(d, words.NAMES[::2]), name_phrase(d, words.NAMES[1::2])
    feminine = first.agreement.feminine and second.agreement.feminine
    return join(first, d.same("and", "et"), second)._replace(
        agreement=Agreement(3, True, feminine)  # noqa: FBT003
    )


def people(d: Derivation) -> Phrase:
    """Those who are so: "the poor", "les pauvres"."""
    name = d.pick(words.PEOPLE)
    adjective = next(a for a in words.PREDICATIVE["person"] if a.english == name)
    article = d.same("the", "les")
    return join(article, d.same(name, plural(adjective.masculine)))._replace(
        agreement=Agreement(3, plural=True)
    )


def predicate(d: Derivation, adjective: Adjective, agreement: Agreement, degree: str) -> Phrase:
    """An adjective that agrees: "too wide", "trop large"."""
    said = d.same(adjective.english, adjective.french(agreement))
    return join(d.same(degree, DEGREES[degree]), said) if degree else said


DEGREES = {"too": "trop", "very": "très"}
