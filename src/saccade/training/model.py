"""A trained model, ready to be called: what `saccade.load` gives."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, overload

import torch
from torch import nn

from saccade.blocks.quantized import quantize
from saccade.blocks.weight_layout import pack
from saccade.data.lines import file_names
from saccade.decoding.options import DecodeOptions
from saccade.decoding.tree import BeamTree
from saccade.errors import InputError, nearest
from saccade.inspection.alignment import AttentionMap
from saccade.inspection.traces import Tokens, Watch
from saccade.tasks.task import Evaluation, Plain, Prediction, Task
from saccade.tasks.words import word_map
from saccade.training.run import Run, load_module
from saccade.training.settings import Settings

Options = DecodeOptions | None  # None: as is usual for the task
Precision = Literal["float32", "int8"]
PRECISIONS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "float32": pack,
    "int8": quantize,
}


class Model:
    """A run's task and weights: call it with a text, or with several."""

    def __init__(self, run: Run, settings: Settings, task: Task, module: nn.Module):
        self.run, self.settings, self.task, self.module = run, settings, task, module

    def __repr__(self) -> str:
        return f"<{self.settings.model_name} for {self.settings.task_name}, of {self.run.path}>"

    @overload
    def __call__(self, text: str, options: Options = ...) -> Prediction: ...
    @overload
    def __call__(self, text: list[str], options: Options = ...) -> list[Prediction]: ...
    def __call__(
        self, text: str | list[str], options: Options = None
    ) -> Prediction | list[Prediction]:
        """The prediction for a text, or one for each of several, with what it looked at.

        Without options, as is usual for the task: a translation is searched for, a text drawn.
        """
        texts = [text] if isinstance(text, str) else text
        if not isinstance(texts, Sequence) or not all(isinstance(each, str) for each in texts):
            raise InputError(f"expected a text or a list of texts, not {text!r}")
        found = self.predict(texts, options, attention=True)
        return found[0] if isinstance(text, str) else found

    def predict(
        self,
        texts: Sequence[str],
        options: Options = None,
        *,
        prefixes: Sequence[str] | None = None,
        attention: Watch = False,
        numbers: Sequence[int] | None = None,
        tree: BeamTree | None = None,
    ) -> list[Prediction]:
        """Predictions for many texts, in order; without attention, by the fast path.

        `attention`: True for what looks from output to input, "all", or layers by name. `tree` is
        filled with what a search considered for a single text.
        """
        if tree is not None and len(texts) != 1:
            raise InputError(f"a tree is of one text, and these are {len(texts)}: ask one by one")
        if prefixes is not None and (isinstance(prefixes, str) or len(prefixes) != len(texts)):
            raise InputError(
                f"prefixes = {prefixes!r}; expected a list of {len(texts)}, one a text, "
                "with '' where nothing is forced"
            )
        found: list[Prediction] = self.task.predict(
            self.module, texts, self._checked(options),
            prefixes=prefixes, attention=attention, numbers=numbers, tree=tree,
        )  # fmt: skip
        return found

    def stream(
        self,
        text: str,
        options: Options = None,
        number: int = 0,
        on_cut: Callable[[int], None] = lambda _: None,
    ) -> Iterator[str]:
        """The prediction for one text, piece by piece as it is made."""
        return iter(self.task.stream(self.module, text, self._checked(options), number, on_cut))

    def trace(self, text: str, prediction: Prediction) -> Tokens:
        """Read a text and its prediction at once, as in training: who watches sees every step."""
        if not prediction.tokens:
            raise InputError("the text is blank: nothing was predicted, and nothing looked at")
        tokens: Tokens = self.task.trace(self.module, text, prediction)
        return tokens

    def words(self, text: str, prediction: Prediction, steps_late: int = 0) -> AttentionMap:
        """What each word of a prediction looked at, word by word: words are what spaces part."""
        return word_map(self.task, text, prediction, steps_late)

    def evaluate(
        self, files: str | Path | Sequence[str | Path], options: Options = None
    ) -> Evaluation:
        """The task's metrics on a data set; its warnings name what is odd about the data, too."""
        odd: list[str] = []
        examples = self.task.examples(file_names(files), odd.append)
        measures = [self.measure(unit, options) for unit in self.task.units(examples)]
        found = self.task.score(examples, measures)
        return replace(found, warnings=[*odd, *found.warnings])

    @torch.no_grad()
    def measure(self, unit: Plain, options: Options = None) -> Plain:
        """What the model makes of one unit of the task's work."""
        return self.task.measure(self.module, unit, self._checked(options))

    def _checked(self, options: Any) -> DecodeOptions:
        """The options, the usual ones of the task where there are none."""
        if not isinstance(options, DecodeOptions | None):
            raise InputError(f"options = {options!r}; expected DecodeOptions, as with beam=5")
        usual: DecodeOptions = self.task.options
        return usual if options is None else options

    @property
    def parameters(self) -> int:
        """How many numbers it learned; of a model that counts, its counts."""
        learned = sum(parameter.numel() for parameter in self.module.parameters())
        return int(getattr(self.module, "entries", learned))


def load(
    path: str | Path | Run,
    *,
    precision: Precision = "float32",
    allow_code: bool = False,
    changes: Sequence[str] = (),
) -> Model:
    """The model of a run; a run that names a user's file needs `allow_code`.

    `changes` are settings other than in training, as `section.key=value`: how to evaluate, say.
    """
    if precision not in PRECISIONS:
        raise InputError(f"unknown precision {precision!r}; {nearest(precision, PRECISIONS)}")
    if not isinstance(path, str | Path | Run):
        raise InputError(f"{path!r} is no run: give its folder")
    run = path if isinstance(path, Run) else Run(Path(path))
    settings = run.settings(allow_code=allow_code, changes=changes)
    task = settings.task_class.load(settings.task, run.path)
    with torch.no_grad():
        module = PRECISIONS[precision](load_module(run, settings, task, changes))
    return Model(run, settings, task, module)
