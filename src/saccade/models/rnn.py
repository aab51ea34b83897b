"""The recurrent language model. Read top-down: config, model, decoding state."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.blocks.cells import CellState
from saccade.blocks.dropout import Dropout
from saccade.blocks.embeddings import TiedOutput, TokenEmbedding
from saccade.blocks.products import Linear
from saccade.blocks.recurrent import Recurrent
from saccade.blocks.sequences import SEGMENT, check_prefixes
from saccade.models.limits import check_rates, check_sizes


@dataclass(frozen=True, kw_only=True, slots=True)
class RecurrentLMConfig:
    vocab_size: int  # comes from the data, never from a config file
    cell: str = "lstm"  # rnn, lstm, gru, gru-reset-before, or your own, as file.py:Class
    dim: int = 256  # of the hidden vector
    embedding_dim: int | None = None  # unset: dim
    layers: int = 2
    dropout: float = 0.0  # of embeddings, between layers and of the output (Zaremba et al. 2014)
    norm: Literal["none", "layer", "rms"] = "none"  # inside the cells
    tied: bool = True  # the output is the embedding, by a projection if widths differ

    def __post_init__(self) -> None:
        check_sizes(self, "dim", "embedding_dim", "layers")
        check_rates(self, "dropout")


class RecurrentLM(nn.Module):
    """A stack of recurrent cells: all that was read is in one vector a layer."""

    Config = RecurrentLMConfig
    paper = "Mikolov et al. 2010, Recurrent neural network based language model"
    tasks = ("generate",)
    default_preset = "lstm"
    PRESETS: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {
        "rnn": {"model": {"cell": "rnn"}},
        "gru": {"model": {"cell": "gru"}},
        "lstm": {"model": {"cell": "lstm"}},
    }
    alignment_layers: ClassVar[list[str]] = []  # there is no attention
    limit: int | None = None  # of what it can read
    sight: int | None = None  # of what is, read at once, as decoding has it

    def __init__(self, config: RecurrentLMConfig):
        super().__init__()
        self.config = config
        width = config.dim if config.embedding_dim is None else config.embedding_dim
        self.embedding = TokenEmbedding(config.vocab_size, width)
        self.dropout = Dropout(config.dropout)
        self.recurrent = Recurrent(
            width,
            config.dim,
            cell=config.cell,
            layers=config.layers,
            dropout=config.dropout,
            norm=config.norm,
        )
        self.projection: nn.Module = nn.Identity()
        if config.tied and width != config.dim:
            self.projection = Linear(config.dim, width, bias=False)
        self.output: Any = (
            TiedOutput(self.embedding)
            if config.tied
            else Linear(config.dim, config.vocab_size, bias=False)
        )

    @property
    def output_weight(self) -> Float[Tensor, "V D"]:
        weight: Tensor = self.embedding.weight if self.config.tied else self.output.weight
        return weight

    def forward(
        self, tokens: Int[Tensor, "B T"], carry: dict[str, Tensor] | None = None
    ) -> tuple[Float[Tensor, "B T D"], dict[str, Tensor]]:
        """The vectors that predict, each having read its token and all before; carry: the state."""
        state = None if carry is None else self._unpacked(carry)
        hidden, state = self.recurrent(self.dropout(self.embedding(tokens)), None, state)
        carry = {
            f"layer{layer}.{number}": part.detach()
            for layer, parts in enumerate(state)
            for number, part in enumerate(parts)
        }
        return self.projection(self.dropout(hidden)), carry

    def logits(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        logits: Tensor = self.output(hidden)
        return logits

    def start(self, inputs: int, prefix: Sequence[Sequence[int]] | None = None) -> "RecurrentState":
        state = RecurrentState(inputs, self.recurrent.zero(inputs))
        if prefix is None:
            return state
        check_prefixes(prefix, inputs)
        if not any(map(len, prefix)):
            return state
        device = self.embedding.weight.device
        size = max(map(len, prefix))
        rows = [[*row, *[0] * (size - len(row))] for row in prefix]
        left = torch.tensor([len(row) for row in prefix], device=device)
        layers = state.layers
        for segment in torch.tensor(rows, device=device).split(SEGMENT, dim=1):
            counts = left.clamp(max=segment.shape[1])  # shorter rows end in an earlier segment
            left = left - counts
            layers = self.recurrent(self.embedding(segment), counts, layers)[1]
        return RecurrentState(inputs, layers)

    def step(
        self, token: Int[Tensor, " N"], state: "RecurrentState"
    ) -> tuple[Float[Tensor, "N V"], "RecurrentState"]:
        x = self.embedding(token.to(self.embedding.weight.device))
        hidden, layers = self.recurrent.step(x, state.layers)
        return self.logits(self.projection(hidden)), RecurrentState(state.rows, layers)

    def _unpacked(self, carry: dict[str, Tensor]) -> list[CellState]:
        sizes = [len(parts) for parts in self.recurrent.zero(1)]
        return [
            tuple(carry[f"layer{layer}.{number}"] for number in range(size))
            for layer, size in enumerate(sizes)
        ]


@dataclass(frozen=True, slots=True)
class RecurrentState:
    """The state of every layer, by row; how much a row has read does not matter."""

    rows: int
    layers: list[CellState]

    def select(self, rows: Int[Tensor, " N"]) -> "RecurrentState":
        layers = [tuple(part[rows] for part in parts) for parts in self.layers]
        return RecurrentState(len(rows), layers)

    def join(self, other: "RecurrentState") -> "RecurrentState":
        layers = [
            tuple(torch.cat(parts) for parts in zip(*both, strict=True))
            for both in zip(self.layers, other.layers, strict=True)
        ]
        return RecurrentState(self.rows + other.rows, layers)
