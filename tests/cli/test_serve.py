"""saccade serve and saccade explore: what they refuse, and a server from its start to Ctrl-C."""

import builtins
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import Said

from saccade.serving.server import address, bound

SOURCE = Path(__file__).parents[2] / "src"


def test_without_fastapi_the_line_that_installs_it(
    saccade: Callable[..., Said], run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] in ("fastapi", "uvicorn"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest)

    for name in [name for name in sys.modules if name.startswith("saccade.serving")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    for verb in ("serve", "explore"):
        said = saccade(verb, run_folder)
        assert said.code == 2
        assert "pip install 'saccade[serve]'" in said.err


def test_what_they_refuse(saccade: Callable[..., Said], run_folder: Path, tmp_path: Path) -> None:
    with bound("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        cases = {
            "no run is named": ["serve"],
            "not a saccade run": ["explore", tmp_path],
            f"port {port}": ["serve", run_folder, "--port", port],
            "port 99999": ["explore", run_folder, "--port", "99999"],
            "--threads 0": ["serve", run_folder, "--threads", "0"],
        }
        for says, arguments in cases.items():
            said = saccade(*arguments)
            assert said.code == 2, arguments
            assert says in said.err
            assert said.out == ""


def test_addresses_to_type() -> None:
    with bound("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        assert address(listening) == f"http://127.0.0.1:{port}/"
    with bound("0.0.0.0", 0) as listening:
        assert address(listening).startswith("http://127.0.0.1:")


@pytest.mark.serial
def test_a_server_answers_until_it_is_interrupted(run_folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "saccade", "explore", str(run_folder), "--port", "0"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
        # A shell's background job ignores the signal, and its children would too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    )  # fmt: skip
    try:
        assert process.stdout is not None
        place = process.stdout.readline().strip()
        assert place.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{place}health", timeout=60) as answer:
            assert json.load(answer)["status"] == "ok"
        with urllib.request.urlopen(place, timeout=60) as answer:
            assert b"saccade explorer" in answer.read()
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert errors.endswith("stopped\n")
