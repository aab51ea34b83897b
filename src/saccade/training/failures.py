"""What fails while a model works, memory and numbers, told in one message by whoever runs it."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import torch

from saccade.errors import InputError, TrainingError
from saccade.tasks.task import Plain
from saccade.training.settings import TrainConfig

# What a process tells another by name; in the one that asked it is raised again.
KINDS: dict[str, type[Exception]] = {
    "input": InputError,
    "training": TrainingError,
    "numbers": FloatingPointError,
    "memory": MemoryError,
}


def out_of_memory(error: BaseException) -> bool:
    """Whether Python, a GPU or torch's allocator on the CPU had no more."""
    lacking = isinstance(error, (torch.OutOfMemoryError, MemoryError))
    return lacking or (isinstance(error, RuntimeError) and "can't allocate memory" in str(error))


@contextmanager
def told(*, memory: str, numbers: str, where: str = "") -> Iterator[None]:
    """Inside, no more memory and numbers that are none end in a TrainingError with this advice."""
    try:
        yield
    except FloatingPointError as error:
        raise TrainingError(f"{where}{error}; {numbers}") from None
    except (MemoryError, RuntimeError) as error:
        if not out_of_memory(error):
            raise
        raise TrainingError(f"{where}out of memory {memory}") from None


def told_of(run: Path, train: TrainConfig, doing: str) -> AbstractContextManager[None]:
    """`told` for a model, trained like that, that predicts or is scored by a verb."""
    return told(
        where=f"{run}: ",
        memory=f"while {doing}; lower --workers or --beam",
        numbers=f"its weights are beyond what numbers can hold: {train.calmer} and train it anew",
    )


def attempted(work: Callable[[], Plain]) -> dict[str, Plain]:
    """The answer, or the kind of the error and its text: what goes to another process."""
    try:
        return {"answer": work()}
    except Exception as error:
        kind = "memory" if out_of_memory(error) else _kind(error)
        if kind is None:
            raise
        return {"kind": kind, "error": str(error)}


def _kind(error: Exception) -> str | None:
    return next((name for name, kind in KINDS.items() if isinstance(error, kind)), None)


def answer_of(reply: dict[str, Plain]) -> Plain:
    """What another process attempted: its answer; its error is raised here."""
    if "error" in reply:
        raise KINDS[reply["kind"]](reply["error"])
    return reply["answer"]
