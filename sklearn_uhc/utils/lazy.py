"""Pass calls with lazy collections as X to the leaf of this package that supports them.

A Dask collection is recognised by the package of its type, so Dask is not imported unless the user did so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

#: Our leaf for each package of lazy collections. Nothing else imports a leaf.
LEAVES = {"dask": "sklearn_uhc.dask"}


def leaf_of(X: Any) -> Any:
    """Return the leaf for X, which is imported now, or None if X is in memory."""
    for kind in type(X).__mro__:
        name = LEAVES.get(kind.__module__.partition(".")[0])
        if name is not None:
            return import_module(name)
    return None


def lazily(method: F) -> F:
    """Pass a method of an estimator to the leaf if its first argument is a lazy collection."""

    @wraps(method)
    def here_or_there(self: Any, X: Any, *args: Any, **kwargs: Any) -> Any:
        leaf = leaf_of(X)
        if leaf is None:
            return method(self, X, *args, **kwargs)
        return leaf.run(self, method.__name__, X, *args, **kwargs)

    return here_or_there  # type: ignore[return-value]
