"""The flags of `eval` about gold links, and the alignment error rate of a run."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from cyclopts import Parameter

if TYPE_CHECKING:
    from saccade.inspection.alignment_error import Reading
    from saccade.tasks.forced import Alignable
    from saccade.tasks.task import Evaluation, Plain
    from saccade.training.model import Model


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class AlignmentFlags:
    """Gold links to hold the attention against, and how links are read off it."""

    alignments: str | None = None
    """Score the attention by these links, a line a pair: `0-0 1p2`, or `words ||| words ||| 0-0`
    (p: only possible); or by those of a built-in corpus."""
    counted_from: Literal[0, 1] = 0
    """The number of a first word in --alignments."""
    links: Literal["covering", "argmax", "mutual"] | None = None
    """argmax: the source word each target word looks at most; covering: and for each source word
    left over, its best; mutual: where both agree. [default: covering]"""
    layer: str | None = None
    """The attention to read; by default the mean of all those from target to source."""
    step: Literal["predicts", "reads"] | None = None
    """A target word's attention is that of the step that predicts it, or of the step that reads
    it. [default: predicts]"""

    def texts(self, model: "Model", examples: "Plain") -> "Alignable | None":
        """The pairs with their links, all checked before the work; None when none are given."""
        if self.alignments is None:
            return None
        from saccade.inspection.alignment_error import read_gold
        from saccade.tasks.forced import Alignable, check_reading

        check_reading(model.module, self.reading())
        gold = read_gold(self.alignments, self.counted_from)
        pairs = zip(examples["source"], examples["reference"], strict=True)
        return Alignable.of(list(pairs), gold, self.alignments)

    def reading(self) -> "Reading":
        """Only what was given: the rest is left to the one place of the defaults."""
        from saccade.inspection.alignment_error import Reading

        given = {"links": self.links, "layer": self.layer, "step": self.step}
        return Reading(**{name: value for name, value in given.items() if value is not None})


def aligned(
    model: "Model", found: "Evaluation", texts: "Alignable", flags: AlignmentFlags
) -> "Evaluation":
    """The evaluation with the alignment error rate of its references."""
    from saccade.inspection.alignment import pharaoh
    from saccade.inspection.alignment_error import score_alignments
    from saccade.tasks.forced import align
    from saccade.tasks.metrics import Metric

    reading = flags.reading()
    links = align(model.task, model.module, texts, reading)
    score = score_alignments(links, texts.gold)
    values = {
        "AER": score.error_rate,
        "alignment precision": score.precision,
        "alignment recall": score.recall,
    }
    columns = zip(found.examples, links, score.hits, score.links, strict=True)
    examples = [
        {**example, "alignment": pharaoh(each), "alignment_hits": hits, "alignment_links": count}
        for example, each, hits, count in columns
    ]
    more = [
        Metric(name, value, str(reading), "smaller" if name == "AER" else "greater")
        for name, value in values.items()
    ]
    return replace(found, metrics=[*found.metrics, *more], examples=examples)
