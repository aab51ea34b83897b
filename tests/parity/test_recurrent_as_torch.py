"""Whole stacks against torch.nn.RNN, LSTM and GRU: deep, both ways, packed, states given."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from saccade.blocks.recurrent import Recurrent

B, T, IN, D = 4, 6, 3, 5
TORCH = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}


def twins(name, layers, bidirectional, fused):
    ours = Recurrent(
        IN, D, cell=name, layers=layers, bidirectional=bidirectional, fused=fused
    ).double()
    theirs = TORCH[name](IN, D, layers, batch_first=True, bidirectional=bidirectional).double()
    # Both list layer by layer, direction by direction: W_ih, W_hh, b_ih, b_hh.
    pairs = list(zip(ours.parameters(), theirs.parameters(), strict=True))
    for mine, other in pairs:
        other.data.copy_(mine.data)
    return ours, theirs, pairs


@pytest.mark.parametrize("fused", [True, False], ids=["kernel", "equation"])
@pytest.mark.parametrize("lengths", [None, [2, 6, 1, 6]], ids=["full", "packed"])
@pytest.mark.parametrize(("layers", "bidirectional"), [(1, False), (3, False), (2, True)])
@pytest.mark.parametrize("name", TORCH)
def test_a_stack_is_torchs(name, layers, bidirectional, lengths, fused):
    ours, theirs, pairs = twins(name, layers, bidirectional, fused)
    x = torch.randn(B, T, IN, dtype=torch.double)
    mine, other = x.clone().requires_grad_(), x.clone().requires_grad_()
    begin = [torch.randn_like(torch.stack(p)) for p in zip(*ours.zero(B), strict=True)]
    state = [tuple(parts) for parts in zip(*begin, strict=True)]
    hx = tuple(begin) if name == "lstm" else begin[0]

    if lengths is None:
        a, ends = ours(mine, None, state)
        b, last = theirs(other, hx)
    else:
        a, ends = ours(mine, torch.tensor(lengths), state)
        packed = pack_padded_sequence(other, lengths, batch_first=True, enforce_sorted=False)
        outputs, last = theirs(packed, hx)
        b = pad_packed_sequence(outputs, batch_first=True)[0]
    last = last if name == "lstm" else (last,)
    close = {"rtol": 0, "atol": 1e-9}
    torch.testing.assert_close(a, b, **close)
    for parts, theirs_last in zip(zip(*ends, strict=True), last, strict=True):
        torch.testing.assert_close(torch.stack(parts), theirs_last, **close)

    upstream = torch.randn_like(a)
    ((a * upstream).sum() + sum(part.sum() for parts in ends for part in parts)).backward()
    ((b * upstream).sum() + sum(part.sum() for part in last)).backward()
    torch.testing.assert_close(mine.grad, other.grad, **close)
    for parameter, theirs_parameter in pairs:
        torch.testing.assert_close(parameter.grad, theirs_parameter.grad, **close)
