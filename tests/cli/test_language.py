"""The verbs on a language model: prompts a line in, one line out; nonsense is refused."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.conftest import Said
from tiny_runs import write_text

Saccade = Callable[..., Said]
SMALL = [
    *("--set", "model.dim=16", "--set", "model.layers=1", "--set", "model.heads=2"),
    *("--set", "train.threads=1", "--set", "train.batch_tokens=128", "--set", "task.context=16"),
    *("--processes", "1", "--steps", "20", "--tokenizer", "characters"),
]
PROMPTS = "abc\n\nd e\nz\\nß\n"


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_text(tmp_path_factory.mktemp("text"), size=1200)


@pytest.fixture(scope="module")
def trained(
    saccade: Saccade, text: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Said]:
    """No model is named: GPT is usual."""
    out = tmp_path_factory.mktemp("runs") / "run"
    return out, saccade("train", "generate", "--train", text, "--dev", text, "--out", out, *SMALL)


@pytest.fixture(scope="module")
def folder(trained: tuple[Path, Said]) -> Path:
    return trained[0]


def test_training_tells_loss_perplexity_and_bits(trained: tuple[Path, Said]) -> None:
    out, said = trained
    assert said.code == 0, said.err
    for name in ("loss", "perplexity per word", "bits per character"):
        assert f"dev {name}: " in said.out
    assert "(best)" in said.err
    assert 'name = "gpt"' in (out / "config.toml").read_text()
    assert "- dev: loss " in (out / "README.md").read_text()


def test_scores_of_another_text_are_not_replaced_without_a_word(
    saccade: Saccade, folder: Path, tmp_path: Path
) -> None:
    said = []
    for text in ("abc abd\n", "abc abd\n", "abd abc\n"):
        (tmp_path / "some.txt").write_text(text)
        said.append(saccade("eval", folder, "--data", tmp_path / "some.txt").err)
    assert ["are replaced: --name keeps both" in each for each in said] == [False, False, True]


def test_a_line_a_prompt_drawn_by_the_seed(saccade: Saccade, folder: Path) -> None:
    first, again, other = (
        saccade("predict", folder, "--length", 20, "--seed", seed, stdin=PROMPTS.encode())
        for seed in (1, 1, 2)
    )
    assert first.code == 0, first.err
    assert first.out == again.out
    assert first.out != other.out
    assert first.out.count("\n") == 4  # a newline in a text is \n; an empty prompt begins one
    assert "\\n" in first.out


def test_json_and_streams_keep_newlines(saccade: Saccade, folder: Path) -> None:
    stdin = PROMPTS.encode()
    said = saccade("predict", folder, "--length", 20, "--json", stdin=stdin)
    texts = [json.loads(line)["text"] for line in said.out.splitlines()]
    assert all(len(text) == 20 for text in texts)
    lines = saccade("predict", folder, "--length", 20, stdin=stdin).out
    assert lines == "".join(text.replace("\n", "\\n") + "\n" for text in texts)
    streamed = saccade("predict", folder, "--length", 20, "--stream", stdin=stdin).out
    assert streamed == "".join(text + "\n" for text in texts)


def test_a_prompt_may_hold_newlines(saccade: Saccade, folder: Path) -> None:
    one = ["predict", folder, "--length", 5, "--json"]
    plain, escaped = (
        json.loads(saccade(*one, *more, stdin=b"a\\nb\n").out) for more in ([], ["--unescape"])
    )
    assert plain["text"] != escaped["text"] or plain["score"] != escaped["score"]


@pytest.mark.parametrize(
    ("flags", "fragments"),
    [
        (["--beam", "1", "--temperature", "0.5"], ["--temperature needs --sample"]),
        (["--beam", "3", "--sample"], ["does not go with --sample"]),
        (["--beam", "3", "--stop", "x"], ["stop is of generate and of one path"]),
        (["--stop", ""], ["empty stop string"]),
        (["--repetition-penalty", "0"], ["repetition_penalty is 0"]),
        (["--length", "0"], ["length is 0"]),
        (["--top-p", "2"], ["top-p is 2"]),
        (["--alignments", "x.txt"], ["no source"]),
    ],
)
def test_what_makes_no_sense_is_refused(
    saccade: Saccade, folder: Path, flags: list[str], fragments: list[str]
) -> None:
    said = saccade("predict", folder, *flags, stdin=b"a\n")
    assert said.code == 2, said.err
    assert all(fragment in said.err for fragment in fragments), said.err


def test_prompts_that_are_no_text(saccade: Saccade, folder: Path) -> None:
    said = saccade("predict", folder, stdin=b"fine\nnot \xff fine\n")
    assert said.code == 2
    assert "line 2" in said.err
    mended = saccade("predict", folder, "--on-bad-utf8", "replace", stdin=b"not \xff fine\n")
    assert mended.code == 0
    long = saccade("predict", folder, "--length", 3, stdin=b"abc " * 100 + b"\n")
    assert long.code == 0
    assert "line 1: too long, the model read " in long.err
    assert "cut" not in long.err  # its length is how a continuation ends


def test_greedy_search_stops_where_told(saccade: Saccade, folder: Path) -> None:
    greedy = ["predict", folder, "--beam", 1, "--length", 20]
    whole = saccade(*greedy, stdin=b"abc\n").out
    stop = whole[4:6]
    cut = saccade(*greedy, "--stop", stop, stdin=b"abc\n").out
    assert cut == whole.partition(stop)[0] + "\n"


def test_a_stop_may_be_a_newline(saccade: Saccade, folder: Path) -> None:
    drawn = ["predict", folder, "--length", 60]
    whole = saccade(*drawn, stdin=b"abc\n").out
    assert "\\n" in whole
    line = [*drawn, "--stop", "\\n", "--unescape"]
    for more in ([], ["--stream"]):
        assert saccade(*line, *more, stdin=b"abc\n").out == whole.partition("\\n")[0] + "\n"


def test_eval_states_how_it_read(saccade: Saccade, folder: Path, text: str) -> None:
    said = saccade("eval", folder, "--data", text, "--json", "--name", "again")
    assert said.code == 0, said.err
    found = json.loads(said.out)
    kept = json.loads((folder / "evals" / "dev.json").read_text())
    assert found["metrics"]["loss"]["value"] == pytest.approx(kept["metrics"]["loss"]["value"])
    assert found["metrics"]["loss"]["better"] == "smaller"
    assert "context:16|stride:16|carried:no" in found["metrics"]["loss"]["signature"]
    assert "by_example" in json.loads((folder / "evals" / "again.json").read_text())
    sliding = saccade("eval", folder, "--data", text, "--set", "task.stride=4", "--json")
    assert "stride:4|" in json.loads(sliding.out)["metrics"]["perplexity per word"]["signature"]
    longer = saccade("eval", folder, "--data", text, "--set", "task.context=99", "--json")
    assert "set one of them" in longer.err
    for flags in (["--beam", "2"], ["--moses", "de"]):
        refused = saccade("eval", folder, "--data", text, *flags)
        assert refused.code == 2
        assert "scored without decoding" in refused.err


def test_a_longer_memory_is_told(saccade: Saccade, text: str, tmp_path: Path) -> None:
    run, memory = tmp_path / "xl", "model.memory=64"
    sets = ["--model", "transformer-xl", *SMALL, "--set", "model.memory=4"]
    made = saccade("train", "generate", "--train", text, "--out", run, *sets)
    assert made.code == 0, made.err
    plain, longer, apart = (
        json.loads(saccade("eval", run, "--data", text, "--json", *more).out)
        for more in ([], ["--set", memory], ["--set", memory, "--set", "task.carry=false"])
    )
    losses = [found["metrics"]["loss"] for found in (plain, longer, apart)]
    assert "|carried:yes|memory:4|" in losses[0]["signature"]
    assert "|carried:yes|memory:64|" in losses[1]["signature"]
    assert "memory" not in losses[2]["signature"]  # it begins each context with none
    assert len({loss["value"] for loss in losses}) == 3
    assert "set" not in plain["decoding"]
    assert longer["decoding"]["set"] == [memory]


@pytest.mark.serial
def test_workers_change_nothing(saccade: Saccade, folder: Path, text: str) -> None:
    one, two = (
        json.loads(saccade("eval", folder, "--data", text, "--workers", workers, "--json").out)
        for workers in (1, 2)
    )
    for found in (one, two):
        assert found.pop("seconds") * found.pop("examples_per_second") > 0
    assert one == two
    stdin = "".join(f"{'abcdefgh'[n % 8]}\n" for n in range(130)).encode()
    lines = [
        saccade("predict", folder, "--length", 5, "--workers", workers, stdin=stdin).out
        for workers in (1, 2)
    ]
    assert lines[0] == lines[1]


def test_models_and_tasks_are_listed(saccade: Saccade) -> None:
    said = saccade("tasks").out
    assert "generate: " in said
    assert "context = (unset)" in said
    for name in ("markov", "gpt", "rnn", "transformer-xl"):
        assert saccade("models", name).code == 0
    shown = saccade("models", "gpt").out  # as a run has them, not as another task would
    assert "  peak_rate = 0.003\n" in shown
    assert "  smoothing = 0.0\n" in shown


def test_an_infinite_score_of_several_seeds_is_told(
    saccade: Saccade, text: str, tmp_path: Path
) -> None:
    (tmp_path / "dev.txt").write_text("a z a z\n")
    said = saccade(
        "train", "generate", "--model", "markov", "--set", "model.smoothing=none",
        "--train", text, "--dev", tmp_path / "dev.txt", "--set", "task.tokenizer=words",
        "--seeds", "1,2", "--out", tmp_path / "runs",
    )  # fmt: skip
    assert said.code == 0, said.err
    assert "dev loss: infinite with 2 of 2 seeds" in said.out
