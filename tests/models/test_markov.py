"""Markov chains: the lectures' examples with their numbers, and what every language model keeps."""

import numpy as np
import pytest
import torch

from saccade.blocks.state import Decoder, State
from saccade.decoding.sampling import Draw, sample
from saccade.decoding.search import SearchOptions, beam_search, greedy_search
from saccade.decoding.walk import Bounds
from saccade.errors import InputError
from saccade.models.markov import Markov, MarkovConfig
from saccade.training.checkpoint import load_tensors, save_tensors

SHOW = {
    "show me my directories please": 2,
    "show me my files please": 3,
    "show me my photos please": 5,
}
CHECK = {"check whether the battery ran down please": 4, "check whether the program ran please": 6}
SKIPS = {
    "check the program log and find out whether it ran please": 1,
    "check the battery log and find out whether it ran down please": 1,
}
BEFORE_ANSWER = "check the program log and find out whether it ran"


class Corpus:
    """Sentences with their counts, and a chain fitted to them."""

    def __init__(self, sentences, **settings):
        self.words = sorted({word for sentence in sentences for word in sentence.split()})
        self.model = Markov(MarkovConfig(vocab_size=len(self.words), **settings))
        repeated = [text for text, count in sentences.items() for _ in range(count)]
        self.model.fit(np.array(self.ids(text)) for text in repeated)

    def ids(self, text):
        return [self.words.index(word) for word in text.split()]

    def named(self, numbers):
        pairs = zip(self.words, numbers.tolist(), strict=True)
        return {word: pytest.approx(number, abs=1e-6) for word, number in pairs if number}

    def after(self, text):
        log_probs, _ = self.model(torch.tensor([self.ids(text)]))
        return self.named(log_probs[0, -1].exp())


# --- the lectures ------------------------------------------------------------------------------


def test_show_me_my():
    corpus = Corpus(SHOW, order=1)
    assert corpus.after("show me my") == {"directories": 0.2, "files": 0.3, "photos": 0.5}
    for thing in ("directories", "files", "photos"):
        assert corpus.after(thing) == {"please": 1.0}
    assert corpus.after("please") == {}  # a dead end is a row of zeros


def test_first_order_cannot_tell_and_second_order_resolves_it():
    first, second = Corpus(CHECK, order=1), Corpus(CHECK, order=2)
    assert first.after("ran") == {"down": 0.4, "please": 0.6}
    assert first.after("the") == {"battery": 0.4, "program": 0.6}
    assert first.after("check whether the program ran") == {"down": 0.4, "please": 0.6}
    assert second.after("whether the") == {"battery": 0.4, "program": 0.6}
    assert second.after("battery ran") == {"down": 1.0}
    assert second.after("program ran") == {"please": 1.0}
    assert second.after("down please") == second.after("please ran") == {}
    assert second.after("ran") == first.after("ran")  # only one word is known yet


def test_the_transition_table():
    corpus = Corpus(CHECK, order=1)
    contexts, found = corpus.model.transitions()
    assert contexts == [(token,) for token in range(len(corpus.words))]
    assert corpus.named(found[corpus.words.index("ran")]) == {"down": 0.4, "please": 0.6}
    assert not found[corpus.words.index("please")].any()
    contexts, found = Corpus(CHECK, order=2).model.transitions()
    rows = {" ".join(corpus.words[i] for i in c): r for c, r in zip(contexts, found, strict=True)}
    assert corpus.named(rows["whether the"]) == {"battery": 0.4, "program": 0.6}
    assert set(rows) == {
        *("check whether", "whether the", "the battery", "the program", "battery ran"),
        *("program ran", "ran down"),
    }


def test_eight_pairs_do_not_know_and_one_does():
    corpus = Corpus(SKIPS, order=2, skips=True)
    asked = corpus.ids(BEFORE_ANSWER)
    earlier, ballots = corpus.model.ballots(asked)
    by_word = {corpus.words[e]: corpus.named(b) for e, b in zip(earlier, ballots, strict=True)}
    assert by_word.pop("program") == {"please": 1.0}
    assert list(by_word.values()) == 8 * [{"down": 0.5, "please": 0.5}]
    assert corpus.named(corpus.model.votes(asked)) == {"down": 4, "please": 5}
    assert corpus.after(BEFORE_ANSWER) == {"down": 4 / 9, "please": 5 / 9}
    assert Corpus(SKIPS, order=2).after(BEFORE_ANSWER) == {"down": 0.5, "please": 0.5}


def by_hand():
    corpus = Corpus(SKIPS, order=2, skips=True)
    pairs = [tuple(corpus.ids(pair)) for pair in ("battery ran", "program ran")]
    everybody, corpus.model = corpus.model, corpus.model.with_mask(pairs)
    assert corpus.named(everybody.votes(corpus.ids(BEFORE_ANSWER))) == {"down": 4, "please": 5}
    return corpus


@pytest.mark.parametrize(
    "build", [by_hand, lambda: Corpus(SKIPS, order=2, skips=True, selective=True)]
)
def test_the_mask_makes_it_certain(build):
    corpus = build()
    assert corpus.named(corpus.model.votes(corpus.ids(BEFORE_ANSWER))) == {"please": 1.0}
    assert corpus.after(BEFORE_ANSWER) == {"please": 1.0}
    assert corpus.after(BEFORE_ANSWER.replace("program", "battery")) == {"down": 1.0}
    kept = {
        (corpus.words[p.earlier], corpus.words[p.current]) for p in corpus.model.pairs() if p.kept
    }
    assert kept == {("battery", "ran"), ("program", "ran")}
    # Where no pair is kept, the first order answers.
    assert corpus.after("check the") == {"battery": 0.5, "program": 0.5}


@pytest.mark.parametrize("selective", [False, True])
def test_attention_as_a_matrix_product_gives_the_same_votes(selective):
    corpus = Corpus(SKIPS, order=2, skips=True, selective=selective)
    tokens = corpus.ids(BEFORE_ANSWER)
    product = corpus.model.attention(tokens)
    assert product.queries.sum(1).tolist() == [1.0] * len(tokens)
    for place in range(len(tokens)):
        assert torch.equal(product.votes[place], corpus.model.votes(tokens[: place + 1]))
    mask = (product.queries @ product.masks)[-1]
    told, all_earlier = {"battery", "program"}, set(corpus.words) - {"ran", "down", "please"}
    assert corpus.named(mask) == dict.fromkeys(told if selective else all_earlier, 1)


# --- what every language model keeps -----------------------------------------------------------

VOCAB = 9
VARIANTS = {
    "first": {"order": 1},
    "second": {"order": 2},
    "kneser-ney": {"order": 4, "smoothing": "kneser-ney"},
    "modified": {"order": 3, "smoothing": "modified-kneser-ney"},
    "skips": {"order": 2, "skips": True, "window": 3},
    "selective": {"order": 2, "skips": True, "selective": True, "window": 4},
    "smooth skips": {"order": 2, "skips": True, "smoothing": "kneser-ney"},
}
EACH = pytest.mark.parametrize("variant", VARIANTS)


def fitted(variant):
    random = np.random.default_rng(3)
    model = Markov(MarkovConfig(vocab_size=VOCAB, **VARIANTS[variant]))
    texts = [random.integers(0, 6, size) for size in (40, 0, 1, 25, 2)]  # 6 to 8 never occur
    model.fit([*texts, random.choice(3, 300, p=[0.6, 0.3, 0.1])])
    return model


def text(*shape):
    """Mostly what was counted often, so that contexts are known, with words never seen."""
    often = [0.3, 0.25, 0.25, 0.05, 0.05, 0.04, 0.02, 0.02, 0.02]
    return torch.from_numpy(np.random.default_rng(7).choice(VOCAB, shape, p=often))


@EACH
def test_it_is_a_decoder_without_parameters(variant):
    model = fitted(variant)
    assert isinstance(model, Decoder)
    assert isinstance(model.start(2), State)
    assert model.counts
    assert list(model.parameters()) == []
    assert model.entries > 0
    assert model.limit is None


@EACH
def test_rows_sum_to_one_or_are_dead_ends(variant):
    found = fitted(variant)(text(4, 50))[0]
    sums = found.exp().sum(-1)
    ends = (found == -torch.inf).all(-1)
    torch.testing.assert_close(sums, (~ends).float(), rtol=0, atol=1e-5)
    assert ends.any() == ("smoothing" not in VARIANTS[variant])
    if "smoothing" in VARIANTS[variant]:
        assert found.isfinite().all()


@EACH
def test_no_position_sees_a_later_one(variant):
    model, tokens = fitted(variant), text(3, 12)
    before = model(tokens)[0]
    for place in range(1, 12):
        changed = tokens.clone()
        changed[:, place:] = (changed[:, place:] + 1) % VOCAB
        after = model(changed)[0]
        assert torch.equal(after[:, :place], before[:, :place])
        assert not torch.equal(after[:, place:], before[:, place:])


@EACH
@pytest.mark.parametrize("sizes", [(20,), (1,) * 20, (3, 0, 9, 8), (19, 1)])
def test_read_in_pieces_is_read_at_once(variant, sizes):
    model, tokens = fitted(variant), text(3, 20)
    whole, end = model(tokens)
    carry, pieces = None, []
    for piece in tokens.split(sizes, dim=1):
        found, carry = model(piece, carry)
        pieces.append(found)
    assert torch.equal(torch.cat(pieces, dim=1), whole)
    assert torch.equal(carry.context, end.context)


@EACH
def test_steps_prefixes_select_and_join(variant):
    model, tokens = fitted(variant), text(4, 12)
    whole = model(tokens)[0]
    read = [5, 0, 11, 2]  # rows of different age
    state = model.start(4, [row[:n].tolist() for row, n in zip(tokens, read, strict=True)])
    rows = torch.tensor([3, 1, 1, 0, 2])
    state = state.select(rows).join(model.start(1)).join(state.select(torch.tensor([], dtype=int)))
    assert state.rows == 6
    next_tokens = torch.stack([*(tokens[r, read[r]] for r in rows), tokens[2, 0]])
    found, state = model.step(next_tokens, state)
    expected = [*(whole[r, read[r]] for r in rows), whole[2, 0]]
    assert torch.equal(found, torch.stack(expected))
    found, _ = model.step(tokens[[3, 1, 1, 0, 2, 2], [3, 1, 1, 6, 0, 1]], state)
    for row, (source, place) in enumerate([(3, 3), (1, 1), (1, 1), (0, 6)]):
        assert torch.equal(found[row], whole[source, place])


@EACH
def test_the_batch_changes_nothing(variant, monkeypatch):
    model, tokens = fitted(variant), text(5, 9)
    whole = model(tokens)[0]
    order = torch.tensor([4, 2, 0, 1, 3])
    assert torch.equal(model(tokens[order])[0], whole[order])
    for row in range(5):
        assert torch.equal(model(tokens[row : row + 1])[0][0], whole[row])
    monkeypatch.setattr("saccade.models.markov.BLOCK", 1)  # row by row
    assert torch.equal(model(tokens)[0], whole)


@EACH
def test_saved_and_loaded_it_is_the_same(variant, tmp_path):
    model, tokens = fitted(variant), text(2, 30)
    save_tensors(tmp_path / "model.safetensors", model.state_dict(), {})
    fresh = Markov(model.config)
    fresh.load_state_dict(load_tensors(tmp_path / "model.safetensors"))
    assert torch.equal(fresh(tokens)[0], model(tokens)[0])
    fresh.fit([np.array([1, 2, 3, 4])])  # counting again forgets what was counted before
    assert not torch.equal(fresh(tokens)[0], model(tokens)[0])
    model.fit([np.array([1, 2, 3, 4])])
    assert torch.equal(fresh(tokens)[0], model(tokens)[0])


@EACH
def test_documents_do_not_reach_into_each_other(variant):
    model, other = (Markov(MarkovConfig(vocab_size=VOCAB, **VARIANTS[variant])) for _ in "12")
    texts = [np.array([0, 1, 2, 3, 4]), np.array([5, 6, 7, 5])]
    model.fit(texts)
    other.fit(texts[::-1])
    for name, buffer in model.named_buffers():
        assert torch.equal(buffer, other.get_buffer(name)), name


@EACH
def test_generation_ends_at_a_dead_end_and_else_goes_on(variant):
    model = Markov(MarkovConfig(vocab_size=VOCAB, **VARIANTS[variant]))
    model.fit([np.array([1, 2, 3, 4])])  # nothing follows 4
    bounds, options = Bounds(first=1, eos=0, max_lengths=[6]), SearchOptions(beam=1)
    ((greedy,),) = greedy_search(model, model.start(1), bounds, options)
    drawn = sample(model, model.start(1), bounds, options, Draw(seed=1, examples=[0]))
    beam = beam_search(model, model.start(1), bounds, SearchOptions(beam=2))
    for found in (greedy, *drawn, *beam[0]):
        if "smoothing" in VARIANTS[variant]:
            assert found.finished or len(found.tokens) == 6
        else:
            assert found.tokens == [2, 3, 4]
            assert not found.finished
            assert found.log_prob == 0


def test_before_it_has_counted_it_knows_nothing():
    for settings in VARIANTS.values():
        found = Markov(MarkovConfig(vocab_size=VOCAB, **settings))(text(1, 3))[0]
        expected = 1 / VOCAB if "smoothing" in settings else 0
        torch.testing.assert_close(found.exp(), torch.full_like(found, expected))


# --- mistakes ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 0}, "order is 0, it must be from 1 to 16"),
        ({"window": 0}, "window is 0"),
        ({"min_gain": -1.0}, "min_gain is -1.0"),
        ({"min_gain": float("nan")}, "min_gain is nan"),
        ({"order": 3, "skips": True}, "set order = 2, not 3"),
        ({"selective": True}, "set skips = true too"),
    ],
)
def test_settings_that_do_not_fit(settings, message):
    with pytest.raises(InputError, match=message):
        MarkovConfig(vocab_size=4, **settings)


def test_texts_that_do_not_fit():
    model = fitted("skips")
    with pytest.raises(InputError, match="no text has two tokens"):
        model.fit([np.array([1]), np.zeros(0, dtype=np.int64)])
    for wrong in (-1, VOCAB):
        with pytest.raises(InputError, match=f"token {wrong} is not in the vocabulary of 9"):
            model.fit([np.array([1, wrong, 2])])
        with pytest.raises(InputError, match=f"token {wrong} is not"):
            model(torch.tensor([[1, wrong]]))
        with pytest.raises(InputError, match=f"token {wrong} is not"):
            model.start(1, [[1, wrong]])
    with pytest.raises(InputError, match="2 rows, but 1 prefixes"):
        model.start(2, [[1]])
    with pytest.raises(InputError, match="at least one word"):
        model.votes([])
    with pytest.raises(InputError, match=r"\(8, 1\) cannot be kept: 8 never came"):
        model.with_mask([(8, 1)])
    with pytest.raises(InputError, match="only a chain with skips"):
        fitted("first").votes([1, 2])


@EACH
def test_damaged_tables_are_refused(variant):
    model = fitted(variant)
    for name, tensor in model.state_dict().items():
        if not name.endswith("discounts"):
            state = {**model.state_dict(), name: tensor[:-1]}
            with pytest.raises(InputError, match="damaged"):
                Markov(model.config).load_state_dict(state)
    state = {
        name: -tensor if tensor.dtype == torch.int32 else tensor
        for name, tensor in model.state_dict().items()
    }
    with pytest.raises(InputError, match="damaged"):
        Markov(model.config).load_state_dict(state)
