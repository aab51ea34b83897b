"""How far back a gradient reaches: its norm by distance in time, cell by cell."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from saccade.blocks.cells import GatedCell, chrono_init
from saccade.blocks.masks import masked_softmax
from saccade.blocks.recurrent import Recurrent
from saccade.blocks.scores import Dot
from saccade.config import find
from saccade.errors import InputError
from saccade.inspection.paper import (
    CURVES,
    FAINT,
    axes_at,
    drawing,
    label_axes,
    put_title,
    say,
    sheet,
)
from saccade.randomness import key, seeded, torch_generator

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    import matplotlib.figure

SMALLEST, LARGEST = 1e-30, 1e15  # beyond these a picture says no more


@dataclass(frozen=True, slots=True)
class GradientStudy:
    """What is measured, and on how much."""

    distance: int = 150
    dim: int = 32
    samples: int = 16  # random sequences
    clip: float = 5.0  # the largest norm of the whole gradient
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Gradients:
    """Norms of d loss / d x[T-k] for k = 0, 1, ..., distance: means over random sequences."""

    plain: list[float]  # the loss sees the last hidden vector alone
    clipped: list[float]  # the same after clipping: one factor for the whole gradient
    attended: list[float]  # the loss sees a dot attention over all hidden vectors
    whole: float  # the norm of the gradient of all weights, which clipping bounds


def _usual(stack: Recurrent, study: GradientStudy) -> None:
    """As torch draws its weights."""


def _large(stack: Recurrent, study: GradientStudy) -> None:  # noqa: ARG001
    with torch.no_grad():
        for cell in stack.cells:
            if isinstance(cell, GatedCell):
                cell.weight_hh.mul_(4.0)


def _open(stack: Recurrent, study: GradientStudy) -> None:
    chrono_init(stack, study.distance)


STARTS: dict[str, Callable[[Recurrent, GradientStudy], None]] = {
    "usual": _usual,
    "large weights": _large,
    "open gates": _open,
}
LECTURE = (  # one colour a cell: first as torch draws the weights, then as makes the difference
    *(("rnn", "usual"), ("lstm", "usual"), ("gru", "usual")),
    *(("rnn", "large weights"), ("lstm", "open gates"), ("gru", "open gates")),
)


def gradient_by_distance(
    cells: Sequence[str | tuple[str, str]] = LECTURE, study: GradientStudy | None = None
) -> dict[str, Gradients]:
    """The gradients of each cell, a name or (name, start), under its name."""
    study = study or GradientStudy()
    if min(study.distance, study.dim, study.samples) < 1:
        raise InputError(f"a study needs distance, width and samples of at least 1, not {study}")
    pairs = [(cell, "usual") if isinstance(cell, str) else cell for cell in cells]
    return {
        cell if start == "usual" else f"{cell}, {start}": _measure(cell, start, study)
        for cell, start in pairs
    }


def _measure(cell: str, start: str, study: GradientStudy) -> Gradients:
    prepare = find(STARTS, start, what="start of a cell")
    with seeded(key(study.seed, "gradient study")):
        stack = Recurrent(study.dim, study.dim, cell=cell).double()  # 1e-40 is no number in float32
        prepare(stack, study)
    generator = torch_generator(study.seed, "gradient study", 1)
    shape = (study.samples, study.distance + 1, study.dim)
    x = torch.randn(shape, generator=generator, dtype=torch.double).requires_grad_()
    readout = torch.randn(study.dim, generator=generator, dtype=torch.double)
    readout /= readout.norm()

    hidden, _ = stack(x)
    last = hidden[:, -1:]
    weights = masked_softmax(Dot(study.dim, study.dim)(last, hidden))  # (B, 1, T)
    plain, whole = _norms((last @ readout).sum(), x, stack)
    attended, _ = _norms((weights @ hidden @ readout).sum(), x, stack)
    scale = clip_factor(whole, study.clip)
    return Gradients(plain, [scale * norm for norm in plain], attended, whole)


def _norms(loss: Tensor, x: Float[Tensor, "B T D"], stack: Recurrent) -> tuple[list[float], float]:
    """Of the gradients by distance, and of all weights together, for the mean loss of a sample."""
    of_input, *of_weights = torch.autograd.grad(
        loss, [x, *stack.parameters()], retain_graph=True, materialize_grads=True
    )
    by_distance = of_input.norm(dim=-1).mean(dim=0).flip(0)
    whole = torch.cat([grad.flatten() for grad in of_weights]).norm() / len(x)
    return by_distance.tolist(), whole.item()


def clip_factor(norm: float, limit: float) -> float:
    """G <- min(1, limit / |g|) g, as training does it."""
    return min(1.0, limit / norm) if norm else 1.0


def gradient_picture(
    gradients: Mapping[str, Gradients], title: str = "How far back a gradient reaches"
) -> "matplotlib.figure.Figure":
    """Three panels side by side: through time alone, clipped, and with attention."""
    panels = {
        "through time": [each.plain for each in gradients.values()],
        "through time, clipped": [each.clipped for each in gradients.values()],
        "with attention over all steps": [each.attended for each in gradients.values()],
    }
    shown = [norm for curves in panels.values() for curve in curves for norm in curve]
    decades = _decades([norm for norm in shown if math.isfinite(norm)])
    width, height, gap = 2.9, 3.2, 0.3
    with drawing():
        figure = sheet(len(panels) * (width + gap) - gap, height)
        for index, (words, curves) in enumerate(panels.items()):
            axes = axes_at(figure, (index * (width + gap), 0.0, width, height))
            for curve, (color, line) in zip(curves, cycle(CURVES), strict=False):
                axes.semilogy(curve, color=color, linestyle=line, linewidth=1.6)
            label_axes(axes, "steps back", "norm of the gradient" if index == 0 else "")
            axes.set_yticks([10.0**decade for decade in decades])
            axes.set(ylim=(10.0 ** decades[0], 10.0 ** decades[-1]))
            axes.minorticks_off()
            if index:
                axes.set_yticklabels([])
            say(axes, (0.0, 1.03), words, transform=axes.transAxes)
        lines = figure.axes[0].get_lines()
        figure.legend(
            lines, list(gradients), ncols=min(len(gradients), 6), frameon=False, fontsize=9,
            labelcolor=FAINT, loc="upper center", bbox_to_anchor=(0.5, -0.16), handlelength=1.6,
        )  # fmt: skip
        put_title(figure.axes[0], title, lift=0.24)
    return figure


def _decades(norms: Sequence[float]) -> range:
    """Powers of ten around the norms, every fifth; what is beyond the ends is not drawn."""
    low = math.log10(max(min(norms, default=1.0), SMALLEST))
    high = math.log10(max(min(max(norms, default=1.0), LARGEST), SMALLEST))
    return range(5 * math.floor(low / 5), 5 * math.floor(high / 5) + 6, 5)
