"""The HTTP API on an engine, and the explorer page. Handlers only translate: the work is elsewhere.

Handlers that wait for the engine are plain functions, which FastAPI runs in threads of its own.
"""

import logging
import mimetypes
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from fastapi.staticfiles import StaticFiles
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from saccade.errors import InputError
from saccade.serving import schemas
from saccade.serving.engine import BusyError, Engine, UnknownRunError
from saccade.serving.guard import Guard
from saccade.version import __version__

PAGE = Path(__file__).with_name("explorer")
Kept = Callable[[Any, Exception], Response]
log = logging.getLogger("saccade.serving")


def create_app(engine: Engine, hosts: Collection[str] = ()) -> FastAPI:
    """The API and the page; `hosts` are names it answers to besides localhost and addresses."""
    app = FastAPI(title="saccade", version=__version__, docs_url=None, redoc_url=None)
    app.add_middleware(Guard, hosts=hosts)
    _add_failures(app)
    _add_runs(app, engine)
    _add_work(app, engine)
    mimetypes.add_type("text/javascript", ".js")  # some systems think otherwise, browsers refuse it
    app.mount("/", StaticFiles(directory=PAGE, html=True))
    return app


def _add_runs(app: FastAPI, engine: Engine) -> None:
    @app.get("/health")
    def health() -> schemas.Health:
        return schemas.Health(version=__version__, runs=len(engine.models))

    @app.get("/v1/runs")
    def runs() -> schemas.RunList:
        return engine.runs()

    # A name may be a path, where folders are called the same: the longer address comes first.
    @app.get("/v1/runs/{name:path}/positions")
    def positions(name: str, size: Annotated[int, Query(ge=1, le=512)] = 20) -> schemas.Positions:
        return engine.positions(name, size)

    @app.get("/v1/runs/{name:path}")
    def run(name: str) -> schemas.RunDetails:
        return engine.run(name)


def _add_work(app: FastAPI, engine: Engine) -> None:
    @app.post("/v1/predict", response_model=schemas.PredictResponse)
    def predict(request: schemas.PredictRequest) -> Response:
        return _json(engine.predict(request))

    @app.post("/v1/explain", response_model=schemas.Explanation)
    def explain(request: schemas.ExplainRequest) -> Response:
        return _json(engine.explain(request))

    @app.post("/v1/predict/stream", response_model=None)
    def stream(request: schemas.PredictRequest) -> Response:
        """Server-sent events: `draft` while the output grows, then `done` or `error`."""
        events = _server_sent(engine.stream(request))
        return StreamingResponse(events, media_type="text/event-stream")


def _server_sent(events: Iterator[BaseModel]) -> Iterator[bytes]:
    try:
        for event in events:
            name = "draft" if isinstance(event, schemas.Draft) else "done"
            yield _event(name, event)
    except InputError as error:  # too late for a status: the answer has begun
        yield _event("error", schemas.Failure(error=str(error)))
    except Exception:
        log.exception("a stream failed")
        yield _event("error", schemas.Failure(error=BROKEN))


def _event(name: str, data: BaseModel) -> bytes:
    return f"event: {name}\ndata: {data.model_dump_json()}\n\n".encode()


def _json(content: BaseModel, status: int = 200) -> Response:
    """Serialised once, by pydantic: large answers are mostly numbers, and NaN becomes null."""
    return Response(content.model_dump_json(), status, media_type="application/json")


# --- errors: one sentence each ---

BROKEN = "the server failed at this request; its log says why"


def _add_failures(app: FastAPI) -> None:
    kinds: dict[type[Exception], Kept] = {
        RequestValidationError: _invalid,
        UnknownRunError: lambda _, error: _failed(404, str(error)),
        InputError: lambda _, error: _failed(422, str(error)),
        BusyError: lambda _, error: _failed(503, str(error)),
        HTTPException: _refused,
        Exception: lambda *_: _failed(500, BROKEN),  # the server logs it
    }
    for kind, handler in kinds.items():
        app.add_exception_handler(kind, handler)


def _failed(status: int, sentence: str, field: str | None = None) -> Response:
    return _json(schemas.Failure(error=sentence, field=field), status)


def _invalid(_: Request, error: Any) -> Response:
    """The first thing that is wrong with a request, and where."""
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return _failed(422, f"the body is not JSON: {first['ctx']['error']}")
    if first["loc"] == ("body",) and first["type"].endswith("_type"):
        return _failed(422, "the body must be a JSON object, sent as content-type application/json")
    field = ".".join(str(part) for part in first["loc"] if part != "body") or None
    what = first["msg"].removeprefix("Value error, ")
    return _failed(422, f"{field}: {what}" if field else what, field)


def _refused(_: Request, error: Any) -> Response:
    return _failed(error.status_code, str(error.detail))
