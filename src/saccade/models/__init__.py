"""One paper, one file, listed here by name. To add a model: write the file, add a line."""

from typing import Any

from saccade.models.gpt import GPT
from saccade.models.markov import Markov
from saccade.models.rnn import RecurrentLM
from saccade.models.transformer import Transformer
from saccade.models.transformer_xl import TransformerXL

MODELS: dict[str, Any] = {
    "transformer": Transformer,
    "markov": Markov,
    "rnn": RecurrentLM,
    "gpt": GPT,
    "transformer-xl": TransformerXL,
}
