"""The words of the English-French corpus: nouns, adjectives, names, places, determiners.

Words are chosen so that each has one counterpart in both directions, and so that its number can be
seen: no "sheep" (singular or plural?), no "souris".
"""

from typing import NamedTuple

from saccade.data import english_morphology, french_morphology
from saccade.data.grammar import Agreement


class Noun(NamedTuple):
    english: tuple[str, str]  # singular, plural
    french: tuple[str, str]
    feminine: bool
    kind: str

    def __str__(self) -> str:
        return self.english[0]


class Adjective(NamedTuple):
    english: str
    masculine: str
    feminine: str
    before_vowel: str  # the masculine before a noun that starts with a vowel: "bel"
    precedes: bool  # stands before its noun in French
    kinds: frozenset[str]  # of the nouns it can describe

    def __str__(self) -> str:
        return self.english

    def french(self, agreement: Agreement) -> str:
        return french_morphology.inflect(self.masculine, self.feminine, agreement)


class Place(NamedTuple):
    """A country, a continent or a city; `article` is what French calls it with."""

    english: str
    french: str
    article: str

    def __str__(self) -> str:
        return self.english


class Name(NamedTuple):
    name: str
    feminine: bool

    def __str__(self) -> str:
        return self.name


class Determiner(NamedTuple):
    english: tuple[str, str]  # singular, plural; "" where it has none
    french: tuple[str, str, str]  # masculine, feminine, plural
    feminine_plural: str = ""  # where it differs

    def __str__(self) -> str:
        return self.english[0] or self.english[1]

    def agreeing(self, agreement: Agreement) -> str:
        if agreement.plural:
            return (agreement.feminine and self.feminine_plural) or self.french[2]
        return self.french[agreement.feminine]


# kind: masculine nouns / feminine nouns, each "english french"; irregular plurals after a slash.
NOUNS_BY_KIND = """
person: man/men homme, child/children enfant, boy garçon, teacher professeur, doctor médecin, \
student étudiant, friend ami, writer écrivain, king roi, father père, brother frère, uncle oncle, \
soldier soldat, farmer fermier, neighbour voisin \
| woman/women femme, girl fille, mother mère, sister sœur, nurse infirmière, queen reine, \
aunt tante, actress actrice
animal: animal animal, cat chat, dog chien, horse cheval, bird oiseau, elephant éléphant, \
wolf/wolves loup | cow vache, goat chèvre, hen poule, ant fourmi, tortoise tortue
way: bridge pont, path chemin, field champ, boulevard boulevard \
| street rue, road route, river rivière, forest forêt, valley vallée
document: book livre, newspaper journal, article article, poem poème, novel roman, message message \
| letter lettre, story histoire
thing: bag sac, hat chapeau, coat manteau, knife/knives couteau, computer ordinateur, gift cadeau, \
umbrella parapluie, bicycle vélo \
| car voiture, table table, chair chaise, key clé, box boîte, lamp lampe, dress robe, \
shirt chemise, bottle bouteille, plate assiette
opening: gate portail | door porte, window fenêtre
food: bread pain, cheese fromage, rice riz, chocolate chocolat, butter beurre \
| meat viande, soup soupe, salad salade, jam confiture
drink: milk lait, coffee café, tea thé, wine vin | water eau, beer bière
fruit: egg œuf, cake gâteau, melon melon | apple pomme, pear poire, orange orange
building: hotel hôtel, museum musée, market marché, garden jardin, restaurant restaurant, \
castle château, park parc, hospital hôpital, village village \
| house maison, school école, station gare, church église, library bibliothèque, factory usine, \
kitchen cuisine
pact: agreement accord, treaty traité, contract contrat, project projet | law loi, reform réforme
institution: council conseil, system système, problem problème \
| area zone, crisis/crises crise, union union, culture culture
"""
RELATIONS = [
    "friend",
    "brother",
    "neighbour",
    "student",
    "teacher",
    "doctor",
    "uncle",
    "sister",
    "aunt",
    "nurse",
]

# kinds of nouns: adjectives, each "english masculine/feminine/before a vowel".
BEFORE_NOUN = """
person animal thing opening building way: small petit/petite, big grand/grande
person animal thing document building: old vieux/vieille/vieil, beautiful beau/belle/bel
thing document pact opening building: new nouveau/nouvelle/nouvel
document food drink fruit: good bon/bonne, bad mauvais/mauvaise
person animal: young jeune
way document: long long/longue
"""
AFTER_NOUN = """
person animal: tired fatigué/fatiguée, sick malade, hungry affamé/affamée, strong fort/forte, \
frightened effrayé/effrayée, curious curieux/curieuse, lazy paresseux/paresseuse
person: happy heureux/heureuse, sad triste, famous célèbre, rich riche, poor pauvre, \
destitute démuni/démunie
way: wide large, narrow étroit/étroite, dangerous dangereux/dangereuse
thing: heavy lourd/lourde, broken cassé/cassée
thing opening: red rouge, blue bleu/bleue, green vert/verte, white blanc/blanche, black noir/noire
thing opening: dirty sale
thing document food fruit drink building: expensive cher/chère
food drink: cold froid/froide, hot chaud/chaude
document: boring ennuyeux/ennuyeuse, interesting intéressant/intéressante
building: quiet calme, empty vide, noisy bruyant/bruyante
pact institution: important important/importante, difficult difficile
"""
NATIONS = """
pact institution document: European européen/européenne, French français/française, \
American américain/américaine, German allemand/allemande, African africain/africaine, \
Canadian canadien/canadienne
"""
FIELDS = """
pact institution: economic économique, political politique, social social/sociale, \
cultural culturel/culturelle, military militaire, national national/nationale
"""
PEOPLE = ("poor", "rich", "young", "sick")  # "the poor", "les pauvres"

FEMININE_NAMES = "Jane Alice Emma Sarah Julia Claire Marie Nina"
MASCULINE_NAMES = "Paul Thomas David Martin Louis Oscar Victor Simon"

PLACES_BY_ARTICLE = """
la: France France, Italy Italie, Spain Espagne, Germany Allemagne, England Angleterre, \
China Chine, Belgium Belgique, Africa Afrique, Europe Europe, Asia Asie
le: Canada Canada, Japan Japon, Brazil Brésil, Portugal Portugal, Mexico Mexique
les: the_United_States États-Unis
-: Paris Paris, London Londres, Rome Rome, Berlin Berlin, Montreal Montréal, Brussels Bruxelles, \
Athens Athènes, Geneva Genève
"""
MONTHS = dict(
    zip(
        [
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ],
        [
            "janvier",
            "février",
            "mars",
            "avril",
            "mai",
            "juin",
            "juillet",
            "août",
            "septembre",
            "octobre",
            "novembre",
            "décembre",
        ],
        strict=True,
    )
)
WEEKDAYS = {
    "Monday": "lundi",
    "Tuesday": "mardi",
    "Wednesday": "mercredi",
    "Thursday": "jeudi",
    "Friday": "vendredi",
    "Saturday": "samedi",
    "Sunday": "dimanche",
}
DAYS = tuple(str(day) for day in range(1, 16))
YEARS = ("1944", "1968", "1985", "1992", "2001", "2012", "2024")

THE = Determiner(("the", "the"), ("le", "la", "les"))
A = Determiner(("a", "some"), ("un", "une", "des"))
A_NEGATED = Determiner(("a", "any"), ("de", "de", "de"))
NOT_ANY = Determiner(("any", "any"), ("de", "de", "de"))
SOME = Determiner(("some", "some"), ("de le", "de la", "des"))  # of what is not counted
NEGATED = {A: A_NEGATED, SOME: NOT_ANY}  # under "ne ... pas"
THIS = Determiner(("this", "these"), ("ce", "cette", "ces"))
EVERY = Determiner(("every", ""), ("chaque", "chaque", ""))
ALL = Determiner(("", "all the"), ("", "", "tous les"), "toutes les")
MANY = Determiner(("", "many"), ("", "", "beaucoup de"))
SEVERAL = Determiner(("", "several"), ("", "", "plusieurs"))
TWO = Determiner(("", "two"), ("", "", "deux"))
THREE = Determiner(("", "three"), ("", "", "trois"))
FOUR = Determiner(("", "four"), ("", "", "quatre"))
MY = Determiner(("my", "my"), ("mon", "ma", "mes"))
YOUR = Determiner(("your", "your"), ("votre", "votre", "vos"))
HIS = Determiner(("his", "his"), ("son", "sa", "ses"))
HER = Determiner(("her", "her"), ("son", "sa", "ses"))
ITS = Determiner(("its", "its"), ("son", "sa", "ses"))
OUR = Determiner(("our", "our"), ("notre", "notre", "nos"))
THEIR = Determiner(("their", "their"), ("leur", "leur", "leurs"))


def read_nouns(table: str) -> list[Noun]:
    """The nouns of a table by kind."""
    nouns = []
    for line in table.strip().splitlines():
        kind, entries = line.split(": ")
        for feminine, part in enumerate(entries.split(" | ")):
            for entry in part.split(", "):
                english, french = entry.split()
                singular, _, irregular = english.partition("/")
                forms = (singular, irregular or english_morphology.with_s(singular))
                both = (french, french_morphology.plural(french))
                nouns.append(Noun(forms, both, bool(feminine), kind))
    return nouns


def read_adjectives(table: str, *, precedes: bool) -> list[Adjective]:
    """The adjectives of a table by the kinds of nouns they describe."""
    adjectives = []
    for line in table.strip().splitlines():
        kinds, entries = line.split(": ")
        for entry in entries.split(", "):
            english, french = entry.split()
            masculine, *rest = french.split("/")
            feminine, before_vowel = [*rest, *[masculine] * 2][:2]
            found = frozenset(kinds.split())
            adjectives.append(
                Adjective(english, masculine, feminine, before_vowel, precedes, found)
            )
    return adjectives


def read_places(table: str) -> list[Place]:
    """The places of a table by article."""
    places = []
    for line in table.strip().splitlines():
        article, entries = line.split(": ")
        for entry in entries.split(", "):
            english, french = entry.split()
            places.append(Place(english.replace("_", " "), french, article.strip("-")))
    return places


NOUNS = read_nouns(NOUNS_BY_KIND)
KINDS = {
    kind: tuple(n for n in NOUNS if n.kind == kind) for kind in dict.fromkeys(n.kind for n in NOUNS)
}
RELATED = tuple(noun for noun in NOUNS if str(noun) in RELATIONS)
UNCOUNTED = frozenset({"food", "drink"})
ADJECTIVES_BEFORE = read_adjectives(BEFORE_NOUN, precedes=True)
ADJECTIVES_AFTER = read_adjectives(AFTER_NOUN, precedes=False)
NATION_ADJECTIVES = tuple(read_adjectives(NATIONS, precedes=False))
FIELD_ADJECTIVES = tuple(read_adjectives(FIELDS, precedes=False))
PLACES = read_places(PLACES_BY_ARTICLE)
NAMES = tuple(
    [Name(name, feminine=True) for name in FEMININE_NAMES.split()]
    + [Name(name, feminine=False) for name in MASCULINE_NAMES.split()]
)


def describing(kind: str, adjectives: list[Adjective]) -> tuple[Adjective, ...]:
    """The adjectives that can describe a noun of that kind."""
    return tuple(adjective for adjective in adjectives if kind in adjective.kinds)


BEFORE = {kind: describing(kind, ADJECTIVES_BEFORE) for kind in KINDS}
AFTER = {
    kind: describing(kind, ADJECTIVES_AFTER + list(NATION_ADJECTIVES) + list(FIELD_ADJECTIVES))
    for kind in KINDS
}
PREDICATIVE = {kind: describing(kind, ADJECTIVES_AFTER + ADJECTIVES_BEFORE) for kind in KINDS}
