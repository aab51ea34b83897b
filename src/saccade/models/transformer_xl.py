"""Transformer-XL (Dai et al. 2019). Read top-down: config, model, layer, decoding state."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.blocks.activations import ACTIVATIONS
from saccade.blocks.caches import KeyValueCache, LayerCache
from saccade.blocks.dropout import Dropout
from saccade.blocks.embeddings import TiedOutput, TokenEmbedding
from saccade.blocks.feedforward import FeedForward
from saccade.blocks.masks import causal_mask, combine, window_mask
from saccade.blocks.norms import PLACEMENTS, LayerNorm
from saccade.blocks.positions import Sinusoidal
from saccade.blocks.relative import RelativeAttention
from saccade.blocks.sequences import SEGMENT, check_prefixes, padded_in_front
from saccade.blocks.swift import SelfStep, around, read_one, swift
from saccade.errors import InputError
from saccade.models.limits import MOST, check_rates, check_sizes


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerXLConfig:
    vocab_size: int  # comes from the data, never from a config file
    dim: int = 128
    layers: int = 4
    heads: int = 4
    ffn_dim: int | None = None  # unset: 4 times dim
    memory: int = 64  # positions before a segment that it can look at
    dropout: float = 0.1  # of embeddings and sublayers
    attention_dropout: float = 0.0
    placement: Literal["post", "pre"] = "post"  # of the norms: the paper's, or without warm-up
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "tanh"] = "relu"

    def __post_init__(self) -> None:
        check_sizes(self, "dim", "layers", "heads", "ffn_dim")
        check_rates(self, "dropout", "attention_dropout")
        if not 0 <= self.memory <= MOST["context"]:
            raise InputError(f"memory is {self.memory}, it must be from 0 to {MOST['context']}")


class TransformerXL(nn.Module):
    """A Transformer that remembers the segments before, and sees distances instead of places.

    `memory` may be set to another length after training: it holds for what is read from then on.
    """

    Config = TransformerXLConfig
    paper = (
        "Dai et al. 2019, Transformer-XL: Attentive Language Models beyond a Fixed-Length Context"
    )
    tasks = ("generate",)
    default_preset = "nano"
    PRESETS: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {
        "nano": {
            "model": {"dim": 128, "layers": 4, "heads": 4, "placement": "pre"},
            "train": {"batch_tokens": 1024, "peak_rate": 3e-3},  # as GPT's
        },
        "enwik8": {
            "model": {"dim": 512, "layers": 12, "heads": 8, "ffn_dim": 2048, "memory": 512},
        },
        "wikitext103": {
            "model": {"dim": 410, "layers": 16, "heads": 10, "ffn_dim": 2100, "memory": 150},
        },
    }
    alignment_layers: ClassVar[list[str]] = []  # there is no source
    limit: int | None = None  # of what it can read

    def __init__(self, config: TransformerXLConfig):
        super().__init__()
        self.config, self.memory = config, config.memory
        distances = Sinusoidal(config.dim)
        self.embedding = TokenEmbedding(config.vocab_size, config.dim)
        self.dropout = Dropout(config.dropout)
        self.layers: Any = nn.ModuleList(
            TransformerXLLayer(config, distances) for _ in range(config.layers)
        )
        self.norm = PLACEMENTS[config.placement].final_norm(config.dim, LayerNorm)
        self.output = TiedOutput(self.embedding)

    @property
    def sight(self) -> int | None:
        """The most tokens that read at once are what decoding sees: a token and its memory."""
        return self.memory + 1

    @property
    def output_weight(self) -> Float[Tensor, "V D"]:
        return self.embedding.weight

    def forward(
        self, tokens: Int[Tensor, "B T"], carry: dict[str, Tensor] | None = None
    ) -> tuple[Float[Tensor, "B T D"], dict[str, Tensor]]:
        """The last hidden vectors of a segment; carry: what each layer read last, its memory."""
        x, kept = self.dropout(self.embedding(tokens)), {}
        for number, layer in enumerate(self.layers):
            memory = x[:, :0] if carry is None else _last(carry[f"memory{number}"], self.memory)
            x, read = layer(x, memory)
            kept[f"memory{number}"] = _last(read, self.memory).detach()
        return self.norm(x), kept

    def logits(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        return self.output(hidden)

    def start(
        self, inputs: int, prefix: Sequence[Sequence[int]] | None = None
    ) -> "TransformerXLState":
        weight = self.embedding.weight
        state = TransformerXLState(
            KeyValueCache.empty(len(self.layers), inputs, self.config.heads, weight),
            [layer.swift() for layer in self.layers],
        )
        if prefix is None:
            return state
        check_prefixes(prefix, inputs)
        tokens, left = padded_in_front(prefix, weight.device)
        later = tokens.shape[1]
        for segment in tokens.split(SEGMENT, dim=1):
            size = segment.shape[1]
            later -= size
            counts = (left - later).clamp(0, size)  # shorter rows begin in a later segment
            left = left - counts
            state = self._extend(segment, counts, state)[1]
        return state

    def step(
        self, token: Int[Tensor, " N"], state: "TransformerXLState"
    ) -> tuple[Float[Tensor, "N V"], "TransformerXLState"]:
        """As a segment of one token: it looks at itself and at `memory` tokens before."""
        token = token.to(state.past.ages.device)
        hidden, state = self._extend(token.unsqueeze(1), None, state)
        return self.logits(hidden.squeeze(1)), state

    def _extend(
        self,
        tokens: Int[Tensor, "N T"],
        counts: Int[Tensor, " N"] | None,
        state: "TransformerXLState",
    ) -> tuple[Float[Tensor, "N T D"], "TransformerXLState"]:
        """Read T more tokens, one by one or at once; of a row only the last `counts` are real."""
        size = tokens.shape[1]
        past = state.past.newest(self.memory).grow(size, counts)
        x = self.embedding(tokens)
        if size == 1 and not torch.is_grad_enabled():
            x = read_one(state.layers, x, past)
        else:
            window = window_mask(size, self.memory, keys=past.length, device=tokens.device)
            mask = combine(past.mask, window[None, None])
            for number, layer in enumerate(self.layers):
                x = layer.extend(x, number, past, mask)
        return self.norm(x), TransformerXLState(past, state.layers)


class TransformerXLLayer(nn.Module):
    """Attention to memory and segment, then feed-forward (eq. of section 3.3, end)."""

    def __init__(self, config: TransformerXLConfig, distances: Sinusoidal):
        super().__init__()
        placement = PLACEMENTS[config.placement]
        self.attention = RelativeAttention(
            config.dim, config.heads, distances, dropout=config.attention_dropout
        )
        self.ffn = FeedForward(
            config.dim,
            config.ffn_dim,
            activation=ACTIVATIONS[config.activation],
            dropout=config.dropout,
        )
        self.around_attention = placement(config.dim, LayerNorm, config.dropout)
        self.around_ffn = placement(config.dim, LayerNorm, config.dropout)

    def forward(
        self, x: Float[Tensor, "B T D"], memory: Float[Tensor, "B M D"]
    ) -> tuple[Float[Tensor, "B T D"], Float[Tensor, "B S D"]]:
        """What it makes of a segment, and all that its attention read: memory and segment."""
        read = memory
        size = x.shape[1]
        mask = causal_mask(size, memory.shape[1] + size, device=x.device)[None, None]

        def attend(h: Tensor) -> Tensor:
            nonlocal read
            read = torch.cat([memory, h], dim=1)
            return self.attention(h, *self.attention.project(read), mask)

        x = self.around_attention(x, attend)
        return self.around_ffn(x, self.ffn), read

    def extend(
        self,
        x: Float[Tensor, "N T D"],
        number: int,
        past: KeyValueCache,
        mask: Bool[Tensor, "#N 1 #T L"] | None,
    ) -> Float[Tensor, "N T D"]:
        """The same with the memory's keys and values in a cache."""

        def attend(h: Tensor) -> Tensor:
            keys, values = past.append(number, *self.attention.project(h))
            return self.attention(h, keys, values, mask)

        return self.around_ffn(self.around_attention(x, attend), self.ffn)

    def swift(self) -> SelfStep:
        """`extend` for one token a row, by plain functions around the attention."""
        attention, ffn = self.attention, swift(self.ffn)
        around_attention, around_ffn = around(self.around_attention), around(self.around_ffn)

        def step(x: Tensor, cache: LayerCache, mask: Tensor | None) -> Tensor:
            def attend(h: Tensor) -> Tensor:
                token = h.unsqueeze(1)
                return attention(token, *cache.write(*attention.project(token)), mask).squeeze(1)

            return around_ffn(around_attention(x, attend), ffn)

        return step


@dataclass(frozen=True, slots=True)
class TransformerXLState:
    """The keys and values of what each row remembers."""

    past: KeyValueCache
    layers: Sequence[SelfStep]  # what reads one token more

    @property
    def rows(self) -> int:
        return len(self.past.ages)

    def select(self, rows: Int[Tensor, " N"]) -> "TransformerXLState":
        return TransformerXLState(self.past.select(rows), self.layers)

    def join(self, other: "TransformerXLState") -> "TransformerXLState":
        return TransformerXLState(self.past.join(other.past), self.layers)


def _last(read: Float[Tensor, "B S D"], size: int) -> Float[Tensor, "B M D"]:
    return read[:, max(read.shape[1] - size, 0) :]
