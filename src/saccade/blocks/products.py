"""Linear maps, whose products are as wide as the processor: y = x W^T + b.

torch multiplies float32 matrices by MKL, which keeps to AVX2 on every processor that is not
Intel's: a Zen 5 core reaches 118 GFLOP/s so, and 260 by oneDNN, which torch has too and which
takes AVX-512. torch hands a product over to oneDNN when told that it may be rounded to bfloat16.
oneDNN would round where there are tile registers (AMX); without them it computes float32. That is
looked at once, before it is relied on.

oneDNN makes a kernel for every number of rows it meets, of half a megabyte, and keeps it. So the
rows are cut into pieces of a few sizes, and the few that are left over stay with MKL.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

_MATMUL: Any = getattr(torch.backends.mkldnn, "matmul", None)
SIZES = (512, 64, 16)  # rows: as often as the first fits, then multiples of the others


class Linear(nn.Linear):
    """y = x W^T + b."""

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        return linear(x, self.weight, self.bias)


def linear(
    x: Float[Tensor, "*B I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None = None
) -> Float[Tensor, "*B O"]:
    """Y = x W^T + b, by the wider library where that gains."""
    if not worth_it(x, weight):
        return F.linear(x, weight, bias)
    y: Tensor = (
        _WideLinear.apply(x.flatten(0, -2), weight)
        if torch.is_grad_enabled()
        else multiply(x.flatten(0, -2), weight.mT)
    )
    y = y.unflatten(0, x.shape[:-1])
    return y if bias is None else y + bias


def multiply(
    left: Float[Tensor, "N I"], right: Float[Tensor, "I O"], out: Tensor | None = None
) -> Float[Tensor, "N O"]:
    """The product of two matrices, by the wider library where that gains; gives no gradients."""
    if not worth_it(left, right):
        return torch.mm(left, right, out=out)
    if out is None:
        out = left.new_empty(len(left), right.shape[1])
    with _ByOneDnn():
        for piece in pieces(len(left)):
            torch.mm(left[piece], right, out=out[piece])
    rest = slice(len(left) - len(left) % SIZES[-1], None)
    if len(left[rest]):
        torch.mm(left[rest], right, out=out[rest])
    return out


def add_product(
    total: Float[Tensor, "I O"], left: Float[Tensor, "I N"], right: Float[Tensor, "N O"]
) -> None:
    """Add a product to `total`, in place."""
    if not worth_it(right, total):
        total.addmm_(left, right)
        return
    with _ByOneDnn():
        for piece in pieces(len(right)):
            total.addmm_(left[:, piece], right[piece])
    rest = slice(len(right) - len(right) % SIZES[-1], None)
    if len(right[rest]):
        total.addmm_(left[:, rest], right[rest])


def pieces(rows: int) -> Iterator[slice]:
    """Some thousand rows in pieces of a dozen sizes; fewer than 16 are left."""
    largest, *smaller = SIZES
    start = 0
    for _ in range(rows // largest):
        yield slice(start, start + largest)
        start += largest
    for size in smaller:
        stop = start + (rows - start) // size * size
        if stop > start:
            yield slice(start, stop)
        start = stop


class _WideLinear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight)
        return multiply(x, weight.mT)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        of_x, of_weight = ctx.needs_input_grad
        grad_weight = torch.zeros_like(weight) if of_weight else None
        if grad_weight is not None:
            add_product(grad_weight, grad.mT, x)
        return multiply(grad, weight) if of_x else None, grad_weight


def worth_it(x: Tensor, weight: Tensor) -> bool:
    """Whether a product is large enough, and of the kind that oneDNN computes exactly."""
    if x.numel() < SIZES[-1] * x.shape[-1] or weight.numel() < 1 << 14:
        return False
    plain = x.dtype == weight.dtype == torch.float32 and x.device.type == "cpu"
    free = not (torch.compiler.is_compiling() or torch.is_autocast_enabled("cpu"))
    return plain and free and gains()


@cache
def gains() -> bool:
    """Whether oneDNN is the wider library here, and computes what float32 promises."""
    known = _MATMUL is not None and torch.backends.mkldnn.is_available()
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return known and wide and _vendor() == "AuthenticAMD" and _exact()


def _exact() -> bool:
    """Whether products by oneDNN keep what bfloat16 would lose."""
    fine = torch.full((64, 64), 1 + 2.0**-20)
    with _ByOneDnn():
        return torch.equal(fine @ torch.eye(64), fine)


def _vendor() -> str:
    """Who made the processor, as Linux tells it; elsewhere nobody."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.split()[-1] for line in lines if line.startswith("vendor_id")), "")


class _ByOneDnn:
    """Inside, torch hands products over; a class, as a generator costs as much as a small one."""

    def __enter__(self) -> None:
        self.before = _MATMUL.fp32_precision
        _MATMUL.fp32_precision = "bf16"

    def __exit__(self, *_: object) -> None:
        _MATMUL.fp32_precision = self.before
