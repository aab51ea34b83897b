"""saccade tasks: what there is to be learned."""

import sys

from saccade.cli.terminal import say


def tasks() -> None:
    """List the tasks, a line each, with the models that do them."""
    from saccade.models import MODELS
    from saccade.tasks import TASKS

    for name, task in TASKS.items():
        models = ", ".join(model for model, cls in MODELS.items() if name in cls.tasks)
        about = (sys.modules[task.__module__].__doc__ or name).strip().partition("\n")[0]
        say(f"{name}: {about.partition(': ')[2] or about} Models: {models}.")
