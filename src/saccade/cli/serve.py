"""saccade serve: runs behind an HTTP API."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from saccade.cli.flags import Switch, Whole
from saccade.cli.terminal import note, say
from saccade.errors import InputError, install


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ServeFlags:
    """Where to answer, and to whom."""

    host: str = "127.0.0.1"
    """The address to listen at; the default is reached from this machine only."""
    port: Whole = 8080
    """0 takes any free port."""
    allow_host: Annotated[list[str], Parameter(consume_multiple=True, negative=())] | None = None
    """Names in an address that are answered too, besides localhost and numbers."""
    threads: Whole = 1
    """Threads that work on one request; one is fastest for small models."""
    allow_code: Switch = False
    """Run a model or task that is somebody's own file."""


def serve(
    *runs: Path,
    flags: ServeFlags = ServeFlags(),
) -> int:
    """Answer HTTP requests with some runs: /v1/predict and more; the explorer page is at /.

    Parameters
    ----------
    runs
        Folders that `saccade train` made.
    """
    return serve_runs(runs, flags, lambda address: say(f"{address}v1/runs"))


def serve_runs(runs: tuple[Path, ...], flags: ServeFlags, ready: Callable[[str], None]) -> int:
    """Load, listen, answer until interrupted; `ready` is told the address."""
    try:
        from saccade.serving.app import create_app
        from saccade.serving.server import Server, address, bound
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "uvicorn", "starlette"):
            raise
        raise InputError(f"the server needs FastAPI and uvicorn: {install('serve')}") from None
    import torch

    from saccade.serving.engine import Engine, load_runs

    if not runs:
        raise InputError("no run is named: give one or more folders that `saccade train` made")
    if flags.threads < 1:
        raise InputError(f"--threads {flags.threads}: at least 1")
    torch.set_num_threads(flags.threads)
    engine = Engine(load_runs(runs, allow_code=flags.allow_code), threads=flags.threads)
    listening = bound(flags.host, flags.port)
    try:
        app = create_app(engine, [flags.host, *(flags.allow_host or [])])
        Server(app, lambda: ready(address(listening))).run(sockets=[listening])
    except KeyboardInterrupt:
        note("stopped")
        return 130
    finally:
        listening.close()
        engine.close()
    return 0
