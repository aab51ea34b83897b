"""Decoders small enough to search by hand: a table, a recurrent and an attentive one."""

from dataclasses import dataclass

import torch
from torch import nn

D, BOS, EOS = 6, 0, 1


@dataclass
class Tape:
    """A state that remembers all it has read: any function of the path can be a decoder."""

    source: torch.Tensor  # (N,)
    read: torch.Tensor  # (N, t)

    @property
    def rows(self):
        return len(self.source)

    def select(self, rows):
        return Tape(self.source[rows], self.read[rows])

    def join(self, other):
        return Tape(torch.cat([self.source, other.source]), torch.cat([self.read, other.read]))


class Table:
    """A Markov chain a sentence, moved on at each step: logits[source, position, token before]."""

    def __init__(self, logits):
        self.logits, self.inputs, self.selects = logits, [], 0  # (B, L, V, V)

    def start(self, inputs, prefix=None):
        assert prefix is None
        return Tape(torch.as_tensor(inputs), torch.zeros(len(inputs), 0, dtype=torch.long))

    def step(self, token, state):
        position = state.read.shape[1]
        read = torch.cat([state.read, token.unsqueeze(1)], dim=1)
        self.inputs.append(read)
        return self.logits[state.source, position, token], Tape(state.source, read)


@dataclass
class Rows:
    """Hidden vectors (N, D), or a cache of all that was read (N, t, D)."""

    values: torch.Tensor

    @property
    def rows(self):
        return len(self.values)

    def select(self, rows):
        return Rows(self.values[rows])

    def join(self, other):
        return Rows(torch.cat([self.values, other.values]))


class TinyRNN(nn.Module):
    def __init__(self, vocabulary=4):
        super().__init__()
        self.embed, self.cell = nn.Embedding(vocabulary, D), nn.GRUCell(D, D)
        self.out = nn.Linear(D, vocabulary)
        self.double()

    def start(self, inputs, prefix=None):
        assert prefix is None
        return Rows(inputs)

    def step(self, token, state):
        h = self.cell(self.embed(token), state.values)
        return 4 * self.out(h), Rows(h)


class TinyAttention(nn.Module):
    def __init__(self, vocabulary=4):
        super().__init__()
        self.embed, self.out = nn.Embedding(vocabulary, D), nn.Linear(D, vocabulary)
        self.double()

    def start(self, inputs, prefix=None):
        assert prefix is None
        return Rows(inputs.unsqueeze(1))

    def step(self, token, state):
        x = self.embed(token).unsqueeze(1)
        past = torch.cat([state.values, x], dim=1)
        context = (x @ past.mT).softmax(-1) @ past
        return self.out((x + context).squeeze(1)), Rows(past)


def rescore(decoder, state, steps):
    """The log-probability of each token of a sequence, read alone."""
    found, token = [], BOS
    with torch.no_grad():
        for following in steps:
            logits, state = decoder.step(torch.tensor([token]), state)
            found.append(logits.log_softmax(-1)[0, following].item())
            token = following
    return found


def steps_of(hypothesis):
    """The tokens with the end, when there is one."""
    return hypothesis.tokens + [EOS] * hypothesis.finished
