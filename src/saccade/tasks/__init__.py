"""One task, one file, listed here by name. To add a task: write the file, add a line."""

from typing import Any

from saccade.tasks.generate import Generate
from saccade.tasks.translate import Translate

TASKS: dict[str, Any] = {  # each keeps the contract of tasks/task.py:Task
    "translate": Translate,
    "generate": Generate,
}
