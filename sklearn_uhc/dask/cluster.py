"""What a cluster needs to be told: objects that travel once, and whose block it was that failed."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import dask

from sklearn_uhc.dask.parcel import arrived, packed
from sklearn_uhc.utils.notes import add_note

#: What was sent to a cluster and is still in use there, by client and content.
_SENT: WeakValueDictionary[tuple[str, str], Any] = WeakValueDictionary()


def client_in_use() -> Any:
    """Return the distributed client that computes collections, None if Dask's local schedulers do.

    Its workers have imported this package then.
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
    """Return a stand-in of an object for use in task graphs, of which tasks get the `Parcel`.

    The bytes go to the scheduler one time, as a task, so that what a worker held when it died can be made again. From
    there they go to one worker, from worker to worker where they are needed, and are unpickled once in each.
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
    """Compute delayed values all together; an error that the cluster reports tells what to do."""
    try:
        return list(dask.compute(*tasks))
    except Exception as error:
        _explain(error)
        raise


def result_of(future: Any) -> Any:
    """Return the value of one future, with the same help."""
    try:
        return future.result()
    except Exception as error:
        _explain(error)
        raise


def _explain(error: Exception) -> None:
    """Say of a worker that died what usually helps; the key in the message has the number of the block."""
    if type(error).__name__ == "KilledWorker":
        add_note(
            error,
            "Workers died while they worked on the block at the end of the task's name, usually because they ran out "
            "of memory. Use smaller blocks, X.repartition(partition_size='64MB') or X.rechunk, or a higher "
            "memory_limit. With store=, finished blocks are kept, and the next run resumes after them.",
        )
