"""How a task's predictions become answers: a table by task, one class each."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.data.tokenizers import Tokenizer
from saccade.decoding.tree import BeamTree
from saccade.errors import InputError
from saccade.serving import schemas
from saccade.serving.trace import Trace, alternatives, look, look_back, packed
from saccade.serving.words import group
from saccade.tasks.task import Prediction
from saccade.tasks.words import token_spans
from saccade.training.model import Model


@runtime_checkable
class Answers(Protocol):
    """What the engine asks of a task."""

    target: Tokenizer  # of the output
    searches: bool  # whether a search of it fills a tree

    def read(self, ids: Sequence[int]) -> Prediction:
        """An output that is given, as if it had been decoded."""

    def answer(
        self, text: str, found: Prediction, request: schemas.PredictRequest
    ) -> schemas.Prediction:
        """The answer, with what the request wants to see of the model's inside."""


class TranslateAnswers:
    """A source, a target, and attention between them and within each."""

    searches = True

    def __init__(self, model: Model):
        self.model = model
        self.task = cast(Any, model.task)
        self.source: Tokenizer = self.task.source
        self.target: Tokenizer = self.task.target

    def read(self, ids: Sequence[int]) -> Prediction:
        return given(self.target, ids)

    def answer(
        self, text: str, found: Prediction, request: schemas.PredictRequest
    ) -> schemas.Prediction:
        source = self._source_ids(text)
        written = [*found.ids, self.target.eos][: len(found.tokens)]  # the end, if it was reached
        trace = Trace()
        if written and (request.attention or request.alternatives):
            kinds = request.attention.kinds if request.attention else []
            trace = look(self.model, text, found, kinds)
        target = written_sentence(
            self.target, found.text, written, trace.log_probs, request.alternatives
        )
        return schemas.Prediction(
            text=found.text,
            score=found.score,
            truncated=found.truncated,
            finished=found.finished,
            source=self._source(text, source),
            read=read_sentence(self.target, target),
            target=target,
            alternatives=[each.text for each in found.alternatives],
            attention=packed(trace, request.attention) if request.attention else [],
        )

    def _source_ids(self, text: str) -> list[int]:
        ids, _ = self.task.read(self.model.module, text)
        return list(ids)

    def _source(self, text: str, ids: Sequence[int]) -> schemas.Sentence:
        tokens = self.source.tokens(ids)
        spans = [*self.source.spans(text)[: len(ids) - 1], (len(text), len(text))]
        places, words = group(text, spans, tokens)
        pieces = [
            schemas.Token(text=token, word=word, start=start, end=end, id=i)
            for token, word, (start, end), i in zip(tokens, places, spans, ids, strict=True)
        ]
        return schemas.Sentence(text=text, tokens=pieces, words=words)


class GenerateAnswers:
    """One text: the prompt and what continues it; attention looks back."""

    searches = True

    def __init__(self, model: Model):
        self.model = model
        self.task = cast(Any, model.task)
        self.target: Tokenizer = self.task.tokenizer

    def read(self, ids: Sequence[int]) -> Prediction:
        return given(self.target, ids)

    def answer(
        self, text: str, found: Prediction, request: schemas.PredictRequest
    ) -> schemas.Prediction:
        prompt, _ = self.task.read(self.model.module, text)
        said = [*found.ids, self.target.eos][: len(found.tokens)]
        ids = [*prompt, *said]
        trace = Trace()
        if request.attention or request.alternatives:
            kinds = request.attention.kinds if request.attention else []
            trace = look_back(self.model.module, ids, kinds)
        whole = self._sentence(ids, len(prompt), trace, request.alternatives)
        return schemas.Prediction(
            text=found.text,
            score=found.score,
            truncated=found.truncated,
            finished=found.finished,
            source=None,
            target=_part(whole, 1, len(ids)),
            read=_part(whole, 0, len(ids) - 1),
            alternatives=[each.text for each in found.alternatives],
            attention=packed(trace, request.attention) if request.attention else [],
        )

    def _sentence(
        self, ids: Sequence[int], prompt: int, trace: Trace, count: int
    ) -> schemas.Sentence:
        text = self.target.decode(ids)
        log_probs = trace.log_probs
        if log_probs is not None:  # nothing predicts the first token
            log_probs = torch.cat([torch.full_like(log_probs[:1], -math.inf), log_probs])
        whole = written_sentence(self.target, text, ids, log_probs, count)
        tokens = [
            token.model_copy(update={"given": place < prompt})
            for place, token in enumerate(whole.tokens)
        ]
        return whole.model_copy(update={"tokens": tokens})


def given(tokenizer: Tokenizer, ids: Sequence[int]) -> Prediction:
    """An output that was given, as if it had been decoded."""
    known = tokenizer.vocab_size
    if any(i >= known for i in ids):
        raise InputError(f"output_ids holds {max(ids)}, but the vocabulary ends at {known - 1}")
    ended = bool(ids) and ids[-1] == tokenizer.eos
    said = list(ids[:-1] if ended else ids)
    text, tokens = tokenizer.decode(said), tokenizer.tokens(ids)
    return Prediction(text, 0.0, tokens, [], ids=said, finished=ended)


def _part(whole: schemas.Sentence, start: int, end: int) -> schemas.Sentence:
    """Some of the tokens of a sentence, with their words counted anew."""
    tokens = whole.tokens[start:end]
    first = tokens[0].word if tokens else 0
    moved = [token.model_copy(update={"word": token.word - first}) for token in tokens]
    last = moved[-1].word + 1 if moved else 0
    words = whole.words[first : first + last]
    return schemas.Sentence(text=whole.text, tokens=moved, words=words)


def written_sentence(
    tokenizer: Tokenizer,
    text: str,
    ids: Sequence[int],
    log_probs: Float[Tensor, "T V"] | None,
    count: int,
) -> schemas.Sentence:
    """The output, each token with its probability and what else could have stood there."""
    tokens, spans = tokenizer.tokens(ids), token_spans(tokenizer, ids)
    places, words = group(text, spans, tokens)
    chosen: list[float | None] = [None] * len(ids)
    others: list[list[schemas.Candidate]] = [[] for _ in ids]
    if log_probs is not None and count:
        rows = range(len(ids))
        chosen = [*log_probs[rows, list(ids)].exp().tolist()]
        values, best = alternatives(log_probs, count)
        for row in rows:
            texts = tokenizer.tokens(best[row].tolist())
            columns = zip(texts, best[row].tolist(), values[row].tolist(), strict=True)
            others[row] = [schemas.Candidate(text=t, id=i, probability=p) for t, i, p in columns]
    pieces = [
        schemas.Token(
            text=token, word=word, start=start, end=end, id=i, probability=p, alternatives=more
        )
        for token, word, (start, end), i, p, more in zip(
            tokens, places, spans, ids, chosen, others, strict=True
        )
    ]
    return schemas.Sentence(text=text, tokens=pieces, words=words)


def read_sentence(tokenizer: Tokenizer, written: schemas.Sentence) -> schemas.Sentence:
    """What a decoder has read before each token it writes: the beginning, and its own words."""
    (name,) = tokenizer.tokens([tokenizer.bos])
    first = schemas.Token(text=name, word=0, start=0, end=0, id=tokenizer.bos)
    rest = [
        token.model_copy(update={"word": token.word + 1, "probability": None, "alternatives": []})
        for token in written.tokens[:-1]
    ]
    words = [first.text, *written.words][: rest[-1].word + 1 if rest else 1]
    return schemas.Sentence(text=written.text, tokens=[first, *rest], words=words)


ANSWERS: dict[str, type[TranslateAnswers | GenerateAnswers]] = {
    "translate": TranslateAnswers,
    "generate": GenerateAnswers,
}


def tree_nodes(tree: BeamTree, tokenizer: Tokenizer) -> list[schemas.TreeNode]:
    """The tree as it is sent: every candidate with its own probability."""
    texts = tokenizer.tokens([node.token for node in tree.nodes])
    found = []
    for node, text in zip(tree.nodes, texts, strict=True):
        before = 0.0 if node.parent < 0 else tree.nodes[node.parent].log_prob
        found.append(
            schemas.TreeNode(
                step=node.step,
                parent=node.parent,
                text=text,
                id=node.token,
                probability=math.exp(node.log_prob - before),
                log_prob=node.log_prob,
                kept=node.kept,
                finished=node.finished,
                returned=node.returned,
            )
        )
    return found


class GrowingTree(BeamTree):
    """A tree that tells its best path after every step of the search."""

    def __init__(self, on_step: Callable[[list[int]], None]):
        super().__init__()
        self.on_step = on_step

    def stepped(self, best: Mapping[int, int]) -> None:
        """Of the paths still kept, ended ones too, the one that the search ranks first."""
        (end,) = best.values()
        self.on_step([self.nodes[place].token for place in self.path(end)])
