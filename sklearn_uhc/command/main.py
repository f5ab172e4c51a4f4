"""Parse the arguments, run the subcommand, and turn errors into one line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from sklearn_uhc.command.arguments import make_parser
from sklearn_uhc.command.console import Console

FAILED, INTERRUPTED = 1, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `sklearn-uhc` and return its exit code.

    Parameters
    ----------
    arguments : list of str, default=None
        None: those of the process.

    Returns
    -------
    code : int
        0 done, 1 failed, 130 interrupted. Wrong arguments end the process with 2, as `argparse` does.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal may not know all letters
    given = make_parser().parse_args(arguments)
    console = Console(given.json)
    try:
        with console.captured():
            found, lines = given.run(given, console)
        console.result(found, lines)
    except KeyboardInterrupt:
        print("sklearn-uhc: interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        console.fail(error)
        return FAILED
    return 0
