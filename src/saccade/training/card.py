"""The model card of a run: what it is, what it learned from, how good it is, how it was made."""

from typing import TYPE_CHECKING

from saccade.version import __version__

if TYPE_CHECKING:
    from saccade.training.trainer import Trainer


def model_card(trainer: "Trainer") -> str:
    """README.md of a run."""
    settings, standing = trainer.crew.settings, trainer.standing
    parameters = sum(trainer.crew.learner.weights.sizes)
    lines = [
        f"# {settings.model_name} for {settings.task_name}",
        "",
        f"Trained with saccade {__version__}: preset `{settings.preset}`, "
        f"{parameters:,} parameters, {standing.step:,} updates, {standing.seconds / 60:.1f} "
        f"minutes, seed {settings.train.seed}.",
        "",
        "## Data",
        f"- train: {' '.join(settings.task.train)}",
        f"- dev: {' '.join(settings.task.dev or ['none'])}",
        "",
        "## Quality",
        *trainer.quality,
        "",
        "## Use",
        "```",
        f"saccade predict {trainer.crew.run.path.name} --input FILE",
        "```",
    ]
    return "\n".join(lines) + "\n"
