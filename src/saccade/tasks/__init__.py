"""One task, one file, listed here by name. To add a task: write the file, add a line."""

from saccade.tasks.generate import Generate
from saccade.tasks.translate import Translate

TASKS = {
    "generate": Generate,
    "translate": Translate,
}
