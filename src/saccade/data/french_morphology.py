"""French word forms: plurals, feminines, conjugation, elision and contraction.

The second person singular is left out: "you" is always "vous".
"""

from collections.abc import Sequence
from typing import NamedTuple

from saccade.data.grammar import Agreement, Word

VOWELS = frozenset("aeiouhâàéèêîôœAEIOUHÂÀÉÈÊÎÔŒ")  # every h of the lexicon is mute
ELIDED = {
    "le": "l'",
    "la": "l'",
    "de": "d'",
    "ne": "n'",
    "je": "j'",
    "que": "qu'",
    "me": "m'",
    "ce": "cet",
    "ma": "mon",
    "sa": "son",
}
CONTRACTED = {
    ("de", "le"): "du",
    ("de", "les"): "des",
    ("à", "le"): "au",
    ("à", "les"): "aux",
}

# je, il, nous, vous, ils of the present | stem of the future | participle.
# The imperfect follows from "nous".
IRREGULAR = """
aller: vais va allons allez vont | ir | allé
attendre: attends attend attendons attendez attendent | attendr | attendu
avoir: ai a avons avez ont | aur | eu
boire: bois boit buvons buvez boivent | boir | bu
connaître: connais connaît connaissons connaissez connaissent | connaîtr | connu
construire: construis construit construisons construisez construisent | construir | construit
courir: cours court courons courez courent | courr | couru
devoir: dois doit devons devez doivent | devr | dû
dire: dis dit disons dites disent | dir | dit
dormir: dors dort dormons dormez dorment | dormir | dormi
écrire: écris écrit écrivons écrivez écrivent | écrir | écrit
être: suis est sommes êtes sont | ser | été
naître: nais naît naissons naissez naissent | naîtr | né
ouvrir: ouvre ouvre ouvrons ouvrez ouvrent | ouvrir | ouvert
perdre: perds perd perdons perdez perdent | perdr | perdu
pouvoir: peux peut pouvons pouvez peuvent | pourr | pu
recevoir: reçois reçoit recevons recevez reçoivent | recevr | reçu
rire: ris rit rions riez rient | rir | ri
venir: viens vient venons venez viennent | viendr | venu
vendre: vends vend vendons vendez vendent | vendr | vendu
voir: vois voit voyons voyez voient | verr | vu
vouloir: veux veut voulons voulez veulent | voudr | voulu
acheter: achète achète achetons achetez achètent | achèter | acheté
envoyer: envoie envoie envoyons envoyez envoient | enverr | envoyé
"""
FUTURE_ENDINGS = ("ai", "a", "ons", "ez", "ont")
IMPERFECT_ENDINGS = ("ais", "ait", "ions", "iez", "aient")
SLOTS = {(1, False): 0, (3, False): 1, (1, True): 2, (2, False): 3, (2, True): 3, (3, True): 4}


class Conjugation(NamedTuple):
    """The forms of one verb; each tense in the order je, il, nous, vous, ils."""

    infinitive: str
    participle: str
    tenses: dict[str, tuple[str, ...]]

    def finite(self, tense: str, subject: Agreement) -> str:
        return self.tenses[tense][SLOTS[subject.person, subject.plural]]


def first_group(verb: str) -> tuple[list[str], str, str]:
    """Present, stem of the future and participle of a regular verb in -er."""
    stem = verb[:-2]
    we = stem + ("eons" if stem.endswith("g") else "ons")
    return [stem + "e", stem + "e", we, stem + "ez", stem + "ent"], verb, stem + "é"


def irregular_verbs() -> dict[str, tuple[list[str], str, str]]:
    """The table above, by infinitive."""
    verbs = {}
    for line in IRREGULAR.strip().splitlines():
        infinitive, forms = line.split(": ")
        present, future, participle = forms.split(" | ")
        verbs[infinitive] = (present.split(), future, participle)
    return verbs


IRREGULAR_VERBS = irregular_verbs()


def conjugate(infinitive: str) -> Conjugation:
    """All the forms of a verb."""
    present, future, participle = IRREGULAR_VERBS.get(infinitive) or first_group(infinitive)
    past = "ét" if infinitive == "être" else present[2].removesuffix("ons")
    soft = past[:-1] if past.endswith("ge") else past  # "mangeait" but "mangions"
    imperfect = [(soft if ending[0] == "i" else past) + ending for ending in IMPERFECT_ENDINGS]
    return Conjugation(
        infinitive,
        participle,
        {
            "present": tuple(present),
            "future": tuple(future + ending for ending in FUTURE_ENDINGS),
            "imperfect": tuple(imperfect),
        },
    )


def plural(word: str) -> str:
    """The plural of a noun or a masculine adjective."""
    if word[-1] in "sxz":
        return word
    if word.endswith("al"):
        return word[:-1] + "ux"
    return word + ("x" if word.endswith("eau") else "s")


def inflect(word: str, feminine: str, agreement: Agreement) -> str:
    """An adjective or a participle, given its masculine and feminine."""
    if agreement.feminine:
        return feminine + "s" if agreement.plural else feminine
    return plural(word) if agreement.plural else word


def participle(word: str, agreement: Agreement) -> str:
    """The participle as it agrees: "né", "nées"."""
    return inflect(word, word.replace("û", "u") + "e", agreement)


def begins_with_vowel(word: str) -> bool:
    """Whether "le" becomes "l'" before the word."""
    return word[0] in VOWELS or word == "y"


def finish(words: Sequence[Word]) -> list[Word]:
    """Elide and contract: "de" "le" "hôtel" is "de" "l'" "hôtel", "de" "le" "roi" is "du" "roi"."""
    finished: list[Word] = []
    following = ""
    for text, concepts in reversed(words):  # from the end: what follows is final
        if text in ELIDED and following and begins_with_vowel(following):
            text = ELIDED[text]  # noqa: PLW2901
        merged = CONTRACTED.get((text, following))
        if merged:
            finished[-1] = (merged, concepts | finished[-1][1])
            following = merged
        else:
            finished.append((text, concepts))
            following = text
    finished.reverse()
    return finished
