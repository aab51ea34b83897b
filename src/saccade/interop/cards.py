"""What a folder says about itself: README.md of an imported run, and of an exported one."""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from saccade.interop.architectures import Architecture
from saccade.tasks.metrics import figure
from saccade.training.run import Run
from saccade.training.settings import Settings
from saccade.version import __version__


def imported_card(run: Run, settings: Settings, origin: Mapping[str, Any], size: int) -> str:
    """README.md of a run that came from elsewhere."""
    folder = shlex.quote(run.path.name)
    name = f" (`{origin['name']}`)" if origin["name"] else ""
    lines = [
        f"# {settings.model_name} for {settings.task_name}",
        "",
        f"Imported with saccade {__version__} from the {origin['format']} folder "
        f"`{origin['folder']}`{name}: {origin['architecture']}, {size:,} parameters.",
        "",
        *(f"- {file}: sha256 {mark}" for file, mark in origin["sha256"].items()),
        "",
        "## Data",
        "- not known here: see the card of the model it came from",
        "",
        "## Quality",
        "- not evaluated",
        "",
        "## Use",
        "```",
        f"saccade predict {folder} --input FILE",
        "```",
        "",
        "## Training",
        "On your own text, from these weights:",
        "```",
        f"saccade train {settings.task_name} --model {settings.model_name} --init {folder} "
        "--train FILE --out NEW",
        "```",
    ]
    return "\n".join(lines) + "\n"


def exported_card(run: Run, settings: Settings, architecture: Architecture) -> str:
    """README.md of a Hugging Face folder; its first lines are read by their hub."""
    scores = run.evaluation("dev")["metrics"]
    origin = run.environment().get("imported")
    source = "not known here" if origin is None else f"imported from `{origin['folder']}`"
    kind = architecture.class_name
    lines = [
        "---",
        "library_name: transformers",
        f"pipeline_tag: {architecture.pipeline}",
        "tags:",
        "- saccade",
        f"- {json.dumps(settings.model_name)}",
        "---",
        "",
        f"# {run.path.resolve().name}",
        "",
        f"A {settings.model_name} of saccade {__version__}, task {settings.task_name}, as {kind}.",
        "",
        "## Data",
        f"- train: {' '.join(settings.task.train) or source}",
        f"- dev: {' '.join(settings.task.dev or ['none'])}",
        "",
        "## Quality",
        *(f"- dev: {n} {figure(s['value'])} ({s['signature']})" for n, s in scores.items()),
        *([] if scores else ["- not evaluated"]),
        "",
        "## Use",
        "```python",
        f"from transformers import AutoTokenizer, {kind}",
        "",
        'tokenizer = AutoTokenizer.from_pretrained("FOLDER")',
        f'model = {kind}.from_pretrained("FOLDER")',
        "```",
    ]
    return "\n".join(lines) + "\n"
