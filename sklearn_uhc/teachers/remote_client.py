"""HTTP requests with retries and time limits; pauses follow the server's Retry-After."""

from __future__ import annotations

import json
import os
import random
import ssl
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from threading import Event
from typing import Any

#: HTTP status codes after which the same request may succeed.
TRANSIENT = frozenset({408, 425, 429, 500, 502, 503, 504})
#: Maximum size of a reply in bytes.
LONGEST_REPLY = 2**28


class FailedError(Exception):
    """A request that failed after all attempts; `transient` if it may succeed later."""

    def __init__(self, message: str, transient: bool, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.transient, self.retry_after = transient, retry_after


@dataclass(frozen=True)
class Patience:
    """Time limits and number of retries."""

    timeout: float
    max_retries: int
    backoff: float
    max_wait: float

    def pause(self, attempt: int, retry_after: float | None) -> float:
        """Return the seconds until the next attempt: the server's Retry-After, else about twice the last pause."""
        if retry_after is not None:
            return retry_after
        return min(self.max_wait, self.backoff * 2**attempt) * random.uniform(0.5, 1)


def open_client(token_env: str | None, patience: Patience, n_connections: int) -> Any:
    """Return an httpx client that checks certificates, follows no redirects, and reads the token for each request."""
    try:
        import httpx
    except ImportError as error:
        raise ImportError("RemoteTeacher needs httpx: pip install 'sklearn-uhc[remote]'.") from error

    def add_token(request: Any) -> Any:
        request.headers["Authorization"] = f"Bearer {_token(token_env)}"
        return request

    limits = httpx.Limits(max_connections=n_connections)
    auth = None if token_env is None else add_token
    return httpx.Client(timeout=patience.timeout, limits=limits, auth=auth)


def check_token(token_env: str | None) -> None:
    """Raise an error if the environment variable with the token is missing or empty."""
    if token_env is not None and not _token(token_env):
        raise ValueError(
            f"token_env={token_env!r}: there is no environment variable with this name, or it is empty. Set it to the "
            "token; do not pass the token itself."
        )


def send(client: Any, url: str, content: Any, patience: Patience, token_env: str | None, stop: Event) -> Any:
    """Post JSON and return the JSON of the reply, with up to `max_retries` retries."""
    body = json.dumps(content, allow_nan=False).encode()
    for attempt in range(patience.max_retries + 1):
        if stop.is_set():
            raise FailedError("it was no longer needed", transient=True)
        try:
            return _send_once(client, url, body, patience.timeout)
        except FailedError as error:
            if not error.transient:
                raise FailedError(_without_token(str(error), token_env), transient=False) from None
            last, wait = error, patience.pause(attempt, error.retry_after)
        if wait > patience.max_wait:
            raise FailedError(
                f"{last}; the server asks to wait {wait:.0f} seconds, more than max_wait={patience.max_wait:g}",
                transient=True,
            )
        if attempt < patience.max_retries:
            stop.wait(wait)
    message = f"{last}, at the last of {patience.max_retries + 1} attempts" if patience.max_retries else str(last)
    raise FailedError(_without_token(message, token_env), transient=True)


def _send_once(client: Any, url: str, body: bytes, timeout: float) -> Any:
    import httpx

    try:
        status, headers, reply = _exchange(client, url, body, timeout)
    except httpx.TimeoutException:
        raise FailedError(f"no reply within timeout={timeout:g} seconds", transient=True) from None
    except (httpx.TransportError, httpx.DecodingError) as error:
        raise FailedError(f"{type(error).__name__}: {error}", not _is_about_certificate(error)) from None
    if status != 200:
        shown = reply[:300].decode("utf-8", "replace").strip()
        message = f"the server answered {status}{': ' if shown else ''}{shown}"
        raise FailedError(message, status in TRANSIENT, _seconds(headers.get("Retry-After")))
    try:
        return json.loads(reply)
    except ValueError:
        raise FailedError(f"the reply is not JSON: {reply[:100]!r}", transient=False) from None


def _exchange(client: Any, url: str, body: bytes, timeout: float) -> tuple[int, Any, bytes]:
    """Post and read the reply within limits of time and size, since a server may never stop sending."""
    import httpx

    end, parts, size = time.monotonic() + timeout, [], 0
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    with client.stream("POST", url, content=body, headers=headers) as response:
        for part in response.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > LONGEST_REPLY:
                raise FailedError(f"the reply is longer than {LONGEST_REPLY} bytes", transient=False)
            if time.monotonic() > end:
                raise httpx.ReadTimeout("the reply did not end in time")
    return response.status_code, response.headers, b"".join(parts)


def _is_about_certificate(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, ssl.SSLCertVerificationError):
        error = error.__cause__ or error.__context__
    return error is not None


def _seconds(retry_after: str | None) -> float | None:
    """Parse Retry-After, which is a number of seconds or a date."""
    if retry_after is None:
        return None
    try:
        return max(0.0, float(retry_after))
    except ValueError:
        pass
    try:
        date = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - datetime.now(timezone.utc)).total_seconds())


def _token(token_env: str | None) -> str:
    return os.environ.get(token_env or "", "").strip()


def _without_token(text: str, token_env: str | None) -> str:
    """Remove the token from text that a server sent back."""
    token = _token(token_env)
    return text.replace(token, "[token]") if token else text
