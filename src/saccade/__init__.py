"""saccade: train sequence models, score them, decode with them, and see what they look at.

    run = saccade.train("translate", train=("a.en", "a.de"), dev=("b.en", "b.de"), out="my-run")
    model = saccade.load(run)
    print(model("A man sleeps."))

Importing saccade imports no torch: that happens when something is used.
"""

import importlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from saccade.version import __version__

if TYPE_CHECKING:
    from saccade.blocks.recording import record_attention
    from saccade.decoding.options import DecodeOptions
    from saccade.errors import InputError, TrainingError
    from saccade.inspection.ablation import without_heads
    from saccade.inspection.comparison import compare
    from saccade.inspection.explain import explain
    from saccade.inspection.importance import head_importance
    from saccade.interop import export_run, import_run
    from saccade.training.model import Model, load
    from saccade.training.run import Run
    from saccade.training.signals import Interrupted

Place = str | Path
Files = Place | Sequence[Place]
OnBadUTF8 = Literal["stop", "replace", "skip"]

__all__ = [
    "DecodeOptions", "InputError", "Interrupted", "Model", "Run", "TrainingError", "__version__",
    "compare", "explain", "export_run", "head_importance", "import_run", "load",
    "record_attention", "train", "without_heads",
]  # fmt: skip

_HOMES = {
    "DecodeOptions": "saccade.decoding.options",
    "InputError": "saccade.errors",
    "Interrupted": "saccade.training.signals",
    "Model": "saccade.training.model",
    "Run": "saccade.training.run",
    "TrainingError": "saccade.errors",
    "compare": "saccade.inspection.comparison",
    "explain": "saccade.inspection.explain",
    "head_importance": "saccade.inspection.importance",
    "export_run": "saccade.interop",
    "import_run": "saccade.interop",
    "load": "saccade.training.model",
    "record_attention": "saccade.blocks.recording",
    "without_heads": "saccade.inspection.ablation",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'saccade' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return __all__


@overload
def train(
    task: str, *, out: Place, train: Files | None = ..., dev: Files | None = ...,
    model: str | None = ..., preset: str | None = ..., steps: int | None = ...,
    minutes: float | None = ..., seed: int | None = ..., seeds: None = ..., resume: bool = ...,
    accept_changes: bool = ..., init: "Place | Run | None" = ...,
    tokenizer: "Place | Run | None" = ..., columns: str | Sequence[str] | None = ...,
    processes: int | None = ..., device: str | None = ..., compile: bool = ...,
    on_bad_utf8: OnBadUTF8 | None = ..., tensorboard: bool = ...,
    config: Mapping[str, Any] | Place | None = ..., allow_code: bool = ..., quiet: bool = ...,
) -> "Run": ...  # fmt: skip
@overload
def train(
    task: str, *, out: Place, train: Files | None = ..., dev: Files | None = ...,
    model: str | None = ..., preset: str | None = ..., steps: int | None = ...,
    minutes: float | None = ..., seed: int | None = ..., seeds: Sequence[int], resume: bool = ...,
    accept_changes: bool = ..., init: "Place | Run | None" = ...,
    tokenizer: "Place | Run | None" = ..., columns: str | Sequence[str] | None = ...,
    processes: int | None = ..., device: str | None = ..., compile: bool = ...,
    on_bad_utf8: OnBadUTF8 | None = ..., tensorboard: bool = ...,
    config: Mapping[str, Any] | Place | None = ..., allow_code: bool = ..., quiet: bool = ...,
) -> "list[Run]": ...  # fmt: skip
def train(  # noqa: PLR0913  the flags of `saccade train`, by the same names
    task: str,
    *,
    out: Place,
    train: Files | None = None,
    dev: Files | None = None,
    model: str | None = None,
    preset: str | None = None,
    steps: int | None = None,
    minutes: float | None = None,
    seed: int | None = None,
    seeds: Sequence[int] | None = None,
    resume: bool = False,
    accept_changes: bool = False,
    init: "Place | Run | None" = None,
    tokenizer: "Place | Run | None" = None,
    columns: str | Sequence[str] | None = None,
    processes: int | None = None,
    device: str | None = None,
    compile: bool = False,  # noqa: A002
    on_bad_utf8: OnBadUTF8 | None = None,
    tensorboard: bool = False,
    config: Mapping[str, Any] | Place | None = None,
    allow_code: bool = False,
    quiet: bool = False,
) -> "Run | list[Run]":
    """Train a model and return its run, with `seeds` one for each; `config`: any other setting.

    For instance config={"model": {"dim": 64}, "train": {"peak_rate": 1e-3}}, or a TOML file.
    Raises InputError when the call or the data is wrong, TrainingError when the work fails,
    Interrupted at a signal.
    """
    from saccade.cli.train import TrainFlags, train_with
    from saccade.data.lines import file_names
    from saccade.errors import InputError

    if not isinstance(config, Mapping | str | Path | None):
        raise InputError(f"config = {config!r}; expected a table of tables, or a TOML file")
    if seeds is not None and (isinstance(seeds, str) or not isinstance(seeds, Sequence)):
        raise InputError(f"seeds = {seeds!r}; expected a list, such as [1, 2, 3]")
    tables, file = (config, None) if isinstance(config, Mapping) else ({}, config)
    flags = TrainFlags(
        out=Path(out), config=None if file is None else Path(file),
        train=None if train is None else file_names(train),
        dev=None if dev is None else file_names(dev),
        model=model, preset=preset, steps=steps, minutes=minutes, seed=seed,
        seeds=None if seeds is None else ",".join(map(str, seeds)),
        resume=resume, accept_changes=accept_changes,
        init=None if init is None else str(Path(init)),
        tokenizer=None if tokenizer is None else str(Path(tokenizer)),
        columns=columns if columns is None or isinstance(columns, str) else ",".join(columns),
        processes=processes, device=device, compile=compile, on_bad_utf8=on_bad_utf8,
        tensorboard=tensorboard, allow_code=allow_code,
    )  # fmt: skip
    runs = train_with(flags, flags.tables(task, tables), flags.seed_list(), quiet=quiet)
    return runs[0] if seeds is None else runs
