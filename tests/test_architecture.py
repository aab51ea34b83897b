"""The dependency rule, the size budget and what no file may contain, as tests."""

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import saccade

SOURCE = Path(saccade.__file__).parent
PROJECT = Path(__file__).parents[1]
LAYERS = [  # foundation first; a layer imports only from earlier lines, never sideways
    {"errors", "randomness", "version"},
    {"config"},
    {"blocks", "data"},
    {"decoding"},
    {"models"},
    {"inspection"},
    {"tasks"},
    {"training"},
    {"interop"},
    {"serving"},
    {"cli"},
    {"__init__", "__main__"},
]
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
FILES = sorted(SOURCE.rglob("*.py"))
PUBLIC = ("__init__.py", "train")  # the flags of `saccade train`, which people know by name
NAMELESS = {"utils", "util", "helpers", "base", "common", "misc"}
PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
RUNS_CODE = {"eval", "exec", "torch.load", "torch.save"}
each_file = pytest.mark.parametrize("path", FILES, ids=lambda p: p.relative_to(SOURCE).as_posix())


def layer_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the full name of every import, such as (3, "saccade.blocks.masks.causal")."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: import by the full name, saccade..."
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)


def imported_layers(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The parts of saccade that are imported; all may name its version, a constant."""
    for line, name in imported(tree):
        package, *parts = name.split(".")
        if package == "saccade" and parts != ["__version__"]:
            yield line, parts[0] if parts and parts[0] in RANK else "__init__"


def ladder(node: ast.If) -> int:
    """How many rungs an if / elif / elif ... has."""
    match node.orelse:
        case [ast.If() as following] if following.col_offset == node.col_offset:
            return 1 + ladder(following)
    return 1


def forbidden(tree: ast.AST) -> Iterator[str]:
    """What would run code that came with data."""
    for line, name in imported(tree):
        if name.split(".")[0] in PICKLES:
            yield f"line {line}: {name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in RUNS_CODE:
            yield f"line {node.lineno}: {ast.unparse(node.func)}"


@each_file
def test_a_layer_imports_only_earlier_layers(path: Path) -> None:
    layer = layer_of(path)
    assert layer in RANK, f"{layer} is in no layer"
    for line, target in imported_layers(ast.parse(path.read_text("utf-8"))):
        allowed = target == layer or RANK[target] < RANK[layer]
        assert allowed, f"line {line}: {layer} must not import {target}"


@each_file
def test_a_file_stays_small(path: Path) -> None:
    text = path.read_text("utf-8")
    assert len(text.splitlines()) <= 400
    assert len(path.relative_to(SOURCE).parts) <= 2, "folders are one deep"
    assert path.stem not in NAMELESS, "name the thing"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = node.args.posonlyargs + node.args.args + node.args.kwonlyargs
            named = [a for a in arguments if a.arg not in ("self", "cls")]
            assert (node.end_lineno or 0) - node.lineno < 60, f"{node.name} is long"
            most = 24 if (path.name, node.name) == PUBLIC else 8
            assert len(named) <= most, f"{node.name} has {len(named)} arguments"
            assert node.args.kwarg is None, f"{node.name} hides its arguments in a **"
        if isinstance(node, ast.If):
            assert ladder(node) <= 3, f"line {node.lineno}: use a table"


@pytest.mark.parametrize("path", sorted(Path(__file__).parent.rglob("*.py")), ids=lambda p: p.name)
def test_a_file_of_tests_stays_small_too(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 400


@each_file
def test_no_file_runs_what_it_reads(path: Path) -> None:
    assert list(forbidden(ast.parse(path.read_text("utf-8")))) == []


# Who may call what by itself. `swift` looks at one source without a mask, which a test holds equal.
ONLY_IN = {
    "tril": {"blocks/masks.py"},
    "triu": {"blocks/masks.py"},
    "softmax": {"blocks/masks.py", "blocks/swift.py", "decoding/sampling.py"},
    "torch.manual_seed": {"randomness.py", "blocks/dropout.py"},
}


def misplaced(tree: ast.AST, place: str) -> Iterator[str]:
    for node in ast.walk(tree):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        for name, places in ONLY_IN.items():
            if (called == name or called.endswith("." + name)) and place not in places:
                yield f"line {node.lineno}: {called}"  # type: ignore[attr-defined]


@each_file
def test_masks_are_made_and_applied_and_torch_is_seeded_in_one_place(path: Path) -> None:
    place = path.relative_to(SOURCE).as_posix()
    assert list(misplaced(ast.parse(path.read_text("utf-8")), place)) == []


@pytest.mark.parametrize(
    "source",
    ["x.tril(1)", "torch.triu(x)", "F.softmax(x, 1)", "x.softmax(-1)", "torch.manual_seed(1)"],
)
def test_the_search_for_what_is_misplaced_finds_it(source: str) -> None:
    assert len(list(misplaced(ast.parse(source), "models/gpt.py"))) == 1
    assert not list(misplaced(ast.parse("masked_softmax(x); g.manual_seed(1)"), "models/gpt.py"))


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from pickle import loads",
        "def f():\n    import dill.source",
        "torch.load(path)",
        "x = eval('1')",
        "exec(code)",
    ],
)
def test_the_search_for_running_code_finds_it(source: str) -> None:
    assert len(list(forbidden(ast.parse(source)))) == 1


def test_the_search_for_imports_and_ladders_finds_them() -> None:
    tree = ast.parse(
        "def f():\n    from saccade.cli import x\n"
        "import saccade.data.readers\nfrom saccade import errors, train, __version__"
    )
    assert sorted(imported_layers(tree)) == [
        (2, "cli"),
        (3, "data"),
        (4, "__init__"),
        (4, "errors"),
    ]
    four = ast.parse("if a: 1\nelif b: 2\nelif c: 3\nelif d: 4").body[0]
    nested = ast.parse("if a: 1\nelse:\n    if b: 2\n    elif c: 3\n    elif d: 4").body[0]
    assert isinstance(four, ast.If)
    assert isinstance(nested, ast.If)
    assert (ladder(four), ladder(nested)) == (4, 1)


def test_importing_saccade_imports_no_torch() -> None:
    check = "import sys, saccade, saccade.config, saccade.errors; print('torch' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", check],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE.parent)},
    )
    assert run.stdout == "False\n", run.stderr


def tracked_files() -> list[Path]:
    git = subprocess.run(["git", "-C", str(PROJECT), "ls-files", "-z"], capture_output=True)
    if git.returncode:
        pytest.skip("not a git checkout")
    paths = [PROJECT / name for name in git.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def test_no_tracked_file_names_a_path_of_one_machine() -> None:
    machine = re.compile(rb"(?<![\w.])/(?:home|root|Users|work|mnt)/\w")
    found = []
    for path in tracked_files():
        for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
            if machine.search(line):
                found.append(f"{path.relative_to(PROJECT)}:{number}: {line.strip()[:80]!r}")
    assert found == []


def test_every_test_file_has_a_name_of_its_own() -> None:
    """Without packages, two modules of one name cannot be collected together."""
    names = [path.name for path in Path(__file__).parent.rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))
