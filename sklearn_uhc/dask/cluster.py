"""Work with a cluster: send objects once, and explain errors of its workers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import dask

from sklearn_uhc.dask.parcel import arrived, packed
from sklearn_uhc.utils.notes import add_note

#: Objects that were sent to a cluster and are still in use there, by client and content.
_SENT: WeakValueDictionary[tuple[str, str], Any] = WeakValueDictionary()


def client_in_use() -> Any:
    """Return the distributed client that computes collections, or None if a local scheduler of Dask does.

    The workers of the client have imported this package by then.
    """
    distributed = sys.modules.get("distributed")
    if distributed is None or dask.config.get("scheduler", None) not in (None, "distributed", "dask.distributed"):
        return None
    try:
        client = distributed.default_client()
    except ValueError:
        return None
    from sklearn_uhc.dask.workers import prepare

    return prepare(client)


def send(obj: Any) -> Any:
    """Return a reference to an object for task graphs; tasks receive the object's `Parcel`.

    The bytes are sent to the scheduler once, as a task, so that they can be recreated if a worker dies. From there they
    go to one worker, then from worker to worker where they are needed, and each worker unpickles them once.
    """
    key, content = packed(obj)
    client = client_in_use()
    if client is None:
        return dask.delayed(arrived)(key, content, dask_key_name=key)
    sent = _SENT.get((client.id, key))
    if sent is None or sent.status not in ("pending", "finished"):
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            sent = client.submit(arrived, key, content, key=key, pure=True)
        _SENT[client.id, key] = sent
    return sent


def compute(tasks: Sequence[Any]) -> list[Any]:
    """Compute all delayed values together; errors reported by the cluster get a note with a remedy."""
    try:
        return list(dask.compute(*tasks))
    except Exception as error:
        _explain(error)
        raise


def result_of(future: Any) -> Any:
    """Return the value of a future; errors get the same note as in `compute`."""
    try:
        return future.result()
    except Exception as error:
        _explain(error)
        raise


def _explain(error: Exception) -> None:
    """Add a note with the usual remedy if a worker died; the key in the message has the number of the block."""
    if type(error).__name__ == "KilledWorker":
        add_note(
            error,
            "Workers died while they worked on the block at the end of the task's name, usually because they ran out "
            "of memory. Use smaller blocks, X.repartition(partition_size='64MB') or X.rechunk, or a higher "
            "memory_limit. With store=, finished blocks are kept, and the next run resumes after them.",
        )
