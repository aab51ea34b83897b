"""What every decoder promises (DESIGN.md, contract 3): one suite over all models and variants."""

import pytest
import torch
from contracts.decoder_variants import (
    ALL_VARIANTS,
    BOS,
    EOS,
    LOCAL,
    VARIANTS,
    VOCAB,
    Variant,
    alone,
    padded,
    stepped,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.blocks.state import Decoder, State
from saccade.decoding.search import SearchOptions, beam_search, greedy_search
from saccade.decoding.walk import Bounds
from saccade.errors import InputError
from saccade.training.checkpoint import load_tensors, save_tensors
from saccade.training.run import named_weights

SOURCES = [[3, 4, 5, 6, 7], [8, 9], [10, 11, 12, 3, 4, 5, 6], [5, 5, 5]]
TARGETS = [[BOS, 3, 4, 5, 6, 7], [BOS, 8, 9, 3, 3, 3], [BOS, 4, 4, 12, 11, 3], [BOS, 6, 7, 8, 9, 3]]
CLOSE = {"rtol": 0, "atol": 1e-10}
EACH = pytest.mark.parametrize("variant", VARIANTS, ids=str)
ALL = pytest.mark.parametrize("variant", ALL_VARIANTS, ids=str)


@pytest.fixture(autouse=True)
def _without_gradients():
    with torch.no_grad():
        yield


@EACH
def test_it_is_a_decoder(variant):
    model = variant.build()
    assert isinstance(model, Decoder)
    state = model.start(padded(*SOURCES))
    assert isinstance(state, State)
    assert state.rows == len(SOURCES)


@EACH
def test_no_target_position_sees_a_later_one(variant):
    model, source = variant.build(), padded(*SOURCES)
    before = model(source, torch.tensor(TARGETS))
    for t in range(1, 6):
        changed = torch.tensor(TARGETS)
        changed[:, t:] = (changed[:, t:] + 5) % VOCAB
        after = model(source, changed)
        torch.testing.assert_close(after[:, :t], before[:, :t], **CLOSE)
        assert not torch.allclose(after[:, t], before[:, t])


@ALL
def test_the_gradient_to_later_target_positions_is_exactly_zero(variant):
    model, inputs = variant.build(), []
    language_model = getattr(model, "model", None)
    embedding = language_model.embedding if language_model else model.target_embedding
    embedding.register_forward_hook(lambda _m, _i, output: inputs.append(output))
    with torch.enable_grad():
        hidden = model(padded(*SOURCES), torch.tensor(TARGETS))
        embedded = inputs[-1]  # a joint embedding also reads the source, before
        for t in range(6):
            weigh = torch.randn(hidden.shape[-1]).double()
            loss = (hidden[:, t] * weigh).sum()
            (grad,) = torch.autograd.grad(loss, embedded, retain_graph=True)
            assert (grad[:, t + 1 :] == 0).all()
            assert (grad[:, : t + 1] != 0).any(-1).all()


@EACH
def test_source_padding_never_changes_a_result(variant):
    model = variant.build()
    expected = [alone(model, *pair) for pair in zip(SOURCES, TARGETS, strict=True)]
    for pad, extra in [(0, 0), (7, 0), (12, 3)]:
        found = model.logits(model(padded(*SOURCES, pad=pad, extra=extra), torch.tensor(TARGETS)))
        torch.testing.assert_close(found, torch.stack(expected), **CLOSE)


@EACH
def test_target_padding_never_changes_a_result(variant):
    model = variant.build()
    source, target = padded(*SOURCES), torch.tensor(TARGETS)
    for pad in (0, 9):
        longer = torch.nn.functional.pad(target, (0, 3), value=pad)
        torch.testing.assert_close(model(source, longer)[:, :6], model(source, target), **CLOSE)


@ALL
def test_step_by_step_is_all_at_once(variant):
    model, source = variant.build(), padded(*SOURCES, extra=2, pad=4)
    found, state = stepped(model, model.start(source), TARGETS)
    torch.testing.assert_close(found, model.logits(model(source, torch.tensor(TARGETS))), **CLOSE)
    assert state.rows == len(SOURCES)


@ALL
def test_a_step_outside_no_grad_is_the_same(variant):
    """By modules there, by plain functions elsewhere: `blocks/swift.py`."""
    model, source = variant.build(), padded(*SOURCES, extra=2, pad=4)
    swiftly, _ = stepped(model, model.start(source), TARGETS)
    with torch.enable_grad():
        by_modules, _ = stepped(model, model.start(source), TARGETS)
    torch.testing.assert_close(by_modules.detach(), swiftly, **CLOSE)


@EACH
@pytest.mark.parametrize("prefixes", [[[BOS, 3]], [[]] * 5], ids=["too few", "too many"])
def test_prefixes_are_one_a_row(variant, prefixes):
    with pytest.raises(InputError, match=f"4 rows, but {len(prefixes)} prefixes"):
        variant.build().start(padded(*SOURCES), prefixes)


@EACH
@pytest.mark.parametrize("lengths", [(3, 3, 3, 3), (1, 0, 4, 2), (0, 0, 0, 0), (0, 0, 1, 0)])
def test_a_prefix_read_at_once_is_one_read_step_by_step(variant, lengths):
    model = variant.build()
    prefixes = [row[:n] for row, n in zip(TARGETS, lengths, strict=True)]
    state = model.start(padded(*SOURCES), prefixes)
    following = [row[n : n + 2] for row, n in zip(TARGETS, lengths, strict=True)]
    found, _ = stepped(model, state, following)
    for row, n in enumerate(lengths):
        expected = alone(model, SOURCES[row], TARGETS[row][: n + 2])[n:]
        torch.testing.assert_close(found[row], expected, **CLOSE)


SELECTIONS = [
    [0, 1, 2, 3],
    [3, 1, 0, 2],
    [1, 1, 1, 2, 0, 0],
    [2],
    [0, 0, 0, 0, 0],
    [3, 0, 3, 1, 3, 2, 2],
    [],
]


@EACH
def test_select_is_computing_these_rows_alone(variant):
    model = variant.build()
    _, state = stepped(model, model.start(padded(*SOURCES)), [row[:3] for row in TARGETS])
    tail = [6, 7]
    expected = [alone(model, s, t[:3] + tail)[3:] for s, t in zip(SOURCES, TARGETS, strict=True)]
    for rows in SELECTIONS:
        chosen = state.select(torch.tensor(rows, dtype=torch.long))
        assert chosen.rows == len(rows)
        found, _ = stepped(
            model, chosen, torch.tensor([tail] * len(rows), dtype=torch.long).view(-1, 2)
        )
        for logits, row in zip(found, rows, strict=True):
            torch.testing.assert_close(logits, expected[row], **CLOSE)


@ALL
def test_join_then_step_is_step_apart(variant):
    model = variant.build()
    _, a = stepped(model, model.start(padded(*SOURCES[:2])), [row[:4] for row in TARGETS[:2]])
    b = model.start(padded(SOURCES[2]), [TARGETS[2][:1]])
    c = model.start(padded(SOURCES[3]))
    for joined in (a.join(b).join(c), a.join(b.join(c))):
        assert joined.rows == 4
        following = [[5, 6], [7, 8], [9, 10], [BOS, 3]]
        found, _ = stepped(model, joined, following)
        read = [TARGETS[0][:4], TARGETS[1][:4], TARGETS[2][:1], []]
        for row in range(4):
            expected = alone(model, SOURCES[row], read[row] + following[row])[len(read[row]) :]
            torch.testing.assert_close(found[row], expected, **CLOSE)


@EACH
def test_a_state_is_a_value(variant):
    """Stepping it twice gives two futures, and leaves the state as it was."""
    model = variant.build()
    _, state = stepped(model, model.start(padded(*SOURCES)), [row[:3] for row in TARGETS])
    a, b = torch.tensor([3, 4, 5, 6]), torch.tensor([7, 8, 9, 10])
    first_a, future_a = model.step(a, state)
    first_b, future_b = model.step(b, state)
    torch.testing.assert_close(model.step(a, state)[0], first_a, rtol=0, atol=0)
    assert not torch.allclose(first_a, first_b)
    later_a, _ = model.step(b, future_a)
    model.step(a, future_b)
    state.select(torch.tensor([1, 1])).join(future_a)
    for row in range(4):
        read = TARGETS[row][:3]
        expected = alone(model, SOURCES[row], [*read, int(a[row]), int(b[row])])
        torch.testing.assert_close(later_a[row], expected[4], **CLOSE)
        torch.testing.assert_close(
            first_b[row], alone(model, SOURCES[row], [*read, int(b[row])])[3]
        )


class Rows:
    """A state, and beside it what each of its rows has read: all that may count."""

    def __init__(self, model, sources, prefixes):
        self.model = model
        self.state = model.start(padded(*sources), prefixes)
        self.read = list(zip(sources, prefixes or [[] for _ in sources], strict=True))

    def step(self, tokens):
        found, self.state = self.model.step(torch.tensor(tokens), self.state)
        self.read = [(s, [*t, new]) for (s, t), new in zip(self.read, tokens, strict=True)]
        for logits, (source, target) in zip(found, self.read, strict=True):
            torch.testing.assert_close(logits, alone(self.model, source, target)[-1], **CLOSE)

    def select(self, rows):
        self.state = self.state.select(torch.tensor(rows, dtype=torch.long))
        self.read = [self.read[row] for row in rows]

    def join(self, other):
        self.state, self.read = self.state.join(other.state), self.read + other.read


TOKENS = st.lists(st.integers(0, VOCAB - 1), max_size=3)
SENTENCES = st.lists(
    st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=5), min_size=1, max_size=3
)


@pytest.mark.parametrize(
    "variant",
    [
        Variant("transformer"),
        Variant("transformer", {"score": {"name": "additive", "hidden_dim": 3}}),
        Variant("seq2seq", {"order": "luong", "attention": LOCAL, "weighting": "hard"}),
        Variant("gpt", {"context": 40}),
        Variant("transformer-xl"),
    ],
    ids=str,
)
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_any_life_of_a_batch_is_its_rows_alone(variant, data):
    """Requests come with prompts, paths split, leave and change places, in any order."""
    model = variant.build()

    def start():
        sources = data.draw(SENTENCES)
        size = len(sources)
        prefixes = data.draw(st.none() | st.lists(TOKENS, min_size=size, max_size=size))
        return Rows(model, sources, prefixes)

    with torch.no_grad():
        rows = start()
        for action in data.draw(st.lists(st.sampled_from(["step", "select", "join"]), max_size=6)):
            if action == "join":
                rows.join(start())
            elif action == "select" and rows.read:
                rows.select(data.draw(st.lists(st.integers(0, len(rows.read) - 1), max_size=6)))
            elif rows.read:
                size = len(rows.read)
                token = st.integers(0, VOCAB - 1)
                rows.step(data.draw(st.lists(token, min_size=size, max_size=size)))
        if rows.read:
            rows.step([3] * len(rows.read))


def searched(model, sources, **settings):
    options = SearchOptions(**settings)
    limits = [options.max_length(len(source)) for source in sources]
    state = model.start(padded(*sources))
    return beam_search(
        model, state, Bounds(first=BOS, eos=EOS, max_lengths=limits), options=options
    )


@EACH
def test_beam_search_of_a_batch_is_that_of_each_sentence_alone(variant):
    model, settings = variant.build(), {"beam": 3, "nbest": 3, "max_extra": 3, "max_ratio": 1.0}
    for source, found in zip(SOURCES, searched(model, SOURCES, **settings), strict=True):
        (expected,) = searched(model, [source], **settings)
        assert [each.tokens for each in found] == [each.tokens for each in expected]
        assert [each.score for each in found] == pytest.approx([e.score for e in expected])


@EACH
def test_beam_search_reports_what_teacher_forcing_says(variant):
    model = variant.build()
    for source, nbest in zip(
        SOURCES, searched(model, SOURCES, beam=3, nbest=2, max_extra=4), strict=True
    ):
        for each in nbest:
            gold = [*each.tokens, EOS][: len(each.token_log_probs)]
            log_probs = alone(model, source, [BOS, *gold[:-1]]).log_softmax(-1)
            expected = log_probs[range(len(gold)), gold]
            torch.testing.assert_close(
                torch.tensor(each.token_log_probs).double(), expected, rtol=0, atol=1e-5
            )


@EACH
def test_greedy_is_a_beam_of_one(variant):
    model, options = variant.build(), SearchOptions(beam=1)
    limits = [6] * len(SOURCES)
    found = greedy_search(
        model,
        model.start(padded(*SOURCES)),
        Bounds(first=BOS, eos=EOS, max_lengths=limits),
        options=options,
    )
    for source, (hypothesis,) in zip(SOURCES, found, strict=True):
        target = [BOS]
        while len(target) <= 6 and (target[-1] != EOS):
            target.append(int(alone(model, source, target)[-1].argmax()))
        expected = target[1:-1] if target[-1] == EOS else target[1:]
        assert hypothesis.tokens == expected


@EACH
def test_weights_survive_the_disk(variant, tmp_path):
    model, other = variant.build(), variant.build(seed=1)
    tensors = named_weights(model)
    save_tensors(tmp_path / "model.safetensors", tensors, {})
    model(padded([1] * 30 if model.limit is None else [1]), torch.tensor([[1]]))  # grows no file
    assert named_weights(model).keys() == tensors.keys()
    loaded = load_tensors(tmp_path / "model.safetensors", named_weights(other))
    for name, tensor in named_weights(other).items():
        tensor.copy_(loaded[name])
    source, target = padded(*SOURCES), torch.tensor(TARGETS)
    torch.testing.assert_close(other(source, target), model(source, target), rtol=0, atol=0)
