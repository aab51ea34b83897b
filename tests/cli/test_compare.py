"""saccade compare as a command, and what eval keeps for it."""

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.conftest import Said
from stored_runs import evaluation, sentences, write_run

from saccade.cli import evaluate
from saccade.cli.compare import CompareFlags
from saccade.inspection import comparison
from saccade.inspection.comparison import compare
from saccade.models.transformer import Transformer
from saccade.tasks.task import Plain
from saccade.training import pool

Saccade = Callable[..., Said]


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    return [write_run(tmp_path / name, share) for name, share in {"one": 0.1, "two": 0.6}.items()]


def test_the_table(saccade: Saccade, two: list[Path]) -> None:
    said = saccade("compare", *two)
    assert (said.code, said.err) == (0, "")
    found = compare(two)
    lines = said.out.splitlines()
    assert lines[0] == "Quality on dev, 60 examples"
    quality, costs, lengths = (
        [line for line in lines if line.startswith("two ")][number] for number in range(3)
    )
    assert f"{found.runs[1].main.value:.2f} ±" in quality
    assert f"{found.runs[1].main.difference.value:+.1f} (" in quality  # type: ignore[union-attr]
    assert "0.001*" in quality
    assert costs.split() == ["two", "transformer", "13", "1:32", "500", "–"]
    assert [float(cell) for cell in lengths.split()[1:-1]] == [
        pytest.approx(value, abs=0.05) for value in found.runs[1].by_length or []
    ]
    assert "nrefs:1|case:mixed" in said.out
    assert all(line == line.rstrip() for line in lines)


def test_losses_have_the_digits_in_which_they_differ(saccade: Saccade, tmp_path: Path) -> None:
    """Two language models a hundredth of a nat apart, on passages."""
    texts, folders = sentences(), []
    for name, share in {"one": 1.88, "two": 1.9}.items():
        rows = [
            {"text": text, "tokens": len(text), "nats": len(text) * (share + 0.001 * len(text))}
            for text in texts
        ]
        value = sum(row["nats"] for row in rows) / sum(row["tokens"] for row in rows)
        loss = {"value": value, "signature": "unit:nats/token", "better": "smaller"}
        dev = {"metrics": {"loss": loss}, "by_example": rows}
        folders.append(write_run(tmp_path / name, task="generate", dev=dev))
    said, found = saccade("compare", *folders), compare(folders)
    quality, _, lengths = [line for line in said.out.splitlines() if line.startswith("two ")]
    (one, two), interval = found.runs, found.runs[1].main.interval
    assert interval is not None
    half = (interval.high - interval.low) / 2
    assert f"{two.main.value:.3f} ± {half:.3f}" in quality
    assert "+0.020 (+0.020 to +0.020)" in quality
    assert lengths.split()[1:-1] == [f"{value:.3f}" for value in two.by_length or []]
    assert one.by_length is not None
    assert f"+{one.by_length[-1] - one.by_length[0]:.3f}" in said.out
    assert "loss by length: words in the passage (passages)" in said.out
    assert "source" not in said.out


def test_a_narrow_terminal_cuts_no_number(
    saccade: Saccade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    long = write_run(tmp_path / ("a-long-name" * 9))
    said = saccade("compare", long)
    assert said.out.count(long.name) == 3
    assert "…" not in said.out


def test_one_run_alone(saccade: Saccade, two: list[Path]) -> None:
    said = saccade("compare", two[0])
    assert said.code == 0, said.err
    assert "Δ" not in said.out


def test_json_and_charts(saccade: Saccade, two: list[Path], tmp_path: Path) -> None:
    said = saccade("compare", *two, "--json", "--buckets", "2", "--out", tmp_path / "charts")
    assert said.code == 0, said.err
    answer = json.loads(said.out)
    assert [run["name"] for run in answer["runs"]] == ["one", "two"]
    assert sum(bucket["examples"] for bucket in answer["buckets"]) == answer["examples"] == 60
    assert len(answer["buckets"]) == 2
    assert (tmp_path / "charts" / "by-length.svg").is_file()
    assert "overview.png" in said.err


def test_refusals(saccade: Saccade, two: list[Path], tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", dev=evaluation(sentences(9), 0.1))
    said = saccade("compare", two[0], other)
    assert (said.code, said.out) == (2, "")
    assert "different data (60 examples and 9)" in said.err
    assert saccade("compare", tmp_path / "nothing").code == 2
    assert saccade("compare").code == 2


def test_help_states_the_defaults_that_hold() -> None:
    import inspect
    import re

    stated = re.findall(
        r'(\w+): Whole \| None = None\n    """[^"]*\[default: (\d+)\]',
        inspect.getsource(CompareFlags),
    )
    defaults = inspect.signature(compare).parameters
    assert len(stated) == 3
    assert all(defaults[name].default == int(value) for name, value in stated)


def test_eval_keeps_how_fast_it_was(saccade: Saccade, run_folder: Path, corpus: Path) -> None:
    data = ["--data", corpus / "dev.en", corpus / "dev.de", "--beam", "1", "--name", "speed"]
    said = saccade("eval", run_folder, *data)
    assert said.code == 0, said.err
    assert " examples/s" in said.out
    kept = json.loads((run_folder / "evals" / "speed.json").read_text())
    assert kept["examples_per_second"] == pytest.approx(4 / kept["seconds"])
    answer = json.loads(saccade("compare", run_folder, "--eval", "speed", "--json").out)
    assert answer["runs"][0]["examples_per_second"] == kept["examples_per_second"]
    assert answer["runs"][0]["parameters"] > 1000


@pytest.mark.parametrize(
    "flag",
    [("--links", "mutual"), ("--layer", "mean"), ("--step", "reads"), ("--counted-from", "0")],
)
def test_flags_of_links_are_refused_without_alignments(
    saccade: Saccade, run_folder: Path, corpus: Path, flag: tuple[str, str]
) -> None:
    said = saccade("eval", run_folder, "--data", corpus / "dev.en", corpus / "dev.de", *flag)
    assert said.code == 2
    assert f"{flag[0]} needs --alignments" in said.err


def test_eval_scores_attention_by_gold_links(
    saccade: Saccade,
    run_folder: Path,
    corpus: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sources = (corpus / "dev.en").read_text().splitlines()
    counts = [len(line.split()) for line in sources]
    gold, short = tmp_path / "gold", tmp_path / "short"
    lines = [" ".join(f"{word + 1}-{word + 1}" for word in range(count)) for count in counts]
    gold.write_text("".join(line + "\n" for line in lines))
    short.write_text("1-1\n")
    data = ["--data", corpus / "dev.en", corpus / "dev.de", "--beam", "1", "--name", "gold"]
    call = ["eval", run_folder, *data, "--counted-from", "1", "--alignments"]
    answer = json.loads(saccade(*call, gold, "--json", "--links", "argmax").out)
    rate = answer["metrics"]["AER"]
    assert 0 <= rate["value"] <= 1
    assert rate["signature"] == "links:argmax|layer:mean|step:predicts"
    kept = json.loads((run_folder / "evals" / "gold.json").read_text())
    hits, links = (
        sum(example[f"alignment_{what}"] for example in kept["by_example"])
        for what in ("hits", "links")
    )
    assert rate["value"] == pytest.approx(1 - hits / links)
    assert links == 2 * sum(counts)  # arg max: a link for each target word, as many as gold has
    late = saccade(*call, gold, "--step", "reads", "--layer", "decoder.0.cross_attention")
    assert "step:reads" in late.out
    assert "has links for 1 pairs, but there are 4" in saccade(*call, short).err
    assert "no attention layer 'last'" in saccade(*call, gold, "--layer", "last").err
    from_zero = saccade("eval", run_folder, *data, "--alignments", gold)
    assert f"line 1: a link names source word {counts[0]}" in from_zero.err
    with monkeypatch.context() as patch:  # nothing is decoded before all is known to be right
        patch.setattr(evaluate, "score_all", lambda *_: pytest.fail("decoded too early"))
        empty = tmp_path / "empty"
        empty.write_text("\n" * len(counts))
        assert "empty: no links to score" in saccade(*call, empty).err
        patch.setattr(Transformer, "limit", 3)
        assert "pair 1 has" in saccade(*call, gold).err
        built = saccade(*call, "builtin:english-french/test").err
        assert "--counted-from 1: builtin:english-french/test counts its words from 0" in built
    monkeypatch.setattr(comparison, "FEWEST", 4)
    rates = {run["scores"][2]["name"]: run for run in compare([run_folder], "gold").json()["runs"]}
    assert rates["AER"]["scores"][2]["interval"] is not None


def test_a_file_is_no_place_for_the_charts_which_is_said_first(
    saccade: Saccade, run_folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "notes").write_text("mine")
    said = saccade("compare", run_folder, run_folder, "--out", tmp_path / "notes")
    assert (said.code, said.out) == (2, "")
    assert "is a file; name a folder" in said.err


@pytest.mark.serial
def test_workers_are_ready_before_the_clock_starts(
    saccade: Saccade, run_folder: Path, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = ["--data", corpus / "dev.en", corpus / "dev.de", "--beam", "1", "--json"]
    call = ["eval", run_folder, *data, "--name", "workers", "--workers"]
    one = json.loads(saccade(*call, 1).out)
    events: list[object] = []
    ask = pool._Worker.ask

    def answered(worker: pool._Worker, duty: Plain) -> Plain:
        answer = ask(worker, duty)
        events.append(worker.number)
        return answer

    class Clock:
        def monotonic(self) -> float:
            events.append("clock")
            return time.monotonic()

    monkeypatch.setattr(pool._Worker, "ask", answered)
    monkeypatch.setattr(evaluate, "time", Clock())
    two = json.loads(saccade(*call, 2).out)
    assert one["metrics"] == two["metrics"]
    first, last = (at for at, event in enumerate(events) if event == "clock")
    assert sorted(events[:first]) == [1, 2]  # each has answered, so it has its model
    assert events[first + 1 : last]
    assert last == len(events) - 1
