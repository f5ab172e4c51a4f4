"""Teachers that searches on a cluster do not copy for every candidate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sklearn_uhc.dask.cluster import client_in_use, send

#: Teachers that this process has fetched, by their key on the cluster.
_FETCHED: dict[str, list[Any]] = {}


class SharedTeachers(Sequence):
    """A list of teachers that is kept on the cluster, and pickled as a reference to it.

    A search through joblib's Dask backend pickles the distiller for every candidate and fold, and its teachers with it.
    Give it `SharedTeachers(teachers)` instead: they go to the cluster once, and each worker fetches them once.

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
        if client_in_use() is None:
            raise ValueError("SharedTeachers needs a cluster: make a distributed.Client first.")
        listed = list(teachers.items()) if isinstance(teachers, Mapping) else list(teachers)
        self._future = send(listed)
        self._key = self._future.key
        self._n = len(listed)
        _FETCHED[self._key] = listed

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: Any) -> Any:
        return self._list()[i]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._list())

    def _list(self) -> list[Any]:
        """Return the teachers, fetched where this process has not done so before."""
        if self._key not in _FETCHED:
            _FETCHED[self._key] = self._future.result()
        return _FETCHED[self._key]

    def __repr__(self) -> str:
        return f"SharedTeachers({self._n} teachers, {self._key})"
