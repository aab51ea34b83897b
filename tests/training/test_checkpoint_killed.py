"""A checkpoint is there whole or not at all: killed or starved of disk at any moment."""

import errno
import io
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from training.checkpoint_samples import fail, make, same

from saccade.errors import TrainingError
from saccade.training import checkpoint as module
from saccade.training.checkpoint import (
    Checkpoint,
    load_latest,
    prune,
    save,
    steps,
    verify,
    write_file,
)

# --- killed ------------------------------------------------------------------------------------


class Killer:
    """Counts the moments at which the disk changes, and acts at one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[], None], at: int) -> None:
        self.seen: list[tuple[str, str]] = []
        self.act, self.at = act, at
        self.open = Path.open
        for name in ("fsync", "rename", "replace", "mkdir", "unlink", "rmdir"):
            monkeypatch.setattr(os, name, self.wrap(name, getattr(os, name)))

        def opened(path: Path, mode: str) -> Any:  # a function, so that it binds as a method
            return self.open_file(path, mode)

        monkeypatch.setattr(Path, "open", opened)

    def wrap(self, name: str, function: Any) -> Any:
        def wrapped(target: Any, *others: Any, **options: Any) -> Any:
            self.moment(name, target)
            result = function(target, *others, **options)
            self.moment(f"after {name}", target)
            return result

        return wrapped

    def moment(self, name: str, target: Any) -> None:
        path = Path(f"/proc/self/fd/{target}").readlink() if isinstance(target, int) else target
        self.seen.append((name, Path(path).name))
        if len(self.seen) == self.at:
            self.act()

    def open_file(self, path: Path, mode: str) -> Any:
        if mode != "wb":
            return self.open(path, mode)
        self.moment("open", path)
        return Halves(path, self.moment)


class Halves(io.FileIO):
    """A file whose every write can be interrupted half-way."""

    def __init__(self, path: Path, moment: Callable[[str, Path], None]) -> None:
        super().__init__(path, "wb")
        self.moment, self.path = moment, path

    def write(self, data: Any) -> int:
        middle = len(data) // 2
        super().write(data[:middle])
        self.moment("write", self.path)
        return middle + super().write(data[middle:])


def in_a_child(work: Callable[[], None]) -> int:
    """Run in a forked process, so that it can be killed: its exit code."""
    child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def kill_at_every_moment(before: Path, work: Callable[[Path], Any]) -> list[Path]:
    """Copies of a folder on which `work` was killed at its first moment, its second, ..., never."""
    left: list[Path] = []
    while True:
        place = before.with_name(f"{before.name}-{len(left) + 1}")
        shutil.copytree(before, place)

        def doomed(place: Path = place, at: int = len(left) + 1) -> None:
            with pytest.MonkeyPatch.context() as monkeypatch:
                Killer(monkeypatch, lambda: os._exit(9), at)
                work(place)

        code = in_a_child(doomed)
        assert code in (0, 9)
        left.append(place)
        if code == 0:
            return left


@pytest.mark.serial
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # fork, from Python 3.12
@pytest.mark.parametrize(
    ("old", "new"),
    [(make(1), make(2)), (make(2), make(2, 0.25)), (None, make(1))],
    ids=["the next", "the same again", "the first"],
)
def test_killed_at_any_moment(tmp_path: Path, old: Checkpoint | None, new: Checkpoint) -> None:
    before = tmp_path / "before"
    before.mkdir()
    if old:
        save(before, old)
    left = kill_at_every_moment(before, lambda place: save(place, new))
    assert len(left) > 20
    found = []
    for place in left:
        latest = load_latest(place, fail)  # and no word of warning
        found.append(same(latest, new))
        assert found[-1] or (latest is None if old is None else same(latest, old))
        save(place, make(3))
        assert same(load_latest(place, fail), make(3))
        assert not [p for p in place.iterdir() if p.name.startswith(".")]
    assert found == sorted(found)  # old, old, ..., new, new
    assert not found[0]
    assert found[-1]


@pytest.mark.serial
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_single_file_killed_at_any_moment(tmp_path: Path) -> None:
    before = tmp_path / "before"
    before.mkdir()
    (before / "config.toml").write_bytes(b"old" * 1000)
    left = kill_at_every_moment(
        before, lambda place: write_file(place / "config.toml", b"new" * 1000)
    )
    assert len(left) > 5
    seen = {(place / "config.toml").read_bytes() for place in left}
    assert seen == {b"old" * 1000, b"new" * 1000}


@pytest.mark.serial
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_pruning_killed_at_any_moment(tmp_path: Path) -> None:
    before = tmp_path / "before"
    for step in (1, 2, 3, 4):
        save(before, make(step))
    for place in kill_at_every_moment(before, lambda place: prune(place, 2, ())):
        assert {3, 4} <= set(steps(place))
        for step in steps(place):
            verify(place / f"step-{step:08d}")


def test_all_is_on_the_disk_before_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killer = Killer(monkeypatch, lambda: None, -1)
    save(tmp_path, make(1))
    fresh = f".tmp-{os.getpid()}-step-00000001"
    renamed = killer.seen.index(("rename", fresh))
    before = [name for what, name in killer.seen[:renamed] if what == "after fsync"]
    assert before[-2:] == ["manifest.json", fresh]
    assert sorted(before[:-2]) == ["model.safetensors", "optimizer.safetensors", "state.json"]
    assert ("after fsync", tmp_path.name) in killer.seen[renamed:]


@pytest.mark.serial
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_only_the_leftovers_of_the_dead_are_removed(tmp_path: Path) -> None:
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    os.waitpid(dead, 0)
    for name in (f".tmp-{dead}-step-00000001", f".tmp-{os.getppid()}-step-00000001", ".tmp-mine"):
        (tmp_path / name).mkdir()
    save(tmp_path, make(2))
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {f".tmp-{os.getppid()}-step-00000001", ".tmp-mine", "step-00000002"}


# --- starved -----------------------------------------------------------------------------------


def test_a_full_disk_at_any_moment_leaves_the_previous_intact(tmp_path: Path) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    failures = []
    for at in range(1, 200):
        save(tmp_path, make(1))
        with pytest.MonkeyPatch.context() as monkeypatch:
            killer = Killer(monkeypatch, full, at)
            try:
                save(tmp_path, make(2))
            except TrainingError as error:
                failures.append(str(error))
        latest = load_latest(tmp_path, fail)
        assert same(latest, make(1)) or same(latest, make(2))
        assert not list(tmp_path.glob(".tmp-*"))
        shutil.rmtree(tmp_path / "step-00000002", ignore_errors=True)
        if len(killer.seen) < at:
            break
    assert len(failures) > 15
    assert all("No space left on device" in text and "intact" in text for text in failures)


def test_too_little_space_is_seen_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path, make(1))
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    monkeypatch.setattr(module, "write_durably", lambda *_: pytest.fail("written"))
    with pytest.raises(TrainingError, match="make room"):
        save(tmp_path, make(2))
    assert steps(tmp_path) == [1]


def test_write_file_on_a_full_disk_keeps_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "README.md"
    write_file(path, b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(TrainingError, match=r"README\.md: .*No space left"):
        write_file(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
