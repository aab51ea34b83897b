"""Decoding speed: saccade, Hugging Face `generate` and CTranslate2 with the same weights."""

import gzip
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import sacrebleu
from competitors import Competitor, Spec, Turn, competing, say
from decoding_worker import token_names
from peers import ctranslate2_model
from report import Report, Spread, Target, ratios
from training_speed import SETUPS, data

from saccade.training.model import load
from saccade.training.start import train_run

BATCH = 64
LIMIT = 100  # tokens of an output, its end included
FORCED = 15  # the same where weights are random and outputs would not end
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
HF, CT2 = "Hugging Face generate", "CTranslate2 float32"


@dataclass(frozen=True, kw_only=True, slots=True)
class DecodingOptions:
    rounds: int = 5
    sentences: int = 1000
    single: int = 100  # sentences that are decoded one by one
    beams: Sequence[int] = (1, 5)
    run: Path | None = None  # a trained `small`; without one, train it now
    minutes: float = 5.0
    random: bool = False  # weights hardly trained, outputs of one length


@dataclass(frozen=True, slots=True)
class Setting:
    """One way of decoding, measured for all competitors."""

    beam: int
    batch: int

    def __str__(self) -> str:
        return f"beam {self.beam}, batch {self.batch}"


@dataclass(frozen=True, slots=True)
class Corpus:
    sources: list[str]
    references: list[str] | None  # None where outputs mean nothing

    def bleu(self, dealt: Sequence[Sequence[str]]) -> float | None:
        """Of the whole corpus, as it was dealt out; None where only some of it was translated."""
        if self.references is None or sum(map(len, dealt)) != len(self.sources):
            return None
        found = _collect(self.sources, dealt)
        return float(sacrebleu.corpus_bleu(found, [self.references]).score)


def decoding_speed(options: DecodingOptions) -> Report:
    report = Report(
        "decoding",
        "Decoding, `small`, test_2016_flickr en-de, from text to text",
        ["", "sentences/s", "tokens a sentence", "tokens per CPU-second", "BLEU",
         "ratio to Hugging Face", "ratio to CTranslate2 float32"],
    )  # fmt: skip
    sources, references = (
        _lines(f"test_2016_flickr.{side}.gz", options.sentences) for side in ("en", "de")
    )
    corpus = Corpus(sources, None if options.random else references)
    with tempfile.TemporaryDirectory() as scratch:
        run = options.run or _train(Path(scratch, "run"), options)
        with competing(_specs(run, Path(scratch))) as found:
            results = {
                setting: _take_turns(found, setting, corpus, options)
                for setting in [
                    Setting(beam, batch) for batch in (BATCH, 1) for beam in options.beams
                ]
            }
    for setting, turns in results.items():
        _fill(report, setting, turns, corpus)
    if options.random:
        report.notes.append(f"random weights, all outputs forced to {FORCED} tokens")
    return report


def _lines(name: str, count: int) -> list[str]:
    with gzip.open(data(name), "rt", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file][:count]


def _train(run: Path, options: DecodingOptions) -> Path:
    """A `small` of a few minutes: good enough that outputs end where they should."""
    config = SETUPS["small"].config([data("train.en.gz"), data("train.de.gz")])
    config["train"] = {"steps": 1} if options.random else {"minutes": options.minutes}
    say(f"training `small` with {config['train']}")
    train_run(config, run)
    return run


def _specs(run: Path, scratch: Path) -> list[Spec]:
    workers = len(os.sched_getaffinity(0))
    model = load(run)
    target = model.task.target
    folder = scratch / "ctranslate2"
    folder.mkdir()
    names = token_names(target.vocab_size)
    specials = (names[target.unk], names[target.bos], names[target.eos])
    ctranslate2_model(model.module, names, specials, folder)

    def spec(name: str, engine: str, precision: str) -> Spec:
        alone = [engine, str(run), precision, "1"]
        return Spec(name, "decoding_worker.py", [alone] * workers, ONE_THREAD)

    found = [
        spec("saccade float32", "saccade", "float32"),
        spec("saccade int8", "saccade", "int8"),
        spec(HF, "huggingface", "float32"),
    ]
    for precision in ("float32", "int8"):
        alone = ["ctranslate2", str(run), precision, str(workers), str(folder)]
        found.append(
            Spec(f"CTranslate2 {precision}", "decoding_worker.py", [alone], ONE_THREAD)
        )  # its workers are threads of one process
    return found


def _take_turns(
    found: Sequence[Competitor], setting: Setting, corpus: Corpus, options: DecodingOptions
) -> dict[str, list[Turn]]:
    turns: dict[str, list[Turn]] = {each.name: [] for each in found}
    sources = corpus.sources if setting.batch > 1 else corpus.sources[: options.single]
    limit = FORCED if options.random else LIMIT
    order = {"beam": setting.beam, "batch": setting.batch, "limit": limit, "forced": options.random}
    for number in range(options.rounds):
        for each in found if number % 2 == 0 else found[::-1]:
            hands = len(each.processes) if setting.batch > 1 else 1
            dealt = _deal(sources, hands) + [[]] * (len(each.processes) - hands)
            turn = each.turn([{**order, "texts": texts} for texts in dealt])
            turns[each.name].append(turn)
            say(f"{setting}, round {number + 1}: {each.name}: {len(sources) / turn.seconds:,.1f}/s")
    return turns


def _deal(texts: Sequence[str], hands: int) -> list[list[str]]:
    """By length and in turn, so that all hands finish together."""
    order = _order(texts)
    return [[texts[number] for number in order[hand::hands]] for hand in range(hands)]


def _collect(texts: Sequence[str], dealt: Sequence[Sequence[str]]) -> list[str]:
    """The reverse of `_deal`, for what came back."""
    found, order = [""] * len(texts), _order(texts)
    for hand, each in enumerate(dealt):
        for number, text in zip(order[hand :: len(dealt)], each, strict=True):
            found[number] = text
    return found


def _order(texts: Sequence[str]) -> list[int]:
    return sorted(range(len(texts)), key=lambda number: len(texts[number]))


def _fill(report: Report, setting: Setting, turns: dict[str, list[Turn]], corpus: Corpus) -> None:
    counts = {name: sum(len(a["texts"]) for a in each[0].answers) for name, each in turns.items()}
    speeds = {name: [counts[name] / t.seconds for t in each] for name, each in turns.items()}
    bleus = {
        name: corpus.bleu([answer["texts"] for answer in each[0].answers])
        for name, each in turns.items()
    }
    for name, each in turns.items():
        cells: list[Any] = [
            Spread.of(speeds[name]),
            f"{each[0].total('tokens') / counts[name]:.1f}",
            Spread.of([turn.total("tokens") / turn.cpu_seconds for turn in each]),
            "" if bleus[name] is None else f"{bleus[name]:.2f}",
            ratios(speeds[name], speeds[HF]),
            ratios(speeds[name], speeds[CT2]),
        ]
        report.rows.append([f"{setting}: {name}", *map(str, cells)])
    report.targets += _targets(setting, speeds, bleus)
    lengths = [each[0].total("tokens") / counts[name] for name, each in turns.items()]
    if max(lengths) > 1.05 * min(lengths):
        report.notes.append(f"{setting}: **lengths of outputs differ**, ratios of speed mislead")
    report.measurements[str(setting)] = {
        name: [
            {"seconds": t.seconds, "cpu_seconds": t.cpu_seconds, "tokens": t.total("tokens"),
             "sentences": counts[name]}
            for t in each
        ]
        for name, each in turns.items()
    }  # fmt: skip


def _targets(
    setting: Setting, speeds: dict[str, list[float]], bleus: dict[str, float | None]
) -> list[Target]:
    """What this setting is to reach."""

    def ratio(name: str, other: str, wanted: float) -> Target:
        reached = ratios(speeds[name], speeds[other]).median
        return Target(f"{setting}: {name} to {other}", wanted, reached)

    if setting.batch == 1:
        return [ratio("saccade float32", HF, 2.0)]
    found = [
        ratio("saccade float32", HF, 1.3),
        ratio("saccade float32", CT2, 0.9 if setting.beam == 1 else 0.75),
        ratio("saccade int8", HF, 2.0),
    ]
    full, less = bleus["saccade float32"], bleus["saccade int8"]
    if full is not None and less is not None:
        found.append(Target(f"{setting}: BLEU lost by int8", 0.3, full - less, at_most=True))
    return found
