"""Objects on their way to workers: as bytes until somebody needs them, and unpickled once in each process.

Unpickling imports what teachers are made of. Two threads of a new worker that import parts of scikit-learn at the same
time can find modules half initialised, so a lock lets one thread unpickle at a time.
"""

from __future__ import annotations

from hashlib import blake2b
from threading import RLock
from typing import Any
from weakref import WeakValueDictionary

import cloudpickle

#: Parcels of this process that are in use.
_HERE: WeakValueDictionary[str, Parcel] = WeakValueDictionary()
_LOCK = RLock()


class Parcel:
    """An object that may still be packed; `value` is the object itself."""

    def __init__(self, key: str, content: bytes) -> None:
        self.key, self.size = key, len(content)
        self._content: bytes | None = content
        self._value: Any = None

    @classmethod
    def of(cls, key: str, value: Any, size: int) -> Parcel:
        """Return a parcel that is open already."""
        parcel = cls(key, b"")
        parcel.size, parcel._content, parcel._value = size, None, value
        return parcel

    @property
    def value(self) -> Any:
        """The object, unpacked by whoever asks first; the bytes are given up then."""
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
    """Return a key that depends on what an object pickles, and the pickle."""
    content = cloudpickle.dumps(obj)
    return f"uhc-{type(obj).__name__}-{blake2b(content, digest_size=16).hexdigest()}", content


def arrived(key: str, content: bytes) -> Parcel:
    """Return the parcel that this process has under a key, or a new one."""
    with _LOCK:
        parcel = _HERE.get(key)
        if parcel is None:
            parcel = _HERE[key] = Parcel(key, content)
        return parcel
