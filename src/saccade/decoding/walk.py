"""One path a sentence: the loop that greedy search, sampling and streaming share.

`choose` says how the next token is picked. Rows leave the batch when their path ends.
"""

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from saccade.blocks.state import Decoder, S
from saccade.decoding.constraints import NEVER, Constraint, Preference, refuse_preferences
from saccade.errors import InputError

# Log-probabilities (N, V), the sentence of each row, the position: the token of each row (N,).
Choose: TypeAlias = Callable[[Tensor, Sequence[int], int], Tensor]

# About a megabyte of float32: stays in the cache, and a larger buffer costs a page fault a page.
BLOCK = 2**18


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """A sequence and what it is worth."""

    tokens: list[int]  # without bos and eos
    score: float  # log_prob / length_norm, eos counted
    log_prob: float
    token_log_probs: list[float]  # one a step, eos included
    path: list[int]  # path[i]: the row of the i-th step that gave token i, to follow recordings
    finished: bool  # ended by eos; False: cut at the maximum length, or nothing could follow


@dataclass(frozen=True, kw_only=True, slots=True)
class Bounds:
    """Where sequences begin and end, how long each may be, and what it may not say."""

    first: int | Sequence[int]  # what each row reads first: bos, or the last token of its prompt
    eos: int
    max_lengths: Sequence[int]  # one a sentence, eos counted
    constraints: Sequence[Constraint] = ()

    def first_tokens(self, rows: int) -> Int[Tensor, " N"]:
        """What each row reads first, once the bounds are known to fit so many rows."""
        if len(self.max_lengths) != rows:
            raise InputError(f"{rows} sentences, but {len(self.max_lengths)} maximum lengths")
        if min(self.max_lengths, default=1) < 1:
            raise InputError(f"a maximum length must be at least 1, not {min(self.max_lengths)}")
        given = [self.first] * rows if isinstance(self.first, int) else list(self.first)
        if len(given) != rows:
            raise InputError(f"{rows} sentences, but {len(given)} first tokens")
        return torch.tensor(given, dtype=torch.long)


class Step(NamedTuple):
    """The tokens that one step gave to the sentences still running.

    A log-probability of -inf says that nothing can follow: that path ends without its token.
    """

    sentences: list[int]
    tokens: list[int]
    log_probs: list[float]


def best(log_probs: Float[Tensor, "N V"], sentences: Sequence[int], position: int) -> Tensor:  # noqa: ARG001
    """The most probable token of each row (the first of equals): greedy search."""
    if log_probs.device.type == "cpu":  # numpy's argmax is ten times as fast
        return torch.from_numpy(log_probs.numpy().argmax(-1))
    return log_probs.argmax(-1)


def walk(
    decoder: Decoder[S],
    state: S,
    bounds: Bounds,
    *,
    choose: Choose = best,
    preferences: Sequence[Preference] = (),
) -> Generator[Step, Collection[int] | None, None]:
    """Yield step by step until every sentence has ended; `state` holds one row a sentence.

    The caller may send back the sentences that are to end with this step.
    """
    refuse_preferences(bounds.constraints)
    token, limits = bounds.first_tokens(state.rows), np.array(bounds.max_lengths)
    sentence, rules = np.arange(state.rows), (bounds.constraints, preferences)
    history = token.new_empty(state.rows, 0)
    for position in count():
        if not len(sentence):
            return
        sentences = sentence.tolist()
        with torch.no_grad():  # not around the yield: the caller's own work is not ours to change
            logits, state = decoder.step(token, state)
            forbid, weigh = (StepRules(each, history, sentence) for each in rules)
            blocks = log_prob_blocks(logits, position, forbid)
            token, log_prob = _pick(blocks, sentences, position, choose, weigh)
        ended = yield Step(sentences, token.tolist(), log_prob.tolist())

        live = (token.numpy() != bounds.eos) & (log_prob.numpy() > NEVER) & (limits > position + 1)
        if ended:
            live &= ~np.isin(sentence, list(ended))
        if any(rules):
            history = torch.cat([history, token.unsqueeze(1)], dim=1)
        if not live.all():
            rows = torch.from_numpy(live.nonzero()[0])
            sentence, limits = sentence[live], limits[live]
            token, history = token[rows], history[rows]
            if len(sentence):
                state = state.select(rows)


def _pick(
    blocks: Iterator[tuple[slice, Tensor]],
    sentences: list[int],
    position: int,
    choose: Choose,
    weigh: "StepRules",
) -> tuple[Int[Tensor, " N"], Float[Tensor, " N"]]:
    """The chosen token of each row and the model's log-probability of it, both on the CPU."""
    tokens, values = [], []
    for rows, log_probs in blocks:
        chosen = choose(weigh(log_probs, rows), sentences[rows], position)
        tokens.append(chosen)
        values.append(log_probs.gather(1, chosen.unsqueeze(1)).squeeze(1))
    return _joined(tokens).cpu(), _joined(values).cpu().double()


def _joined(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def stream(
    decoder: Decoder[S],
    state: S,
    bounds: Bounds,
    *,
    choose: Choose = best,
    preferences: Sequence[Preference] = (),
) -> Iterator[tuple[int, float]]:
    """The tokens of one row as they come, each with its log-probability, without the end."""
    if state.rows != 1:
        raise InputError(f"streaming takes one sequence at a time, not {state.rows}")
    for step in walk(decoder, state, bounds, choose=choose, preferences=preferences):
        if step.tokens[0] != bounds.eos and step.log_probs[0] > NEVER:
            yield step.tokens[0], step.log_probs[0]


def gather_hypotheses(
    steps: Iterator[Step], sentences: int, *, eos: int, length_penalty: float
) -> list[Hypothesis]:
    """The whole of each sentence's walk."""
    tokens: list[list[int]] = [[] for _ in range(sentences)]
    log_probs: list[list[float]] = [[] for _ in range(sentences)]
    paths: list[list[int]] = [[] for _ in range(sentences)]
    for step in steps:
        for row, (sentence, token, log_prob) in enumerate(zip(*step, strict=True)):
            if log_prob > NEVER:
                tokens[sentence].append(token)
                log_probs[sentence].append(log_prob)
                paths[sentence].append(row)
    return [
        hypothesis(*parts, eos=eos, length_penalty=length_penalty)
        for parts in zip(tokens, log_probs, paths, strict=True)
    ]


def hypothesis(
    tokens: list[int],
    token_log_probs: list[float],
    path: list[int],
    *,
    eos: int,
    length_penalty: float,
) -> Hypothesis:
    """A hypothesis from its steps."""
    log_prob = 0.0
    for each in token_log_probs:  # in order, as a beam adds them: `sum` compensates and differs
        log_prob += each
    finished = bool(tokens) and tokens[-1] == eos
    return Hypothesis(
        tokens=tokens[:-1] if finished else tokens,
        score=log_prob / length_norm(len(tokens), length_penalty),
        log_prob=log_prob,
        token_log_probs=token_log_probs,
        path=path,
        finished=finished,
    )


@overload
def length_norm(length: int, penalty: float) -> float: ...
@overload
def length_norm(length: Int[np.ndarray, " L"], penalty: float) -> Float[np.ndarray, " L"]: ...
def length_norm(length: Any, penalty: float) -> Any:
    """GNMT's (Wu et al. 2016, eq. 14), by which log-probabilities are divided, eos counted."""
    return ((5 + length) / 6) ** penalty


class StepRules:
    """Constraints, or preferences, with the history and the sentence of each row of a step."""

    def __init__(
        self,
        rules: Sequence[Constraint],
        history: Int[Tensor, "_ t"],  # nobody keeps it up where there are no rules
        sentence: Int[np.ndarray, " N"],
    ) -> None:
        self.rules, self.history, self.sentence = rules, history, sentence

    def __call__(self, log_probs: Float[Tensor, "n V"], rows: slice) -> Float[Tensor, "n V"]:
        if not self.rules:
            return log_probs
        history = self.history[rows].to(log_probs.device)
        sentence = torch.from_numpy(self.sentence[rows])
        for rule in self.rules:
            log_probs = rule(log_probs, history, sentence)
        return log_probs


def log_prob_blocks(
    logits: Float[Tensor, "N V"], position: int, forbid: StepRules
) -> Iterator[tuple[slice, Float[Tensor, "n V"]]]:
    """Log-probabilities block of rows by block, fresh tensors that the caller may overwrite."""
    if not logits.shape[1]:
        raise InputError("the vocabulary is empty")
    height = max(1, BLOCK // logits.shape[1])
    for start in range(0, len(logits), height):
        rows = slice(start, start + height)
        block = logits[rows]
        if block.dtype in (torch.bfloat16, torch.float16):
            block = block.float()
        log_probs = block.log_softmax(-1)
        # One NaN or +inf, or -inf everywhere, makes the whole row NaN: one column tells.
        bad = log_probs[:, 0].isnan()
        if bad.any():
            empty = (block == NEVER).all(-1)
            if (bad & ~empty).any():
                row = start + int((bad & ~empty).nonzero()[0])
                raise FloatingPointError(
                    f"the model's logits are NaN or infinite at step {position}, row {row}: "
                    "its weights or its input are damaged"
                )
            log_probs[empty] = NEVER
        yield rows, forbid(log_probs, rows)
