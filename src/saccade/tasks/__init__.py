"""One task, one file, listed here by name. To add a task: write the file, add a line."""

from saccade.tasks.translate import Translate

TASKS = {
    "translate": Translate,
}
