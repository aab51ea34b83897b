"""One paper, one file, listed here by name. To add a model: write the file, add a line."""

from saccade.models.seq2seq import Seq2Seq
from saccade.models.transformer import Transformer

MODELS = {
    "seq2seq": Seq2Seq,
    "transformer": Transformer,
}
