"""Recurrent translation: Sutskever et al. 2014, Bahdanau et al. 2015, Luong et al. 2015.

An encoder makes a memory of the source. A recurrent decoder reads the target word by word and, in
one of two orders, looks at the memory. Every part is chosen by the config.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.blocks.cells import CELLS
from saccade.blocks.dropout import Dropout, current_update, keyed_uniform
from saccade.blocks.embeddings import TiedOutput, TokenEmbedding
from saccade.blocks.encoders import ENCODERS, EncoderSizes
from saccade.blocks.products import Linear
from saccade.blocks.recurrent_attention import (
    ATTENTIONS,
    PROJECTIONS,
    WEIGHTINGS,
    Hard,
    NoAttention,
    RecurrentAttention,
)
from saccade.blocks.recurrent_decoders import (
    BahdanauDecoder,
    DecoderSizes,
    InputFeedingDecoder,
    Look,
    LuongDecoder,
    RecurrentDecoder,
    Rows,
)
from saccade.blocks.reinforce import Choice
from saccade.blocks.scheduled import SAMPLINGS
from saccade.blocks.scores import score_part
from saccade.blocks.sequences import Padded, check_prefixes
from saccade.blocks.source_memory import SourceMemory
from saccade.config import find, fitting, part
from saccade.errors import InputError
from saccade.models.limits import check_rates, check_sizes

Part = str | dict[str, Any]  # a name, or a table with a name and parameters


@dataclass(frozen=True, kw_only=True, slots=True)
class Seq2SeqConfig:
    source_vocab_size: int  # these two come from the data, never from a config file
    target_vocab_size: int
    dim: int = 256  # of a cell, in each direction
    embedding_dim: int | None = None  # as wide as a cell when absent
    layers: int = 1  # of the encoder
    decoder_layers: int | None = None  # as many as the encoder's when absent
    cell: str = "gru"  # rnn | lstm | gru | gru-reset-before
    norm: Literal["none", "layer", "rms"] = "none"  # inside the cells
    encoder: Part = "recurrent"  # recurrent | convolutional (kernel)
    bidirectional: bool = True
    attention: Part = "global"  # none | global | local-monotonic, local-predictive (half_width)
    score: Part = "additive"  # see saccade.blocks.scores
    # soft | hard (entropy, discount). A discount of 0, the default, is unbiased only where a choice
    # changes no later state: in Luong's order without input feeding; elsewhere 1 is, and noisier.
    weighting: Part = "soft"
    memory: Literal["shared", "apart", "unchanged"] = "shared"  # maps to keys and values: 1, 2, 0
    order: Literal["bahdanau", "luong"] = "bahdanau"
    input_feeding: bool = True  # of Luong's order
    sampling: Part = "none"  # none | linear | exponential | inverse-sigmoid: own words in training
    dropout: float = 0.2  # of embeddings, between layers, before the output

    def __post_init__(self) -> None:
        check_sizes(self, "dim", "embedding_dim", "layers", "decoder_layers")
        check_rates(self, "dropout")


class Seq2Seq(nn.Module):
    """Recurrent encoder and decoder; the output shares the target embedding's weights."""

    Config = Seq2SeqConfig
    paper = (
        "Sutskever et al. 2014; Bahdanau et al. 2015, Neural Machine Translation by Jointly "
        "Learning to Align and Translate; Luong et al. 2015"
    )
    tasks = ("translate",)
    default_preset = "tiny"
    limit = None  # the longest sequence it can read: any
    PRESETS: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {
        "tiny": {"model": {"dim": 192}},
        "small": {"model": {"dim": 256}},
    }

    def __init__(self, config: Seq2SeqConfig, *, joint: bool):
        super().__init__()
        self.config = config
        find(CELLS, config.cell, what="model.cell")
        width = config.dim if config.embedding_dim is None else config.embedding_dim
        self.target_embedding = TokenEmbedding(config.target_vocab_size, width)
        self.source_embedding = (
            self.target_embedding if joint else TokenEmbedding(config.source_vocab_size, width)
        )
        self.encoder = _encoder(config, width)
        self.attention = _attention(config, self.encoder.memory_dim)
        self.decoder = _decoder(config, width, self.attention.context_dim)
        self.bridges = nn.ModuleList(
            Linear(self.encoder.summary_dim, config.dim) for _ in self.decoder.stack.cells
        )
        name, parameters = part(config.sampling, "model.sampling")
        schedule = find(SAMPLINGS, name, what="model.sampling")
        self.schedule = schedule(**fitting(schedule, parameters, "model.sampling"))
        self.dropout = Dropout(config.dropout)
        self.output = TiedOutput(self.target_embedding)

    @property
    def alignment_layers(self) -> list[str]:
        """The attentions from target to source, by name."""
        return ["attention"] if isinstance(self.attention, RecurrentAttention) else []

    @property
    def hard(self) -> Hard | None:
        """What draws where to look while it learns, if anything does."""
        weighting = getattr(self.attention, "weighting", None)
        return weighting if isinstance(weighting, Hard) else None

    @property
    def output_weight(self) -> Float[Tensor, "V E"]:
        return self.target_embedding.weight

    def logits(self, hidden: Float[Tensor, "*B E"]) -> Float[Tensor, "*B V"]:
        return self.output(hidden)

    # --- learning: a whole target at once ---

    def forward(self, source: Padded, target: Int[Tensor, "B T"]) -> Float[Tensor, "B T E"]:
        """What precedes the output layer, after each target word and those before it."""
        return self.unroll(source, target)[0]

    def unroll(
        self, source: Padded, target: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T E"], Choice | None]:
        """The same, and what hard attention drew on the way, if anything."""
        sources, rows = self._encode(source)
        look = partial(sources.look, self.attention)
        if self.training and (truth := self.schedule(current_update())) < 1:
            return self._sampled(target, rows, look, truth)
        words = self.dropout(self.target_embedding(target))
        hidden, choice = self.decoder.unroll(words, rows, look)
        return self.dropout(hidden), choice

    def _sampled(
        self, target: Int[Tensor, "B T"], rows: Rows, look: Look, truth: float
    ) -> tuple[Float[Tensor, "B T E"], Choice | None]:
        """Step by step: after the first, a word is the true one with this probability."""
        places = torch.empty(target.shape, dtype=torch.float64, device=target.device)
        true = keyed_uniform(places) < truth
        said: list[Tensor] = []
        choices: list[Choice | None] = []
        token = target[:, 0]
        for step in range(target.shape[1]):
            if step:
                own = self.logits(said[-1].detach()).argmax(-1)
                token = torch.where(true[:, step], target[:, step], own)
            word = self.dropout(self.target_embedding(token))
            hidden, rows, choice = self.decoder.step(word, rows, look)
            said.append(self.dropout(hidden))
            choices.append(choice)
        return torch.stack(said, dim=1), Choice.joined(choices)

    def _encode(self, source: Padded) -> tuple[SourceMemory, Rows]:
        """What each source is to be remembered by, and the decoder's first state."""
        if not source.tokens.shape[1]:  # something to look at, that nobody may look at
            source = Padded(F.pad(source.tokens, (0, 1)), source.lengths)
        x = self.dropout(self.source_embedding(source.tokens))
        memory, summaries = self.encoder(x, source.lengths)
        keys, values = self.attention.prepare(memory)
        sources = SourceMemory.of(keys[None, :, None], values[None, :, None], source.mask)
        # A deeper decoder's upper layers start as the top does, a shallower one's as the upper do.
        higher = [summaries[-1]] * (len(self.bridges) - len(summaries))
        given = [*summaries, *higher][-len(self.bridges) :]
        hidden = [bridge(x).tanh() for bridge, x in zip(self.bridges, given, strict=True)]
        return sources, self.decoder.begin(hidden)

    # --- decoding: a word at a time ---

    def start(
        self, source: Padded, prefix: Sequence[Sequence[int]] | None = None
    ) -> "Seq2SeqState":
        memory, rows = self._encode(source)
        state = Seq2SeqState(rows, memory)
        return state if prefix is None else self._read(prefix, state)

    def step(
        self, token: Int[Tensor, " N"], state: "Seq2SeqState"
    ) -> tuple[Float[Tensor, "N V"], "Seq2SeqState"]:
        word = self.target_embedding(token.to(state.read.ages.device))  # search works on the CPU
        look = partial(state.memory.look, self.attention)
        hidden, rows, _ = self.decoder.step(word, state.read, look)
        return self.logits(hidden), Seq2SeqState(rows, state.memory)

    def _read(self, prefix: Sequence[Sequence[int]], state: "Seq2SeqState") -> "Seq2SeqState":
        """Read every row's prefix; one that has ended waits for the longer ones."""
        check_prefixes(prefix, state.rows)
        look, rows = partial(state.memory.look, self.attention), state.read
        device = rows.ages.device
        lengths = torch.tensor([len(row) for row in prefix], device=device)
        for place in range(int(lengths.max())):
            token = torch.tensor([row[place] if place < len(row) else 0 for row in prefix])
            word = self.target_embedding(token.to(device))
            _, after, _ = self.decoder.step(word, rows, look)
            rows = rows.unless(place < lengths, after)
        return Seq2SeqState(rows, state.memory)


@dataclass(frozen=True, slots=True)
class Seq2SeqState:
    """What the decoder has read, by row, and the sources the rows translate."""

    read: Rows
    memory: SourceMemory

    @property
    def rows(self) -> int:
        return len(self.read.ages)

    def select(self, rows: Int[Tensor, " N"]) -> "Seq2SeqState":
        return Seq2SeqState(self.read.select(rows), self.memory.select(rows))

    def join(self, other: "Seq2SeqState") -> "Seq2SeqState":
        return Seq2SeqState(self.read.join(other.read), self.memory.join(other.memory))


# --- from the config to the parts -----------------------------------------------------------------


def _encoder(config: Seq2SeqConfig, width: int) -> Any:
    name, parameters = part(config.encoder, "model.encoder")
    kind = find(ENCODERS, name, what="model.encoder")
    sizes = EncoderSizes(
        input_dim=width, dim=config.dim, layers=config.layers, cell=config.cell,
        bidirectional=config.bidirectional, norm=config.norm, dropout=config.dropout,
    )  # fmt: skip
    return kind(sizes, **fitting(kind, parameters, "model.encoder"))


def _attention(config: Seq2SeqConfig, memory_dim: int) -> RecurrentAttention | NoAttention:
    kind, parameters = score_part(config.score)
    score = partial(kind, **parameters)
    weighting = _made(WEIGHTINGS, config.weighting, "model.weighting", config.dim)
    window = _made(ATTENTIONS, config.attention, "model.attention", config.dim)
    if isinstance(window, NoAttention):
        return window
    projection = PROJECTIONS[config.memory](memory_dim, config.dim)
    try:
        return RecurrentAttention(
            config.dim, projection, score=score, window=window, weighting=weighting
        )
    except InputError as error:  # widths that the score cannot compare
        raise InputError(f"model.score and model.memory={config.memory}: {error}") from None


def _decoder(config: Seq2SeqConfig, width: int, context_dim: int) -> RecurrentDecoder:
    luong = InputFeedingDecoder if config.input_feeding else LuongDecoder
    kind = {"bahdanau": BahdanauDecoder, "luong": luong}[config.order]
    layers = config.layers if config.decoder_layers is None else config.decoder_layers
    sizes = DecoderSizes(
        word_dim=width, dim=config.dim, context_dim=context_dim, cell=config.cell, layers=layers,
        norm=config.norm, dropout=config.dropout,
    )  # fmt: skip
    return kind(sizes)


def _made(table: dict[str, type[nn.Module]], value: Part, where: str, dim: int) -> nn.Module:
    name, parameters = part(value, where)
    kind = find(table, name, what=where)
    return kind(dim, **fitting(kind, parameters, where))
