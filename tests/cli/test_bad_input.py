"""Every mistake: one clear message, exit code 2, no answer, nothing half-written."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.conftest import Said, train_arguments

from saccade.cli import VERBS, app, evaluate
from saccade.cli.evaluate import LONGEST_NAME
from saccade.training.run import Run

Saccade = Callable[..., Said]


def refused(said: Said, *fragments: str) -> None:
    assert said.code == 2, said.err
    assert said.out == ""
    assert said.err.startswith("error: ")
    assert "Traceback" not in said.err
    for fragment in fragments:
        assert fragment in said.err


BAD_DATA = {
    "fewer lines": (b"one\ntwo\n", ["bad.en has 2 lines", "60 lines"]),
    "empty": (b"", ["bad.en has 0 lines"]),
    "invalid UTF-8": (b"fine\nnot \xff fine\n", ["bad.en, line 2", "0xff", "--on-bad-utf8"]),
    "UTF-16": ("one\ntwo\n".encode("utf-16"), ["bad.en", "UTF-16", "iconv", "> NEW-FILE"]),
}


@pytest.mark.parametrize("kind", BAD_DATA)
def test_bad_data(saccade: Saccade, corpus: Path, tmp_path: Path, kind: str) -> None:
    data, fragments = BAD_DATA[kind]
    bad, out = tmp_path / "bad.en", tmp_path / "deep" / "run"
    bad.write_bytes(data)
    files = ["--train", bad, corpus / "train.de"]
    refused(saccade("train", "translate", *files, "--out", out), *fragments)
    assert not out.exists()


@pytest.mark.parametrize("which", ["--train", "--dev"])
def test_pipes_are_no_data_to_learn_from(
    saccade: Saccade, corpus: Path, tmp_path: Path, which: str
) -> None:
    """Nobody writes into them: who opened one would wait for ever."""
    pipes = [tmp_path / "a.en", tmp_path / "a.de"]
    for pipe in pipes:
        os.mkfifo(pipe)
    files = {"--train": [corpus / "train.en", corpus / "train.de"], which: pipes}
    flags = [word for flag, pair in files.items() for word in (flag, *pair)]
    told = f"{pipes[0]} is a pipe and can be read only once: write it to a file"
    refused(saccade("train", "translate", *flags, "--out", tmp_path / "run"), told)
    assert not (tmp_path / "run").exists()


def test_two_empty_files(saccade: Saccade, tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    (tmp_path / "b").touch()
    files = ["--train", tmp_path / "a", tmp_path / "b"]
    said = saccade("train", "translate", *files, "--out", tmp_path / "run")
    refused(said, f"{files[1]} and {files[2]} are empty: give files with one text a line")
    assert not (tmp_path / "run").exists()


BAD_CALLS = {
    "no device": (["--device", "cpu:x"], ["'cpu:x' is no device"]),
    "missing file": (["--train", "no-such-file", "also-not"], ["no-such-file", "no such file"]),
    "unknown model": (["--model", "transfomer"], ["did you mean 'transformer'?"]),
    "unknown key": (["--set", "train.peak_rat=1"], ["did you mean 'train.peak_rate'?"]),
    "unknown section": (["--set", "tain.steps=1"], ["[tain]", "did you mean 'train'?"]),
    "unknown preset": (["--preset", "tini"], ["did you mean 'tiny'?"]),
    "wrong type": (["--set", "train.seed=one"], ["train.seed", "an integer"]),
    "wrong value": (["--steps", "0"], ["steps is 0"]),
    "unknown flag": (["--modle", "x"], ["--modle", "--model"]),
    "not a number": (["--steps", "many"], ["--steps", "many"]),
    "no config file": (["--config", "no.toml"], ["no.toml"]),
    "both seeds": (["--seed", "1", "--seeds", "1,2"], ["--seed", "--seeds"]),
    "a seed set": (["--set", "train.seed=9", "--seeds", "1"], ["--set train.seed", "--seeds"]),
    "bad seeds": (["--seeds", "1,x"], ["1,x"]),
    "one column": (["--columns", "a"], ["columns"]),
    "no init": (["--init", "no-run"], ["no-run", "not a saccade run"]),
    "code unasked": (["--model", "mine.py:Model"], ["--allow-code"]),
    "no such code": (["--model", "no.py:Model", "--allow-code"], ["no.py: cannot be read"]),
    "no such device": (["--device", "cuda:77"], ["cuda:77"]),
}


@pytest.mark.parametrize("kind", BAD_CALLS)
def test_bad_call(saccade: Saccade, corpus: Path, tmp_path: Path, kind: str) -> None:
    arguments, fragments = BAD_CALLS[kind]
    if arguments[0] != "--train":
        arguments = ["--train", corpus / "train.en", corpus / "train.de", *arguments]
    refused(saccade("train", "translate", *arguments, "--out", tmp_path / "run"), *fragments)
    assert not (tmp_path / "run").exists()


def test_what_is_missing_is_named(saccade: Saccade, tmp_path: Path) -> None:
    out = ["--out", tmp_path / "run"]
    refused(saccade("trian"), "trian", "train")
    refused(saccade("train", *out), "which task?", "translate")
    refused(saccade("train", "transalte", "--train", "x", *out), "did you mean 'translate'?")
    refused(saccade("train", "translate", *out), "--train")
    refused(saccade("train", "translate", "--train", "x"), "--out is missing: this call needs it")
    refused(saccade("models", "transfomer"), "did you mean 'transformer'?")
    refused(saccade("predict", tmp_path / "nowhere"), "not a saccade run")
    refused(saccade("check", "nothing"), "FILE.py:Class")


def test_an_unknown_option_suggests_only_what_is_like_it(
    saccade: Saccade, run_folder: Path
) -> None:
    near, far = (saccade("predict", run_folder, name, "1") for name in ("--bem", "--nope"))
    refused(near, "error: unknown option --bem; did you mean --beam?\n")
    refused(far, "error: unknown option --nope\n")


def test_a_setting_that_what_was_learned_does_not_fit(
    saccade: Saccade, corpus: Path, run_folder: Path
) -> None:
    data = ["--data", corpus / "train.en", corpus / "train.de"]
    said = saccade("eval", run_folder, *data, "--set", "model.dim=32")
    refused(said, "model.dim=32: what the run learned does not fit this: ", "embedding.weight")


def test_no_number_is_rounded(saccade: Saccade) -> None:
    whole = [
        (verb, flag.name)
        for verb in VERBS
        for flag in app[verb].assemble_argument_collection()
        if flag.hint in (int, int | None)
    ]
    assert {("train", "--steps"), ("eval", "--beam"), ("serve", "--port")} <= set(whole)
    words = {"train": ["--out", "x"], "eval": ["a", "--data", "x"], "explain": ["a", "b"]}
    for verb, name in whole:
        for value in ("1.5", "2.0", "many"):
            said = saccade(verb, *words.get(verb, ["a"]), f"{name}={value}")
            refused(said, f"{name}: {value!r}; expected a whole number")


def test_flags_of_files_name_some(
    saccade: Saccade, corpus: Path, run_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    files = ["--train", corpus / "train.en", corpus / "train.de"]
    train = ["train", "translate", "--out", out, "--steps", "1"]
    refused(saccade("eval", run_folder, "--data"), "--data names no file: give the data set")
    refused(saccade(*train, *files, "--dev"), "--dev (task.dev) names no file")
    refused(saccade(*train, *files, "--set", "task.dev=[]"), "--dev (task.dev) names no file")
    refused(saccade(*train, "--train"), "no training data: give --train FILE FILE")
    assert not out.exists()


def test_an_out_folder_that_is_taken(
    saccade: Saccade, corpus: Path, run_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    refused(saccade(*train_arguments(corpus, tmp_path)), "not empty")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    before = {path: path.stat().st_mtime_ns for path in run_folder.rglob("*")}
    refused(saccade(*train_arguments(corpus, run_folder)), "--resume", "another --out")
    refused(saccade("demo", "--quick", "--out", tmp_path), "no demo made it")
    assert before == {path: path.stat().st_mtime_ns for path in run_folder.rglob("*")}


@pytest.mark.parametrize("minutes", ["0", "-5", "nan", "inf"])
def test_a_demo_of_no_time_is_refused(saccade: Saccade, tmp_path: Path, minutes: str) -> None:
    out = tmp_path / "demo"
    refused(saccade("demo", f"--minutes={minutes}", "--out", out), "--minutes", "above 0")
    assert not out.exists()


@pytest.mark.parametrize("flag", ["--output", "--alignments"])
def test_what_is_read_is_not_written(
    saccade: Saccade, run_folder: Path, tmp_path: Path, flag: str
) -> None:
    texts, second, other = (tmp_path / name for name in ("texts", "second", "other"))
    texts.write_text("the cat\n")
    second.hardlink_to(texts)
    predict = ["predict", run_folder, "--input", texts]
    if flag == "--alignments":
        predict += ["--output", other]
    for name in (texts, second):
        refused(saccade(*predict, flag, name), f"--input and {flag} are both {name}")
    assert (texts.read_text(), other.exists()) == ("the cat\n", False)


def test_the_name_that_may_be_meant_is_told(
    saccade: Saccade, run_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "test.en").write_text("the cat\n")
    predict = ["predict", run_folder, "--input"]
    meant = f"test.eng: no such file; did you mean {tmp_path / 'test.en'}?"
    refused(saccade(*predict, tmp_path / "test.eng"), meant)
    nowhere = tmp_path / "nowhere"
    refused(saccade(*predict, nowhere / "a"), f"no such file; there is no folder {nowhere} either")
    refused(
        saccade(*predict, tmp_path / "test.en", "--output", nowhere / "a"),
        f"cannot be written: make the folder {nowhere} first",
    )


def test_two_results_are_not_written_into_one_file(
    saccade: Saccade, run_folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "x.txt"
    call = ["predict", run_folder, "--output", file, "--alignments", tmp_path / "." / "x.txt"]
    refused(saccade(*call, stdin=b"a\n"), f"both {file}: name a file for one of them")
    assert not file.exists()
    call = ["predict", run_folder, "--alignments", "-"]
    refused(saccade(*call, stdin=b"a\n"), "both standard output: name a file for one of them")


def test_predict_refuses(saccade: Saccade, run_folder: Path, tmp_path: Path) -> None:
    def predict(*arguments: object, stdin: bytes = b"a\n") -> Said:
        return saccade("predict", run_folder, *arguments, stdin=stdin)

    refused(predict("--nbest", "9"), "nbest is 9", "beam")
    refused(predict("--beam", "0"), "beam is 0")
    refused(predict("--workers", "0"), "--workers 0")
    for flag, value in (("--beam", 3), ("--workers", 3), ("--length-penalty", 2)):
        refused(predict("--stream", flag, value), "--stream", flag)
    refused(predict("--input", tmp_path / "none"), "no such file")
    refused(predict("The cat."), "'The cat.' is no part of this call", "standard input")
    refused(predict("--precision", "int4"), "int4", "int8")
    refused(predict("--output", tmp_path / "no" / "folder" / "file"), "cannot be written")
    refused(predict("--output", tmp_path), str(tmp_path), "cannot be written: Is a directory")
    for flag, value in (("temperature", 0.5), ("top-k", 3), ("top-p", 0.5), ("seed", 2)):
        refused(predict(f"--{flag}", value), f"--{flag} needs --sample")
    for flag in ("beam", "choices"):
        refused(predict("--sample", f"--{flag}", "3"), f"--{flag}", "does not go with --sample")
    refused(predict(stdin=b"\xff\n"), "line 1", "0xff")
    target = tmp_path / "out.txt"
    target.write_text("old")
    refused(predict("--output", target, stdin=b"a\n\xff\n"), "line 2")
    assert target.read_text() == "old"
    refused(predict("--output", target / "x"), str(target / "x"), "Not a directory")
    assert list(tmp_path.iterdir()) == [target]


def test_eval_refuses(saccade: Saccade, run_folder: Path, corpus: Path) -> None:
    data = ["--data", corpus / "dev.en", corpus / "dev.de"]
    refused(saccade("eval", run_folder), "--data")
    refused(saccade("eval", run_folder, *data, "--moses", "xx"), "xx")
    refused(saccade("eval", run_folder, *data, "--name", "../up"), "../up")
    refused(saccade("eval", run_folder, *data, "--columns", "a"), "--columns 'a'")
    kept = (run_folder / "evals" / "dev.json").read_bytes()
    refused(saccade("eval", run_folder, *data, "--name", "dev"), "--name dev", "choose another")
    assert (run_folder / "evals" / "dev.json").read_bytes() == kept


@pytest.mark.parametrize(
    "idle",
    [
        "train.smoothing=0.2",
        "train.optimizer.name=sgd",
        "task.tokenizer=words",
        "task.joint=false",
        "task.lowercase=true",
        "task.vocab_size=9",
        "task.train=['a', 'b']",
        "task.dev=['a', 'b']",
    ],
)
def test_what_only_training_looks_at_is_not_set_for_a_score(
    saccade: Saccade, run_folder: Path, corpus: Path, idle: str
) -> None:
    """What scoring does look at goes beside it, and is not named."""
    call = ["eval", run_folder, "--data", corpus / "dev.en", corpus / "dev.de", "--beam", "1"]
    said = saccade(*call, "--set", "task.max_length=9", "--set", idle)
    key = ".".join(idle.partition("=")[0].split(".")[:2])
    refused(said, f"error: --set {key}: of the training, which is over", "leave it out")


def test_what_scoring_looks_at_is_set_for_a_score(
    saccade: Saccade, run_folder: Path, corpus: Path
) -> None:
    call = ["eval", run_folder, "--data", corpus / "dev.en", corpus / "dev.de", "--beam", "1"]
    said = saccade(*call, "--name", "cut", "--set", "task.max_length=1")
    assert (said.code, "4 of 4 sources are too long" in said.err) == (0, True), said.err


def test_scores_are_kept_under_a_name_that_a_disk_takes(
    saccade: Saccade, run_folder: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Letters may be of several bytes; what is too long is told before the work."""
    call = ["eval", run_folder, "--data", corpus / "dev.en", corpus / "dev.de", "--beam", "1"]
    longest = "é" * (LONGEST_NAME // 2)
    assert saccade(*call, "--name", longest).code == 0
    (run_folder / "evals" / f"{longest}.json").unlink()
    monkeypatch.setattr(evaluate, "score_all", None)
    for name in (longest + "x", "x" * 300):
        refused(saccade(*call, "--name", name), f"--name {name[:20]}... is ", "a shorter one")


def test_places_that_cannot_be_written(
    saccade: Saccade, corpus: Path, run_folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.touch()
    for verb in (train_arguments(corpus, file / "run"), ["demo", "--quick", "--out", file / "x"]):
        refused(saccade(*verb), "error: ", str(file), "Not a directory")
    assert list(tmp_path.iterdir()) == [file]
    refused(saccade("predict", run_folder / ("x" * 300)), "File name too long")


def test_scores_are_said_though_they_cannot_be_kept(
    saccade: Saccade, run_folder: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def readonly(self: Run, name: str, evaluation: object) -> None:  # noqa: ARG001
        raise OSError(*failure, str(self.path / "evals"))

    monkeypatch.setattr(Run, "write_evaluation", readonly)
    data = ["--data", corpus / "dev.en", corpus / "dev.de", "--beam", "1"]
    for failure, code in (((30, "Read-only file system"), 2), ((5, "Input/output error"), 1)):
        said = saccade("eval", run_folder, *data)
        assert said.code == code
        assert said.err == f"error: {run_folder / 'evals'}: {failure[1]}\n"
        assert said.out.startswith("BLEU")
        assert "by example" not in said.out


def test_somebodys_code_is_not_run_unasked(saccade: Saccade, corpus: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text("import pathlib\npathlib.Path(__file__).with_name('ran').touch()\n")
    arguments = train_arguments(corpus, tmp_path / "run")
    refused(saccade(*arguments, "--model", f"{mine}:Model"), "--allow-code")
    assert [path.name for path in tmp_path.iterdir()] == ["mine.py"]
