"""The flags of decoding, shared by `predict` and `eval`; their defaults are DecodeOptions'."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Literal

from cyclopts import Parameter

from saccade.cli.flags import ENGINE, SEARCH, Switch, Whole

if TYPE_CHECKING:
    from saccade.decoding.options import DecodeOptions
    from saccade.training.model import Model
    from saccade.training.pool import Alone, Pool, Work

MANY = 200  # texts from which on starting workers takes less time than it saves


@Parameter(name="*", group=SEARCH)
@dataclass(frozen=True, kw_only=True)
class SearchFlags:
    """How to search; unset means the default."""

    beam: Whole | None = None
    """Paths kept; 1 is greedy search. [default: 5; generate draws]"""
    choices: Whole | None = None
    """Tokens each path considers; as many as paths when unset."""
    length_penalty: float | None = None
    """GNMT's: the score is divided by ((5 + length) / 6) to this power. [default: 1.5]"""
    max_ratio: float | None = None
    """The output may have so many times the tokens of the input ... [default: 2]"""
    max_extra: Whole | None = None
    """... and so many more. [default: 10]"""
    length: Whole | None = None
    """Longest output in tokens, over the two above. [default of generate: 200]"""
    min_length: Whole | None = None
    """Shortest output in tokens."""
    no_repeat_ngram: Whole | None = None
    """Say no sequence of so many tokens twice."""

    def given(self) -> dict[str, Any]:
        """What was set."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None}

    def options(self, usual: "DecodeOptions") -> "DecodeOptions":
        """What was given; the rest is as usual for the task."""
        return replace(usual, **self.given())

    def stated(self, usual: "DecodeOptions") -> dict[str, Any]:
        """What holds, given or not, so that a score can say how it came about."""
        options = self.options(usual)
        return {field.name: getattr(options, field.name) for field in fields(self)}


@Parameter(name="*", group=ENGINE)
@dataclass(frozen=True, kw_only=True)
class EngineFlags:
    """How to run the model."""

    workers: Whole | None = None
    """Processes of one thread; unset: one a core when there is much to do."""
    precision: Literal["float32", "int8"] = "float32"
    """int8: faster, a little less exact, and a text may depend a little on its batch."""
    allow_code: Switch = False
    """Run a model or task that is somebody's own file."""

    def engine(
        self, model: "Model", work: "Work", texts: int, changes: Sequence[str] = ()
    ) -> "Alone | Pool":
        """This process for a few texts, workers for many; the answers are the same."""
        from saccade.errors import InputError
        from saccade.training.machine import cores
        from saccade.training.pool import Alone, Loading, Pool

        if self.workers is not None and self.workers < 1:
            raise InputError(f"--workers {self.workers}: at least 1")
        workers = self.workers or (cores() if texts > MANY else 1)
        if workers == 1:
            return Alone(model, work)
        loading = Loading(self.precision, self.allow_code, changes)
        return Pool(model.run.path, work, workers, loading)
