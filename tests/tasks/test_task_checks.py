"""The promises of a task: checks that pass what is right and name what is broken."""

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from saccade.data.batches import Order, PairBatch
from saccade.errors import InputError
from saccade.inspection.score_checks import Check, UncheckedError
from saccade.tasks import task_checks
from saccade.tasks.generate import Generate
from saccade.tasks.metrics import Metric
from saccade.tasks.task import Objective, Term
from saccade.tasks.translate import Translate


class Backwards(Translate):
    def predict(self, model: Any, texts: Any, *options: Any, **more: Any) -> Any:
        return super().predict(model, texts, *options, **more)[::-1]


class SkipsBlanks(Translate):
    def predict(self, model: Any, texts: Any, *options: Any, **more: Any) -> Any:
        return super().predict(model, [t for t in texts if t], *options, **more)


class CountsNeighbours(Translate):
    def predict(self, model: Any, texts: Any, *options: Any, **more: Any) -> Any:
        found = super().predict(model, texts, *options, **more)
        return [dataclasses.replace(each, score=float(len(texts))) for each in found]


class Unlike(Translate):
    def predict(self, *_: Any, **__: Any) -> Any:
        return None


class CannotStream(Translate):
    stream: Any = None


class Bare(Translate):
    kind = usual_model = defaults = options = decodes = trace = None  # type: ignore[assignment]


class Unsaid(Translate):
    options: Any = None


class Unusual(Translate):
    usual_model = "gpt"


class Dateless(Translate):
    Config: Any = dataclasses.make_dataclass("Dateless", [("train", list)])


class Loose(Translate):
    defaults: ClassVar[Any] = {"train": 3}


class Listless(Translate):
    def order(self, *_: Any) -> Any:
        return None


class Drawn(Order):
    """Whoever asks again gets something else."""

    def at(self, step: int) -> Any:
        epoch, index, rows = super().at(step)
        return epoch, index, np.random.default_rng().permutation(rows.repeat(2))


class Draws(Translate):
    def order(self, store: Any, batch_tokens: int, seed: int) -> Any:
        return Drawn(store.offsets, batch_tokens, seed)


class Grown(Order):
    made = 0

    def __init__(self, lengths: Any, batch_tokens: int, seed: int):
        Grown.made += 1
        super().__init__(lengths, batch_tokens, seed + Grown.made)


class NeverTheSame(Translate):
    def order(self, store: Any, batch_tokens: int, seed: int) -> Any:
        return Grown(store.offsets, batch_tokens, seed)


class Straight(Order):
    def at(self, step: int) -> Any:
        return 0, step, super().at(step)[2]


class NoEpochs(Translate):
    def order(self, store: Any, batch_tokens: int, seed: int) -> Any:
        return Straight(store.offsets, batch_tokens, seed)


class Some(Order):
    def at(self, step: int) -> Any:
        epoch, index, rows = super().at(step)
        return epoch, index, rows[:1]


class Skips(Translate):
    def order(self, store: Any, batch_tokens: int, seed: int) -> Any:
        return Some(store.offsets, batch_tokens, seed)


class SkipsAndSaysSo(Translate):
    def order(self, store: Any, batch_tokens: int, seed: int) -> Any:
        made = Some(store.offsets, batch_tokens, seed)
        made.every_row = False
        return made


class Uncollated(Translate):
    def collate(self, *_: Any) -> Any:
        return None


class Aimless(Translate):
    def objective(self, *_: Any) -> Any:
        return None


class Wrapped(Objective):
    """The objective of translate, and what is made of its terms."""

    terms = ("loss",)

    def __init__(self, inner: Any, change: Any):
        super().__init__()
        self.inner, self.change = inner, change

    def forward(self, batch: Any, carry: Any) -> Any:
        return self.change(self.inner(batch, carry)[0]["loss"], batch)


def with_loss(change: Any) -> Any:
    class Changed(Translate):
        def objective(self, model: Any, smoothing: float) -> Any:
            return Wrapped(super().objective(model, smoothing), change)

    return Changed


Nothing = with_loss(lambda *_: None)
Strange = with_loss(lambda loss, _: ({"other": loss}, None))
Untyped = with_loss(lambda loss, _: ({"loss": loss.sum}, None))
Infinite = with_loss(lambda loss, _: ({"loss": Term(loss.sum / 0, loss.count)}, None))
Miscounts = with_loss(lambda loss, _: ({"loss": Term(loss.sum, loss.count + 1)}, None))
Taught = with_loss(lambda loss, _: ({"loss": Term(loss.sum.detach(), loss.count)}, None))
Averages = with_loss(lambda loss, _: ({"loss": Term(loss.sum / loss.count, loss.count)}, None))


class Forgetful(Translate):
    def open(self, folder: Any) -> Any:  # noqa: ARG002
        return None


class CountsWidth(Translate):
    """Padding is counted, so a batch counts more than its parts."""

    def collate(self, store: Any, indices: Any) -> Any:
        batch = super().collate(store, indices)
        return WideBatch(*(getattr(batch, field.name) for field in dataclasses.fields(batch)))


class WideBatch(PairBatch):
    @property
    def counts(self) -> dict[str, int]:
        return {"loss": self.target.numel()}

    def to(self, device: Any) -> Any:  # noqa: ARG002
        return self


class CarriesTogether(Generate):
    """What is carried is of all rows, not of each."""

    def objective(self, model: Any, smoothing: float) -> Any:
        made = super().objective(model, smoothing)
        inner = made.forward

        def forward(batch: Any, carry: Any) -> Any:
            terms, state = inner(batch, carry)
            return terms, {n: x.mean(0, keepdim=True).expand_as(x) for n, x in state.items()}

        made.forward = forward  # type: ignore[method-assign]
        return made


class OneByOne(Generate):
    def order(self, store: Any, batch_tokens: int, seed: int) -> Any:  # noqa: ARG002
        return super().order(store, 1, seed)


class Scoreless(Translate):
    def score(self, *_: Any) -> Any:
        return None


class Unmeasured(Translate):
    def units(self, examples: Any) -> Any:  # noqa: ARG002
        return []


class Tensors(Translate):
    def measure(self, *args: Any) -> Any:
        return {**super().measure(*args), "loss": torch.zeros(1)}


class Undefined(Translate):
    def score(self, examples: Any, measures: Any) -> Any:
        found = super().score(examples, measures)
        return dataclasses.replace(found, metrics=[Metric("hope", math.nan, "")])


class Unexampled(Translate):
    def score(self, examples: Any, measures: Any) -> Any:
        return dataclasses.replace(super().score(examples, measures), examples=[])


class Remembers(Translate):
    """What was measured before changes what is measured now."""

    seen = 0

    def measure(self, *args: Any) -> Any:
        self.seen += 1
        found = super().measure(*args)
        return {**found, "seen": self.seen}

    def score(self, examples: Any, measures: Any) -> Any:
        found = super().score(examples, measures)
        metric = Metric("seen", float(sum(i * each["seen"] for i, each in enumerate(measures))), "")
        return dataclasses.replace(found, metrics=[metric])


class Reloads(Translate):
    @classmethod
    def load(cls, config: Any, folder: Any) -> Any:
        found = super().load(config, folder)
        found.target.decode = lambda _: "?"  # type: ignore[method-assign]
        return found


class Shrinks(Translate):
    loaded = False

    @classmethod
    def load(cls, config: Any, folder: Any) -> Any:
        found = super().load(config, folder)
        found.fingerprints = dict  # type: ignore[assignment,method-assign]
        return found


@pytest.mark.parametrize(
    ("cls", "check", "message"),
    [
        (Backwards, task_checks.predicts_each_text, "not in order"),
        (SkipsBlanks, task_checks.predicts_each_text, "5 texts gave 4 predictions"),
        (CountsNeighbours, task_checks.predicts_each_text, "alone is not as in a batch"),
        (Unlike, task_checks.predicts_each_text, "a list of Predictions, not None"),
        (CannotStream, task_checks.has_members, "lacks stream "),
        (
            Bare,
            task_checks.has_members,
            "lacks kind, usual_model, defaults, options, dec",
        ),
        (Unsaid, task_checks.has_a_config, "options must be a DecodeOptions, not None"),
        (Unusual, task_checks.has_a_config, "'gpt' does not do 'translate'"),
        (Dateless, task_checks.has_a_config, "train and dev"),
        (Loose, task_checks.has_a_config, "tables such as"),
        (Listless, task_checks.orders_by_seed_and_step, "must give an Order"),
        (Draws, task_checks.orders_by_seed_and_step, "asked again gives other rows"),
        (NeverTheSame, task_checks.orders_by_seed_and_step, "another order of the seed"),
        (NoEpochs, task_checks.orders_by_seed_and_step, r"\(1, \d+\) of \d+ an epoch, not \(0"),
        (Skips, task_checks.orders_by_seed_and_step, "each of the 70 rows of the store once"),
        (Uncollated, task_checks.gives_loss_terms, "must give a Batch"),
        (Aimless, task_checks.gives_loss_terms, "must give a module with `terms`"),
        (Nothing, task_checks.gives_loss_terms, "not None"),
        (Strange, task_checks.gives_loss_terms, "'other' is not in `terms`"),
        (Untyped, task_checks.gives_loss_terms, "must be a Term"),
        (Infinite, task_checks.gives_loss_terms, "is inf: it must be finite"),
        (Miscounts, task_checks.gives_loss_terms, r"the term counts (\d+), its batch (?!\1)"),
        (Taught, task_checks.gives_loss_terms, "no gradient"),
        (Forgetful, task_checks.gives_loss_terms, "open does not find"),
        (Averages, task_checks.adds_up, "micro-batches sum to"),
        (CountsWidth, task_checks.adds_up, "micro-batches count"),
        (CarriesTogether, task_checks.adds_up, "micro-batches sum to"),
        (Scoreless, task_checks.scores, "must give an Evaluation, not None"),
        (Unmeasured, task_checks.scores, "units gives no work"),
        (Tensors, task_checks.scores, "a measure must be what JSON can hold"),
        (Undefined, task_checks.scores, "'hope' is nan"),
        (Unexampled, task_checks.scores, "must be dicts, one an example"),
        (Remembers, task_checks.scores, "the order of measuring changes metrics"),
        (Reloads, task_checks.loads_as_prepared, r"after load 'b c d' gives '\?'"),
        (Shrinks, task_checks.loads_as_prepared, "after load fingerprints is {}"),
    ],
)
def test_a_broken_task_is_seen(cls: Any, check: Check, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check(cls)


def test_an_order_may_leave_out_rows_if_it_says_so() -> None:
    task_checks.orders_by_seed_and_step(SkipsAndSaysSo)


class Listen(Translate):
    kind = "listen"


class Series(Translate):
    @classmethod
    def prepare(cls, config: Any, folder: Any) -> Any:  # noqa: ARG003
        raise InputError(f"{config.train[0]} is not a WAV file")


@pytest.mark.parametrize(
    ("cls", "message"),
    [
        (Listen, "no model fits: none of ours has 'listen' among its tasks"),
        (Series, "does not take two files of lines: .* is not a WAV file"),
        (CannotStream, "it lacks stream"),
    ],
)
def test_what_cannot_be_tried_is_not_called_good(cls: Any, message: str) -> None:
    for check in [*task_checks.TASK_CHECKS.values()][2:]:
        with pytest.raises(UncheckedError, match=message):
            check(cls)


def test_batches_of_one_row_show_nothing_about_their_parts() -> None:
    with pytest.raises(UncheckedError, match="a single row"):
        task_checks.adds_up(OneByOne)
