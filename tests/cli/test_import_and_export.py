"""`saccade import` and `saccade export`: from a folder to a run, its predictions, and back."""

import json
from pathlib import Path

from cli.conftest import Said, command
from interop.tiny_gpt2 import fast, greedy, theirs, write_folder


def done(said: Said) -> str:
    assert said.code == 0, said.err
    return said.out


def test_from_a_folder_to_a_run_and_back(tmp_path: Path) -> None:
    folder, run, back = (tmp_path / name for name in ("theirs", "run", "back"))
    other = write_folder(folder)
    out = done(command("import", folder, "--out", run))
    assert out.startswith(f"run: {run}\n")
    assert f"--model gpt --init {run}" in out
    asked = ["--length", "20", "--beam", "1", "--json"]
    answer = json.loads(done(command("predict", run, *asked, stdin=b"the cat\n")))
    (wanted,) = greedy(other, fast(folder), ["the cat"], 20)
    assert answer["text"] == fast(folder).decode([*fast(folder)("x")["input_ids"], *wanted])[1:]
    text = tmp_path / "text"
    text.write_text("the cat sat on the mat\n" * 3)
    scores = json.loads(done(command("eval", run, "--data", text, "--json")))
    assert scores["metrics"]["loss"]["value"] > 0
    assert done(command("export", run, "--to", "huggingface", "--out", back)) == (
        f"huggingface: {back}\n"
    )
    assert greedy(theirs(back), fast(back), ["the cat"], 20) == [wanted]


def test_mistakes_are_told_in_one_line(tmp_path: Path) -> None:
    for arguments, message in [
        (("import", tmp_path, "--out", tmp_path / "run"), "config.json: cannot be read"),
        (("export", tmp_path, "--to", "onyx", "--out", tmp_path / "out"), "unknown format 'onyx'"),
        (("export", tmp_path, "--to", "huggingface", "--out", tmp_path / "o"), "not a saccade run"),
    ]:
        said = command(*arguments)
        assert said.code == 2
        assert message in said.err
        assert said.err.count("\n") == 1
