"""The command as processes see it: help, exit codes, pipes and signals."""

import io
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from children import quick_seconds, seconds_of_children
from cli.conftest import train_arguments
from rich.console import Console
from tiny_runs import everything

import saccade
from saccade.cli import VERBS, demo
from saccade.cli.demo import TRANSLATED, UNSEEN
from saccade.data import english_french
from saccade.errors import InputError, TooShortError, TrainingError
from saccade.training.run import Run
from saccade.training.signals import Interrupted

pytestmark = pytest.mark.serial
SOURCE = Path(saccade.__file__).parents[1]
ENVIRONMENT = {
    **os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1", "COLUMNS": "100",
    "SACCADE_QUICK": "0",
}  # fmt: skip


def process(
    *arguments: object, stdin: bytes = b"", seconds: float = 600
) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "saccade", *map(str, arguments)]
    return subprocess.run(
        command, input=stdin, capture_output=True, env=ENVIRONMENT, timeout=seconds
    )


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_help_is_quick_and_has_an_example(verb: str) -> None:
    check = (
        "import sys\nfrom saccade.cli import run\ncode = run(sys.argv[1:])\n"
        "heavy = {'torch', 'numpy', 'tokenizers', 'matplotlib', 'pydantic'} & set(sys.modules)\n"
        "assert not heavy, heavy\nsys.exit(code)"
    )
    arguments = [verb, "--help"] if verb else ["--help"]
    command = [sys.executable, "-c", check, *arguments]
    limit = quick_seconds()
    for _ in range(3):  # the first may have to compile what it imports
        before = seconds_of_children()
        done = subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT)
        seconds = seconds_of_children() - before
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        assert re.search(rf"Examples?:\s+saccade {verb or 'demo'}", done.stdout)
        if seconds < limit:
            break
    assert seconds < limit


def test_help_puts_flags_into_boxes_and_paragraphs_into_the_terminal() -> None:
    found = process("predict", "--help").stdout.decode()
    boxes = ["Lines in and out", "Search", "Draws", "Links read off attention", "Engine"]
    assert re.findall(r"╭─ (.+?) ─", found) == ["Arguments", *boxes]
    assert "An empty line gives\n" not in found  # filled, not broken where the source code breaks


def test_help_names_every_verb() -> None:
    done = process("--help")
    assert all(f" {verb} " in done.stdout.decode() for verb in VERBS)
    assert process("--version").stdout.decode().strip() == saccade.__version__


def test_no_colours_where_there_is_no_terminal() -> None:
    assert b"\x1b[" not in process("train", "--help").stdout


def test_a_pipe_that_closes_early_is_no_error(run_folder: Path, tmp_path: Path) -> None:
    texts = tmp_path / "texts"
    texts.write_text("the cat\n" * 3000)  # more than a pipe holds
    command = [sys.executable, "-m", "saccade", "predict", run_folder, "--input", texts]
    beam = ["--beam", "1", "--max-ratio", "0", "--max-extra", "3", "--workers", "1", "--json"]
    child = subprocess.Popen(
        [*map(str, command), *beam],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    )
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdout.readline()
    child.stdout.close()
    said = child.stderr.read()
    child.stderr.close()
    assert (child.wait(60), said) == (141, b"")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_says_how_to_continue(
    corpus: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    out = tmp_path / "run"
    arguments = [*train_arguments(corpus, out), "--steps", "100000"]
    arguments.remove("--steps")
    arguments.remove("20")
    command = [sys.executable, "-m", "saccade", *arguments]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT, text=True
    )
    assert child.stderr is not None
    for line in child.stderr:
        if line.startswith("step"):
            break
    child.send_signal(number)
    out_text, err = child.communicate(timeout=60)
    assert (child.returncode, out_text) == (code, "")
    assert f"everything is saved in {out}" in err
    assert f"{sys.executable} -m saccade train translate --train" in err  # PATH is empty
    assert "--resume" in err
    assert list((out / "checkpoints").glob("step-*"))


def test_streams_that_are_closed(run_folder: Path) -> None:
    call = f"{sys.executable} -m saccade predict {run_folder}"
    for closed, code, says in (("<&-", 2, b"standard input is closed"), (">&-", 0, b"")):
        done = subprocess.run(
            ["sh", "-c", f"{call} {closed}"], input=b"the cat\n", capture_output=True,
            env=ENVIRONMENT, timeout=600,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (code, b"")
        assert says in done.stderr
        assert b"Traceback" not in done.stderr


def test_a_pipe_may_be_named_as_a_file(run_folder: Path) -> None:
    done = process(
        "predict", run_folder, "--beam", "1", "--output", "/dev/stdout", stdin=b"the cat\na dog\n"
    )
    assert (done.returncode, done.stdout.count(b"\n")) == (0, 2), done.stderr.decode()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_prediction_that_is_terminated_leaves_nothing(
    run_folder: Path, tmp_path: Path, workers: str
) -> None:
    target = tmp_path / "out.txt"
    target.write_text("old")
    words = ["predict", run_folder, "--output", target, "--workers", workers, "--beam", "1"]
    with subprocess.Popen(
        [sys.executable, "-m", "saccade", *map(str, words)],
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT,
    ) as child:  # fmt: skip
        assert child.stdin is not None
        child.stdin.write(b"the cat\n" * 2048)
        child.stdin.flush()  # and more may come: it waits
        begun_at = time.monotonic()
        while not any(path.stat().st_size for path in tmp_path.glob(".out.txt.*")):
            assert child.poll() is None
            assert time.monotonic() < begun_at + 600
            time.sleep(0.01)
        for _ in range(2):  # as `timeout` does
            child.terminate()
        assert child.wait(60) == 143
        child.stdin.close()
        assert child.stderr is not None
        assert child.stderr.read() == b"terminated\n"
    assert everything(tmp_path) == {"out.txt": b"old"}


def test_a_signal_to_a_users_code_is_not_its_failure(tmp_path: Path) -> None:
    begin = "import os, signal\ndef end(): os.kill(os.getpid(), signal.SIGTERM)\n"
    score = "from saccade.blocks.scores import Dot\nclass A(Dot):\n"
    mine = tmp_path / "mine.py"
    for text in (f"{begin}end()", f"{begin}{score}    def prepare(self, memory): end()\n"):
        mine.write_text(text)
        done = process("check", f"{mine}:A")
        assert (done.returncode, done.stderr) == (143, b"terminated\n")


def test_the_demo_says_truly_what_it_has_seen() -> None:
    learned, tested = (
        {pair.target for pair in english_french.pairs(split)} for split in ("train", "test")
    )
    assert set(TRANSLATED) <= learned
    assert not learned & tested


def test_demo(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    out.mkdir()
    (out / ".saccade-demo").touch()  # an earlier demo's folder is replaced
    (out / "run").mkdir()
    (out / "run" / "old").touch()
    done = process("demo", "--quick", "--out", out)
    assert done.returncode == 0, done.stderr.decode()
    said = done.stdout.decode()
    for words in ("BLEU", "chrF", "What next?", *TRANSLATED):
        assert words in said
    unseen = english_french.pairs("test")[:UNSEEN]
    for pair in unseen:
        assert pair.target in said
        assert f"meant: {pair.source}" in said
    assert f"{sys.executable} -m saccade eval {out / 'run'} --data" in said  # PATH is empty
    assert (out / "alignment.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (out / "alignment.svg").read_text()
    assert not (out / "run" / "old").exists()
    assert "run.new" not in (out / "run" / "README.md").read_text()
    assert not list(out.glob("run.*"))


def test_the_demo_removes_nothing_that_it_did_not_make(tmp_path: Path) -> None:
    (tmp_path / ".saccade-demo").touch()
    (tmp_path / "notes.txt").write_text("mine")
    with (
        pytest.raises(InputError, match=r"holds what no demo made: notes\.txt; move it"),
        demo._room(tmp_path),
    ):
        pass
    assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("out", [".", "link"])
def test_the_demo_keeps_the_folder_of_an_earlier_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str
) -> None:
    """It may be the current one, or what a link leads to: neither can be replaced."""
    folder = tmp_path / "demo"
    for name in ("run", "run.new"):
        (folder / name).mkdir(parents=True)
    for name in (".saccade-demo", "alignment.png", "run/old", "run.new/left"):
        (folder / name).touch()
    (tmp_path / "link").symlink_to(folder)
    monkeypatch.chdir(folder if out == "." else tmp_path)
    own = {".gitignore": b"*\n", ".saccade-demo": b""}
    with demo._room(Path(out)):
        assert everything(folder) == {**own, "alignment.png": b"", "run/old": b""}
        (folder / "run.new").mkdir()
        new, run = Path(out) / "run.new", Path(out) / "run"
        (new / "README.md").write_text(f"saccade predict {new}")
        assert demo._in_place(Run(new), Path(out)).path == run
        assert everything(folder) == {**own, "run/README.md": f"saccade predict {run}".encode()}
    assert (tmp_path / "link").is_symlink()


def test_a_demo_that_is_stopped_leaves_an_earlier_one_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "demo"
    (folder / "run").mkdir(parents=True)
    for name in (".saccade-demo", "alignment.png", "run/precious"):
        (folder / name).touch()

    def stopped(_: demo.DemoFlags) -> Run:
        (folder / "run.new").mkdir()
        raise Interrupted(signal.SIGINT)

    monkeypatch.setattr(demo, "_trained", stopped)
    assert demo.demo(flags=demo.DemoFlags(out=folder)) == 130
    assert everything(folder).keys() >= {"alignment.png", "run/precious"}


def test_a_demo_that_had_no_time_says_what_it_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def over(*_: object, **__: object) -> list[Run]:
        raise TooShortError("the 0.1 minutes were over: repeat with --resume")

    monkeypatch.setattr("saccade.cli.train.train_with", over)
    with pytest.raises(TrainingError, match=r"^0\.01 minutes were over .* more --minutes$"):
        demo.demo(flags=demo.DemoFlags(out=tmp_path / "demo", minutes=0.01))


@pytest.mark.parametrize("busy", ["demo", "demo/run", "demo/run.new"])
def test_a_demo_leaves_one_that_is_still_at_work_alone(tmp_path: Path, busy: str) -> None:
    """Whether it trains, scores or draws, or somebody goes on with its run."""
    folder = tmp_path / "demo"
    (folder / "run").mkdir(parents=True)
    for name in (".saccade-demo", "run/precious"):
        (folder / name).touch()
    with Run(tmp_path / busy).locked():
        done = process("demo", "--quick", "--out", folder)
    told = f"error: {tmp_path / busy}: another process is training this run\n"
    assert (done.returncode, done.stderr.decode()) == (2, told)
    assert everything(folder) == {".saccade-demo": b"", "run/precious": b""}
    with demo._room(folder), pytest.raises(InputError, match="another process"):
        demo._room(folder).__enter__()


@pytest.mark.parametrize("there", [True, False])
def test_the_demo_says_how_to_get_the_explorer(
    there: bool, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "find_spec", lambda _: there or None)
    page = Console(record=True, width=200, file=io.StringIO())
    demo._say_next(page, Run(run_folder))
    said = page.export_text()
    assert said.index("predict") < said.index("explore")
    assert ("pip install 'saccade[serve]'" in said.partition(" explore ")[0]) is not there


@pytest.mark.slow
def test_the_whole_demo_learns_to_translate(tmp_path: Path) -> None:
    done = process("demo", "--out", tmp_path / "demo", seconds=1800)
    assert done.returncode == 0, done.stderr.decode()
    scores = json.loads((tmp_path / "demo" / "run" / "evals" / "test.json").read_text("utf-8"))
    assert scores["metrics"]["BLEU"]["value"] > 60  # 89 on two quiet cores


def test_a_stream_answers_each_line_of_a_pipe_at_once(run_folder: Path) -> None:
    command = [sys.executable, "-m", "saccade", "predict", str(run_folder), "--stream"]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=ENVIRONMENT, **pipes) as running:
        try:
            for line in (b"the cat\n", b"a dog\n"):
                running.stdin.write(line)
                running.stdin.flush()
                seen, _, _ = select.select([running.stdout], [], [], 60)
                assert seen, "nothing was said while the pipe was open"
                assert running.stdout.readline().endswith(b"\n")
            running.stdin.close()
            assert running.wait(60) == 0
        finally:
            running.kill()
