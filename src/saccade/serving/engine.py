"""Loaded runs and the one thread that works for them; knows nothing of HTTP.

Every request is a job for the worker, so that models are used by one request at a time and heads
can be switched off for a single one. A job that wants to look inside decodes in a batch of its own.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from threading import BoundedSemaphore, Event
from typing import Any, TypeVar

import torch

from saccade.blocks.recording import attentions
from saccade.decoding.options import DecodeOptions
from saccade.decoding.tree import BeamTree
from saccade.errors import InputError, nearest
from saccade.inspection.ablation import without_heads
from saccade.inspection.explain import explain
from saccade.inspection.stored import distinct
from saccade.serving import folder, schemas
from saccade.serving.answers import ANSWERS, Answers, GrowingTree, tree_nodes
from saccade.serving.trace import layers_by_kind
from saccade.tasks.task import Prediction
from saccade.training.model import Model, load
from saccade.training.run import Run
from saccade.version import __version__

WAITING = 32  # jobs that may wait; more are refused
EXAMPLES = 3
R = TypeVar("R")


class BusyError(RuntimeError):
    """More requests are waiting than the engine takes."""


class GoneError(RuntimeError):
    """Whoever asked has gone away."""


class Engine:
    """Predicts with, and looks into, the runs it was given."""

    def __init__(self, models: Mapping[str, Model], *, waiting: int = WAITING, threads: int = 1):
        for name, model in models.items():
            if model.task.kind not in ANSWERS:
                raise InputError(
                    f"{name}: runs of the task {model.settings.task_name!r} cannot be served yet, "
                    f"only those whose kind is one of {', '.join(ANSWERS)}"
                )
        self.models = dict(models)
        self.answers: dict[str, Answers] = {
            name: ANSWERS[model.task.kind](model) for name, model in models.items()
        }
        self._summaries = {name: summary(name, model) for name, model in models.items()}
        self._room = BoundedSemaphore(waiting)
        self._worker = ThreadPoolExecutor(
            1, "engine", initializer=torch.set_num_threads, initargs=(threads,)
        )

    # --- what is there ---

    def runs(self) -> schemas.RunList:
        return schemas.RunList(version=__version__, runs=list(self._summaries.values()))

    def run(self, name: str) -> schemas.RunDetails:
        model = self._model(name)
        return schemas.RunDetails(
            summary=self._summaries[name],
            evaluations=folder.evaluations(model.run),
            curves=folder.curves(model.run),
            card=folder.card(model.run),
            config=folder.plain_config(model.run.config()),
        )

    def positions(self, name: str, size: int) -> schemas.Positions:
        """The first vectors of a model's positions; a model without any says so."""
        module: Any = self._model(name).module
        if not hasattr(module, "positions"):
            raise InputError(f"{name} adds no vectors of positions to its tokens: none to show")
        limit = module.positions.limit
        with torch.inference_mode():
            rows = module.positions.first(size if limit is None else min(size, limit))
        return schemas.Positions(
            name=str(getattr(module.config, "position", "positions")),
            dim=rows.shape[1],
            rows=rows.double().round(decimals=4).tolist(),
        )

    # --- work ---

    def predict(self, request: schemas.PredictRequest) -> schemas.PredictResponse:
        self._model(request.run)
        return self._queued(self._predict, request, None).result()

    def stream(
        self, request: schemas.PredictRequest
    ) -> Iterator[schemas.Draft | schemas.PredictResponse]:
        """The output as it grows, then all that `predict` gives; closing it stops the work."""
        self._model(request.run)
        if len(request.texts) != 1:
            raise InputError("one text at a time is streamed")
        events: SimpleQueue[schemas.Draft | None] = SimpleQueue()
        gone = Event()

        def tell(text: str) -> None:
            if gone.is_set():
                raise GoneError
            events.put(schemas.Draft(text=text))

        job = self._queued(self._predict, request, tell)
        job.add_done_callback(lambda _: events.put(None))
        return self._events(job, events, gone)

    @staticmethod
    def _events(
        job: "Future[schemas.PredictResponse]",
        events: "SimpleQueue[schemas.Draft | None]",
        gone: Event,
    ) -> Iterator[schemas.Draft | schemas.PredictResponse]:
        try:
            while (event := events.get()) is not None:
                yield event
            yield job.result()
        finally:
            gone.set()

    def explain(self, request: schemas.ExplainRequest) -> schemas.Explanation:
        self._model(request.run)
        return self._queued(self._explain, request).result()

    def close(self) -> None:
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _queued(self, work: Callable[..., R], *arguments: Any) -> "Future[R]":
        if not self._room.acquire(blocking=False):
            raise BusyError("too many requests are waiting; try again in a moment")
        try:
            job = self._worker.submit(work, *arguments)
        except BaseException:
            self._room.release()
            raise
        job.add_done_callback(lambda _: self._room.release())
        return job

    def _predict(
        self, request: schemas.PredictRequest, tell: Callable[[str], None] | None
    ) -> schemas.PredictResponse:
        started_at = time.perf_counter()
        model, answers = self.models[request.run], self.answers[request.run]
        with without_heads(model, request.heads_off):
            tree = self._tree(request, answers, tell)
            if request.output_ids is not None:
                found = [answers.read(request.output_ids)]
            else:
                found = self._decode(model, request.texts, self._options(request), tree, tell)
            made = [
                answers.answer(text, each, request)
                for text, each in zip(request.texts, found, strict=True)
            ]
        if tree is not None and request.tree:
            nodes = tree_nodes(tree, answers.target)
            made = [made[0].model_copy(update={"tree": nodes})]
        seconds = time.perf_counter() - started_at
        return schemas.PredictResponse(run=request.run, predictions=made, seconds=round(seconds, 4))

    def _explain(self, request: schemas.ExplainRequest) -> schemas.Explanation:
        model, answers = self.models[request.run], self.answers[request.run]
        with without_heads(model, request.heads_off):
            if request.output_ids is not None:
                found = answers.read(request.output_ids)
            else:
                (found,) = model.predict([request.text], self._options(request))
            where = (request.layer, request.head, request.token)
            worked = explain(model, request.text, *where, prediction=found)
        return schemas.Explanation(**worked.to_dict())

    def _options(self, request: schemas.Input) -> DecodeOptions:
        usual = getattr(self.models[request.run].task, "options", DecodeOptions())
        return request.decoding.options(usual)

    def _tree(
        self, request: schemas.PredictRequest, answers: Answers, tell: Callable[[str], None] | None
    ) -> BeamTree | None:
        """What a search fills: kept because it was asked for, or to tell how far it is."""
        options = self._options(request)
        one_path = bool(options.of_one_path) or options.sample or not answers.searches
        if request.tree and one_path:
            raise InputError("this text is made one path at a time: it has no tree")
        if one_path or request.output_ids is not None:
            return None
        if tell is not None:
            return GrowingTree(lambda ids: tell(answers.target.decode(ids)))
        return BeamTree() if request.tree else None

    @staticmethod
    def _decode(
        model: Model,
        texts: Sequence[str],
        options: DecodeOptions,
        tree: BeamTree | None,
        tell: Callable[[str], None] | None,
    ) -> list[Prediction]:
        if tell is not None and tree is None:  # one path is a function: walked twice, the same
            said = ""
            for piece in model.stream(texts[0], options):
                said += piece
                tell(said)
        return model.predict(texts, options, tree=tree)

    def _model(self, name: str) -> Model:
        if name not in self.models:
            raise UnknownRunError(f"no run is called {name!r}; {nearest(name, self.models)}")
        return self.models[name]


class UnknownRunError(InputError):
    """A request names a run that is not loaded."""


def load_runs(paths: Sequence[Path], *, allow_code: bool = False) -> dict[str, Model]:
    """The models of some runs by the names that `saccade compare` gives them."""
    names = distinct(paths)
    return {
        name: load(Run(path), allow_code=allow_code)
        for name, path in zip(names, paths, strict=True)
    }


def summary(name: str, model: Model) -> schemas.RunSummary:
    settings = model.settings
    scores = folder.scores(model.run.evaluation("dev"))
    return schemas.RunSummary(
        name=name,
        task=model.task.kind,
        model=settings.model_name,
        preset=settings.preset,
        languages=folder.languages(settings.task.train),
        parameters=model.parameters,
        score=scores[0] if scores else None,
        attention=heads(model),
        examples=folder.examples(model.run, EXAMPLES),
        searches=ANSWERS[model.task.kind].searches,
    )


def heads(model: Model) -> list[schemas.Heads]:
    parts = attentions(model)
    return [
        schemas.Heads(kind=kind, layers=names, heads=[parts[name].heads for name in names])
        for kind, names in layers_by_kind(model.module).items()
    ]
