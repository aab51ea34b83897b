"""What the sizes in a model's config may be."""

from saccade.errors import InputError

# A run folder may be a stranger's: beyond these, building its model would fill the memory.
MOST = {
    "dim": 1 << 16,
    "embedding_dim": 1 << 16,
    "layers": 1000,
    "decoder_layers": 1000,
    "heads": 1 << 16,
    "ffn_dim": 1 << 20,
    "limit": 1 << 24,
    "context": 1 << 24,
}

DROPOUTS = ("dropout", "attention_dropout", "ffn_dropout")  # of a model: not of its shape


def check_sizes(config: object, *names: str) -> None:
    """At least 1, and not absurd; a size that is unset is fine."""
    for name in names:
        value = getattr(config, name)
        if value is not None and not 1 <= value <= MOST[name]:
            raise InputError(f"{name} is {value}, it must be from 1 to {MOST[name]}")


def check_rates(config: object, *names: str) -> None:
    """Of dropout."""
    for name in names:
        value = getattr(config, name)
        if not 0 <= value < 1:
            raise InputError(f"{name} is {value}, it must be from 0 to below 1")
