"""Teachers that searches on a cluster do not copy for every candidate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

import cloudpickle

from sklearn_uhc.dask.cluster import client_in_use, send

#: Teachers that this process has fetched, by their key on the cluster.
_FETCHED: dict[str, list[Any]] = {}
_FETCHING = Lock()


class SharedTeachers(Sequence):
    """A list of teachers that is kept on the cluster, and pickled as a reference to it.

    A search through joblib's Dask backend pickles the distiller for every candidate and fold, and its teachers with it.
    Give it `SharedTeachers(teachers)` instead: they go to the cluster once, each worker fetches them once, and they
    stay there, as a published dataset, until the cluster ends.

    Parameters
    ----------
    teachers : list or dict of fitted classifiers
        As for a distiller.

    Examples
    --------
    >>> from distributed import Client
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_uhc.dask import SharedTeachers
    >>> teacher = LogisticRegression().fit([[0.0], [1.0]], ["a", "b"])
    >>> with Client(processes=False, dashboard_address=":0"):
    ...     teachers = SharedTeachers({"north": teacher})
    ...     len(teachers), teachers[0][0]
    (1, 'north')
    """

    def __init__(self, teachers: Any) -> None:
        client = client_in_use()
        if client is None:
            raise ValueError("SharedTeachers needs a cluster: make a distributed.Client first.")
        listed = list(teachers.items()) if isinstance(teachers, Mapping) else list(teachers)
        sent = send(cloudpickle.dumps(listed))
        self._key, self._n = sent.key, len(listed)
        client.publish_dataset(**{self._key: sent}, override=True)
        _FETCHED[self._key] = listed

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: Any) -> Any:
        return self._list()[i]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._list())

    def _list(self) -> list[Any]:
        """Return the teachers, fetched where this process has not done so before."""
        with _FETCHING:  # of several threads one fetches
            if self._key not in _FETCHED:
                from distributed import get_client

                _FETCHED[self._key] = cloudpickle.loads(get_client().get_dataset(self._key).result())
            return _FETCHED[self._key]

    def __repr__(self) -> str:
        return f"SharedTeachers({self._n} teachers, {self._key})"
