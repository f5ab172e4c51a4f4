"""Teachers that are not copied for every candidate of a search on a cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sklearn_uhc.dask.cluster import client_in_use
from sklearn_uhc.dask.parcel import Parcel, packed


class SharedTeachers(Sequence):
    """A list of teachers that is kept on the cluster and pickled as a reference.

    A search with joblib's Dask backend pickles the distiller, including its teachers, for every candidate and fold.
    Pass `SharedTeachers(teachers)` instead: the teachers are sent to each worker once, also to workers that join
    later, and stay there until the cluster ends or `forget` is called.

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
            raise ValueError("SharedTeachers needs a cluster: create a distributed.Client first.")
        from sklearn_uhc.dask.workers import KEPT, Kept

        listed = list(teachers.items()) if isinstance(teachers, Mapping) else list(teachers)
        self._key, content = packed(listed)
        self._n = len(listed)
        KEPT[self._key] = Parcel.of(self._key, listed, len(content))
        client.register_plugin(Kept(self._key, content))

    def forget(self) -> None:
        """Remove the teachers from the workers."""
        client = client_in_use()
        if client is not None:
            client.unregister_worker_plugin(self._key)

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, i: Any) -> Any:
        return self._list()[i]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._list())

    def _list(self) -> list[Any]:
        """Return this process's copy of the teachers."""
        from sklearn_uhc.dask.workers import KEPT

        if self._key not in KEPT:
            raise RuntimeError(
                "SharedTeachers was unpickled without its teachers: it works only on the cluster it was made for. "
                "To save an estimator, give it the teachers themselves."
            )
        found: list[Any] = KEPT[self._key].value
        return found

    def __repr__(self) -> str:
        return f"SharedTeachers({self._n} teachers, {self._key})"
