"""The position-wise network against its equation."""

import pytest
import torch

from saccade.blocks.activations import ACTIVATIONS
from saccade.blocks.feedforward import FeedForward

D, HIDDEN = 6, 10


@pytest.mark.parametrize("output_bias", [True, False])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_it_is_its_equation(name, output_bias):
    net = FeedForward(D, HIDDEN, ACTIVATIONS[name], output_bias=output_bias)
    x = torch.randn(2, 3, D)
    hidden = ACTIVATIONS[name](x @ net.expand.weight.T + net.expand.bias)
    expected = hidden @ net.contract.weight.T
    if output_bias:
        expected = expected + net.contract.bias
    torch.testing.assert_close(net(x), expected)
    assert ("contract.bias" in net.state_dict()) == output_bias
    assert "expand.bias" in net.state_dict()


def test_relu_is_the_default():
    net, x = FeedForward(D, HIDDEN), torch.randn(2, 3, D)
    twin = FeedForward(D, HIDDEN, ACTIVATIONS["relu"])
    twin.load_state_dict(net.state_dict())
    torch.testing.assert_close(net(x), twin(x))


def test_every_position_is_treated_alone():
    net, x = FeedForward(D, HIDDEN), torch.randn(2, 3, D)
    torch.testing.assert_close(net(x)[1, 2], net(x[1, 2]))


def test_dropout_falls_on_the_hidden_layer_in_training_only():
    net, x = FeedForward(D, HIDDEN, dropout=1.0), torch.randn(2, 3, D)
    torch.testing.assert_close(net(x), net.contract.bias.expand(2, 3, D))
    assert not torch.equal(net.eval()(x), net.contract.bias.expand(2, 3, D))
