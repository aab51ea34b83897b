"""One folder of theirs, and the run that is made of it."""

from pathlib import Path
from typing import Any

import pytest
from interop.tiny_gpt2 import write_folder

import saccade


@pytest.fixture(scope="session")
def their_folder(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder, and the model that was written to it."""
    folder = tmp_path_factory.mktemp("theirs") / "tiny-gpt2"
    return folder, write_folder(folder)


@pytest.fixture(scope="session")
def imported(their_folder: tuple[Path, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saccade.import_run(their_folder[0], tmp_path_factory.mktemp("ours") / "run").path
