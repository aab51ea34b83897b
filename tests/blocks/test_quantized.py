"""Linear maps in 8 bits are near those in 32, also where all numbers are as large as they get."""

import pytest
import torch

from saccade.blocks.quantized import QuantizedLinear


@pytest.mark.parametrize("rows", [1, 3, 64])
def test_near_the_map_it_replaces(rows: int) -> None:
    torch.manual_seed(1)
    weight, bias, x = torch.randn(48, 32), torch.randn(48), torch.randn(rows, 32)
    exact = torch.nn.functional.linear(x, weight, bias)
    found = QuantizedLinear(weight, bias)(x)
    assert (found - exact).norm() < 0.02 * exact.norm()


def test_sums_of_the_largest_products_do_not_overflow() -> None:
    """Each pair is 2 * 255 * 63 in 16 bits; with weights up to 127 the sum would be cut off."""
    weight, x = torch.ones(16, 64), torch.ones(4, 64)
    weight[8:] = -1
    found = QuantizedLinear(weight, None)(x)
    torch.testing.assert_close(found, x @ weight.mT, rtol=0.01, atol=0)


def test_small_outputs_have_scales_of_their_own() -> None:
    torch.manual_seed(2)
    weight, x = torch.randn(2, 32), torch.randn(5, 32)
    weight[1] *= 1e-4
    exact = x @ weight.mT
    error = (QuantizedLinear(weight, None)(x) - exact).norm(dim=0) / exact.norm(dim=0)
    assert (error < 0.03).all()
