"""What metrics.jsonl says of the work done, in one sitting or in two."""

from pathlib import Path

from tiny_runs import tiny, train, write_corpus

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
