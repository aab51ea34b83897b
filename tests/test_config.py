"""Configs: layers, strict dataclasses, and messages that name the key and say what to do."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator

from saccade.config import build, dump_toml, find, merge, override, part, read_toml, unbuild
from saccade.errors import InputError


@dataclass(frozen=True, kw_only=True, slots=True)
class Inner:
    heads: int = 8
    rate: float = 1e-3


@dataclass(frozen=True, kw_only=True, slots=True)
class Model:
    vocab_size: int
    dim: int = 512
    heads: int = 8
    dropout: float = 0.1
    tied: bool = True
    cell: Literal["rnn", "lstm", "gru"] = "lstm"
    score: str | dict[str, Any] = "dot"
    files: tuple[str, ...] = ()
    folder: Path | None = None
    clip: float | None = None
    inner: Inner | None = None
    stack: tuple[Inner, ...] = ()

    def __post_init__(self) -> None:
        if self.dim % self.heads:
            raise InputError(f"dim {self.dim} is not a multiple of heads {self.heads}")


def message(values: object, where: str = "model") -> str:
    with pytest.raises(InputError) as caught:
        build(Model, values, where)
    return str(caught.value)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"head": 4}, "unknown key 'model.head'; did you mean 'model.heads'?"),
        ({"zzz": 4}, "unknown key 'model.zzz'; known: vocab_size, dim"),
        (
            {"inner": {"head": 4}},
            "unknown key 'model.inner.head'; did you mean 'model.inner.heads'?",
        ),
        (
            {"stack": [{}, {"head": 4}]},
            "unknown key 'model.stack.1.head'; did you mean 'model.stack.1.heads'?",
        ),
        ({"dim": "512"}, "model.dim = '512'; expected an integer"),
        ({"dim": True}, "model.dim = True; expected an integer"),
        ({"dim": 512.0}, "model.dim = 512.0; expected an integer"),
        ({"dropout": "0.1"}, "model.dropout = '0.1'; expected a number"),
        ({"dropout": True}, "model.dropout = True; expected a number"),
        ({"dropout": float("nan")}, "model.dropout = nan; expected a finite number"),
        ({"tied": "True"}, "model.tied = 'True'; expected true or false"),
        ({"tied": 1}, "model.tied = 1; expected true or false"),
        ({"cell": "lstn"}, "model.cell = 'lstn'; expected 'rnn', 'lstm' or 'gru'"),
        ({"score": 3}, "model.score = 3; expected a string or a table"),
        ({"files": "one"}, "model.files = 'one'; expected a list"),
        ({"files": ["a", 2]}, "model.files.1 = 2; expected a string"),
        ({"inner": 3}, "model.inner = 3; expected a table"),
        ({"inner": {"rate": "x"}}, "model.inner.rate = 'x'; expected a number"),
        ({"dim": 9}, "model.dim 9 is not a multiple of heads 8"),
        ({"cell": date(2020, 1, 2)}, "2020-01-02 is a date; put it in quotes"),
        ({"score": "\udcff"}, "model: holds text that is not Unicode"),
    ],
)
def test_a_mistake_is_named_with_its_place(values: dict[str, Any], expected: str) -> None:
    text = message({"vocab_size": 9, **values})
    assert text.startswith(expected) or (expected in text and "\n" not in text)


def test_missing_keys_are_named_and_unknown_ones_come_first() -> None:
    first, second = message({"vocab_sise": 9}).splitlines()
    assert first == "unknown key 'model.vocab_sise'; did you mean 'model.vocab_size'?"
    assert second == "missing key 'model.vocab_size'"
    assert message({}, "") == "missing key 'vocab_size'"


def test_a_section_that_is_no_table() -> None:
    assert message("gpt") == "model = 'gpt'; expected a table"


def _even(value: int) -> int:
    if value % 2:
        raise InputError("rate is odd")
    return value


@dataclass(frozen=True)
class Deep:
    layers: list[Inner] | None = None
    tables: dict[str, Inner] | None = None
    rate: Annotated[int, AfterValidator(_even)] = 2


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"layers": [{"head": 4}]}, "unknown key 'm.layers.0.head'; did you mean"),
        ({"tables": {"a": {"head": 4}}}, "unknown key 'm.tables.a.head'"),
        ({"rate": 3}, "m.rate: rate is odd"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_however_deep_its_table_lies(
    values: dict[str, Any], expected: str
) -> None:
    with pytest.raises(InputError) as caught:
        build(Deep, values, "m")
    assert str(caught.value).startswith(expected)


def test_an_int_is_a_fine_float_and_a_list_a_fine_tuple() -> None:
    model = build(Model, {"vocab_size": 9, "dropout": 0, "files": ["a"], "folder": "b"}, "model.")
    assert type(model.dropout) is float
    assert model.files == ("a",)
    assert model.folder == Path("b")
    assert type(model) is Model


def test_a_bug_in_a_dataclass_is_not_called_the_users_mistake() -> None:
    @dataclass(frozen=True)
    class Broken:
        def __post_init__(self) -> None:
            raise TypeError("a bug")

    with pytest.raises(TypeError, match="a bug"):
        build(Broken, {}, "model")


finite = st.floats(allow_nan=False, allow_infinity=False)
names = st.text(st.characters(exclude_categories=["Cs"]))
models = st.builds(
    Model,
    vocab_size=st.integers(),
    dropout=finite,
    tied=st.booleans(),
    score=names | st.dictionaries(names, finite | names | st.integers() | st.lists(names)),
    files=st.lists(names).map(tuple),
    clip=st.none() | finite,
    inner=st.none() | st.builds(Inner, heads=st.integers(), rate=finite),
    stack=st.lists(st.builds(Inner, rate=finite)).map(tuple),
)


@given(models)
def test_a_config_survives_its_file_exactly(tmp_path_factory: Any, model: Model) -> None:
    path = tmp_path_factory.mktemp("config") / "config.toml"
    path.write_bytes(dump_toml({"model": unbuild(model)}).encode())
    values = read_toml(path)
    assert values["model"] == unbuild(model)
    again = build(Model, values["model"], "model")
    assert repr(again) == repr(model)  # repr tells -0.0 from 0.0 and 1 from 1.0
    assert "None" not in dump_toml(values)


def test_unset_is_absent_and_a_loss_is_noticed() -> None:
    @dataclass(frozen=True)
    class Lossy:
        clip: float | None = 1.0

    assert "clip" not in unbuild(Model(vocab_size=3))
    with pytest.raises(AssertionError, match="clip"):
        unbuild(Lossy(clip=None))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"[model]\ndim = = 3\n", ":2: not valid TOML"),
        (b"[model]\n\nname = 'a", ":3: not valid TOML"),
        (b"[model]\nname = 'caf\xe9'\n", ":2: not UTF-8"),
        (b"a = " + b"[" * 100_000, ":1: not valid TOML"),
        (b"a = " + b"9" * 5000, ":1: not valid TOML"),
        (b"dim = 1\ndim = 2\n", ":2: not valid TOML"),
    ],
    ids=["syntax", "unfinished", "latin-1", "deep", "long number", "twice"],
)
def test_a_bad_file_is_named_with_its_line(tmp_path: Path, data: bytes, expected: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(data)
    with pytest.raises(InputError) as caught:
        read_toml(path)
    assert str(caught.value).startswith(f"{path}{expected}")


def test_a_missing_file_is_named_and_a_byte_order_mark_is_not_content(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.toml: cannot be read: No such file"):
        read_toml(tmp_path / "none.toml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_toml(tmp_path)
    (tmp_path / "bom.toml").write_bytes(b"\xef\xbb\xbfdim = 1\r\n")
    assert read_toml(tmp_path / "bom.toml") == {"dim": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("64", 64),
        ("1e-4", 1e-4),
        ("true", True),
        ("True", "True"),
        ("dot", "dot"),
        ("'64'", "64"),
        ("scaled-dot", "scaled-dot"),
        ("a=b", "a=b"),
        ("[1, 2]", [1, 2]),
        ("{name = 'gaussian', window = 3}", {"name": "gaussian", "window": 3}),
        ("data:multi30k/train.en.gz", "data:multi30k/train.en.gz"),
        ("1\nother = 2", "1\nother = 2"),
        ("", ""),
    ],
)
def test_set_takes_toml_or_else_a_string(text: str, value: Any) -> None:
    result = override({}, [f"model.score={text}"])
    assert result == {"model": {"score": value}}
    assert type(result["model"]["score"]) is type(value)


@pytest.mark.parametrize("text", ["", "=", "dim=3", "model.dim", "model.=3", ".dim=3", "a b.c=3"])
def test_a_malformed_set_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"is not section\.key=value"):
        override({}, [text])


def test_set_changes_nothing_but_what_it_names_and_leaves_its_input_alone() -> None:
    config = {"model": {"dim": 1, "score": {"name": "gaussian", "window": 3}}, "train": {"n": 1}}
    before = repr(config)
    after = override(config, ["model.dim=2", "model.score.window=5"])
    assert after == {
        "model": {"dim": 2, "score": {"name": "gaussian", "window": 5}},
        "train": {"n": 1},
    }
    after["train"]["n"] = 7
    after["model"]["score"]["window"] = 7
    assert repr(config) == before


def test_set_of_a_part_does_not_depend_on_the_order() -> None:
    config = {"model": {"score": {"name": "cosine", "scale": 2}}}
    words = ["model.score.window=3", "model.score.name=gaussian"]
    expected = {"model": {"score": {"name": "gaussian", "window": 3}}}
    assert override(config, words) == override(config, words[::-1]) == expected


gaussian = {"name": "gaussian", "window": 3}


@pytest.mark.parametrize(
    ("below", "above", "result"),
    [
        (gaussian, "dot", "dot"),
        ("dot", gaussian, gaussian),
        ("gaussian", {"window": 5}, {"name": "gaussian", "window": 5}),
        (gaussian, {"window": 5}, {"name": "gaussian", "window": 5}),
        (gaussian, {"name": "cosine"}, {"name": "cosine"}),
        (gaussian, {"name": "gaussian", "sigma": 1}, {**gaussian, "sigma": 1}),
        (3, gaussian, gaussian),
        (gaussian, 3, 3),
        ([1, 2], [3], [3]),
    ],
)
def test_a_part_over_a_part(below: Any, above: Any, result: Any) -> None:
    merged = merge({"model": {"score": below, "dim": 1}}, {"model": {"score": above}})
    assert merged == {"model": {"score": result, "dim": 1}}


def test_a_section_merges_even_when_its_name_changes() -> None:
    layers = [{"model": {"name": "gpt", "dim": 64}}, {"train": {"n": 1}}, {"model": {"name": "b"}}]
    assert merge(*layers) == {"model": {"name": "b", "dim": 64}, "train": {"n": 1}}


tables = st.recursive(
    st.integers() | st.sampled_from(["dot", "gaussian"]),
    lambda inner: st.dictionaries(st.sampled_from(["name", "a", "b"]), inner, max_size=3),
)
layers = st.dictionaries(st.sampled_from(["model", "train"]), tables, max_size=2)


@given(layers, layers)
def test_merging_keeps_what_is_above_and_adds_nothing_by_an_empty_layer(a: Any, b: Any) -> None:
    assert merge(a, {}) == merge({}, a) == merge(a, a) == a
    assert merge(merge(a, b), b) == merge(a, b)


def test_a_part_is_a_name_or_a_table() -> None:
    table = {"name": "gaussian", "window": 3}
    assert part("dot") == ("dot", {})
    assert part(table) == ("gaussian", {"window": 3})
    assert table == {"name": "gaussian", "window": 3}
    for wrong in (3, {}, {"name": 3}, {"window": 3}):
        with pytest.raises(InputError, match=r"model\.score = .*; expected a name, or a table"):
            part(wrong, "model.score")


class TestFind:
    table: Mapping[str, type] = MappingProxyType({"dot": int, "cosine": float})

    def test_a_name(self) -> None:
        assert find(self.table, "dot", what="score") is int
        with pytest.raises(InputError, match=r"unknown score 'cosin'; did you mean 'cosine'\?"):
            find(self.table, "cosin", what="score")

    @pytest.mark.parametrize("name", ["os:system", "saccade.errors:nearest", "mine.pyc:A", ":A"])
    def test_no_import_path(self, name: str) -> None:
        with pytest.raises(InputError, match="unknown score"):
            find(self.table, name, what="score", allow_code=True)

    def test_code_runs_only_when_allowed(self, tmp_path: Path) -> None:
        file = tmp_path / "mine.py"
        file.write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nclass Mine: pass\n")
        with pytest.raises(InputError, match="--allow-code"):
            find(self.table, f"{file}:Mine", what="score")
        assert not (tmp_path / "ran").exists()
        found = find(self.table, f"{file}:Mine", what="score", allow_code=True)
        assert (tmp_path / "ran").exists()
        assert found is find(self.table, f"{file}:Mine", what="score", allow_code=True)

    def test_a_users_file_may_import_its_neighbours(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "path", list(sys.path))
        (tmp_path / "its_neighbour.py").write_text("class Mine: pass")
        (tmp_path / "random.py").write_text("raise SystemExit")  # the library's comes first
        (tmp_path / "user.py").write_text("import random\nfrom its_neighbour import Mine")
        found = find(self.table, f"{tmp_path / 'user.py'}:Mine", what="score", allow_code=True)
        assert found.__name__ == "Mine"
        sys.modules.pop("its_neighbour")

    def test_a_users_file_hides_no_module(self, tmp_path: Path) -> None:
        import json

        (tmp_path / "json.py").write_text("class Mine: pass\n")
        find(self.table, f"{tmp_path / 'json.py'}:Mine", what="score", allow_code=True)
        assert sys.modules["json"] is json

    def test_a_users_dataclass_may_postpone_its_annotations(self, tmp_path: Path) -> None:
        (tmp_path / "mine.py").write_text(
            "from __future__ import annotations\n"
            "from dataclasses import dataclass\n"
            "@dataclass(frozen=True, kw_only=True, slots=True)\n"
            "class Config:\n    size: int\n    dim: int = 8\n"
        )
        cls = find({}, f"{tmp_path / 'mine.py'}:Config", what="model", allow_code=True)
        assert build(cls, {"size": 3}, "model").dim == 8

    @pytest.mark.parametrize(
        ("source", "name", "expected"),
        [
            (None, "Mine", "cannot be read: No such file"),
            ("class Mine: pass", "Mina", "did you mean 'Mine'?"),
            ("class Mine: pass", "", "has no ''"),
            ("1 / 0", "Mine", "running it failed: ZeroDivisionError"),
            ("def (", "Mine", "running it failed: SyntaxError"),
        ],
    )
    def test_a_bad_file_says_so(
        self, tmp_path: Path, source: str | None, name: str, expected: str
    ) -> None:
        file = tmp_path / "mine.py"
        if source is not None:
            file.write_text(source)
        with pytest.raises(InputError) as caught:
            find({}, f"{file}:{name}", what="model", allow_code=True)
        assert expected in str(caught.value)
        assert str(file) in str(caught.value)


def test_reading_a_config_needs_neither_torch_nor_pydantic() -> None:
    check = "import sys, saccade.config; print({'torch', 'pydantic', 'numpy'} & set(sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", check],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1] / "src")},
    )
    assert run.stdout == "set()\n", run.stderr
