"""Translate: every kind of text in, exactly one prediction out, the same alone as in company."""

import gzip
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pytest
import torch
from pyarrow import parquet
from tiny_runs import pairs, tiny, train, write_corpus

from saccade.config import override
from saccade.decoding.options import DecodeOptions
from saccade.errors import InputError
from saccade.inspection.forced import forced_attention
from saccade.training.checkpoint import load_tensors
from saccade.training.model import Model, load

ODD = [
    "a b c", "", "   ", "\t", "a\x00b", "\x00", "a\u2028b", "\u2028", "a\u0085b", "🙂 👩‍👩‍👧",
    "</s>", "<pad> <s> a", "\ufeffa", "zzz", "a\rb", "ａ", "e\u0301", "a" * 300,
]  # fmt: skip


@pytest.fixture(scope="module")
def model(files: list[str], tmp_path_factory: pytest.TempPathFactory) -> Model:
    run, _ = train(override(tiny(files), ["train.steps=20"]), tmp_path_factory.mktemp("r") / "run")
    return load(run)


def trained(files: Sequence[str], out: Path, *sets: str) -> Model:
    return load(train(override(tiny(list(files)), ["train.steps=3", *sets]), out)[0])


# --- tokenizers --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bpe", "unigram", "words", "characters", "bytes"])
def test_every_tokenizer_trains_and_predicts_whatever_the_text(
    files: list[str], tmp_path: Path, kind: str
) -> None:
    model = trained(files, tmp_path / "run", f"task.tokenizer={kind}", "task.vocab_size=300")
    found = model.predict(ODD, DecodeOptions(beam=2, max_extra=3, max_ratio=0.1))
    assert len(found) == len(ODD)
    for text, each in zip(ODD, found, strict=True):
        assert bool(each.tokens) == bool(text.strip())  # blank gives blank, all else something
        assert math.isfinite(each.score)


def test_separate_vocabularies_have_separate_embeddings(files: list[str], tmp_path: Path) -> None:
    model = trained(files, tmp_path / "run", "task.joint=false")
    assert model.task.source.encode("a") != []
    small, large = model.task.source, model.task.target
    assert "A" in large.tokens(large.encode("A"))
    assert "A" not in small.tokens(small.encode("A"))
    names = load_tensors(model.run.weights).keys()
    assert sum("embedding" in name for name in names) == 2
    assert len(model.predict(["a b"])) == 1


@pytest.mark.parametrize("joint", ["true", "false"])
def test_a_tokenizer_is_taken_from_a_run(files: list[str], tmp_path: Path, joint: str) -> None:
    first = trained(files, tmp_path / "first", f"task.joint={joint}")
    other = write_corpus(tmp_path, "other", 10, seed=9)
    second = trained(other, tmp_path / "second", f"task.tokenizer={first.run.path}")
    trained(other, tmp_path / "said", f"task.tokenizer={first.run.path}", f"task.joint={joint}")
    for name in {path.name for path in first.run.path.glob("tokenizer*")}:
        assert (first.run.path / name).read_bytes() == (second.run.path / name).read_bytes()
    assert second.settings.task.joint is (joint == "true")
    config = override(tiny(other), ["train.steps=5", f"task.tokenizer={first.run.path}"])
    train(config, tmp_path / "second", resume=True)  # the same command continues


def test_a_tokenizer_is_taken_from_a_file(files: list[str], tmp_path: Path) -> None:
    first = trained(files, tmp_path / "first")
    file = first.run.path / "tokenizer.json"
    second = trained(files, tmp_path / "second", f"task.tokenizer={file}")
    assert (second.run.path / "tokenizer.json").read_bytes() == file.read_bytes()
    with pytest.raises(InputError, match="neither a kind"):
        trained(files, tmp_path / "third", "task.tokenizer=bqe")
    assert not (tmp_path / "third").exists()


@pytest.mark.parametrize(("lowercase", "case"), [("true", "lc"), ("false", "mixed")])
def test_who_writes_no_capitals_is_not_scored_by_them(
    files: list[str], tmp_path: Path, lowercase: str, case: str
) -> None:
    model = trained(files, tmp_path / "run", f"task.lowercase={lowercase}")
    examples = {"source": ["a"], "reference": ["A B C D E"]}
    said = [{"numbers": [0], "texts": ["a b c d e"], "cut": 0}]
    bleu = model.task.score(examples, said).main
    assert f"case:{case}" in bleu.signature.split("|")
    assert (bleu.value > 99) == (lowercase == "true")


def test_lowercase_reads_capitals_as_small_letters(files: list[str], tmp_path: Path) -> None:
    model = trained(files, tmp_path / "run", "task.lowercase=true")
    small, large = model.predict(["a b c", "A B C"])
    assert (small.text, small.ids) == (large.text, large.ids)
    assert small.text == small.text.lower()


def test_a_tokenizer_from_elsewhere_is_recorded_as_it_is(files: list[str], tmp_path: Path) -> None:
    plain = trained(files, tmp_path / "plain")
    small = trained(files, tmp_path / "small", "task.lowercase=true")
    for first, lowercase in ((plain, False), (small, True)):
        sets = [f"task.tokenizer={first.run.path}", "task.vocab_size=9"]
        second = trained(files, tmp_path / f"second-{lowercase}", *sets)
        said, size = second.settings.task, first.task.source.vocab_size
        assert (said.joint, said.vocab_size, said.lowercase) == (True, size, lowercase)
        assert second.predict(["A b"])[0].source_tokens[0] == ("a" if lowercase else "A")
        config = override(tiny(files), ["train.steps=5", *sets])
        train(config, second.run.path, resume=True)  # the same command continues
    with pytest.raises(InputError, match="keeps capitals"):
        trained(files, tmp_path / "no", f"task.tokenizer={plain.run.path}", "task.lowercase=true")


@pytest.mark.parametrize("place", ["run", "run/tokenizer.json"])
def test_one_tokenizer_for_both_sides_is_not_one_each(
    files: list[str], tmp_path: Path, place: str
) -> None:
    trained(files, tmp_path / "run")
    sets = [f"task.tokenizer={tmp_path / place}", "task.joint=false"]
    with pytest.raises(InputError, match=r"task\.joint is false, but .* is one for both sides"):
        trained(files, tmp_path / "no", *sets)
    assert not (tmp_path / "no").exists()


def test_words_of_a_lowercased_text_stand_where_they_stood(
    files: list[str], tmp_path: Path
) -> None:
    """A capital may become two small letters: places are those of the text that was given."""
    model = trained(files, tmp_path / "run", "task.lowercase=true", "task.tokenizer=bytes")
    text = "İstanbul is BIG"
    (found,) = model.predict([text], DecodeOptions(beam=1, min_length=3), attention=True)
    assert model.words(text, found).source == text.split()
    ((_, forced),) = forced_attention(model.task, model.module, [(text, text)])
    for spans in (forced.told.source_spans[:-1], forced.told.target_spans):
        assert spans[-1] == (len(text) - 1, len(text))


# --- files -------------------------------------------------------------------------------------


def as_tsv(path: Path) -> list[str]:
    path = path.with_suffix(".tsv")
    path.write_text("source\ttarget\n" + "".join(f"{s}\t{t}\n" for s, t in pairs()))
    return [str(path)]


def as_jsonl(path: Path) -> list[str]:
    path = path.with_suffix(".jsonl.gz")
    rows = "".join(json.dumps({"source": s, "target": t}) + "\n" for s, t in pairs())
    path.write_bytes(gzip.compress(rows.encode()))
    return [str(path)]


def as_parquet(path: Path) -> list[str]:
    sources, targets = zip(*pairs(), strict=True)
    path = path.with_suffix(".parquet")
    parquet.write_table(pyarrow.table({"source": sources, "target": targets}), path)
    return [str(path)]


def as_gzipped_lines(path: Path) -> list[str]:
    found = []
    for file in write_corpus(path.parent):
        packed = Path(file + ".gz")
        packed.write_bytes(gzip.compress(Path(file).read_bytes()))
        found.append(str(packed))
    return found


@pytest.mark.parametrize("write", [as_tsv, as_jsonl, as_parquet, as_gzipped_lines])
def test_every_format_gives_the_same_model(files: list[str], tmp_path: Path, write: Any) -> None:
    plain = trained(files, tmp_path / "plain")
    named = ["task.columns=['source', 'target']"] if write is as_tsv else []
    other = trained(write(tmp_path / "c"), tmp_path / "o", *named)
    assert plain.run.weights.read_bytes() == other.run.weights.read_bytes()


@pytest.mark.parametrize("tokenizer", ["characters", "taken over"])
def test_odd_lines_are_counted_and_told(tmp_path: Path, model: Model, tokenizer: str) -> None:
    odd = write_corpus(tmp_path)
    with Path(odd[0]).open("a") as file:
        file.write("\na\x00b\n" + "a " * 400 + "\n")
    with Path(odd[1]).open("a") as file:
        file.write("A\nB\nC\n")
    kind = tokenizer if tokenizer == "characters" else str(model.run.path)
    _, warnings = train(override(tiny(odd), [f"task.tokenizer={kind}"]), tmp_path / "run")
    said = "\n".join(warnings)
    assert "1 pair dropped" in said
    assert "1 line with control characters" in said
    assert "of 42 pairs, dropped: 1 longer than task.max_length (" in said


def test_pairs_left_out_are_counted_against_all(tmp_path: Path) -> None:
    corpus = [tmp_path / "source", tmp_path / "target"]
    for file in corpus:
        file.write_text("a b\n" + "a b c d e f\n" * 3)
    sets = ["task.max_length=8", "task.tokenizer=bytes"]
    _, warnings = train(override(tiny([str(f) for f in corpus]), sets), tmp_path / "run")
    told = [text for text in warnings if "dropped" in text]
    assert len(told) == 1
    assert "of 4 pairs, dropped: 3 longer than task.max_length (task.max_length is 8" in told[0]


def test_texts_longer_than_learned_positions_cannot_be_asked_for(
    files: list[str], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"raise model\.limit, now 300"):
        trained(
            files, tmp_path / "run", "model.position=learned", "model.limit=300",
            "task.max_length=2000",
        )  # fmt: skip


def test_pairs_longer_than_learned_positions_are_dropped(tmp_path: Path) -> None:
    texts = [["a" * 7, "b"], ["a", "b" * 7], ["a" * 8, "b"], ["a", "b" * 8]]
    for side, lines in zip(("source", "target"), zip(*texts, strict=True), strict=True):
        (tmp_path / side).write_text("".join(line + "\n" for line in lines))
    files = [str(tmp_path / "source"), str(tmp_path / "target")]
    config = override(tiny(files), ["model.position=learned", "model.limit=8"])
    run, told = train(config, tmp_path / "run")  # eight positions: seven letters and an end
    assert "of 4 pairs, dropped: 2 longer than task.max_length (task.max_length is 7" in told[0]
    assert run.settings().task.max_length == 7
    endless = override(config, ["model.position=sinusoidal"])
    assert not train(endless, tmp_path / "endless")[1]


# --- predicting --------------------------------------------------------------------------------


@pytest.mark.parametrize("beam", [1, 3])
def test_a_prediction_is_the_same_alone_and_in_any_batch(model: Model, beam: int) -> None:
    options = DecodeOptions(beam=beam, max_extra=4, max_ratio=1.0)
    together = model.predict(ODD, options)
    backwards = model.predict(ODD[::-1], options)[::-1]
    for text, one, other in zip(ODD, together, backwards, strict=True):
        (alone,) = model.predict([text], options)
        assert alone.ids == one.ids == other.ids
        assert alone.score == pytest.approx(one.score, abs=1e-4)
        assert alone.score == pytest.approx(other.score, abs=1e-4)


def test_no_texts_give_no_predictions(model: Model) -> None:
    assert model.predict([]) == []


def test_a_megabyte_is_cut_and_told(model: Model) -> None:
    options = DecodeOptions(beam=1, max_ratio=0.1)
    long, short = model.predict(["ab " * 350_000, "a b"], options)
    assert long.truncated
    assert not short.truncated
    limit = 4 * model.settings.task.max_length
    assert len(long.source_tokens) == limit
    assert (long.read, short.read) == (limit - 1, 3)  # the end is none of the text
    fits, over = model.predict(["a" * (limit - 1), "a" * limit], options)
    assert (fits.truncated, over.truncated) == (False, True)


def test_draws_belong_to_the_example_not_to_the_batch(model: Model) -> None:
    options = DecodeOptions(sample=True, seed=3, max_ratio=1.0)
    texts = ["a b c", "d e", "a b c", "f g h a"]
    together = model.predict(texts, options)
    for number, text in enumerate(texts):
        (alone,) = model.predict([text], options, numbers=[number])
        assert alone.ids == together[number].ids
    same = model.predict(["a b c"] * 20, options)
    assert len({tuple(each.ids) for each in same}) > 10  # the same text, another number
    other = model.predict(texts, DecodeOptions(sample=True, seed=4, max_ratio=1.0))
    assert [each.ids for each in other] != [each.ids for each in together]


def test_a_translation_begins_with_its_prefix(model: Model) -> None:
    for options in (DecodeOptions(beam=3), DecodeOptions(sample=True)):
        found = model.predict(["a b", "c d e", ""], options, prefixes=["B A", "", "X"])
        assert found[0].text.startswith("B A")
        assert found[1].ids == model.predict(["", "c d e"], options)[1].ids
        assert found[2].text == ""


@pytest.mark.parametrize("how", [{"beam": 1}, {"beam": 3}, {"sample": True}], ids=str)
def test_the_longest_output_leaves_room_for_what_was_asked(model: Model, how: Any) -> None:
    """Of a source of one letter the usual limit is 14 tokens."""
    (long,) = model.predict(["a"], DecodeOptions(min_length=40, **how))
    assert (len(long.tokens), len(long.ids) >= 40) == (41, True)
    assert long.finished == (long.tokens[-1] == "</s>")
    prefix = "H G F E D C B A H G F E D C B"
    (begun,) = model.predict(["a"], DecodeOptions(**how), prefixes=[prefix])
    assert begun.text.startswith(prefix)
    assert len(begun.tokens) > len(prefix)
    with pytest.raises(InputError, match="prefix has 29 tokens, but the output at most 28"):
        model.predict(["a"], DecodeOptions(length=28, **how), prefixes=[prefix])


def test_an_output_that_was_cut_says_so(model: Model) -> None:
    texts = ["a b c", "", "d e f g h"]
    short = model.predict(texts, DecodeOptions(length=1, beam=3, nbest=2))
    assert [each.finished for each in short] == [False, True, False]
    for each in [found for first in short[::2] for found in (first, *first.alternatives)]:
        assert each.finished == (each.tokens[-1:] == ["</s>"])
    (ended,) = model.predict(["a"], DecodeOptions(beam=12, length_penalty=0.0))  # likes short ones
    assert ended.finished
    assert ended.tokens[-1] == "</s>"


def test_unknown_words_are_counted_told_and_never_said(files: list[str], tmp_path: Path) -> None:
    sets = ["task.tokenizer=words", "task.vocab_size=10", "train.steps=20"]
    run, warnings = train(override(tiny(files), sets), tmp_path / "run")
    model = load(run)
    ids = [model.task.source.encode(text) for pair in pairs() for text in pair]
    unknown, tokens = sum(row.count(model.task.source.unk) for row in ids), sum(map(len, ids))
    (told,) = warnings
    assert told.startswith(f"{unknown:,} of {tokens:,} tokens are not in the vocabulary")
    for how in ({"beam": 1}, {"beam": 3}, {"sample": True}):
        options = DecodeOptions(min_length=2, **how)
        for found in model.predict(["a b c", "d e f g"], options):
            assert found.text
            assert not {"<pad>", "<s>", "<unk>"} & {*found.tokens}
        (alone,) = model.predict(["a b c"], options)
        assert options.beam == 3 or "".join(model.stream("a b c", options)) == alone.text
    with pytest.raises(InputError, match="the prefix 'A zebra' holds what the vocabulary does not"):
        model.predict(["a"], DecodeOptions(), prefixes=["A zebra"])


def test_the_n_best_are_sorted_and_distinct(model: Model) -> None:
    (best,) = model.predict(["a b c"], DecodeOptions(beam=4, nbest=4))
    scores = [best.score, *(each.score for each in best.alternatives)]
    assert len(scores) == 4
    assert scores == sorted(scores, reverse=True)
    assert len({tuple(each.tokens) for each in [best, *best.alternatives]}) == 4


def test_attention_has_a_row_a_token_that_sums_to_one(model: Model) -> None:
    texts = ["a b c d", "e", ""]
    for options in (DecodeOptions(beam=3, nbest=2), DecodeOptions(sample=True)):
        found = model.predict(texts, options, attention=True)
        plain = model.predict(texts, options)
        assert [each.ids for each in found] == [each.ids for each in plain]
        for each in [*found[:2], *found[0].alternatives]:
            assert each.attention is not None
            assert list(each.attention.weights) == model.module.alignment_layers
            for weights in each.attention.weights.values():
                assert weights.shape == (2, len(each.tokens), len(each.source_tokens))
                torch.testing.assert_close(weights.sum(-1), torch.ones(weights.shape[:2]))
        assert found[2].attention is None


def test_token_scores_add_up(model: Model) -> None:
    options = DecodeOptions(beam=3, length_penalty=0.0)
    (found,) = model.predict(["a b c"], options)
    assert len(found.token_scores) == len(found.tokens)
    assert sum(found.token_scores) == pytest.approx(found.score, abs=1e-4)


@pytest.mark.parametrize("options", [DecodeOptions(beam=1), DecodeOptions(sample=True, seed=5)])
def test_a_stream_says_the_same_piece_by_piece(model: Model, options: DecodeOptions) -> None:
    for text in ("a b c d e", "", "🙂"):
        pieces = list(model.stream(text, options))
        assert "".join(pieces) == model.predict([text], options)[0].text


@pytest.mark.parametrize("given", [{"stop": ["A"]}, {"repetition_penalty": 2.0}], ids=str)
def test_what_is_of_generate_is_refused_and_never_ignored(model: Model, given: Any) -> None:
    options = DecodeOptions(beam=1, **given)
    for text in ("a b", ""):
        with pytest.raises(InputError, match="of generate, not of translate"):
            model.predict([text], options)
        with pytest.raises(InputError, match="of generate, not of translate"):
            list(model.stream(text, options))


def test_a_stream_reads_only_the_newest_tokens_again(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    kind, sizes = type(model.task.target), []
    decode = kind.decode

    def counted(self: Any, ids: Sequence[int]) -> str:
        sizes.append(len(ids))
        return decode(self, ids)

    monkeypatch.setattr(kind, "decode", counted)
    list(model.stream("a b c d e", DecodeOptions(beam=1, min_length=20)))
    assert len(sizes) > 20
    assert max(sizes) < 10
