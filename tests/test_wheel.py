"""The built wheel: what is in it, what it asks for, and that it works when installed alone."""

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from children import quick_seconds, seconds_of_children

from saccade.cli import VERBS

PROJECT = Path(__file__).parents[1]
SOURCE = PROJECT / "src"
METADATA = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]


def run(*command: object) -> str:
    """The standard output of a command that has to succeed, run away from the checkout."""
    hidden = ("PYTHONPATH", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    done = subprocess.run(
        [str(part) for part in command],
        capture_output=True, text=True, env=environment, cwd=Path(sys.prefix), timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, PROJECT)
    (built,) = out.glob("*.whl")
    return built


def check_installed(environment: Path) -> None:
    """The command answers for every verb, and it is the wheel that answers."""
    command = environment / "bin" / "saccade"
    place = run(environment / "bin" / "python", "-c", "import saccade; print(saccade.__file__)")
    assert Path(place).is_relative_to(environment)
    summary = run(command, "--help")
    for verb in VERBS:
        assert verb in summary
        assert verb in run(command, verb, "--help")


def distribution(requirement: str) -> str:
    """The name in a requirement such as "torch>=2.10", as package indexes compare names."""
    return re.sub(r"[-_.]+", "-", re.split(r"[<>=!~\[; ]", requirement)[0]).lower()


@pytest.mark.serial
def test_it_holds_the_source_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    about = [name for name in names if name.split("/")[0].endswith(".dist-info")]
    files = [path for path in (SOURCE / "saccade").rglob("*") if path.is_file()]
    expected = {
        path.relative_to(SOURCE).as_posix() for path in files if "__pycache__" not in path.parts
    }
    assert "saccade/py.typed" in expected
    assert set(names) - set(about) == expected
    assert any(name.endswith("licenses/LICENSE") for name in about)


@pytest.mark.serial
def test_it_asks_for_a_lower_bound_of_torch_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("dist-info/METADATA")]
        metadata = archive.read(name).decode()
    assert re.findall(r"^Requires-Dist: torch(.*)$", metadata, re.MULTILINE) == [">=2.10"]


@pytest.mark.serial
def test_installed_beside_the_test_environment_it_answers(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin" / "python"
    run(
        sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps",
        "--no-index", wheel,
    )  # fmt: skip
    # The libraries are found, this checkout is not: .pth files in a folder so added do not count.
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(f"{_site_packages()}\n", "utf-8")
    check_installed(environment)

    command, times = environment / "bin" / "saccade", []
    for _ in range(3):
        before = seconds_of_children()
        run(command, "--help")
        times.append(seconds_of_children() - before)
    assert min(times) < quick_seconds(), "a heavy import when only help was asked for"


def _site_packages() -> Path:
    return next(Path(place) for place in sys.path if (Path(place) / "torch").is_dir())


@pytest.mark.slow
@pytest.mark.serial
def test_installed_alone_it_answers(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    run(sys.executable, "-m", "venv", environment)
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "-c", PROJECT / "constraints.txt", wheel)
    run(python, "-m", "pip", "check")
    check_installed(environment)


def test_all_that_the_source_imports_is_declared() -> None:
    optional = METADATA["optional-dependencies"]
    extras = [need for name in ("parquet", "serve", "tensorboard") for need in optional[name]]
    asked_for = [*METADATA["dependencies"], *extras]
    declared = {distribution(requirement) for requirement in asked_for}
    known = packages_distributions()
    for path in (SOURCE / "saccade").rglob("*.py"):
        for package in imported_packages(path) - sys.stdlib_module_names - {"saccade"}:
            owners = {distribution(name) for name in known.get(package, [package])}
            # pydantic_core comes with pydantic and by its exact version.
            owners |= {owner.removesuffix("-core") for owner in owners}
            if "starlette" in owners:  # FastAPI is made of it
                owners.add("fastapi")
            assert owners & declared, f"{path.name} imports {package}, which is not declared"


def imported_packages(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    plain = [a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names]
    parts = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {name.split(".")[0] for name in [*plain, *parts]}
