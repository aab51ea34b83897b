"""What a stream tells of a search that goes on."""

import pytest
import torch
from decoding.tiny_decoders import BOS, EOS, Table

from saccade.decoding.search import SearchOptions, beam_search
from saccade.decoding.walk import Bounds
from saccade.serving.answers import GrowingTree

A, B = 2, 3
CASES = [  # after A: the chances of A and B; the length penalty; the drafts
    # [] of 0.48 leads [A, A] of 0.31, though a token of it costs more
    ((0.6, 0.1), 0.0, [[A], [], []]),
    # [A, A] and [A, B] push [] out, though a token of it costs less
    ((0.37, 0.33), 10.0, [[A], [A, A], [A, B]]),
]


def search(
    after: tuple[float, float], penalty: float, length: int, tree: GrowingTree | None = None
) -> list[int]:
    """Two paths through a table that ends at once or says A; after B it ends."""
    never = 1e-9
    chances = torch.full((1, 3, 4, 4), never, dtype=torch.float64)
    chances[0, 0, BOS] = torch.tensor([never, 0.48, 0.52, never])
    chances[0, 1:, A] = torch.tensor([never, 1 - sum(after), *after])
    chances[0, 1:, B, EOS] = 1.0
    decoder = Table(chances.log())
    bounds = Bounds(first=BOS, eos=EOS, max_lengths=[length])
    options = SearchOptions(beam=2, length_penalty=penalty)
    ((best,),) = beam_search(decoder, decoder.start([0]), bounds, options, tree)
    return best.tokens


@pytest.mark.parametrize(("after", "penalty", "expected"), CASES)
def test_a_draft_is_what_the_search_would_answer_if_it_ended_there(
    after: tuple[float, float], penalty: float, expected: list[list[int]]
) -> None:
    drafts: list[list[int]] = []
    search(after, penalty, 3, GrowingTree(drafts.append))
    said = [[token for token in draft if token != EOS] for draft in drafts]
    assert said == [search(after, penalty, length) for length in (1, 2, 3)] == expected
