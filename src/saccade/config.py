"""TOML to dataclasses, strictly; a part is a name in a table, or the user's own "file.py:Class".

Precedence is the order in which layers are merged: default < preset < file < `--set` < flag.
"""

import hashlib
import importlib.util
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_type_hints

from saccade.errors import InputError, Terminated, nearest

if TYPE_CHECKING:
    from pydantic import TypeAdapter
    from pydantic_core import ErrorDetails

T = TypeVar("T")

EXPECTED = {  # what pydantic calls it -> what someone who writes TOML calls it
    "bool_type": "true or false",
    "dataclass_type": "a table",
    "dict_type": "a table",
    "float_type": "a number",
    "int_type": "an integer",
    "list_type": "a list",
    "string_type": "a string",
    "tuple_type": "a list",
}


# --- files -------------------------------------------------------------------------------------


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; what is wrong with it is named with its line."""
    try:
        data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")
        return tomllib.loads(data.decode("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}:{line}: not UTF-8 ({error.reason}); save it as UTF-8") from None
    except (ValueError, RecursionError) as error:  # tomllib lets both through besides its own
        line = _line_of(str(error), data)
        raise InputError(f"{path}:{line}: not valid TOML: {error}") from None


def _line_of(message: str, data: bytes) -> int:
    """The line a TOML error speaks of: `at line 3`, else the end of the document."""
    found = re.search(r"at line (\d+)", message)
    return int(found[1]) if found else max(1, len(data.splitlines()))


def dump_toml(config: Mapping[str, Any]) -> str:
    """The text of a TOML file that reads back as the same values, floats to the last bit."""
    import tomli_w

    return tomli_w.dumps(config)


# --- layers ------------------------------------------------------------------------------------


def merge(*layers: Mapping[str, Any]) -> dict[str, Any]:
    """One config out of several, later ones win, key by key.

    Sections (`[model]`) always merge. Inside them a table may be a part, so its name decides: a
    table without a name refines the part that is there, be it a name or a table (`window = 3`
    over `"gaussian"`); a table with another name starts anew, since the parameters of the old
    part mean nothing to it. A name replaces whatever was there.
    """
    merged: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.items():
            below = merged.get(key)
            both = isinstance(value, Mapping) and isinstance(below, Mapping)
            merged[key] = _merge_tables(below, value) if both else _plain(value)
    return merged


def _refine(below: Any, above: Any) -> Any:
    """One value of a section over another; see `merge`."""
    if not isinstance(above, Mapping):
        return _plain(above)
    if isinstance(below, str):
        below = {"name": below}
    if not isinstance(below, Mapping):
        return _plain(above)
    anew = "name" in above and "name" in below and above["name"] != below["name"]
    return _plain(above) if anew else _merge_tables(below, above)


def _merge_tables(below: Any, above: Mapping[str, Any]) -> dict[str, Any]:
    shared = {key: _refine(below[key], above[key]) for key in below.keys() & above.keys()}
    return {**_plain(below), **_plain(above), **shared}


def _plain(value: Any) -> Any:
    """A copy made of dicts and lists alone, so that no layer shares a table with the result."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def override(config: Mapping[str, Any], assignments: Sequence[str]) -> dict[str, Any]:
    """The config with `section.key=value` applied; a value that is not TOML is a string."""
    # Merged among themselves first: `score.window=3 score.name=gaussian` works in either order.
    return merge(config, merge(*map(_assignment, assignments)))


def _assignment(text: str) -> dict[str, Any]:
    path, equals, value = text.partition("=")
    keys = path.strip().split(".")
    if not equals or len(keys) < 2 or not all(re.fullmatch(r"[\w-]+", key) for key in keys):
        raise InputError(f"--set {text!r} is not section.key=value, such as model.dim=256")
    nested: Any = _toml_value(value.strip())
    for key in reversed(keys):
        nested = {key: nested}
    return nested


def _toml_value(text: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return parsed["value"] if parsed.keys() == {"value"} else text  # a newline began another key


# --- dataclasses -------------------------------------------------------------------------------


def build(cls: type[T], values: object, where: str, given: Iterable[str] = ()) -> T:
    """The dataclass from a table of plain values; every mistake is named, one a line.

    `given` are the keys that nobody sets, and that nobody is told of.
    """
    from pydantic import ValidationError

    where = where.rstrip(".")
    try:
        text = json.dumps({"": values}, default=_as_json)
    except (TypeError, RecursionError) as error:
        raise InputError(f"{where}: {error}") from None
    try:
        # Strict JSON is the strictness meant here: a list may be a tuple and an int a float,
        # but "512" is no int, and neither is true.
        return _validator(cls).validate_json(text)[""]  # type: ignore[arg-type]  # cls is hashable
    except ValidationError as error:
        raise InputError(_mistakes(error.errors(), cls, values, where, set(given))) from None


@lru_cache(maxsize=256)
def _validator(cls: type[T]) -> "TypeAdapter[dict[str, T]]":
    """Validates {"": values}: within another type a plain dataclass takes the config given here."""
    from pydantic import ConfigDict, TypeAdapter

    config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)
    return TypeAdapter(dict[str, cls], config=config)  # type: ignore[valid-type]


def _as_json(value: object) -> str:
    if isinstance(value, PurePath):
        return str(value)
    raise TypeError(f"{value} is a {type(value).__name__}; put it in quotes to make it a string")


def _mistakes(
    errors: Iterable["ErrorDetails"], cls: type, values: object, where: str, given: set[str]
) -> str:
    """A line for each value that is wrong, unknown keys first: they often explain a missing one."""
    unknown: list[str] = []
    known: list[str] = []
    expected: dict[str, list[str]] = {}  # the branches of a union complain one by one
    for error in errors:
        keys, value = _locate(error, values)
        path = _dotted(where, *keys)
        match error["type"]:
            case "unexpected_keyword_argument":
                *outer, last = keys
                names = [name for name in _field_names(cls, outer) if name not in given]
                hint = nearest(str(last), names, path.removesuffix(str(last)))
                unknown.append(f"unknown key {path!r}; {hint}")
            case "missing":
                known.append(f"missing key {path!r}")
            case "value_error" | "assertion_error":
                said = str(error["ctx"]["error"])
                of_field = said.split(" ", 1)[0] in _field_names(cls, keys)
                known.append(f"{path}{'.' if of_field else ': '}{said}")
            case "json_invalid":
                known.append(f"{path}: holds text that is not Unicode ({error['msg']})")
            case kind:
                wanted = EXPECTED.get(kind, error["msg"].removeprefix("Input should be "))
                expected.setdefault(f"{path} = {value!r}", []).append(wanted)
    wrong = [f"{what}; expected {' or '.join(dict.fromkeys(w))}" for what, w in expected.items()]
    return "\n".join(unknown + known + wrong)


def _locate(error: "ErrorDetails", values: Any) -> tuple[list[str | int], Any]:
    """The keys that lead to a mistake, without pydantic's names of union branches; its value."""
    keys: list[str | int] = []
    for key in error["loc"][1:]:
        inside = isinstance(values, Mapping) and key in values
        listed = isinstance(values, (list, tuple)) and isinstance(key, int) and key < len(values)
        if inside or listed:
            keys.append(key)
            values = values[key]
    if error["type"] == "missing":
        keys.append(error["loc"][-1])
    return keys, values


def _dotted(*keys: str | int) -> str:
    return ".".join(str(key) for key in keys if key != "")


def _field_names(cls: Any, keys: Sequence[str | int]) -> list[str]:
    """The keys that the table at this place may have; none where there is no such table."""
    for key in keys:
        if isinstance(key, str) and is_dataclass(cls):
            cls = _table_in(get_type_hints(cls).get(key))
    return [field.name for field in fields(cls)] if is_dataclass(cls) else []


def _table_in(hint: Any) -> Any:
    """The dataclass that a hint speaks of, as list[X] | None does of X."""
    found = (_table_in(part) for part in get_args(hint))
    return hint if is_dataclass(hint) else next(filter(None, found), None)


def unbuild(instance: Any) -> dict[str, Any]:
    """The plain values of a dataclass, ready for TOML: unset (None) is absent."""
    values = {}
    for field in fields(instance):
        value = getattr(instance, field.name)
        if value is not None:
            values[field.name] = _unbuild_value(value)
            continue
        unset = field.default is None
        assert unset, f"{field.name} is None but not by default: absence would not say so"
    return values


def _unbuild_value(value: Any) -> Any:
    if is_dataclass(value):
        return unbuild(value)
    if isinstance(value, Mapping):
        return {k: _unbuild_value(item) for k, item in value.items() if item is not None}
    if isinstance(value, (list, tuple)):
        return [_unbuild_value(item) for item in value]
    return str(value) if isinstance(value, PurePath) else value


# --- parts -------------------------------------------------------------------------------------


def part(value: object, where: str = "a part") -> tuple[str, dict[str, Any]]:
    """A part is a name, or a table with `name` and its own parameters: (name, parameters)."""
    if isinstance(value, str):
        return value, {}
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        parameters = _plain(value)
        return parameters.pop("name"), parameters
    raise InputError(f"{where} = {value!r}; expected a name, or a table with a name")


def fitting(kind: Callable[..., Any], parameters: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The parameters of a part, if `kind` has them, each of the type of its default."""
    known = {
        name: parameter.default
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is not parameter.empty
    }
    for name, value in parameters.items():
        if name not in known:
            hint = nearest(name, known) if known else "it has no parameters"
            raise InputError(f"unknown key {_dotted(where, name)!r}; {hint}")
        wanted = int if known[name] is None else type(known[name])
        number = wanted is float and type(value) is int
        if type(value) is not wanted and not number:
            told = EXPECTED.get(f"{wanted.__name__}_type", wanted.__name__)
            raise InputError(f"{_dotted(where, name)} = {value!r}; expected {told}")
    return dict(parameters)


def find(table: Mapping[str, T], name: str, *, what: str, allow_code: bool = False) -> T:
    """What a table has under this name, or the class of the user's own "file.py:Class"."""
    if name in table:
        return table[name]
    file, _, attribute = name.rpartition(":")
    if not file.endswith(".py"):
        hint = f"{nearest(name, table)} (or your own, as 'file.py:Class')"
        raise InputError(f"unknown {what} {name!r}; {hint}")
    if not allow_code and not _allowed_before(Path(file)):
        raise InputError(
            f"{what} {name!r} is a file of code, and loading it means running it; "
            "if you trust it, pass --allow-code"
        )
    module = _import_file(Path(file))
    public = [key for key in vars(module) if not key.startswith("_")]
    if attribute not in public:
        raise InputError(f"{file} has no {attribute!r}; {nearest(attribute, public)}")
    found: T = getattr(module, attribute)
    return found


def _allowed_before(path: Path) -> bool:
    """Whether this very file was loaded with consent in this process."""
    return path.is_file() and _module_name(path) in sys.modules


def _module_name(path: Path) -> str:
    """One name a place and content: whoever allowed this very file need not be asked again."""
    try:
        source = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    digest = hashlib.sha256(str(path.resolve()).encode() + b"\0" + source).hexdigest()[:16]
    return f"saccade_user_{digest}"


def _import_file(path: Path) -> ModuleType:
    """Run a user's file once a content, under a name that can hide no other module.

    It may import its neighbours, in every process: they are looked for last, and hide nothing.
    """
    name, folder = _module_name(path), str(path.resolve().parent)
    if name in sys.modules:
        return sys.modules[name]
    if folder not in sys.path:
        sys.path.append(folder)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, f"{path} ends in .py"
    assert spec.loader is not None, f"{path} ends in .py"
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up by name
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a script that calls sys.exit is no module
        del sys.modules[name]
        if isinstance(error, Terminated):
            raise
        told = f"{type(error).__name__}: {error}".removesuffix(": ")
        raise InputError(f"{path}: running it failed: {told}") from error
    return module
