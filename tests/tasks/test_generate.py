"""Generate: texts in, one continuation a prompt out, measured the same however the work is cut."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_runs import tiny_text, train, write_text

from saccade.blocks.recording import attentions
from saccade.config import override
from saccade.data.documents import Documents, Passage
from saccade.data.tokenizers import train_tokenizer
from saccade.decoding.options import DecodeOptions
from saccade.decoding.tree import BeamTree
from saccade.errors import InputError
from saccade.inspection.explain import explain
from saccade.tasks import perplexity, vocabularies
from saccade.tasks.perplexity import Reading, by_place, language_metrics
from saccade.training.model import Model, load

ODD = [
    "a b", "", " ", "\n", "a\x00b", "\u2028", "🙂 👩‍👩‍👧", "</s>", "<pad><s>", "\ufeffa", "zzz",
    "a\rb", "abc " * 60,
]  # fmt: skip
GREEDY = DecodeOptions(beam=1, length=6)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return [write_text(tmp_path_factory.mktemp("text"))]


@pytest.fixture(scope="module")
def model(files: list[str], tmp_path_factory: pytest.TempPathFactory) -> Model:
    out = tmp_path_factory.mktemp("runs") / "run"
    return load(train(tiny_text(files, {"train": {"steps": 20}}), out)[0])


@pytest.fixture(scope="module")
def ending(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """Learned from documents, which end."""
    folder = tmp_path_factory.mktemp("rows")
    rows = [json.dumps({"text": "ab" * (1 + n % 3)}) + "\n" for n in range(60)]
    (folder / "rows.jsonl").write_text("".join(rows))
    config = tiny_text([str(folder / "rows.jsonl")], {"train": {"steps": 150, "peak_rate": 1e-2}})
    return load(train(config, folder / "run")[0])


# --- measuring ---------------------------------------------------------------------------------


class Fixed(torch.nn.Module):
    """Says of every text that the token after t is t + 1 with probability 3/4, else any other."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.config = type("Config", (), {"vocab_size": size})
        self.calls: list[tuple[int, ...]] = []

    def forward(self, tokens: torch.Tensor, carry: Any = None) -> tuple[torch.Tensor, Any]:
        self.calls.append(tuple(tokens.shape))
        return tokens.unsqueeze(-1).float(), tokens[:, -1:] if carry is None else carry

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        size = self.config.vocab_size
        found = torch.full((len(hidden), size), math.log(0.25 / (size - 1)))
        return found.scatter(1, (hidden.long() + 1) % size, math.log(0.75))


def test_metrics_by_hand() -> None:
    """8 nats over 4 tokens, 2 words and 8 characters."""
    counts = {"tokens": 4, "words": 2, "characters": 8}
    loss, perplexity_, bits = language_metrics(8.0, counts, "how")
    assert (loss.value, loss.better) == (2.0, "smaller")
    assert perplexity_.value == pytest.approx(math.exp(4))
    assert bits.value == pytest.approx(1 / math.log(2))
    assert language_metrics(1e6, counts, "")[1].value == math.inf


READINGS = [Reading(8, stride, carry=False) for stride in (8, 3, 1)] + [Reading(8, 8, carry=True)]


@pytest.mark.parametrize("reading", READINGS, ids=str)
@pytest.mark.parametrize("size", [1, 7, 8, 9, 50, 64])
def test_every_token_counts_once(reading: Reading, size: int) -> None:
    tokenizer = train_tokenizer("characters", ["abcdefgh"], 20)
    texts = ["abcdefgh"[n % 8] for n in range(size)]
    passages = [
        Passage("".join(texts[:5]), first=True, last=size <= 5),
        *([Passage("".join(texts[5:]), first=False, last=True)] if size > 5 else []),
        Passage("h", first=True, last=True),
    ]
    work = perplexity.units(passages, tokenizer, reading, ends=False)
    found = [perplexity.measure(Fixed(12), unit, reading, tokenizer.unk) for unit in work]
    evaluation = perplexity.score(passages, found, reading)
    assert evaluation.counts["tokens"] == evaluation.counts["characters"] == size + 1
    # Ids follow each other, but for the first of both texts and after each h.
    surprises = 2 + (size - 1) // 8
    wanted = -(size + 1 - surprises) * math.log(0.75) - surprises * math.log(0.25 / 11)
    assert evaluation.main.value * (size + 1) == pytest.approx(wanted)
    assert str(reading) in evaluation.main.signature
    by_passage = [example["tokens"] for example in evaluation.examples]
    assert by_passage == [len(passage.text) for passage in passages]


def test_a_sliding_context_sees_more_and_a_carried_one_all(model: Model, files: list[str]) -> None:
    """By a chance of the model it may help or not; what it may not do is change what is counted."""
    losses = {}
    for sets in ((), ("task.stride=1",), ("task.stride=5",)):
        found = load(model.run, changes=sets).evaluate(files)
        losses[sets] = found.main.value
        assert found.counts == model.evaluate(files).counts
    assert len(set(losses.values())) == 3


def test_the_loss_is_that_of_reading_by_hand(model: Model, tmp_path: Path) -> None:
    """Context by context, each with the last token of the one before as its first; one is short."""
    text = "abc bca\ncab abc " * 3 + "ab"
    (tmp_path / "t.txt").write_text(text)
    ids = [model.task.tokenizer.bos, *model.task.tokenizer.encode(text)]
    total = 0.0
    for start in range(0, len(ids) - 1, 16):
        window = torch.tensor([ids[start : start + 17]])
        with torch.no_grad():
            logits = model.module.logits(model.module(window[:, :-1])[0])
        total += float(torch.nn.functional.cross_entropy(logits[0], window[0, 1:], reduction="sum"))
    found = model.evaluate([str(tmp_path / "t.txt")])
    assert found.main.value * len(text) == pytest.approx(total, rel=1e-5)
    assert found.metrics[2].value == pytest.approx(total / len(text) / math.log(2), rel=1e-5)


def test_the_cut_of_the_work_changes_nothing(
    model: Model, files: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = model.evaluate(files).main.value
    for tokens in (1, 100, 1 << 20):
        monkeypatch.setattr(perplexity, "TOKENS", tokens)
        assert model.evaluate(files).main.value == pytest.approx(wanted, rel=1e-6)


def test_unknown_characters_and_what_a_tokenizer_loses_are_told(
    model: Model, tmp_path: Path
) -> None:
    (tmp_path / "t.txt").write_text("aßc☃")
    found = model.evaluate([str(tmp_path / "t.txt")])
    assert found.counts["unknown tokens"] == 2
    assert "lossy" in found.main.signature


def test_ends_count_where_texts_have_them(ending: Model, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "abab"}\n')
    (tmp_path / "t.txt").write_text("abab")
    assert ending.evaluate([str(tmp_path / "t.jsonl")]).counts["tokens"] == 5
    assert ending.evaluate([str(tmp_path / "t.txt")]).counts["tokens"] == 4


# --- predicting --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [GREEDY, DecodeOptions(sample=True, length=6), DecodeOptions(beam=3, length=6)]
)
def test_every_prompt_gives_one_continuation_alone_as_in_a_batch(
    model: Model, options: DecodeOptions
) -> None:
    found = model.predict(ODD, options)
    assert len(found) == len(ODD)
    for number, (text, each) in enumerate(zip(ODD, found, strict=True)):
        (alone,) = model.predict([text], options, numbers=[number])
        assert alone.ids == each.ids
        assert len(each.ids) == 6  # a text without an end goes on
        assert math.isfinite(each.score)
        assert not {*each.ids} & {*model.task.tokenizer.specials}
    assert [each.truncated for each in found] == [False] * (len(ODD) - 1) + [True]


def test_a_prompt_that_is_no_text_is_refused(model: Model) -> None:
    with pytest.raises(InputError, match="cannot encode"):
        model.predict(["a\ud800"])


def test_a_continuation_may_be_longer_than_the_context(model: Model) -> None:
    (found,) = model.predict(["abc"], DecodeOptions(beam=1, length=40))
    assert len(found.ids) == 40
    (short,) = model.predict(["abc"], DecodeOptions(beam=1, length=10))
    assert short.ids == found.ids[:10]


def test_documents_end(ending: Model) -> None:
    found = ending.predict([""] * 8 + ["ab"] * 8, DecodeOptions(sample=True, length=50))
    assert sum(each.tokens[-1] == "</s>" for each in found) >= 12
    assert all("</s>" not in each.text for each in found)


@pytest.mark.parametrize("options", [GREEDY, DecodeOptions(sample=True, seed=5, length=8)])
def test_a_stream_says_the_same_piece_by_piece(model: Model, options: DecodeOptions) -> None:
    cut: list[int] = []
    for text in ODD:
        pieces = list(model.stream(text, options, on_cut=cut.append))
        assert "".join(pieces) == model.predict([text], options)[0].text
    (longest,) = model.predict(ODD[-1:], options)
    assert cut == [len(longest.source_tokens)]


def test_a_stop_string_ends_the_text_before_it(model: Model) -> None:
    plain = DecodeOptions(sample=True, seed=2, length=40, length_penalty=0.0)
    whole = model.predict(["a"] * 4, plain)
    stop = whole[0].text[5:8]
    options = replace(plain, stop=(stop, "never"))
    for number, (before, after) in enumerate(
        zip(whole, model.predict(["a"] * 4, options), strict=True)
    ):
        assert after.text == before.text.partition(stop)[0]
        assert "".join(model.stream("a", options, number)) == after.text
        size = len(after.text)  # a token is a character
        assert after.ids == before.ids[:size]
        assert after.tokens == before.tokens[:size]
        assert after.token_scores == pytest.approx(before.token_scores[:size], rel=1e-5)
        assert after.score == pytest.approx(sum(after.token_scores))
    assert len(model.predict(["a"], options)[0].ids) == 5
    (nothing,) = model.predict(["a"], replace(options, stop=(whole[0].text[0],)), attention=True)
    assert (nothing.text, nothing.ids, nothing.tokens, nothing.score) == ("", [], [], 0.0)
    with pytest.raises(InputError, match="one path"):
        DecodeOptions(beam=2, stop=("x",))


@pytest.mark.parametrize(
    ("stop", "size"), [("d a", 1), ("ld again", 1), ("wor", 1), (" wor", 0), ("gain", 2)]
)
def test_a_stop_string_may_begin_inside_a_token(tmp_path: Path, stop: str, size: int) -> None:
    (tmp_path / "t.txt").write_text("hello world again " * 9)
    config = tiny_text([str(tmp_path / "t.txt")], {"task": {"tokenizer": "words"}})
    config["model"] = {"name": "markov"}
    model = load(train(config, tmp_path / "run")[0])
    options = DecodeOptions(beam=1, length=6, length_penalty=0.0)
    (whole,) = model.predict(["hello"], options)
    (cut,) = model.predict(["hello"], replace(options, stop=(stop,)))
    assert cut.text == " world again".partition(stop)[0]
    assert "".join(model.stream("hello", replace(options, stop=(stop,)))) == cut.text
    # A token of which a part is said, if only its space, stays.
    assert (cut.ids, cut.tokens) == (whole.ids[:size], whole.tokens[:size])
    assert cut.score == pytest.approx(sum(whole.token_scores[:size]))


@pytest.mark.parametrize("given", [{"stop": ("x",)}, {"repetition_penalty": 2.0}], ids=str)
def test_what_is_of_one_path_grows_no_tree(model: Model, given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="it grows no tree"):
        model.predict(["a"], DecodeOptions(beam=1, length=3, **given), tree=BeamTree())


def test_what_was_said_is_said_less(model: Model) -> None:
    plain, penalised = (
        model.predict(["abc"], DecodeOptions(beam=1, length=12, repetition_penalty=penalty))[0]
        for penalty in (1.0, 100.0)
    )
    assert len({*plain.ids}) < 12
    prompt = {*model.task.tokenizer.encode("abc")}
    others = len(model.task.tokenizer.encode("abcdefgh \n")) - 3
    first = penalised.ids[:others]
    assert len({*first}) == others  # each once, before any again
    assert not {*first} & prompt
    assert all(score <= 0 for score in penalised.token_scores)


def test_attention_says_what_each_token_looked_at(model: Model, ending: Model) -> None:
    for which, prompt in ((model, "abc"), (ending, "ab"), (ending, "")):
        (plain,) = which.predict([prompt], GREEDY)
        (found,) = which.predict([prompt], GREEDY, attention=True)
        assert found.ids == plain.ids
        assert found.attention is not None
        assert found.attention.target == found.tokens
        read = len(found.source_tokens) + len(found.ids)
        for weights in found.attention.weights.values():
            assert weights.shape == (2, len(found.tokens), read)
            torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))
            first = len(found.source_tokens)
            assert (weights[:, 0, first:] == 0).all()  # the first new token saw the prompt alone


@pytest.fixture(scope="module")
def remembering(files: list[str], tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A Transformer-XL that sees four tokens before one."""
    model = {"name": "transformer-xl", "memory": 4, "ffn_dim": 16, "layers": 2}
    out = tmp_path_factory.mktemp("runs") / "xl"
    return load(train(tiny_text(files, {"model": model}), out)[0])


@pytest.mark.parametrize(("which", "sight"), [("model", 16), ("remembering", 5)])
def test_beyond_its_sight_attention_is_that_of_each_step(
    which: str, sight: int, request: pytest.FixtureRequest
) -> None:
    model: Model = request.getfixturevalue(which)
    found = model("abc", DecodeOptions(beam=1, length=40))
    assert found.attention is not None
    layer, weights = list(found.attention.weights.items())[-1]
    torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))
    assert (weights > 0).sum(-1).max() == sight
    for token in (0, 20, 39):  # explained, the same
        told = explain(model, "abc", layer, 1, token=2 + token, prediction=found)
        row = weights[1, token]
        seen = row.nonzero().flatten().tolist()
        shown = told.steps.weights[told.steps.weights > 0]
        torch.testing.assert_close(shown, row[seen])
        assert told.query == found.tokens[token]
        assert told.keys[len(told.keys) - len(seen) :] == [found.attention.source[s] for s in seen]


def test_only_the_layers_that_are_named_are_watched(remembering: Model) -> None:
    layer = list(attentions(remembering))[1]
    (found,) = remembering.predict(["abc"], GREEDY, attention=[layer])
    assert found.attention is not None
    assert list(found.attention.weights) == [layer]


def test_prefixes_begin_the_continuation(model: Model) -> None:
    found = model.predict(["a", "b"], GREEDY, prefixes=["ca", ""])
    assert found[0].text.startswith("ca")
    assert found[1].ids == model.predict(["b"], GREEDY)[0].ids
    with pytest.raises(InputError, match="the prefix 'ß' holds what the vocabulary does not"):
        model.predict(["a", "b"], GREEDY, prefixes=["ca", "ß"])
    with pytest.raises(InputError, match="prefix has 8 tokens, but the output at most 6"):
        model.predict(["a"], GREEDY, prefixes=["abcdefgh"])


def test_a_continuation_is_finished_by_its_end_or_a_stop_string(
    model: Model, ending: Model
) -> None:
    (whole,) = model.predict(["abc"], GREEDY)
    assert not whole.finished
    stop = whole.text[2:4]
    (stopped,) = model.predict(["abc"], DecodeOptions(beam=1, length=6, stop=[stop]))
    assert (stopped.finished, stopped.text) == (True, whole.text[: whole.text.index(stop)])
    for found in ending.predict([""] * 8, DecodeOptions(sample=True, length=50)):
        assert found.finished == (len(found.tokens) > len(found.ids))


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "bytes"])
def test_every_tokenizer_trains_measures_and_continues(
    files: list[str], tmp_path: Path, kind: str
) -> None:
    sets = [f"task.tokenizer={kind}", "task.vocab_size=300", "train.steps=2", f"task.dev={files}"]
    run, _ = train(override(tiny_text(files), sets), tmp_path / "run")
    model = load(run)
    options = DecodeOptions(sample=True, length=8)
    for text, found in zip(ODD, model.predict(ODD, options), strict=True):
        assert "".join(model.stream(text, options, ODD.index(text))) == found.text
    assert math.isfinite(run.evaluation("dev")["metrics"]["loss"]["value"])


def test_characters_of_late_texts_are_known_and_unknown_ones_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vocabularies, "SENTENCES", 2)
    rows = [json.dumps({"text": text}) + "\n" for text in ("ab", "ba", "aßb", "ß☃")]
    (tmp_path / "t.jsonl").write_text("".join(rows))
    config = tiny_text([str(tmp_path / "t.jsonl")], {"train": {"steps": 1}})
    run, warnings = train(config, tmp_path / "all")
    assert load(run).evaluate(config["task"]["train"]).counts["unknown tokens"] == 0
    assert not warnings
    # Of those kept for learning, ß and the snowman are in one each: the first of them is known.
    _, warnings = train(override(config, ["task.vocab_size=7"]), tmp_path / "few")
    assert [each.partition(" are not")[0] for each in warnings] == ["1 of 17 tokens"]


def test_passages_are_the_examples(model: Model, files: list[str]) -> None:
    found = model.evaluate(files)
    texts = [passage.text for passage in Documents(files)]
    assert [example["text"] for example in found.examples] == texts
    total = sum(example["nats"] for example in found.examples)
    assert total / found.counts["tokens"] == pytest.approx(found.main.value)


def test_nats_by_place_are_all_nats_each_where_it_was_read(model: Model, files: list[str]) -> None:
    task: Any = model.task
    units = task.units(task.examples(files, lambda _: None))
    nats, tokens = by_place(model.module, units, task.reading)
    found = model.evaluate(files)
    assert int(tokens.sum()) == found.counts["tokens"]
    assert float(nats.sum() / tokens.sum()) == pytest.approx(found.main.value)
    # The first place of each context, the short last one too, is read with nothing before it.
    ids = [task.tokenizer.bos, *task.tokenizer.encode(Path(files[0]).read_text())]
    assert (len(ids) - 1) % 16
    read, gold = (torch.tensor(ids[k : len(ids) - 1 + k : 16]).unsqueeze(1) for k in (0, 1))
    with torch.no_grad():
        logits = model.module.logits(model.module(read)[0])[:, 0].double()
    alone = -logits.log_softmax(-1).gather(1, gold).sum()
    assert float(nats[0]) == pytest.approx(float(alone), rel=1e-5)
    assert int(tokens[0]) == len(read)
