"""What workers have before they run a task: this package, imported, and teachers that searches share.

A plugin runs on every worker of a cluster, on those that join or are restarted later too, before any task does.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from distributed import WorkerPlugin

from sklearn_uhc.dask.parcel import Parcel, arrived

#: Clients whose workers have the package imported.
_PREPARED: WeakSet[Any] = WeakSet()
#: Teachers that searches share in this process.
KEPT: dict[str, Parcel] = {}


class Imported(WorkerPlugin):
    """Import this package: unpickling the plugin does it, in one thread, before tasks do so in several."""

    name, idempotent = "sklearn_uhc", True


class Kept(WorkerPlugin):
    """Keep an object on every worker."""

    idempotent = True

    def __init__(self, key: str, content: bytes) -> None:
        self.name, self.content = key, content

    def setup(self, worker: Any) -> None:
        """Take it in."""
        KEPT.setdefault(self.name, arrived(self.name, self.content))
        self.content = b""

    def teardown(self, worker: Any) -> None:
        """Let it go."""
        KEPT.pop(self.name, None)


def prepare(client: Any) -> Any:
    """Have all workers of a client import this package, once, and return the client."""
    if client not in _PREPARED and not client.asynchronous:
        _PREPARED.add(client)  # before, for the call may lead here again
        client.register_plugin(Imported())
    return client
