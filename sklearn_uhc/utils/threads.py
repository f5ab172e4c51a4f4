"""Apply a function to parts of the data, in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from joblib import Parallel, delayed
from sklearn import config_context, get_config

Part = TypeVar("Part")
Result = TypeVar("Result")


def in_threads(run: Callable[[Part], Result], parts: Sequence[Part], n_jobs: int) -> Iterable[Result]:
    """Yield run(part) for every part, in order, with `n_jobs` parts at the same time.

    With one job joblib is not used, since its overhead matters for a single row. Threads get the caller's scikit-learn
    configuration, but not its warning filters: these belong to the process, and setting them in several threads at
    once, as scikit-learn's `Parallel` does, loses them.
    """
    if min(n_jobs, len(parts)) <= 1:
        return map(run, parts)
    config = get_config()

    def configured(part: Part) -> Result:
        with config_context(**config):
            return run(part)

    found: Iterable[Result] = Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator")(
        delayed(configured)(part) for part in parts
    )
    return found
