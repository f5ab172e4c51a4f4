"""A model behind a URL as a teacher."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from numbers import Integral
from threading import Event
from typing import Any
from urllib.parse import urlsplit

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import gen_batches

from sklearn_uhc.teachers.answering import AnsweringTeacher, Floats, check_kind, to_log_proba
from sklearn_uhc.teachers.remote_client import Client, FailedError, Patience, check_token, send
from sklearn_uhc.teachers.remote_protocols import Options, ask_mlflow, ask_v2
from sklearn_uhc.utils.notes import add_note, warn_user
from sklearn_uhc.utils.parameters import check_flag, check_positive
from sklearn_uhc.utils.rows import count_rows, take_rows
from sklearn_uhc.utils.unchanged import copy_of

__all__ = ["RemoteTeacher"]

#: By name: the function that implements the protocol, and the end of its URL.
PROTOCOLS: dict[str, tuple[Callable[..., Any], str]] = {
    "v2": (ask_v2, "/infer"),
    "mlflow": (ask_mlflow, "/invocations"),
}
#: Give up after this many failed batches in a row.
MOST_FAILURES = 8
LOCAL = ("localhost", "127.0.0.1", "::1")


class RemoteTeacher(AnsweringTeacher):
    """A classifier on a server, as a fitted classifier.

    Rows are sent in batches, several at a time. A request that fails for a temporary reason (no connection, no
    reply in time, 429, 500 and the like) is repeated after a pause, or after the time that the server asks for. Needs
    httpx: ``pip install 'sklearn-uhc[remote]'``.

    Parameters
    ----------
    url : str
        URL of the model: ``https://host/v2/models/name`` for "v2", ``https://host`` or ``https://host/invocations`` for
        "mlflow"; for a function, the URL that it posts to.
    classes : list
        The k classes, in the order of the server's answers.
    protocol : {"v2", "mlflow"} or callable, default="v2"
        "v2" is the Open Inference Protocol of KServe, Triton, MLServer and Seldon; "mlflow" is the scoring protocol of
        MLflow. Otherwise a ``function(rows, send)`` that returns the answers for a batch of rows, shape (n, k), where
        ``send(content)`` posts anything that JSON can hold and returns the JSON of the reply.
    output_kind : {"proba", "log_proba", "logits"}, default="proba"
        What the server returns.
    input_name : str, default="input-0"
        Name of the input in "v2". The columns of a frame become inputs of their own, under their names.
    output : str, default=None
        Name of the output in "v2", such as "predict_proba" for scikit-learn models in MLServer. None: the only one.
    dtype : dtype, default=None
        Type of the numbers sent by "v2", such as "float32" for most networks. None: that of X.
    batch_size : int, default=256
        Rows per request.
    n_requests : int, default=4
        Number of requests at the same time.
    timeout : float, default=30
        Time limit for one request, in seconds, from the connection to the last byte of the reply.
    max_retries : int, default=5
        How often a failed request is repeated.
    backoff : float, default=0.5
        Seconds before the first repetition. The pause doubles with each further one.
    max_wait : float, default=60
        Longest pause in seconds. If the server asks for more, the request counts as failed.
    token_env : str, default=None
        Name of an environment variable that holds a bearer token. The token itself is never stored.
    abstain : bool, default=False
        What to do with rows whose requests keep failing. False raises an error that names them. True makes the teacher
        silent about them (NaN), with a warning. If the server rejects a request (401, 404, ...) or returns something
        invalid, it is an error in any case. Pass ``abstain=True`` to the distiller as well.
    version : str, default=None
        Version of the model behind the URL, part of the key of a `store`. Change it when the model changes.

    Attributes
    ----------
    classes_ : ndarray of shape (k,)
        `classes`.

    Notes
    -----
    Certificates are checked, against the file named by ``SSL_CERT_FILE`` if it is set. Redirects are not followed. A
    token is sent over https only, unless the server is on this machine. With ``store=``, rows that were answered are
    not sent again. Silent rows are stored as such: change `version`, or delete the files, to send them again.

    Examples
    --------
    >>> from sklearn_uhc import RemoteTeacher
    >>> teacher = RemoteTeacher(
    ...     "https://models.example.org/v2/models/animals", ["cat", "dog"], output="predict_proba",
    ...     token_env="ANIMALS_TOKEN", abstain=True,
    ... )
    >>> teacher.classes_.tolist()
    ['cat', 'dog']
    """

    def __init__(
        self,
        url: str,
        classes: Sequence[Any],
        *,
        protocol: str | Callable[[Any, Callable[[Any], Any]], Any] = "v2",
        output_kind: str = "proba",
        input_name: str = "input-0",
        output: str | None = None,
        dtype: Any = None,
        batch_size: int = 256,
        n_requests: int = 4,
        timeout: float = 30.0,
        max_retries: int = 5,
        backoff: float = 0.5,
        max_wait: float = 60.0,
        token_env: str | None = None,
        abstain: bool = False,
        version: str | None = None,
    ) -> None:
        self.url = url
        self.classes = classes
        self.protocol = protocol
        self.output_kind = output_kind
        self.input_name = input_name
        self.output = output
        self.dtype = dtype
        self.batch_size = batch_size
        self.n_requests = n_requests
        self.timeout = timeout
        self.max_retries = max_retries
        self.backoff = backoff
        self.max_wait = max_wait
        self.token_env = token_env
        self.abstain = abstain
        self.version = version

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes, in the order of the answers."""
        self._check_parameters()
        return np.asarray(self.classes)

    def predict_log_proba(self, X: Any) -> Floats:
        """Return log-probabilities.

        Parameters
        ----------
        X : array, frame, sparse matrix, list or torch Dataset with n rows
            Sent as JSON, batch by batch.

        Returns
        -------
        log_proba : ndarray of shape (n, k)
            NaN where the server did not answer, with `abstain=True`.
        """
        self._check_parameters()
        check_token(self.token_env)
        out = np.full((count_rows(X), len(self.classes)), np.nan)
        patience = Patience(self.timeout, self.max_retries, self.backoff, self.max_wait)
        stop = Event()
        with (
            Client(self.token_env, self.n_requests) as client,
            ThreadPoolExecutor(self.n_requests) as pool,
        ):
            post = partial(send, client, self._endpoint(), patience=patience, stop=stop)
            batches = ((rows, take_rows(X, rows)) for rows in gen_batches(len(out), int(self.batch_size)))
            try:
                failures = self._collect(_ahead(pool, partial(self._ask, post), batches, self.n_requests), out)
            finally:
                stop.set()  # no more retries
        if failures:
            self._warn_of_silence(failures, out)
        return out

    def _collect(self, asked: Iterable[tuple[slice, Future[Floats]]], out: Floats) -> list[str]:
        """Write the answers to `out`, and return the reasons for missing ones; stop after `MOST_FAILURES` in a row."""
        failures: list[str] = []
        in_a_row = 0
        for rows, future in asked:
            try:
                out[rows], in_a_row = future.result(), 0
            except FailedError as error:
                if not (self.abstain and error.transient):
                    raise RuntimeError(self._failure(rows, error)) from None
                failures.append(str(error))
                in_a_row += 1
                if in_a_row == MOST_FAILURES:
                    break
            except ValueError as error:
                add_note(error, f"This was about rows {rows.start} to {rows.stop - 1}.")
                raise
        return failures

    def _ask(self, post: Callable[[Any], Any], rows: Any) -> Floats:
        """Send one batch and check the answer."""
        if callable(self.protocol):
            answer = self.protocol(copy_of(rows), post)
        else:
            options = Options(np.asarray(self.classes).tolist(), self.input_name, self.output, self.dtype)
            answer = PROTOCOLS[self.protocol][0](rows, post, options)
        values, name = np.asarray(answer), f"The server at {self.url}"
        if values.size and values.size == len(values) and values.dtype.kind != "f":
            raise ValueError(
                f"{name} returns labels, such as {values.ravel()[0]!r}, instead of probabilities. For MLServer pass "
                'output="predict_proba"; for MLflow save the model with '
                'pyfunc_predict_fn="predict_proba".'
            )
        remedy = 'If they are scores or logits, pass output_kind="logits".'
        return to_log_proba(values, self.output_kind, count_rows(rows), len(self.classes), name, remedy)

    def _endpoint(self) -> str:
        if callable(self.protocol):
            return self.url
        end = PROTOCOLS[self.protocol][1]
        return self.url if self.url.endswith(end) else self.url.rstrip("/") + end

    def _check_parameters(self) -> None:
        if not callable(self.protocol) and self.protocol not in PROTOCOLS:
            raise ValueError(f'protocol must be "v2", "mlflow" or a function(rows, send), got {self.protocol!r}.')
        check_kind("output_kind", self.output_kind)
        check_flag("abstain", self.abstain)
        for name in ("batch_size", "n_requests"):
            check_positive(name, getattr(self, name), integer=True)
        for name in ("timeout", "backoff", "max_wait"):
            check_positive(name, getattr(self, name))
        if not isinstance(self.max_retries, Integral) or self.max_retries < 0:
            raise ValueError(f"max_retries must be an integer of 0 or more, got {self.max_retries!r}.")
        _check_url(self.url, self.token_env)

    def _failure(self, rows: slice, error: FailedError) -> str:
        hint = " With abstain=True the teacher is silent about such rows." if error.transient else ""
        return f"The request to {self.url} about rows {rows.start} to {rows.stop - 1} failed: {error}.{hint}"

    def _warn_of_silence(self, failures: list[str], out: Floats) -> None:
        silent = np.isnan(out).all(axis=1)
        given_up = f", {MOST_FAILURES} in a row, so the rest was not tried" if len(failures) >= MOST_FAILURES else ""
        warn_user(
            f"The server at {self.url} did not answer for {int(silent.sum())} of {len(out)} rows, first for row "
            f"{int(np.argmax(silent))}: {len(failures)} failed requests{given_up}. The last one: "
            f"{failures[-1]}. The teacher is silent about these rows."
        )

    def _decides_answers(self) -> Any:
        """Return what the answers depend on: their source, not how they are fetched."""
        names = ("url", "classes", "protocol", "output_kind", "input_name", "output", "version")
        dtype = None if self.dtype is None else np.dtype(self.dtype).str
        return [dtype, *(getattr(self, name) for name in names)]


def _ahead(
    pool: ThreadPoolExecutor, function: Callable[[Any], Any], batches: Iterable[tuple[slice, Any]], most: int
) -> Iterator[tuple[slice, Future[Any]]]:
    """Yield futures of the batches in order; at most `most` batches are read ahead."""
    waiting: deque[tuple[slice, Future[Any]]] = deque()
    for rows, part in batches:
        waiting.append((rows, pool.submit(function, part)))
        if len(waiting) > most:
            yield waiting.popleft()
    yield from waiting


def _check_url(url: Any, token_env: str | None) -> None:
    parts = urlsplit(url) if isinstance(url, str) else None
    if parts is None or parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"url must start with http or https, got {url!r}.")
    if parts.username or parts.password:
        raise ValueError("url contains a user name or password, which would be shown with it: use token_env.")
    if token_env is not None and parts.scheme == "http" and parts.hostname not in LOCAL:
        raise ValueError(f"The token of token_env would be sent unencrypted to {parts.hostname}: use https.")
