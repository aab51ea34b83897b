"""Linear maps, whose products are as wide as the processor: y = x W^T + b.

torch multiplies float32 matrices by MKL, which keeps to AVX2 on every processor that is not
Intel's: a Zen 5 core reaches 118 GFLOP/s so, and 260 by oneDNN, which torch has too and which
takes AVX-512. torch hands a product over to oneDNN when told that it may be rounded to bfloat16.
oneDNN would round where there are tile registers (AMX); without them it computes float32. That is
looked at once, before it is relied on.

oneDNN makes a kernel for every number of rows it meets, of half a megabyte, and keeps it. So the
rows are cut into pieces of a few sizes, and the few that are left over stay with MKL.
"""

import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

SIZES = (512, 64, 16)  # rows: as often as the first fits, then multiples of the others
LEAST = 1 << 22  # multiplications that are worth it: below, calls cost more than is gained
_MATMUL: Any = getattr(torch.backends.mkldnn, "matmul", None)


class Linear(nn.Linear):
    """y = x W^T + b."""

    def forward(self, x: Float[Tensor, "*B I"]) -> Float[Tensor, "*B O"]:
        return linear(x, self.weight, self.bias)


def linear(
    x: Float[Tensor, "*B I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None = None
) -> Float[Tensor, "*B O"]:
    """The map x W^T + b, by the wider library where that gains."""
    if not _worth_it(x, weight):
        return F.linear(x, weight, bias)
    rows = x.flatten(0, -2)
    y: Tensor = (
        _WideLinear.apply(rows, weight) if torch.is_grad_enabled() else _widely(rows, weight.mT)
    )
    y = y.unflatten(0, x.shape[:-1])
    return y if bias is None else y + bias


def multiply(
    left: Float[Tensor, "N I"], right: Float[Tensor, "I O"], out: Float[Tensor, "N O"]
) -> Float[Tensor, "N O"]:
    """The product of two matrices, by the wider library where that gains; gives no gradients."""
    worth_it = _worth_it(left, right)
    return _widely(left, right, out) if worth_it else torch.mm(left, right, out=out)


def add_product(
    total: Float[Tensor, "I O"], left: Float[Tensor, "I N"], right: Float[Tensor, "N O"]
) -> None:
    """Add a product to `total`, in place."""
    if not _worth_it(right, total):
        total.addmm_(left, right)
        return
    with _BY_ONEDNN:
        for piece in pieces(len(right)):
            total.addmm_(left[:, piece], right[piece])
    if rest := len(right) % SIZES[-1]:
        total.addmm_(left[:, -rest:], right[-rest:])


def _widely(
    left: Float[Tensor, "N I"], right: Float[Tensor, "I O"], out: Tensor | None = None
) -> Float[Tensor, "N O"]:
    if out is None:
        out = left.new_empty(len(left), right.shape[1])
    with _BY_ONEDNN:
        for piece in pieces(len(left)):
            torch.mm(left[piece], right, out=out[piece])
    if rest := len(left) % SIZES[-1]:
        torch.mm(left[-rest:], right, out=out[-rest:])
    return out


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
    def forward(x: Tensor, weight: Tensor) -> Tensor:
        return _widely(x, weight.mT)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:  # noqa: ARG004
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        (grad,), (x, weight) = grads, ctx.saved_tensors
        of_x, of_weight = ctx.needs_input_grad
        if torch.is_grad_enabled():  # somebody differentiates twice: torch's products know how
            return grad @ weight, grad.mT @ x
        grad_weight = torch.zeros_like(weight) if of_weight else None
        if grad_weight is not None:
            add_product(grad_weight, grad.mT, x)
        return _widely(grad, weight) if of_x else None, grad_weight


def _worth_it(rows: Tensor, matrix: Tensor) -> bool:
    """Whether a product is large enough, and of the kind that oneDNN computes exactly."""
    if torch.compiler.is_compiling():  # first: what is compiled must not depend on a size
        return False
    count = rows.numel() // rows.shape[-1] if rows.shape[-1] else 0
    if count < SIZES[-1] or count * matrix.numel() < LEAST:
        return False
    plain = rows.dtype == matrix.dtype == torch.float32 and rows.device.type == "cpu"
    return plain and not torch.is_autocast_enabled("cpu") and gains()


@cache
def gains() -> bool:
    """Whether oneDNN is the wider library here, and computes what float32 promises."""
    known = _MATMUL is not None and torch.backends.mkldnn.is_available()
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return known and wide and _vendor() == "AuthenticAMD" and _exact()


def _exact() -> bool:
    """Whether products by oneDNN keep what bfloat16 would lose."""
    fine = torch.full((64, 64), 1 + 2.0**-20, dtype=torch.float32, device="cpu")
    same = torch.eye(64, dtype=torch.float32, device="cpu")
    with torch.autocast("cpu", enabled=False), _BY_ONEDNN:
        return torch.equal(fine @ same, fine)


def _vendor() -> str:
    """Who made the processor, as Linux tells it; elsewhere nobody."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return ""
    return next((line.split()[-1] for line in lines if line.startswith("vendor_id")), "")


class _HandOver:
    """Inside, torch hands products over; the last of several threads to leave puts it back."""

    def __init__(self) -> None:
        self.lock, self.inside, self.before = threading.Lock(), 0, ""

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.before = _MATMUL.fp32_precision
                _MATMUL.fp32_precision = "bf16"
            self.inside += 1

    def __exit__(self, *_: object) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                _MATMUL.fp32_precision = self.before


_BY_ONEDNN = _HandOver()
