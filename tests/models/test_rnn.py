"""What is the recurrent language model's own: any cell, its output, its state."""

import pytest
import torch
from contracts.decoder_variants import VOCAB

from saccade.blocks.cells import CELLS
from saccade.config import build
from saccade.errors import InputError
from saccade.models import rnn
from saccade.models.rnn import RecurrentLM, RecurrentLMConfig

TEXTS = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6], [9, 7, 9, 3, 2, 3, 8, 4]])


def tiny(**settings):
    values = {"vocab_size": VOCAB, "dim": 6, "layers": 2, **settings}
    return RecurrentLM(RecurrentLMConfig(**values)).double().eval()


@torch.no_grad()
@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_carries_its_state_over_segments_of_any_length(cell):
    model = tiny(cell=cell)
    whole, last = model(TEXTS)
    found, carry = [], None
    for segment in TEXTS.split([3, 1, 4], dim=1):
        hidden, carry = model(segment, carry)
        found.append(hidden)
    torch.testing.assert_close(torch.cat(found, dim=1), whole, rtol=0, atol=1e-12)
    assert carry.keys() == last.keys()
    for name, part in carry.items():
        torch.testing.assert_close(part, last[name], rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("cell", CELLS)
def test_a_prefix_is_read_in_segments(cell, monkeypatch):
    model = tiny(cell=cell)
    prefix = [TEXTS[0].tolist(), TEXTS[1, :3].tolist(), []]
    whole = model.start(3, prefix)
    sizes = []
    model.embedding.register_forward_hook(lambda _, read, __: sizes.append(read[0].shape[1]))
    monkeypatch.setattr(rnn, "SEGMENT", 3)
    found = model.start(3, prefix)
    assert sizes == [3, 3, 2]
    for mine, theirs in zip(found.layers, whole.layers, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-12)


def test_the_gradient_ends_at_the_segment():
    """Truncated back-propagation: what is carried counts as given."""
    model = tiny()
    _, carry = model(TEXTS[:, :4])
    assert sorted(carry) == ["layer0.0", "layer0.1", "layer1.0", "layer1.1"]
    assert not any(part.requires_grad for part in carry.values())


@pytest.mark.parametrize(
    ("settings", "width", "projected"),
    [
        ({}, 6, False),
        ({"embedding_dim": 4}, 4, True),
        ({"embedding_dim": 4, "tied": False}, 6, False),
        ({"tied": False}, 6, False),
    ],
)
def test_the_output_is_the_embedding_through_a_projection_if_widths_differ(
    settings, width, projected
):
    model = tiny(**settings)
    hidden, _ = model(TEXTS)
    assert hidden.shape == (2, 8, width)
    assert model.output_weight.shape == (VOCAB, width)
    assert isinstance(model.projection, torch.nn.Linear) == projected
    assert (model.output_weight is model.embedding.weight) == settings.get("tied", True)
    torch.testing.assert_close(model.logits(hidden), hidden @ model.output_weight.T)


def test_a_cell_that_is_not_there_is_refused():
    values = {"vocab_size": 9, "cell": "ltsm"}
    with pytest.raises(InputError, match="did you mean 'lstm'"):
        RecurrentLM(build(RecurrentLMConfig, values, "model"))
