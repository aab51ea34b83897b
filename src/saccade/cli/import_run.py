"""saccade import: a model from elsewhere becomes a run."""

from pathlib import Path

from saccade.cli.terminal import say, this_command, warn


def import_(folder: Path, /, *, out: Path) -> None:
    """Make a run of a Hugging Face folder: predict with it, score it, train on from its weights.

    Only safetensors are read, and no code of the folder is run. What saccade cannot do as the
    model asks is refused.

    Parameters
    ----------
    folder
        With config.json, model.safetensors and the tokenizer's files, such as one of GPT-2.
    out
        The folder of the new run.
    """
    from saccade.interop import import_run

    run = import_run(folder, out, warn=warn)
    settings = run.settings()
    kind = (settings.task_name, "--model", settings.model_name)
    say(f"run: {run.path}")
    say(f"next: {this_command('predict', run.path, '--input', 'FILE')}")
    more = ("--init", run.path, "--train", "FILE", "--out", "NEW")
    say(f"      {this_command('train', *kind, *more)}")
