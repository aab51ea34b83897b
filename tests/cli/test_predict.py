"""saccade predict: a line in, a line out, by whatever number of workers."""

import gzip
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.conftest import Said
from tiny_runs import everything

from saccade.cli import predict
from saccade.data import batches
from saccade.decoding.options import DecodeOptions
from saccade.errors import TrainingError
from saccade.inspection.alignment import AttentionMap
from saccade.tasks.task import Prediction
from saccade.training.model import Model
from saccade.training.pool import Job, Loading, Pool, Work, jobs

Saccade = Callable[..., Said]
ODD = "the cat\n\nbig\0 red\nold\u2028man\n   \n</s> <pad>\n".encode()


def test_predict_gives_a_line_for_each_line(saccade: Saccade, run_folder: Path) -> None:
    said = saccade("predict", run_folder, stdin=ODD)
    assert said.code == 0, said.err
    lines = said.out.split("\n")
    assert len(lines) == 7
    assert [lines[1], lines[4], lines[6]] == ["", "", ""]
    assert ", 2 blank lines\n" in said.err
    alone = saccade("predict", run_folder, stdin=ODD.split(b"\n")[2] + b"\n")
    assert alone.out == lines[2] + "\n"
    assert saccade("predict", run_folder, stdin=b"").out == ""


def test_a_newline_inside_is_shown(
    saccade: Saccade, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from saccade.data.tokenizers import Tokenizer

    monkeypatch.setattr(Tokenizer, "decode", lambda _, ids: "one\ntwo" if ids else "")
    assert saccade("predict", run_folder, stdin=b"the\n").out == "one\\ntwo\n"
    answer = saccade("predict", run_folder, "--json", stdin=b"the\n").out
    assert json.loads(answer)["text"] == "one\ntwo"


def test_predict_as_json_nbest_and_alignments(
    saccade: Saccade, run_folder: Path, tmp_path: Path
) -> None:
    links = tmp_path / "links"
    said = saccade("predict", run_folder, "--json", "--alignments", links, stdin=ODD)
    answers = [json.loads(line) for line in said.out.splitlines()]
    assert len(answers) == 6
    assert {"text", "score", "tokens"} <= answers[0].keys()
    lines = links.read_text().split("\n")
    assert len(lines) == 7
    assert any("-" in line for line in lines)
    for answer, line in zip(answers, lines, strict=False):
        targets = {int(link.split("-")[1]) for link in line.split()}
        assert targets <= set(range(len(answer["text"].split())))
    nbest = saccade("predict", run_folder, "--nbest", "2", stdin=b"the cat\na dog\n").out
    assert [line.split(" ||| ")[0] for line in nbest.splitlines()] == ["0", "0", "1", "1"]
    scores = [float(line.split(" ||| ")[2]) for line in nbest.splitlines()]
    assert scores[0] >= scores[1]


@pytest.mark.serial
def test_predict_writes_the_links_that_eval_reads(
    saccade: Saccade, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, file = b"the cat sees a dog\nbig red house\n\n", tmp_path / "links"

    def links(*flags: str) -> list[set[str]]:
        said = saccade("predict", run_folder, "--alignments", file, *flags, stdin=texts)
        assert said.code == 0, said.err
        return [set(line.split()) for line in file.read_text().splitlines()]

    usual = links()
    best, covering, mutual = (links("--links", name) for name in ("argmax", "covering", "mutual"))
    assert usual == best
    assert links("--links", "covering", "--workers", "2") == covering
    for few, one, all_ in zip(mutual, best, covering, strict=True):
        assert few <= one <= all_
    assert [len({link.split("-")[0] for link in each}) for each in covering] == [5, 3, 0]
    assert links("--layer", "decoder.0.cross_attention") == best  # there is but one
    late, words = [], Model.words

    def noted(model: Model, text: str, prediction: Prediction, steps_late: int) -> AttentionMap:
        late.append(steps_late)
        return words(model, text, prediction, steps_late)

    monkeypatch.setattr(Model, "words", noted)
    links("--step", "reads")
    assert late == [1, 1]  # of the texts that are not empty
    wrong = saccade("predict", run_folder, "--alignments", file, "--layer", "last", stdin=texts)
    assert "no attention layer 'last'" in wrong.err
    idle = saccade("predict", run_folder, "--links", "mutual", stdin=texts)
    assert (idle.code, "--links needs --alignments" in idle.err) == (2, True)


def test_long_texts_are_cut_and_named(saccade: Saccade, run_folder: Path) -> None:
    text = b"a\n" + b"dog " * 2000 + b"\n"
    said = saccade("predict", run_folder, "--beam", "1", "--max-ratio", "0", stdin=text)
    assert said.code == 0
    assert said.out.count("\n") == 2
    assert "line 2: too long, the model read 1,023 tokens of it" in said.err
    streamed = saccade("predict", run_folder, "--stream", "--max-ratio", "0", stdin=text)
    assert (streamed.code, streamed.out) == (0, said.out)
    assert streamed.err == said.err.splitlines(keepends=True)[0]  # a stream counts no outputs
    cut = "standard input: 2 outputs were cut at the most tokens allowed (lines 1, 2)"
    assert cut in said.err
    fits = saccade("predict", run_folder, "--beam", "1", "--json", stdin=b"a\n")
    assert (json.loads(fits.out)["finished"], "cut" in fits.err) in {(True, False), (False, True)}


def test_a_dash_is_standard_input(saccade: Saccade, run_folder: Path) -> None:
    wanted = saccade("predict", run_folder, "--beam", "1", stdin=ODD)
    for flags in (["--input", "-"], ["--input=-"]):
        assert saccade("predict", run_folder, *flags, "--beam", "1", stdin=ODD) == wanted
    assert saccade("predict", run_folder, "--input", "--json", stdin=ODD).code == 2


def test_a_dash_is_standard_output(
    saccade: Saccade, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    call = ["predict", run_folder, "--beam", "1"]
    plain = saccade(*call, "--alignments", "links", stdin=b"the cat\n")
    dashed = saccade(*call, "--output", "-", "--alignments", "links", stdin=b"the cat\n")
    assert (dashed.code, dashed.out) == (0, plain.out)
    links = saccade(*call, "--output", "texts", "--alignments", "-", stdin=b"the cat\n")
    assert (links.code, links.out) == (0, Path("links").read_text())
    assert {path.name for path in tmp_path.iterdir()} == {"links", "texts"}
    assert saccade(*call, "--output", "./-", stdin=b"the cat\n").out == ""
    assert Path("./-").read_text() == plain.out, "a file of that name is written with its folder"


def test_output_replaces_files_alone(saccade: Saccade, run_folder: Path, tmp_path: Path) -> None:
    def predict(place: Path) -> None:
        said = saccade("predict", run_folder, "--beam", "1", "--output", place, stdin=ODD)
        assert (said.code, said.out) == (0, ""), said.err

    wanted = saccade("predict", run_folder, "--beam", "1", stdin=ODD).out
    (tmp_path / "there").mkdir()
    file, link, pipe = tmp_path / "there" / "file", tmp_path / "link", tmp_path / "pipe"
    link.symlink_to(file)
    for _ in range(2):  # where the link leads there is nothing first, then a file
        predict(link)
        assert link.is_symlink()
        assert file.read_text("utf-8") == wanted
        file.write_text("old")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        predict(pipe)
        assert os.read(reader, 1 << 16).decode() == wanted
    finally:
        os.close(reader)
    assert pipe.is_fifo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe", "there"]
    assert list((tmp_path / "there").iterdir()) == [file]


@pytest.mark.parametrize("flag", ["--output", "--alignments"])
@pytest.mark.parametrize("part", ["model.safetensors", "config.toml", "evals/new.json"])
def test_no_part_of_a_run_is_written_over(
    saccade: Saccade, run_folder: Path, flag: str, part: str
) -> None:
    before = everything(run_folder)
    said = saccade("predict", run_folder, flag, run_folder / part, stdin=b"the cat\n")
    assert said.code == 2
    assert "is a part of the run" in said.err
    assert everything(run_folder) == before


def test_an_output_may_be_gzipped(saccade: Saccade, run_folder: Path, tmp_path: Path) -> None:
    plain = saccade("predict", run_folder, stdin=b"the cat\na dog\n").out
    saccade("predict", run_folder, "--output", tmp_path / "o.GZ", stdin=b"the cat\na dog\n")
    packed = (tmp_path / "o.GZ").read_bytes()
    assert gzip.decompress(packed).decode() == plain
    saccade("predict", run_folder, "--output", tmp_path / "p.gz", stdin=b"the cat\na dog\n")
    assert (tmp_path / "p.gz").read_bytes() == packed


def test_what_an_unfinished_run_predicts_is_told_as_such(
    saccade: Saccade, run_folder: Path, tmp_path: Path
) -> None:
    assert "unfinished" not in saccade("predict", run_folder, stdin=b"the cat\n").err
    shutil.copytree(run_folder, tmp_path / "run")
    (tmp_path / "run" / "README.md").unlink()
    said = saccade("predict", tmp_path / "run", stdin=b"the cat\n")
    assert said.code == 0
    assert "is unfinished" in said.err
    assert "--resume" in said.err


def test_one_choice_is_one_path(saccade: Saccade, run_folder: Path) -> None:
    said = saccade("predict", run_folder, "--nbest", "3", "--choices", "1", stdin=b"the cat\n")
    assert said.code == 2
    assert "there is one path" in said.err


@pytest.mark.parametrize("mode", [0o600, 0o444, 0o777])
def test_output_keeps_who_may_read_a_file(
    saccade: Saccade, run_folder: Path, tmp_path: Path, mode: int
) -> None:
    file = tmp_path / "texts"
    file.touch()
    file.chmod(mode)
    said = saccade("predict", run_folder, "--beam", "1", "--output", file, stdin=b"the cat\n")
    assert (said.code, file.stat().st_mode & 0o777) == (0, mode), said.err
    assert file.read_text() != ""


def test_what_fails_beside_the_output_is_not_blamed_on_it(
    saccade: Saccade, run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise OSError(5, "Input/output error", "texts")

    monkeypatch.setattr(predict, "_answers", fails)
    said = saccade("predict", run_folder, "--output", tmp_path / "out", stdin=b"a\n")
    assert (said.code, said.err) == (1, "error: texts: Input/output error\n")
    assert list(tmp_path.iterdir()) == []


def test_stream_says_what_greedy_search_says(saccade: Saccade, run_folder: Path) -> None:
    greedy = saccade("predict", run_folder, "--beam", "1", stdin=ODD)
    streamed = saccade("predict", run_folder, "--stream", stdin=ODD)
    assert streamed.code == 0, streamed.err
    assert streamed.out == greedy.out


def test_sampling_depends_on_seed_and_line_alone(saccade: Saccade, run_folder: Path) -> None:
    sample = ["predict", run_folder, "--sample", "--seed", "3"]
    texts = b"the cat\n" * 70  # more than are decoded together
    both = saccade(*sample, stdin=texts).out
    assert saccade(*sample, stdin=texts[:80]).out == "".join(
        line + "\n" for line in both.split("\n")[:10]
    )
    assert len(set(both.split("\n"))) > 1
    assert saccade("predict", run_folder, "--sample", "--seed", "4", stdin=texts).out != both


def test_blocks_come_in_order(
    saccade: Saccade, run_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = b"".join(b"the " * (1 + n % 5) + b"cat\n" for n in range(20))
    whole = saccade("predict", run_folder, "--json", "--beam", "1", stdin=texts).out
    monkeypatch.setattr(predict, "BLOCK", 7)
    monkeypatch.setattr(batches, "ROWS", 3)
    split = saccade("predict", run_folder, "--json", "--beam", "1", stdin=texts).out
    assert [json.loads(a)["text"] for a in split.splitlines()] == [
        json.loads(a)["text"] for a in whole.splitlines()
    ]


@pytest.mark.serial
def test_workers_change_nothing(saccade: Saccade, run_folder: Path, tmp_path: Path) -> None:
    texts = b"".join(b"the " * (1 + n % 5) + b"cat\n" for n in range(150)) + ODD
    calls = [["--workers", "1"], ["--workers", "2", "--output", tmp_path / "out"]]
    one, two = (saccade("predict", run_folder, "--json", *call, stdin=texts) for call in calls)
    assert (one.code, two.code, two.out) == (0, 0, ""), two.err
    assert (tmp_path / "out").read_text("utf-8") == one.out


@pytest.mark.serial
def test_a_dead_worker_is_told(run_folder: Path) -> None:
    workers = Pool(run_folder, Work(DecodeOptions()), 1, Loading())
    try:
        workers.members[0].process.kill()
        with pytest.raises(TrainingError, match="worker 1 ended with code"):
            list(workers.map([Job(["a"], [0])]))
    finally:
        workers.close()


def test_jobs_hold_every_text_once() -> None:
    texts = ["a" * (n * 7 % 13) for n in range(200)]
    found = {n: t for job in jobs(texts, 5) for n, t in zip(job.numbers, job.texts, strict=True)}
    assert found == dict(enumerate(texts, 5))
