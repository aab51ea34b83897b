"""An environment for JoeyNMT alone: it asks for packages older than ours.

JoeyNMT is installed without what it declares (protobuf before 3.21, and a linter, a formatter and
pytest besides), and with what its trainer imports, in our versions: the same torch above all.
"""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

from competitors import HERE, say

FOLDER = HERE / ".peers" / "joeynmt"
REQUIREMENT = "joeynmt==2.3.0"
OURS = ("torch", "numpy", "sacrebleu", "matplotlib")  # in the versions that saccade runs with
OTHERS = (
    "importlib_metadata", "packaging", "pyyaml", "sentencepiece", "setuptools", "subword-nmt",
    "tensorboard", "tqdm",
)  # fmt: skip


def joeynmt_python() -> str:
    """Its interpreter; the first call makes the environment, which takes a few minutes."""
    made, python = FOLDER / ".made", FOLDER / "bin" / "python"
    if not made.exists():
        say(f"installing {REQUIREMENT} into {FOLDER}, once")
        _run(sys.executable, "-m", "venv", "--clear", str(FOLDER))
        pip = (str(python), "-m", "pip", "--disable-pip-version-check", "install", "--quiet")
        _run(*pip, *(f"{name}=={_version(name)}" for name in OURS), *OTHERS)
        _run(*pip, "--no-deps", REQUIREMENT)
        _run(str(python), "-c", "import joeynmt.training")
        made.touch()
    return str(python)


def _version(package: str) -> str:
    """Without the build (+cpu): an index may call it otherwise."""
    return importlib.metadata.version(package).partition("+")[0]


def _run(*command: str) -> None:
    found = subprocess.run(command, check=False, stdout=sys.stderr)
    if found.returncode:
        raise SystemExit(f"{Path(command[0]).name} {' '.join(command[1:])} failed, see above")
