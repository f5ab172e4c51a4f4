"""Objects sent to workers: bytes until they are needed, then unpickled once per process.

Unpickling imports the modules that teachers need. If two threads of a new worker import parts of scikit-learn at the
same time, they can find half-initialised modules, so a lock lets only one thread unpickle at a time.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b
from threading import RLock
from typing import Any
from weakref import WeakValueDictionary

import cloudpickle

#: Parcels of this process that are still in use.
_HERE: WeakValueDictionary[str, Parcel] = WeakValueDictionary()
#: The latest parcels, kept although no task may hold them for a moment, so that the next task need not unpickle again.
_LATEST: deque[Parcel] = deque(maxlen=2)
_LOCK = RLock()


class Parcel:
    """An object that may still be pickled; `value` is the object itself."""

    def __init__(self, key: str, content: bytes) -> None:
        self.key, self.size = key, len(content)
        self._content: bytes | None = content
        self._value: Any = None

    @classmethod
    def of(cls, key: str, value: Any, size: int) -> Parcel:
        """Return a parcel that is already unpickled."""
        parcel = cls(key, b"")
        parcel.size, parcel._content, parcel._value = size, None, value
        return parcel

    @property
    def value(self) -> Any:
        """The object. The first access unpickles it and drops the bytes."""
        if self._content is not None:
            with _LOCK:
                if self._content is not None:
                    self._value = cloudpickle.loads(self._content)
                    self._content = None
        return self._value

    def __reduce__(self) -> tuple[Any, ...]:
        content = self._content
        return arrived, (self.key, cloudpickle.dumps(self._value) if content is None else content)

    def __sizeof__(self) -> int:
        return self.size

    def __repr__(self) -> str:
        return f"Parcel({self.key}, {self.size:,} bytes)"


def packed(obj: Any) -> tuple[str, bytes]:
    """Return a key, which is a hash of the object's pickle, and the pickle."""
    content = cloudpickle.dumps(obj)
    return f"uhc-{type(obj).__name__}-{blake2b(content, digest_size=16).hexdigest()}", content


def arrived(key: str, content: bytes) -> Parcel:
    """Return this process's parcel with this key, or a new one."""
    with _LOCK:
        parcel = _HERE.get(key)
        if parcel is None:
            parcel = _HERE[key] = Parcel(key, content)
            _LATEST.append(parcel)
        return parcel
