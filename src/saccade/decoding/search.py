"""Search: the most probable sequences of a model that predicts one token at a time.

A step: each kept path considers its k most probable tokens (`choices`); of all candidates and the
paths that have ended before, the t best by length-normalised log-probability are kept (`beam`).
Not normalised, ended paths would crowd out longer ones, which are less probable by nature. A
sentence is done when all its kept paths have ended, or at its maximum length; its hypotheses,
ended by eos or cut, are ranked by the same score.
k = t = 1 is greedy. Of equals, the path ranked earlier and the lower token id win.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from numbers import Integral, Real

import numpy as np
import torch
from jaxtyping import Bool, Float, Int

from saccade.blocks.state import Decoder, S
from saccade.decoding.choices import Considered, consider
from saccade.decoding.constraints import (
    NEVER,
    Constraint,
    ForcedPrefix,
    MinimumLength,
    NoRepeat,
    refuse_preferences,
)
from saccade.decoding.tree import ROOT, BeamNode, BeamTree
from saccade.decoding.walk import (
    Bounds,
    Hypothesis,
    StepRules,
    gather_hypotheses,
    hypothesis,
    length_norm,
    walk,
)
from saccade.errors import InputError

__all__ = ["BeamNode", "BeamTree", "Hypothesis", "SearchOptions", "beam_search", "greedy_search"]

LONGEST = 1_000_000  # tokens of an output
LIMITS = {
    "beam": (1, 1024), "choices": (1, LONGEST), "nbest": (1, 1024), "length_penalty": (0, 10),
    "max_ratio": (0, LONGEST), "max_extra": (0, LONGEST), "length": (1, LONGEST),
    "min_length": (0, LONGEST), "no_repeat_ngram": (0, LONGEST),
}  # fmt: skip
WHOLE, FRACTION = (Integral, "a whole number"), (Real, "a number")
FRACTIONS = {"length_penalty", "max_ratio"}


@dataclass(frozen=True, kw_only=True, slots=True)
class SearchOptions:
    """How wide to search, how long, and what to return."""

    beam: int = 5  # paths kept
    choices: int | None = None  # tokens a path considers; as many as paths when absent
    nbest: int = 1  # hypotheses returned
    length_penalty: float = 1.5  # 1 to 2 are alike on the dev set of Multi30k, 0 is too short
    max_ratio: float = 2.0
    max_extra: int = 10
    length: int | None = None  # tokens at most; unset: by ratio and extra
    min_length: int = 0  # tokens before the end
    no_repeat_ngram: int = 0  # 0: may repeat

    def __post_init__(self) -> None:
        for name, (lowest, highest) in LIMITS.items():
            value = getattr(self, name)
            if value is None:
                continue
            kind, told = FRACTION if name in FRACTIONS else WHOLE
            sound = isinstance(value, kind) and not isinstance(value, bool)
            if not sound:
                raise InputError(f"{name} is {value!r}, it must be {told}")
            if not lowest <= value <= highest:
                raise InputError(f"{name} is {value}, it must be from {lowest} to {highest:,}")
        if self.nbest > self.beam:
            raise InputError(
                f"nbest is {self.nbest}, but only {self.beam} paths are kept: raise beam to "
                f"{self.nbest} or lower nbest"
            )
        if self.length is not None and self.min_length > self.length:
            raise InputError(
                f"min_length is {self.min_length:,}, but length is {self.length:,}: raise length "
                "or lower min_length"
            )

    def max_length(self, source_length: int, prefix_length: int = 0) -> int:
        """The most tokens, eos counted, for a source and a forced prefix of these lengths."""
        if self.length is not None:
            return self.length
        usual = max(1, int(self.max_ratio * source_length) + self.max_extra)
        return min(LONGEST, max(prefix_length + usual, self.min_length + 1))

    def narrow(self, bounds: Bounds) -> Bounds:
        """The bounds with what the options forbid, behind a prefix if one is forced."""
        found: list[Constraint] = []
        if self.min_length:
            found.append(MinimumLength(self.min_length, bounds.eos))
        if self.no_repeat_ngram:
            found.append(NoRepeat(self.no_repeat_ngram))
        forced = next((each for each in bounds.constraints if isinstance(each, ForcedPrefix)), None)
        found += [each for each in bounds.constraints if each is not forced]
        return replace(bounds, constraints=[forced.before(found)] if forced else found)


def greedy_search(
    decoder: Decoder[S], state: S, bounds: Bounds, options: SearchOptions
) -> list[list[Hypothesis]]:
    """What `beam_search` finds with one path, by the shorter way."""
    steps = walk(decoder, state, options.narrow(bounds))
    found = gather_hypotheses(
        steps, state.rows, eos=bounds.eos, length_penalty=options.length_penalty
    )
    return [[each] for each in found]


@torch.no_grad()
def beam_search(
    decoder: Decoder[S],
    state: S,
    bounds: Bounds,
    options: SearchOptions,
    tree: BeamTree | None = None,
) -> list[list[Hypothesis]]:
    """The best `options.nbest` hypotheses of each sentence; `state` holds one row a sentence.

    With a tree, search goes on to its natural end. Paths are compared by what the model says of
    them: preferences are of `walk` alone.
    """
    if options.beam == 1 and tree is None:
        return greedy_search(decoder, state, bounds, options)
    refuse_preferences(bounds.constraints)
    token, eos = bounds.first_tokens(state.rows), bounds.eos
    constraints = options.narrow(bounds).constraints
    beams, forest = _Beams(bounds.max_lengths, options), _Forest()
    history = token.new_empty(state.rows, 0)
    returned: dict[int, list[int]] = {}
    for position in count():
        if not len(beams.sentence):
            return forest.hypotheses(returned, eos, options.length_penalty, tree)
        logits, state = decoder.step(token, state)
        sentences, parents = beams.rows()
        forbid = StepRules(constraints, history, sentences)
        considered = consider(logits, position, forbid, options.choices or options.beam)
        grown = beams.extend(considered, eos, position + 1)
        beams.node[grown.new] = forest.add(parents[grown.row], grown)
        if tree is not None:
            forest.record(tree, sentences, parents, considered, eos)
            tree.stepped(forest.ends(beams))
        ended = beams.ended(position + 1, early=tree is None)
        if ended.any():
            returned |= beams.leave(ended)

        rows, token = (torch.from_numpy(each[beams.live]) for each in (beams.row, beams.token))
        if constraints:
            history = torch.cat([history[rows], token.unsqueeze(1)], dim=1)
        if len(rows) and not torch.equal(rows, torch.arange(len(logits))):
            state = state.select(rows)
    raise AssertionError  # the loop returns


@dataclass(frozen=True, slots=True)
class _Grown:
    """What a step added: `new` says which kept paths, the rest is one entry for each of them."""

    new: Bool[np.ndarray, "B W"]
    row: Int[np.ndarray, " M"]
    choice: Int[np.ndarray, " M"]
    token: Int[np.ndarray, " M"]
    log_prob: Float[np.ndarray, " M"]


class _Beams:
    """The kept paths of the sentences still searched, (B, W), best first; unused places -inf.

    Numpy, not torch: an operation on so few numbers costs a fifth there.
    """

    def __init__(self, max_lengths: Sequence[int], options: SearchOptions) -> None:
        shape = (len(max_lengths), options.beam)
        self.nbest = options.nbest
        self.sentence = np.arange(shape[0])
        self.limit = np.array(max_lengths, np.int64)
        lengths = np.arange(max(max_lengths, default=0) + 1)
        self.norm = length_norm(lengths, options.length_penalty)
        self.score = np.full(shape, NEVER)
        self.score[:, :1] = 0.0
        self.live = self.score == 0.0
        self.length = np.zeros(shape, np.int64)
        self.node = np.full(shape, ROOT)  # of the forest
        self.token = np.zeros(shape, np.int64)
        self.row = np.zeros(shape, np.int64)  # of the last step, that gave the token

    def rows(self) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
        """The sentence and the node of each row that the next step reads."""
        return np.repeat(self.sentence, self.live.sum(1)), self.node[self.live]

    def extend(self, considered: Considered, eos: int, length: int) -> _Grown:
        """Keep the best by length-normalised score; an ended path is its own only candidate."""
        grows = self.live.copy()  # (B, W)
        grows[self.live] = considered.log_probs[:, 0] > NEVER  # if nothing can follow, it has ended
        rows = np.zeros(grows.shape, np.int64)  # (B, W): each row of the step is a live path
        rows[self.live] = np.arange(len(considered.log_probs))

        totals = self._candidates(considered.log_probs, grows)  # (B, W, K)
        parent, choice = self._kept(totals, np.where(grows, length, self.length))  # (B, W)
        sentence = np.arange(len(parent))[:, None]  # (B, 1)
        self.score = totals[sentence, parent, choice]
        new = grows[sentence, parent] & (self.score > NEVER)
        self.node = self.node[sentence, parent]
        self.length = np.where(new, length, self.length[sentence, parent])

        self.row = rows[sentence, parent]
        row, choice = self.row[new], choice[new]  # (M,)
        token = considered.tokens[row, choice]
        self.token = np.full(new.shape, eos)
        self.token[new] = token
        self.live = self.token != eos
        return _Grown(new, row, choice, token, considered.log_probs[row, choice])

    def _candidates(
        self, log_probs: Float[np.ndarray, "N K"], grows: Bool[np.ndarray, "B W"]
    ) -> Float[np.ndarray, "B W K"]:
        """The log-probability of each path with each choice.

        A path that does not grow stands in column 0, unchanged; the rest of its row is -inf.
        """
        totals = np.full((*grows.shape, log_probs.shape[1]), NEVER)
        totals[self.live] = self.score[self.live][:, None] + log_probs
        totals[~grows, 0] = self.score[~grows]
        return totals

    def _kept(
        self, totals: Float[np.ndarray, "B W K"], lengths: Int[np.ndarray, "B W"]
    ) -> tuple[Int[np.ndarray, "B W"], Int[np.ndarray, "B W"]]:
        """The path and the choice of the best candidates, which get these lengths; best first."""
        sentences, beam, choices = totals.shape
        normed = (totals / self.norm[lengths][..., None]).reshape(sentences, beam * choices)
        order = np.argsort(-normed, axis=1, kind="stable")[:, :beam]
        return order // choices, order % choices

    def ended(self, length: int, *, early: bool) -> Bool[np.ndarray, " B"]:
        """The sentences that are done, by nature or because nothing can change their n-best.

        Early: the n-th best ended path has score s, and for every live path of log-probability l,
        l / norm(limit) < s. Log-probabilities only fall and norm only grows, so no descendant of a
        live path ever scores above l / norm(limit), below s: the n best ended paths keep their
        places and their order.
        """
        done = ~self.live.any(1) | (self.limit <= length)
        if not early or done.all():
            return done
        score = np.where(self.live, NEVER, self.score / self.norm[self.length])
        nth = -np.sort(-score, axis=1)[:, self.nbest - 1]
        hope = np.where(self.live, self.score, NEVER).max(1) / self.norm[self.limit]
        return done | (hope < nth)

    def leave(self, ended: Bool[np.ndarray, " B"]) -> dict[int, list[int]]:
        """Take the ended sentences out: the last nodes of the best paths of each, best first."""
        score = self.score[ended] / self.norm[self.length[ended]]
        order = np.argsort(-score, axis=1, kind="stable")[:, : self.nbest]
        at = np.arange(len(order))[:, None]
        nodes, there = self.node[ended][at, order], score[at, order] > NEVER
        best = [node[real].tolist() for node, real in zip(nodes, there, strict=True)]
        found = dict(zip(self.sentence[ended].tolist(), best, strict=True))
        for name in ("sentence", "limit", "score", "live", "length", "node", "token", "row"):
            setattr(self, name, getattr(self, name)[~ended])
        return found


class _Forest:
    """Every kept path as its last node: token, log-probability, row of the step, and parent."""

    def __init__(self) -> None:
        self.parts: list[tuple[Int[np.ndarray, " M"], _Grown]] = []
        self.size = 0
        self.places: dict[int, int] = {ROOT: ROOT}  # node to node of the beam tree

    def add(self, parents: Int[np.ndarray, " M"], grown: _Grown) -> Int[np.ndarray, " M"]:
        """The numbers of the new nodes."""
        self.parts.append((parents, grown))
        self.size += len(parents)
        return np.arange(self.size - len(parents), self.size)

    def record(
        self,
        tree: BeamTree,
        sentences: Int[np.ndarray, " N"],
        parents: Int[np.ndarray, " N"],
        considered: Considered,
        eos: int,
    ) -> None:
        """Add the candidates of the step just taken to the beam tree."""
        grown = self.parts[-1][1]
        nodes = range(self.size - len(grown.row), self.size)
        kept = dict(
            zip(zip(grown.row.tolist(), grown.choice.tolist(), strict=True), nodes, strict=True)
        )
        for row, choice in zip(*(considered.log_probs > NEVER).nonzero(), strict=True):
            parent, token = self.places[int(parents[row])], int(considered.tokens[row, choice])
            before = 0.0 if parent == ROOT else tree.nodes[parent].log_prob
            node = kept.get((int(row), int(choice)))
            place = tree.add(
                BeamNode(
                    sentence=int(sentences[row]),
                    step=len(self.parts) - 1,
                    parent=parent,
                    token=token,
                    log_prob=before + float(considered.log_probs[row, choice]),
                    kept=node is not None,
                    finished=token == eos,
                )
            )
            if node is not None:
                self.places[node] = place

    def ends(self, beams: _Beams) -> dict[int, int]:
        """The node of the beam tree in which the best path of each sentence ends so far."""
        best = beams.node[:, 0].tolist()  # they stand best first
        return {
            sentence: self.places[node]
            for sentence, node in zip(beams.sentence.tolist(), best, strict=True)
        }

    def hypotheses(
        self, ends: dict[int, list[int]], eos: int, length_penalty: float, tree: BeamTree | None
    ) -> list[list[Hypothesis]]:
        """The hypotheses that end in these nodes, by sentence."""
        parents = [each for part, _ in self.parts for each in part.tolist()]
        tokens = [each for _, grown in self.parts for each in grown.token.tolist()]
        log_probs = [each for _, grown in self.parts for each in grown.log_prob.tolist()]
        rows = [each for _, grown in self.parts for each in grown.row.tolist()]

        def built(node: int) -> Hypothesis:
            if tree is not None:
                tree.mark(self.places[node])
            path = []
            while node != ROOT:
                path.append(node)
                node = parents[node]
            path.reverse()
            return hypothesis(
                [tokens[each] for each in path],
                [log_probs[each] for each in path],
                [rows[each] for each in path],
                eos=eos,
                length_penalty=length_penalty,
            )

        return [[built(node) for node in ends[sentence]] for sentence in range(len(ends))]
