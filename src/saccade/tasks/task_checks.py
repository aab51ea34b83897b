"""The promises of a task, each a function that says what is broken (`saccade check`).

They are put to the test on two files of some lines, with the smallest model of ours that fits.
"""

import dataclasses
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from saccade.config import build, unbuild
from saccade.data.batches import split
from saccade.decoding.options import DecodeOptions
from saccade.errors import InputError
from saccade.inspection.model_checks import tiny_model, tiny_sizes
from saccade.inspection.score_checks import Check, UncheckedError
from saccade.models import MODELS
from saccade.models.contract import learns_by_counting
from saccade.randomness import seeded
from saccade.tasks.metrics import Metric
from saccade.tasks.task import Batch, Evaluation, Order, Plain, Prediction, Term, missing

LINES = 70  # more than are decoded together
TEXTS = ("b c d", "", "a", "d b", "a")
OPTIONS = DecodeOptions(beam=1, max_ratio=1.0)
BATCH_TOKENS = 384  # several rows each, several batches an epoch
MOST_STEPS = 100  # that are looked at, where an epoch is long
PIECES = 3  # that a batch is dealt out in
CLOSE = 1e-4  # scores of predictions: models are in single precision, as in training
SAME_SUM = 5e-6  # relative, so that a state that reaches a few tokens shows; rounding is 1e-7


# --- a task at work -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Trial:
    """A task that has read the lines, and an untrained model for it."""

    task: Any
    model: Any
    folder: Path
    files: list[str]

    def store(self) -> Any:
        return self.task.store(self.folder / "tokens", lambda _: None)

    def order(self, store: Any) -> Order:
        made = self.task.order(store, BATCH_TOKENS, 1)
        assert isinstance(made, Order), "order must give an Order: it has a length and `at(step)`"
        return made

    def batch(self, store: Any, rows: NDArray[Any]) -> Any:
        made = self.task.collate(store, rows)
        assert isinstance(made, Batch), "collate must give a Batch: it has `counts`"
        move = getattr(made, "to", None)
        assert callable(move), "a batch must go `to(device)`"
        return move(torch.device("cpu"))

    def objective(self) -> Any:
        """With dropout off."""
        made = self.task.objective(self.model, 0.1)
        fits = isinstance(made, nn.Module) and isinstance(getattr(made, "terms", None), tuple)
        assert fits, "objective must give a module with `terms`, the names of its loss terms"
        return made.eval()


@contextmanager
def trial(cls: Any) -> Iterator[Trial]:
    """What the checks work with; without a model or data that fit, nothing can be checked."""
    if lacking := missing(cls):
        raise UncheckedError(f"it lacks {', '.join(lacking)}")
    model = fitting_model(cls)
    with TemporaryDirectory() as name:
        folder = Path(name)
        files = _write_lines(folder)
        given = {"model": _free(cls, tiny_sizes(model)), "task": {"train": files}}
        tables = {key: {**cls.defaults.get(key, {}), **given[key]} for key in given}
        try:
            config = build(cls.Config, tables["task"], "task")
            config, settings = cls.suited(config, model, tables["model"])
            task = cls.prepare(config, folder)
        except InputError as error:
            raise UncheckedError(f"it does not take two files of lines: {error}") from None
        assert hasattr(task, "config"), f"prepare must give the task with its config, not {task!r}"
        sizes = build(model.Config, {**settings, **task.model_fields()}, "model")
        with seeded(1):
            made = task.build(model, sizes).eval()
        yield Trial(task, made, folder, files)


def fitting_model(cls: Any) -> Any:
    """The smallest of our models that does such a task."""
    fitting = [model for model in MODELS.values() if _fits(cls, model)]
    if not fitting:
        fields = ", ".join(cls.model_field_names)
        raise UncheckedError(
            f"no model fits: none of ours has {cls.kind!r} among its tasks and {fields} in its "
            "Config, so train it for some steps with your own"
        )
    return min(fitting, key=lambda model: sum(p.numel() for p in tiny_model(model).parameters()))


def _fits(cls: Any, model: Any) -> bool:
    fields = {field.name for field in dataclasses.fields(model.Config)}
    return (
        not learns_by_counting(model)
        and cls.kind in model.tasks
        and {*cls.model_field_names} <= fields
    )


def _free(cls: Any, sizes: Mapping[str, Any]) -> dict[str, Any]:
    """Of a model's sizes those that do not come from the data."""
    return {name: size for name, size in sizes.items() if name not in cls.model_field_names}


def _write_lines(folder: Path) -> list[str]:
    """One to nine letters a line; and backwards, some twice: hardly a batch is without padding."""
    rows = [["abcd"[n * place % 4] for place in range(1, 2 + n % 9)] for n in range(LINES)]
    backwards = [[*row[::-1], *row[: n % 4]] for n, row in enumerate(rows)]
    sides = {"lines.source": rows, "lines.target": backwards}
    for name, side in sides.items():
        text = "".join(" ".join(row) + "\n" for row in side)
        (folder / name).write_text(text, encoding="utf-8")
    return [str(folder / name) for name in sides]


# --- what it has ----------------------------------------------------------------------------------


def has_members(cls: Any) -> None:
    """All that `Task` promises the trainer and the commands."""
    lacking = missing(cls)
    assert not lacking, f"it lacks {', '.join(lacking)} (see saccade.tasks.task.Task)"


def has_a_config(cls: Any) -> None:
    """`Config` is a dataclass with `train` and `dev`; what else the class says is of its type."""
    assert dataclasses.is_dataclass(getattr(cls, "Config", None)), "Config must be a dataclass"
    names = {field.name for field in dataclasses.fields(cls.Config)}
    assert {"train", "dev"} <= names, "Config needs the fields train and dev"
    types = {
        "kind": str, "model_field_names": tuple, "usual_model": str, "defaults": Mapping,
        "options": DecodeOptions, "decodes": bool,
    }  # fmt: skip
    for name, wanted in types.items():
        value = getattr(cls, name, None)
        assert isinstance(value, wanted), f"{name} must be a {wanted.__name__}, not {value!r}"
    tables = {name: table for name, table in cls.defaults.items() if not isinstance(table, Mapping)}
    assert not tables, f"defaults holds tables such as {{'train': {{...}}}}, not {tables}"
    usual = MODELS.get(cls.usual_model)
    does = ".py:" in cls.usual_model if usual is None else cls.kind in usual.tasks
    assert does, f"usual_model {cls.usual_model!r} does not do {cls.kind!r}"


# --- learning -------------------------------------------------------------------------------------


def orders_by_seed_and_step(cls: Any) -> None:
    """A batch is a function of seed and step; each row once an epoch where the order says so."""
    with trial(cls) as tried:
        store = tried.store()
        order, other = tried.order(store), tried.order(store)
        assert len(order) > 0, "an epoch has no batch"
        steps = range(min(2 * len(order), 2 * MOST_STEPS))
        seen = [_batch_at(order, step) for step in steps]
        for step in reversed(steps):
            place, rows = seen[step]
            assert place == divmod(step, len(order)), (
                f"step {step} is batch (epoch, number) {divmod(step, len(order))} of {len(order)} "
                f"an epoch, not {place}"
            )
            assert len(rows), f"step {step} has no rows"
            for again, whose in ((order, "asked again"), (other, "another order of the seed")):
                same = np.array_equal(_batch_at(again, step)[1], rows)
                assert same, f"{whose} gives other rows at step {step}: a run could not be resumed"
        if getattr(order, "every_row", False):
            epoch = np.concatenate([rows for place, rows in seen if place[0] == 0])
            whole = np.array_equal(np.sort(epoch), np.arange(len(store)))
            assert whole, f"an epoch is not each of the {len(store)} rows of the store once"


def _batch_at(order: Order, step: int) -> tuple[tuple[int, int], NDArray[Any]]:
    made = order.at(step)
    assert isinstance(made, tuple), f"at({step}) must be (epoch, number, rows), not {made!r}"
    epoch, number, rows = made
    return (epoch, number), np.array(rows)  # a copy: an order may use its own again


def gives_loss_terms(cls: Any) -> None:
    """Store, order, collate and objective give finite terms that teach the model something."""
    with trial(cls) as tried:
        store, objective, carry = tried.store(), tried.objective(), None
        order = tried.order(store)
        for step in range(min(len(order), MOST_STEPS)):
            batch = tried.batch(store, _batch_at(order, step)[1])
            terms, carry = _terms(objective, batch, carry)
            loss = torch.stack([term.sum * term.weight for term in terms.values()]).sum()
            assert loss.requires_grad, "the loss has no gradient: it does not depend on the model"
            loss.backward()
        grads = [each.grad for each in tried.model.parameters() if each.grad is not None]
        assert grads, "no gradient reaches the model"
        assert all(torch.isfinite(grad).all() for grad in grads), "a gradient is not finite"
        opened = tried.task.open(tried.folder / "tokens")
        assert opened is not None, "open does not find what store made"
        again = tried.batch(opened, _batch_at(order, 0)[1]).counts
        first = tried.batch(store, _batch_at(order, 0)[1]).counts
        assert again == first, "what open finds is not what store gave"


def _terms(objective: Any, batch: Any, carry: Any) -> tuple[dict[str, Term], Any]:
    """The terms of a batch, each as the trainer needs it, and what is carried on."""
    made = objective(batch, carry)
    fits = isinstance(made, tuple) and len(made) == 2 and isinstance(made[0], dict) and made[0]
    assert fits, f"the objective must give (terms by name, what it carries), not {made!r}"
    terms: dict[str, Term] = made[0]
    for name, term in terms.items():
        assert name in objective.terms, f"term {name!r} is not in `terms`, {objective.terms}"
        assert isinstance(term, Term), f"term {name!r} must be a Term, not {term!r}"
        value = term.sum.item() * term.weight
        assert math.isfinite(value), f"term {name!r} is {value}: it must be finite"
    for name in objective.terms:
        assert name in batch.counts, f"the batch does not count {name!r}, a term of the loss"
    for name, term in terms.items():
        counted = batch.counts[name]
        assert term.count == counted, f"{name}: the term counts {term.count}, its batch {counted}"
    return terms, made[1]


@torch.no_grad()
def adds_up(cls: Any) -> None:
    """Micro-batches of a batch, each with what it carries, add up to the batch."""
    with trial(cls) as tried:
        store, objective = tried.store(), tried.objective()
        order, carry, carries = tried.order(store), None, [None] * PIECES
        plan = [_batch_at(order, step)[1] for step in range(min(len(order), MOST_STEPS))]
        if max(map(len, plan)) == 1:
            raise UncheckedError(f"each batch of {BATCH_TOKENS} tokens is a single row")
        for rows in plan:
            whole, carry = _terms(objective, tried.batch(store, rows), carry)
            sums: Counter[str] = Counter()
            counts: Counter[str] = Counter()
            for number, part in enumerate(each for each in split(rows, PIECES) if len(each)):
                batch = tried.batch(store, part)
                terms, carries[number] = _terms(objective, batch, carries[number])
                sums.update({name: term.sum.item() for name, term in terms.items()})
                counts.update({name: term.count for name, term in terms.items()})
            for name, term in whole.items():
                assert counts[name] == term.count, (
                    f"{name}: micro-batches count {counts[name]}, the whole batch {term.count}"
                )
                total = term.sum.item()
                room = SAME_SUM * max(abs(total), term.count)
                assert math.isclose(sums[name], total, rel_tol=0, abs_tol=room), (
                    f"{name}: micro-batches sum to {sums[name]:.8g}, the whole batch to {total:.8g}"
                )


# --- measuring and predicting ---------------------------------------------------------------------


@torch.no_grad()
def scores(cls: Any) -> None:
    """Units, measured in any order, through JSON, give finite metrics, always the same."""
    with trial(cls) as tried:
        task = tried.task
        examples = _through_json(task.examples(tried.files, lambda _: None), "examples")
        units = _through_json(task.units(examples), "units")
        assert units, "units gives no work, but there are examples"
        for options in (None, OPTIONS):
            found = []
            for order in (range(len(units)), reversed(range(len(units)))):
                made = {n: task.measure(tried.model, units[n], options) for n in order}
                measures = [_through_json(made[n], "a measure") for n in range(len(units))]
                found.append(_metrics(task.score(examples, measures)))
            same = found[0].keys() == found[1].keys() and all(
                math.isclose(value, found[1][name], rel_tol=1e-9)
                for name, value in found[0].items()
            )
            assert same, f"the order of measuring changes metrics: {found[0]} became {found[1]}"


def _through_json(value: Plain, what: str) -> Plain:
    """As another process or a file gives it back."""
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{what} must be what JSON can hold: {error}") from None


def _metrics(found: Any) -> dict[str, float]:
    assert isinstance(found, Evaluation), f"score must give an Evaluation, not {found!r}"
    assert found.metrics, "score gives no metrics"
    for metric in found.metrics:
        assert isinstance(metric, Metric), f"a metric must be a Metric, not {metric!r}"
        assert math.isfinite(metric.value), f"metric {metric.name!r} is {metric.value}"
    rows = _through_json(found.examples, "the examples of an Evaluation")
    fits = rows and all(isinstance(row, dict) for row in rows)
    assert fits, "the examples of an Evaluation must be dicts, one an example"
    return {metric.name: metric.value for metric in found.metrics}


def predicts_each_text(cls: Any) -> None:
    """One prediction a text, blank or not, in order, the same as alone."""
    with trial(cls) as tried:
        found = _predicted(tried.task, tried.model, TEXTS)
        assert len(found) == len(TEXTS), f"{len(TEXTS)} texts gave {len(found)} predictions"
        for text, each in zip(TEXTS, found, strict=True):
            (alone,) = _predicted(tried.task, tried.model, [text])
            assert each.source_tokens == alone.source_tokens, "predictions are not in order"
            assert _alike(each, alone), "alone is not as in a batch"


def loads_as_prepared(cls: Any) -> None:
    """What `load` finds in the run's folder is the task that `prepare` made."""
    with trial(cls) as tried:
        task, model = tried.task, tried.model
        again = cls.load(build(cls.Config, unbuild(task.config), "task"), tried.folder)
        for name in ("model_fields", "fingerprints"):
            before, after = getattr(task, name)(), getattr(again, name)()
            assert before == after, f"after load {name} is {after}, it was {before}"
        pairs = zip(_predicted(task, model, TEXTS), _predicted(again, model, TEXTS), strict=True)
        for text, (before, after) in zip(TEXTS, pairs, strict=True):
            same = before.text == after.text and _alike(before, after)
            assert same, f"after load {text!r} gives {after.text!r}, it gave {before.text!r}"


def _predicted(task: Any, model: Any, texts: Sequence[str]) -> list[Prediction]:
    found = task.predict(model, list(texts), OPTIONS)
    fits = isinstance(found, list) and all(isinstance(each, Prediction) for each in found)
    assert fits, f"predict must give a list of Predictions, not {found!r}"
    return found


def _alike(one: Prediction, other: Prediction) -> bool:
    return math.isclose(one.score, other.score, abs_tol=CLOSE)


TASK_CHECKS: dict[str, Check] = {
    "all members are there": has_members,
    "it has a config": has_a_config,
    "a batch is a function of seed and step": orders_by_seed_and_step,
    "the loss is finite, and counted as its batch": gives_loss_terms,
    "micro-batches add up to the batch": adds_up,
    "scores are finite, in any order of work": scores,
    "one prediction a text, in order": predicts_each_text,
    "a loaded task predicts as before": loads_as_prepared,
}
