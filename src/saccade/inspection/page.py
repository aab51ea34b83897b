"""Attention as a page to touch: one HTML file that asks nothing of the network.

Words are data, never markup: they are embedded as JSON without `<`, shown by `textContent`, and
the page's own policy lets no script run but its one, known by its hash.
"""

import base64
import hashlib
import html
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.inspection.paper import visible

if TYPE_CHECKING:
    from saccade.inspection.alignment import AttentionMap

LONGEST = 2000  # characters of a token that are kept
CELL, REST = 28, 420  # pixels in a notebook: a row of the matrix, and all that is not matrix


@dataclass(frozen=True, slots=True)
class Shown:
    """What the page shows first: a map, a layer of it, a head or (None) the average."""

    kind: str
    layer: str
    head: int | None = None


def attention_page(maps: Mapping[str, "AttentionMap"], shown: Shown) -> str:
    """The whole page."""
    parts = [_map(kind, each) for kind, each in maps.items()]
    chosen = {
        "map": list(maps).index(shown.kind),
        "layer": list(maps[shown.kind].weights).index(shown.layer),
        "head": -1 if shown.head is None else shown.head,
    }
    script = _asset("attention.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    first = maps[shown.kind]
    matrix = first.matrix(shown.layer, shown.head)
    filled = {
        "hash": f"sha256-{digest}",
        "script": script,
        "data": _embedded({"maps": parts, "chosen": chosen}),
        "table": static_table(matrix.tolist(), first.source, first.target),
    }
    return _asset("attention.html") % filled


def notebook_frame(page: str, rows: int) -> str:
    """The page inside a notebook: in a frame of its own, which can touch nothing outside."""
    height = REST + CELL * min(rows, 20)
    style = f"width:100%;height:{height}px;border:0"
    return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(page)}"></iframe>'


def static_table(weights: list[list[float]], source: Sequence[str], target: Sequence[str]) -> str:
    """The map as a table for where no script runs: the darkness of a cell is its weight."""
    top = max((weight for row in weights for weight in row), default=0.0) or 1.0
    sans = "font:13px system-ui,sans-serif;border-collapse:separate;border-spacing:2px;width:auto"
    upright = "writing-mode:vertical-rl;transform:rotate(180deg);text-align:left;font-weight:400"
    head = "".join(
        f'<th style="{upright}"><bdi>{html.escape(_word(token))}</bdi></th>' for token in source
    )
    body = ""
    for token, row in zip(target, weights, strict=True):
        name = f"<bdi>{html.escape(_word(token))}</bdi>"
        cells = "".join(
            f'<td title="{weight:.2f}" style="width:22px;height:22px;padding:0;'
            f'background:rgba(27,73,168,{weight / top:.3f})"></td>'
            for weight in row
        )
        body += f'<tr><th style="text-align:right;font-weight:400">{name}</th>{cells}</tr>'
    return f'<table style="{sans}"><tr><th></th>{head}</tr>{body}</table>'


def _map(kind: str, seen: "AttentionMap") -> dict[str, Any]:
    layers = [
        {"name": name, "short": short, "heads": len(weights), **_packed(weights)}
        for (name, weights), short in zip(
            seen.weights.items(), _short_names(list(seen.weights)), strict=True
        )
    ]
    words = {"source": seen.source, "target": seen.target}
    shown = {side: [_word(token) for token in tokens] for side, tokens in words.items()}
    return {"kind": visible(kind), "layers": layers, **shown}


def _packed(weights: Float[Tensor, "H T S"]) -> dict[str, Any]:
    """Sixteen bits a weight: a fifth of what decimals take, and finer than can be seen."""
    clean = weights.detach().to("cpu", torch.float32).nan_to_num(0.0, 0.0, 0.0).clamp_min(0.0)
    scale = max(1.0, float(clean.max()) if clean.numel() else 1.0)
    whole = (clean / scale * 65535).round().to(torch.int32).numpy().astype("<u2")
    return {"scale": scale, "weights": base64.b64encode(whole.tobytes()).decode()}


def _short_names(layers: Sequence[str]) -> list[str]:
    """L1, L2, ... for layers that are numbered, else their names."""
    numbered = [re.search(r"(?:^|\.)(\d+)\.", layer) for layer in layers]
    return [
        visible(layer)[:12] if found is None else f"L{int(found[1]) + 1}"
        for layer, found in zip(layers, numbered, strict=True)
    ]


def _word(token: str) -> str:
    return visible(token[:LONGEST])


def _embedded(data: Any) -> str:
    """JSON that no HTML parser can mistake for markup, and no script for a line's end."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False)
    unsafe = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}
    return "".join(unsafe.get(c, c) for c in text)


@cache
def _asset(name: str) -> str:
    return Path(__file__).with_name(name).read_text("utf-8")
