"""What metrics.jsonl says of the work done, in one sitting or in two."""

from pathlib import Path

import pytest
from tiny_runs import tiny, train, write_corpus

from saccade.config import override
from saccade.inspection.stored import read_runs
from saccade.training.model import load


def test_tokens_are_counted_over_sittings(tmp_path: Path) -> None:
    files = write_corpus(tmp_path)
    counts: list[int] = []
    config = tiny(files, {"train": {"steps": 20}})
    whole, _ = train(config, tmp_path / "a", update=lambda _, update: counts.append(update.count))
    first, second = ([line["tokens"] for line in whole.metrics()][n] for n in range(2))
    assert (first, second) == (sum(counts[:10]), sum(counts))

    train(tiny(files, {"train": {"steps": 10}}), tmp_path / "b")
    resumed, _ = train(config, tmp_path / "b", resume=True)
    assert [line["tokens"] for line in resumed.metrics()] == [first, second]
    (stored,) = read_runs([whole.path])
    assert stored.tokens_per_second is not None
    assert stored.parameters == sum(
        parameter.numel() for parameter in load(whole).module.parameters()
    )


@pytest.mark.parametrize(
    "line", [b"\xff\xfe{}", b'{"step": "3"}', b'{"step": 3, "seconds": "x"}', b'{"step": true}',
             b'{"step": 3, "loss": null}', b"[" * 100_000, b"7"],
)  # fmt: skip
def test_a_damaged_line_is_passed_over(tmp_path: Path, line: bytes) -> None:
    config = tiny(write_corpus(tmp_path), {"train": {"steps": 20}})
    run, _ = train(config, tmp_path / "run")
    whole = run.metrics()
    with (run.path / "metrics.jsonl").open("ab") as file:
        file.write(line + b"\n")
    assert run.metrics() == whole
    (stored,) = read_runs([run.path])
    assert stored.seconds == whole[-1]["seconds"]
    longer, _ = train(override(config, ["train.steps=30"]), run.path, resume=True)
    assert [each["step"] for each in longer.metrics()] == [10, 20, 30]
