"""One paper, one file, listed here by name. To add a model: write the file, add a line."""

from typing import Any

from saccade.models.gpt import GPT
from saccade.models.transformer import Transformer

MODELS: dict[str, Any] = {
    "transformer": Transformer,
    "gpt": GPT,
}
