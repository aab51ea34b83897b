"""Clauses of the English-French corpus: subject, verb group, what completes it, when and where."""

from typing import NamedTuple

from saccade.data import english_french_adjuncts as adjuncts
from saccade.data import english_french_phrases as phrases
from saccade.data import english_french_words as words
from saccade.data.english_french_phrases import NOUN_PHRASES, Pronoun, Setting
from saccade.data.english_french_verbs import (
    BE,
    VERBS,
    Group,
    Verb,
    english_chain,
    english_words,
    french_chain,
    french_passive_chain,
    french_words,
    passive_chain,
)
from saccade.data.english_french_words import Determiner
from saccade.data.grammar import Agreement, Derivation, Phrase, Word, join, weighted

THIRD = Agreement(3)
ASKING = frozenset({"question", "where", "when", "why", "what"})
WH = {"where": "où", "when": "quand", "why": "pourquoi", "what": "que"}
NO_WORDS = Phrase([], [])


class ClauseShape(NamedTuple):
    """The features that make the shape of a clause."""

    frame: str
    mood: str
    tense: str
    negative: bool
    subject: str
    object: str
    adjuncts: str

    def __str__(self) -> str:
        negative = "not" if self.negative else ""
        rest = (self.mood, self.tense, negative, self.subject, self.object, self.adjuncts)
        return f"{self.frame}({' / '.join(filter(None, rest))})"


class Subject(NamedTuple):
    phrase: Phrase
    kind: str  # of its noun; people by name are persons
    own: Determiner  # how to say that something belongs to it
    pronoun: Pronoun | None = None


class Frame(NamedTuple):
    """What a kind of clause can be combined with."""

    tenses: tuple[str, ...]
    moods: tuple[str, ...]
    subjects: tuple[str, ...]
    objects: tuple[str, ...]
    adjuncts: tuple[str, ...]


STATED = weighted({"statement": 5, "question": 2})
ASKED = weighted({"statement": 10, "question": 4, "when": 1, "why": 1, "who": 1})
ANYONE = weighted(
    {"name": 4, "pronoun": 8, "noun": 5, "adjective": 3, "of": 1, "name's": 1, "two names": 1}
    | {"and": 1, "relative": 1, "people": 1}
)
NOUNS_ONLY = weighted({"noun": 4, "adjective": 3, "of": 1, "name's": 1})
ANYTHING = weighted(
    {"noun": 6, "adjective": 4, "two adjectives": 3, "of": 1, "name's": 1, "and": 1, "relative": 2}
)
WHOLE_PLACES = weighted({"": 5, "place": 2, "time": 4, "place time": 1, "time first": 1})
WITH_COMPANY = weighted({"company": 2, "company place": 1, "company time": 1})
ONLY_TIMES = weighted({"": 3, "time": 3, "time first": 1})
BIRTHS = ("place", "time", "place time", "time first")
PLAIN = ("",)
ALL_TENSES = ("present", "past", "past", "future")

FRAMES = {
    "transitive": Frame(
        ALL_TENSES,
        (*ASKED, *ASKED, "where", "what", "what", "command", "command"),
        ANYONE,
        ANYTHING,
        WHOLE_PLACES,
    ),
    "visit": Frame(ALL_TENSES, (*ASKED, "command"), ANYONE, ("noun",), ONLY_TIMES),
    "pronoun object": Frame(ALL_TENSES, ASKED, ANYONE, PLAIN, WHOLE_PLACES),
    "attitude": Frame(("present", "past"), ASKED, ANYONE, ANYTHING, PLAIN),
    "possession": Frame(("present", "past"), ASKED, ANYONE, ANYTHING, PLAIN),
    "passive": Frame(("past", "past", "future"), STATED, NOUNS_ONLY, PLAIN, WHOLE_PLACES),
    "activity": Frame(
        ("present", "past", "in progress"),
        (*ASKED, "where", "where", "command"),
        ANYONE,
        PLAIN,
        WHOLE_PLACES + WITH_COMPANY,
    ),
    "motion": Frame(ALL_TENSES, (*ASKED, "command"), ANYONE, PLAIN, ONLY_TIMES + WITH_COMPANY[:2]),
    "living": Frame(("present", "past"), (*STATED, "who"), ANYONE, PLAIN, PLAIN),
    "birth": Frame(("past",), (*STATED, "who", "where", "when"), ANYONE, PLAIN, BIRTHS),
    "copula": Frame(("present", "past", "future"), STATED, ANYONE + NOUNS_ONLY, PLAIN, PLAIN),
    "existence": Frame(
        ("present", "past", "future"), STATED, ("there",), ("noun", "adjective"), ("place",)
    ),
    "willing": Frame(("present", "past"), ASKED, ANYONE, ANYTHING, WHOLE_PLACES),
    "willing activity": Frame(
        ("present", "past"), ASKED, ANYONE, PLAIN, WHOLE_PLACES + WITH_COMPANY
    ),
    "modal": Frame(("present",), (*STATED, "who"), ANYONE, ANYTHING, PLAIN),
}
COMMON_FRAMES = weighted(
    dict.fromkeys(FRAMES, 2) | {"transitive": 8, "copula": 4, "activity": 4, "motion": 3}
)
POLARITY = ("", "", "not")
COMPATIBLE = {  # tenses that may follow a clause in that tense
    "present": ("present",),
    "past": ("past", "in progress"),
    "in progress": ("past", "in progress"),
    "future": ("present", "future"),
    "said": ("present", "past", "in progress", "future"),
}
COPULA_KINDS = ("person", "animal", "way", "thing", "document", "building", "pact", "food")


def draw_clause(d: Derivation, after: str = "") -> ClauseShape:
    """A shape; `after` is the tense of the clause it goes with, as a statement."""
    name = d.pick(COMMON_FRAMES)
    frame = FRAMES[name]
    tenses = frame.tenses
    if after:
        tenses = tuple(tense for tense in tenses if tense in COMPATIBLE[after])
        if not tenses:
            return draw_clause(d, after)
    mood = "statement" if after else d.pick(frame.moods)
    negative = d.pick(POLARITY) == "not"
    subject = d.pick(frame.subjects)
    subject = {"who": "who", "command": "nobody"}.get(mood, subject)
    if after and subject == "pronoun":
        subject = "later pronoun"
    complement = "" if mood == "what" else d.pick(frame.objects)
    if negative and complement == "and":
        complement = "noun"  # "ni ... ni" is not in this grammar
    around = d.pick(frame.adjuncts)
    if (after or mood != "statement") and around == "time first":
        around = "time"
    around = " ".join(a for a in around.split() if a != ANSWERED.get(mood))
    tense = "present" if mood == "command" else d.pick(tenses)
    return ClauseShape(name, mood, tense, negative, subject, complement, around)


ANSWERED = {"where": "place", "when": "time"}  # a question does not answer itself


def owner_of(agreement: Agreement, kind: str) -> Determiner:
    """How to say that something belongs to them: his, her, its, their."""
    if agreement.plural:
        return words.THEIR
    if kind != "person":
        return words.ITS
    return words.HER if agreement.feminine else words.HIS


def draw_subject(d: Derivation, style: str, kinds: tuple[str, ...], *, negative: bool) -> Subject:
    """Who or what the clause is about."""
    if style in PRONOUNS:
        pronoun = d.pick(PRONOUNS[style])
        phrase = d.same(*pronoun.subject)._replace(agreement=pronoun.agreement)
        return Subject(phrase, "person", pronoun.own, pronoun)
    if style in SPECIAL_SUBJECTS:
        phrase = SPECIAL_SUBJECTS[style](d)
        return Subject(phrase, "person", owner_of(phrase.agreement, "person"))
    kind = d.pick(kinds)
    setting = Setting((kind,), phrases.DEFINITE if negative else phrases.WHOLE)
    phrase = relative(d, setting) if style == "relative" else NOUN_PHRASES[style](d, setting, style)
    return Subject(phrase, kind, owner_of(phrase.agreement, kind))


PRONOUNS = {"pronoun": phrases.SUBJECT_PRONOUNS, "later pronoun": phrases.LATER_PRONOUNS}


def who(d: Derivation) -> Phrase:
    """The subject that is asked for."""
    return d.same("who", "qui")


def nobody(_: Derivation) -> Phrase:
    """The subject of a command, which is not said."""
    return Phrase([], [], Agreement(2))


SPECIAL_SUBJECTS = {
    "name": phrases.name_phrase,
    "two names": phrases.two_names,
    "people": phrases.people,
    "who": who,
    "nobody": nobody,
}


def relative(d: Derivation, setting: Setting) -> Phrase:
    """A noun with a clause: "the letter that Jane wrote", "la lettre que Jane a écrite"."""
    setting = setting._replace(determiners=phrases.ONLY_THE, own=None)
    head = phrases.described(d, setting, "noun")
    kind = setting.kinds[0]
    if kind in ("person", "animal"):
        verb = d.pick(DOERS[kind])
        tense = d.pick(("present", "past", "in progress"))
        link = d.same("who" if kind == "person" else "that", "qui")
        group = new_group(d, tense, head.agreement)
        source = english_words(english_chain(verb, group), group)[1]
        target = french_words(french_chain(verb, group, THIRD), group, [], [])
    else:
        verb = d.pick(DONE_TO[kind])
        subject = draw_subject(d, d.pick(("name", "later pronoun")), (), negative=False)
        link = join(d.same("that", "que"), subject.phrase)
        group = new_group(d, "past", subject.phrase.agreement)
        source = english_words(english_chain(verb, group), group)[1]
        target = french_words(french_chain(verb, group, head.agreement), group, [], [])
    return join(head, link, Phrase(source, target))._replace(agreement=head.agreement)


DOERS = {
    kind: tuple(verb for verb in VERBS["activity"] if kind in verb.subjects)
    for kind in ("person", "animal")
}
DONE_TO = {
    kind: tuple(verb for verb in VERBS["transitive"] if kind in verb.objects)
    for kind in words.KINDS
}


def new_group(
    d: Derivation, tense: str, subject: Agreement, *, negative: bool = False, asking: bool = False
) -> Group:
    """A verb group with concepts of its own."""
    return Group(tense, subject, negative, asking, d.concept(), d.concept(), d.concept())


def draw_object(d: Derivation, verb: Verb, shape: ClauseShape, own: Determiner | None) -> Phrase:
    """What it is done to."""
    if not shape.object:
        return NO_WORDS
    kind = d.pick(verb.objects)
    if kind == "geography":
        if shape.object == "noun":
            return adjuncts.geography(d)
        kind = "building"
    determiners = phrases.DEFINITE if shape.frame == "attitude" else phrases.COUNTED
    setting = Setting((kind,), determiners, own, shape.negative)
    if shape.object == "relative":
        return relative(d, setting)
    return NOUN_PHRASES[shape.object](d, setting, shape.object)


def draw_adjuncts(d: Derivation, shape: ClauseShape) -> list[Phrase]:
    """With whom, where, when."""
    found = []
    for adjunct in shape.adjuncts.split():
        if adjunct == "company":
            found.append(adjuncts.company(d))
        elif adjunct == "place":
            found.append(adjuncts.place_phrase(d))
        elif adjunct == "time":
            found.append(adjuncts.time_phrase(d, shape.tense))
    return found


def clause(d: Derivation, shape: ClauseShape) -> Phrase:
    """A clause of that shape."""
    if shape.frame == "existence":
        return existence(d, shape)
    verb = d.pick(ASKED_WHAT if shape.mood == "what" else VERBS_OF_FRAME[shape.frame])
    kinds = COPULA_KINDS if verb is BE else verb.subjects
    subject = draw_subject(d, shape.subject, kinds, negative=shape.negative)
    clitic, complements, agreeing = draw_complements(d, shape, verb, subject)
    around = draw_adjuncts(d, shape)
    group = new_group(
        d,
        shape.tense,
        subject.phrase.agreement,
        negative=shape.negative,
        asking=shape.mood in ASKING,
    )
    passive = shape.frame == "passive"
    chain = passive_chain(verb, group) if passive or shape.frame == "birth" else None
    if shape.mood == "command":
        chain = ["do", verb.english] if shape.negative else [verb.english]
    before, after = english_words(chain or english_chain(verb, group), group)
    french = french_passive_chain(verb, group) if passive else french_chain(verb, group, agreeing)
    front, inverted, said = french_order(d, shape, subject, group)
    after.extend(clitic.source)
    verb_words = french_words(french, group, list(clitic.target), inverted)
    if shape.adjuncts == "time first":
        front = join(around.pop(), d.same(",", ","), front)
    middle = Phrase(
        [*front.source, *before, *subject.phrase.source, *after],
        [*front.target, *said, *verb_words],
    )
    return join(middle, *complements, *around)


def french_order(
    d: Derivation, shape: ClauseShape, subject: Subject, group: Group
) -> tuple[Phrase, list[Word], list[Word]]:
    """What opens the clause, the subject where it is inverted, and what stands before the verb.

    A question turns a pronoun around ("Voulez-vous"); nouns and "je" take "est-ce que".
    """
    front = d.same(shape.mood, WH[shape.mood]) if shape.mood in WH else NO_WORDS
    said = list(subject.phrase.target)
    if not group.asking:
        return front, [], said
    if subject.pronoun and subject.pronoun is not phrases.I:
        return front, said, []
    return front, [], [("est-ce", group.finite), ("que", group.finite), *said]


def draw_complements(
    d: Derivation, shape: ClauseShape, verb: Verb, subject: Subject
) -> tuple[Phrase, list[Phrase], Agreement]:
    """The object pronoun, what follows the verb, and what a participle agrees with."""
    own = subject.own if shape.subject not in ("who", "nobody") else None
    agreement = subject.phrase.agreement
    if shape.frame == "pronoun object":
        others = [p for p in phrases.OBJECT_PRONOUNS if 3 in (p.agreement.person, agreement.person)]
        pronoun = d.pick([p for p in others if p.agreement.person != agreement.person] or others)
        return d.same(*pronoun.object), [], pronoun.agreement
    if shape.frame == "motion":
        return NO_WORDS, [destination(d, verb.objects[0])], agreement
    if shape.frame == "living":
        return NO_WORDS, [adjuncts.at_place(d, "in")], agreement
    if verb is BE:
        said = {text for text, _ in subject.phrase.source}  # the poor are not said to be poor
        adjectives = [a for a in words.PREDICATIVE[subject.kind] if a.english not in said]
        degree = d.pick(("", "", "very", "too"))
        return NO_WORDS, [phrases.predicate(d, d.pick(adjectives), agreement, degree)], agreement
    if shape.frame in INFINITIVES:
        return NO_WORDS, infinitive(d, shape, verb, own), THIRD
    return (
        NO_WORDS,
        [draw_object(d, verb, shape, own)],
        THIRD if shape.frame != "birth" else agreement,
    )


def destination(d: Derivation, preposition: str) -> Phrase:
    """To, at or from: "to Paris", "at the station", "from Canada"."""
    if d.pick(("geography", "building")) == "geography":
        return adjuncts.at_place(d, "in" if preposition == "at" else preposition)
    return adjuncts.at_building(d, preposition)


def infinitive(
    d: Derivation, shape: ClauseShape, verb: Verb, own: Determiner | None
) -> list[Phrase]:
    """What one wants or is able to do: "to buy a car", "acheter une voiture"."""
    done = d.pick(INFINITIVES[shape.frame])
    start = d.same(done.english, done.conjugation.infinitive)
    if verb.aspect != "modal":
        bit = start.source[0][1]
        start = Phrase([("to", bit), *start.source], start.target)
    return [start, draw_object(d, done, shape, own)]


INFINITIVES = {
    "willing": VERBS["transitive"] + VERBS["visit"],
    "willing activity": VERBS["activity"],
    "modal": VERBS["transitive"] + VERBS["visit"],
}
ASKED_WHAT = tuple(verb for verb in VERBS["transitive"] if "person" not in verb.objects)
VERBS_OF_FRAME = VERBS | {
    "pronoun object": tuple(v for v in VERBS["transitive"] if "person" in v.objects),
    "willing activity": VERBS["willing"],
}


def existence(d: Derivation, shape: ClauseShape) -> Phrase:
    """That there is something: "there is a cat", "il y a un chat"."""
    kind = d.pick(("animal", "person", "thing"))
    setting = Setting((kind,), EXISTING, negated=shape.negative)
    thing = NOUN_PHRASES[shape.object](d, setting, shape.object)
    asking = shape.mood == "question"
    group = new_group(d, shape.tense, thing.agreement, negative=shape.negative, asking=asking)
    there = d.concept()
    before, after = english_words(english_chain(BE, group), group)
    verb = VERBS["existence"][0]
    chain = french_chain(verb, group._replace(subject=THIRD), THIRD)
    question = [("est-ce", group.finite), ("que", group.finite)] if asking else []
    verb_words = french_words(chain, group, [("y", there)], [])
    middle = Phrase([*before, ("there", there), *after], [*question, ("il", there), *verb_words])
    return join(middle, thing, *draw_adjuncts(d, shape))


EXISTING = weighted({words.A: 5, words.TWO: 1, words.THREE: 1, words.MANY: 2, words.SEVERAL: 1})
