"""One step of each recurrent decoder against its paper's equations, with torch's own cells."""

import pytest
import torch
from torch import nn

from saccade.blocks.recurrent_decoders import (
    BahdanauDecoder,
    DecoderSizes,
    InputFeedingDecoder,
    LuongDecoder,
)

N, E, D, P = 3, 4, 5, 2  # rows; widths of a word, a state and a context
STEPS, LAYERS = 3, 2
TORCH = {"rnn": nn.RNNCell, "lstm": nn.LSTMCell, "gru": nn.GRUCell}
TO_CONTEXT = torch.linspace(-1, 1, D * P, dtype=torch.double).view(D, P)
EACH_CELL = pytest.mark.parametrize("cell", TORCH)


def look(query, steps):
    """A context that tells who asked, and at which step."""
    return (query @ TO_CONTEXT).sin() + steps.unsqueeze(-1), None


def twins(kind, cell):
    """A decoder, and its cells as torch has them."""
    sizes = DecoderSizes(
        word_dim=E, dim=D, context_dim=P, cell=cell, layers=LAYERS, norm="none", dropout=0.0
    )
    decoder = kind(sizes).double()
    theirs = []
    for mine in decoder.stack.cells:
        other = TORCH[cell](mine.input_dim, D).double()
        for to, weight in zip(other.parameters(), mine.parameters(), strict=True):
            to.data.copy_(weight.data)
        theirs.append(other)
    return decoder, theirs


def advance(cells, x, states):
    """All layers a step on; a state is h, or (h, c)."""
    after = []
    for cell, state in zip(cells, states, strict=True):
        after.append(cell(x, state))
        x = hidden(after[-1])
    return after


def hidden(state):
    return state[0] if isinstance(state, tuple) else state


def begun(cell):
    first = [torch.randn(N, D).double() for _ in range(LAYERS)]
    return first, [(h, torch.zeros_like(h)) if cell == "lstm" else h for h in first]


def compare(decoder, first, expected):
    """`expected` yields (word, what is said, the states) of each step."""
    rows = decoder.begin(first)
    for step, (word, said, states) in enumerate(expected):
        found, rows, _ = decoder.step(word, rows, look)
        torch.testing.assert_close(found, said)
        for mine, theirs in zip(rows.cells, states, strict=True):
            torch.testing.assert_close(mine[0], hidden(theirs))
        assert rows.ages.tolist() == [step + 1] * N


@EACH_CELL
@torch.no_grad()
def test_bahdanau(cell):
    """A.2.2: c from s_(i-1); s_i = f(s_(i-1), [y_(i-1); c]); t_j = the larger of two t~."""
    decoder, cells = twins(BahdanauDecoder, cell)
    first, states = begun(cell)

    def steps(states):
        for step in range(STEPS):
            word = torch.randn(N, E).double()
            context = (hidden(states[-1]) @ TO_CONTEXT).sin() + step
            states = advance(cells, torch.cat([word, context], dim=1), states)
            u, bias = decoder.deep_output.weight, decoder.deep_output.bias
            of_word, of_state, of_context = u[:, :E], u[:, E : E + D], u[:, E + D :]
            t = word @ of_word.T + hidden(states[-1]) @ of_state.T + context @ of_context.T + bias
            said = torch.stack([torch.maximum(t[:, 2 * j], t[:, 2 * j + 1]) for j in range(E)], 1)
            yield word, said, states

    compare(decoder, first, steps(states))


@EACH_CELL
@pytest.mark.parametrize("feeding", [True, False])
@torch.no_grad()
def test_luong(cell, feeding):
    """Eq. 5: c from h_t; h~_t = tanh(W_c [c; h_t]); 3.3: h~_(t-1) beside the word, if it is fed."""
    decoder, cells = twins(InputFeedingDecoder if feeding else LuongDecoder, cell)
    first, states = begun(cell)

    def steps(states):
        said = torch.zeros(N, E).double()
        for step in range(STEPS):
            word = torch.randn(N, E).double()
            read = torch.cat([word, said], dim=1) if feeding else word
            states = advance(cells, read, states)
            context = (hidden(states[-1]) @ TO_CONTEXT).sin() + step
            w = decoder.attentional.weight
            said = torch.tanh(context @ w[:, :P].T + hidden(states[-1]) @ w[:, P:].T)
            yield word, said, states

    compare(decoder, first, steps(states))
