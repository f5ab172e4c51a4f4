"""The same for every part of the data, in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from joblib import Parallel, delayed
from sklearn import config_context, get_config

Part = TypeVar("Part")
Result = TypeVar("Result")


def in_threads(run: Callable[[Part], Result], parts: Sequence[Part], n_jobs: int) -> Iterable[Result]:
    """Yield run(part) for every part, in order; `n_jobs` parts at the same time.

    One job does without joblib, whose overhead a single row would feel. Threads get this one's configuration of
    scikit-learn, but share the process's filters of warnings: scikit-learn's own `Parallel` sets these in every
    thread, and where two overlap they are lost.
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
