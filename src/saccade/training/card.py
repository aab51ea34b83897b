"""The model card of a run: what it is, what it learned from, how good it is, how it was made."""

import shlex
from typing import TYPE_CHECKING, Any

from saccade.tasks.metrics import figure
from saccade.training.settings import needs_code
from saccade.version import __version__

if TYPE_CHECKING:
    from saccade.training.trainer import Trainer


def model_card(trainer: "Trainer") -> str:
    """README.md of a run."""
    settings, standing = trainer.crew.settings, trainer.standing
    parameters = sum(trainer.crew.learner.weights.sizes)
    run = trainer.crew.run
    scores, folder = run.evaluation("dev")["metrics"], shlex.quote(str(run.path))
    code = " --allow-code" if needs_code(settings.plain()) else ""
    start = code if run.init is None else f"{code} --init {shlex.quote(run.init)}"
    how = "dev, greedy" if settings.task_class.decodes else "dev"
    lines = [
        f"# {settings.model_name} for {settings.task_name}",
        "",
        f"Trained with saccade {__version__}: preset `{settings.preset}`, "
        f"{parameters:,} parameters, {standing.step:,} updates, {trainer.seconds / 60:.1f} "
        f"minutes, seed {settings.train.seed}.",
        "",
        "## Data",
        f"- train: {' '.join(settings.task.train)}",
        f"- dev: {' '.join(settings.task.dev or ['none'])}",
        "",
        "## Quality",
        *(_score(how, name, score) for name, score in scores.items()),
        *([] if scores else ["- not evaluated: there is no dev set"]),
        "",
        "## Use",
        "From the folder it was trained in (elsewhere, name the way to this one):",
        "```",
        f"saccade predict {folder} --input FILE{code}",
        "```",
        "",
        "## Training",
        "The same again, from the folder it was trained in:",
        "```",
        f"saccade train --config {folder}/config.toml --out NEW{start}",
        "```",
    ]
    return "\n".join(lines) + "\n"


def _score(how: str, name: str, score: dict[str, Any]) -> str:
    return f"- {how}: {name} {figure(score['value'])} ({score['signature']})"
