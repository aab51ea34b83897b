"""Generation at batch 1, thread against thread: saccade and Hugging Face, same weights, greedily.

Then the cost of a token by its place: whether it grows more than attention itself requires.
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from competitors import Competitor, Spec, Turn, competing, say
from decoding_speed import ONE_THREAD
from language_speed import language_config
from report import Report, Spread, Target, ratios

from saccade.training.start import train_run

WANTED = 2.0
GROWTH = 1.1  # of what is not attention: it should not grow at all, but caches get colder
HF = "Hugging Face generate"


@dataclass(frozen=True, kw_only=True, slots=True)
class GenerationOptions:
    rounds: int = 5
    length: int = 2048  # tokens of the text, its one character of prompt included
    span: int = 128  # tokens at the begin and at the end whose cost is compared


def generation_speed(options: GenerationOptions) -> Iterator[Report]:
    with tempfile.TemporaryDirectory() as scratch:
        run = Path(scratch, "run")
        config = language_config()
        config["task"]["context"] = options.length
        config["train"] = {"steps": 1, "batch_tokens": options.length, "processes": 1}
        say("making a model: one update")
        train_run(config, run)
        specs = [
            Spec(name, "generation_worker.py", [[engine, str(run)]], ONE_THREAD)
            for name, engine in (("saccade", "saccade"), (HF, "huggingface"))
        ]
        with competing(specs) as found:
            yield _speed(found, options)
            yield _by_place(found, options)


def _speed(found: Sequence[Competitor], options: GenerationOptions) -> Report:
    report = Report(
        "generation",
        f"Generation, GPT of 4 layers, 4 heads, width 128, context {options.length:,}: greedily to "
        f"{options.length:,} characters, batch 1, one thread",
        ["", "tokens/s", "tokens per CPU-second", "ratio to Hugging Face"],
    )
    new = options.length - 1
    turns: dict[str, list[Turn]] = {each.name: [] for each in found}
    for number in range(options.rounds):
        for each in found if number % 2 == 0 else found[::-1]:
            turn = each.turn({"length": new, "timed": False})
            assert len(turn.answers[0]["ids"]) == new, f"{each.name} stopped early"
            turns[each.name].append(turn)
            say(f"round {number + 1}: {each.name}: {new / turn.seconds:,.0f} tokens/s")
    wall = {name: [new / turn.seconds for turn in each] for name, each in turns.items()}
    for name, each in turns.items():
        cpu = Spread.of([new / turn.cpu_seconds for turn in each])
        cells = (Spread.of(wall[name]), cpu, ratios(wall[name], wall[HF]))
        report.rows.append([name, *map(str, cells)])
    reached = ratios(wall["saccade"], wall[HF]).median
    report.targets.append(Target(f"saccade to {HF}", WANTED, reached))
    report.notes.append(_agreement(found, options))
    report.measurements = {
        name: [{"seconds": t.seconds, "cpu_seconds": t.cpu_seconds, "tokens": new} for t in each]
        for name, each in turns.items()
    }
    return report


def _agreement(found: Sequence[Competitor], options: GenerationOptions) -> str:
    """How far both say the same: with the same weights, up to rounding."""
    order = {"length": options.span, "timed": False, "checked": True}
    mine, theirs = (each.turn(order).answers[0]["ids"] for each in found)
    same = [a == b for a, b in zip(mine, theirs, strict=True)]
    first = same.index(False) if False in same else len(same)
    return f"{first} of {len(same)} tokens are the same (what saccade bans, banned for both)"


def _by_place(found: Sequence[Competitor], options: GenerationOptions) -> Report:
    span, new = options.span, options.length - 1
    report = Report(
        "generation-places",
        f"Generation, CPU-microseconds a token, streamed: the first {span} of {new:,}, the "
        f"last {span}, and how much of it is attention",
        ["", f"first {span}", f"last {span}", "growth"],
    )
    costs: dict[str, list[tuple[float, float]]] = {}  # of a token at the begin and at the end
    for number in range(options.rounds):
        for each in found if number % 2 == 0 else found[::-1]:
            moments = each.turn({"length": new, "timed": True}).answers[0]["moments"]
            assert len(moments) == new, f"{each.name}: {len(moments)} pieces of {new} tokens"
            for what, seconds in zip(
                ("", ", its attention"), zip(*moments, strict=True), strict=True
            ):
                first = (seconds[span] - seconds[0]) / span
                last = (seconds[-1] - seconds[-1 - span]) / span
                costs.setdefault(each.name + what, []).append((first, last))
    for name, each in costs.items():
        columns = ([a for a, _ in each], [b for _, b in each], [b - a for a, b in each])
        cells = [str(Spread.of([1e6 * value for value in column])) for column in columns]
        report.rows.append([name, *cells])
    rest = [
        (last - (b - a)) / first
        for (first, last), (a, b) in zip(
            *(costs[name] for name in ("saccade", "saccade, its attention")), strict=True
        )
    ]
    what = f"saccade, last {span} less what attention grew, to first {span}"
    report.targets.append(Target(what, GROWTH, Spread.of(rest).median, at_most=True))
    report.measurements = dict(costs)
    return report
