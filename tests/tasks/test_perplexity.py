"""How a text is read when it is measured: what each token has seen before it, by hand."""

from pathlib import Path
from typing import Any

import pytest
import torch
from jaxtyping import Float
from tiny_runs import tiny_text, train, write_text
from torch import Tensor

from saccade.errors import InputError
from saccade.tasks.perplexity import by_place
from saccade.training.model import Model, load

CONTEXT = 16  # of a tiny text
MODELS: dict[str, dict[str, Any]] = {
    "rnn": {"name": "rnn", "cell": "gru", "dim": 8, "layers": 2},
    "transformer-xl": {
        "name": "transformer-xl", "dim": 8, "layers": 2, "heads": 2, "memory": 200,
    },
    "gpt": {"name": "gpt", "dim": 16, "layers": 1, "heads": 2},
}  # fmt: skip
CARRYING = ["rnn", "transformer-xl"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("perplexity")


@pytest.fixture(scope="module")
def models(folder: Path) -> dict[str, Model]:
    """Steep enough that what was read before makes a difference."""
    config = tiny_text([write_text(folder)], {"train": {"steps": 30, "peak_rate": 3e-2}})
    return {
        name: load(train({**config, "model": model}, folder / name)[0])
        for name, model in MODELS.items()
    }


@pytest.fixture(scope="module")
def texts(folder: Path) -> list[str]:
    """Two texts of several contexts, the last of each short."""
    return [write_text(folder, f"{size}.txt", size=size, seed=size) for size in (75, 50)]


def ids_of(model: Model, file: str) -> list[int]:
    tokenizer = model.task.tokenizer
    return [tokenizer.bos, *tokenizer.encode(Path(file).read_text())]


@torch.no_grad()
def nats(model: Model, ids: list[int]) -> Float[Tensor, " T"]:
    """Of each token but the first, all read in one go."""
    module: Any = model.module
    logits = module.logits(module(torch.tensor([ids[:-1]]))[0])[0].double()
    return torch.nn.functional.cross_entropy(logits, torch.tensor(ids[1:]), reduction="none")


@pytest.mark.parametrize("name", CARRYING)
def test_a_carried_state_reads_a_text_as_one(
    models: dict[str, Model], texts: list[str], name: str
) -> None:
    model = models[name]
    wanted = [float(nats(model, ids_of(model, file)).sum()) for file in texts]
    found = model.evaluate(texts)
    assert [each["nats"] for each in found.examples] == pytest.approx(wanted, rel=1e-5)
    apart = load(model.run, changes=["task.carry=false"]).evaluate(texts)
    assert apart.main.value != pytest.approx(found.main.value, rel=1e-3)


@pytest.mark.parametrize("stride", [3, 15])
@pytest.mark.parametrize("name", MODELS)
def test_a_sliding_context_scores_the_tokens_it_moved_by(
    models: dict[str, Model], texts: list[str], name: str, stride: int
) -> None:
    sets = ["task.carry=false", f"task.stride={stride}"]
    model = load(models[name].run, changes=sets)
    wanted = []
    for ids in (ids_of(model, file) for file in texts):
        total = nats(model, ids[: CONTEXT + 1]).sum()
        for scored in range(CONTEXT + 1, len(ids), stride):  # the first of those to score
            end = min(scored + stride, len(ids))
            total += nats(model, ids[end - 1 - CONTEXT : end])[scored - end :].sum()
        wanted.append(float(total))
    found = model.evaluate(texts)
    assert [each["nats"] for each in found.examples] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("name", CARRYING)
def test_places_of_a_carried_context_count_what_came_before(
    models: dict[str, Model], texts: list[str], name: str
) -> None:
    model = models[name]
    task: Any = model.task
    units = task.units(task.examples(texts, lambda _: None))
    found, tokens = by_place(model.module, units, task.reading)
    read = [nats(model, ids_of(model, file)) for file in texts]
    for place in range(CONTEXT):
        here = torch.cat([values[place::CONTEXT] for values in read])
        assert int(tokens[place]) == len(here)
        assert float(found[place]) == pytest.approx(float(here.sum()), rel=1e-5)


@pytest.mark.parametrize("name", ["rnn", "gpt"])
def test_a_text_without_tokens_is_left_out_and_alone_refused(
    texts: list[str], tmp_path: Path, name: str
) -> None:
    """Blank lines are no words; nothing to score would be a perfect score."""
    layers = {"task": {"tokenizer": "words"}, "train": {"steps": 2}}
    config = {**tiny_text(texts, layers), "model": MODELS[name]}
    model = load(train(config, tmp_path / "run")[0])
    blank = tmp_path / "blank.txt"
    blank.write_text("\n\n \n")
    with pytest.raises(InputError, match="no token to score"):
        model.evaluate([str(blank)])
    assert model.evaluate([str(blank), *texts]).metrics[0] == model.evaluate(texts).metrics[0]


def test_what_is_unknown_anywhere_is_lost(models: dict[str, Model]) -> None:
    model = models["gpt"]
    passages = [["abc", n == 0, False] for n in range(120)]
    for last, lossy in (("abc", False), ("aßc", True)):
        assert is_lossy(model, [*passages, [last, False, True]]) == lossy


def is_lossy(model: Model, passages: list[list[Any]]) -> bool:
    examples = {"passages": passages, "ends": True}
    measures = [model.measure(unit) for unit in model.task.units(examples)]
    return "|lossy|" in model.task.score(examples, measures).main.signature


def test_what_a_tokenizer_changes_anywhere_is_lost(texts: list[str], tmp_path: Path) -> None:
    """Small letters for capitals, nothing unknown: also where only the last passage has one."""
    layers = {"task": {"lowercase": True}, "train": {"steps": 2}}
    model = load(train(tiny_text(texts, layers), tmp_path / "run")[0])
    small = [["abc", True, True] for _ in range(120)]
    assert not is_lossy(model, small)
    for passages in ([*small, ["ABC", True, True]], [["ABC", True, True], *small]):
        assert is_lossy(model, passages)


def test_an_end_that_stands_in_for_the_unknown_is_known(texts: list[str], tmp_path: Path) -> None:
    config = tiny_text(texts, {"task": {"tokenizer": "bytes", "ends": True}})
    run, _ = train(config, tmp_path / "run")
    file = run.path / "tokenizer.json"
    file.write_text(file.read_text().replace('"<unk>"', '"<none>"'))
    model = load(run)
    assert model.task.tokenizer.unk == model.task.tokenizer.eos
    (tmp_path / "t.jsonl").write_text('{"text": "abc"}\n' * 3)
    found = model.evaluate([str(tmp_path / "t.jsonl")])
    assert (found.counts["tokens"], found.counts["unknown tokens"]) == (12, 0)
    assert "lossy" not in found.main.signature
