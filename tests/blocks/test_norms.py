"""Norms against their formula, and the three placements."""

import pytest
import torch
from torch import nn

from saccade.blocks.masks import padding_mask
from saccade.blocks.norms import (
    NORMS,
    PLACEMENTS,
    BatchNormOverTime,
    LayerNorm,
    LayerNormByEquation,
    OutputNorm,
    PostNorm,
    PreNorm,
    RMSNorm,
)
from saccade.errors import InputError

B, T, D = 4, 5, 6


def shuffle_weights(module):
    for parameter in module.parameters():
        nn.init.normal_(parameter)
    return module


@pytest.mark.parametrize("shape", [(D,), (B, D), (B, T, D)])
def test_layer_norm_is_its_equation_forward_and_backward(shape):
    fast, twin = shuffle_weights(LayerNorm(D)), LayerNormByEquation(D)
    twin.load_state_dict(fast.state_dict())
    x = torch.randn(shape) * 3 + 1
    upstream = torch.randn(shape)
    gradients = []
    for norm in (fast, twin):
        mine = x.clone().requires_grad_()
        norm(mine).backward(upstream)
        gradients.append([mine.grad, norm.weight.grad, norm.bias.grad])
    torch.testing.assert_close(fast(x), twin(x))
    torch.testing.assert_close(*gradients)


def test_layer_norm_of_a_token_ignores_all_other_tokens():
    norm, x = LayerNorm(D), torch.randn(B, T, D)
    torch.testing.assert_close(norm(x)[1, 2], norm(x[1, 2]))


def test_a_constant_token_does_not_divide_by_zero():
    assert not LayerNorm(D)(torch.full((1, D), 7.0)).any()


def test_rms_norm_is_its_equation():
    norm, x = shuffle_weights(RMSNorm(D)), torch.randn(B, T, D)
    expected = x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-6) * norm.weight
    torch.testing.assert_close(norm(x), expected)


def test_batch_norm_normalises_each_time_step_over_the_batch():
    x = torch.randn(64, T, D) * torch.arange(1, T + 1).view(T, 1)
    y = BatchNormOverTime(D)(x)
    torch.testing.assert_close(y.mean(0), torch.zeros(T, D), atol=1e-5, rtol=0)
    torch.testing.assert_close(y.var(0, unbiased=False), torch.ones(T, D), atol=1e-3, rtol=0)


def test_batch_norm_does_not_count_padding():
    x, lengths = torch.randn(B, T, D), torch.tensor([5, 2, 3, 3])
    mask = padding_mask(lengths, T)
    clean, dirty = BatchNormOverTime(D), BatchNormOverTime(D)
    a, b = clean(x, mask), dirty(x.masked_fill(~mask.unsqueeze(-1), 1e3), mask)
    torch.testing.assert_close(a[mask], b[mask])
    torch.testing.assert_close(clean.state_dict(), dirty.state_dict())
    torch.testing.assert_close(a[:, 0], BatchNormOverTime(D)(x[:, :1])[:, 0])
    torch.testing.assert_close(a[[0, 2, 3], 2], BatchNormOverTime(D)(x[[0, 2, 3], 2:3])[:, 0])


def test_a_time_step_that_is_all_padding_teaches_nothing():
    norm = BatchNormOverTime(D)
    norm(torch.randn(B, 3, D))
    mean, variance = norm.mean.clone(), norm.variance.clone()
    norm(torch.randn(B, 3, D), padding_mask(torch.tensor([2, 1, 1, 2]), 3))
    for now, before in [(norm.mean, mean), (norm.variance, variance)]:
        assert torch.equal(now[2:], before[2:])
        assert (now[:2] != before[:2]).all()


def test_what_is_no_number_teaches_nothing():
    norm = BatchNormOverTime(D, 4)
    norm(torch.randn(B, 3, D))
    before = {name: buffer.clone() for name, buffer in norm.named_buffers()}
    spoilt = torch.randn(B, 3, D)
    spoilt[0, 1, 0] = torch.nan
    assert not norm(spoilt).isfinite().all()
    for name, buffer in norm.named_buffers():
        assert buffer.isfinite().all()
        assert torch.equal(buffer[1], before[name][1])
        assert not torch.equal(buffer[0], before[name][0])


def test_batch_norm_fails_beyond_the_time_steps_of_training_where_layer_norm_holds():
    norm = BatchNormOverTime(D)
    norm(torch.randn(B, 7, D))
    norm(torch.randn(B, 9, D), padding_mask(torch.tensor([8, 3, 2, 1]), 9))  # nobody reaches 9
    norm.eval()
    assert norm(torch.randn(1, 8, D)).isfinite().all()
    with pytest.raises(InputError, match="statistics of 8 time steps, the sequence has 9"):
        norm(torch.randn(1, 9, D))
    assert LayerNorm(D)(torch.randn(1, 9, D)).isfinite().all()


def test_batch_norm_has_room_for_so_many_time_steps():
    with pytest.raises(InputError, match="room for 3 time steps, the sequence has 4"):
        BatchNormOverTime(D, limit=3)(torch.randn(B, 4, D))


def test_batch_norm_of_one_sequence_alone_knows_nothing():
    alone = BatchNormOverTime(D)(torch.randn(1, T, D))
    assert not alone.any()
    pair = BatchNormOverTime(D, eps=0.0)(torch.randn(2, T, D))
    torch.testing.assert_close(pair.abs(), torch.ones(2, T, D))  # two: one is +1, the other -1


def test_batch_norm_a_step_at_a_time_equals_all_at_once():
    whole, steps = BatchNormOverTime(D), BatchNormOverTime(D)
    for training in (True, False):
        whole.train(training), steps.train(training)
        x = torch.randn(B, T, D)
        apart = torch.cat([steps(x[:, t : t + 1], start=t) for t in range(T)], dim=1)
        torch.testing.assert_close(whole(x), apart)


def test_evaluation_changes_no_statistics_and_they_survive_saving():
    norm = BatchNormOverTime(D)
    norm(torch.randn(B, T, D))
    norm.eval()
    loaded = BatchNormOverTime(D).eval()
    loaded.load_state_dict(norm.state_dict())
    x = torch.randn(1, T, D)
    torch.testing.assert_close(norm(x), loaded(x))
    torch.testing.assert_close(norm.state_dict(), loaded.state_dict())


@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("place", PLACEMENTS)
def test_every_norm_fits_every_place(name, place):
    part = PLACEMENTS[place](D, NORMS[name], 0.1)
    x = torch.randn(B, T, D, requires_grad=True)
    y = PLACEMENTS[place].final_norm(D, NORMS[name])(part(x, nn.Linear(D, D)))
    y.square().sum().backward()
    assert y.shape == x.shape
    assert x.grad.isfinite().all()


def test_the_three_formulas():
    f, x = nn.Linear(D, D), torch.randn(B, T, D)
    post, pre, output = (shuffle_weights(part(D)) for part in (PostNorm, PreNorm, OutputNorm))
    torch.testing.assert_close(post(x, f), post.norm(x + f(x)))
    torch.testing.assert_close(pre(x, f), x + f(pre.norm(x)))
    torch.testing.assert_close(output(x, f), x + output.norm(f(x)))


@pytest.mark.parametrize("place", PLACEMENTS)
def test_dropout_falls_on_the_output_of_the_sublayer(place):
    part, x = (
        PLACEMENTS[place](D, nn.Identity if place != "pre" else LayerNorm, 1.0),
        torch.randn(B, D),
    )
    torch.testing.assert_close(part(x, torch.exp), x)  # all of it dropped: only x is left
    part.eval()
    assert not torch.equal(part(x, torch.exp), x)


def test_what_is_dropped_in_output_norm_is_normalised_as_zeros():
    part, x = shuffle_weights(OutputNorm(D, LayerNorm, 1.0)), torch.randn(B, D)
    torch.testing.assert_close(part(x, torch.exp), x + part.norm.bias)


def test_only_a_stack_of_post_norms_needs_no_last_norm():
    last = {name: type(part.final_norm(D, RMSNorm)) for name, part in PLACEMENTS.items()}
    assert last == {"post": nn.Identity, "pre": RMSNorm, "output": RMSNorm}
