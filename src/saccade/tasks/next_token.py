"""The loss of a language model: how surprised it is by each next token."""

from typing import Any

from saccade.blocks.losses import chunked_cross_entropy
from saccade.data.contexts import TokenBatch
from saccade.tasks.task import Objective, Term


class NextToken(Objective):
    """Cross-entropy of each token given those before it, in its context or carried into it."""

    terms = ("loss",)

    def __init__(self, model: Any, smoothing: float, *, carry: bool, silent: int):
        super().__init__()
        self.model, self.smoothing, self.carry, self.silent = model, smoothing, carry, silent

    def forward(self, batch: TokenBatch, carry: Any) -> tuple[dict[str, Term], Any]:
        hidden, carried = self.model(batch.tokens, None if batch.fresh else carry)
        hidden, gold = hidden.flatten(0, 1), batch.gold.flatten()
        if batch.scored < len(gold):  # the begin of a text is given, not predicted
            real = gold != self.silent
            hidden, gold = hidden[real], gold[real]
        weight = self.model.output_weight
        total = chunked_cross_entropy(hidden.to(weight.dtype), weight, gold, self.smoothing)
        return {"loss": Term(total, batch.scored)}, carried if self.carry else None
