"""The verbs of the English-French corpus, and the verb group of each language.

The tenses correspond one to one for every verb, by its aspect:

============  =====================  ================================  ==========================
aspect        present                past                              in progress (in the past)
============  =====================  ================================  ==========================
event         visits / visite        visited / a visité, est allé
state         loves / aime           loved / aimait
activity      is singing / chante    sang / a chanté                   was singing / chantait
============  =====================  ================================  ==========================

and the future is "will visit" / "visitera". Three concepts make a verb group: the finite part (an
English auxiliary, the French finite verb, "est-ce que"), the lexical part (the English main verb,
the French verb or its participle) and the negation ("not"; "ne" and "pas"). One word may carry two:
"visitera" is both finite and lexical, so "will" and "visit" are linked to it.
"""

from typing import NamedTuple

from saccade.data.english_morphology import be, with_ed, with_ing, with_s
from saccade.data.french_morphology import Conjugation, conjugate, participle
from saccade.data.grammar import Agreement, Word


class Verb(NamedTuple):
    english: str
    past: str
    english_participle: str
    conjugation: Conjugation
    aspect: str
    subjects: tuple[str, ...]  # the kinds of nouns that do it
    objects: tuple[str, ...]  # and those it is done to

    def __str__(self) -> str:
        return self.english


class Group(NamedTuple):
    """How one verb group is said: its features and its three concepts."""

    tense: str
    subject: Agreement
    negative: bool
    asking: bool
    finite: int
    lexical: int
    negation: int


# english (past participle) | french | aspect | who does it | to what
VERBS_BY_FRAME = {
    "transitive": """
visit | visiter | event | person | building
cross | traverser | event | person animal | way
buy bought bought | acheter | event | person | document thing fruit food
sell sold sold | vendre | event | person | thing fruit food building
find found found | trouver | event | person | document thing animal
lose lost lost | perdre | event | person | document thing
open | ouvrir | event | person | opening building
close | fermer | event | person | opening building
send sent sent | envoyer | event | person | document thing
receive | recevoir | event | person | document thing
write wrote written | écrire | event | person | document
eat ate eaten | manger | event | person animal | fruit food
drink drank drunk | boire | event | person animal | drink
see saw seen | voir | event | person animal | person animal building
meet met met | rencontrer | event | person | person
build built built | construire | event | person | building
sign | signer | event | person | pact
help | aider | event | person | person
invite | inviter | event | person | person
""",
    "visit": "visit | visiter | event | person | geography",
    "attitude": """
love | aimer | state | person animal | person animal
know knew known | connaître | state | person | person way building geography
""",
    "possession": """
have had had | avoir | state | person | animal thing document
want | vouloir | state | person | thing document fruit food
""",
    "passive": """
sign | signer | event | pact |
sell sold sold | vendre | event | thing building |
find found found | trouver | event | thing document animal |
write wrote written | écrire | event | document |
build built built | construire | event | building |
close | fermer | event | building |
""",
    "activity": """
watch | regarder | activity | person animal |
sing sang sung | chanter | activity | person |
dance | danser | activity | person |
sleep slept slept | dormir | activity | person animal |
work | travailler | activity | person |
wait | attendre | activity | person animal |
run ran run | courir | activity | person animal |
cry | pleurer | activity | person |
laugh | rire | activity | person |
swim swam swum | nager | activity | person animal |
talk | parler | activity | person |
""",
    "motion": """
go went gone | aller | event | person | to
arrive | arriver | event | person | at
stay | rester | event | person | at
come came come | venir | event | person | from
""",
    "living": "live | habiter | state | person |",
    "birth": "bear bore born | naître | event | person |",
    "copula": "be was been | être | state | |",
    "existence": "be was been | avoir | state | |",
    "saying": """
say said said | dire | event | person |
think thought thought | penser | state | person |
""",
    "willing": """
want | vouloir | state | person |
love | aimer | state | person |
""",
    "modal": """
can could could | pouvoir | modal | person |
must must must | devoir | modal | person |
""",
}
COMPOUND_WITH_BE = frozenset(["aller", "arriver", "rester", "venir", "naître"])
FRENCH_TENSES = {
    ("event", "past"): "compound",
    ("activity", "past"): "compound",
    ("activity", "in progress"): "imperfect",
    ("state", "past"): "imperfect",
}
AVOIR = conjugate("avoir")
ETRE = conjugate("être")


def read_verbs(table: str) -> tuple[Verb, ...]:
    """The verbs of a table."""
    verbs = []
    for line in table.strip().splitlines():
        english, french, aspect, subjects, objects = (part.strip() for part in line.split("|"))
        base, *irregular = english.split()
        past, done = irregular or [with_ed(base)] * 2
        verb = Verb(
            base,
            past,
            done,
            conjugate(french),
            aspect,
            tuple(subjects.split()),
            tuple(objects.split()),
        )
        verbs.append(verb)
    return tuple(verbs)


VERBS = {frame: read_verbs(table) for frame, table in VERBS_BY_FRAME.items()}
BE = VERBS["copula"][0]


def english_chain(verb: Verb, group: Group) -> list[str]:
    """The auxiliaries, then the main verb: "visits", "will visit", "is singing", "did" "visit"."""
    tense, subject = group.tense, group.subject
    if verb.aspect == "modal":
        return [verb.english]
    if tense == "future":
        return ["will", verb.english]
    if verb.english == "be":
        return [be(tense, subject)]
    if verb.aspect == "activity" and tense != "past":
        return [be("past" if tense == "in progress" else tense, subject), with_ing(verb.english)]
    third = subject.person == 3 and not subject.plural
    if group.negative or group.asking:
        support = {"past": "did", "present": "does" if third else "do"}
        return [support[tense], verb.english]
    return [verb.past if tense == "past" else with_s(verb.english) if third else verb.english]


def passive_chain(verb: Verb, group: Group) -> list[str]:
    """The same of a passive: "was signed", "will be signed"; and of "was born"."""
    if group.tense == "future":
        return ["will", "be", verb.english_participle]
    return [be(group.tense, group.subject), verb.english_participle]


def english_words(chain: list[str], group: Group) -> tuple[list[Word], list[Word]]:
    """What stands before the subject in a question, and what stands after it."""
    words = [(text, group.finite) for text in chain[:-1]]
    words.append((chain[-1], group.lexical if words else group.finite | group.lexical))
    before = [words.pop(0)] if group.asking else []
    if group.negative and words and words[0][0] == "can":
        return before, [("cannot", words[0][1] | group.negation), *words[1:]]
    if group.negative:
        words.insert(0 if before else 1, ("not", group.negation))
    return before, words


def french_chain(verb: Verb, group: Group, agreeing: Agreement) -> list[str]:
    """The finite verb, then participles: "visite", "a" "visité"; `agreeing` is the participle's."""
    tense = FRENCH_TENSES.get((verb.aspect, group.tense), group.tense)
    if tense != "compound":
        return [verb.conjugation.finite(tense, group.subject)]
    auxiliary = ETRE if verb.conjugation.infinitive in COMPOUND_WITH_BE else AVOIR
    return [
        auxiliary.finite("present", group.subject),
        participle(verb.conjugation.participle, agreeing),
    ]


def french_passive_chain(verb: Verb, group: Group) -> list[str]:
    """The same of a passive: "a" "été" "signée", "sera" "signée"."""
    done = participle(verb.conjugation.participle, group.subject)
    if group.tense == "past":
        return [AVOIR.finite("present", group.subject), "été", done]
    return [ETRE.finite(group.tense, group.subject), done]


def french_words(
    chain: list[str], group: Group, clitic: list[Word], inverted: list[Word]
) -> list[Word]:
    """The verb with what clings to it: ne, an object pronoun, an inverted subject, pas."""
    words: list[Word] = [("ne", group.negation)] if group.negative else []
    words += clitic
    words.append((chain[0], group.finite if chain[1:] else group.finite | group.lexical))
    for pronoun, concept in inverted:
        linked = "-t-" if chain[0][-1] in "ae" and pronoun[0] in "ie" else "-"
        words.append((linked + pronoun, concept))
    if group.negative:
        words.append(("pas", group.negation))
    words += [(text, group.finite) for text in chain[1:-1]]
    if chain[1:]:
        words.append((chain[-1], group.lexical))
    return words
