"""What the documents say is true: their commands and Python run, their links and names exist."""

import os
import re
import shutil
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest

import saccade

PROJECT = Path(__file__).parents[1]
SOURCE = PROJECT / "src" / "saccade"
README = PROJECT / "README.md"
DOCUMENTS = sorted(
    [*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("benchmarks/*.md")]
)
EXAMPLES = sorted(PROJECT.glob("examples/*.py"))
EXPERIMENTS = sorted(PROJECT.glob("experiments/**/*.toml"))
RECORDS = sorted(PROJECT.glob("docs/decisions/[0-9]*.md"))
SETUP_FILES = [PROJECT / name for name in ("Makefile", "constraints.txt", "pyproject.toml")]
# What readers are told takes minutes is cut to two updates here.
SHORTER = {r"--minutes [\d.]+": "--steps 2", r"\bminutes=[\d.]+": "steps=2"}
SECONDS = 300
PRINTED = {  # by each example, among other things
    "chat.py": ["you: Who am I?", "bot:"],
    "dna.py": ["chain of order 1", "bits per base", "after CAGGT:"],
    "folk_tunes.py": ["X:1"],
    "summaries.py": ["meant:", "summary:"],
    "attention_by_hand.py": ["112.0 96.0", "14.0 12.0", "0.88 0.12", "0.88 0.48 1.88"],
    "batch_norm_or_layer_norm.py": ["layer norm", "has statistics of 12 time steps", "norms.png"],
    "gradients_through_time.py": ["rnn, large weights", "lstm, open gates", "gradients.png"],
    "from_markov_to_attention.py": ["sum              4       5", "values     please 1"],
    "lecture_pictures.py": ["masks.svg", "before-and-after.svg", "beam.svg", "it.svg"],
    "own_model.py": ["mean of 4 heads", "    .     ."],
    "own_score.py": ["mean of 4 heads"],
    "own_task.py": ["BLEU", "exact match 66.67 (unit:percent|examples:3"],
    "train_a_translator.py": ["score", "attention.svg"],
}


NEEDS = {"dna.py": "dna/splice.train.tsv.gz", "folk_tunes.py": "nottingham_abc/train.abc.gz"}


def name_of(path: Path) -> str:
    return path.relative_to(PROJECT).as_posix()


def fenced(path: Path, language: str) -> list[re.Match[str]]:
    """The fenced blocks of a language in a document."""
    pattern = re.compile(rf"^```{language}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    return list(pattern.finditer(path.read_text("utf-8")))


def blocks(language: str) -> list[object]:
    """Those of all documents, each under its file and line."""
    return [
        pytest.param(
            each[1], id=f"{name_of(path)}:{each.string.count(chr(10), 0, each.start()) + 1}"
        )
        for path in DOCUMENTS
        for each in fenced(path, language)
    ]


CONSOLES = [
    pytest.param(path, number, id=f"{name_of(path)}:{number + 1}")
    for path in DOCUMENTS
    for number, _ in enumerate(fenced(path, "console"))
]


def shortened(text: str) -> str:
    for long, short in SHORTER.items():
        text = re.sub(long, short, text)
    return text


def furnish(folder: Path) -> dict[str, str]:
    """The environment of someone who follows the README: a folder with data, and the command."""
    nouns = {"cat": "chat", "dog": "chien", "house": "maison", "bird": "oiseau"}
    verbs = {"sees": "voit", "likes": "aime", "hears": "entend"}
    clauses = list(product(nouns, verbs, nouns))
    english = [f"The {a} {verb} the {b}.\n" for a, verb, b in clauses]
    french = [f"{nouns[a]} {verbs[verb]} {nouns[b]}.\n" for a, verb, b in clauses]
    for split, size in {"train": len(clauses), "dev": 4}.items():
        (folder / f"{split}.en").write_text("".join(english[:size]), "utf-8")
        (folder / f"{split}.fr").write_text("".join(french[:size]), "utf-8")
    for name in ("book.txt", "book-dev.txt"):
        (folder / name).write_text("Once upon a time " + "".join(english), "utf-8")

    command = folder / "bin" / "saccade"
    command.parent.mkdir()
    start = "import sys; from saccade.cli import main; sys.exit(main())"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{start}" "$@"\n', "utf-8")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return {
        **os.environ,
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(SOURCE.parent),
        "OMP_NUM_THREADS": "1",
        "SACCADE_QUICK": "1",
    }


@pytest.fixture
def reader(tmp_path: Path) -> Iterator[dict[str, str]]:
    """One who reads a single block."""
    yield furnish(tmp_path)
    shutil.rmtree(tmp_path, ignore_errors=True)  # runs are large, and pytest keeps three


@dataclass
class Session:
    """One who reads on, and has still what an earlier block of the document made."""

    folder: Path
    environment: dict[str, str]
    blocks: Iterator[tuple[int, str]]
    done: int = -1

    def read_to(self, number: int) -> None:
        while self.done < number:
            self.done, block = next(self.blocks)
            commands = [line[2:] for line in block.splitlines() if line.startswith("$ ")]
            assert commands, "a console block shows commands after '$ '"
            for command in commands:
                run(["/bin/sh", "-c", shortened(command)], self.environment, self.folder)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Path], Session]]:
    """By document."""
    opened: dict[Path, Session] = {}

    def find(path: Path) -> Session:
        if path not in opened:
            folder = tmp_path_factory.mktemp("session")
            shown = enumerate(each[1] for each in fenced(path, "console"))
            opened[path] = Session(folder, furnish(folder), shown)
        return opened[path]

    yield find
    for session in opened.values():
        shutil.rmtree(session.folder, ignore_errors=True)


def run(command: list[str], environment: dict[str, str], folder: Path) -> str:
    """The standard output of a command that has to succeed."""
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


# --- what runs ---------------------------------------------------------------------------------


@pytest.mark.serial
@pytest.mark.parametrize("source", blocks("python"))
def test_python_blocks_run(source: str, reader: dict[str, str], tmp_path: Path) -> None:
    assert run([sys.executable, "-c", shortened(source)], reader, tmp_path)


@pytest.mark.serial
@pytest.mark.parametrize(("path", "number"), CONSOLES)
def test_console_blocks_run(path: Path, number: int, sessions: Callable[[Path], Session]) -> None:
    sessions(path).read_to(number)


@pytest.mark.serial
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_run(
    path: Path, reader: dict[str, str], tmp_path: Path, data_file: Callable[[str], Path]
) -> None:
    if path.name in NEEDS:
        data_file(NEEDS[path.name])
    printed = run([sys.executable, str(path)], reader, tmp_path)
    for numbers in PRINTED[path.name]:
        assert numbers in printed


@pytest.mark.parametrize("source", blocks("toml"))
def test_toml_blocks_are_configs(source: str) -> None:
    from saccade.training.settings import resolve

    config = tomllib.loads(source)
    settings = resolve({**config, "task": {"name": "translate", **config["task"]}})
    assert settings.train.minutes == config["train"]["minutes"]


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.name)
def test_experiments_are_configs_that_say_how_to_run_them(path: Path) -> None:
    from saccade.training.settings import resolve

    text = path.read_text("utf-8")
    train = resolve(tomllib.loads(text)).train
    assert train.minutes or train.steps
    if (script := path.with_name("run.py")).exists():  # it is a part of what that runs
        assert f"\n#   python {name_of(script)} --target " in text
        return
    assert f"saccade train --config {name_of(path)} " in text
    assert "saccade eval runs/" in text


ARC = [sys.executable, str(PROJECT / "experiments" / "arc-shakespeare" / "run.py"), "--only"]


@pytest.mark.serial
def test_the_arc_from_chains_to_networks_prints_a_table_and_goes_on(
    reader: dict[str, str], tmp_path: Path, data_file: Callable[[str], Path]
) -> None:
    data_file("tinyshakespeare/train.txt.gz")
    command = [*ARC, "Markov 1", "GPT"]
    header, chain, gpt = run(command, reader, tmp_path).splitlines()
    assert header.split() == ["bits/char", "parameters", "seconds"]
    assert float(chain.split()[2]) < float(gpt.split()[1])  # after two updates
    assert run(command, reader, tmp_path).splitlines()[1:] == [chain, gpt]  # nothing done twice


@pytest.mark.slow
@pytest.mark.serial
def test_the_arc_ends_with_the_loss_by_place(
    reader: dict[str, str], tmp_path: Path, data_file: Callable[[str], Path]
) -> None:
    data_file("tinyshakespeare/train.txt.gz")
    _, gpt, xl, *rows = run([*ARC, "GPT", "Transformer-XL"], reader, tmp_path).splitlines()
    assert ("(no reason known)" in xl) == (float(xl.split()[1]) >= float(gpt.split()[1]))
    places = re.compile(r"(\S+) +loss \d\.\d{3} at the first 16 places, \d\.\d{3} at the others")
    assert [places.fullmatch(row)[1] for row in rows] == ["GPT", "Transformer-XL"]
    (chart,) = tmp_path.rglob("loss-by-place.svg")
    assert "Transformer-XL" in chart.read_text("utf-8")


@pytest.mark.serial
def test_the_verbs_of_the_readme_answer(reader: dict[str, str], tmp_path: Path) -> None:
    verbs = dict.fromkeys(re.findall(r"`saccade ([a-z]+)", README.read_text("utf-8")))
    assert len(verbs) >= 7
    for verb in verbs:
        assert verb in run(["saccade", verb, "--help"], reader, tmp_path)


def test_targets_named_in_documents_are_in_the_makefile() -> None:
    named = {
        target
        for path in DOCUMENTS
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", path.read_text("utf-8"), re.MULTILINE)
    }
    assert {"demo", "setup", "test"} <= named
    rules = re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert named <= set(rules)


# --- what is there -----------------------------------------------------------------------------


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text("utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_the_readme_says_where_every_part_of_the_source_is() -> None:
    section = README.read_text("utf-8").split("## Where to find things")[1]
    parts = [
        path for path in SOURCE.iterdir() if path.name[0] not in "_." and path.suffix != ".typed"
    ]
    names = [f"src/saccade/{part.name}/" if part.is_dir() else part.name for part in parts]
    assert len(names) > 10
    assert [name for name in names if name not in section] == []


def test_what_the_readme_says_is_there_is_there() -> None:
    section = README.read_text("utf-8").split("## Where to find things")[1]
    places = re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)
    assert len(places) > 10
    assert [place for place in places if not (PROJECT / place).exists()] == []


def test_the_changelog_knows_this_version() -> None:
    assert f"## [{saccade.__version__}]" in (PROJECT / "CHANGELOG.md").read_text("utf-8")


def test_decisions_are_numbered_listed_and_complete() -> None:
    index = (PROJECT / "docs" / "decisions" / "README.md").read_text("utf-8")
    assert [int(path.name[:4]) for path in RECORDS] == list(range(1, len(RECORDS) + 1))
    for path in RECORDS:
        text = path.read_text("utf-8")
        assert path.name in index
        assert text.startswith(f"# {path.name[:4]} ")
        for part in ("Context", "Decision", "Consequences"):
            assert f"**{part}.**" in text, f"{path.name} has no {part}"


MACHINE = re.compile(r"(?<![\w.])/(?:home|root|Users|work|mnt|opt|tmp|srv)/\w|file://")
REGISTRY = re.compile(r"pypi\.org|pythonhosted\.org|download\.pytorch\.org|anaconda\.")


@pytest.mark.parametrize("path", [*DOCUMENTS, *EXAMPLES, *SETUP_FILES], ids=name_of)
def test_no_document_names_a_machine_or_a_registry(path: Path) -> None:
    lines = path.read_text("utf-8").splitlines()
    assert [line for line in lines if MACHINE.search(line) or REGISTRY.search(line)] == []


def test_the_search_for_machines_and_registries_finds_them() -> None:
    folder = "/".join(["", "home", "me"])  # in one piece it would be a path of a machine
    assert MACHINE.search(f"see {folder}/data")
    assert not MACHINE.search("runs/home/me, ../shared/data, https://a.org/work/x")
    assert REGISTRY.search("pip install --index-url https://download.pytorch.org/whl/cpu")
