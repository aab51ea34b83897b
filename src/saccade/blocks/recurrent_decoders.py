"""Recurrent decoders: in which order a step reads the word, looks at the source and speaks.

`step` is one step of any rows, and the definition. `unroll` is all steps of a known target, where
whatever does not wait for the step before is computed at once; tests hold the two equal.
Widths: E of a word and of what comes out, D of a state, P of a context.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.blocks.cells import CellState
from saccade.blocks.driven import driven
from saccade.blocks.products import Linear
from saccade.blocks.recurrent import Recurrent
from saccade.blocks.reinforce import Choice

# (queries (N, T, D), the numbers of their steps (N, T)) -> (contexts (N, T, P), what was drawn)
Look = Callable[[Tensor, Tensor], tuple[Tensor, Choice | None]]


@dataclass(frozen=True, slots=True)
class Rows:
    """What a recurrent decoder has read so far, a row for each sequence."""

    cells: list[CellState]
    fed: Float[Tensor, "N F"]  # what a step feeds into the next, besides the cells
    ages: Int[Tensor, " N"]  # how many words each row has read

    @property
    def hidden(self) -> Float[Tensor, "N D"]:
        """The state of the top layer."""
        return self.cells[-1][0]

    def select(self, rows: Int[Tensor, " M"]) -> "Rows":
        cells = [tuple(part[rows] for part in cell) for cell in self.cells]
        return Rows(cells, self.fed[rows], self.ages[rows])

    def join(self, other: "Rows") -> "Rows":
        return self._with(other, lambda mine, theirs: torch.cat([mine, theirs]))

    def unless(self, changed: Bool[Tensor, " N"], other: "Rows") -> "Rows":
        """These rows, but those of the other where `changed`."""
        column = changed.unsqueeze(1)
        return self._with(
            other,
            lambda mine, theirs: torch.where(column if mine.ndim > 1 else changed, theirs, mine),
        )

    def _with(self, other: "Rows", combine: Callable[[Tensor, Tensor], Tensor]) -> "Rows":
        pairs = zip(self.cells, other.cells, strict=True)
        cells = [tuple(map(combine, mine, theirs)) for mine, theirs in pairs]
        return Rows(cells, combine(self.fed, other.fed), combine(self.ages, other.ages))


@dataclass(frozen=True, kw_only=True, slots=True)
class DecoderSizes:
    """What every recurrent decoder is built from."""

    word_dim: int
    dim: int
    context_dim: int
    cell: str
    layers: int
    norm: str
    dropout: float  # between layers


class RecurrentDecoder(nn.Module):
    """The contract: `fed_dim`, `step` and `unroll`; what comes out is as wide as a word."""

    fed_dim = 0

    def __init__(self, sizes: DecoderSizes, input_dim: int):
        super().__init__()
        self.stack = Recurrent(
            input_dim, sizes.dim, cell=sizes.cell, layers=sizes.layers, dropout=sizes.dropout,
            norm=sizes.norm,
        )  # fmt: skip

    def begin(self, hidden: list[Float[Tensor, "B D"]]) -> Rows:
        """Nothing read yet; the hidden vector of each layer is given."""
        cells: list[Any] = list(self.stack.cells)
        states = [cell.begin(h) for cell, h in zip(cells, hidden, strict=True)]
        first = hidden[0]
        ages = torch.zeros(len(first), dtype=torch.long, device=first.device)
        return Rows(states, first.new_zeros(len(first), self.fed_dim), ages)

    def step(
        self, word: Float[Tensor, "N E"], rows: Rows, look: Look
    ) -> tuple[Float[Tensor, "N E"], Rows, Choice | None]:
        """Read one more word: what comes out, the rows after it, what attention has drawn."""
        raise NotImplementedError

    def unroll(
        self, words: Float[Tensor, "B T E"], rows: Rows, look: Look
    ) -> tuple[Float[Tensor, "B T E"], Choice | None]:
        """What comes out of T steps."""
        raise NotImplementedError


class BahdanauDecoder(RecurrentDecoder):
    """Bahdanau et al. 2015, A.2: look with the state before; the context enters the cell.

    c = look(s');  s = f(s', [y'; c]);  out = maxout(U [y'; s; c]), pairs of numbers
    """

    def __init__(self, sizes: DecoderSizes):
        super().__init__(sizes, sizes.word_dim + sizes.context_dim)
        inputs = sizes.word_dim + sizes.dim + sizes.context_dim
        self.deep_output = Linear(inputs, 2 * sizes.word_dim)

    def speak(
        self,
        words: Float[Tensor, "*B E"],
        hidden: Float[Tensor, "*B D"],
        contexts: Float[Tensor, "*B P"],
    ) -> Float[Tensor, "*B E"]:
        pairs = self.deep_output(torch.cat([words, hidden, contexts], dim=-1))
        return pairs.unflatten(-1, (-1, 2)).amax(-1)

    def step(
        self, word: Float[Tensor, "N E"], rows: Rows, look: Look
    ) -> tuple[Float[Tensor, "N E"], Rows, Choice | None]:
        context, choice = look(rows.hidden.unsqueeze(1), rows.ages.unsqueeze(1))
        context = context.squeeze(1)
        hidden, cells = self.stack.step(torch.cat([word, context], dim=-1), rows.cells)
        return self.speak(word, hidden, context), Rows(cells, rows.fed, rows.ages + 1), choice

    def unroll(
        self, words: Float[Tensor, "B T E"], rows: Rows, look: Look
    ) -> tuple[Float[Tensor, "B T E"], Choice | None]:
        advance, cells = driven(self.stack, words), rows.cells
        hidden, contexts, choices = [], [], []
        for step in range(words.shape[1]):
            context, choice = look(cells[-1][0].unsqueeze(1), rows.ages.unsqueeze(1) + step)
            cells = advance(step, context.squeeze(1), cells)
            hidden.append(cells[-1][0])
            contexts.append(context)
            choices.append(choice)
        said = self.speak(words, torch.stack(hidden, dim=1), torch.cat(contexts, dim=1))
        return said, Choice.joined(choices)


class LuongDecoder(RecurrentDecoder):
    """Luong et al. 2015, eq. 5: look with the current state, then the attentional vector.

    h = f(h', y');  c = look(h);  out = tanh(W [c; h])
    """

    def __init__(self, sizes: DecoderSizes):
        super().__init__(sizes, sizes.word_dim + self.fed_dim)
        self.attentional = Linear(sizes.context_dim + sizes.dim, sizes.word_dim, bias=False)

    def speak(
        self, hidden: Float[Tensor, "*B D"], contexts: Float[Tensor, "*B P"]
    ) -> Float[Tensor, "*B E"]:
        return self.attentional(torch.cat([contexts, hidden], dim=-1)).tanh()

    def step(
        self, word: Float[Tensor, "N E"], rows: Rows, look: Look
    ) -> tuple[Float[Tensor, "N E"], Rows, Choice | None]:
        hidden, cells = self.stack.step(torch.cat([word, rows.fed], dim=-1), rows.cells)
        context, choice = look(hidden.unsqueeze(1), rows.ages.unsqueeze(1))
        said = self.speak(hidden, context.squeeze(1))
        return said, Rows(cells, said[:, : self.fed_dim], rows.ages + 1), choice

    def unroll(
        self, words: Float[Tensor, "B T E"], rows: Rows, look: Look
    ) -> tuple[Float[Tensor, "B T E"], Choice | None]:
        hidden, _ = self.stack(words, state=rows.cells)
        steps = rows.ages.unsqueeze(1) + torch.arange(words.shape[1], device=words.device)
        contexts, choice = look(hidden, steps)
        return self.speak(hidden, contexts), choice


class InputFeedingDecoder(LuongDecoder):
    """Luong et al. 2015, 3.3: the attentional vector also enters the next step's cell."""

    def __init__(self, sizes: DecoderSizes):
        self.fed_dim = sizes.word_dim  # what comes out, whole
        super().__init__(sizes)

    def unroll(
        self, words: Float[Tensor, "B T E"], rows: Rows, look: Look
    ) -> tuple[Float[Tensor, "B T E"], Choice | None]:
        advance, cells, said = driven(self.stack, words), rows.cells, rows.fed
        everything, choices = [], []
        for step in range(words.shape[1]):
            cells = advance(step, said, cells)
            hidden = cells[-1][0]
            context, choice = look(hidden.unsqueeze(1), rows.ages.unsqueeze(1) + step)
            said = self.speak(hidden, context.squeeze(1))
            everything.append(said)
            choices.append(choice)
        return torch.stack(everything, dim=1), Choice.joined(choices)
