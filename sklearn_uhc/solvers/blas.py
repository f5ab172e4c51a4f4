"""BLAS held to one thread while a solver runs, in any number of Python threads at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


class _Shared:
    """The limit that all threads of the process share: who comes first sets it, who leaves last lifts it."""

    def __init__(self) -> None:
        self.lock, self.users = Lock(), 0
        self.limiter: Any = None

    def enter(self) -> None:
        with self.lock:
            if self.users == 0:
                self.limiter = _controller().limit(limits=1, user_api="blas")
            self.users += 1

    def leave(self) -> None:
        with self.lock:
            self.users -= 1
            if self.users == 0:
                self.limiter.restore_original_limits()


_shared = _Shared()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread.

    The number of threads belongs to the process. If every Python thread saved and restored it by itself, the second of
    two that overlap would save the limit of the first and leave it behind for good.
    """
    _shared.enter()
    try:
        yield
    finally:
        _shared.leave()
