"""What each verb answers when all is well."""

import dataclasses
import inspect
import json
import re
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from cli.conftest import Said, train_arguments

from saccade.cli import main
from saccade.cli.decode import SearchFlags
from saccade.cli.evaluate import data_name
from saccade.cli.predict import PredictFlags
from saccade.cli.progress import clock, tensorboard
from saccade.cli.terminal import this_command
from saccade.cli.train import TrainFlags
from saccade.decoding.options import DecodeOptions
from saccade.errors import InputError
from saccade.models.transformer import TransformerConfig
from saccade.tasks.translate import TranslateConfig
from saccade.training.settings import DEFAULT_MINUTES, TrainConfig, resolve
from saccade.training.signals import Interrupted

Saccade = Callable[..., Said]
EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_minutes_of_a_verb_in_a_script_begin_with_the_verb(
    saccade: Saccade, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the command itself counts from the start of its process; a script has many verbs."""
    begun: list[float] = []

    def stop(*_: object, started_at: float) -> None:
        begun.append(started_at)
        raise InputError("enough")

    monkeypatch.setattr("saccade.cli.STARTED_AT", -1e9)
    monkeypatch.setattr("saccade.cli.train.train_with", stop)
    words = train_arguments(corpus, tmp_path / "run")
    before = time.monotonic()
    assert saccade(*words).err == "error: enough\n"
    assert before <= begun[-1] <= time.monotonic()
    with pytest.raises(SystemExit):
        main(words)
    assert begun[-1] == -1e9


def test_how_to_continue_is_told_in_the_words_of_the_verb(
    saccade: Saccade, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in those of the script that it is a step of."""

    def stop(*_: object, **__: object) -> None:
        raise Interrupted(2)

    monkeypatch.setattr("saccade.cli.train.train_with", stop)
    monkeypatch.setattr("sys.argv", ["recipe.py", "--fast", "--resume"])
    words = train_arguments(corpus, tmp_path / "run")
    for called in (words, [*words, "--resume"]):
        said = saccade(*called)
        assert said.code == 130
        assert said.err.splitlines()[-1].strip() == f"saccade {shlex.join(words)} --resume"
    said = saccade("demo", "--quick", "--out", tmp_path / "demo")
    assert said.err.endswith(f"saccade demo --quick --out {tmp_path / 'demo'}\n")


def test_train_answers_on_standard_output_and_talks_on_standard_error(
    trained: tuple[Path, Said],
) -> None:
    out, said = trained
    assert said.code == 0, said.err
    lines = said.out.splitlines()
    assert lines[0] == f"run: {out}"
    assert lines[1].startswith("dev BLEU: ")
    assert f"saccade predict {out} --input FILE" in said.out
    assert "loss" in said.err
    assert "20 steps" in said.err


def test_resume_of_a_finished_run_changes_nothing(
    saccade: Saccade, corpus: Path, run_folder: Path
) -> None:
    before = (run_folder / "model.safetensors").read_bytes()
    arguments = [*train_arguments(corpus, run_folder), "--set", "train.eval_every=20", "--resume"]
    said = saccade(*arguments)
    assert said.code == 0, said.err
    assert "is finished" in said.err
    assert (run_folder / "model.safetensors").read_bytes() == before


def test_files_may_be_given_one_by_one_and_the_task_in_a_file(
    saccade: Saccade, corpus: Path, tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('task = "translate"\n[train]\nsteps = 2\nseed = 7\n')
    files = ["--train", corpus / "train.en", "--train", corpus / "train.de"]
    tiny = train_arguments(corpus, tmp_path / "run")
    said = saccade("train", *files, "--config", config, *tiny[tiny.index("--out") :])
    assert said.code == 0, said.err
    assert "20 steps" in said.err  # the flag is above the file
    assert "seed = 7" in (tmp_path / "run" / "config.toml").read_text()


def test_precedence(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[task]\nname = "translate"\ntrain = ["x"]\n[model]\ndim = 32\nheads = 2\n')
    flags = TrainFlags(
        out=tmp_path, preset="small", config=config, set=["model.heads=1", "train.seed=2"], seed=3
    )
    settings = resolve(flags.tables(None))
    assert settings.model["layers"] == 3  # preset over default
    assert settings.model["dim"] == 32  # file over preset
    assert settings.model["heads"] == 1  # --set over file
    assert settings.train.seed == 3  # flag over --set


def test_steps_and_minutes_are_both_told(saccade: Saccade, corpus: Path, tmp_path: Path) -> None:
    said = saccade(*train_arguments(corpus, tmp_path / "run"), "--minutes", "1")
    assert re.search(r"\d+ steps or 1 minute, ", said.err)


def test_several_seeds(saccade: Saccade, corpus: Path, tmp_path: Path) -> None:
    arguments = train_arguments(corpus, tmp_path / "runs")
    arguments[arguments.index("--steps") + 1] = "2"
    said = saccade(*arguments, "--seeds", "1,2")
    assert said.code == 0, said.err
    assert "of 2 seeds" in said.out
    assert [path.name for path in sorted((tmp_path / "runs").iterdir())] == ["seed-1", "seed-2"]


@pytest.mark.filterwarnings("default")
def test_tensorboard_gets_curves(saccade: Saccade, corpus: Path, tmp_path: Path) -> None:
    said = saccade(*train_arguments(corpus, tmp_path / "run"), "--tensorboard")
    assert said.code == 0, said.err
    assert list((tmp_path / "run" / "tensorboard").glob("events*"))


@pytest.mark.filterwarnings("default")
def test_tensorboard_forgets_what_a_resume_comes_by_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.utils.tensorboard import writer

    asked: list[int] = []
    monkeypatch.setattr(
        writer, "SummaryWriter",
        lambda _, purge_step: asked.append(purge_step) or SimpleNamespace(close=lambda: None),
    )  # fmt: skip
    resumed: Any = SimpleNamespace(
        crew=SimpleNamespace(run=SimpleNamespace(path=tmp_path)), standing=SimpleNamespace(step=7)
    )
    with tensorboard(Path("curves")) as events:
        events.start(resumed)
    assert asked == [8]


def test_eval(saccade: Saccade, run_folder: Path, corpus: Path) -> None:
    data = ["--data", corpus / "dev.en", corpus / "dev.de"]
    said = saccade("eval", run_folder, *data, "--moses", "de", "--beam", "1")
    assert said.code == 0, said.err
    assert "nrefs:1|case:mixed" in said.out
    assert "lowercased Moses tokens" in said.out
    assert "examples: 4" in said.out
    kept = json.loads((run_folder / "evals" / "dev.en-de.json").read_text())
    assert len(kept["by_example"]) == 4
    answer = json.loads(saccade("eval", run_folder, *data, "--json", "--name", "again").out)
    assert answer["examples"] == 4
    assert {"value", "signature", "better"} == answer["metrics"]["BLEU"].keys()
    again = json.loads((run_folder / "evals" / "again.json").read_text())
    assert answer["decoding"] == again["decoding"]
    assert (kept["decoding"]["beam"], again["decoding"]["beam"]) == (1, DecodeOptions().beam)
    assert again["decoding"]["length_penalty"] == DecodeOptions().length_penalty
    assert again["decoding"]["precision"] == "float32"


def test_eval_reads_either_side_from_standard_input(
    saccade: Saccade, run_folder: Path, corpus: Path
) -> None:
    sides = [corpus / "dev.en", corpus / "dev.de"]
    call = ["eval", run_folder, "--beam", "1", "--json", "--name", "dashed", "--data"]
    wanted = json.loads(saccade(*call, *sides).out)["metrics"]
    for place in (0, 1):
        dashed: list[object] = [*sides]
        dashed[place] = "-"
        said = saccade(*call, *dashed, stdin=sides[place].read_bytes())
        assert said.code == 0, said.err
        assert json.loads(said.out)["metrics"] == wanted


def test_scores_of_other_data_are_not_replaced_without_a_word(
    saccade: Saccade, run_folder: Path, tmp_path: Path
) -> None:
    said = []
    for text in ("cat\ttac\n", "cat\ttac\n", "dog\tgod\n"):
        (tmp_path / "other.tsv").write_text(text)
        said.append(saccade("eval", run_folder, "--data", tmp_path / "other.tsv", "--beam", 1).err)
    assert ["are replaced: --name keeps both" in each for each in said] == [False, False, True]
    wider = saccade("eval", run_folder, "--data", tmp_path / "other.tsv", "--beam", 2)
    assert "the scores of the same data by other settings, kept as other" in wider.err


def test_eval_reads_columns_and_bad_bytes_as_told(
    saccade: Saccade, run_folder: Path, tmp_path: Path
) -> None:
    table = tmp_path / "the test.tsv"
    table.write_bytes(b"en\tx\tde\nthe cat\t-\teht tac\nthe \xff\t-\teht\n")
    call = ["eval", run_folder, "--data", table, "--columns", "en,de", "--beam", "1"]
    assert "--on-bad-utf8 replace" in saccade(*call).err
    for how, examples in (("replace", 2), ("skip", 1)):
        said = saccade(*call, "--on-bad-utf8", how)
        assert said.code == 0, said.err
        assert f"examples: {examples}\n" in said.out
    (kept,) = (run_folder / "evals").glob("the-test*")
    assert kept.name == "the-test.tsv.json"


@pytest.mark.parametrize(
    ("files", "name"),
    [
        (["data/test.en.gz", "data/test.de.gz"], "test.en-de"),
        (["data/test.en.GZ", "data/test.de.gz"], "test.en-de"),
        (["a b/my test.en", "x/your test.de"], "my-test.en-your-test.de"),
        (["builtin:english-french/test"], "english-french-test"),
        (["data:my set.tsv"], "my-set.tsv"),
        ([".hidden.en", ".hidden.de"], "hidden.en-de"),
        (["-"], "data"),
        (["a.txt", "b.txt", "c.txt"], "a.txt-b.txt-c.txt"),
        (["x" * 400], "x" * 120),
        (["x" + "é" * 400], "x" + "é" * 59),  # bytes are counted, no letter is halved
    ],
)
def test_scores_are_named_after_the_files(files: list[str], name: str) -> None:
    assert data_name(files) == name


def test_help_states_the_defaults_that_hold() -> None:
    stating = r'(\w+): [^\n]+ = None\n    """[^"]*\[default: ([\d.]+)'
    text = inspect.getsource(SearchFlags) + inspect.getsource(PredictFlags)
    stated = dict(re.findall(stating, text))
    assert stated.keys() >= {"beam", "length_penalty", "max_ratio", "temperature", "seed"}
    for name, value in stated.items():
        assert getattr(DecodeOptions(), name) == float(value)
    stated = dict(re.findall(stating, inspect.getsource(TrainFlags)))
    assert float(stated.pop("minutes")) == DEFAULT_MINUTES
    assert {"seed": TrainConfig().seed} == {name: int(value) for name, value in stated.items()}


def test_models_and_tasks(saccade: Saccade) -> None:
    assert "Vaswani et al. 2017" in saccade("models").out
    said = saccade("models", "transformer").out
    assert "base: 48." in said
    assert 'placement = "pre"' in said
    assert "limit = 1024  # of learned positions" in said
    tasks = saccade("tasks").out
    assert tasks.startswith("translate: any sequence")
    for section, config, text in (
        ("task", TranslateConfig, tasks),
        ("train", TrainConfig, said),
        ("model", TransformerConfig, said),
    ):
        assert f"--set {section}.KEY=VALUE" in text
        for field in dataclasses.fields(config):
            if field.default is not dataclasses.MISSING:
                assert re.search(rf"^  {field.name}[.\w]* = ", text, re.MULTILINE), field.name
    assert 'schedule = "linear"  # linear | cosine' in said
    assert 'average_of = "last"  # last | best; which: the newest' in said
    assert "steps = (unset)  # updates" in said
    assert 'optimizer.name = "' in said
    assert "vocab_size = 4000  # at most" in tasks


def test_help_names_data_that_is_no_file(saccade: Saccade) -> None:
    said = " ".join(saccade("train", "--help").out.split())
    assert "builtin:french-english/train" in said
    assert "data:NAME" in said
    assert "SACCADE_DATA" in said


def test_commands_to_paste_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for called, start in {
        ".venv/bin/saccade": ".venv/bin/saccade",
        "/some where/saccade": "'/some where/saccade'",
        str(Path("src", "saccade", "__main__.py")): f"{sys.executable} -m saccade",
        "my_script.py": "saccade",
    }.items():
        monkeypatch.setattr(sys, "argv", [called])
        assert this_command("eval", Path("my run")) == f"{start} eval 'my run'"
    program = tmp_path / "saccade"
    program.touch(mode=0o755)
    monkeypatch.setattr(sys, "argv", [str(program)])
    assert this_command("demo") == "saccade demo"


def test_clock() -> None:
    assert [clock(5.0), clock(65.0), clock(3725.0), clock(None)] == ["0:05", "1:05", "1:02:05", "–"]


def test_explain_shows_the_arithmetic_of_a_token(
    saccade: Callable[..., Said], run_folder: Path
) -> None:
    shown = saccade("explain", run_folder, "the cat", "--head", 1, "--token", 0)
    assert shown.code == 0, shown.err
    assert "q·k / √K" in shown.out
    read = json.loads(saccade("explain", run_folder, "the cat", "--head", 1, "--json").out)
    assert f"{read['products'][0]:.2f}" in shown.out
    assert sum(read["weights"]) == pytest.approx(1, abs=1e-5)
    wrong = saccade("explain", run_folder, "the cat", "--token", "nowhere")
    assert (wrong.code, "no token is 'nowhere'" in wrong.err) == (2, True)
