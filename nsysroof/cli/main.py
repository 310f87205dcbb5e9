"""The entry point: runs a command, turns every error into lines on stderr and an exit code."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Sequence

import typer

from nsysroof.cli.app import app
from nsysroof.cli.options import DEBUG
from nsysroof.cli.output import forget_stdout
from nsysroof.errors import NsysroofError
from nsysroof.report.characters import printable

INTERRUPTED = 130
CLOSED_PIPE = 141
"""What a shell reports for a program that SIGINT or SIGPIPE ended."""

_LIBRARIES = {
    # numpy's linear algebra, which nothing here calls, else keeps a processor busy for 0.2 s.
    "OPENBLAS_NUM_THREADS": "1",
    # polars takes back what it has freed, which else stays in the arena of another thread: a tenth
    # less of memory, which the system need not clear before it is used again.
    "_RJEM_MALLOC_CONF": "narenas:1",
}
"""What libraries read from the environment when they are loaded; the user's own values count."""

_UNEXPECTED = 1
_USAGE = 2


def main() -> None:
    """Run the command line of this process and exit."""
    gc.disable()  # the process ends with its answer: looking for cycles costs it 0.1 s for nothing
    for name, value in _LIBRARIES.items():
        os.environ.setdefault(name, value)
    code = run(sys.argv[1:])
    gc.freeze()  # nor are they looked for at its end
    sys.exit(code)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code.

    0 done, 1 unexpected, 2 usage or unreadable input, 3 gate tripped, 4 inconclusive,
    130 interrupted, 141 the reader of the output went away.
    """
    try:
        code = app(list(arguments), prog_name="nsysroof", standalone_mode=False)
        sys.stdout.flush()
    except NsysroofError as error:
        _tell(error.lines())
        return error.exit_code
    except typer.TyperException as error:
        _tell(_usage_lines(error))
        return _USAGE
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        forget_stdout()
        return CLOSED_PIPE
    except SystemExit as stopped:  # how completion ends, and what typer makes of a closed pipe
        if not stopped.code:
            return 0
        forget_stdout()
        return CLOSED_PIPE
    except Exception as error:  # noqa: BLE001  the last resort of the process
        if os.environ.get(DEBUG):
            traceback.print_exc()
        _tell(_unexpected_lines(error))
        return _UNEXPECTED
    return int(code or 0)


def _usage_lines(error: typer.TyperException) -> list[str]:
    """Return what is wrong with the command line and which help tells more."""
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "nsysroof"
    message = " ".join(error.format_message().split()).replace("Value error, ", "")
    return [f"error: {message}", f"hint: see `{command} --help`   [usage]"]


def _unexpected_lines(error: Exception) -> list[str]:
    what = " ".join(f"{type(error).__name__}: {error}".split())
    more = "" if os.environ.get(DEBUG) else f" (the traceback: {DEBUG}=1)"
    return [
        f"error: unexpected {what}",
        f"hint: please report this with the command and `nsysroof --version`{more}   [unexpected]",
    ]


def _tell(lines: Sequence[str]) -> None:
    """Write lines to stderr; names in them are made inert."""
    for line in lines:
        print(printable(line), file=sys.stderr)
