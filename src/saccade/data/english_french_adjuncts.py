"""Where, when and with whom: the places, dates and company of the English-French corpus."""

from saccade.data import english_french_words as words
from saccade.data.english_french_phrases import (
    DEFINITE,
    MOSTLY_ONE,
    PREPOSITION_PRONOUNS,
    Setting,
    described,
    name_phrase,
    with_noun,
)
from saccade.data.english_french_words import Place
from saccade.data.grammar import Agreement, Derivation, Phrase, join

OWNED = (words.MY, words.YOUR, words.OUR)


def geography(d: Derivation) -> Phrase:
    """A place as an object: "Canada", "le Canada"; its French article goes with its name."""
    place = d.pick(words.PLACES)
    return place_words(d, place, f"{place.article} {place.french}")._replace(
        agreement=Agreement(3, place.article == "les", place.article == "la")
    )


def place_words(d: Derivation, place: Place, french: str) -> Phrase:
    """The name of a place on both sides, linked word with word where that can be."""
    *article, name = place.english.split(" ", 1) if place.article == "les" else [place.english]
    bit = d.concept()
    start = d.concept() if article else bit
    target = [(word, start) for word in french.split()[:-1]] + [
        (french.rsplit(maxsplit=1)[-1], bit)
    ]
    return Phrase(
        [(word, start) for word in article] + [(word, bit) for word in name.split()], target
    )


def at_place(d: Derivation, english: str) -> Phrase:
    """In, to or from a country or a city: "in Canada", "au Canada"; "from France", "de France"."""
    place = d.pick(words.PLACES)
    start = d.concept()
    if english == "from":
        article = "" if place.article == "la" else place.article
        there = place_words(d, place, f"{article} {place.french}")
        return Phrase([(english, start), *there.source], [("de", start), *there.target])
    if place.article == "la":
        there = place_words(d, place, place.french)
        return Phrase([(english, start), *there.source], [("en", start), *there.target])
    there = place_words(d, place, f"{place.article} {place.french}")
    return Phrase([(english, start), *there.source], [("à", start), *there.target])


def at_building(d: Derivation, preposition: str) -> Phrase:
    """In, behind, near ... a building."""
    french = PREPOSITIONS[preposition]
    determiners = DEFINITE if preposition in WHERE else (words.THE,)
    there = described(d, Setting(("building",), determiners, numbers=MOSTLY_ONE), "noun")
    return join(d.same(preposition, french), there)


PREPOSITIONS = {
    "in": "dans",
    "near": "près de",
    "in front of": "devant",
    "behind": "derrière",
    "to": "à",
    "at": "à",
    "from": "de",
}
WHERE = ("in", "near", "in front of", "behind")


def place_phrase(d: Derivation) -> Phrase:
    """Where something happens."""
    if d.pick(("geography", "building")) == "geography":
        return at_place(d, "in")
    return at_building(d, d.pick(WHERE))


def company(d: Derivation) -> Phrase:
    """With whom: "with me", "with Jane", "with my brother"."""
    start = d.same("with", "avec")
    who = d.pick(("pronoun", "name", "noun"))
    if who == "pronoun":
        return join(start, d.same(*d.pick(PREPOSITION_PRONOUNS).after_preposition))
    if who == "name":
        return join(start, name_phrase(d))
    setting = Setting(("person",), (words.THE, *OWNED))
    return join(start, with_noun(d, setting, "noun", d.pick(words.RELATED)))


def month(d: Derivation) -> Phrase:
    """In a month: "in September", "en septembre"."""
    name = d.pick(MONTH_NAMES)
    return join(d.same("in", "en"), d.same(name, words.MONTHS[name]))


def year(d: Derivation) -> Phrase:
    """In a year."""
    name = d.pick(words.YEARS)
    return join(d.same("in", "en"), d.same(name, name))


def month_and_year(d: Derivation) -> Phrase:
    """In a month of a year."""
    name = d.pick(words.YEARS)
    return join(month(d), d.same(name, name))


def date(d: Derivation) -> Phrase:
    """On a day of a month: "on March 3", "le 3 mars"; the first is "le 1er mars"."""
    on, name = d.concept(), d.pick(MONTH_NAMES)
    day, named, counted = d.pick(words.DAYS), d.concept(), d.concept()
    return Phrase(
        [("on", on), (name, named), (day, counted)],
        [("le", on), ("1er" if day == "1" else day, counted), (words.MONTHS[name], named)],
    )


def weekday(d: Derivation) -> Phrase:
    """On a day of the week: "on Monday", "lundi"."""
    name = d.pick(tuple(words.WEEKDAYS))
    return d.same(f"on {name}", words.WEEKDAYS[name])


MONTH_NAMES = tuple(words.MONTHS)
DATES = {
    "month": month,
    "year": year,
    "month and year": month_and_year,
    "date": date,
    "weekday": weekday,
}
MOMENTS = {
    "today": "aujourd'hui",
    "now": "maintenant",
    "yesterday": "hier",
    "tomorrow": "demain",
}
NEIGHBOURING = {  # the adjective follows in French
    "last week": "la semaine dernière",
    "last year": "la année dernière",
    "next week": "la semaine prochaine",
    "next year": "la année prochaine",
}
TIMES = {
    "present": ("month", "weekday", "today", "now"),
    "past": (
        *("month", "month and year", "year", "date", "date", "weekday"),
        *("yesterday", "last week", "last year"),
    ),
    "future": ("month", "date", "date", "weekday", "tomorrow", "next week", "next year"),
}


def time_phrase(d: Derivation, tense: str) -> Phrase:
    """When, as the tense allows."""
    name = d.pick(TIMES.get(tense, TIMES["past"]))
    if name in DATES:
        return DATES[name](d)
    if name in MOMENTS:
        return d.same(name, MOMENTS[name])
    which, unit = d.concept(), d.concept()
    (first, second), (article, noun, adjective) = name.split(), NEIGHBOURING[name].split()
    return Phrase(
        [(first, which), (second, unit)], [(article, unit), (noun, unit), (adjective, which)]
    )
