"""English word forms: plurals, the third person, -ing, and a or an."""

from collections.abc import Sequence

from saccade.data.grammar import Agreement, Word

DOUBLED = {"run": "running", "swim": "swimming"}  # the last consonant is written twice
BE_PRESENT = {(1, False): "am", (3, False): "is"}
BE_PAST = {(1, False): "was", (3, False): "was"}
SAID_WITH_CONSONANT = ("eu", "uni", "use")  # "a European area"


def with_s(word: str) -> str:
    """The plural of a noun, or the third person of a verb."""
    if word == "have":
        return "has"
    if word.endswith(("s", "x", "ch", "sh", "o")):
        return word + "es"
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ies"
    return word + "s"


def with_ed(word: str) -> str:
    """The past of a regular verb."""
    if word.endswith("y") and word[-2] not in "aeou":
        return word[:-1] + "ied"
    return word + ("d" if word.endswith("e") else "ed")


def with_ing(word: str) -> str:
    """The form of a verb that goes with "to be"."""
    if word in DOUBLED:
        return DOUBLED[word]
    return (word[:-1] if word.endswith("e") else word) + "ing"


def be(tense: str, subject: Agreement) -> str:
    """The present or past of "to be"."""
    key = (subject.person, subject.plural)
    return BE_PAST.get(key, "were") if tense == "past" else BE_PRESENT.get(key, "are")


def finish(words: Sequence[Word]) -> list[Word]:
    """Write "an" before a vowel."""
    finished = list(words)
    for i, (text, concepts) in enumerate(words[:-1]):
        if text == "a":
            following = words[i + 1][0].lower()
            if following[0] in "aeiou" and not following.startswith(SAID_WITH_CONSONANT):
                finished[i] = ("an", concepts)
    return finished
