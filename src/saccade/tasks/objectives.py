"""What translate minimises: the cross-entropy of each target token, given those before it."""

from typing import Any, ClassVar

import torch.nn.functional as F

from saccade.blocks.losses import chunked_cross_entropy
from saccade.blocks.masks import padding_mask
from saccade.blocks.sequences import Padded
from saccade.data.batches import PairBatch
from saccade.tasks.task import Objective, Term

BASELINE_WEIGHT = 0.1  # it is squared: at first it would leave the clipped gradient to itself


def translate_objective(model: Any, smoothing: float) -> Objective:
    """The one that fits the model: whether it draws places while it learns is all that counts."""
    drawn = getattr(model, "hard", None) is not None
    return (DrawnObjective if drawn else TranslateObjective)(model, smoothing)


class TranslateObjective(Objective):
    """Cross-entropy of each target token given the source and the true tokens before it."""

    terms: ClassVar[tuple[str, ...]] = ("loss",)

    def __init__(self, model: Any, smoothing: float):
        super().__init__()
        self.model, self.smoothing = model, smoothing

    def forward(self, batch: PairBatch, carry: Any) -> tuple[dict[str, Term], Any]:
        source = Padded(batch.source, batch.source_lengths)
        hidden = self.model(source, batch.target[:, :-1])  # reads token t ...
        gold = batch.target[:, 1:]  # ... and predicts token t + 1: the one shift there is
        real = padding_mask(batch.target_lengths, gold.shape[1])
        weight = self.model.output_weight
        total = chunked_cross_entropy(
            hidden[real].to(weight.dtype), weight, gold[real], self.smoothing
        )
        return {"loss": Term(total, batch.counts["loss"])}, carry


class DrawnObjective(TranslateObjective):
    """The same for a model that draws where to look: it also learns what to draw, by REINFORCE.

    Such a model has `unroll(source, target) -> (hidden, choice)`, and `hard`, which teaches it.
    """

    terms: ClassVar[tuple[str, ...]] = ("loss", "choice", "baseline")

    def forward(self, batch: PairBatch, carry: Any) -> tuple[dict[str, Term], Any]:
        source = Padded(batch.source, batch.source_lengths)
        hidden, choice = self.model.unroll(source, batch.target[:, :-1])
        gold = batch.target[:, 1:]
        real = padding_mask(batch.target_lengths, gold.shape[1])
        # By the equation: which token lost how much is the reward of what was drawn for it.
        lost = F.cross_entropy(
            self.model.logits(hidden[real]),
            gold[real],
            reduction="none",
            label_smoothing=self.smoothing,
        )
        losses = lost.new_zeros(gold.shape).masked_scatter(real, lost)
        if choice is None:  # it draws only while it learns
            return {"loss": Term(losses.sum(), batch.counts["loss"])}, carry
        policy, surprise = self.model.hard.teach(choice, losses)
        sums = (losses.sum(), policy[real].sum(), surprise[real].sum())
        weights = (1.0, 1.0, BASELINE_WEIGHT)
        return {
            name: Term(total, batch.counts[name], weight)
            for name, total, weight in zip(self.terms, sums, weights, strict=True)
        }, carry
