"""The convolutional encoder against its formula in a naive loop, row by row."""

import math

import pytest
import torch

from saccade.blocks.encoders import ConvolutionalEncoder, EncoderSizes

IN, D, S = 3, 4, 6
LENGTHS = [6, 1, 3, 0]


def naive(encoder, x):
    """Gehring et al. 2017, 3.2, of one source without padding: x a vector a position."""
    vectors = []
    for place, word in enumerate(x):
        angles = [place / 10000 ** (2 * (d // 2) / D) for d in range(D)]
        position = [math.cos(a) if d % 2 else math.sin(a) for d, a in enumerate(angles)]
        vectors.append(encoder.enter.weight @ word + encoder.enter.bias + torch.tensor(position))
    for convolution in encoder.convolutions:
        weight, reach = convolution.weight, convolution.kernel_size[0] // 2  # (2 D, D, kernel)
        after = []
        for place, vector in enumerate(vectors):
            y = convolution.bias
            for tap in range(2 * reach + 1):
                if 0 <= (other := place + tap - reach) < len(vectors):  # zero beyond the ends
                    y = y + weight[:, :, tap] @ vectors[other]
            gated = y[:D] / (1 + (-y[D:]).exp())
            after.append((vector + gated) / math.sqrt(2))
        vectors = after
    return vectors


@pytest.mark.parametrize("kernel", [1, 3, 5])
@torch.no_grad()
def test_the_convolutional_encoder_is_its_formula(kernel):
    sizes = EncoderSizes(
        input_dim=IN, dim=D, layers=2, cell="gru", bidirectional=False, norm="none", dropout=0.0
    )
    encoder = ConvolutionalEncoder(sizes, kernel=kernel)
    x = torch.randn(len(LENGTHS), S, IN)  # padding is not zero: it must not be read
    memory, summaries = encoder(x, torch.tensor(LENGTHS))
    assert len(summaries) == 2
    for row, length in enumerate(LENGTHS):
        vectors = naive(encoder, x[row, :length])
        for place, vector in enumerate(vectors):
            torch.testing.assert_close(memory[row, place], vector)
        assert not memory[row, length:].any()
        mean = sum(vectors) / length if length else torch.zeros(D)
        for summary in summaries:
            torch.testing.assert_close(summary[row], mean)
