"""Limit BLAS to one thread while a solver runs, in any number of Python threads at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController


class _Shared:
    """The limit shared by all threads of the process: the first one sets it, the last one lifts it."""

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
    """Limit BLAS to one thread.

    The number of threads is a setting of the process. If each Python thread saved and restored it, the second of two
    overlapping threads would save the limit set by the first, and restore it for good.
    """
    _shared.enter()
    try:
        yield
    finally:
        _shared.leave()
