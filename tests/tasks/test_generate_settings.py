"""Settings that a language model and its task have in common are settled in one place."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from tiny_runs import write_text

from saccade.config import override
from saccade.data.tokenizers import train_tokenizer
from saccade.errors import InputError
from saccade.models import MODELS
from saccade.tasks.generate import Generate
from saccade.training.settings import resolve


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [write_text(tmp_path_factory.mktemp("text"))]


def settled(files: Sequence[str], *sets: str) -> tuple[int, int]:
    settings = resolve(override({"task": {"name": "generate", "train": list(files)}}, sets))
    return settings.task.context, settings.model["context"]


@pytest.mark.parametrize("name", [name for name in MODELS if "generate" in MODELS[name].tasks])
def test_a_context_is_settled_in_one_place(files: list[str], name: str) -> None:
    """Before the settings are, there is none: no second default stands in."""
    given = {"name": "generate", "train": files}
    made = resolve({"task": given, "model": {"name": name}}).task
    tokenizer = train_tokenizer("characters", ["ab"], 9)
    assert Generate(made, tokenizer).reading.context == made.context
    with pytest.raises(AssertionError, match="suited"):
        _ = Generate(replace(made, context=None), tokenizer).reading


def test_task_and_model_have_one_context(files: list[str]) -> None:
    gpt = "model.name=gpt"
    assert settled(files, gpt, "task.context=48") == (48, 48)
    assert settled(files, gpt, "model.context=48") == (48, 48)
    assert settled(files, gpt, "model.context=48", "task.context=24") == (24, 48)
    default = settled(files, gpt)
    assert default[0] == default[1]
    with pytest.raises(InputError, match="set one of them"):
        settled(files, gpt, "model.context=48", "task.context=49")
    with pytest.raises(InputError, match="no state that could be carried"):
        settled(files, gpt, "task.carry=true")
    with pytest.raises(InputError, match="would be left out"):
        settled(files, gpt, "task.context=8", "task.stride=9")
    with pytest.raises(InputError, match="contexts that are not carried"):
        settled(files, "model.name=rnn", "task.stride=4")
    with pytest.raises(InputError, match="does not do 'generate'"):
        settled(files, "model.name=transformer")
