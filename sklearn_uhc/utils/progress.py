"""Progress bars, shown only with `verbose`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def progress(steps: Iterable[T], *, total: int, desc: str, verbose: int) -> Iterable[T]:
    """Show a tqdm bar over the steps if `verbose`; without tqdm, print a line once."""
    if not verbose:
        return steps
    try:
        from tqdm.auto import tqdm
    except ImportError:
        print(f"{desc}: {total} steps (install tqdm for a progress bar)")
        return steps
    return tqdm(steps, total=total, desc=desc)
