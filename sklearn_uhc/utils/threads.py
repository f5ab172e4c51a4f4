"""The same for every part of the data, in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from sklearn.utils.parallel import Parallel, delayed

Part = TypeVar("Part")
Result = TypeVar("Result")


def in_threads(run: Callable[[Part], Result], parts: Sequence[Part], n_jobs: int) -> Iterable[Result]:
    """Yield run(part) for every part, in order; `n_jobs` parts at the same time.

    One job does without joblib, whose overhead a single row would feel.
    """
    if min(n_jobs, len(parts)) <= 1:
        return map(run, parts)
    threads: Any = Parallel(n_jobs=n_jobs, require="sharedmem", return_as="generator")
    found: Iterable[Result] = threads(delayed(run)(part) for part in parts)
    return found
