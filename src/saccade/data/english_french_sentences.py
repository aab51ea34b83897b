"""Sentences of the English-French corpus: every family draws a shape, and a shape builds itself."""

from collections.abc import Callable
from typing import NamedTuple

from saccade.data import english_french_phrases as phrases
from saccade.data import english_french_words as words
from saccade.data.english_french_clauses import (
    POLARITY,
    THIRD,
    ClauseShape,
    clause,
    draw_clause,
    draw_subject,
    new_group,
    relative,
)
from saccade.data.english_french_phrases import NOUN_PHRASES, Setting
from saccade.data.english_french_verbs import (
    BE,
    VERBS,
    Verb,
    english_chain,
    english_words,
    french_chain,
    french_words,
)
from saccade.data.grammar import Agreement, Derivation, Phrase, join, weighted

LINKS = {"and": "et", "but": "mais", "because": "parce que", "when": "quand"}
LINK_NAMES = tuple(LINKS)
LINKS_BEFORE_FUTURE = LINK_NAMES[:-1]  # "quand" takes the future, "when" does not
LENGTHS = weighted({"one clause": 6, "two clauses": 4, "three clauses": 2})
ENDINGS = weighted({".": 12, "bare": 1})  # bare: neither capital nor full stop
MOOD_ENDINGS = {"command": "!", "statement": "."}


def named(name: str, *features: str) -> str:
    """How a shape is written."""
    return f"{name}({' / '.join(filter(None, features))})"


class Clauses(NamedTuple):
    """One to three clauses."""

    clauses: tuple[ClauseShape, ...]
    links: tuple[str, ...]
    ending: str

    def __str__(self) -> str:
        first, *others = map(str, self.clauses)
        rest = [f"{link} {other}" for link, other in zip(self.links, others, strict=True)]
        return " ".join([first, *rest, self.ending])

    def build(self, d: Derivation) -> Phrase:
        said = clause(d, self.clauses[0])
        for link, following in zip(self.links, self.clauses[1:], strict=True):
            start = d.same(link, LINKS[link])
            if link == "but":
                start = join(d.same(",", ","), start)
            said = join(said, start, clause(d, following))
        return said


def draw_clauses(d: Derivation) -> Clauses:
    """Statements go on; what is asked or commanded stands alone."""
    clauses = [draw_clause(d)]
    links: list[str] = []
    ending = MOOD_ENDINGS.get(clauses[0].mood, "?")
    if ending == ".":
        ending = d.pick(ENDINGS)
        for _ in range(LENGTHS_IN_CLAUSES[d.pick(LENGTHS)] - 1):
            links.append(
                d.pick(LINKS_BEFORE_FUTURE if clauses[-1].tense == "future" else LINK_NAMES)
            )
            clauses.append(draw_clause(d, after=clauses[-1].tense))
    return Clauses(tuple(clauses), tuple(links), ending)


LENGTHS_IN_CLAUSES = {"one clause": 1, "two clauses": 2, "three clauses": 3}


class Report(NamedTuple):
    """Somebody says or thinks something."""

    subject: str
    clause: ClauseShape
    ending: str

    def __str__(self) -> str:
        return f"{named('report', self.subject)} that {self.clause} {self.ending}"

    def build(self, d: Derivation) -> Phrase:
        subject = draw_subject(d, self.subject, ("person",), negative=False).phrase
        said = verb_phrase(d, d.pick(VERBS["saying"]), "present", subject.agreement)
        return join(subject, said, d.same("that", "que"), clause(d, self.clause))


def draw_report(d: Derivation) -> Report:
    subject = d.pick(("name", "pronoun", "noun", "adjective", "two names"))
    return Report(subject, draw_clause(d, after="said"), d.pick(ENDINGS))


def verb_phrase(
    d: Derivation, verb: Verb, tense: str, subject: Agreement, *, negative: bool = False
) -> Phrase:
    """A verb with nothing around it but its negation."""
    group = new_group(d, tense, subject, negative=negative)
    source = english_words(english_chain(verb, group), group)[1]
    return Phrase(source, french_words(french_chain(verb, group, THIRD), group, [], []))


class Because(NamedTuple):
    """The pronoun that has to look at its noun: only the adjective says which one it stands for.

    "The animal did not cross the street because it was too tired" (il), "too wide" (elle).
    """

    tense: str
    negative: bool
    subject: str
    object: str
    degree: str
    ending: str

    def __str__(self) -> str:
        negative = "not" if self.negative else ""
        features = (self.tense, negative, self.subject, self.object, self.degree)
        return f"{named('because it', *features)} {self.ending}"

    def build(self, d: Derivation) -> Phrase:
        verb = d.pick(CAUSED)
        subject = draw_subject(d, self.subject, verb.subjects, negative=True)
        kind = d.pick(verb.objects)
        setting = Setting((kind,), phrases.DEFINITE, negated=self.negative)
        done = verb_phrase(d, verb, self.tense, subject.phrase.agreement, negative=self.negative)
        thing = NOUN_PHRASES[self.object](d, setting, self.object)
        fitting = {
            subject.kind: subject.phrase.agreement,
            kind: thing.agreement,
        }
        told = d.pick((subject.kind, kind))
        adjective = d.pick(DECISIVE[told, kind if told == subject.kind else subject.kind])
        reason = "past" if self.tense == "past" else "present"
        pronoun = standing_for(d, fitting[told], told)
        was = verb_phrase(d, BE, reason, fitting[told])
        so = phrases.predicate(d, adjective, fitting[told], self.degree)
        because = d.same("because", "parce que")
        return join(subject.phrase, done, thing, because, pronoun, was, so)


def draw_because(d: Derivation) -> Because:
    return Because(
        d.pick(("past", "past", "present", "future")),
        d.pick(POLARITY[1:]) == "not",
        d.pick(("noun", "noun", "adjective", "name", "and", "two names", "name's")),
        d.pick(("noun", "noun", "adjective", "name's")),
        d.pick(("too", "too", "very", "")),
        d.pick(ENDINGS),
    )


def standing_for(d: Derivation, agreement: Agreement, kind: str) -> Phrase:
    """It, he, she or they; il, elle, ils or elles, as the noun is."""
    french = "elle" if agreement.feminine else "il"
    if agreement.plural:
        return d.same("they", french + "s")
    if kind != "person":
        return d.same("it", french)
    return d.same("she" if agreement.feminine else "he", french)


CAUSED = tuple(
    verb
    for verb in VERBS["transitive"]
    if not {"person", "animal", "geography"} & set(verb.objects)
    for _ in verb.subjects * len(verb.subjects)  # what animals can do comes more often
)
DECISIVE = {  # adjectives that can describe the one but not the other
    (one, other): tuple(a for a in words.PREDICATIVE[one] if other not in a.kinds)
    for one in words.KINDS
    for other in words.KINDS
}


class Fragment(NamedTuple):
    """A noun phrase by itself, as in a headline or a list."""

    style: str
    ending: str = "bare"

    def __str__(self) -> str:
        return f"{named('fragment', self.style)} {self.ending}"

    def build(self, d: Derivation) -> Phrase:
        setting = Setting((d.pick(FRAGMENT_KINDS),), phrases.COUNTED)
        if self.style == "relative":
            return relative(d, setting)
        return NOUN_PHRASES[self.style](d, setting, self.style)


FRAGMENT_KINDS = tuple(kind for kind in words.KINDS if kind != "institution") + ("institution",) * 6
FRAGMENT_STYLES = weighted({"adjective": 2, "two adjectives": 3, "of": 1, "name's": 1, "and": 1})


def draw_fragment(d: Derivation) -> Fragment:
    return Fragment(d.pick(FRAGMENT_STYLES))


Shape = Clauses | Because | Report | Fragment
FAMILIES: dict[str, Callable[[Derivation], Shape]] = {
    "clauses": draw_clauses,
    "because it": draw_because,
    "report": draw_report,
    "fragment": draw_fragment,
}
FAMILY_NAMES = weighted({"clauses": 32, "because it": 6, "report": 3, "fragment": 3})


def draw_shape(d: Derivation) -> Shape:
    """The shape of a sentence."""
    return FAMILIES[d.pick(FAMILY_NAMES)](d)
