"""A trained model, ready to be called: what `saccade.load` gives."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import nn

from saccade.blocks.packed import pack
from saccade.blocks.quantized import quantize
from saccade.decoding.options import DecodeOptions
from saccade.decoding.tree import BeamTree
from saccade.errors import InputError, nearest
from saccade.inspection.alignment import AttentionMap
from saccade.inspection.traces import Tokens, Watch
from saccade.tasks.task import Evaluation, Prediction
from saccade.tasks.words import word_map
from saccade.training.run import Run, load_module
from saccade.training.settings import Settings

Precision = Literal["float32", "int8"]
PRECISIONS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "float32": pack,
    "int8": quantize,
}


class Model:
    """A run's task and weights: call it with a text, or with several."""

    def __init__(self, run: Run, settings: Settings, task: Any, module: nn.Module):
        self.run, self.settings, self.task, self.module = run, settings, task, module

    @overload
    def __call__(self, text: str, options: DecodeOptions = ...) -> Prediction: ...
    @overload
    def __call__(self, text: list[str], options: DecodeOptions = ...) -> list[Prediction]: ...
    def __call__(
        self, text: str | list[str], options: DecodeOptions = DecodeOptions()
    ) -> Prediction | list[Prediction]:
        """The prediction for a text, or one for each of several, with what it looked at."""
        texts = [text] if isinstance(text, str) else text
        found = self.predict(texts, options, attention=True)
        return found[0] if isinstance(text, str) else found

    def predict(
        self,
        texts: Sequence[str],
        options: DecodeOptions = DecodeOptions(),
        *,
        prefixes: Sequence[str] | None = None,
        attention: Watch = False,
        numbers: Sequence[int] | None = None,
        tree: BeamTree | None = None,
    ) -> list[Prediction]:
        """Predictions for many texts, in order; without attention, by the fast path.

        `attention`: True for what looks from output to input, "all", or layers by name. `tree` is
        filled with what a search considered.
        """
        how = {"prefixes": prefixes, "attention": attention, "numbers": numbers}
        if tree is not None:  # only a task that searches takes one
            how["tree"] = tree
        found: list[Prediction] = self.task.predict(self.module, texts, options, **how)
        return found

    def stream(
        self,
        text: str,
        options: DecodeOptions = DecodeOptions(),
        number: int = 0,
        on_cut: Callable[[], None] = lambda: None,
    ) -> Iterator[str]:
        """The prediction for one text, piece by piece as it is made."""
        return iter(self.task.stream(self.module, text, options, number, on_cut))

    def trace(self, text: str, prediction: Prediction) -> Tokens:
        """Read a text and its prediction at once, as in training: who watches sees every step."""
        if not prediction.tokens:
            raise InputError("the text is blank: nothing was predicted, and nothing looked at")
        tokens: Tokens = self.task.trace(self.module, text, prediction)
        return tokens

    def words(self, text: str, prediction: Prediction) -> AttentionMap:
        """What each word of a prediction looked at, word by word: words are what spaces part."""
        return word_map(self.task, text, prediction)

    def evaluate(
        self, files: Sequence[str], options: DecodeOptions = DecodeOptions()
    ) -> Evaluation:
        """The task's metrics on a data set."""
        sources, references = self.task.pairs(files, lambda _: None)
        found = [prediction.text for prediction in self.predict(sources, options)]
        evaluation: Evaluation = self.task.score(sources, references, found)
        return evaluation

    @property
    def parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.module.parameters())


def load(
    path: str | Path | Run, *, precision: Precision = "float32", allow_code: bool = False
) -> Model:
    """The model of a run; a run that names a user's file needs `allow_code`."""
    if precision not in PRECISIONS:
        raise InputError(f"unknown precision {precision!r}; {nearest(precision, PRECISIONS)}")
    run = path if isinstance(path, Run) else Run(Path(path))
    settings = run.settings(allow_code=allow_code)
    task = settings.task_class.load(settings.task, run.path)
    with torch.no_grad():
        module = PRECISIONS[precision](load_module(run, settings, task))
    return Model(run, settings, task, module)
