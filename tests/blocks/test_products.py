"""Products by the wider library: the same map, the same gradients, and nothing left behind."""

import sys
import threading
from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from saccade.blocks import products
from saccade.blocks.products import Linear, add_product, linear, multiply, pieces

WIDTH = 32
ROWS = [1, 15, 16, 17, 63, 64, 100, 511, 512, 513, 1300]


def way() -> str:
    found: str = torch.backends.mkldnn.matmul.fp32_precision
    return found


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("bias", [True, False])
def test_a_map_and_its_gradients_are_those_of_torch(rows: int, bias: bool) -> None:
    ours = Linear(WIDTH, 3 * WIDTH, bias=bias)
    theirs = nn.Linear(WIDTH, 3 * WIDTH, bias=bias)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(rows, WIDTH, requires_grad=True)
    towards = torch.randn(rows, 3 * WIDTH)
    results = []
    for module in (ours, theirs):
        y = module(x)
        gradients = torch.autograd.grad(y, [x, *module.parameters()], towards)
        results.append([y, *gradients])
    for mine, other in zip(*results, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=2e-4)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("rows", ROWS)
def test_without_gradients_it_is_the_same_map(rows: int) -> None:
    weight = torch.randn(WIDTH, WIDTH)
    for laid_out in (weight, weight.mT.contiguous().mT):
        x = torch.randn(rows, WIDTH)
        expected = F.linear(x, weight)
        with torch.no_grad():
            torch.testing.assert_close(linear(x, laid_out), expected, rtol=1e-4, atol=1e-4)
        with torch.inference_mode():
            torch.testing.assert_close(linear(x, laid_out), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("wide")
def test_leading_axes_stay() -> None:
    module = Linear(WIDTH, WIDTH)
    x = torch.randn(4, 25, WIDTH)
    assert module(x).shape == (4, 25, WIDTH)
    torch.testing.assert_close(module(x)[2], module(x[2]), rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize("rows", ROWS)
def test_products_into_what_is_there(rows: int) -> None:
    left, right = torch.randn(rows, WIDTH), torch.randn(WIDTH, WIDTH)
    out, total = torch.full((rows, WIDTH), torch.nan), torch.ones(WIDTH, WIDTH)
    assert multiply(left, right, out=out) is out
    torch.testing.assert_close(out, left @ right, rtol=1e-4, atol=1e-4)
    add_product(total, left.mT, out)
    torch.testing.assert_close(total, 1 + left.mT @ out, rtol=1e-3, atol=1e-2)


@pytest.mark.usefixtures("wide")
def test_gradients_only_where_they_are_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    frozen, made = Linear(WIDTH, WIDTH).requires_grad_(requires_grad=False), list[str]()
    x = torch.randn(20, WIDTH, requires_grad=True)
    for name in ("_widely", "add_product"):
        real = getattr(products, name)
        monkeypatch.setattr(
            products, name, lambda *a, name=name, real=real: made.append(name) or real(*a)
        )
    frozen(x).sum().backward()
    assert made == ["_widely", "_widely"]  # forward, and back to x
    made.clear()
    Linear(WIDTH, WIDTH)(x.detach()).sum().backward()
    assert made == ["_widely", "add_product"]


@pytest.mark.usefixtures("wide")
def test_it_can_be_differentiated_twice() -> None:
    ours, theirs = Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(20, WIDTH, requires_grad=True)
    found = []
    for module in (ours, theirs):
        (grad,) = torch.autograd.grad(module(x).square().sum(), x, create_graph=True)
        found.append(torch.autograd.grad(grad.square().sum(), [x, module.weight]))
    for mine, other in zip(*found, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-3, atol=1e-3)


@pytest.mark.usefixtures("wide")
def test_threads_leave_torch_as_they_found_it() -> None:
    before, module = way(), Linear(WIDTH, WIDTH)

    def work() -> None:
        with torch.no_grad():
            for _ in range(300):
                module(torch.randn(40, WIDTH))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert way() == before


@pytest.mark.usefixtures("wide")
def test_torch_is_told_only_while_a_product_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    before, seen = way(), list[str]()
    real = torch.mm
    monkeypatch.setattr(torch, "mm", lambda *a, **k: seen.append(way()) or real(*a, **k))
    multiply(torch.randn(17, WIDTH), torch.randn(WIDTH, WIDTH), torch.empty(17, WIDTH))
    assert seen == ["bf16", before]  # 16 rows, and the one that is left over
    assert way() == before
    monkeypatch.setattr(torch, "mm", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        multiply(torch.randn(16, WIDTH), torch.randn(WIDTH, WIDTH), torch.empty(16, WIDTH))
    assert way() == before


@given(st.integers(0, 5000))
def test_pieces_follow_each_other_and_leave_fewer_than_sixteen_rows(rows: int) -> None:
    found = list(pieces(rows))
    assert sum(piece.stop - piece.start for piece in found) == rows - rows % 16
    assert all(one.stop == other.start for one, other in pairwise(found))
    assert not found or found[0].start == 0


def test_pieces_have_a_dozen_sizes() -> None:
    sizes = {piece.stop - piece.start for rows in range(5000) for piece in pieces(rows)}
    assert len(sizes) <= 12


@pytest.mark.usefixtures("wide")
@pytest.mark.parametrize(
    ("x", "weight"),
    [
        (torch.randn(15, WIDTH), torch.randn(WIDTH, WIDTH)),
        (torch.randn(64, WIDTH).double(), torch.randn(WIDTH, WIDTH).double()),
        (torch.randn(64, WIDTH).bfloat16(), torch.randn(WIDTH, WIDTH).bfloat16()),
    ],
    ids=["few rows", "float64", "bfloat16"],
)
def test_what_would_not_gain_is_left_to_torch(x: torch.Tensor, weight: torch.Tensor) -> None:
    assert not products._worth_it(x, weight)
    assert torch.equal(linear(x, weight), F.linear(x, weight))


def test_small_products_are_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "gains", lambda: True)
    least = products.LEAST // WIDTH**2
    weight = torch.randn(WIDTH, WIDTH)
    assert products._worth_it(torch.randn(least, WIDTH), weight)
    assert not products._worth_it(torch.randn(least - 1, WIDTH), weight)


@pytest.mark.parametrize("ambient", ["autocast", "float64"])
def test_whether_it_is_exact_does_not_depend_on_who_asks(ambient: str) -> None:
    expected = products._exact()
    if ambient == "autocast":
        with torch.autocast("cpu", torch.bfloat16):
            assert products._exact() == expected
        return
    torch.set_default_dtype(torch.float64)
    try:
        assert products._exact() == expected
    finally:
        torch.set_default_dtype(torch.float32)


def test_what_rounds_is_not_called_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    product = torch.Tensor.__matmul__
    rounded = lambda a, b: product(a.bfloat16(), b.bfloat16()).float()  # noqa: E731
    monkeypatch.setattr(torch.Tensor, "__matmul__", rounded)
    assert not products._exact()


@pytest.mark.usefixtures("wide")
def test_autocast_keeps_its_say() -> None:
    module = Linear(WIDTH, WIDTH)
    with torch.autocast("cpu", torch.bfloat16):
        assert module(torch.randn(64, WIDTH)).dtype == torch.bfloat16


@pytest.mark.parametrize(
    "otherwise",
    [("_exact", lambda: False), ("_vendor", lambda: "GenuineIntel")],
    ids=["rounds", "Intel"],
)
def test_where_it_would_round_or_not_gain_mkl_stays(
    monkeypatch: pytest.MonkeyPatch, otherwise: tuple[str, object]
) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    monkeypatch.setattr(products, "_vendor", lambda: "AuthenticAMD")
    monkeypatch.setattr(products, "_exact", lambda: True)
    assert products.gains.__wrapped__()
    monkeypatch.setattr(products, *otherwise)
    assert not products.gains.__wrapped__()


def test_a_processor_that_nobody_names_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products.Path, "read_text", lambda *_, **__: "processor : 0\n")
    assert products._vendor() == ""

    def missing(*_: object, **__: object) -> str:
        raise FileNotFoundError

    monkeypatch.setattr(products.Path, "read_text", missing)
    assert products._vendor() == ""
