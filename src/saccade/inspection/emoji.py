"""Emoji in PNG pictures: matplotlib draws outlines only, Pillow also the colour fonts of emoji."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from saccade.inspection.fonts import colour_font, draws_nothing, missing

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    import matplotlib.figure
    import matplotlib.text

SIZES = (109, 128, 160, 136, 96, 64)  # colour fonts hold pictures of one size, or a few
SPACE = "▁␣ "  # may stand before an emoji


@contextmanager
def emoji_as_images(figure: "matplotlib.figure.Figure") -> Iterator[None]:
    """While a picture is saved, words of nothing but undrawable emoji are images."""
    from matplotlib.text import Text

    texts: Any = figure.findobj(Text)
    images = [(text, _image(text.get_text().strip(SPACE))) for text in texts if text.get_visible()]
    words = [(text, image) for text, image in images if image is not None]
    if words:
        figure.draw_without_rendering()  # only now is it known where words will stand
    drawn = [_place(figure, text, image) for text, image in words]
    hidden = [(text, text.get_alpha()) for text, _ in words]
    for text, _ in words:
        text.set_alpha(0.0)  # it still takes its room
    try:
        yield
    finally:
        for each in drawn:
            each.remove()
        for text, alpha in hidden:
            text.set_alpha(alpha)


def _image(word: str) -> np.ndarray | None:
    """The word as Pillow draws it, cut to what is drawn; None if it can be drawn as letters."""
    if not word or not all(missing([c]) or draws_nothing(c) for c in word):
        return None
    path = colour_font(word[0])
    return None if path is None else _drawn(word, path)


def _drawn(word: str, path: str) -> np.ndarray | None:
    from PIL import Image, ImageDraw, ImageFont

    for size in SIZES:
        try:
            font = ImageFont.truetype(path, size)
        except OSError:  # not its size
            continue
        page = Image.new("RGBA", (2 * size * len(word), 2 * size))
        ImageDraw.Draw(page).text((0, 0), word, font=font, embedded_color=True)
        box = page.getbbox()
        return None if box is None else np.asarray(page.crop(box))
    return None


def _place(
    figure: "matplotlib.figure.Figure", text: "matplotlib.text.Text", image: np.ndarray
) -> Any:
    """The image where the word stands, as high as its letters."""
    from matplotlib.offsetbox import AnnotationBbox, OffsetImage

    box = text.get_window_extent()
    middle = figure.transFigure.inverted().transform(((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2))
    zoom = 1.2 * float(text.get_fontsize()) / image.shape[0]
    small = OffsetImage(image, zoom=zoom, resample=True, interpolation="antialiased")
    # Not "figure fraction", which forgets that saving cuts the page to what is drawn on it.
    place: Any = {"xycoords": figure.transFigure, "frameon": False, "pad": 0.0}
    placed = AnnotationBbox(small, tuple(middle), **place)
    placed.set_zorder(9)
    return figure.add_artist(placed)
