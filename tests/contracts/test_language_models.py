"""What every language model promises besides decoding: whole batches, and what it carries on."""

import pytest
import torch
from contracts.decoder_variants import LANGUAGE_MODELS, VOCAB, stepped

from saccade.blocks.quantized import quantize
from saccade.tasks.rereading import reread
from saccade.training.checkpoint import load_tensors, save_tensors

EACH = pytest.mark.parametrize("variant", LANGUAGE_MODELS, ids=str)
CARRYING = pytest.mark.parametrize(
    "variant", [each for each in LANGUAGE_MODELS if not str(each).startswith("gpt")], ids=str
)
TEXTS = torch.tensor(
    [[3, 1, 4, 1, 5, 9, 2, 6, 5], [9, 7, 9, 3, 2, 3, 8, 4, 6], [1, 1, 2, 3, 5, 8, 12, 0, 7]]
)


def built(variant):
    return variant.build().model


@EACH
@torch.no_grad()
def test_no_bit_of_the_future_is_seen(variant):
    model = built(variant).float()
    before, _ = model(TEXTS)
    for place in (1, 4, 8):
        changed = TEXTS.clone()
        changed[:, place:] = (changed[:, place:] + 5) % VOCAB
        after, _ = model(changed)
        assert torch.equal(after[:, :place], before[:, :place])
        assert not torch.equal(after[:, place], before[:, place])


@EACH
@torch.no_grad()
def test_the_order_of_a_batch_changes_nothing(variant):
    model, order = built(variant), torch.tensor([2, 0, 1])
    first, carry = model(TEXTS[:, :4])
    second, _ = model(TEXTS[:, 4:], carry)
    moved = None if carry is None else {name: part[order] for name, part in carry.items()}
    torch.testing.assert_close(model(TEXTS[order, :4])[0], first[order], rtol=0, atol=1e-12)
    torch.testing.assert_close(model(TEXTS[order, 4:], moved)[0], second[order], rtol=0, atol=1e-12)


@EACH
def test_every_parameter_learns(variant):
    """A gradient that is not zero, also of what only a second segment uses."""
    model = built(variant)
    _, carry = model(TEXTS[:, :4])
    hidden, _ = model(TEXTS[:, 4:8], carry)
    losses = torch.nn.functional.cross_entropy(
        (hidden @ model.output_weight.T).flatten(0, 1), TEXTS[:, 5:].flatten()
    )
    losses.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert parameter.grad.abs().sum() > 0, name


@EACH
@torch.no_grad()
def test_logits_are_products_with_the_output_weight(variant):
    """So that a loss may take the weight and never hold all logits."""
    model = built(variant)
    hidden, _ = model(TEXTS)
    torch.testing.assert_close(model.logits(hidden), hidden @ model.output_weight.T)


@CARRYING
@torch.no_grad()
def test_what_is_carried_survives_the_disk(variant, tmp_path):
    model = built(variant)
    _, carry = model(TEXTS[:, :4])
    assert carry, "it carries nothing"
    save_tensors(tmp_path / "carry.safetensors", carry, {})
    loaded = load_tensors(tmp_path / "carry.safetensors", carry)
    assert torch.equal(model(TEXTS[:, 4:], loaded)[0], model(TEXTS[:, 4:], carry)[0])


@EACH
@torch.no_grad()
def test_it_decodes_in_eight_bits(variant):
    """The linear maps alone: a little off, and the same by any way of reading the text."""
    exact = built(variant).float()
    expected = exact.logits(exact(TEXTS)[0])
    model = quantize(exact)
    found, _ = stepped(model, model.start(3), TEXTS)
    spread = expected.std()
    assert (found - expected).abs().mean() < 0.2 * spread
    assert (found - model.logits(model(TEXTS)[0])).abs().mean() < 0.2 * spread


@EACH
@torch.no_grad()
def test_a_text_read_again_is_what_decoding_saw(variant):
    """Longer than any context or memory here: at once only as far as the model's sight."""
    model = built(variant)
    if hasattr(model, "memory"):
        model.memory = 4
    text = TEXTS.flatten().tolist()
    for size in range(1, len(text) + 1):
        again = reread(model, text[:size])
        state, steps = model.start(1), []
        for token in text[:size]:
            logits, state = model.step(torch.tensor([token]), state)
            steps.append(logits[0])
        torch.testing.assert_close(again, torch.stack(steps), rtol=0, atol=1e-10)
