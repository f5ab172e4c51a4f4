"""Files that appear whole or not at all, and checks of paths before long work."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sklearn_uhc.command.console import CommandError


def check_input(path: str, suffixes: Sequence[str], what: str) -> str:
    """Return the suffix of a file that exists, one of these."""
    kind = suffix_of(path)
    if kind not in suffixes:
        raise CommandError(f"{path}: {what} must end in {', '.join(suffixes)}.")
    if not Path(path).is_file():
        raise CommandError(f"{path}: there is no such file.")
    return kind


def check_output(path: str, suffixes: Sequence[str], what: str, inputs: Sequence[str]) -> None:
    """Raise an error for an output that cannot be written, or that would replace an input."""
    target = Path(path)
    if target.suffix not in suffixes:
        raise CommandError(f"{path}: {what} must end in {' or '.join(suffixes)}.")
    if not target.resolve().parent.is_dir():
        raise CommandError(f"{path}: there is no folder {str(target.resolve().parent)!r}.")
    if not os.access(target.resolve().parent, os.W_OK):
        raise CommandError(f"{path}: its folder is not writable.")
    if target.exists() and not target.is_file():
        raise CommandError(f"{path}: it exists and is no file.")
    if any(target.exists() and os.path.exists(given) and os.path.samefile(target, given) for given in inputs):
        raise CommandError(f"{path}: it is also an input and would be overwritten.")


def suffix_of(path: str) -> str:
    """Return the suffix of a path in lower case, without one for compression."""
    names = [name.lower() for name in Path(path).suffixes]
    return next((name for name in reversed(names) if name not in (".gz", ".bz2", ".xz", ".zst")), "")


@contextmanager
def whole_files(*paths: str) -> Iterator[list[Path]]:
    """Yield paths to write to instead, in folders beside; the files get their names when all is written."""
    with ExitStack() as stack:
        staged = []
        for path in paths:
            folder = tempfile.mkdtemp(dir=Path(path).resolve().parent, prefix=".sklearn-uhc-")
            stack.callback(shutil.rmtree, folder, ignore_errors=True)
            staged.append(Path(folder) / Path(path).name)
        yield staged
        for new, path in zip(staged, paths, strict=True):
            os.replace(new, path)
