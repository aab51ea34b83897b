"""saccade models: what can be trained, from which paper, in which sizes."""

import dataclasses
import inspect
import io
import tokenize
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

from saccade.cli.progress import in_millions
from saccade.cli.terminal import say
from saccade.errors import InputError, nearest

VOCABULARY = 8000  # for which sizes are stated


def models(name: str | None = None, /) -> None:
    """List the models, or show one: its presets with their sizes, all settings with defaults.

    Parameters
    ----------
    name
        A model, such as transformer.
    """
    from saccade.models import MODELS

    if name is None:
        for each, cls in MODELS.items():
            does, sizes = ", ".join(cls.tasks), ", ".join(cls.PRESETS)
            say(f"{each}: {cls.paper}. Tasks: {does}. Presets: {sizes}.")
        return
    if name not in MODELS:
        raise InputError(f"unknown model {name!r}; {nearest(name, MODELS)}")
    _show(name, MODELS[name])


def _show(name: str, cls: Any) -> None:
    from saccade.config import build, merge
    from saccade.tasks import TASKS
    from saccade.training.settings import TrainConfig

    say(f"{name}: {(inspect.getdoc(cls) or name).splitlines()[0]}")
    say(f"paper: {cls.paper}")
    say(f"tasks: {', '.join(cls.tasks)}")
    say(f"\npresets (--preset; parameters with one vocabulary of {VOCABULARY:,}):")
    for preset, tables in cls.PRESETS.items():
        values = [each for table in tables.values() for each in _values(table)]
        mark = " (default)" if preset == cls.default_preset else ""
        size = in_millions(parameters(cls, tables["model"]))
        say(f"  {preset}{mark}: {size}; {', '.join(values)}")
    say_settings("model", cls.Config)
    task, preset = TASKS[cls.tasks[0]], cls.PRESETS[cls.default_preset]
    table = merge(task.defaults, preset).get("train", {})
    say_settings("train", TrainConfig, build(TrainConfig, table, "train"))
    say("\nsettings of a task: saccade tasks")


def _values(table: dict[str, Any], inside: str = "") -> Iterator[str]:
    """`key=value`, of tables in the table `name.key=value`."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _values(value, f"{inside}{key}.")
        else:
            yield f"{inside}{key}={value}"


def say_settings(section: str, config: type, usual: Any = None) -> None:
    """The keys of a section of the config with their defaults, or as `usual` has them."""
    say(f"\nsettings of [{section}] (--set {section}.KEY=VALUE):")
    for line in _settings(config, usual):
        say(f"  {line}")


def _settings(config: type, usual: Any = None) -> Iterator[str]:
    """`key = default  # its choices; its comment`; a key without default comes from the data."""
    notes, hints = comments(config), get_type_hints(config)
    for field in dataclasses.fields(config):
        if field.default is dataclasses.MISSING:
            continue
        value = field.default if usual is None else getattr(usual, field.name)
        if dataclasses.is_dataclass(value):
            inner = _settings(type(field.default), value)
            yield from (f"{field.name}.{line}" for line in inner)
            continue
        said = [notes[field.name]] if field.name in notes else []
        if get_origin(hints[field.name]) is Literal:
            said.insert(0, " | ".join(get_args(hints[field.name])))
        about = f"  # {'; '.join(said)}" if said else ""
        yield f"{field.name} = {_toml(value)}{about}"


def parameters(cls: Any, values: dict[str, Any]) -> int:
    """Of the model with these settings; nothing is allocated."""
    from saccade.blocks.meta import shapes_only

    required = {
        field.name: VOCABULARY
        for field in dataclasses.fields(cls.Config)
        if field.default is dataclasses.MISSING
    }
    shared = {"joint": True} if "source_vocab_size" in required else {}
    with shapes_only():
        model = cls(cls.Config(**required, **values), **shared)
    return sum(parameter.numel() for parameter in model.parameters())


def comments(config: type) -> dict[str, str]:
    """The comment behind each field of a dataclass."""
    found: dict[str, str] = {}
    line_names: dict[int, str] = {}  # the first name of each line
    for token in tokenize.generate_tokens(io.StringIO(inspect.getsource(config)).readline):
        row = token.start[0]
        if token.type == tokenize.NAME:
            line_names.setdefault(row, token.string)
        elif token.type == tokenize.COMMENT and row in line_names:
            found[line_names[row]] = token.string.lstrip("# ")
    return found


def _toml(value: object) -> str:
    if value is None:
        return "(unset)"
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)
