"""Batch norm failing where layer norm holds: in small batches, and beyond the training's length.

Networks learn to say, at every step, which value was the last one marked: easy to learn, and no
harder for a longer sequence.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from saccade.blocks.norms import BatchNormOverTime
from saccade.blocks.products import Linear
from saccade.blocks.recurrent import Recurrent
from saccade.errors import InputError
from saccade.inspection.paper import (
    FAINT,
    axes_at,
    draw_lines,
    drawing,
    label_axes,
    put_title,
    say,
    sheet,
)
from saccade.randomness import key, seeded, torch_generator

if TYPE_CHECKING:  # matplotlib is imported when something is drawn
    import matplotlib.axes
    import matplotlib.figure

NORMS = ("layer", "batch")
MARKED = 0.15  # of the steps


@dataclass(frozen=True, slots=True)
class NormStudy:
    """What is trained, and on what it is tested."""

    batch_sizes: tuple[int, ...] = (1, 2, 64)
    length: int = 12  # in training
    longer: int = 48  # in the test beyond it
    cell: str = "gru"
    dim: int = 16
    updates: int = 150
    rate: float = 0.01
    samples: int = 256  # sequences of the test
    seed: int = 1

    def __post_init__(self) -> None:
        sizes = (*self.batch_sizes, self.length, self.dim, self.samples)
        if not self.batch_sizes or min(sizes) < 1 or self.updates < 0:
            raise InputError(f"a study needs sizes of at least 1, not {self}")
        if self.longer <= self.length:
            raise InputError(
                f"longer = {self.longer} is no longer than the training's length = {self.length}"
            )
        if self.longer > (limit := BatchNormOverTime(self.dim).limit):
            raise InputError(
                f"longer = {self.longer}: batch norm has statistics of {limit} steps at most"
            )


@dataclass(frozen=True, slots=True)
class NormResult:
    """Shares of right answers; guessing gives a half."""

    study: NormStudy
    by_batch_size: dict[str, list[float]]  # norm -> a share for each batch size
    by_step: dict[str, list[float]]  # norm -> a share for each step, trained in the largest batch
    refusal: str  # what batch norm says to the longer sequences


class Reader(nn.Module):
    """A recurrent layer with a norm inside, and a guess at every step."""

    def __init__(self, study: NormStudy, norm: str):
        super().__init__()
        self.recurrent = Recurrent(2, study.dim, cell=study.cell, norm=norm)
        self.guess = Linear(study.dim, 1)

    def forward(self, x: Float[Tensor, "B T 2"]) -> Float[Tensor, "B T"]:
        return self.guess(self.recurrent(x)[0]).squeeze(-1)


def norm_study(study: NormStudy | None = None) -> NormResult:
    """Train a network for each norm and batch size; about half a minute."""
    study = study or NormStudy()
    readers = {
        norm: [_train(study, norm, batch_size) for batch_size in study.batch_sizes]
        for norm in NORMS
    }
    test = _examples(study.samples, study.length, torch_generator(study.seed, "norm test"))
    by_batch_size = {
        norm: [_right(reader, *test).mean().item() for reader in trained]
        for norm, trained in readers.items()
    }
    longer = _examples(study.samples, study.longer, torch_generator(study.seed, "norm test", 1))
    largest = study.batch_sizes.index(max(study.batch_sizes))
    layer, batch = (trained[largest] for trained in readers.values())
    tested = {"layer norm": layer}
    tested |= {words: _prolonged(batch, study, how) for words, how in PROLONGED.items()}
    by_step = {name: _right(reader, *longer).tolist() for name, reader in tested.items()}
    return NormResult(study, by_batch_size, by_step, _refusal(batch, longer[0]))


def _examples(
    rows: int, steps: int, generator: torch.Generator
) -> tuple[Float[Tensor, "B T 2"], Float[Tensor, "B T"]]:
    """A value of +1 or -1 and a mark at each step; the value that was marked last."""
    values = torch.randint(0, 2, (rows, steps), generator=generator) * 2.0 - 1.0
    marks = torch.rand(rows, steps, generator=generator) < MARKED
    marks[:, 0] = True
    last = (torch.arange(steps) * marks).cummax(dim=1).values
    return torch.stack([values, marks.float()], dim=-1), values.gather(1, last)


def _train(study: NormStudy, norm: str, batch_size: int) -> Reader:
    with seeded(key(study.seed, "norm study")):
        reader = Reader(study, norm)
    weights: list[Tensor] = list(reader.parameters())
    first, second = ([torch.zeros_like(weight) for weight in weights] for _ in range(2))
    numbers = [torch.zeros(()) for _ in weights]
    for update in range(study.updates):
        generator = torch_generator(study.seed, "norm study", batch_size, update)
        x, wanted = _examples(batch_size, study.length, generator)
        loss = F.softplus(-wanted * reader(x)).mean()
        grads = list(torch.autograd.grad(loss, weights))
        torch._foreach_add_(numbers, 1)
        with torch.no_grad():
            torch._fused_adam_(
                weights, grads, first, second, [], numbers,
                lr=study.rate, beta1=0.9, beta2=0.98, eps=1e-9,
                weight_decay=0.0, amsgrad=False, maximize=False,
            )  # fmt: skip
    return reader.eval()


@torch.no_grad()
def _right(
    reader: Reader, x: Float[Tensor, "B T 2"], wanted: Float[Tensor, "B T"]
) -> Float[Tensor, " T"]:
    """The share of right answers at each step."""
    return ((reader(x) > 0) == (wanted > 0)).float().mean(dim=0)


def _refusal(reader: Reader, x: Float[Tensor, "B T 2"]) -> str:
    try:
        reader(x)
    except InputError as error:
        return str(error)
    return ""


def _as_before_training(norm: BatchNormOverTime, steps: int) -> None:
    """Mean 0 and variance 1, which the buffers hold anyway."""
    norm.batches[steps:] = 1


def _last_held(norm: BatchNormOverTime, steps: int) -> None:
    """Cooijmans et al. 2017: steps never trained get the statistics of the last that was."""
    norm.mean[steps:], norm.variance[steps:] = norm.mean[steps - 1], norm.variance[steps - 1]
    norm.batches[steps:] = 1


PROLONGED: dict[str, Callable[[BatchNormOverTime, int], None]] = {
    "batch norm, untrained statistics": _as_before_training,
    "batch norm, last statistics held": _last_held,
}


def _prolonged(
    reader: Reader, study: NormStudy, how: Callable[[BatchNormOverTime, int], None]
) -> Reader:
    """Batch norm refuses steps it has no statistics of: give it some."""
    longer = copy.deepcopy(reader)
    for module in longer.modules():
        if isinstance(module, BatchNormOverTime):
            how(module, study.length)
    return longer


def norm_picture(
    result: NormResult, title: str = "Where batch norm fails and layer norm holds"
) -> "matplotlib.figure.Figure":
    """Right answers by batch size of the training, and by step beyond its length."""
    study = result.study
    places = range(len(study.batch_sizes))
    sizes = {
        f"{norm} norm": list(zip(places, shares, strict=True))
        for norm, shares in result.by_batch_size.items()
    }
    steps = {name: list(enumerate(shares, start=1)) for name, shares in result.by_step.items()}
    width, height, gap = 2.6, 2.9, 1.5
    with drawing():
        figure = sheet(2 * width + gap + 1.2, height)
        left = axes_at(figure, (0.0, 0.0, width, height))
        right = axes_at(figure, (width + gap, 0.0, width + 1.2, height))
        _shares(left)
        draw_lines(left, sizes, marker="o")
        label_axes(left, "batch size in training", "right answers")
        left.set_xticks(list(places), [str(size) for size in study.batch_sizes])
        _shares(right)
        draw_lines(right, steps, marker="")
        label_axes(right, "step of the sequence", "")
        right.axvline(study.length, color=FAINT, linewidth=0.8, linestyle=(0, (4, 4)))
        across = right.get_xaxis_transform()
        where, align = (study.length, 1.01), ("center", "bottom")
        say(right, where, "longest in training", transform=across, size=8, align=align)
        put_title(left, title, lift=0.2)
    return figure


def _shares(axes: "matplotlib.axes.Axes") -> None:
    axes.set_autoscaley_on(False)
    axes.set_ylim(0.4, 1.02)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
