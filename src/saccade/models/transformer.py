"""The Transformer (Vaswani et al. 2017). Read top-down: config, model, layers, decoding state."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from saccade.blocks.activations import ACTIVATIONS
from saccade.blocks.attention import CrossAttention, Parts, SelfAttention
from saccade.blocks.caches import KeyValueCache, LayerCache
from saccade.blocks.dropout import Dropout
from saccade.blocks.embeddings import TiedOutput, TokenEmbedding
from saccade.blocks.feedforward import FeedForward
from saccade.blocks.layers import SelfAttentionLayer
from saccade.blocks.masks import causal_mask
from saccade.blocks.norms import NORMS, PLACEMENTS, Placement
from saccade.blocks.positions import POSITIONS
from saccade.blocks.scores import score_part
from saccade.blocks.sequences import Padded, check_prefixes, padded_in_front
from saccade.blocks.source_memory import SourceMemory
from saccade.blocks.swift import around, cross_step, read_one, self_step, swift
from saccade.errors import InputError
from saccade.models.limits import check_rates, check_sizes

# The sources, x (N, D), the layer's cache, mask: the layer's output.
DecoderStep = Callable[[SourceMemory, Tensor, LayerCache, Tensor | None], Tensor]


@dataclass(frozen=True, kw_only=True, slots=True)
class TransformerConfig:
    source_vocab_size: int  # these two come from the data, never from a config file
    target_vocab_size: int
    dim: int = 128
    layers: int = 4  # of the encoder and of the decoder
    heads: int = 4
    ffn_dim: int = 256
    dropout: float = 0.1  # of embeddings and sublayers
    attention_dropout: float = 0.0
    norm: Literal["layer", "rms"] = "layer"  # batch norm over time knows no rows of different ages
    placement: Literal["post", "pre", "output"] = "pre"
    position: Literal["sinusoidal", "sinusoidal-halves", "learned", "index", "circle"] = (
        "sinusoidal"
    )
    limit: int = 1024  # of learned positions; the others extend
    score: str | dict[str, Any] = "scaled-dot"  # a name, or a table with its parameters
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "tanh"] = "relu"
    ffn_dropout: float = 0.0
    bias: bool = False  # of attention and the second feed-forward map

    def __post_init__(self) -> None:
        check_sizes(self, "dim", "layers", "heads", "ffn_dim", "limit")
        check_rates(self, "dropout", "attention_dropout", "ffn_dropout")


class Transformer(nn.Module):
    """Encoder and decoder; embeddings are shared with the output, and by both if `joint`."""

    Config = TransformerConfig
    paper = "Vaswani et al. 2017, Attention Is All You Need"
    tasks = ("translate",)
    default_preset = "tiny"
    PRESETS: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {
        "tiny": {
            "model": {"dim": 128, "layers": 4, "heads": 4, "ffn_dim": 256},
            "train": {"optimizer": {"name": "adamw", "weight_decay": 0.1}},
        },
        "small": {
            "model": {"dim": 256, "layers": 3, "heads": 4, "ffn_dim": 1024},
            "train": {"peak_rate": 3e-3, "optimizer": {"name": "adamw", "weight_decay": 0.1}},
        },
        "base": {
            "model": {
                "dim": 512, "layers": 6, "heads": 8, "ffn_dim": 2048, "placement": "post",
                "bias": True,
            },
            "train": {"schedule": "paper", "warmup": 4000, "batch_tokens": 4096},
        },
        "big": {
            "model": {
                "dim": 1024, "layers": 6, "heads": 16, "ffn_dim": 4096, "placement": "post",
                "bias": True, "dropout": 0.3,
            },
            "train": {"schedule": "paper", "warmup": 4000, "batch_tokens": 4096},
        },
    }  # fmt: skip

    def __init__(self, config: TransformerConfig, *, joint: bool):
        super().__init__()
        self.config = config
        placement = PLACEMENTS[config.placement]
        self.target_embedding = TokenEmbedding(config.target_vocab_size, config.dim)
        self.source_embedding = (
            self.target_embedding if joint else TokenEmbedding(config.source_vocab_size, config.dim)
        )
        self.positions = POSITIONS[config.position](config.dim, config.limit)
        self.dropout = Dropout(config.dropout)
        self.encoder: Any = nn.ModuleList(EncoderLayer(config) for _ in range(config.layers))
        self.encoder_norm = placement.final_norm(config.dim, NORMS[config.norm])
        self.decoder: Any = nn.ModuleList(DecoderLayer(config) for _ in range(config.layers))
        self.decoder_norm = placement.final_norm(config.dim, NORMS[config.norm])
        self.output = TiedOutput(self.target_embedding)

    @property
    def alignment_layers(self) -> list[str]:
        """The attentions from target to source, by name."""
        return [f"decoder.{number}.cross_attention" for number in range(len(self.decoder))]

    @property
    def source_layers(self) -> list[str]:
        """The attentions within the source, by name."""
        return [f"encoder.{number}.attention" for number in range(len(self.encoder))]

    @property
    def limit(self) -> int | None:
        """The longest sequence it can read; None if there is none."""
        return self.positions.limit

    @property
    def output_weight(self) -> Float[Tensor, "V D"]:
        """The output projection is the target embedding (section 3.4)."""
        return self.target_embedding.weight

    def encode(self, source: Padded) -> Float[Tensor, "B S D"]:
        x = self.source_embedding(source.tokens) + self.positions.first(source.tokens.shape[1])
        x, mask = self.dropout(x), source.mask
        for layer in self.encoder:
            x = layer(x, mask)
        return self.encoder_norm(x)

    def forward(self, source: Padded, target: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """The decoder's last hidden vectors, each having read its token and those before it."""
        memory, mask = self.encode(source), source.mask
        x = self.target_embedding(target) + self.positions.first(target.shape[1])
        x, causal = self.dropout(x), causal_mask(target.shape[1], device=target.device)
        for layer in self.decoder:
            x = layer(x, causal, memory, mask)
        return self.decoder_norm(x)

    def logits(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        return self.output(hidden)

    def start(
        self, source: Padded, prefix: Sequence[Sequence[int]] | None = None
    ) -> "TransformerState":
        memory = self.encode(source)
        layers: list[Any] = list(self.decoder)
        sources = SourceMemory.of(
            *_stack([layer.cross_attention.project(memory) for layer in layers]), source.mask
        )
        nothing = memory[:, :0]
        past = KeyValueCache.of(*_stack([layer.attention.project(nothing)[1:] for layer in layers]))
        steps = [layer.swift(number, sources) for number, layer in enumerate(layers)]
        state = TransformerState(past, sources, steps)
        return state if prefix is None else self._read(prefix, state)

    def step(
        self, token: Int[Tensor, " N"], state: "TransformerState"
    ) -> tuple[Float[Tensor, "N V"], "TransformerState"]:
        token = token.to(state.past.ages.device)  # search works on the CPU
        hidden, state = self._extend(token.unsqueeze(1), None, state)
        return self.logits(hidden.squeeze(1)), state

    def _read(
        self, prefix: Sequence[Sequence[int]], state: "TransformerState"
    ) -> "TransformerState":
        """Read every row's prefix at once: shorter ones are padded in front."""
        check_prefixes(prefix, state.rows)
        tokens, counts = padded_in_front(prefix, state.past.ages.device)
        return self._extend(tokens, counts, state)[1] if tokens.numel() else state

    def _extend(
        self,
        tokens: Int[Tensor, "N T"],
        counts: Int[Tensor, " N"] | None,
        state: "TransformerState",
    ) -> tuple[Float[Tensor, "N T D"], "TransformerState"]:
        """Read T more tokens; with `counts`, only the last so many of a row are real."""
        size = tokens.shape[1]
        past = state.past.grow(size, counts)
        x = self.target_embedding(tokens) + past.encode(self.positions, size)
        if size == 1 and not torch.is_grad_enabled():
            x = read_one([partial(step, state.memory) for step in state.layers], x, past)
        else:
            mask = past.mask_of(size)
            for number, layer in enumerate(self.decoder):
                x = layer.extend(x, number, past, mask, state.memory)
        return self.decoder_norm(x), replace(state, past=past)


class EncoderLayer(SelfAttentionLayer):
    """Self-attention, then feed-forward; each in its residual connection (section 3.1)."""

    def __init__(self, config: TransformerConfig):
        attention = SelfAttention(config.dim, config.heads, _attention_parts(config))
        super().__init__(attention, _feed_forward(config), partial(_residual, config))


class DecoderLayer(nn.Module):
    """Masked self-attention, attention to the source, feed-forward (section 3.1)."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        parts = _attention_parts(config)
        self.attention = SelfAttention(config.dim, config.heads, parts)
        self.cross_attention = CrossAttention(config.dim, config.heads, parts)
        self.ffn = _feed_forward(config)
        self.around_attention = _residual(config)
        self.around_cross_attention = _residual(config)
        self.around_ffn = _residual(config)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        causal: Bool[Tensor, "T T"],
        memory: Float[Tensor, "B S D"],
        mask: Bool[Tensor, "B 1 1 S"] | None,
    ) -> Float[Tensor, "B T D"]:
        keys, values = self.cross_attention.project(memory)
        x = self.around_attention(x, lambda h: self.attention(h, causal[None, None]))
        x = self.around_cross_attention(x, lambda h: self.cross_attention(h, keys, values, mask))
        return self.around_ffn(x, self.ffn)

    def extend(
        self,
        x: Float[Tensor, "N T D"],
        number: int,
        past: KeyValueCache,
        mask: Bool[Tensor, "#N 1 #T L"] | None,
        memory: SourceMemory,
    ) -> Float[Tensor, "N T D"]:
        """The same for T more tokens, with the past in a cache and the source projected before."""
        x = self.around_attention(x, lambda h: past.attend(number, self.attention, h, mask))
        x = self.around_cross_attention(x, lambda h: memory.attend(number, self.cross_attention, h))
        return self.around_ffn(x, self.ffn)

    def swift(self, number: int, sources: SourceMemory) -> DecoderStep:
        """`extend` for one token a row, by plain functions."""
        attend = self_step(self.attention)
        look = cross_step(self.cross_attention, number, sources)
        around_attention = around(self.around_attention)
        around_cross_attention = around(self.around_cross_attention)
        around_ffn, ffn = around(self.around_ffn), swift(self.ffn)

        def step(memory: SourceMemory, x: Tensor, cache: LayerCache, mask: Tensor | None) -> Tensor:
            x = around_attention(x, lambda h: attend(h, cache, mask))
            x = around_cross_attention(x, lambda h: look(h, memory))
            return around_ffn(x, ffn)

        return step


@dataclass(frozen=True, slots=True)
class TransformerState:
    """What the decoder has read, by row, and the sources the rows translate."""

    past: KeyValueCache
    memory: SourceMemory
    layers: Sequence[DecoderStep]  # what reads one token more

    @property
    def rows(self) -> int:
        return len(self.past.ages)

    def select(self, rows: Int[Tensor, " N"]) -> "TransformerState":
        return TransformerState(self.past.select(rows), self.memory.select(rows), self.layers)

    def join(self, other: "TransformerState") -> "TransformerState":
        past, memory = self.past.join(other.past), self.memory.join(other.memory)
        return TransformerState(past, memory, self.layers)


def _stack(layers: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The keys of all layers, and the values."""
    keys, values = zip(*layers, strict=True)
    return torch.stack(keys), torch.stack(values)


def _attention_parts(config: TransformerConfig) -> Parts:
    kind, parameters = score_part(config.score)
    if kind.depends_on_position:
        raise InputError(
            f"model.score = {config.score!r} looks at places, not at keys, and the places of a "
            "decoder's own past move in its cache; take a score of keys, such as scaled-dot"
        )
    score = partial(kind, **parameters)
    return Parts(score=score, bias=config.bias, dropout=config.attention_dropout)


def _feed_forward(config: TransformerConfig) -> FeedForward:
    return FeedForward(
        config.dim,
        config.ffn_dim,
        activation=ACTIVATIONS[config.activation],
        dropout=config.ffn_dropout,
        output_bias=config.bias,
    )


def _residual(config: TransformerConfig) -> Placement:
    return PLACEMENTS[config.placement](config.dim, NORMS[config.norm], config.dropout)
