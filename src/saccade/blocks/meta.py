"""Modules of which only the shapes are wanted: nothing is set aside, nothing is drawn."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode


class _NothingDrawn(TorchFunctionMode):
    """To draw from a normal distribution without memory, torch imports its compiler: 2 seconds."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (Tensor.normal_, nn.init.normal_):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


@contextmanager
def shapes_only() -> Iterator[None]:
    """Inside, a module is built on the meta device."""
    with torch.device("meta"), _NothingDrawn():
        yield
