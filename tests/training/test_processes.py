"""The processes that training and prediction start: what they import, and what they tell."""

from pathlib import Path

import pytest

from saccade.decoding.options import DecodeOptions
from saccade.errors import InputError
from saccade.training.pool import Loading, Pool, Work
from saccade.training.team import gather_team


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that appears if a module of the current folder, as of a downloaded run, is run."""
    (tmp_path / "json.py").write_text("open('ran', 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path / "ran"


@pytest.mark.serial
def test_workers_import_nothing_from_the_current_folder(trap: Path) -> None:
    workers = Pool(Path(), Work(DecodeOptions()), 1, Loading())
    try:
        with pytest.raises(InputError, match="not a saccade run"):
            workers.warm_up()
    finally:
        workers.close()
    assert not trap.exists()


@pytest.mark.serial
def test_ranks_import_nothing_from_the_current_folder(trap: Path) -> None:
    team = gather_team(2, 1, ["json.tool", "--help"])
    try:
        assert team.members[0].wait(timeout=60) == 0
    finally:
        team.disband()
    assert not trap.exists()
