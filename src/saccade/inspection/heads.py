"""Many heads and layers as one picture, and what each head does as a few numbers.

Average and maximum look at layers side by side; rollout and flow (Abnar and Zuidema 2020,
Quantifying Attention Flow in Transformers) follow attention down through a stack of layers.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from saccade.errors import InputError
from saccade.inspection.alignment import AttentionMap
from saccade.inspection.terminal import table

Layers = Mapping[str, Float[Tensor, "_ _T _S"]]  # (H, T, S), in the order of the model
SEPARATORS = ("<s>", "</s>", "[CLS]", "[SEP]", "<sep>", "<cls>")
TINY = 1e-9  # less than this flows nowhere


def average(weights: Layers) -> Float[Tensor, "T S"]:
    """The mean over all heads of all layers, each layer counting alike."""
    return torch.stack([layer.float().mean(dim=0) for layer in _some(weights)]).mean(dim=0)


def maximum(weights: Layers) -> Float[Tensor, "T S"]:
    """The strongest look of any head of any layer."""
    return torch.stack([layer.float().amax(dim=0) for layer in _some(weights)]).amax(dim=0)


def rollout(weights: Layers, residual: float = 0.5) -> Float[Tensor, "T T"]:
    """How much of each input is in each output of a stack:  A_n ... A_1,  A = r I + (1 - r) mean.

    Of each layer the mean over its heads, and the share `residual` that goes around it.
    """
    stack = _with_residual(weights, residual)
    found = stack[0]
    for layer in stack[1:]:
        found = layer @ found
    return found


def flow(
    weights: Layers, residual: float = 0.5, queries: Collection[int] | None = None
) -> Float[Tensor, "T T"]:
    """The most that can flow from each output (or some) down to each input of a stack.

    Edges between the layers can carry as much as `rollout` multiplies. A maximum flow for each
    pair: for sentences, not for pages. Rows that were not asked for are zero.
    """
    stack = _with_residual(weights, residual)
    size = len(stack[0])
    capacity = np.zeros(((len(stack) + 1) * size,) * 2)
    for number, layer in enumerate(stack, start=1):  # inputs are the first nodes, outputs the last
        above, below = number * size, (number - 1) * size
        capacity[above : above + size, below : below + size] = layer.double().numpy()
    found = torch.zeros(size, size)
    top = len(stack) * size
    for query in range(size) if queries is None else queries:
        for key in range(size):
            found[query, key] = max_flow(capacity, top + query, key)
    return found


def max_flow(capacity: Float[np.ndarray, "N N"], source: int, sink: int) -> float:
    """Edmonds and Karp 1972: fill the shortest path that has room, until there is none."""
    room, total = capacity.astype(float), 0.0
    while (path := _shortest_path(room, source, sink)) is not None:
        most = float(room[path[:-1], path[1:]].min())
        room[path[:-1], path[1:]] -= most
        room[path[1:], path[:-1]] += most
        total += most
    return total


def _shortest_path(room: Float[np.ndarray, "N N"], source: int, sink: int) -> list[int] | None:
    """By breadth, a whole level at a time."""
    before = np.full(len(room), -1)
    before[source] = source
    frontier = np.array([source])
    while len(frontier) and before[sink] < 0:
        open_edges = room[frontier] > TINY  # (frontier, N)
        reached = np.flatnonzero(open_edges.any(axis=0) & (before < 0))
        before[reached] = frontier[open_edges[:, reached].argmax(axis=0)]
        frontier = reached
    if before[sink] < 0:
        return None
    path = [sink]
    while path[-1] != source:
        path.append(int(before[path[-1]]))
    return path[::-1]


def _some(weights: Layers) -> list[Float[Tensor, "_ T S"]]:
    if not weights:
        raise InputError("no attention was recorded: there is nothing to combine")
    shapes = {layer.shape[1:] for layer in weights.values()}
    if len(shapes) > 1:
        raise InputError("layers of one kind can be combined: encoder, decoder or cross-attention")
    return list(weights.values())


def _with_residual(weights: Layers, residual: float) -> list[Float[Tensor, "T T"]]:
    """The mean over the heads of each layer, mixed with what goes around it, rows summing to 1."""
    if not 0 <= residual <= 1:
        raise InputError(f"residual is {residual}, it must be from 0 to 1")
    layers = [layer.detach().float().cpu().mean(dim=0) for layer in _some(weights)]
    rows, columns = layers[0].shape
    if rows != columns:
        raise InputError(
            f"attention from {rows} to {columns} tokens cannot be followed through layers: "
            "that needs self-attention, of the encoder or the decoder"
        )
    mixed = [residual * torch.eye(rows) + (1 - residual) * layer for layer in layers]
    return [layer / layer.sum(dim=1, keepdim=True).clamp_min(TINY) for layer in mixed]


@dataclass(frozen=True, slots=True)
class HeadStatistics:
    """What one head does, on average over the queries of some sentences."""

    layer: str
    head: int  # counted from 0
    entropy: float  # bits: 0 looks at one token, log2(S) at all alike
    distance: float  # in tokens, how far away it looks
    diagonal: float  # weight on the token at the query's own place
    previous: float  # ... on the one before it
    separator: float  # ... on the begin, end and separator tokens


def head_statistics(
    seen: AttentionMap | Sequence[AttentionMap], separators: Collection[str] = SEPARATORS
) -> list[HeadStatistics]:
    """The statistics of every head recorded, over one or several sentences."""
    maps = [seen] if isinstance(seen, AttentionMap) else seen
    sums: dict[tuple[str, int], Tensor] = {}
    counts: dict[str, int] = {}
    for each in (part for whole in maps for part in whole.every().values()):
        ends = torch.tensor([token in separators for token in each.source], dtype=torch.bool)
        for layer, weights in each.weights.items():
            counts[layer] = counts.get(layer, 0) + weights.shape[1]
            for head, matrix in enumerate(weights.detach().double().cpu()):
                add = _sums(matrix, ends)
                sums[layer, head] = sums[layer, head] + add if (layer, head) in sums else add
    return [
        HeadStatistics(layer, head, *(total / max(counts[layer], 1)).tolist())
        for (layer, head), total in sums.items()
    ]


def statistics_table(statistics: Iterable[HeadStatistics]) -> str:
    """For the terminal, a line a head."""
    rows = list(statistics)
    names = ("entropy", "distance", "diagonal", "previous", "separator")
    columns = [["head", *(f"{row.layer} {row.head}" for row in rows)]]
    columns += [[name, *(f"{getattr(row, name):.2f}" for row in rows)] for name in names]
    return "\n".join(table(columns))


def _sums(matrix: Float[Tensor, "T S"], separators: Tensor) -> Float[Tensor, "5"]:
    rows, columns = matrix.shape
    logs = matrix.clamp_min(torch.finfo(matrix.dtype).tiny).log2()
    gap = torch.arange(rows)[:, None] - torch.arange(columns)
    parts = (
        -matrix * logs,
        matrix * gap.abs(),
        matrix.diagonal(),
        matrix.diagonal(-1),
        matrix[:, separators],
    )
    return torch.stack([part.sum() for part in parts])
