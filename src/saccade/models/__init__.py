"""One paper, one file, listed here by name. To add a model: write the file, add a line."""

from saccade.models.transformer import Transformer

MODELS = {
    "transformer": Transformer,
}
