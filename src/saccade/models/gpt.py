"""GPT (2018) and GPT-2: the Transformer's decoder alone. Read top-down: config, model, state."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.blocks.activations import ACTIVATIONS
from saccade.blocks.attention import Parts, SelfAttention
from saccade.blocks.caches import KeyValueCache
from saccade.blocks.dropout import Dropout
from saccade.blocks.embeddings import TiedOutput, TokenEmbedding
from saccade.blocks.feedforward import FeedForward
from saccade.blocks.layers import SelfAttentionLayer
from saccade.blocks.masks import causal_mask
from saccade.blocks.norms import PLACEMENTS, LayerNorm
from saccade.blocks.positions import Learned
from saccade.blocks.sequences import check_prefixes, padded_in_front
from saccade.blocks.swift import SelfStep, read_one
from saccade.models.limits import check_rates, check_sizes

INIT_STD = 0.02  # Radford et al. 2018, 4.1


@dataclass(frozen=True, kw_only=True, slots=True)
class GPTConfig:
    vocab_size: int  # comes from the data, never from a config file
    dim: int = 128
    layers: int = 4
    heads: int = 4
    ffn_dim: int | None = None  # unset: 4 times dim
    context: int = 256  # the longest text it can look at
    dropout: float = 0.1  # of embeddings and sublayers
    attention_dropout: float = 0.0  # more than 0 is slow: it needs the weights themselves
    placement: Literal["post", "pre"] = "pre"  # of the norms: GPT 2018, GPT-2
    activation: Literal["relu", "gelu", "gelu-tanh", "silu", "tanh"] = "gelu-tanh"
    bias: bool = True  # of every linear map and norm
    scaled_init: bool = True  # GPT-2: what is added to the residual sum starts smaller with depth

    def __post_init__(self) -> None:
        check_sizes(self, "dim", "layers", "heads", "ffn_dim", "context")
        check_rates(self, "dropout", "attention_dropout")


def _gpt2(dim: int, layers: int, heads: int) -> dict[str, dict[str, Any]]:
    """Radford et al. 2019, table 2."""
    sizes = {"dim": dim, "layers": layers, "heads": heads, "context": 1024}
    return {"model": {**sizes, "attention_dropout": 0.1}}


class GPT(nn.Module):
    """A decoder without a source: predicts each token from those before it."""

    Config = GPTConfig
    paper = "Radford et al. 2018, Improving Language Understanding; 2019, Language Models (GPT-2)"
    tasks = ("generate",)
    default_preset = "nano"
    PRESETS: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {
        "nano": {
            "model": {"dim": 128, "layers": 4, "heads": 4},
            "train": {"batch_tokens": 1024, "peak_rate": 3e-3},  # updates count more
        },
        "gpt": {
            "model": {
                "dim": 768, "layers": 12, "heads": 12, "context": 512, "placement": "post",
                "scaled_init": False, "attention_dropout": 0.1,
            },
        },
        "gpt2": _gpt2(768, 12, 12),
        "gpt2-medium": _gpt2(1024, 24, 16),
        "gpt2-large": _gpt2(1280, 36, 20),
        "gpt2-xl": _gpt2(1600, 48, 25),
    }  # fmt: skip
    alignment_layers: ClassVar[list[str]] = []  # there is no source

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.embedding = TokenEmbedding(config.vocab_size, config.dim, scale=1.0)
        self.positions = Learned(config.dim, config.context)
        self.dropout = Dropout(config.dropout)
        self.layers: Any = nn.ModuleList(_layer(config) for _ in range(config.layers))
        self.norm = PLACEMENTS[config.placement].final_norm(config.dim, _norm(config))
        self.output = TiedOutput(self.embedding)
        self._initialise()

    @property
    def limit(self) -> int | None:
        """The longest text it can look at."""
        return self.config.context

    @property
    def sight(self) -> int | None:
        """The most tokens that read at once are what decoding sees of them."""
        return self.config.context

    @property
    def output_weight(self) -> Float[Tensor, "V D"]:
        return self.embedding.weight

    def forward(
        self,
        tokens: Int[Tensor, "B T"],
        carry: dict[str, Tensor] | None = None,  # noqa: ARG002
    ) -> tuple[Float[Tensor, "B T D"], None]:
        """The last hidden vectors, each having read its token and those before it; no carry."""
        size = tokens.shape[1]
        x = self.dropout(self.embedding(tokens) + self.positions.first(size))
        causal = causal_mask(size, device=tokens.device)[None, None]
        for layer in self.layers:
            x = layer(x, causal)
        return self.norm(x), None

    def logits(self, hidden: Float[Tensor, "*B D"]) -> Float[Tensor, "*B V"]:
        return self.output(hidden)

    def start(self, inputs: int, prefix: Sequence[Sequence[int]] | None = None) -> "GPTState":
        """So many rows; of a prefix, they read what the context has room for before a step."""
        weight = self.embedding.weight
        past = KeyValueCache.empty(len(self.layers), inputs, self.config.heads, weight)
        tokens = torch.empty(inputs, 0, dtype=torch.long, device=weight.device)
        state = GPTState(past, tokens, [layer.swift() for layer in self.layers])
        if prefix is None:
            return state
        check_prefixes(prefix, inputs)
        room = self.config.context - 1
        tokens, counts = padded_in_front(
            [row[max(len(row) - room, 0) :] for row in prefix], weight.device
        )
        return self._extend(tokens, counts, state)[1] if tokens.numel() else state

    def step(
        self, token: Int[Tensor, " N"], state: "GPTState"
    ) -> tuple[Float[Tensor, "N V"], "GPTState"]:
        tokens, counts = token.unsqueeze(1).to(state.tokens.device), None
        if state.past.length == self.config.context:
            tokens, counts, state = self._slid(tokens, state)
        hidden, state = self._extend(tokens, counts, state)
        return self.logits(hidden[:, -1]), state

    def _slid(
        self, tokens: Int[Tensor, "N 1"], state: "GPTState"
    ) -> tuple[Int[Tensor, "N L"], Int[Tensor, " N"], "GPTState"]:
        """Beyond its context a row is its newest tokens, read again: their positions all moved."""
        newest = torch.cat([state.tokens[:, 1:], tokens], dim=1)
        counts = (state.past.ages + 1).clamp(max=self.config.context)
        return newest, counts, self.start(state.rows)

    def _extend(
        self, tokens: Int[Tensor, "N T"], counts: Int[Tensor, " N"] | None, state: "GPTState"
    ) -> tuple[Float[Tensor, "N T D"], "GPTState"]:
        """Read T more tokens; with `counts`, only the last so many of a row are real."""
        size = tokens.shape[1]
        past = state.past.grow(size, counts)
        x = self.embedding(tokens) + past.encode(self.positions, size)
        if size == 1 and not torch.is_grad_enabled():
            x = read_one(state.layers, x, past)
        else:
            mask = past.mask_of(size)
            for number, layer in enumerate(self.layers):
                x = layer.extend(x, number, past, mask)
        read = torch.cat([state.tokens, tokens], dim=1)
        return self.norm(x), GPTState(past, read, state.layers)

    @torch.no_grad()
    def _initialise(self) -> None:
        """N(0, 0.02); in GPT-2 the ends of the residual branches by 1 / sqrt(their number) less."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=INIT_STD)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.embedding.weight, std=INIT_STD)
        if self.config.scaled_init:
            branches = 2 * len(self.layers)
            for layer in self.layers:
                layer.attention.output.weight.div_(math.sqrt(branches))
                layer.ffn.contract.weight.div_(math.sqrt(branches))


@dataclass(frozen=True, slots=True)
class GPTState:
    """What each row has read: its keys and values, and the tokens, to slide beyond the context."""

    past: KeyValueCache
    tokens: Int[Tensor, "N L"]  # newest last, as in the cache
    layers: Sequence[SelfStep]  # what reads one token more

    @property
    def rows(self) -> int:
        return len(self.tokens)

    def select(self, rows: Int[Tensor, " N"]) -> "GPTState":
        past = self.past.select(rows)
        return GPTState(past, self.tokens[rows, self.past.length - past.length :], self.layers)

    def join(self, other: "GPTState") -> "GPTState":
        past = self.past.join(other.past)
        both = [
            nn.functional.pad(state.tokens, (past.length - state.past.length, 0))
            for state in (self, other)
        ]
        return GPTState(past, torch.cat(both), self.layers)


def _layer(config: GPTConfig) -> SelfAttentionLayer:
    parts = Parts(bias=config.bias, dropout=config.attention_dropout)
    attention = SelfAttention(config.dim, config.heads, parts)
    ffn = FeedForward(
        config.dim,
        config.ffn_dim,
        activation=ACTIVATIONS[config.activation],
        output_bias=config.bias,
        input_bias=config.bias,
    )
    residual = partial(PLACEMENTS[config.placement], config.dim, _norm(config), config.dropout)
    return SelfAttentionLayer(attention, ffn, residual)


def _norm(config: GPTConfig) -> Callable[[int], nn.Module]:
    return partial(LayerNorm, bias=config.bias)
