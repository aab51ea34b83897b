"""Train a model: the caller of the loop, who logs, evaluates, saves and decides when to stop."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from saccade.errors import TooShortError, TrainingError
from saccade.tasks.task import Evaluation
from saccade.training import checkpoint
from saccade.training.card import model_card
from saccade.training.checkpoint import Checkpoint
from saccade.training.crew import Crew
from saccade.training.failures import told
from saccade.training.loop import Command, Update, call, train
from saccade.training.optim import SCHEDULES, Progress, Rates
from saccade.training.run import named_weights
from saccade.training.signals import Interrupted, noted_signals
from saccade.training.standing import Standing, merits_of

REFUSED_IN_A_ROW = 10
EVALUATIONS = 5  # over the budget, when eval_every is unset
EVALUATING = 0.05  # share of the time they may take
EVALUATION_SECONDS = 5.0  # a guess, until the first has been made
SAVE_SECONDS = 60.0  # when save_every is unset
AGAIN = "repeat with --resume --accept-changes"


@dataclass(frozen=True, slots=True)
class Events:
    """What a progress display wants to know; each may be ignored."""

    start: Callable[["Trainer"], None] = lambda _: None
    update: Callable[["Trainer", Update], None] = lambda _, __: None
    evaluation: Callable[["Trainer", Evaluation, bool], None] = lambda _, __, ___: None
    warn: Callable[[str], None] = lambda _: None
    finish: Callable[["Trainer"], None] = lambda _: None


class Trainer:
    """One run in one sitting."""

    def __init__(self, crew: Crew, events: Events, started_at: float):
        self.crew, self.events, self.started_at = crew, events, started_at
        self.config = crew.settings.train
        self.standing = Standing()
        self.before = 0.0  # seconds used by earlier sittings
        self.evaluated_at = 0.0
        self.saved_at = time.monotonic()
        self.saved_step: int | None = None  # of the last good checkpoint
        self.signal = 0
        self.calmer = f"{self.config.calmer} and {AGAIN}"
        self.warned: set[str] = set()  # what the evaluations of this sitting told

    # --- where it stands ---

    @property
    def seconds(self) -> float:
        return self.before + time.monotonic() - self.started_at

    @property
    def share(self) -> float:
        """Of the budget used, from 0 to 1; of steps and minutes, what ends first."""
        steps, minutes = self.config.steps, self.config.minutes
        by_steps = 0.0 if steps is None else self.standing.step / steps
        if minutes is None:
            return min(1.0, by_steps)
        # Of the time there is to train in: starting up and the last evaluation are not part of it.
        standing = self.standing
        reserve = standing.reserve or min(EVALUATION_SECONDS, EVALUATING * 60 * minutes)
        reserve *= 2 if self.config.average > 1 else 1  # the last weights, and then their average
        available = 60 * minutes - reserve - standing.idle
        by_clock = (self.seconds - standing.idle) / available if available > 0 else 1.0
        return min(1.0, max(by_steps, by_clock))

    def rate(self, step: int) -> float:
        rates = Rates(
            peak=self.config.peak_rate,
            warmup=self.config.warmup,
            dim=self.crew.settings.model.get("dim"),
            floor=self.config.floor,
        )
        return SCHEDULES[self.config.schedule](Progress(step, self.share), rates)

    # --- the sitting ---

    def train(self) -> None:
        """Update, evaluate and save until the budget is used up or patience ends."""
        self.standing.idle += self.seconds - self.before
        self.evaluated_at = self.seconds
        self.events.start(self)
        with noted_signals(self._note):
            loop = train(self.crew.learner, self.crew.pieces, self.rate, self.standing.step + 1)
            while not self._done():
                update = self._guarded(loop)
                self.standing.step = update.step
                self._account(update)
                self.events.update(self, update)
                if self._evaluation_due():
                    self._evaluate()
                due, stopping = self._saving_due(), self.signal
                best = self.standing.step == self.standing.best_step
                saved = self.save(averaged=due) if due or best or stopping else False
                if stopping:
                    raise self._stopped(saved=saved)
            if not self.standing.step:
                raise TooShortError(
                    f"the {self.config.minutes:g} minutes were over before the first update, after "
                    f"{self.seconds:.0f} seconds of set-up: repeat with --resume and more --minutes"
                )
            self._finish()
            if self.signal:  # others may be about to be trained
                raise Interrupted(self.signal)

    def _note(self, number: int) -> None:
        self.signal = number

    def _stopped(self, *, saved: bool) -> Exception:
        """What a signal ends in; that nothing could be saved is an error."""
        stop = Interrupted(self.signal)
        if saved:
            return stop
        last = self.saved_step
        goes_on = "begins anew" if last is None else f"goes on from step {last}, the last saved"
        return TrainingError(
            f"{stop}, and step {self.standing.step} could not be saved: --resume {goes_on}"
        )

    def _done(self) -> bool:
        return self.share >= 1 or self.standing.out_of(self.config.patience)

    def _guarded(self, loop: Iterator[Update]) -> Update:
        memory = (
            f"in update {self.standing.step + 1} ({self._batch(self.standing.step)}), of up to "
            f"{self.config.batch_tokens} positions a side; raise train.accumulate (now "
            f"{self.config.accumulate}, same result in smaller pieces) or lower "
            f"train.batch_tokens, then {AGAIN}"
        )
        with told(memory=memory, numbers=self.calmer):
            return next(loop)

    def _account(self, update: Update) -> None:
        standing = self.standing
        standing.tokens += update.count
        if update.applied:
            standing.refused_in_a_row = 0
        else:
            standing.refused += 1
            standing.refused_in_a_row += 1
            self.events.warn(
                f"update {update.step} was not applied: a loss or gradient is not finite "
                f"({self._batch(update.step - 1)})"
            )
        if standing.refused_in_a_row >= REFUSED_IN_A_ROW:
            raise TrainingError(
                f"{REFUSED_IN_A_ROW} updates in a row had a loss or gradient that is not finite; "
                f"{self.calmer}, or look at the batch named above"
            )
        if update.step % 10 == 0 and update.applied:
            line = {
                "step": update.step, "seconds": round(self.seconds, 2), "rate": update.rate,
                "grad_norm": update.grad_norm, "tokens": standing.tokens, **update.losses,
            }  # fmt: skip
            self._log(line)

    def _batch(self, step: int) -> str:
        """Which one it is, for who looks for it in the data."""
        epoch, index, rows = self.crew.order.at(step)
        return f"epoch {epoch + 1}, batch {index + 1}, {len(rows)} examples from {rows.flat[0]}"

    def _log(self, line: dict[str, Any]) -> None:
        """A line of metrics.jsonl; a full disk or a score that is no number stops nothing."""
        known = {key: value for key, value in line.items() if math.isfinite(value)}
        try:
            self.crew.run.append_metrics(known)
        except OSError as error:
            self.events.warn(f"metrics of step {line['step']} not written: {error}")

    # --- evaluating ---

    def _evaluation_due(self) -> bool:
        if self.crew.dev is None:
            return False
        if self.config.eval_every is not None:
            return self.standing.step % self.config.eval_every == 0
        # The last fifth ends with the run, and is evaluated by _finish.
        due = math.floor(self.share * EVALUATIONS)
        if not self.standing.evaluations < due < EVALUATIONS:
            return False
        # By the clock, an evaluation that eats into the training, or into the last, is left out.
        expected = self.standing.reserve or EVALUATION_SECONDS
        cheap = expected <= EVALUATING * (self.seconds - self.evaluated_at) and self.share < 0.9
        return self.config.steps is not None or cheap

    def _evaluate(self) -> Evaluation:
        begun_at = time.monotonic()
        evaluation = self.evaluation()
        standing, merit = self.standing, evaluation.main.merit
        standing.evaluated_step = standing.step
        if math.isfinite(merit):
            standing.values[str(standing.step)] = merit
        standing.evaluations = max(standing.evaluations + 1, math.floor(self.share * EVALUATIONS))
        merits = merits_of(evaluation)
        better = merits > standing.best  # an equal one by the next metric
        ahead = not standing.best or merit > standing.best[0]
        if better and self._written(evaluation):
            standing.best, standing.best_step = merits, standing.step
            standing.stale = 0 if ahead else standing.stale + 1
        else:
            standing.stale += 1
        self._log(
            {"step": standing.step, "seconds": round(self.seconds, 2),
             **{f"dev {metric.name}": metric.value for metric in evaluation.metrics}}
        )  # fmt: skip
        standing.reserve = time.monotonic() - begun_at + 1
        self.evaluated_at = self.seconds
        self.events.evaluation(self, evaluation, better)
        return evaluation

    def _written(self, evaluation: Evaluation) -> bool:
        """Whether the model as it is now could be written; a full disk is told."""
        try:
            self._write_model(self._chosen(), evaluation)
        except TrainingError as error:
            self.events.warn(f"the best model so far was not written: {error}")
            return False
        return True

    def evaluation(self) -> Evaluation:
        """The dev set by the weights as they are (or their moving average)."""
        memory = (
            f"in the evaluation at step {self.standing.step}; take the longest texts out of "
            f"task.dev or lower train.processes (now {self.config.processes}), then {AGAIN}"
        )
        with self._averaged():
            call(self.crew.learner, Command.EVALUATE)
            with told(memory=memory, numbers=self.calmer):
                measures = self.crew.collect_dev()
        found = self.crew.task.score(self.crew.dev, measures)
        for text in found.warnings:
            if text not in self.warned:  # it holds for every evaluation
                self.warned.add(text)
                self.events.warn(f"dev: {text}")
        return found

    @contextmanager
    def _averaged(self) -> Iterator[None]:
        """Inside, the model is its moving average, if there is one."""
        call(self.crew.learner, Command.MEET)
        weights = self.crew.learner.weights
        if weights.ema is None:
            yield
            return
        raw = weights.flat.clone()
        weights.flat.copy_(weights.ema)
        try:
            yield
        finally:
            weights.flat.copy_(raw)

    def _chosen(self) -> dict[str, Tensor]:
        with self._averaged():
            return {name: t.clone() for name, t in named_weights(self.crew.module).items()}

    def _write_model(self, tensors: dict[str, Tensor], evaluation: Evaluation | None) -> None:
        run = self.crew.run
        run.write_weights(tensors, {"step": str(self.standing.step)}, remedy=self.calmer)
        if evaluation is not None:
            run.write_evaluation("dev", evaluation)

    # --- saving ---

    def _saving_due(self) -> bool:
        scored = self.standing.evaluated_step == self.standing.step
        if self.config.average_of == "best" and scored:
            return True
        if self.config.save_every is not None:
            return self.standing.step % self.config.save_every == 0
        return time.monotonic() - self.saved_at > SAVE_SECONDS

    def save(self, *, averaged: bool = True) -> bool:
        """A checkpoint, if it can be; a full disk is told, and the one before is kept.

        One that an interruption or a best score caused is not averaged: those are spaced evenly.
        """
        call(self.crew.learner, Command.MEET)  # the other ranks may still be updating their part
        self.standing.seconds = self.seconds
        weights, keep = self.crew.learner.weights, max(self.config.keep, 2)
        tensors = {
            "model": named_weights(self.crew.module),
            **{f"moment{n}": weights.named(moment) for n, moment in enumerate(weights.moments)},
        }
        if weights.ema is not None:
            tensors["ema"] = weights.named(weights.ema)
        before = self.standing.averaged, self.standing.values
        if averaged:
            self._choose_averaged()
        state = dataclasses.asdict(self.standing)
        try:
            if carried := self.crew.collect_carries():
                tensors["carry"] = carried
            folder = self.crew.run.checkpoints
            checkpoint.save(folder, Checkpoint(self.standing.step, tensors, state))
            self.saved_step = self.standing.step
            checkpoint.prune(folder, keep, [*self.standing.averaged, self.standing.best_step])
        except TrainingError as error:
            if self.saved_step != self.standing.step:  # else only what is too old was not removed
                self.standing.averaged, self.standing.values = before
            self.events.warn(f"no checkpoint at step {self.standing.step}: {error}")
        self.saved_at = time.monotonic()
        return self.saved_step == self.standing.step

    def _choose_averaged(self) -> None:
        """The checkpoint about to be written joins those to average, if it is one of them."""
        standing = self.standing
        candidates = [step for step in standing.averaged if step != standing.step]
        if self.config.average_of == "last":
            standing.averaged = [*candidates, standing.step][-self.config.average :]
            return
        # Those of a run that was to average the last until now need not have been evaluated.
        scored = [step for step in [*candidates, standing.step] if str(step) in standing.values]
        best = sorted(scored, key=lambda step: -standing.values[str(step)])
        standing.averaged = sorted(best[: self.config.average])
        standing.values = {str(step): standing.values[str(step)] for step in standing.averaged}

    def restore(self, found: Checkpoint) -> None:
        """Continue from a checkpoint as if nothing had happened."""
        weights = self.crew.learner.weights
        for name, tensor in named_weights(self.crew.module).items():
            tensor.copy_(found.tensors["model"][name])
        for number, moment in enumerate(weights.moments):
            weights.fill(moment, found.tensors[f"moment{number}"])
        if weights.ema is not None:
            # Absent when it was asked for after the start, and that was accepted.
            weights.fill(weights.ema, found.tensors.get("ema", found.tensors["model"]))
        self.standing, self.saved_step = Standing.of(found.state), found.step
        self.before = self.standing.seconds
        self.standing.finished = False
        # Of a run that was lengthened since, some are ahead of it again.
        due = math.floor(self.share * EVALUATIONS)
        self.standing.evaluations = min(self.standing.evaluations, due)
        self.crew.learner.refused = self.standing.refused
        self.crew.deal_carries(found.tensors.get("carry", {}))
        self.crew.run.cut_metrics(found.step)

    # --- the end ---

    def _finish(self) -> None:
        standing, last = self.standing, None
        if self.crew.dev is not None and standing.evaluated_step != standing.step:
            last = self._evaluate()
        if self.config.average > 1 or self.saved_step is None:  # who has a card has a checkpoint
            self.save()
        if self.config.average > 1 and standing.averaged:
            self._average()
        elif not standing.best:
            self._write_model(self._chosen(), last)  # what it scored was no number
        self.crew.run.write_text(self.crew.run.card.name, model_card(self))
        standing.finished, standing.budget = True, self.config.budget
        self.save()  # last: a run that says it is finished lacks nothing
        self.events.finish(self)

    def _average(self) -> None:
        """The mean of the chosen checkpoints becomes the model."""
        mean = checkpoint.average(self.crew.run.checkpoints, self.standing.averaged)
        mine = named_weights(self.crew.module)
        raw = {name: tensor.clone() for name, tensor in mine.items()}
        for name, tensor in mine.items():
            tensor.copy_(mean[name])
        evaluation = self.evaluation() if self.crew.dev is not None else None
        self._write_model(mean, evaluation)
        for name, tensor in mine.items():
            tensor.copy_(raw[name])
        if evaluation is not None:
            self.standing.best, self.standing.best_step = merits_of(evaluation), self.standing.step
            self.events.evaluation(self, evaluation, True)  # noqa: FBT003
