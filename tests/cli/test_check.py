"""saccade check, and a task of one's own that keeps its promises."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

from cli.conftest import Said, train_arguments

Saccade = Callable[..., Said]
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_check(saccade: Saccade, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from saccade.blocks.scores import Dot\n"
        "class Good(Dot): pass\n"
        "class Bad(Dot):\n"
        "    def prepare(self, memory):\n"
        "        return memory.cumsum(-2)\n"
    )
    good = saccade("check", f"{mine}:Good")
    assert (good.code, good.out.count("ok  ")) == (0, 5)
    bad = saccade("check", f"{mine}:Bad")
    assert bad.code == 1
    assert "FAIL  keys can be cached: prepare mixes positions" in bad.out
    mine.write_text(
        "from saccade.blocks.scores import Dot\n"
        "class Bare(Dot):\n"
        "    def forward(self, query, keys):\n"
        "        assert not query.requires_grad\n"
        "        return super().forward(query, keys)\n"
    )
    bare = saccade("check", f"{mine}:Bare")
    assert (bare.code, bare.out.count("ok  ")) == (1, 4)
    assert "FAIL  gradients are finite: an assertion failed\n" in bare.out


def test_what_is_no_class_is_called_by_its_name(saccade: Saccade, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("def f(): pass\nx = 5\n")
    for name, told in {"f": "f", "x": "5"}.items():
        said = saccade("check", f"{mine}:{name}")
        assert (said.code, said.err) == (
            2, f"error: {told} is not a class; name one, as FILE.py:Class\n"
        )  # fmt: skip


def test_code_that_ends_the_process_fails_its_check(saccade: Saccade, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("import sys\nclass A: pass\nsys.exit()\n")
    said = saccade("check", f"{mine}:A")
    assert (said.code, said.err) == (2, f"error: {mine}: running it failed: SystemExit\n")
    mine.write_text(
        "from saccade.blocks.scores import Dot\n"
        "class Gone(Dot):\n"
        "    def prepare(self, memory):\n"
        "        raise SystemExit\n"
    )
    said = saccade("check", f"{mine}:Gone")
    assert (said.code, "FAIL  keys can be cached: SystemExit" in said.out) == (1, True)


def test_check_of_a_task(saccade: Saccade, tmp_path: Path) -> None:
    good = saccade("check", f"{EXAMPLES / 'own_task.py'}:Exact")
    assert (good.code, good.out.count("ok  ")) == (0, 8)
    assert "8 of 8 promises kept\n" in good.out
    mine = tmp_path / "mine.py"
    mine.write_text(
        "from saccade.tasks.translate import Translate\n"
        "class Idle(Translate):\n"
        "    def nothing(self, *_): return None\n"
        "    order = collate = objective = score = nothing\n"
        "    def units(self, examples): return []\n"
        "class Bare(Translate):\n"
        "    usual_model = trace = None\n"
        "class Listen(Translate):\n"
        "    kind = usual_model = 'listen.py:Ear'\n"
    )
    idle = saccade("check", f"{mine}:Idle")
    assert (idle.code, idle.out.count("FAIL  ")) == (1, 4)
    assert "FAIL  micro-batches add up to the batch: o" in idle.out
    bare = saccade("check", f"{mine}:Bare")
    assert (bare.code, bare.out.count("FAIL  ")) == (1, 2)
    assert "FAIL  all members are there: it lacks usual_model, trace (see" in bare.out
    listen = saccade("check", f"{mine}:Listen")
    assert (listen.code, listen.out.count("ok  ")) == (0, 2)
    assert "--    one prediction a text, in order: not checked: no model fits: " in listen.out
    assert "2 of 8 promises kept, 6 not checked\n" in listen.out
    arguments = ["train", f"{mine}:Bare", "--train", "a", "b", "--out", tmp_path / "run"]
    trained = saccade(*arguments, "--allow-code")
    assert (trained.code, "lacks usual_model, trace (see" in trained.err) == (2, True)


def test_a_task_of_ones_own_is_trained_scored_and_predicted_with(
    saccade: Saccade, corpus: Path, tmp_path: Path
) -> None:
    copied = shutil.copy(EXAMPLES / "own_task.py", tmp_path)  # a path that nobody has allowed yet
    mine, run = f"{copied}:Exact", tmp_path / "run"
    arguments = train_arguments(corpus, run)
    arguments[1], arguments[arguments.index("20")] = mine, "4"
    model = ["--model", "transformer", "--allow-code"]
    assert "--allow-code" in saccade(*arguments).err
    trained = saccade(*arguments, *model)
    assert trained.code == 0, trained.err
    assert trained.out.count(" --allow-code\n") == 2, "what to type next has the consent it takes"
    data = ["--data", corpus / "dev.en", corpus / "dev.de", "--allow-code"]
    scored = json.loads(saccade("eval", run, *data, "--json").out)
    assert "percent" in scored["metrics"]["exact match"]["signature"]
    said = saccade("predict", run, "--allow-code", stdin=b"the cat\n\na dog\n")
    assert (said.code, said.out.count("\n")) == (0, 3)
    refused = saccade(*arguments, "--model", "gpt", "--allow-code")
    assert "these do: seq2seq, transformer" in refused.err
