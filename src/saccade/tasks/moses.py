"""Moses tokens, for the BLEU of papers that score lowercased, normalised, tokenised text.

The rules are those of the Moses scripts normalize-punctuation.perl and tokenizer.perl (Koehn et al.
2007) without aggressive hyphen splitting and without escaping: writing ' as &apos; renames tokens
one to one, so neither their number nor BLEU changes. As in the version Multi30k's references were
made with, an abbreviation or a German ordinal keeps its full stop at the end of a sentence too.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import regex  # type: ignore[import-untyped]  # sacrebleu needs it too; `re` knows no \p{...}

from saccade.errors import InputError, nearest
from saccade.tasks.metrics import Metric, tokenised_bleu

Rules = tuple[tuple[str, str], ...]
NBSP = "\u00a0"  # Moses calls it a pseudo-space

SPACES_AROUND_PUNCTUATION: Rules = (
    (r"\r", ""),
    (r"\(", " ("),
    (r"\)", ") "),
    (r" +", " "),
    (r"\) (?=[.!:?;,])", ")"),
    (r"\( ", "("),
    (r" \)", ")"),
    (r"(?<=\d) %", "%"),
    (r" (?=[:;])", ""),
)
PLAIN_PUNCTUATION: Rules = (
    (r"`", "'"),
    (r"''", ' " '),
    (r"[„“”]", '"'),
    (r"–", "-"),
    (r"—", " - "),
    (r" +", " "),
    (r"[´‘‚’]", "'"),
    (r"''", '"'),
    (r"…", "..."),
    (f"{NBSP}«{NBSP}", ' "'),
    (f"«{NBSP}?", '"'),
    (f"{NBSP}»{NBSP}", '" '),
    (f"{NBSP}?»", '"'),
)
PSEUDO_SPACES: Rules = (
    (f"{NBSP}(?=[%:?!;])", ""),
    (f"(?<=nº){NBSP}", " "),
    (f"{NBSP}(?=ºC|cm)", " "),
    (f"(?<=,){NBSP}", " "),
    (r" +", " "),
)
# English puts the comma before the closing quote, the continent behind it.
QUOTES_LAST: Rules = ((r'"([,.]+)', r'\1"'),)
QUOTES_FIRST: Rules = ((r',"', '",'), (r'(\.+)"(\s*[^<])', r'"\1\2'))
DECIMAL_POINT: Rules = ((rf"(?<=\d){NBSP}(?=\d)", "."),)
DECIMAL_COMMA: Rules = ((rf"(?<=\d){NBSP}(?=\d)", ","),)

NORMALIZE: dict[str, Rules] = {
    "en": (*QUOTES_LAST, *DECIMAL_POINT),
    "de": (*QUOTES_FIRST, *DECIMAL_COMMA),
    "fr": (*QUOTES_FIRST, *DECIMAL_COMMA),
}

# An apostrophe stays with what follows in English (dog 's), with what precedes in French (l' eau).
APOSTROPHES: dict[str, Rules] = {
    "en": (
        (r"(\P{Alpha})'(\P{Alpha})", r"\1 ' \2"),
        (r"([^\p{Alpha}\p{N}])'(\p{Alpha})", r"\1 ' \2"),
        (r"(\p{Alpha})'(\P{Alpha})", r"\1 ' \2"),
        (r"(\p{Alpha})'(\p{Alpha})", r"\1 '\2"),
        (r"(\p{N})'(s)", r"\1 '\2"),
    ),
    "de": ((r"'", " ' "),),
    "fr": (
        (r"(\P{Alpha})'(\P{Alpha})", r"\1 ' \2"),
        (r"(\P{Alpha})'(\p{Alpha})", r"\1 ' \2"),
        (r"(\p{Alpha})'(\P{Alpha})", r"\1 ' \2"),
        (r"(\p{Alpha})'(\p{Alpha})", r"\1' \2"),
    ),
}
SEPARATE: Rules = (
    (r"([^\p{Alnum}\s.'`,-])", r" \1 "),
    (r"\.{2,}", r" \g<0> "),  # dots in a row are one token
    (r"(\P{N}),", r"\1 , "),  # a comma stays only between two numbers: 5,300
    (r",(\P{N})", r" , \1"),
    (r"(\p{N}),$", r"\1 ,"),
)

INITIALS = "A B C D E F G H I J K L M N O P Q R S T U V W X Y Z"
# Abbreviations that keep their full stop before a capital (before a small letter every word does).
ABBREVIATIONS = {
    "en": f"{INITIALS} Capt Col Corp Cpl Dr Gen Gov Hon Lt Maj Messrs Mr Mrs Ms Ph Prof Rep Rev "
    "Sen Sgt Sr St v vs i.e e.g Nos Nr Jan Feb Mar Apr Jun Jul Aug Sep Oct Nov Dec",
    "de": f"{INITIALS} II III IV VI VII VIII IX XI XII XIII XIV XV XVI XVII XVIII XIX XX "
    "Dr Prof Hr Fr St Mr Mrs Ms Mio Mrd bzw usw usf vgl ggf evtl etc sog ca Ca Nr Std Tel Str "
    "Chr Co Corp Ltd jun sen dgl bzgl zzt MwSt v vs",
    "fr": f"{INITIALS} Dr Mr Mme Mlle MM Pr St Ste av bd cf chap env etc ex fig hab p pp tél vol",
}
PREFIXES = {language: frozenset(words.split()) for language, words in ABBREVIATIONS.items()}
PREFIXES["de"] |= {str(number) for number in range(1, 100)}  # German ordinals: der 4. Juli
PREFIXES_BEFORE_NUMBERS = {"en": ("No", "Art", "pp"), "de": (), "fr": ()}


def normalize_punctuation(text: str, language: str) -> str:
    """Curly, low and French quotes, dashes and pseudo-spaces as plain ASCII punctuation."""
    _check_language(language)
    rules = (
        *SPACES_AROUND_PUNCTUATION,
        *PLAIN_PUNCTUATION,
        *PSEUDO_SPACES,
        *NORMALIZE[language],
    )
    # Moses' rules see the end of the line as a character, so it has to be there.
    return _apply(rules, text + "\n").removesuffix("\n")


def tokenize(text: str, language: str) -> list[str]:
    """The tokens of one sentence: punctuation apart from words, abbreviations in one piece."""
    _check_language(language)
    # Controls vanish, but those that Moses counts as spaces separate words.
    text = regex.sub(r"[^\S\x1c-\x1f]+", " ", text)
    text = regex.sub(r"[\x00-\x1f]", "", text).strip(" ")
    words = _apply((*SEPARATE, *APOSTROPHES[language]), text).split(" ")
    words = [word for word in words if word]
    tokens: list[str] = []
    for word, following in pairwise([*words, ""]):
        if _ends_sentence(word, following, language):
            tokens += [word[:-1], "."]
        else:
            tokens.append(word)
    if tokens and tokens[-1].endswith(".'"):  # a quote right behind the last full stop
        tokens[-1:] = [part for part in (tokens[-1][:-2], ".", "'") if part]
    return tokens


def moses_bleu(hypotheses: Sequence[str], references: Sequence[str], language: str) -> Metric:
    """BLEU as Multi30k papers report it: lowercase, normalise, tokenise, then count as it is."""
    metric = tokenised_bleu(
        [_moses_line(line, language) for line in hypotheses],
        [_moses_line(line, language) for line in references],
    )
    prepared = f"prep:lowercase+moses-normalize-punctuation+moses-tokenizer-{language}-noescape"
    return replace(
        metric,
        name="BLEU (lowercased Moses tokens)",
        signature=f"{prepared}|{metric.signature}",
    )


def _moses_line(text: str, language: str) -> str:
    return " ".join(tokenize(normalize_punctuation(text.lower(), language), language))


def _ends_sentence(word: str, following: str, language: str) -> bool:
    """Whether the full stop at the end of `word` is a token of its own."""
    stem = word[:-1]
    if not word.endswith(".") or not stem.strip("."):
        return False
    if "." in stem and regex.search(r"\p{Alpha}", stem):  # z.B., U.S.
        return False
    if stem in PREFIXES[language] or regex.match(r"\p{Lower}", following):
        return False
    return not (stem in PREFIXES_BEFORE_NUMBERS[language] and regex.match(r"[0-9]", following))


def _apply(rules: Rules, text: str) -> str:
    for pattern, replacement in rules:
        text = regex.sub(pattern, replacement, text)
    return text


def _check_language(language: str) -> None:
    if language not in NORMALIZE:
        raise InputError(
            f"no Moses rules for language {language!r}; {nearest(language, NORMALIZE)}"
        )
