"""Embeddings: scaled on the way in, tied on the way out."""

import copy
import math

import torch
from torch import nn

from saccade.blocks.embeddings import TiedOutput, TokenEmbedding

V, D = 50, 64


def test_rows_are_scaled_to_variance_one_and_weights_have_one_over_dim():
    embedding = TokenEmbedding(1000, D)
    assert abs(embedding.weight.std().item() - 1 / math.sqrt(D)) < 0.005
    tokens = torch.randint(0, 1000, (4, 7))
    torch.testing.assert_close(embedding(tokens), embedding.weight[tokens] * math.sqrt(D))
    assert embedding(tokens[0]).shape == (7, D)
    assert embedding(tokens[0, 0]).shape == (D,)


def test_padding_is_zero_and_stays_so():
    embedding = TokenEmbedding(V, D, padding=3)
    tokens = torch.tensor([[1, 3, 2]])
    assert not embedding(tokens)[0, 1].any()
    embedding(tokens).sum().backward()
    assert not embedding.weight.grad[3].any()
    assert embedding.weight.grad[[1, 2]].all()


def test_tied_output_is_a_product_with_the_unscaled_rows():
    embedding = TokenEmbedding(V, D)
    output, x = TiedOutput(embedding), torch.randn(2, 3, D)
    torch.testing.assert_close(output(x), x @ embedding.weight.T)


def test_three_ways_of_sharing_are_one_set_of_weights():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.source = self.target = TokenEmbedding(V, D)
            self.output = TiedOutput(self.target)

    model = copy.deepcopy(Model())
    assert sum(p.numel() for p in model.parameters()) == V * D
    tokens = torch.tensor([[1, 2]])
    logits = model.output(model.source(tokens) + model.target(tokens))
    logits.sum().backward()
    with torch.no_grad():
        model.source.weight.zero_()
    assert not model.output(torch.randn(1, D)).any()
    assert not model.target(tokens).any()
