"""The flags about links read off attention, which `predict` writes and `eval` scores by gold."""

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from saccade.cli.flags import LINKS
from saccade.errors import InputError

if TYPE_CHECKING:
    from saccade.inspection.alignment_error import Reading
    from saccade.tasks.metrics import Metric
    from saccade.tasks.task import Evaluation, Plain
    from saccade.training.model import Model


@Parameter(name="*", group=LINKS)
@dataclass(frozen=True, kw_only=True)
class ReadingFlags:
    """How links are read off attention; unset means the default."""

    links: Annotated[
        Literal["covering", "argmax", "mutual"] | None,
        Parameter(
            help="argmax: the source word each target word looks at most; covering: and for each "
            "source word left over, its best; mutual: where both agree. [default: covering in "
            "eval, argmax in predict]"
        ),
    ] = None
    layer: str | None = None
    """The attention to read; by default the mean of all those from target to source."""
    step: Literal["predicts", "reads"] | None = None
    """A target word's attention: of the step that predicts or that reads it. [default: predicts]"""

    def given(self) -> dict[str, Any]:
        """What was set."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def reading(self, usual: "Reading") -> "Reading":
        """What was given; the rest is as usual for the verb."""
        names = {field.name for field in fields(usual)}
        return replace(usual, **{k: value for k, value in self.given().items() if k in names})

    def refuse_idle(self) -> None:
        """Without --alignments none of these does anything."""
        for flag in self.given():
            raise InputError(f"--{flag.replace('_', '-')} needs --alignments")


@Parameter(name="*", group=LINKS)
@dataclass(frozen=True, kw_only=True)
class AlignmentFlags(ReadingFlags):
    """Gold links to hold the attention against, and how links are read off it."""

    alignments: Annotated[
        str | None,
        Parameter(
            help="Score the attention by these links, a line a pair: `0-0 1p2`, or "
            "`words ||| words ||| 0-0` (p: only possible); or by those of a built-in corpus."
        ),
    ] = None
    counted_from: Literal[0, 1] | None = None
    """The number of a first word in --alignments. [default: 0]"""

    def score(self, model: "Model", examples: "Plain") -> "Aligned | None":
        """The alignment error rate of the references, if there are gold links."""
        if self.alignments is None:
            self.refuse_idle()
            return None
        from saccade.inspection.alignment import pharaoh
        from saccade.inspection.alignment_error import Reading, read_gold, score_alignments
        from saccade.inspection.forced import Alignable, align, check_reading
        from saccade.tasks.metrics import Metric

        reading = self.reading(Reading())
        check_reading(model.module, reading)
        if self.counted_from and self.alignments.startswith("builtin:"):
            raise InputError(f"--counted-from 1: {self.alignments} counts its words from 0")
        gold = read_gold(self.alignments, self.counted_from or 0)
        pairs = zip(examples["source"], examples["reference"], strict=True)
        texts = Alignable.of(list(pairs), gold, self.alignments)
        links = align(model.task, model.module, texts, reading)
        score = score_alignments(links, texts.gold)
        values = {
            "AER": score.error_rate,
            "alignment precision": score.precision,
            "alignment recall": score.recall,
        }
        metrics = [
            Metric(name, value, str(reading), "smaller" if name == "AER" else "greater")
            for name, value in values.items()
        ]
        rows = [
            {"alignment": pharaoh(each), "alignment_hits": hits, "alignment_links": count}
            for each, hits, count in zip(links, score.hits, score.links, strict=True)
        ]
        return Aligned(metrics, rows)


@dataclass(frozen=True, slots=True)
class Aligned:
    """How the attention did: its metrics, and what each example adds."""

    metrics: "list[Metric]"
    examples: "list[Plain]"

    def beside(self, found: "Evaluation") -> "Evaluation":
        """The evaluation with these scores besides its own."""
        pairs = zip(found.examples, self.examples, strict=True)
        examples = [{**example, **links} for example, links in pairs]
        return replace(found, metrics=[*found.metrics, *self.metrics], examples=examples)
