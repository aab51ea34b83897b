"""Adapt a model (--init): start from the weights of another run, in its shape, as it reads."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from saccade.config import merge
from saccade.data.tokenizers import TOKENIZERS
from saccade.errors import InputError
from saccade.models.contract import learns_by_counting
from saccade.models.limits import DROPOUTS
from saccade.tasks.vocabularies import VOCABULARY, taken_over
from saccade.training.checkpoint import load_tensors, non_finite
from saccade.training.run import Run, named_weights
from saccade.training.settings import Settings, resolve
from saccade.training.trainer import Events


def alike(
    settings: Settings, config: Mapping[str, Any], like: Run, *, resumes: bool, allow_code: bool
) -> Settings:
    """What `config` came to, in the shape and with the tokenizer of a run; else it is refused.

    Of a run that resumes, `like` is the run itself: what it was made from may be gone by now.
    """
    theirs = like.settings(allow_code=allow_code)
    if theirs.model_name != settings.model_name:
        raise InputError(f"--init: {like.path} is a {theirs.model_name}, not {settings.model_name}")
    if not resumes and not like.weights.is_file():
        raise InputError(f"--init: {like.path} holds no model yet")
    asked, kept = _asked(settings, config), _kept(theirs, like)
    names = _tokenizer_names(like)
    if resumes and names[-1] not in TOKENIZERS:  # what it was made from is gone: nobody can tell
        asked.pop("task.tokenizer", None)
    _refuse_other_shape(asked, {**kept, "task.tokenizer": names[::-1]}, like.path)
    tokenizer = theirs.task.tokenizer if resumes else str(like.path)
    made = {name: kept[f"task.{name}"][-1] for name in VOCABULARY if f"task.{name}" in kept}
    model = {**theirs.model, **{key: settings.model[key] for key in _free(config)}}
    # The task to this shape, and training as this preset has it.
    shaped = merge(config, {"model": {**model, "preset": theirs.preset}})
    fitted = resolve(shaped, allow_code=allow_code)
    task = dataclasses.replace(fitted.task, tokenizer=tokenizer, **made)
    return dataclasses.replace(fitted, model=model, task=task)


def refuse_counting(settings: Settings) -> None:
    """What counts has no weights to start from: its counts are those of its own texts."""
    if learns_by_counting(settings.model_class):
        raise InputError(
            f"--init gives weights, and {settings.model_name} counts: train it on all the texts, "
            "or take only the tokenizer, by --tokenizer"
        )


def refuse_other_init(run: Run, init: str | None) -> None:
    """A run goes on from its own weights: --init may be left out, or say what it was begun from."""
    if init is None or (run.init and Path(run.init).resolve() == Path(init).resolve()):
        return
    begun = f"from {run.init}, not from {init}" if run.init else f"without --init {init}"
    raise InputError(
        f"{run.path} was begun {begun}: leave --init out to continue it, or choose another --out"
    )


def _free(config: Mapping[str, Any]) -> set[str]:
    """What was said of the model and is heeded."""
    return config.get("model", {}).keys() & set(DROPOUTS)


def _asked(settings: Settings, config: Mapping[str, Any]) -> dict[str, Any]:
    """What the call, and no default, says of the shape and of the tokenizer, by key."""
    model = config.get("model", {}).keys() - {"name", *DROPOUTS}
    task = config.get("task", {}).keys() & {"tokenizer", *VOCABULARY}
    shape = {"preset": settings.preset, **settings.model}
    asked = {f"model.{key}": shape[key] for key in sorted(model)}
    asked |= {f"task.{key}": getattr(settings.task, key) for key in sorted(task)}
    if "tokenizer" in task:
        asked["task.tokenizer"] = str(Path(settings.task.tokenizer))  # a path in one spelling
    return asked


def _kept(theirs: Settings, like: Run) -> dict[str, list[Any]]:
    """By key, what a run was told and, where it came out otherwise, what it got."""
    got = taken_over(str(like.path))[1]
    shape = {"preset": theirs.preset, **theirs.model}
    told = {key: getattr(theirs.task, key) for key in VOCABULARY if hasattr(theirs.task, key)}
    kept = {f"model.{key}": [value] for key, value in shape.items()}
    return kept | {f"task.{key}": [value, got.get(key, value)] for key, value in told.items()}


def _tokenizer_names(run: Run) -> list[str]:
    """The run, where its tokenizer came from, and so on; last the kind that was trained."""
    names = [str(run.path)]
    while names[-1] not in TOKENIZERS and Run(Path(names[-1])).exists:
        name = Run(Path(names[-1])).config().get("task", {}).get("tokenizer")
        if name is None or str(Path(name)) in names:  # of another kind, or replaced since
            break
        names.append(str(Path(name)))
    return names


def _refuse_other_shape(asked: dict[str, Any], kept: dict[str, list[Any]], where: Path) -> None:
    for key, mine in asked.items():
        theirs = kept.get(key, ["unset"])
        if mine not in theirs:
            raise InputError(
                f"--init keeps the shape and the tokenizer of {where}, where {key} is "
                f"{theirs[0]!r}, not {mine!r}: leave it out, or train without --init"
            )


def initialise(module: nn.Module, init: Run, events: Events) -> None:
    """Take over every weight of `init` that this model has in the same shape."""
    mine = named_weights(module)
    theirs = weights_for(mine, init)
    for name, tensor in theirs.items():
        mine[name].copy_(tensor)
    if missing := sorted(mine.keys() - theirs.keys()):
        events.warn(f"--init: {len(missing)} weights are new, among them {missing[0]}")


def weights_for(mine: Mapping[str, Tensor], init: Run) -> dict[str, Tensor]:
    """The weights of `init` that fit these, which may be on the meta device; none is an error."""
    theirs = load_tensors(init.weights)
    if name := non_finite(theirs):
        raise InputError(
            f"--init: {init.weights}: {name!r} is not finite; nothing can be learned from there"
        )
    fitting = {name for name in mine if name in theirs and theirs[name].shape == mine[name].shape}
    if not fitting:
        raise InputError(f"--init: no weight of {init.path} fits this model")
    return {name: theirs[name] for name in fitting}
