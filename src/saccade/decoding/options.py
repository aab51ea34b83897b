"""How to decode: the one list of settings that the command line, Python and the server share."""

from collections.abc import Sequence
from dataclasses import dataclass

from saccade.decoding.sampling import Draw, Filter, temperature, top_k, top_p
from saccade.decoding.search import SearchOptions
from saccade.errors import InputError

PENALTIES = (0.01, 100)  # beyond, a log-probability would overflow or vanish in float32


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodeOptions(SearchOptions):
    """Search for the most probable output, or draw one."""

    sample: bool = False  # draw each token instead of searching
    temperature: float = 1.0  # below 1 sharper, above 1 more varied
    top_k: int | None = None  # draw from the most probable k
    top_p: float | None = None  # draw from the most probable that together have p
    seed: int = 1  # of the draws
    repetition_penalty: float = 1.0  # above 1, what was said or prompted is chosen less
    stop: Sequence[str] = ()  # the output ends before any of these

    def __post_init__(self) -> None:
        SearchOptions.__post_init__(self)
        if isinstance(self.stop, str):
            raise InputError(f"stop is {self.stop!r}, it must be a list, such as [{self.stop!r}]")
        object.__setattr__(self, "stop", tuple(self.stop))  # JSON has lists
        if not all(self.stop):
            raise InputError("an empty stop string would stop at once")
        lowest, highest = PENALTIES
        if not lowest <= self.repetition_penalty <= highest:
            raise InputError(
                f"repetition_penalty is {self.repetition_penalty}, it must be from {lowest} to "
                f"{highest}"
            )
        for name in self.of_one_path:
            if self.beam > 1 and not self.sample:
                raise InputError(
                    f"{name} is of generate and of one path: there take beam = 1, or draw"
                )
        if self.choices == 1 and self.nbest > 1:
            raise InputError(
                f"nbest is {self.nbest}, but with choices = 1 there is one path: raise choices"
            )
        if self.sample and self.nbest > 1:
            raise InputError("nbest is of search; to draw another output, give another seed")
        self.filters()  # they check their values, also where nothing is drawn

    @property
    def of_one_path(self) -> list[str]:
        """What was asked for that holds for one path alone: no tree can be grown with it."""
        given = {"stop": bool(self.stop), "repetition_penalty": self.repetition_penalty != 1}
        return [name for name in given if given[name]]

    def draw(self, examples: Sequence[int]) -> Draw:
        """What draws the next token of each of these examples."""
        return Draw(seed=self.seed, examples=examples, filters=self.filters())

    def filters(self) -> list[Filter]:
        """What the options do to logits before a token is drawn."""
        found = [temperature(self.temperature)] if self.temperature != 1 else []
        if self.top_k is not None:
            found.append(top_k(self.top_k))
        if self.top_p is not None:
            found.append(top_p(self.top_p))
        return found
