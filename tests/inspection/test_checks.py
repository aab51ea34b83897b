"""The contract checks pass what is right and name what is broken."""

import dataclasses
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor

from saccade.blocks.attention import SelfAttention
from saccade.blocks.masks import masked_softmax
from saccade.blocks.scores import SCORES, Dot, Location
from saccade.blocks.sequences import Padded
from saccade.cli.check import checks_for
from saccade.errors import InputError
from saccade.inspection import model_checks, score_checks
from saccade.inspection.score_checks import Check, UncheckedError
from saccade.models import MODELS
from saccade.models.gpt import GPT
from saccade.models.markov import Markov
from saccade.models.rnn import RecurrentLM
from saccade.models.seq2seq import Seq2Seq, Seq2SeqConfig
from saccade.models.transformer import Transformer, TransformerState
from saccade.tasks import TASKS, task_checks

EVERY = [
    pytest.param(cls, check, id=f"{name}: {promise}")
    for table in (SCORES, MODELS, TASKS)
    for name, cls in table.items()
    for promise, check in checks_for(cls)[1].items()
]


NOT_OURS = [  # they say so themselves
    (Location, score_checks.ignores_the_order_of_keys),
    (GPT, model_checks.carries_on),
]


@pytest.mark.parametrize(("cls", "check"), EVERY)
def test_ours_keep_every_promise(cls: Any, check: Check) -> None:
    with pytest.raises(UncheckedError) if (cls, check) in NOT_OURS else nullcontext():
        check(cls)


class Unrelated(torch.nn.Module):
    """It has the methods and not the rest, which a Transformer asks for."""

    def __init__(self, *_: int) -> None:
        super().__init__()

    def prepare(self, memory: Any) -> Any:
        return memory

    def forward(self, query: Any, keys: Any) -> Any:
        return query @ keys.mT


def test_a_score_extends_ours() -> None:
    with pytest.raises(AssertionError, match=r"must extend saccade\.blocks\.scores\.Score"):
        score_checks.scores_every_pair(Unrelated)


class MixesPositions(Dot):
    def prepare(self, memory: Any) -> Any:
        return memory.cumsum(-2)


class OneLogit(Dot):
    def forward(self, query: Any, keys: Any) -> Any:
        return super().forward(query, keys).sum(-1, keepdim=True)


class MixesTheBatch(Dot):
    def forward(self, query: Any, keys: Any) -> Any:
        return super().forward(query, keys) + query.mean()


class NotANumber(Dot):
    def forward(self, query: Any, keys: Any) -> Any:
        return super().forward(query, keys).sqrt()


class CountsPlaces(Dot):
    def forward(self, query: Any, keys: Any) -> Any:
        return super().forward(query, keys) + torch.arange(keys.shape[-2])


class CountsPlacesAndSaysSo(CountsPlaces):
    depends_on_position = True


class BadGradient(Dot):
    def forward(self, query: Any, keys: Any) -> Any:
        return (query.unsqueeze(-2) - keys.unsqueeze(-3)).square().sum(-1).sqrt().neg()


@pytest.mark.parametrize(
    ("cls", "check"),
    [
        (MixesPositions, score_checks.prepares_each_position_alone),
        (OneLogit, score_checks.scores_every_pair),
        (MixesTheBatch, score_checks.scores_every_pair),
        (NotANumber, score_checks.gives_a_distribution),
        (CountsPlaces, score_checks.ignores_the_order_of_keys),
        (BadGradient, score_checks.has_finite_gradients),
    ],
)
def test_a_broken_score_is_seen(cls: Any, check: Check) -> None:
    with pytest.raises(AssertionError):
        check(cls)


def test_a_score_may_depend_on_position_if_it_says_so() -> None:
    with pytest.raises(UncheckedError, match="it says depends_on_position"):
        score_checks.ignores_the_order_of_keys(CountsPlacesAndSaysSo)


def test_what_carries_nothing_is_not_said_to_carry_on() -> None:
    with pytest.raises(UncheckedError, match="it carries nothing"):
        model_checks.carries_on(GPT)


class Unlimited(Transformer):
    @property
    def limit(self) -> Any:
        raise AttributeError("limit")


class Sightless(GPT):
    @property
    def sight(self) -> Any:
        raise AttributeError("sight")


@pytest.mark.parametrize(("cls", "name"), [(Unlimited, "limit"), (Sightless, "sight")])
def test_a_member_that_is_missing_is_named(cls: Any, name: str) -> None:
    with pytest.raises(AssertionError, match=f"it lacks {name} "):
        model_checks.has_members(cls)


class SeesTheFuture(Transformer):
    def forward(self, source: Padded, target: Tensor) -> Any:
        hidden = super().forward(source, target)
        return hidden + hidden.mean(1, keepdim=True)


class ReadsPadding(Transformer):
    def encode(self, source: Padded) -> Any:
        return super().encode(source) + source.tokens.double().mean(1)[:, None, None]


class StepsApart(Transformer):
    def step(self, token: Tensor, state: Any) -> Any:
        logits, state = super().step(token, state)
        return logits + 1, state


class KeepsRows(TransformerState):
    def select(self, rows: Tensor) -> Any:  # noqa: ARG002
        return self


class JoinsWrongly(TransformerState):
    def join(self, other: Any) -> Any:
        both = super().join(other)
        return TransformerState.select(both, torch.arange(both.rows).flip(0))


class SelectsNothing(Transformer):
    def start(self, source: Any, prefix: Any = None) -> Any:
        state = super().start(source, prefix)
        return KeepsRows(state.past, state.memory, state.layers)

    def step(self, token: Tensor, state: Any) -> Any:
        logits, state = super().step(token, state)
        return logits, KeepsRows(state.past, state.memory, state.layers)


class Joins(Transformer):
    def step(self, token: Tensor, state: Any) -> Any:
        logits, state = super().step(token, state)
        return logits, JoinsWrongly(state.past, state.memory, state.layers)


class Forgets(Transformer):
    def __init__(self, config: Any, *, joint: bool):
        super().__init__(config, joint=joint)
        self.shift = float(torch.randn(()))  # neither parameter nor buffer

    def forward(self, source: Padded, target: Tensor) -> Any:
        return super().forward(source, target) + self.shift


class Idle(Transformer):
    def __init__(self, config: Any, *, joint: bool):
        super().__init__(config, joint=joint)
        self.unused = torch.nn.Parameter(torch.zeros(1))


class Misnamed(Transformer):
    alignment_layers = ("decoder.7.cross_attention",)  # type: ignore[assignment]


class ShowsItself(Transformer):
    alignment_layers = ("encoder.0.attention",)  # type: ignore[assignment]


class ShowsItsPast(Transformer):
    alignment_layers = ("decoder.0.attention",)  # type: ignore[assignment]


class Idles(Transformer):
    def __init__(self, config: Any, *, joint: bool):
        super().__init__(config, joint=joint)
        self.idle = SelfAttention(config.dim, config.heads)

    alignment_layers = ("idle",)  # type: ignore[assignment]


class Reweighted(Seq2Seq):
    def __init__(self, config: Any, *, joint: bool):
        super().__init__(config, joint=joint)
        attention: Any = self.attention
        attention.weighting.forward = self.weigh


class Doubled(Reweighted):
    def weigh(self, _query: Any, logits: Tensor, focus: Any) -> Any:
        return 2 * masked_softmax(logits, focus.mask), None


class Restless(Reweighted):
    asked = 0

    def weigh(self, _query: Any, logits: Tensor, focus: Any) -> Any:
        self.asked += 1
        return masked_softmax(logits * self.asked, focus.mask), None


class Unmasked(Reweighted):
    def weigh(self, _query: Any, logits: Tensor, _focus: Any) -> Any:
        return logits.softmax(-1), None


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class LocalConfig(Seq2SeqConfig):
    attention: Any = "local-predictive"


class Local(Seq2Seq):
    Config = LocalConfig


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class BlindConfig(Seq2SeqConfig):
    attention: Any = "none"


class Blind(Seq2Seq):
    Config = BlindConfig


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (Misnamed, "no attention is called that; did you mean 'decoder.1.cross_attention'"),
        (ShowsItself, "asked 1 times in 4 steps"),
        (ShowsItsPast, r"must be .* = \(3, 2, T, 5\), not \(3, 2, 1, 1\)"),
        (Idles, "asked 0 times in 4 steps"),
        (Doubled, "do not sum to one"),
        (Restless, "elsewhere step by step"),
        (Unmasked, "looks at padding"),
    ],
)
def test_attention_that_is_not_what_it_says_is_seen(cls: Any, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        model_checks.shows_what_it_looks_at(cls)


def test_a_window_may_leave_less_to_look_at_and_a_blind_model_nothing() -> None:
    model_checks.shows_what_it_looks_at(Local)
    with pytest.raises(UncheckedError, match="no attention from target to source"):
        model_checks.shows_what_it_looks_at(Blind)


@pytest.mark.parametrize(
    ("cls", "check"),
    [
        (SeesTheFuture, model_checks.sees_no_future),
        (ReadsPadding, model_checks.ignores_padding),
        (StepsApart, model_checks.steps_as_at_once),
        (SelectsNothing, model_checks.selects_rows),
        (Joins, model_checks.joins_rows),
        (Forgets, model_checks.survives_saving),
        (Idle, model_checks.learns),
    ],
)
def test_a_broken_model_is_seen(cls: Any, check: Check) -> None:
    with pytest.raises(AssertionError):
        check(cls)


class Mixes(GPT):
    def forward(self, tokens: Tensor, carry: Any = None) -> Any:
        hidden, carry = super().forward(tokens, carry)
        return hidden + hidden[:1], carry


class LooksAhead(GPT):
    def forward(self, tokens: Tensor, carry: Any = None) -> Any:
        hidden, carry = super().forward(tokens, carry)
        return hidden.flip(1), carry


class CarriesNothing(RecurrentLM):
    def forward(self, tokens: Tensor, carry: Any = None) -> Any:  # noqa: ARG002
        return super().forward(tokens, None)


class CountsApart(Markov):
    def step(self, token: Tensor, state: Any) -> Any:
        found, state = super().step(token, state)
        return found.flip(1), state


@pytest.mark.parametrize(
    ("cls", "check"),
    [
        (Mixes, model_checks.reads_rows_apart),
        (LooksAhead, model_checks.sees_no_future),
        (CarriesNothing, model_checks.carries_on),
        (CountsApart, model_checks.steps_as_at_once),
    ],
)
def test_a_broken_language_model_is_seen(cls: Any, check: Check) -> None:
    assert check in checks_for(cls)[1].values()
    with pytest.raises(AssertionError):
        check(cls)


def test_what_is_none_of_them_is_refused() -> None:
    with pytest.raises(InputError, match="neither a model"):
        checks_for(int)
    with pytest.raises(InputError, match="not a class"):
        checks_for(3)
    with pytest.raises(AssertionError, match="lacks"):
        task_checks.has_members(int)
