"""Markov chains (Markov 1913; Shannon 1948): order 1, 2, n with Kneser-Ney, and with skips.

These models count instead of learning by gradients: `fit` reads the texts once. A context after
which nothing was ever seen is a dead end: all its log-probabilities are -inf, search ends the path
there, and a text that goes on has infinite perplexity. Smoothed chains have no dead ends.
"""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from saccade.blocks.sequences import check_prefixes
from saccade.errors import InputError
from saccade.models.ngrams import CHAINS, Chain
from saccade.models.skips import AttentionProduct, Pair, Skips, attention_product

BLOCK = 1 << 22  # numbers of one kind that a prediction holds at a time
MOST = {"vocab_size": 1 << 24, "order": 16, "window": 1024}
MOST_CONTEXTS = 4096  # of a table that is looked at


@dataclass(frozen=True, kw_only=True, slots=True)
class MarkovConfig:
    vocab_size: int  # comes from the data, never from a config file
    order: int = 1  # tokens the next one depends on
    smoothing: Literal["none", "kneser-ney", "modified-kneser-ney"] = "none"
    skips: bool = False  # order 2: every earlier token, paired with the current one, votes
    selective: bool = False  # only pairs that tell something vote
    window: int = 16  # earlier tokens that may vote
    min_gain: float = 0.1  # bits that a pair must tell to be selected

    def __post_init__(self) -> None:
        for name, most in MOST.items():
            value = getattr(self, name)
            if not 1 <= value <= most:
                raise InputError(f"{name} is {value}, it must be from 1 to {most}")
        if not 0 <= self.min_gain < float("inf"):
            raise InputError(f"min_gain is {self.min_gain}, it must be 0 or a positive number")
        if self.skips and self.order != 2:
            raise InputError(f"skips pair two tokens: set order = 2, not {self.order}")
        if self.selective and not self.skips:
            raise InputError("selective chooses among the pairs of skips: set skips = true too")


class Markov(nn.Module):
    """The next token by what followed the same tokens before; counted, not trained."""

    Config = MarkovConfig
    paper = "Markov 1913; Kneser & Ney 1995, Chen & Goodman 1998"
    tasks = ("generate",)
    counts = True  # the trainer calls `fit` once
    default_preset = "kneser-ney"
    PRESETS: ClassVar[dict[str, dict[str, dict[str, Any]]]] = {
        "first": {"model": {"order": 1}},
        "second": {"model": {"order": 2}},
        "kneser-ney": {"model": {"order": 5, "smoothing": "modified-kneser-ney"}},
        "skips": {"model": {"order": 2, "skips": True}},
        "selective": {"model": {"order": 2, "skips": True, "selective": True}},
    }
    limit: int | None = None  # of what it can read
    sight: int | None = None  # of what is, read at once, as decoding has it

    def __init__(self, config: MarkovConfig):
        super().__init__()
        self.config = config
        min_gain = config.min_gain if config.selective else None
        self.reader: Chain | Skips = (
            Skips(config.vocab_size, config.window, config.smoothing, min_gain)
            if config.skips
            else CHAINS[config.smoothing](config.vocab_size, config.order)
        )
        self.length = config.window + 1 if config.skips else config.order  # of a context

    @property
    def entries(self) -> int:
        """How many counts it keeps: what parameters are to other models."""
        return sum(b.numel() for name, b in self.named_buffers() if name.endswith(".counts"))

    def fit(self, sequences: Iterable[Int[np.ndarray, " _"]]) -> None:
        """Count; each sequence is a document, nothing reaches from one into the next."""
        texts = [np.asarray(each, dtype=np.int64) for each in sequences]
        if not any(len(text) > 1 for text in texts):
            raise InputError("nothing to count: no text has two tokens or more")
        ages = np.concatenate([np.arange(len(text)) for text in texts])
        text = np.concatenate(texts)
        self._check(int(text.min()), int(text.max()))
        self.reader.fit(text, ages)

    def forward(
        self, tokens: Int[Tensor, "B T"], carry: "MarkovState | None" = None
    ) -> tuple[Float[Tensor, "B T V"], "MarkovState"]:
        """Log-probabilities of the token after each one, and what the next piece has to know."""
        before = self.start(len(tokens)) if carry is None else carry
        tokens = tokens.to(before.context)
        if tokens.numel():
            self._check(*(int(end) for end in tokens.aminmax()))
        read = torch.cat([before.context, tokens], dim=1)
        contexts = read.unfold(1, self.length, 1)[:, 1:]  # (B, T, L)
        found = self._log_probs(contexts.flatten(0, 1))
        state = MarkovState(read[:, read.shape[1] - self.length :])
        return found.view(*tokens.shape, self.config.vocab_size), state

    def logits(self, hidden: Float[Tensor, "*B V"]) -> Float[Tensor, "*B V"]:
        """Log-probabilities are logits."""
        return hidden

    def start(self, inputs: int, prefix: Sequence[Sequence[int]] | None = None) -> "MarkovState":
        """The state of so many rows, each having read its prefix."""
        prefix = [()] * inputs if prefix is None else prefix
        check_prefixes(prefix, inputs)
        for row in prefix:
            self._check(min(row, default=0), max(row, default=0))
        outside = [self.reader.outside] * self.length
        rows = [(outside + list(row))[-self.length :] for row in prefix]
        device = next(self.buffers()).device
        context = torch.tensor(rows, dtype=torch.long, device=device)
        return MarkovState(context.view(inputs, self.length))

    def step(
        self, token: Int[Tensor, " N"], state: "MarkovState"
    ) -> tuple[Float[Tensor, "N V"], "MarkovState"]:
        found, state = self(token.unsqueeze(1), state)
        return found.squeeze(1), state

    def _log_probs(self, contexts: Int[Tensor, "R L"]) -> Float[Tensor, "R V"]:
        """In blocks: a row may touch every word once for each token of its context."""
        size = self.config.vocab_size
        found = torch.empty(len(contexts), size, device=contexts.device)
        height = max(1, BLOCK // (size * self.length))
        for start in range(0, len(contexts), height):
            rows = slice(start, start + height)
            found[rows] = self.reader.predict(contexts[rows]).log()
        return found

    def _check(self, least: int, most: int) -> None:
        wrong = least if least < 0 else most
        if least < 0 or most >= self.config.vocab_size:
            raise InputError(
                f"token {wrong} is not in the vocabulary of {self.config.vocab_size:,}: the text "
                "was cut by another tokenizer"
            )

    # --- to look at --------------------------------------------------------------------------

    def transitions(self) -> tuple[list[tuple[int, ...]], Float[Tensor, "C V"]]:
        """The transition table: each context of n tokens that was seen, and what follows it.

        Of first order, the rows are all tokens, and dead ends are rows of zeros.
        """
        chain = self._skips().first if self.config.skips else self.reader
        assert isinstance(chain, Chain)
        contexts = chain.contexts()
        if chain.order == 1:
            contexts = torch.arange(self.config.vocab_size).unsqueeze(1)
        if len(contexts) > MOST_CONTEXTS:
            raise InputError(
                f"a table of {len(contexts):,} contexts is too large to look at: at most "
                f"{MOST_CONTEXTS:,}; lower the order or the vocabulary"
            )
        found = chain.predict(contexts.to(next(self.buffers()).device))
        return [tuple(row) for row in contexts.tolist()], found.float().cpu()

    def votes(self, tokens: Sequence[int]) -> Float[Tensor, " V"]:
        """Of all pairs (earlier word, last word) of a text, for the next word."""
        return self.ballots(tokens)[1].sum(0)

    def ballots(self, tokens: Sequence[int]) -> tuple[list[int], Float[Tensor, "P V"]]:
        """The earlier words of the window, and the vote of each, paired with the last word."""
        skips = self._skips()
        if not tokens:
            raise InputError("votes are for the word after a text: give at least one word")
        *earlier, current = list(tokens)[-self.length :]
        pairs = self.start(len(earlier), [(word, current) for word in earlier]).context
        return earlier, skips.votes(pairs, skips.first.predict(pairs[:, -1:]))

    def pairs(self) -> list[Pair]:
        """All pairs (earlier, current) that were seen, those that tell most first."""
        return self._skips().table()

    def with_mask(self, pairs: Iterable[tuple[int, int]]) -> "Markov":
        """The same counts with a mask set by hand: only these pairs (earlier, current) vote."""
        other = copy.deepcopy(self)
        other._skips().keep(pairs)
        return other

    def attention(self, tokens: Sequence[int]) -> AttentionProduct:
        """The votes at each word of a text as matrix products: queries, stack of masks, values."""
        return attention_product(self._skips(), tokens)

    def _skips(self) -> Skips:
        if not isinstance(self.reader, Skips):
            raise InputError("only a chain with skips has pairs that vote: set skips = true")
        return self.reader


@dataclass(frozen=True, slots=True)
class MarkovState:
    """The last tokens each row has read, newest last; before its beginning, a number too high."""

    context: Int[Tensor, "N L"]

    @property
    def rows(self) -> int:
        return len(self.context)

    def select(self, rows: Int[Tensor, " N"]) -> "MarkovState":
        return MarkovState(self.context[rows.to(self.context.device)])

    def join(self, other: "MarkovState") -> "MarkovState":
        return MarkovState(torch.cat([self.context, other.context]))
