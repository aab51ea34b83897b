"""What a --config file says, beside --set and flags; what is refused of it names the file."""

from collections.abc import Callable
from pathlib import Path

import pytest
from cli.conftest import Said, train_arguments

Saccade = Callable[..., Said]
TASK = '[task]\nname = "translate"\ntrain = ["a", "b"]\n'
MISTAKES = {
    "a list of tables": (
        "[[train]]\nsteps = 5\n",
        "train = [{'steps': 5}]; expected a table [train]",
    ),
    "no table": ("model = 5\n" + TASK, "model = 5; expected a table [model]"),
    "a misspelt section": (
        TASK.replace("task", "tsak"),
        "unknown section [tsak]; did you mean 'task'?",
    ),
    "an unknown key": (TASK + "[train]\npeak_rat = 1\n", "unknown key 'train.peak_rat'; did you"),
    "a wrong type": (TASK + '[train]\nseed = "one"\n', "train.seed = 'one'; expected an integer"),
    "a wrong value": (TASK + "[train]\nsteps = 0\n", "train.steps is 0, it must be at least 1"),
    "an unknown model": (TASK + '[model]\nname = "gtp"\n', "unknown model 'gtp'; did you mean"),
    "code": (TASK + '[model]\nname = "my.py:A"\n', "model 'my.py:A' is a file of code"),
}


@pytest.mark.parametrize("kind", MISTAKES)
def test_a_mistake_names_the_file(saccade: Saccade, tmp_path: Path, kind: str) -> None:
    config, out = tmp_path / "my.toml", tmp_path / "run"
    text, told = MISTAKES[kind]
    config.write_text(text)
    said = saccade("train", "translate", "--config", config, "--out", out)
    told = f"error: {config}: {told}"
    assert (said.code, said.err[: len(told)]) == (2, told)
    assert not out.exists()


@pytest.mark.parametrize(
    "flags", [["--steps", "0"], ["--set", "train.peak_rat=1"], ["--model", "x"]]
)
def test_a_mistake_beside_the_file_is_not_blamed_on_it(
    saccade: Saccade, tmp_path: Path, flags: list[str]
) -> None:
    config = tmp_path / "my.toml"
    config.write_text(f"{TASK}[train]\nsteps = 5\n")
    said = saccade("train", "--config", config, *flags, "--out", tmp_path / "run")
    assert (said.code, str(config) in said.err) == (2, False), said.err
    config.write_text('[task]\ntrain = ["a", "b"]\n')
    said = saccade("train", "transalte", "--config", config, "--out", tmp_path / "run")
    assert said.err.startswith("error: unknown task 'transalte'"), said.err


def test_a_mistake_in_a_run_names_its_file(saccade: Saccade, tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f"format = 1\n{TASK}[train]\nsteps = 0\n")
    said = saccade("predict", tmp_path, stdin=b"a\n")
    assert (said.code, said.err[:-1]) == (
        2, f"error: {config}: train.steps is 0, it must be at least 1"
    )  # fmt: skip


def test_what_is_no_table_is_not_hidden_by_a_flag(
    saccade: Saccade, corpus: Path, tmp_path: Path
) -> None:
    config = tmp_path / "my.toml"
    config.write_text("model = 5\n")
    arguments = train_arguments(corpus, tmp_path / "run")
    said = saccade(*arguments, "--config", config)
    assert (said.code, f"{config}: model = 5; expected a table [model]" in said.err) == (2, True)


def test_a_misspelt_section_of_set_is_told_before_what_is_missing(
    saccade: Saccade, tmp_path: Path
) -> None:
    said = saccade("train", "--set", "tsak.name=translate", "--out", tmp_path / "run")
    assert (said.code, said.err) == (2, "error: unknown section [tsak]; did you mean 'task'?\n")


@pytest.mark.parametrize("asked", [["--preset", "small"], ["--set", "model.preset=small"]])
def test_the_preset_of_a_file_is_changed_in_the_file(
    saccade: Saccade, tmp_path: Path, asked: list[str]
) -> None:
    """It is above a preset: what it says of the model would stay, under another's name."""
    config = tmp_path / "my.toml"
    config.write_text(f'{TASK}[model]\npreset = "base"\nheads = 2\n')
    said = saccade("train", "--config", config, *asked, "--out", tmp_path / "run")
    told = f"error: {' '.join(asked)}, but {config} says preset = 'base' and may set what presets"
    assert (said.code, said.err[: len(told)]) == (2, told)
    same = [word.replace("small", "base") for word in asked]
    said = saccade("train", "--config", config, *same, "--out", tmp_path / "run")
    assert said.err == "error: a: no such file\n"
