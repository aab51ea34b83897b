"""The studies in experiments/, cut short: the same code on a handful of sentences."""

import gzip
import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import saccade
from saccade.config import read_toml
from saccade.data import english_french, readers
from saccade.data.grammar import Pair
from saccade.errors import InputError
from saccade.inspection.alignment_error import read_gold
from saccade.training.settings import resolve

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
TINY = [
    *("model.dim=8", "train.batch_tokens=256", "train.processes=1", "train.threads=1"),
    *("train.eval_every=1000",),
]


def script(name: str) -> ModuleType:
    """A script of an experiment as a module."""
    spec = importlib.util.spec_from_file_location(Path(name).stem, EXPERIMENTS / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> list[Pair]:
    """A built-in corpus of the sentences that lectures show."""
    corpus = ModuleType("few_sentences")
    pairs = english_french.lecture_pairs()
    monkeypatch.setattr(corpus, "pairs", lambda _: pairs, raising=False)
    monkeypatch.setitem(sys.modules, "few_sentences", corpus)
    monkeypatch.setitem(readers.BUILTIN, "few-sentences", "few_sentences")
    return pairs


def test_the_sweep_prints_a_row_for_each_combination_and_skips_only_what_is_done(
    few: list[Pair], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweep = script("scores/sweep.py")

    def again(steps: int) -> str:
        sweep.sweep(
            out=tmp_path,
            steps=steps,
            scores=["dot", "additive"],
            weightings=["soft"],
            attentions=["global"],
            corpus="builtin:few-sentences",
            set_=[*TINY, "train.average=2"],  # so that a longer training has other weights
        )
        said = capsys.readouterr()
        assert {line.split()[0] for line in said.out.splitlines()} >= {
            "dot-soft-global",
            "additive-soft-global",
        }
        assert re.search(r"BLEU +± +AER +training tokens/s", said.out)
        return said.err

    assert again(1).count("saccade eval") == 2
    kept = json.loads((tmp_path / "dot-soft-global" / "evals" / "test.json").read_text())
    assert len(kept["by_example"]) == len(few)
    assert 0 <= kept["metrics"]["AER"]["value"] <= 1
    assert "saccade eval" not in again(1)
    assert again(2).count("saccade eval") == 2  # trained longer: the old scores are not of it
    assert "saccade eval" not in again(2)


def test_length_is_studied_with_and_without_a_cap(
    few: list[Pair], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lengths = script("lengths/lengths.py")
    few_words = [*TINY, "task.vocab_size=30"]
    lengths.lengths(out=tmp_path, steps=1, cap=6, corpus="builtin:few-sentences", set_=few_words)
    said = capsys.readouterr().out
    assert said.count("from the shortest to the longest quarter BLEU falls by") == 1  # not capped
    unknown = re.findall(
        r"unknown words in the test: (.+)% of the source, (.+)% of the target", said
    )
    assert len(unknown) == 2
    assert min(float(share) for shares in unknown for share in shares) > 0
    assert "trained on sources of up to 6 words" in said
    learned = (tmp_path / "up-to-6.source").read_text("utf-8").splitlines()
    assert learned == [pair.source for pair in few if len(pair.source.split()) <= 6]
    assert 0 < len(learned) < len(few)
    tested = json.loads((tmp_path / "up-to-6" / "attention" / "evals" / "test.json").read_text())
    assert len(tested["by_example"]) == len(few)
    assert "longest in training: 6" in (tmp_path / "by-length-up-to-6.svg").read_text("utf-8")


def test_a_cap_below_every_source_is_refused(few: list[Pair], tmp_path: Path) -> None:
    shortest = min(len(pair.source.split()) for pair in few)
    with pytest.raises(InputError, match=f"--cap {shortest - 1}: every source of"):
        script("lengths/lengths.py").capped("builtin:few-sentences/train", shortest - 1, tmp_path)


def test_gold_links_are_exported_and_read_back(few: list[Pair], tmp_path: Path) -> None:
    gold = script("alignments/gold.py")
    gold.export("builtin:few-sentences/test", tmp_path / "few")
    found = read_gold(str(tmp_path / "few.gold"))
    assert [each.sure for each in found] == [set(pair.alignment) for pair in few]
    assert [each.target for each in found] == [pair.target_words for pair in few]
    assert (tmp_path / "few.source").read_text("utf-8").splitlines() == [p.source for p in few]

    (tmp_path / "hand").write_text("a b ||| c ||| 1-1 2p1\n")
    gold.export(str(tmp_path / "hand"), tmp_path / "mine", counted_from=1)
    assert (tmp_path / "mine.gold").read_text() == "a b ||| c ||| 0-0 1p0\n"
    assert (tmp_path / "mine.source").read_text() == "a b\n"
    (tmp_path / "bare").write_text("0-0\n")
    with pytest.raises(InputError, match="line 1 has links alone"):
        gold.export(str(tmp_path / "bare"), tmp_path / "none")


@pytest.fixture
def captions(
    few: list[Pair], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, list[str]]:
    """A folder of data with a Multi30k of the sentences that lectures show; its training texts."""
    english, foreign = ([getattr(pair, side) for pair in few] for side in ("source", "target"))
    texts = {"en": english, "de": foreign, "fr": foreign}
    monkeypatch.setenv("SACCADE_DATA", str(tmp_path / "data"))
    (tmp_path / "data" / "multi30k").mkdir(parents=True)
    for split in ("train", "val", "test_2016_flickr"):
        for side, lines in texts.items():
            place = tmp_path / "data" / "multi30k" / f"{split}.{side}.gz"
            place.write_bytes(gzip.compress("".join(line + "\n" for line in lines).encode()))
    return texts


def test_the_recipe_goes_on_where_it_was_interrupted_and_does_nothing_twice(
    captions: dict[str, list[str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = script("multi30k/run.py")
    monkeypatch.setattr(recipe, "PAIRS", 4)
    known = recipe.must

    def until_the_backward_model_translates(*words: object) -> None:
        if words[0] == "predict" and str(words[-1]).endswith("backward.en"):
            raise KeyboardInterrupt
        known(*words)

    monkeypatch.setattr(recipe, "must", until_the_backward_model_translates)
    with pytest.raises(KeyboardInterrupt):
        recipe.recipe(target="de", out=tmp_path / "runs", quick=True)
    assert capsys.readouterr().err.count("2 steps in") == 3

    (tmp_path / "runs").rename(tmp_path / "elsewhere")
    monkeypatch.setattr(recipe, "must", known)
    folder = tmp_path / "elsewhere" / "quick" / "en-de"
    recipe.recipe(target="de", out=tmp_path / "elsewhere", quick=True)
    said = capsys.readouterr()
    assert said.err.count("is finished; nothing to do") == 3
    worked = re.findall(r"^saccade (predict|eval) \S+/([\w-]+) ", said.err, re.MULTILINE)
    assert worked == [("predict", "backward"), ("eval", "diversified")]
    scores = said.out.partition("English to German, test_2016_flickr, beam 5:\n")[2]
    published, without, cased = scores.splitlines()
    assert re.match(
        r"BLEU \(lowercased Moses tokens\), as published \d.*case:lc.*tok:none", published
    )
    assert re.match(r"BLEU \(detokenised, without case\) \d.*case:lc.*tok:13a", without)
    assert re.match(r"BLEU \(detokenised, cased: .*\) \d.*case:mixed.*tok:13a", cased)

    def lines(name: str) -> list[str]:
        return (folder / name).read_text("utf-8").splitlines()

    english, german = (captions[side][:4] for side in ("en", "de"))
    assert lines("both.source") == english + german
    assert lines("both.target") == german + english
    assert lines("diverse.source") == english + english + lines("backward.en")
    assert lines("diverse.target") == german + lines("forward.de") + german
    begun = {
        name: saccade.Run(folder / name).init for name in ("forward", "backward", "diversified")
    }
    assert {Path(init or "").name for init in begun.values()} == {"both-directions"}

    recipe.recipe(target="de", out=tmp_path / "elsewhere", quick=True)
    again = capsys.readouterr()
    assert again.out.endswith(scores)
    assert again.err.count("is finished; nothing to do") == 4
    assert not re.search(r"^saccade (predict|eval)", again.err, re.MULTILINE)


@pytest.mark.parametrize(("target", "updates"), [("de", 28_000), ("fr", 20_000)])
def test_the_recipe_takes_its_numbers_from_its_files(
    target: str,
    updates: int,
    captions: dict[str, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe, given = script("multi30k/run.py"), []

    def must(verb: str, *words: object) -> None:
        given.append((verb, list(map(str, words))))
        if verb == "predict":
            Path(given[-1][1][-1]).write_text("".join(f"{line}\n" for line in captions["en"]))

    monkeypatch.setattr(recipe, "must", must)
    monkeypatch.setattr(recipe, "report", lambda _: None)
    recipe.recipe(target=target, out=tmp_path, quick=False)
    assert [verb for verb, _ in given] == [*["train"] * 3, *["predict"] * 2, "train", "eval"]
    assert all("data:multi30k/val.en.gz" in words for verb, words in given if verb == "train")
    assert given[-1][1][-6:] == ["--moses", target, "--beam", "5", "--name", "test"]
    told = []
    for words in (words for verb, words in given if verb == "train"):
        flags = {
            word: words[place + 1] for place, word in enumerate(words[:-1]) if word[:2] == "--"
        }
        assert flags.keys() <= {"--config", "--train", "--dev", "--steps", "--init", "--out"}
        settings = resolve(read_toml(Path(flags["--config"])))
        train, task = settings.train, settings.task
        same = (settings.preset, task.lowercase, task.vocab_size, train.optimizer.weight_decay)
        assert same == ("tiny", True, 4000, 0.05)
        how = (settings.model["dropout"], task.agreement, train.batch_tokens)
        told.append((int(flags.get("--steps", train.steps)), *how, train.peak_rate, train.warmup))
    assert told == [
        (7_000, 0.25, 0, 2304, 6e-3, 600),
        (updates, 0.25, 3, 1536, 4.2e-3, 200),
        (2_800, 0.25, 0, 2304, 4.2e-3, 200),
        (15_000, 0.2, 0, 2304, 4.2e-3, 200),
    ]
