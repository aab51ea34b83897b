"""Measure saccade and its peers: `make bench`, or python benchmarks/run.py [PART ...] [--quick]."""

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from competitors import say
from decoding_speed import DecodingOptions, decoding_speed
from explorer import ExplorerOptions, explorer
from generation_speed import GenerationOptions, generation_speed
from language_speed import LANGUAGE, language_speed
from memory import MemoryOptions, memory
from recurrent_speed import RECURRENT, recurrent_speed
from report import HERE, Report
from training_speed import SETUPS, training_speed
from turns import TrainingOptions

QUICK_TRAINING = TrainingOptions(rounds=2, steps=2, warmup=1)
QUICK_DECODING = DecodingOptions(rounds=1, sentences=130, single=5, random=True)
QUICK_GENERATION = GenerationOptions(rounds=1, length=256, span=32)
QUICK_MEMORY = MemoryOptions(epochs=3, epoch_steps=4, steps=4, repeats=(1, 2))


def main() -> None:
    arguments = _arguments()
    for part in arguments.parts or PARTS:
        for report in PARTS[part](arguments):
            print(report, flush=True)
            say(f"written: {report.write(arguments.out)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], metavar="PART",
                        help=f"of {', '.join(PARTS)}; all when none is named")  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="only see that everything works")
    parser.add_argument("--presets", nargs="+", choices=list(SETUPS), default=list(SETUPS),
                        help="whose training to measure")  # fmt: skip
    parser.add_argument("--rounds", type=int, help="turns each competitor gets")
    parser.add_argument("--run", type=Path, help="a trained `small` run to decode with")
    parser.add_argument("--minutes", type=float, help="to train such a run for, if none is given")
    parser.add_argument("--random", action="store_true",
                        help="decode with random weights and outputs of forced length")  # fmt: skip
    parser.add_argument("--out", type=Path, default=HERE / "results")
    return parser.parse_args()


def _updates(arguments: argparse.Namespace, usual: TrainingOptions) -> TrainingOptions:
    options = QUICK_TRAINING if arguments.quick else usual
    return replace(options, rounds=arguments.rounds) if arguments.rounds else options


def _training(arguments: argparse.Namespace) -> Iterator[Report]:
    for preset in arguments.presets:
        yield training_speed(SETUPS[preset], _updates(arguments, TrainingOptions()))


def _recurrent(arguments: argparse.Namespace) -> Iterator[Report]:
    for setup in RECURRENT:
        yield recurrent_speed(setup, _updates(arguments, TrainingOptions()))


def _language(arguments: argparse.Namespace) -> Iterator[Report]:
    yield language_speed(_updates(arguments, LANGUAGE))


def _generation(arguments: argparse.Namespace) -> Iterator[Report]:
    options = QUICK_GENERATION if arguments.quick else GenerationOptions()
    if arguments.rounds:
        options = replace(options, rounds=arguments.rounds)
    yield from generation_speed(options)


def _decoding(arguments: argparse.Namespace) -> Iterator[Report]:
    options = QUICK_DECODING if arguments.quick else DecodingOptions()
    given = {"rounds": arguments.rounds, "run": arguments.run, "minutes": arguments.minutes}
    changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if arguments.random or arguments.run or arguments.minutes:
        changes["random"] = arguments.random
    yield decoding_speed(replace(options, **changes))


def _memory(arguments: argparse.Namespace) -> Iterator[Report]:
    yield from memory(QUICK_MEMORY if arguments.quick else MemoryOptions())


def _explorer(arguments: argparse.Namespace) -> Iterator[Report]:
    options = ExplorerOptions(run=arguments.run)
    if rounds := 2 if arguments.quick else arguments.rounds:
        options = replace(options, rounds=rounds)
    yield explorer(options)


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[Report]]] = {
    "training": _training,
    "recurrent": _recurrent,
    "language": _language,
    "decoding": _decoding,
    "generation": _generation,
    "memory": _memory,
    "explorer": _explorer,
}


if __name__ == "__main__":
    main()
