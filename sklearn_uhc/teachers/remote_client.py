"""HTTP requests with retries and time limits; pauses follow the server's Retry-After."""

from __future__ import annotations

import asyncio
import json
import os
import random
import ssl
from dataclasses import dataclass
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from threading import Event, Thread
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
class Reply:
    """What a server sent: status code, Retry-After, text, and its content in a list of one if it is JSON."""

    status: int
    retry_after: str | None
    text: str
    content: list[Any] | None


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


class Client:
    """An HTTP client that checks certificates and follows no redirects, on an event loop in a thread of its own.

    On an event loop one deadline ends a request wherever it stands: in the connection, the headers, the body, or in
    replies that only say that another will follow. Limits for each read alone never end a server that sends a byte now
    and then. All that a server says passes through `post`, which takes out the token.
    """

    def __init__(self, token_env: str | None, n_connections: int) -> None:
        try:
            import httpx
        except ImportError as error:
            raise ImportError("RemoteTeacher needs httpx: pip install 'sklearn-uhc[remote]'.") from error
        limits = httpx.Limits(max_connections=n_connections)
        self._http = httpx.AsyncClient(timeout=None, limits=limits)
        self._token_env = token_env
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Client:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        asyncio.run_coroutine_threadsafe(self._http.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def post(self, url: str, body: bytes, timeout: float) -> Reply:
        """Post JSON, and return the reply without the token."""
        import httpx

        token = _token(self._token_env)
        exchange = asyncio.wait_for(self._hang_up_after(url, body, token), timeout)
        try:
            status, retry_after, reply = asyncio.run_coroutine_threadsafe(exchange, self._loop).result()
        except asyncio.TimeoutError:
            raise FailedError(f"no reply within timeout={timeout:g} seconds", transient=True) from None
        except httpx.TransportError as error:
            problem = without_token(f"{type(error).__name__}: {error}", token)
            raise FailedError(problem, not _is_about_certificate(error)) from None
        text = reply.decode("utf-8", "replace")
        try:
            content = json.loads(text)
            if token and (token in text or "\\" in text):  # escapes could spell it too
                content = without_token(content, token)
                text = json.dumps(content, ensure_ascii=False)
        except (ValueError, RecursionError):
            return Reply(status, retry_after, without_token(text, token), None)
        return Reply(status, retry_after, text, [content])

    async def _hang_up_after(self, url: str, body: bytes, token: str) -> tuple[int, str | None, bytes]:
        """Post; at the deadline close a connection that is only half made, which httpx leaves open."""
        made = []

        async def watch(event: str, info: dict[str, Any]) -> None:
            if event == "connection.connect_tcp.complete":
                made.append(info["return_value"])

        try:
            return await self._exchange(url, body, token, {"trace": watch})
        except asyncio.CancelledError:
            for connection in made:
                await connection.aclose()
            raise

    async def _exchange(self, url: str, body: bytes, token: str, more: Any) -> tuple[int, str | None, bytes]:
        """Post and read the reply as it comes: compressed, a few bytes could become gigabytes."""
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        parts, size = [], 0
        async with self._http.stream("POST", url, content=body, headers=headers, extensions=more) as response:
            encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
            if encoding not in ("", "identity"):
                raise FailedError("the reply is compressed, which was not asked for", transient=False)
            async for part in response.aiter_raw():
                parts.append(part)
                size += len(part)
                if size > LONGEST_REPLY:
                    raise FailedError(f"the reply is longer than {LONGEST_REPLY} bytes", transient=False)
        return response.status_code, response.headers.get("Retry-After"), b"".join(parts)


def check_token(token_env: str | None) -> None:
    """Raise an error if the environment variable with the token is missing, empty or no token."""
    if token_env is None:
        return
    token = _token(token_env)
    if not token:
        raise ValueError(
            f"token_env={token_env!r}: there is no environment variable with this name, or it is empty. Set it to the "
            "token; do not pass the token itself."
        )
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise ValueError(f"token_env={token_env!r}: a token has only visible ASCII characters and no spaces inside.")


def send(client: Client, url: str, content: Any, patience: Patience, stop: Event) -> Any:
    """Post JSON and return the JSON of the reply, with up to `max_retries` retries."""
    body = json.dumps(content, allow_nan=False).encode()
    for attempt in range(patience.max_retries + 1):
        if stop.is_set():
            raise FailedError("it was no longer needed", transient=True)
        try:
            return _send_once(client, url, body, patience.timeout)
        except FailedError as error:
            if not error.transient:
                raise
            last, wait = error, patience.pause(attempt, error.retry_after)
        if wait > patience.max_wait:
            raise FailedError(
                f"{last}; the server asks to wait {wait:g} seconds, more than max_wait={patience.max_wait:g}",
                transient=True,
            )
        if attempt < patience.max_retries:
            stop.wait(wait)
    message = f"{last}, at the last of {patience.max_retries + 1} attempts" if patience.max_retries else str(last)
    raise FailedError(message, transient=True)


def _send_once(client: Client, url: str, body: bytes, timeout: float) -> Any:
    reply = client.post(url, body, timeout)
    if reply.status != 200:
        shown = reply.text[:300].strip()
        message = f"the server answered {reply.status}{': ' if shown else ''}{shown}"
        raise FailedError(message, reply.status in TRANSIENT, _seconds(reply.retry_after))
    if reply.content is None:
        raise FailedError(f"the reply is not JSON: {reply.text[:100]!r}", transient=False)
    return reply.content[0]


def without_token(content: Any, token: str) -> Any:
    """Return text, or the content of JSON, without the token in any of its strings."""
    if not token:
        return content
    if isinstance(content, str):
        return content.replace(token, "[token]")
    if isinstance(content, list):
        return [without_token(part, token) for part in content]
    if isinstance(content, dict):
        return {without_token(name, token): without_token(part, token) for name, part in content.items()}
    return content


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
    except (ValueError, TypeError, OverflowError):
        return None
    date = date if date.tzinfo else date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - datetime.now(timezone.utc)).total_seconds())


def _token(token_env: str | None) -> str:
    return os.environ.get(token_env or "", "").strip()
