"""Every decoder that the contract tests hold to its promises: tiny, in double precision."""

from dataclasses import dataclass, field
from typing import Any

import torch

from saccade.blocks.sequences import Padded
from saccade.inspection.model_checks import Sourceless
from saccade.models import MODELS

VOCAB, BOS, EOS = 13, 1, 2


@dataclass(frozen=True)
class Variant:
    """A model and what is not its default."""

    model: str
    settings: dict[str, Any] = field(default_factory=dict)
    joint: bool = False

    def build(self, seed: int = 0):
        torch.manual_seed(seed)
        kind, settings = MODELS[self.model], {**TINY[self.model], **self.settings}
        if "generate" in kind.tasks:
            model = Sourceless(kind(kind.Config(vocab_size=VOCAB, **settings)))
        else:
            config = kind.Config(source_vocab_size=VOCAB, target_vocab_size=VOCAB, **settings)
            model = kind(config, joint=self.joint)
        model = model.double().eval()
        with torch.no_grad():  # away from starts such as gamma = 1, beta = 0, which hide mistakes
            for parameter in model.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        return model

    def __str__(self) -> str:
        parts = [self.model, *(f"{key}={value}" for key, value in self.settings.items())]
        return " ".join([*parts, "joint"] if self.joint else parts)


TINY = {
    "transformer": {"dim": 8, "layers": 2, "heads": 2, "ffn_dim": 12},
    "seq2seq": {"dim": 8, "embedding_dim": 6},
    "gpt": {"dim": 8, "layers": 2, "heads": 2, "ffn_dim": 12, "context": 20},
    "rnn": {"dim": 8, "layers": 2},
    "transformer-xl": {"dim": 8, "layers": 2, "heads": 2, "ffn_dim": 12},
}

TRANSFORMERS = [  # together every placement, norm, position and kind of score
    Variant("transformer"),
    Variant(
        "transformer",
        {"placement": "post", "norm": "rms", "position": "learned", "limit": 20, "bias": True},
    ),
    Variant(
        "transformer",
        {"placement": "output", "position": "sinusoidal-halves", "activation": "silu"},
        joint=True,
    ),
    Variant(
        "transformer",
        {
            "norm": "rms",
            "position": "circle",
            "attention_dropout": 0.5,
            "score": {"name": "additive", "hidden_dim": 5},
        },
    ),
]
OTHER_TRANSFORMERS = [  # the rest of the product, for the tests that a new part could break
    Variant("transformer", {"placement": placement, "norm": norm, "position": "index"})
    for placement, norm in [("pre", "rms"), ("post", "layer"), ("output", "rms")]
] + [
    Variant("transformer", {"score": score})
    for score in ["concat", "dot", "general", "gaussian", {"name": "cosine", "sharpening": 3.0}]
]
LOCAL = {"name": "local-predictive", "half_width": 2}
SEQ2SEQS = [  # together every order, attention, weighting, encoder, memory, and the fast paths
    Variant("seq2seq"),
    Variant("seq2seq", {"order": "luong", "score": "general", "cell": "lstm", "layers": 2}),
    Variant(
        "seq2seq",
        {"order": "luong", "input_feeding": False, "score": "dot", "attention": LOCAL},
        joint=True,
    ),
    Variant(
        "seq2seq",
        {
            "attention": {"name": "local-monotonic", "half_width": 1},
            "weighting": "hard",
            "encoder": {"name": "convolutional", "kernel": 3},
            "layers": 2,
            "decoder_layers": 1,
            "memory": "apart",
        },
    ),
    Variant(
        "seq2seq",
        {"attention": "none", "cell": "rnn", "bidirectional": False, "norm": "layer", "layers": 2},
    ),
]
OTHER_SEQ2SEQS = [
    Variant("seq2seq", {"order": "luong", "weighting": "hard", "attention": LOCAL, "score": score})
    for score in ["concat", "scaled-dot", {"name": "location", "limit": 4}]
] + [
    Variant(
        "seq2seq", {"cell": "gru-reset-before", "score": {"name": "cosine", "sharpening": 3.0}}
    ),
    Variant("seq2seq", {"cell": "lstm", "norm": "rms", "score": "gaussian"}),
    Variant("seq2seq", {"order": "luong", "attention": "none", "cell": "lstm"}),
    Variant("seq2seq", {"memory": "unchanged", "cell": "rnn", "layers": 2, "weighting": "hard"}),
]
LANGUAGE_MODELS = [
    Variant("gpt"),
    Variant("gpt", {"placement": "post", "bias": False, "activation": "gelu"}),
    Variant("rnn"),
    Variant("rnn", {"cell": "gru", "embedding_dim": 6, "norm": "layer"}),
    Variant("rnn", {"cell": "rnn", "embedding_dim": 6, "tied": False, "layers": 1}),
    Variant("transformer-xl"),
    Variant("transformer-xl", {"placement": "pre"}),
]
VARIANTS = TRANSFORMERS + SEQ2SEQS + LANGUAGE_MODELS
ALL_VARIANTS = VARIANTS + OTHER_TRANSFORMERS + OTHER_SEQ2SEQS


def padded(*rows, pad=0, extra=0):
    """Token lists as a batch, with `extra` columns of padding more than needed."""
    size = max(map(len, rows)) + extra
    tokens = torch.tensor([list(row) + [pad] * (size - len(row)) for row in rows]).long()
    return Padded(tokens, torch.tensor([len(row) for row in rows]))


def alone(model, source, target):
    """The logits after each target token, by teacher forcing of this row only."""
    return model.logits(model(padded(source), torch.tensor([target])))[0]


def stepped(model, state, columns):
    """The logits (N, T, V) and the state after reading the columns of `columns` (N, T)."""
    found = []
    for token in torch.as_tensor(columns).unbind(1):
        logits, state = model.step(token, state)
        found.append(logits)
    return torch.stack(found, dim=1), state
