"""Prepare workers before they run tasks: import this package, and keep teachers that searches share.

A plugin runs on every worker of a cluster before any task, also on workers that join or restart later.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from distributed import WorkerPlugin

from sklearn_uhc.dask.parcel import Parcel, arrived

#: Clients whose workers have the package imported.
_PREPARED: WeakSet[Any] = WeakSet()
#: Teachers in this process that are shared by searches.
KEPT: dict[str, Parcel] = {}


class Imported(WorkerPlugin):
    """Import this package: unpickling the plugin does so in one thread, before tasks would do so in several."""

    name, idempotent = "sklearn_uhc", True


class Kept(WorkerPlugin):
    """Keep an object on every worker."""

    idempotent = True

    def __init__(self, key: str, content: bytes) -> None:
        self.name, self.content = key, content

    def setup(self, worker: Any) -> None:
        """Store the object."""
        KEPT.setdefault(self.name, arrived(self.name, self.content))
        self.content = b""

    def teardown(self, worker: Any) -> None:
        """Drop the object."""
        KEPT.pop(self.name, None)


def prepare(client: Any) -> Any:
    """Make all workers of a client import this package, once, and return the client."""
    if client not in _PREPARED and not client.asynchronous:
        _PREPARED.add(client)  # first, since the call below may get here again
        client.register_plugin(Imported())
    return client
