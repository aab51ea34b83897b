"""How good a translation is: BLEU and chrF by sacrebleu, each with the signature that says how."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from saccade.errors import InputError, nearest


@dataclass(frozen=True, slots=True)
class Metric:
    """A score, and the signature without which it cannot be compared with another."""

    name: str
    value: float
    signature: str
    better: Literal["greater", "smaller"] = "greater"

    @property
    def merit(self) -> float:
        """The value, or less it: always greater for the better."""
        return self.value if self.better == "greater" else -self.value

    def __str__(self) -> str:
        return f"{self.name} {figure(self.value)} ({self.signature})"


def figure(value: float | None) -> str:
    """A score as people read it: the smaller, the more digits matter; None is beyond numbers."""
    if value is None:
        return "infinite"
    return f"{value:.2f}" if abs(value) >= 5 or value == 0 else f"{value:.4f}"


def translation_metrics(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    *,
    lowercase: bool = False,
) -> list[Metric]:
    """BLEU (Papineni et al. 2002) and chrF (Popović 2015) of detokenised text."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    _check_counts(hypotheses, references)
    _check_tokenizer(tokenize)
    metrics = []
    for scorer in (BLEU(lowercase=lowercase, tokenize=tokenize), CHRF(lowercase=lowercase)):
        score = scorer.corpus_score(hypotheses, [references])
        metrics.append(Metric(score.name, score.score, str(scorer.get_signature())))
    return metrics


def sentence_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    *,
    lowercase: bool = False,
) -> list[dict[str, float]]:
    """BLEU (of the orders a sentence has) and chrF of each example, in order."""
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    _check_counts(hypotheses, references)
    _check_tokenizer(tokenize)
    scorers = {
        "bleu": BLEU(lowercase=lowercase, tokenize=tokenize, effective_order=True),
        "chrf": CHRF(lowercase=lowercase),
    }
    return [
        {name: scorer.sentence_score(hyp, [ref]).score for name, scorer in scorers.items()}
        for hyp, ref in zip(hypotheses, references, strict=True)
    ]


def tokenised_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    lowercase: bool = True,
    tokenize: str = "none",
) -> Metric:
    """The literature's BLEU of text that is tokens already: not comparable with the BLEU above."""
    from sacrebleu.metrics.bleu import BLEU

    _check_counts(hypotheses, references)
    _check_tokenizer(tokenize)
    # force: sacrebleu would warn that the text looks tokenised, which here is the point
    scorer = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    score = scorer.corpus_score(hypotheses, [references])
    name = "BLEU (lowercased tokens)" if lowercase else "BLEU (tokens)"
    return Metric(name, score.score, str(scorer.get_signature()))


def _check_counts(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise InputError("scores take lists of sentences, one string is not a list: wrap it in [ ]")
    if len(hypotheses) != len(references):
        raise InputError(
            f"{len(hypotheses):,} hypotheses but {len(references):,} references: "
            "each hypothesis needs the reference of its own line"
        )
    if not references:
        raise InputError("no sentences to score: the hypotheses and references are empty")


def _check_tokenizer(name: str) -> None:
    from sacrebleu.metrics.bleu import BLEU

    if name not in BLEU.TOKENIZERS:
        raise InputError(f"unknown sacrebleu tokenizer {name!r}; {nearest(name, BLEU.TOKENIZERS)}")
