"""Start and stop the server: a socket, its address, and a clean end."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from saccade.errors import InputError, TrainingError

GRACE_SECONDS = 3  # for answers on their way when the server is told to stop
READY_SECONDS = 20  # for a server in a thread to start, and to end


def bound(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes any free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except (OSError, OverflowError) as error:
        listening.close()
        reason = error.strerror if isinstance(error, OSError) else "no such port"
        raise InputError(
            f"cannot listen at {host}, port {port}: {reason}; --port 0 takes any free port"
        ) from None
    listening.listen(128)
    return listening


def address(listening: socket.socket) -> str:
    """What to type into a browser."""
    host, port = listening.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104
    return f"http://{shown}:{port}/"


class Server(uvicorn.Server):
    """Answers until interrupted (which is raised again, after the last answer) or told to stop."""

    def __init__(self, app: FastAPI, on_ready: Callable[[], None] = lambda: None):
        super().__init__(
            uvicorn.Config(
                app, log_level="warning", access_log=False, timeout_graceful_shutdown=GRACE_SECONDS
            )
        )
        self.on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.on_ready()


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The address of a server in a thread of this process, on a free port, while the block runs."""
    listening, ready = bound("127.0.0.1", 0), threading.Event()
    server = Server(app, ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        if not ready.wait(READY_SECONDS):
            raise TrainingError(f"no server answered within {READY_SECONDS} seconds")
        yield address(listening)
    finally:
        server.should_exit = True
        thread.join(READY_SECONDS)
        listening.close()
