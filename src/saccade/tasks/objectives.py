"""What translate minimises: the cross-entropy of each target token, given those before it."""

from collections.abc import Mapping
from typing import Any, ClassVar

import torch.nn.functional as F

from saccade.blocks.agreement import chunked_agreeing_cross_entropy
from saccade.blocks.losses import chunked_cross_entropy
from saccade.blocks.masks import padding_mask
from saccade.blocks.sequences import Padded
from saccade.config import part
from saccade.data.batches import PairBatch
from saccade.errors import InputError
from saccade.models.limits import DROPOUTS
from saccade.tasks.task import Objective, Term

BASELINE_WEIGHT = 0.1  # it is squared: at first it would leave the clipped gradient to itself


def translate_objective(model: Any, smoothing: float, agreement: float = 0.0) -> Objective:
    """The one that fits: whether the model draws places, or shall agree with itself."""
    if getattr(model, "hard", None) is not None:
        return DrawnObjective(model, smoothing)
    if agreement:
        return AgreeingObjective(model, smoothing, agreement)
    return TranslateObjective(model, smoothing)


def refuse_idle_agreement(agreement: float, settings: Mapping[str, Any]) -> None:
    """Two passes of a model differ by dropout, and by nothing else if they are to agree."""
    if not agreement:
        return
    rates = [settings[name] for name in DROPOUTS if name in settings]
    if rates and not any(rates):
        raise InputError(
            f"task.agreement is {agreement}, but without dropout two passes are the same: "
            "set model.dropout above 0, such as 0.2"
        )
    if part(settings.get("weighting", "soft"))[0] == "hard":
        raise InputError(
            f"task.agreement is {agreement}, but a model whose weighting is hard learns otherwise: "
            'leave it out, or set model.weighting to "soft"'
        )
    if part(settings.get("sampling", "none"))[0] != "none":
        raise InputError(
            f"task.agreement is {agreement}, but with model.sampling each pass reads words of its "
            "own, and they need not agree: leave one of the two out"
        )


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


class AgreeingObjective(TranslateObjective):
    """The same of each pair twice, with dropout of its own, and how far the two are apart."""

    terms: ClassVar[tuple[str, ...]] = ("loss", "divergence")

    def __init__(self, model: Any, smoothing: float, agreement: float):
        super().__init__(model, smoothing)
        self.agreement = agreement

    def forward(self, batch: PairBatch, carry: Any) -> tuple[dict[str, Term], Any]:
        if not self.training:  # no dropout: both would be the same
            return super().forward(batch, carry)
        twice = Padded(batch.source.repeat(2, 1), batch.source_lengths.repeat(2))
        hidden = self.model(twice, batch.target[:, :-1].repeat(2, 1))
        gold = batch.target[:, 1:]
        real = padding_mask(batch.target_lengths, gold.shape[1])
        weight = self.model.output_weight
        first, second = (half[real].to(weight.dtype) for half in hidden.chunk(2))
        total, divergence = chunked_agreeing_cross_entropy(
            first, second, weight, gold[real], self.smoothing, self.agreement
        )
        return {
            # Told without the divergence, which the gradient has: so it compares with others.
            "loss": Term(total - self.agreement / 2 * divergence, batch.counts["loss"]),
            "divergence": Term(divergence, batch.counts["divergence"], weight=0.0),
        }, carry


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
