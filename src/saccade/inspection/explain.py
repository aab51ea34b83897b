"""One attention step by step, with its numbers: what one head of a layer did for one token.

    q, every k, q.k, divided by sqrt(K), masked, softmax, weights times v, their sum; then all
    heads side by side, times W^o.

A window's factor, and the probabilities a hard attention chooses by, stand before the weights.
What an attention does not have (a recurrent one may show its weights alone) is left out.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from saccade.blocks.attention import Attention
from saccade.blocks.masks import masked_softmax
from saccade.blocks.recording import (
    BY_QUERY,
    Inside,
    Observed,
    attentions,
    check_head,
    find_attention,
    record_inside,
)
from saccade.blocks.relative import RelativeDot
from saccade.blocks.scores import (
    Additive,
    Concat,
    Cosine,
    Dot,
    Gaussian,
    General,
    Location,
    ScaledDot,
    Score,
)
from saccade.errors import InputError, nearest
from saccade.inspection.terminal import label, table, vector
from saccade.inspection.traces import Tokens, kind_of

FORMULAS: dict[type[Score], str] = {
    Additive: "v · tanh(Wq q + Wk k)",
    Concat: "v · tanh(W [q; k])",
    Dot: "q·k",
    ScaledDot: "q·k / √K",
    General: "q · W k",
    Location: "W q",
    Cosine: "sharpening · q·k / (|q| |k|)",
    Gaussian: "-|q - k|² / 2",
    RelativeDot: "((q + u)·k + (q + v)·W r) / √K",  # r: the sinusoids of their distance
}
PRODUCTS = (Dot, ScaledDot, General)  # their first step is the product of q and a (prepared) k


BY_KEY = (
    "k", "products", "scores", "allowed", "factor", "probabilities", "weights", "v", "weighted",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Steps:
    """The numbers in the order in which they come about; None: this attention has no such step."""

    q: Float[Tensor, " K"] | None = None
    k: Float[Tensor, "S A"] | None = None  # as the score prepared them
    products: Float[Tensor, " S"] | None = None  # q.k
    scale: float | None = None  # sqrt(K)
    scores: Float[Tensor, " S"] | None = None  # divided by it
    allowed: Bool[Tensor, " S"] | None = None  # by the mask
    factor: Float[Tensor, " S"] | None = None  # of the window, on the softmax of what is allowed
    probabilities: Float[Tensor, " S"] | None = None  # that a hard attention chooses by
    weights: Float[Tensor, " S"]  # softmax of what is allowed, times the factor; or the choice
    v: Float[Tensor, "S P"] | None = None
    weighted: Float[Tensor, "S P"] | None = None  # weights times v
    average: Float[Tensor, " P"] | None = None  # their sum: what the head found
    joined: Float[Tensor, " J"] | None = None  # of all heads, side by side
    output: Float[Tensor, " D"] | None = None  # times W^o


def work_out(
    q: Float[Tensor, "H K"],
    k: Float[Tensor, "H S A"],
    v: Float[Tensor, "H S P"],
    *,
    head: int = 0,
    score: Score | None = None,
    mask: Bool[Tensor, " S"] | None = None,
    output: Callable[[Tensor], Tensor] | None = None,
) -> Steps:
    """The arithmetic of one query in one head, by default scaled dot-product attention.

    `k` has been through `score.prepare`; `output` is W^o, applied to all heads side by side.
    """
    score = ScaledDot(q.shape[-1], k.shape[-1]) if score is None else score
    check_head(head, len(q))
    with torch.no_grad():
        scores = score(q.unsqueeze(1), k)  # (H, 1, S)
        weights = masked_softmax(scores, None if mask is None else mask[None, None])
        averages = (weights @ v).squeeze(1)  # (H, P)
        products = q[head] @ k[head].mT if isinstance(score, PRODUCTS) else None
        joined = averages.flatten()
        return Steps(
            q=q[head],
            k=k[head],
            products=products,
            scale=math.sqrt(q.shape[-1]) if isinstance(score, ScaledDot) else None,
            scores=scores[head, 0],
            allowed=torch.ones(k.shape[1], dtype=torch.bool) if mask is None else mask,
            weights=weights[head, 0],
            v=v[head],
            weighted=weights[head, 0, :, None] * v[head],
            average=averages[head],
            joined=joined,
            output=None if output is None else output(joined[None])[0],
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """The arithmetic of one token in one head of one layer, with the words it is about."""

    layer: str
    head: int  # counted from 0
    heads: int
    token: int  # the place of the query, counted from 0
    query: str
    keys: list[str]
    formula: str  # of the score
    steps: Steps

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers for JSON; steps that do not exist, and infinities, are None."""
        parts = {part.name: getattr(self, part.name) for part in dataclasses.fields(self)}
        steps = parts.pop("steps")
        found = {part.name: _plain(getattr(steps, part.name)) for part in dataclasses.fields(steps)}
        return parts | found

    def table(self) -> str:
        """The same for the terminal, a line for each key; of vectors the first numbers.

        What the mask hides behind the last key that counts is told in one line.
        """
        steps, shown = self.steps, self._until_masked()
        hidden = len(self.keys) - len(shown.keys)
        lines = [f"{label(self.query)} (token {self.token}) in {self.layer}, head {self.head}"]
        if self.formula:
            lines.append(f"score {self.formula}")
        lines += _weighing(steps)
        if steps.q is not None:
            lines.append(f"q {vector(steps.q)}")
        lines += ["", *table(shown._columns())]
        if hidden:
            lines.append(f"and {hidden:,} later token{'s' * (hidden > 1)}, masked")
        if steps.joined is not None and self.heads > 1:
            lines += ["", f"heads 0 to {self.heads - 1} side by side {vector(steps.joined)}"]
        if steps.output is not None:
            lines.append(f"times W^o {vector(steps.output)}")
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def _until_masked(self) -> "Explanation":
        """The keys up to the last that may be looked at."""
        allowed = self.steps.allowed
        if allowed is None or bool(allowed[-1]):
            return self
        end = int(allowed.nonzero().max()) + 1 if bool(allowed.any()) else 0
        cut = {name: x[:end] for name in BY_KEY if (x := getattr(self.steps, name)) is not None}
        steps = dataclasses.replace(self.steps, **cut)
        return dataclasses.replace(self, keys=self.keys[:end], steps=steps)

    def _columns(self) -> list[list[str]]:
        """A heading, a cell for each key and a sum, for each step there is."""
        steps = self.steps
        columns = [["", *self.keys, "sum"]]
        if steps.k is not None:
            columns.append(["k", *map(vector, steps.k), ""])
        if steps.products is not None:
            columns.append(["q·k", *_decimals(steps.products), ""])
        if steps.scores is not None:
            title = "score" if steps.scale is None else f"/ √{round(steps.scale**2)}"
            columns.append([title, *_decimals(steps.scores, steps.allowed), ""])
        if steps.factor is not None:
            columns.append(["factor", *_decimals(steps.factor), ""])
        if steps.probabilities is not None:
            total = f"{steps.probabilities.sum():.2f}"
            columns.append(["probability", *_decimals(steps.probabilities), total])
        columns.append(["weight", *_decimals(steps.weights), f"{steps.weights.sum():.2f}"])
        if steps.weighted is not None and steps.average is not None:
            columns.append(["weight times v", *map(vector, steps.weighted), vector(steps.average)])
        return columns


def explain(
    model: Any,
    text: str,
    layer: str | None = None,
    head: int = 0,
    token: int | str = 0,
    *,
    prediction: Any = None,
) -> Explanation:
    """What one head did for one token, in numbers, while the model (of `saccade.load`) read a text.

    The layer is by default the last that looks from output to input. A token is its place, or its
    text; an output's tokens stand for the steps that said them. `prediction` saves making it.
    """
    layer = _default_layer(model.module) if layer is None else layer
    attention = find_attention(model, layer)
    check_head(head, attention.heads)
    if prediction is None:  # before anything is watched: a search looks at what it then drops
        prediction = model.predict([text])[0]
    with record_inside(model, layer) as calls:
        tokens: Tokens = model.trace(text, prediction)
    kind = kind_of(model.module, layer)
    queries, keys = tokens.of(kind)
    place = _find_token(token, queries)
    inside = _query(calls, place)
    seen = inside.weights.shape[-1]
    # A step that is watched alone sees the newest tokens, its own last.
    first = place + 1 - seen if kind == "decoder" and seen < len(keys) else 0
    return Explanation(
        layer=layer,
        head=head,
        heads=attention.heads,
        token=place,
        query=queries[place],
        keys=keys[first : first + seen],
        formula=_formula(attention),
        steps=_steps(inside, attention, head),
    )


def _default_layer(module: Any) -> str:
    names = list(getattr(module, "alignment_layers", ())) or list(attentions(module))
    if not names:
        raise InputError("this model has no attention to explain")
    return names[-1]


def _find_token(token: int | str, queries: Sequence[str]) -> int:
    if isinstance(token, str):
        if token not in queries:
            raise InputError(f"no token is {token!r}; {nearest(token, queries)}")
        return list(queries).index(token)
    if not 0 <= token < len(queries):
        there = " ".join(queries)
        raise InputError(f"no token {token}: there are 0 to {len(queries) - 1}: {there[:80]}")
    return token


def _query(calls: Sequence[Inside], place: int) -> Inside:
    """What was computed for one query; an attention may be called for each query or for all."""
    for call in calls:
        size = call.weights.shape[2]
        if place < size:
            return call.of(slice(None), slice(place, place + 1))
        place -= size
    raise AssertionError(f"{place} more queries were expected")


def _steps(inside: Inside, attention: Observed, head: int) -> Steps:
    """What was recorded of one query, and what follows from it."""
    parts = {part.name: getattr(inside, part.name) for part in dataclasses.fields(Inside)}
    seen: dict[str, Any] = {name: None if x is None else x[0, head] for name, x in parts.items()}
    for name in BY_QUERY:
        seen[name] = None if seen[name] is None else seen[name][0]
    q, k, v, weights, allowed = (seen[n] for n in ("query", "keys", "values", "weights", "mask"))
    if allowed is None and seen["scores"] is not None:
        allowed = torch.ones(weights.shape, dtype=torch.bool)
    score = type(getattr(attention, "score", None))
    joined = None if inside.averages is None else attention.kept(inside.averages)[0].flatten()
    output = None
    if joined is not None and isinstance(attention, Attention):
        device = next(attention.parameters(), joined).device
        with torch.no_grad():
            output = attention.output(joined[None].to(device))[0].cpu()
    return Steps(
        q=q,
        k=k,
        products=q @ k.mT if score in PRODUCTS and q is not None and k is not None else None,
        scale=math.sqrt(len(q)) if score is ScaledDot and q is not None else None,
        scores=seen["scores"],
        allowed=allowed,
        factor=seen["factor"],
        probabilities=seen["probabilities"],
        weights=weights,
        v=v,
        weighted=None if v is None else weights[:, None] * v,
        average=seen["averages"],
        joined=joined,
        output=output,
    )


def _formula(attention: Observed) -> str:
    score = getattr(attention, "score", None)
    if score is None:
        return ""
    return FORMULAS.get(type(score), type(score).__name__)


def _weighing(steps: Steps) -> list[str]:
    """How scores become weights, where it is not by softmax alone."""
    soft = "softmax(score)" if steps.factor is None else "softmax(score) times factor"
    if steps.probabilities is not None:
        whole = "" if steps.factor is None else ", made to sum to one"
        return [f"probability {soft}{whole}", "weight 1 for the most probable key"]
    return [] if steps.factor is None else [f"weight {soft}"]


def _plain(value: Tensor | float | None) -> Any:
    """Tensors as lists, what is not finite as None."""
    if isinstance(value, Tensor):
        return _plain_list(value.tolist())
    return value


def _plain_list(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain_list(each) for each in value]
    return value if math.isfinite(value) else None


def _decimals(values: Float[Tensor, " S"], allowed: Bool[Tensor, " S"] | None = None) -> list[str]:
    seen = [True] * len(values) if allowed is None else allowed.tolist()
    pairs = zip(values.tolist(), seen, strict=True)
    return [f"{value:z.2f}" if may else "masked" for value, may in pairs]
