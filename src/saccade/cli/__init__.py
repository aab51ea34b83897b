"""The command `saccade`: a file a verb; heavy imports happen inside the verbs."""

import errno
import inspect
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from typing import NamedTuple

from cyclopts import App, CycloptsError
from cyclopts.exceptions import MissingArgumentError, UnknownOptionError, UnusedCliTokensError

from saccade.cli import (
    check,
    compare,
    demo,
    evaluate,
    explain,
    explore,
    export_run,
    import_run,
    models,
    predict,
    serve,
    tasks,
    train,
)
from saccade.cli.terminal import close_quietly, note, this_command, utf8_streams
from saccade.errors import InputError, Terminated, TrainingError
from saccade.version import __version__

STARTED_AT = time.monotonic()
FAILED, WRONG_INPUT, INTERRUPTED, BROKEN_PIPE, TERMINATED = 1, 2, 130, 141, 143
CLEANING_SECONDS = 5  # in which SIGTERM does nothing more: `timeout` sends it twice
WRONG_PLACE = {  # what the system says of a path that cannot be meant; all else is a failure
    errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT, errno.EEXIST, errno.ENOTDIR,
    errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP,
}  # fmt: skip
OF_FILES = ("--data", "--dev", "--train")  # flags that several words may follow

app = App(
    name="saccade",
    help="Train sequence models in PyTorch, score them, decode with them, see what they look at.",
    help_epilogue="Example: saccade demo",
    help_format="plaintext",
    version=__version__,
    suppress_keyboard_interrupt=False,
)


class Verb(NamedTuple):
    """What is called, how to call it, and the examples that its help ends with."""

    function: Callable[..., int | None]
    usage: str
    examples: str  # a line each


VERBS = {
    "demo": Verb(demo.demo, "[OPTIONS]", "saccade demo --out my-demo"),
    "train": Verb(
        train.train,
        "TASK --train FILE... --out FOLDER [OPTIONS]",
        "saccade train translate --train a.en a.de --dev b.en b.de --out my-run\n"
        "saccade train generate --train book.txt --out my-book --minutes 5\n"
        "saccade train --config my.toml --out my-run --resume",
    ),
    "eval": Verb(
        evaluate.evaluate,
        "RUN --data FILE... [OPTIONS]",
        "saccade eval my-run --data test.en test.de",
    ),
    "predict": Verb(
        predict.predict,
        "RUN [--input FILE] [--output FILE] [OPTIONS]",
        "saccade predict my-run --input texts.en --output texts.de\n"
        'echo "Once upon a time" | saccade predict my-book --length 80',
    ),
    "compare": Verb(
        compare.compare,
        "RUN RUN... [OPTIONS]",
        "saccade compare run-1 run-2 --eval test --out charts",
    ),
    "explain": Verb(
        explain.explain,
        "RUN TEXT [OPTIONS]",
        'saccade explain my-run "A man sleeps." --head 1 --token 2',
    ),
    "explore": Verb(explore.explore, "RUN... [OPTIONS]", "saccade explore my-run"),
    "serve": Verb(serve.serve, "RUN... [OPTIONS]", "saccade serve my-run --port 8080"),
    "import": Verb(
        import_run.import_, "FOLDER --out RUN", "saccade import gpt2-folder --out my-run"
    ),
    "export": Verb(
        export_run.export,
        "RUN --to FORMAT --out FOLDER [OPTIONS]",
        "saccade export my-run --to huggingface --out my-folder",
    ),
    "models": Verb(models.models, "[NAME]", "saccade models transformer"),
    "tasks": Verb(tasks.tasks, "", "saccade tasks"),
    "check": Verb(check.check, "FILE.py:Class", "saccade check my_score.py:MyScore"),
}


def _flowing(docstring: str) -> str:
    """What stands before the parameters, a line a paragraph: a terminal is of any width."""
    text = inspect.cleandoc(docstring).partition("\n\nParameters\n---")[0]
    return "\n\n".join(paragraph.replace("\n", " ") for paragraph in text.split("\n\n"))


for place, (name, verb) in enumerate(VERBS.items()):
    app.command(
        verb.function,
        name=name,
        usage=f"Usage: saccade {name} {verb.usage}".rstrip(),
        help=_flowing(verb.function.__doc__ or ""),
        help_epilogue="\n  ".join(["Examples:", *verb.examples.split("\n")]),
        sort_key=place,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a verb and end the process with its exit code."""
    utf8_streams()
    try:
        with _cleaned_up():
            code = run(sys.argv[1:] if arguments is None else arguments, STARTED_AT)
            sys.stdout.flush()
    except BrokenPipeError:
        close_quietly()
        code = BROKEN_PIPE
    sys.exit(code)


@contextmanager
def _cleaned_up() -> Iterator[None]:
    """Inside, SIGTERM is an exception, so that what is half-written goes; training saves first."""
    ended_at = -float("inf")

    def end(*_: object) -> None:
        nonlocal ended_at
        if time.monotonic() - ended_at > CLEANING_SECONDS:
            ended_at = time.monotonic()
            raise Terminated(TERMINATED)

    ours = threading.current_thread() is threading.main_thread()
    if not ours or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # the caller's, then
        yield
        return
    signal.signal(signal.SIGTERM, end)
    try:
        yield
    except Terminated:
        note("terminated")
        raise
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def must(*arguments: object) -> None:
    """A verb as a step of a script, which ends with its exit code if it fails."""
    words = list(map(str, arguments))
    note(" ".join(("saccade", *words)))
    if code := run(words):
        sys.exit(code)


def _with_dashes(arguments: Sequence[str]) -> list[str]:
    """`--input -` as `--input=-`: alone, a dash would be taken for a flag without a name."""
    found: list[str] = []
    flag = ""  # the latest
    for each in arguments:
        if each.startswith("--"):
            flag = each.partition("=")[0]
        if each == "-" and flag and found[-1] == flag:
            found[-1] += "=-"
        elif each == "-" and flag in OF_FILES:
            found.append(f"{flag}=-")
        else:
            found.append(each)
    return found


def run(arguments: Sequence[str], started_at: float | None = None) -> int:
    """The exit code of a verb, begun now or then; what goes wrong is told in one message."""
    train.began_at.set(time.monotonic() if started_at is None else started_at)
    train.called_with.set(tuple(arguments))
    try:
        code = app(
            _with_dashes(arguments), exit_on_error=False, print_error=False,
            result_action="return_value",
        )  # fmt: skip
    except CycloptsError as error:
        known = [verb for verb in arguments[:1] if verb in VERBS]
        note(f"error: {_misread(error)}\ntry: {this_command(*known, '--help')}")
        return WRONG_INPUT
    except InputError as error:
        note(f"error: {error}")
        return WRONG_INPUT
    except BrokenPipeError:  # the reader went away: `main` ends quietly
        raise
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        note(f"error: {where}{error.strerror or error}")
        return WRONG_INPUT if error.errno in WRONG_PLACE else FAILED
    except (FloatingPointError, MemoryError, RuntimeError) as error:
        note(f"error: {_work_failed(error)}")
        return FAILED
    except KeyboardInterrupt:
        note("interrupted")
        return INTERRUPTED
    return code if isinstance(code, int) else 0


def _misread(error: CycloptsError) -> str:
    """What is wrong with the words of a call."""
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        words = " ".join(error.unused_tokens)
        return (
            f"{words!r} is no part of this call: texts are read from a file or standard input, and "
            "a setting is written --set section.key=value"
        )
    if isinstance(error, UnknownOptionError):
        names = [name for each in error.argument_collection if each.parse for name in each.names]
        return _unknown(error.token.keyword or error.token.value, names)
    given = isinstance(error, MissingArgumentError) and (error.keyword or error.tokens_so_far)
    if isinstance(error, MissingArgumentError) and error.argument and not given:
        return f"{error.argument.name} is missing: this call needs it"
    return str(error)


def _unknown(option: str, names: Sequence[str]) -> str:
    """An option that there is not; the dashes, which all have, make none similar."""
    bare = {name.lstrip("-"): name for name in names}
    near = get_close_matches(option.partition("=")[0].lstrip("-"), bare, n=1)
    return f"unknown option {option}" + (f"; did you mean {bare[near[0]]}?" if near else "")


def _work_failed(error: Exception) -> str:
    """What to say where a verb has no better word; an error that nobody foresaw is raised."""
    if isinstance(error, (TrainingError, FloatingPointError)):
        return str(error)
    from saccade.training.failures import out_of_memory

    if out_of_memory(error):
        return "out of memory; take a smaller model, or lower --workers, --processes or --beam"
    raise error
