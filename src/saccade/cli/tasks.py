"""saccade tasks: what there is to be learned."""

import sys

from saccade.cli.models import say_settings
from saccade.cli.terminal import say


def tasks() -> None:
    """List the tasks, each with the models that do it and its settings."""
    from saccade.models import MODELS
    from saccade.tasks import TASKS

    for name, task in TASKS.items():
        models = ", ".join(model for model, cls in MODELS.items() if task.kind in cls.tasks)
        about = (sys.modules[task.__module__].__doc__ or name).strip().partition("\n")[0]
        say(f"{name}: {about.partition(': ')[2] or about} Models: {models}.")
        say_settings("task", task.Config)
        say("  train and dev are files: --train FILES --dev FILES")
