"""Beam search against a plain reference of its definition, exhaustive search and greedy."""

import itertools
from dataclasses import astuple

import pytest
import torch
from decoding.tiny_decoders import (
    BOS,
    EOS,
    D,
    Rows,
    Table,
    TinyAttention,
    TinyRNN,
    rescore,
    steps_of,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from saccade.decoding.choices import MANY
from saccade.decoding.search import BeamTree, SearchOptions, beam_search, greedy_search
from saccade.decoding.walk import BLOCK, Bounds
from saccade.errors import InputError

TINY = [TinyRNN, TinyAttention]
NEVER = float("-inf")


def search(decoder, state, lengths, tree=None, constraints=(), **options):
    return beam_search(
        decoder,
        state,
        Bounds(first=BOS, eos=EOS, max_lengths=lengths, constraints=constraints),
        options=SearchOptions(**options),
        tree=tree,
    )


def normalised(log_prob, length, penalty):
    return log_prob / ((5 + length) / 6) ** penalty


def reference(table, sentence, limit, options):
    """The definition, word by word: lists of (log_prob, tokens, ended), best first."""
    choices = options.choices or options.beam
    kept = [(0.0, [], False)]
    for position in range(limit):
        candidates = []
        for log_prob, tokens, ended in kept:
            logits = table[sentence, position, tokens[-1] if tokens else BOS]
            if ended or bool((logits == NEVER).all()):
                candidates.append((log_prob, tokens, True))
                continue
            values = logits.log_softmax(-1).tolist()
            best = sorted(range(len(values)), key=lambda token: -values[token])[:choices]
            candidates += [
                (log_prob + values[token], [*tokens, token], token == EOS)
                for token in best
                if values[token] > NEVER
            ]
        kept = sorted(
            candidates, key=lambda path: -normalised(path[0], len(path[1]), options.length_penalty)
        )[: options.beam]
        if all(ended for *_, ended in kept):
            break
    penalty = options.length_penalty
    ranked = sorted(kept, key=lambda path: -normalised(path[0], len(path[1]), penalty))
    return [(tokens, log_prob) for log_prob, tokens, _ in ranked[: options.nbest]]


@st.composite
def searches(draw):
    """A table with ties and impossible tokens, lengths and options."""
    sentences, vocabulary = draw(st.integers(1, 4)), draw(st.integers(2, 6))
    lengths = draw(st.lists(st.integers(1, 6), min_size=sentences, max_size=sentences))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))
    shape = (sentences, max(lengths), vocabulary, vocabulary)
    table = torch.randn(shape, generator=generator, dtype=torch.float64) * draw(
        st.sampled_from([1, 3])
    )
    if draw(st.booleans()):
        table = table.round()  # ties
    if draw(st.booleans()):
        table[torch.rand(shape, generator=generator) < draw(st.sampled_from([0.2, 0.7]))] = NEVER
    beam = draw(st.integers(1, 6))
    options = SearchOptions(
        beam=beam,
        choices=draw(st.none() | st.integers(1, 7)),
        nbest=draw(st.integers(1, beam)),
        length_penalty=draw(st.sampled_from([0.0, 0.6, 1.0, 2.0])),
    )
    return table, lengths, options


@settings(max_examples=150, deadline=None)
@given(searches())
def test_it_is_the_definition(case):
    table, lengths, options = case
    decoder = Table(table)
    state = decoder.start(range(len(lengths)))
    found = beam_search(
        decoder, state, Bounds(first=BOS, eos=EOS, max_lengths=lengths), options=options
    )
    for sentence, hypotheses in enumerate(found):
        expected = reference(table, sentence, lengths[sentence], options)
        assert [(steps_of(each), each.log_prob) for each in hypotheses] == expected
        for each in hypotheses:
            length = len(steps_of(each))
            assert each.score == normalised(each.log_prob, length, options.length_penalty)
            assert len(each.path) == len(each.token_log_probs) == length
            for position, row in enumerate(each.path):  # the path leads through what was read
                read = decoder.inputs[position][row].tolist()
                assert read == [BOS, *each.tokens[:position]]


@settings(max_examples=60, deadline=None)
@given(searches())
def test_stopping_early_changes_nothing(case):
    table, lengths, options = case
    decoder = Table(table)
    state, tree = decoder.start(range(len(lengths))), BeamTree()
    fixed = (Bounds(first=BOS, eos=EOS, max_lengths=lengths), options)
    to_the_end = beam_search(decoder, state, *fixed, tree=tree)
    for ours, theirs in zip(beam_search(decoder, state, *fixed), to_the_end, strict=True):
        assert [astuple(each)[:4] for each in ours] == [astuple(each)[:4] for each in theirs]


class Told(BeamTree):
    """Remembers where the best path ended after each step."""

    def __init__(self):
        super().__init__()
        self.best = []

    def stepped(self, best):
        self.best.append(best)


@settings(max_examples=60, deadline=None)
@given(searches())
def test_after_each_step_the_tree_is_told_what_a_search_that_ended_there_would_find(case):
    table, lengths, options = case
    decoder, tree = Table(table), Told()
    fixed = (Bounds(first=BOS, eos=EOS, max_lengths=lengths), options)
    beam_search(decoder, decoder.start(range(len(lengths))), *fixed, tree=tree)
    for length, ends in enumerate(tree.best, start=1):
        for sentence, end in ends.items():
            tokens, _ = reference(table, sentence, length, options)[0]
            assert [tree.nodes[place].token for place in tree.path(end)] == tokens


def test_it_does_stop_early():
    table = torch.full((1, 50, 3, 3), 0.0, dtype=torch.float64)
    table[..., EOS] = 4.0
    decoder = Table(table)
    search(decoder, decoder.start([0]), [50], beam=2, length_penalty=0.0)
    assert len(decoder.inputs) == 1


@pytest.mark.parametrize("model", TINY)
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_full_beam_is_exhaustive(model, penalty):
    decoder, limit = model(), 4
    inputs = torch.randn(2, D, dtype=torch.float64)
    state = decoder.start(inputs)
    found = search(decoder, state, [limit] * 2, beam=4**limit, nbest=7, length_penalty=penalty)
    every = {
        sequence[: sequence.index(EOS) + 1] if EOS in sequence else sequence
        for sequence in itertools.product(range(4), repeat=limit)
    }
    for b, hypotheses in enumerate(found):
        row = state.select(torch.tensor([b]))
        scores = {s: normalised(sum(rescore(decoder, row, s)), len(s), penalty) for s in every}
        best = sorted(every, key=lambda s: -scores[s])[:7]
        assert [tuple(steps_of(each)) for each in hypotheses] == best
        assert [each.score for each in hypotheses] == pytest.approx(
            [scores[s] for s in best], 1e-10
        )


@pytest.mark.parametrize("model", TINY)
def test_width_one_is_greedy(model):
    decoder, inputs = model(12), torch.randn(5, D, dtype=torch.float64)
    state, lengths = decoder.start(inputs), [3, 9, 1, 20, 20]
    options = SearchOptions(beam=1)
    fixed = (Bounds(first=BOS, eos=EOS, max_lengths=lengths), options)
    short = greedy_search(decoder, state, *fixed)
    assert short == beam_search(decoder, state, *fixed, tree=BeamTree())  # a tree: the long way
    assert short == beam_search(decoder, state, *fixed)
    for b, (only,) in enumerate(short):
        row, token = state.select(torch.tensor([b])), BOS
        for chosen in steps_of(only):
            logits, row = decoder.step(torch.tensor([token]), row)
            assert chosen == logits.argmax().item()
            token = chosen
        assert only.finished or len(only.tokens) == lengths[b]


@pytest.mark.parametrize("model", TINY)
def test_scores_are_the_models_own(model):
    decoder, inputs = model(9), torch.randn(4, D, dtype=torch.float64)
    state = decoder.start(inputs)
    found = search(decoder, state, [8, 5, 8, 12], beam=4, choices=3, nbest=4)
    for b, hypotheses in enumerate(found):
        row = state.select(torch.tensor([b]))
        for each in hypotheses:
            own = rescore(decoder, row, steps_of(each))
            assert each.token_log_probs == pytest.approx(own, abs=1e-10)
            assert each.log_prob == pytest.approx(sum(own), abs=1e-10)


@settings(max_examples=25, deadline=None)
@given(st.permutations(range(6)), st.integers(1, 6), st.integers(1, 5), st.sampled_from(TINY))
def test_alone_as_in_any_batch(order, size, beam, model):
    torch.manual_seed(3)
    decoder, inputs = model(7), torch.randn(6, D, dtype=torch.float64)
    lengths, batch = [7, 2, 9, 4, 9, 1], order[:size]
    together = search(decoder, decoder.start(inputs[batch]), [lengths[b] for b in batch], beam=beam)
    for b, (ours,) in zip(batch, together, strict=True):
        ((alone,),) = search(decoder, decoder.start(inputs[[b]]), [lengths[b]], beam=beam)
        assert (ours.tokens, ours.finished) == (alone.tokens, alone.finished)
        assert ours.token_log_probs == pytest.approx(alone.token_log_probs, abs=1e-10)


WORDS = [
    "<s>",
    "</s>",
    "the",
    "poor",
    "people",
    "don't",
    "have",
    "any",
    "money",
    "are",
    "destitute",
]
FOLLOWS = {  # P(word | word before) for "les pauvres sont démunis"
    "<s>": {"the": 0.6, "poor": 0.4},
    "the": {"poor": 0.9, "people": 0.1},
    "poor": {"people": 0.5, "don't": 0.3, "are": 0.2},
    "people": {"are": 0.4, "have": 0.35, "</s>": 0.25},
    "don't": {"have": 1.0},
    "have": {"any": 1.0},
    "any": {"money": 1.0},
    "money": {"</s>": 1.0},
    "are": {"destitute": 0.5, "the": 0.5},
    "destitute": {"</s>": 1.0},
}


def lecture():
    logits = torch.full((1, 10, len(WORDS), len(WORDS)), NEVER, dtype=torch.float64)
    for before, row in FOLLOWS.items():
        for after, probability in row.items():
            logits[0, :, WORDS.index(before), WORDS.index(after)] = torch.tensor(probability).log()
    decoder = Table(logits)
    return decoder, decoder.start([0])


def test_the_lectures_tree():
    """Greedy takes "people" (.5) and pays for it; two paths keep "don't" (.3), worth more."""
    decoder, state = lecture()
    words = lambda hypothesis: " ".join(WORDS[t] for t in hypothesis.tokens)  # noqa: E731
    ((greedy,),) = search(decoder, state, [10], beam=1, length_penalty=0.0)
    tree = BeamTree()
    ((best,),) = search(decoder, state, [10], beam=2, length_penalty=0.0, tree=tree)
    assert words(best) == "the poor don't have any money"
    assert best.log_prob == pytest.approx(torch.tensor(0.6 * 0.9 * 0.3).log().item())
    assert words(greedy).startswith("the poor people are")
    assert greedy.log_prob < best.log_prob

    first = [(WORDS[n.token], n.kept) for n in tree.nodes if n.step == 0]
    assert first == [("the", True), ("poor", True)]
    third = [(WORDS[n.token], n.kept) for n in tree.nodes if n.step == 2]
    assert [word for word, kept in third if kept] == ["people", "don't"]
    returned = [WORDS[node.token] for node in tree.nodes if node.returned]
    assert returned == ["the", "poor", "don't", "have", "any", "money", "</s>"]
    last = max(i for i, node in enumerate(tree.nodes) if node.returned)
    assert tree.nodes[last].finished
    assert tree.nodes[last].log_prob == best.log_prob
    assert [tree.nodes[i].token for i in tree.path(last)] == steps_of(best)


def test_the_tree_holds_what_each_step_considered():
    table = torch.randn(2, 4, 5, 5, dtype=torch.float64)
    decoder, tree = Table(table), BeamTree()
    found = search(decoder, decoder.start([0, 1]), [4, 3], beam=3, choices=2, nbest=3, tree=tree)
    for sentence in (0, 1):
        nodes = tree.of(sentence)
        for step in range(1, 1 + max(node.step for node in nodes)):
            parents = {n.parent for n in nodes if n.step == step}
            assert all(sum(n.parent == p for n in nodes) == 2 for p in parents)
            assert all(tree.nodes[p].kept and not tree.nodes[p].finished for p in parents)
        ends = {n.log_prob for n in nodes if n.returned}
        assert {each.log_prob for each in found[sentence]} <= ends


def test_no_select_without_need():
    class Fixed(Rows):
        def select(self, rows):
            raise AssertionError(f"rows did not change: {rows}")

    class Same:
        logits = torch.tensor([[1.0, -1e9, 0.0, 3.0]]).repeat(3, 1)  # nothing finishes

        def start(self, inputs, prefix=None):
            raise NotImplementedError

        def step(self, token, state):  # noqa: ARG002
            return self.logits, state

    for options in ({"beam": 1}, {"beam": 2, "choices": 1}):
        found = search(Same(), Fixed(torch.zeros(3, D)), [5, 5, 5], **options)
        assert [each.tokens for (each,) in found] == [[3] * 5] * 3


def test_dead_ends_keep_what_there_is():
    table = torch.full((2, 3, 3, 3), NEVER, dtype=torch.float64)
    table[0, :, BOS, 2] = 0.0  # the first goes one step, the second none
    decoder = Table(table)
    for beam in (1, 2):
        found = search(decoder, decoder.start([0, 1]), [3, 3], beam=beam)
        assert [(only.tokens, only.finished, only.log_prob) for (only,) in found] == [
            ([2], False, 0.0),
            ([], False, 0.0),
        ]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("beam", [1, 3])
def test_damaged_logits_are_named(bad, beam):
    table = torch.zeros(2, 5, 4, 4)
    table[..., EOS] = -9
    table[1, 2, :, 3] = bad
    decoder = Table(table)
    with pytest.raises(FloatingPointError, match="step 2"):
        search(decoder, decoder.start([0, 1]), [5, 5], beam=beam)


def test_blocks_of_rows_are_joined_in_order():
    """More rows than a block holds, in float32 and bfloat16."""
    vocabulary = BLOCK // 4
    logits = torch.randn(11, vocabulary)

    class OneStep(Table):
        def step(self, token, state):  # noqa: ARG002
            return self.logits[state.source], state

    for given_logits in (logits, logits.bfloat16()):
        decoder = OneStep(given_logits)
        for beam in (1, 3):
            found = search(decoder, decoder.start(range(11)), [1] * 11, beam=beam, nbest=beam)
            top = given_logits.float().log_softmax(-1).topk(beam)
            for b in range(11):
                assert [each.log_prob for each in found[b]] == pytest.approx(top.values[b].tolist())


def test_a_search_of_many_choices_is_that_of_few_and_more():
    """With one path, the choices beyond the first change nothing; with a tree they are told."""
    decoder = Table(torch.randn(2, 5, 60, 60, dtype=torch.float64))
    found = {}
    for choices in (1, MANY, MANY + 1, 60):
        tree = BeamTree()
        found[choices] = search(
            decoder, decoder.start([0, 1]), [5, 5], tree, beam=1, choices=choices
        )
        assert len(tree.of(0)) % choices == 0
    assert all(each == found[1] for each in found.values())


def test_first_tokens_may_differ_by_row():
    table = torch.randn(1, 4, 5, 5, dtype=torch.float64)
    decoder = Table(table)
    options = SearchOptions(beam=2)
    bounds = Bounds(first=[2, 3], eos=EOS, max_lengths=[4, 4])
    both = beam_search(decoder, decoder.start([0, 0]), bounds, options)
    for first, found in zip((2, 3), both, strict=True):
        bounds = Bounds(first=first, eos=EOS, max_lengths=[4])
        alone = beam_search(decoder, decoder.start([0]), bounds, options)
        assert found[0].tokens == alone[0][0].tokens


def test_an_empty_batch_is_an_empty_answer():
    decoder = TinyRNN()
    for beam in (1, 2):
        assert search(decoder, decoder.start(torch.zeros(0, D)), [], beam=beam) == []


def test_wrong_lengths_are_refused():
    decoder = TinyRNN()
    state = decoder.start(torch.zeros(2, D))
    for lengths in ([3], [3, 0]):
        with pytest.raises(InputError, match="maximum length"):
            search(decoder, state, lengths)
