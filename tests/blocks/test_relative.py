"""Relative attention against the paper's sum, pair by pair, in two plain loops."""

import math

import pytest
import torch

from saccade.blocks.masks import causal_mask
from saccade.blocks.positions import Sinusoidal
from saccade.blocks.recording import record_attention
from saccade.blocks.relative import RelativeAttention, shift

DIM, HEADS = 8, 2
WIDTH = DIM // HEADS


def sinusoid(distance):
    angles = [distance / 10000 ** (2 * i / DIM) for i in range(DIM // 2)]
    return torch.tensor(
        [f(angle) for angle in angles for f in (math.sin, math.cos)], dtype=torch.float64
    )


def naive(attention, x, memory):
    """Dai et al. 2019, section 3.3: A_ij = q.k + q.W R + u.k + v.W R; (weights, outputs)."""
    read = torch.cat([memory, x], dim=1)
    rows, queries, _ = x.shape
    before, score = memory.shape[1], attention.score
    weights = torch.zeros(rows, HEADS, queries, read.shape[1]).double()
    outputs = []
    for row in range(rows):
        for i in range(queries):
            heads = []
            for head in range(HEADS):
                part = slice(head * WIDTH, (head + 1) * WIDTH)
                key_proj, value_proj = attention.key_value.weight.chunk(2)
                u, v = score.content_bias[head], score.distance_bias[head]
                query = attention.query.weight[part] @ x[row, i]
                scores, values = [], []
                for j in range(before + i + 1):
                    key = key_proj[part] @ read[row, j]
                    place = score.distance_proj[head] @ sinusoid(before + i - j)
                    scores.append(query @ key + query @ place + u @ key + v @ place)
                    values.append(value_proj[part] @ read[row, j])
                mine = (torch.stack(scores) / math.sqrt(WIDTH)).softmax(0)
                weights[row, head, i, : before + i + 1] = mine.detach()
                heads.append(mine @ torch.stack(values))
            outputs.append(attention.output.weight @ torch.cat(heads))
    return weights, torch.stack(outputs).view(rows, queries, DIM)


@pytest.mark.parametrize(
    ("rows", "queries", "before"), [(2, 3, 4), (1, 5, 0), (1, 1, 6), (3, 1, 2), (2, 2, 1)]
)
def test_it_is_the_papers_sum(rows, queries, before):
    """Outputs, recorded weights and the gradients of all parameters, with few queries or many."""
    attention = RelativeAttention(DIM, HEADS, Sinusoidal(DIM)).double()
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    x = torch.randn(rows, queries, DIM).double()
    memory = torch.randn(rows, before, DIM).double()
    mask = causal_mask(queries, before + queries)[None, None]
    with record_attention(attention) as seen:
        found = attention(x, *attention.project(torch.cat([memory, x], dim=1)), mask)
    weights, expected = naive(attention, x, memory)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(seen[""][0], weights, rtol=0, atol=1e-12)
    weigh, parameters = torch.randn_like(found), list(attention.parameters())
    assert len(parameters) == 6  # query, key and value, W, u, v, output
    ours = torch.autograd.grad((found * weigh).sum(), parameters)
    theirs = torch.autograd.grad((expected * weigh).sum(), parameters)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-10)


def test_shift_moves_each_row_by_how_far_it_is_from_the_last():
    x = torch.arange(15.0).view(3, 5)  # columns: distances 4, 3, 2, 1, 0
    moved = shift(x)
    assert moved[0, :3].tolist() == [2, 3, 4]  # the first query: two keys before it, and its own
    assert moved[1, :4].tolist() == [6, 7, 8, 9]
    assert moved[2].tolist() == [10, 11, 12, 13, 14]
    torch.testing.assert_close(shift(x.expand(2, 4, 3, 5)), moved.expand(2, 4, 3, 5))
