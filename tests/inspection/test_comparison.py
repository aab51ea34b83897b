"""Runs side by side, from folders that no training made: numbers, refusals, charts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from stored_runs import evaluation, sentences, write_run

import saccade
from saccade.errors import InputError
from saccade.inspection.charts import (
    Bar,
    bar_columns,
    learning_curves,
    loss_by_place,
    quality_by_length,
)
from saccade.inspection.comparison import compare, decimal, rounded
from saccade.inspection.resampling import Interval, length_buckets
from saccade.inspection.stored import distinct, read_runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [write_run(folder / name, share) for name, share in {"good": 0.05, "bad": 0.5}.items()]


@pytest.fixture(scope="module")
def found(runs):
    return saccade.compare(runs, rounds=200)


def test_what_is_stored_is_compared(found, runs):
    good, bad = found.runs
    assert (found.evaluation, found.examples, found.metric) == ("dev", 60, "BLEU")
    assert (good.name, bad.name) == ("good", "bad")
    stored = json.loads((runs[0] / "evals" / "dev.json").read_text())
    assert good.main.value == stored["metrics"]["BLEU"]["value"]
    assert [score.name for score in good.scores] == ["BLEU", "chrF2"]
    assert good.parameters == 13  # 3 x 4 and one
    assert good.training_seconds == 92
    assert good.training_tokens_per_second == 500  # the evaluation between two lines is left out
    assert good.examples_per_second is None
    assert [point.value for point in good.losses] == [5.0, 4.0, 3.0]
    assert [(point.step, point.minutes, point.value) for point in good.dev_curve] == [
        (20, 1.5, 12.5)
    ]


def test_the_first_is_what_the_others_are_held_to(found):
    good, bad = found.runs
    assert good.main.difference is None
    apart = bad.main.difference
    assert apart.value == pytest.approx(bad.main.value - good.main.value)
    assert apart.interval.low < apart.value < apart.interval.high < 0
    assert apart.p == pytest.approx(1 / 201)
    assert good.main.interval.low < good.main.value < good.main.interval.high
    assert good.scores[1].interval is None  # chrF2 is not recomputed
    assert found.best("BLEU") == "good"


def test_less_of_an_error_is_better(tmp_path):
    rates = {"a": 0.3, "b": 0.2}
    for name, rate in rates.items():
        kept = evaluation(sentences(), 0.1)
        kept["metrics"]["AER"] = {"value": rate, "signature": "x", "better": "smaller"}
        write_run(tmp_path / name, dev=kept)
    assert compare([tmp_path / name for name in rates], rounds=10).best("AER") == "b"


def test_a_metric_says_what_is_better_and_may_be_beyond_numbers(tmp_path):
    values = {"a": None, "b": 3.0, "c": 2.0}
    for name, value in values.items():
        kept = {"loss": {"value": value, "signature": "x", "better": "smaller"}}
        rows = [{"text": "a b", "nats": value, "tokens": 1}]
        write_run(tmp_path / name, dev={"metrics": kept, "by_example": rows})
    found = compare([tmp_path / name for name in values], rounds=10)
    assert found.best("loss") == "c"
    assert found.runs[0].main.value is None
    assert all(run.main.interval is None for run in found.runs)
    assert found.save(tmp_path / "charts")


def test_lengths_add_up(found):
    assert sum(len(bucket.places) for bucket in found.buckets) == found.examples
    assert len(found.buckets) == len(found.runs[0].by_length) == 4
    plain = found.json()
    assert [bucket["examples"] for bucket in plain["buckets"]] == [
        len(bucket.places) for bucket in found.buckets
    ]
    assert json.loads(json.dumps(plain)) == plain


def test_the_same_seed_gives_the_same_numbers(found, runs):
    assert compare(runs, rounds=200) == found
    assert compare(runs, rounds=200, seed=2).runs[1].main.interval != found.runs[1].main.interval


def test_other_data_is_refused(tmp_path, runs):
    fewer = write_run(tmp_path / "fewer", dev=evaluation(sentences(50), 0.1))
    with pytest.raises(InputError, match=r"'dev' on different data \(60 examples and 50\)"):
        compare([runs[0], fewer])
    other = write_run(tmp_path / "other", dev=evaluation(sentences(60, seed=2), 0.1))
    with pytest.raises(InputError, match=r"example 1 is '.*' and '.*saccade eval RUN --data"):
        compare([runs[0], other])
    task = write_run(tmp_path / "task", task="generate")
    with pytest.raises(InputError, match=r"a run of translate, .* of generate"):
        compare([runs[0], task])


def test_evaluations_are_found_by_name_or_the_newest_in_common(tmp_path):
    scores = evaluation(sentences(), 0.1)
    a = write_run(tmp_path / "a", old=scores, new=scores)
    b = write_run(tmp_path / "b", old=scores, new=scores, own=scores)
    for run in (a, b):
        os.utime(run / "evals" / "old.json", (1, 1))
    assert compare([a, b], rounds=2).evaluation == "new"
    assert compare([a, b], "old", rounds=2).evaluation == "old"
    with pytest.raises(InputError, match=r"no evaluation 'nwe'; did you mean 'new'.*--name nwe"):
        compare([a, b], "nwe")
    (b / "evals" / "old.json").unlink()
    (b / "evals" / "new.json").unlink()
    with pytest.raises(InputError, match=r"no evaluation in common \(a: new, old; b: own\)"):
        compare([a, b])


def test_what_is_no_run_is_told(tmp_path, runs):
    with pytest.raises(InputError, match="no runs to compare"):
        compare([])
    with pytest.raises(InputError, match="is named twice"):
        compare([runs[0], runs[0]])
    with pytest.raises(InputError, match=r"it holds runs, name those: .*bad .*good"):
        compare([runs[0].parent])
    (tmp_path / "config.toml").write_text("[tool]\n")
    with pytest.raises(InputError, match="of another kind"):
        compare([tmp_path])
    broken = write_run(tmp_path / "broken")
    (broken / "evals" / "dev.json").write_text("{")
    with pytest.raises(InputError, match=r"dev\.json: not JSON"):
        compare([broken])
    (broken / "evals" / "dev.json").write_text('{"metrics": {}}')
    with pytest.raises(InputError, match="no metrics by example"):
        compare([broken])
    with pytest.raises(InputError, match="0 rounds"):
        compare(runs, rounds=0)


def test_a_run_without_log_and_weights_has_dashes(tmp_path, runs):
    bare = write_run(tmp_path / "bare")
    (bare / "metrics.jsonl").unlink()
    (bare / "model.safetensors").unlink()
    run = compare([runs[0], bare], rounds=2).runs[1]
    assert (run.parameters, run.training_seconds, run.training_tokens_per_second) == (None,) * 3
    assert (run.losses, run.dev_curve) == ([], [])
    (bare / "metrics.jsonl").write_text('{"step": 1, "seconds": 3.0, "loss": 2.0}\n{"step": 2, "se')
    assert read_runs([bare])[0].seconds == 3.0
    assert [rounded(value) for value in (None, 0.5, 33.33, 7770.7, 12345, 1510400)] == [
        *("–", "0.5", "33.3", "7,771", "12.3 k", "1.51 M")
    ]
    assert [decimal(each) for each in (85.251, 1.8824, 0.1418)] == ["85.25", "1.882", "0.142"]


def test_names_tell_runs_apart():
    assert distinct([Path("a/x"), Path("b/y")]) == ["x", "y"]
    assert distinct([Path("a/x"), Path("b/x")]) == ["a/x", "b/x"]
    with pytest.raises(InputError, match=r"^a/x is named twice"):
        distinct([Path("a/x"), Path("a/../a/x")])


def test_ways_of_decoding_that_differ_are_noted(tmp_path):
    scores = evaluation(sentences(), 0.1)
    runs = [
        write_run(tmp_path / str(beam), dev={**scores, "decoding": {"beam": beam, "choices": None}})
        for beam in (1, 5)
    ]
    assert compare(runs, rounds=2).notes == ["decoded with different beam: 1, 5"]


def test_a_handful_of_examples_says_nothing_about_how_sure_a_score_is(tmp_path):
    few = ["the old man sees a house", "a dog eats", "the cat"]
    runs = [
        write_run(tmp_path / str(n), dev=evaluation(few, share)) for n, share in ((1, 0), (2, 1))
    ]
    told = compare(runs, rounds=50)
    assert told.notes == ["3 examples: too few to say how sure a score is"]
    assert {(run.main.interval, run.main.difference) for run in told.runs} == {(None, None)}


def test_no_difference_is_told_of_what_was_not_computed_alike(tmp_path):
    scores = [evaluation(sentences(), share) for share in (0.1, 0.9)]
    scores[1]["metrics"]["BLEU"]["signature"] += "|another"
    runs = [write_run(tmp_path / str(n), dev=each) for n, each in enumerate(scores)]
    told = compare(runs, rounds=50)
    assert "BLEU was not computed alike" in told.notes[0]
    assert told.runs[1].main.interval is not None
    assert told.runs[1].main.difference is None


def test_charts_show_every_run(found, tmp_path):
    drawn = found.save(tmp_path / "charts")
    names = {path.name for path in drawn}
    assert names == {
        f"{n}{s}" for n in ("overview", "learning", "by-length") for s in (".png", ".svg")
    }
    for path in drawn:
        if path.suffix == ".svg":
            text = path.read_text("utf-8")
            assert ">good<" in text
            assert ">bad<" in text
        else:
            assert path.read_bytes().startswith(b"\x89PNG")


def test_charts_without_numbers_are_refused():
    with pytest.raises(InputError, match="no bars"):
        bar_columns([], {})
    with pytest.raises(InputError, match="no learning curve"):
        learning_curves({"a": []}, {"a": []}, "BLEU")
    with pytest.raises(InputError, match="no buckets"):
        quality_by_length({"a": []}, [], "BLEU")


def test_odd_numbers_are_drawn():
    bars = [Bar(None, "–"), Bar(0.0, "0"), Bar(2.0, "2", Interval(1.0, 3.0))]
    assert bar_columns(["a", "b", "$c$"], {"x": bars}, "title")
    assert loss_by_place({"a": [3.0, 2.0], "b": [2.5, 2.0]})
    with pytest.raises(InputError, match="no loss by place"):
        loss_by_place({"a": []})
    assert quality_by_length({"a": [0.0]}, length_buckets([3, 3], 1), "BLEU", 20)


def test_a_curve_of_one_point_is_seen():
    [single, line] = loss_by_place({"a": [3.0], "b": [2.5, 2.0]}).axes[0].lines
    assert single.get_marker() == "o"
    assert line.get_marker() == ""


@pytest.mark.serial
def test_comparing_needs_no_torch(runs):
    code = (
        "import sys, saccade\n"
        f"saccade.compare({[str(run) for run in runs]!r}, rounds=2)\n"
        "print('torch' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(saccade.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.stdout == "False\n", done.stderr
