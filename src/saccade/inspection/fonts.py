"""Fonts for words of any script: the plain sans, and for what it lacks any font that is installed.

matplotlib draws right-to-left and joined scripts correctly from 3.11 on, earlier ones letter by
letter. Colour fonts (most emoji) it cannot draw at all: a font of outlines is looked for.
"""

import unicodedata
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

SANS = ["Inter", "Helvetica Neue", "Noto Sans", "Liberation Sans", "DejaVu Sans"]
# Tried first for a character that the sans lacks; then whatever else is installed.
FALLBACKS = [
    *("Noto Sans CJK JP", "Noto Sans CJK SC", "Noto Sans JP", "Hiragino Sans", "Yu Gothic"),
    *("Microsoft YaHei", "PingFang SC", "WenQuanYi Zen Hei", "Malgun Gothic", "Noto Sans Hebrew"),
    *("Noto Sans Arabic", "Noto Sans Devanagari", "Noto Emoji", "Symbola", "Noto Sans Symbols 2"),
]
PLACEHOLDERS = "LastResort"  # a font of boxes that comes with matplotlib
DRAWS_NOTHING = ("Cc", "Cf", "Cn", "Co", "Cs", "Zs", "Zl", "Zp", "Mn")  # Unicode categories


def families(words: str = "") -> list[str]:
    """The names of the fonts that draw these words, in the order in which they are tried."""
    found = list(_plain())
    seen = {c for c in words if ord(c) > 127 and not draws_nothing(c)}
    for character in sorted(seen):
        family = _family_with(character)
        if family is not None and family not in found:
            found.append(family)
    return found


def missing(words: Iterable[str]) -> set[str]:
    """The characters that no installed font can draw."""
    seen = {c for word in words for c in word if not draws_nothing(c)}
    return {c for c in seen if _family_with(c) is None}


def draws_nothing(character: str) -> bool:
    """A control, a space, a mark upon or a joint between letters."""
    return unicodedata.category(character) in DRAWS_NOTHING


@cache
def colour_font(character: str) -> str | None:
    """The file of a font that has the character as a picture, not as an outline."""
    return next((path for path in _paths() if _has(path, character, scalable=False)), None)


@cache
def _plain() -> tuple[str, ...]:
    from matplotlib import font_manager

    installed = set(font_manager.get_font_names())
    return tuple(name for name in SANS if name in installed) or ("sans-serif",)


@cache
def _family_with(character: str) -> str | None:
    """The family of the first font that has the character."""
    from matplotlib import font_manager

    manager: Any = font_manager.fontManager
    for path in _paths():
        if _has(path, character):
            if not any(entry.fname == path for entry in manager.ttflist):
                manager.addfont(path)  # installed since matplotlib last looked
            names = [entry.name for entry in manager.ttflist if entry.fname == path]
            ours = [name for name in FALLBACKS if name in names]  # of a file with several fonts
            return str([*ours, *names][0])
    return None


@cache
def _paths() -> list[str]:
    """Every installed font: ours first, then by name, plain cuts of sans-serifs before others."""
    from matplotlib import font_manager

    manager: Any = font_manager.fontManager
    names = {entry.fname: entry.name for entry in manager.ttflist}
    plain = [name.replace(" ", "").lower() for name in (*SANS, *FALLBACKS)]

    def rank(path: str) -> tuple[int, bool, bool, str]:
        stem = path.replace("\\", "/").rsplit("/", 1)[-1].lower().replace(" ", "")
        family = str(names.get(path, "")).replace(" ", "").lower()
        cut = stem.rsplit(".", 1)[0].removesuffix("-regular")
        ours = (place for place, name in enumerate(plain) if name in (family, cut))
        shaped = any(word in stem for word in ("bold", "italic", "oblique", "light", "thin"))
        return next(ours, len(plain)), shaped, "sans" not in stem, stem

    found = {*names, *_installed()}
    first = [font_manager.findfont(name) for name in _plain()]
    return first + sorted((path for path in found if PLACEHOLDERS not in path), key=rank)


def _installed() -> Iterator[str]:
    """Matplotlib's own list is of the day on which it was first used."""
    from matplotlib import font_manager

    yield from map(str, font_manager.findSystemFonts())


def _has(path: str, character: str, *, scalable: bool = True) -> bool:
    from matplotlib.ft2font import FT2Font

    try:
        font = FT2Font(path)
    except (OSError, RuntimeError):  # not there any more, or of a kind it cannot read
        return False
    return bool(font.scalable) == scalable and bool(font.get_char_index(ord(character)))
