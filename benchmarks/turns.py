"""Trainings that take turns: who made how many updates, and in what time."""

from collections.abc import Sequence
from dataclasses import dataclass

from competitors import WAITS, Competitor, Turn, say
from report import Report, Spread, ratios

ENDLESS = 1_000_000_000
Turns = dict[str, list[Turn]]
Speeds = dict[str, list[float]]


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainingOptions:
    rounds: int = 7
    steps: int = 10  # updates of a turn
    warmup: int = 3  # updates before the first turn
    waits: Sequence[str] = tuple(WAITS)  # settings a peer is measured at

    @property
    def updates(self) -> int:
        """That a competitor makes in all."""
        return self.warmup + self.rounds * self.steps


def take_turns(found: Sequence[Competitor], options: TrainingOptions) -> Turns:
    for each in found:
        each.turn({"steps": options.warmup})
    turns: Turns = {each.name: [] for each in found}
    for number in range(options.rounds):
        # From another end each time: what comes after a hungry neighbour is not always the same.
        for each in found if number % 2 == 0 else found[::-1]:
            turn = each.turn({"steps": options.steps})
            turns[each.name].append(turn)
            speed = turn.total("tokens") / turn.seconds
            loss = turn.answers[0]["loss"]
            say(f"round {number + 1}: {each.name}: {speed:,.0f} tokens/s, loss {loss:.2f}")
    return turns


def speeds(turns: Turns, unit: str) -> Speeds:
    """So many units (tokens, steps) a second, turn by turn."""
    return {name: [t.total(unit) / t.seconds for t in each] for name, each in turns.items()}


def best(speeds: Speeds, start: str) -> str:
    """The fastest of the competitors whose names begin like this."""
    names = [name for name in speeds if name.startswith(start)]
    return max(names, key=lambda name: Spread.of(speeds[name]).median)


def fill(report: Report, turns: Turns, unit: str, base: str) -> None:
    """A row for each: the speed, the work done in a CPU-second, the ratio to `base`."""
    wall = speeds(turns, unit)
    for name, each in turns.items():
        cpu = [turn.total(unit) / turn.cpu_seconds for turn in each]
        cells = (Spread.of(wall[name]), Spread.of(cpu), ratios(wall[name], wall[base]))
        report.rows.append([name, *map(str, cells)])
    report.measurements = {
        name: [
            {"seconds": t.seconds, "cpu_seconds": t.cpu_seconds, unit: t.total(unit)} for t in each
        ]
        for name, each in turns.items()
    }
