"""A small English-Spanish corpus by the same means as `english_french`, with the same `Pair`.

Where somebody comes from ("I am from Canada", "Yo soy de Canadá"; Spanish writes the accent that
lectures leave out), what they do, and what they can do for somebody ("Can you bring me a fork?",
"¿Me puedes traer un tenedor?").

The subject is said in Spanish too ("Yo soy"), except with "can", where I, you and we are in the
verb: "you" is linked to "puedes". "Can" and "do" are linked to the finite verb, "not" to "no".
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from saccade.data import english_morphology
from saccade.data.grammar import (
    Derivation,
    Pair,
    Phrase,
    Split,
    WishedDerivation,
    Word,
    capitalised,
    join,
    known_split,
    numbers,
    sample,
    spans,
    split_of,
    write,
)

__all__ = ["Pair", "lecture_pairs", "pairs", "spans"]

SIZES = {"train": 3_000, "dev": 200, "test": 200}
HELD_OUT_PERCENT = 8  # of the shapes, for dev and for test each


class Person(NamedTuple):
    """A subject: its words, its forms as one who is given something, and of "to be" and "can"."""

    english: str
    spanish: str
    given: tuple[str, str]
    be: tuple[str, str]
    can: str
    slot: int  # yo, tú, él, nosotros, ellos
    dropped: bool = True  # whether the verb alone says who it is

    def __str__(self) -> str:
        return self.english


class Entry(NamedTuple):
    """A noun, an adjective (by gender) or a place."""

    english: str
    spanish: tuple[str, str]
    feminine: bool = False

    def __str__(self) -> str:
        return self.english


class Action(NamedTuple):
    english: str
    past: str
    infinitive: str
    present: tuple[str, ...]
    preterite: tuple[str, ...]

    def __str__(self) -> str:
        return self.english


PEOPLE = (
    Person("I", "yo", ("me", "me"), ("am", "soy"), "puedo", 0),
    Person("you", "tú", ("you", "te"), ("are", "eres"), "puedes", 1),
    Person("he", "él", ("", ""), ("is", "es"), "puede", 2, dropped=False),
    Person("she", "ella", ("", ""), ("is", "es"), "puede", 2, dropped=False),
    Person("we", "nosotros", ("us", "nos"), ("are", "somos"), "podemos", 3),
    Person("they", "ellos", ("them", "les"), ("are", "son"), "pueden", 4, dropped=False),
)
NAMES = tuple(
    Person(name, name, ("", ""), ("is", "es"), "puede", 2, dropped=False)
    for name in ["Ana", "Carlos", "Elena", "Pablo", "Rosa", "Miguel", "Laura", "Diego"]
)
GIVEN = tuple(person for person in PEOPLE if person.given[0])
PLACES = tuple(
    Entry(*pair)
    for pair in (
        ("Canada", ("Canadá", "")),
        ("Spain", ("España", "")),
        ("Mexico", ("México", "")),
        ("France", ("Francia", "")),
        ("Italy", ("Italia", "")),
        ("Chile", ("Chile", "")),
        ("Cuba", ("Cuba", "")),
        ("Madrid", ("Madrid", "")),
        ("London", ("Londres", "")),
        ("Seville", ("Sevilla", "")),
    )
)
MASCULINE = "fork tenedor, glass vaso, plate plato, book libro, hat sombrero, pencil lápiz"
FEMININE = "spoon cuchara, cup taza, chair silla, letter carta, key llave, lamp lámpara"
QUALITIES = "new nuevo, clean limpio, expensive caro, small pequeño"
COLOURS = "red rojo, white blanco, black negro, green verde, blue azul"
ARTICLES = (Entry("a", ("un", "una")), Entry("the", ("el", "la")), Entry("this", ("este", "esta")))
ENDINGS = {  # by the last two letters of the infinitive: present, preterite
    "ar": ("o as a amos an", "é aste ó amos aron"),
    "er": ("o es e emos en", "í iste ió imos ieron"),
    "ir": ("o es e imos en", "í iste ió imos ieron"),
}


def regular(english: str, past: str, infinitive: str) -> Action:
    """A verb with all its forms."""
    present, preterite = (
        tuple(infinitive[:-2] + ending for ending in endings.split())
        for endings in ENDINGS[infinitive[-2:]]
    )
    return Action(english, past, infinitive, present, preterite)


ACTIONS = (
    regular("buy", "bought", "comprar"),
    regular("sell", "sold", "vender"),
    regular("send", "sent", "mandar"),
    regular("receive", "received", "recibir"),
    regular("need", "needed", "necesitar"),
    Action(
        "bring",
        "brought",
        "traer",
        ("traigo", "traes", "trae", "traemos", "traen"),
        ("traje", "trajiste", "trajo", "trajimos", "trajeron"),
    ),
)
# With "nosotros" the present and the past may look alike ("compramos"): it only speaks of now.
FAVOURS = tuple(action for action in ACTIONS if action.english in {"bring", "buy", "sell", "send"})


def read_nouns(table: str, *, feminine: bool) -> list[Entry]:
    entries = (entry.split() for entry in table.split(", "))
    return [Entry(english, (spanish, spanish), feminine) for english, spanish in entries]


def read_adjectives(table: str) -> tuple[Entry, ...]:
    entries = (entry.split() for entry in table.split(", "))
    return tuple(
        Entry(english, (spanish, spanish[:-1] + "a" if spanish[-1] == "o" else spanish))
        for english, spanish in entries
    )


ADJECTIVES = (read_adjectives(QUALITIES), read_adjectives(COLOURS))
NOUNS = tuple(read_nouns(MASCULINE, feminine=False) + read_nouns(FEMININE, feminine=True))


class Shape(NamedTuple):
    family: str
    subject: str
    negative: bool
    asking: bool
    object: str
    tense: str
    beneficiary: bool

    def __str__(self) -> str:
        negative = "not" if self.negative else ""
        mood = "question" if self.asking else "statement"
        given = "to somebody" if self.beneficiary else ""
        features = (self.subject, mood, self.tense, negative, self.object, given)
        return f"{self.family}({' / '.join(filter(None, features))})"


def draw_shape(d: Derivation) -> Shape:
    family = d.pick(("origin", "action", "action", "favour", "favour", "favour"))
    return Shape(
        family,
        d.pick(("pronoun", "pronoun", "name")),
        d.pick(("", "", "not")) == "not",
        family == "favour" and d.pick(("statement", "question")) == "question",
        "" if family == "origin" else d.pick(("noun", "adjective", "two adjectives", "and")),
        d.pick(("present", "past")) if family == "action" else "present",
        family == "favour" and d.pick(("to somebody", "to nobody")) == "to somebody",
    )


ADJECTIVES_OF_STYLE = {
    "noun": (),
    "adjective": (ADJECTIVES[0] + ADJECTIVES[1],),
    "two adjectives": ADJECTIVES,
}


def object_phrase(d: Derivation, style: str) -> Phrase:
    """One thing, or two."""
    if style != "and":
        return noun_phrase(d, style, NOUNS)
    first, second = noun_phrase(d, "noun", NOUNS[::2]), noun_phrase(d, "adjective", NOUNS[1::2])
    return join(first, d.same("and", "y"), second)


def noun_phrase(d: Derivation, style: str, nouns: tuple[Entry, ...]) -> Phrase:
    """A noun: "a new red cup", "una taza roja nueva"; what follows it mirrors English."""
    noun, article = d.pick(nouns), d.pick(ARTICLES)
    adjectives = []
    for options in ADJECTIVES_OF_STYLE[style]:
        adjective = d.pick(options)
        adjectives.append(d.same(adjective.english, adjective.spanish[noun.feminine]))
    start = d.same(article.english, article.spanish[noun.feminine])
    head = d.same(noun.english, noun.spanish[0])
    return Phrase(
        join(start, *adjectives, head).source, join(start, head, *reversed(adjectives)).target
    )


def origin(d: Derivation, shape: Shape, who: Person) -> Phrase:
    """Where somebody comes from."""
    subject, verb = d.same(who.english, who.spanish), d.same(*who.be)
    start = join(subject, with_no(d, verb, shape))
    place = d.pick(PLACES)
    return join(start, d.same("from", "de"), d.same(place.english, place.spanish[0]))


def with_no(d: Derivation, verb: Phrase, shape: Shape) -> Phrase:
    """The verb, or "not" after its first English word and "no" before it in Spanish."""
    if not shape.negative:
        return verb
    no = d.same("not", "no")
    source = [*verb.source[:1], *no.source, *verb.source[1:]]
    return Phrase(source, [*no.target, *verb.target])


def action(d: Derivation, shape: Shape, who: Person) -> Phrase:
    """What somebody does or did."""
    verb = d.pick(ACTIONS)
    third = who.slot == 2
    forms = verb.preterite if shape.tense == "past" else verb.present
    bit = d.concept()
    if shape.negative:
        support = {"past": "did", "present": "does" if third else "do"}[shape.tense]
        english = [(support, bit), (verb.english, bit)]
    elif shape.tense == "past":
        english = [(verb.past, bit)]
    else:
        english = [(english_morphology.with_s(verb.english) if third else verb.english, bit)]
    said = with_no(d, Phrase(english, [(forms[who.slot], bit)]), shape)
    return join(d.same(who.english, who.spanish), said, object_phrase(d, shape.object))


def favour(d: Derivation, shape: Shape, who: Person) -> Phrase:
    """What somebody can do for somebody: the pronoun climbs before the verb in Spanish."""
    can, subject = d.concept(), d.concept()
    verb = d.pick(FAVOURS)
    done = d.same(verb.english, verb.infinitive)
    others = [person for person in GIVEN if person.slot % 3 != who.slot % 3]
    given = d.same(*d.pick(others).given) if shape.beneficiary else Phrase([], [])
    no = d.same("not", "no") if shape.negative else Phrase([], [])
    finite: list[Word] = [(who.can, can | subject if who.dropped else can)]
    spoken: list[Word] = [] if who.dropped else [(who.spanish, subject)]
    said: list[Word] = [(who.english, subject)]
    if shape.asking:
        source = [("can", can), *said, *no.source]
    elif shape.negative:
        source = [*said, ("cannot", can | no.source[0][1])]
    else:
        source = [*said, ("can", can)]
    target = [*spoken, *no.target, *given.target, *finite, *done.target]
    start = Phrase([*source, *done.source, *given.source], target)
    return join(start, object_phrase(d, shape.object))


FAMILIES = {"origin": origin, "action": action, "favour": favour}


def finished(d: Derivation, shape: Shape) -> Pair:
    """The sentence of that shape."""
    people: Sequence[Person] = PEOPLE if shape.subject == "pronoun" else NAMES
    if shape.tense == "past":
        people = [person for person in people if person.english != "we"]
    phrase = FAMILIES[shape.family](d, shape, d.pick(people))
    english = english_morphology.finish(phrase.source)
    spanish = list(phrase.target)
    for side in (english, spanish):
        side[0] = (capitalised(side[0][0]), side[0][1])
    bit = d.concept()
    ending = "?" if shape.asking else "."
    opening = [("¿", bit)] if shape.asking else []
    return write([*english, (ending, bit)], [*opening, *spanish, (ending, bit)], str(shape))


LECTURE_CHOICES = (
    "origin / pronoun / I / Canada",
    "favour / question / to somebody / you / bring / I / fork / a",
)


def lecture_pairs() -> list[Pair]:
    """The sentences that lectures show, as the grammar derives them."""
    found = []
    for choices in LECTURE_CHOICES:
        d = WishedDerivation(*choices.split(" / "))
        found.append(finished(d, draw_shape(d)))
    return found


def pairs(split: Split) -> list[Pair]:
    """The pairs of a split, in a fixed order; those that lectures show come first in train."""
    return list(sampled(known_split(split)))


@lru_cache
def sampled(split: Split) -> tuple[Pair, ...]:
    """The same, made once in a process."""
    choices = numbers(f"English-Spanish {split}")
    taught = {pair.shape for pair in lecture_pairs()}

    def derive() -> Pair | None:
        d = Derivation(choices)
        shape = draw_shape(d)
        name = str(shape)
        home = "train" if name in taught else split_of(name, HELD_OUT_PERCENT)
        return finished(d, shape) if home == split else None

    return tuple(sample(derive, SIZES[split], lecture_pairs() if split == "train" else ()))
