"""Columns are those of a run's tables; its plain files have none, and a run without tables too."""

from pathlib import Path
from typing import Any

import pytest

from saccade.data.tokenizers import train_tokenizer
from saccade.errors import InputError
from saccade.tasks.generate import Generate
from saccade.tasks.translate import Translate

BYTES = train_tokenizer("bytes", ["a"], 300)
TASKS = {
    "generate": (Generate, ("text",), ["p.txt"]),
    "translate": (Translate, ("source", "target"), ["p.en", "p.de"]),
}


@pytest.fixture(params=TASKS)
def made(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """How to make the task of these sets, each a table or plain files."""
    monkeypatch.chdir(tmp_path)
    task, columns, plain = TASKS[request.param]
    for file in plain:
        Path(file).write_text("a\n")
    Path("t.csv").write_text(f"{','.join(columns)}\n{','.join('a' * len(columns))}\n")
    files = {"table": ["t.csv"], "plain": plain}

    def make(train: str, dev: str) -> Any:
        config = task.Config(train=files[train], dev=files[dev], columns=columns)
        return task(config, *[BYTES] * len(plain))

    return make


@pytest.mark.parametrize("sets", [("table", "table"), ("table", "plain"), ("plain", "table")])
def test_plain_files_beside_tables_have_no_columns(made: Any, sets: tuple[str, str]) -> None:
    assert made(*sets).fingerprints().keys() == {"train", "dev"}


def test_columns_without_any_table_are_refused(made: Any) -> None:
    with pytest.raises(InputError, match=r"--columns .* there are none in p"):
        made("plain", "plain").fingerprints()
