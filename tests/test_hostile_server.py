"""What a hostile server can do to a RemoteTeacher: it cannot take memory or time without limits, or show the token."""

import gzip
import json
import socket
import threading
import traceback
from contextlib import contextmanager

import numpy as np
import pytest

from sklearn_uhc import RemoteTeacher
from tests.test_remote_teacher import CLASSES, EXPECTED, QUICK, X, answer_v2

OK = b"HTTP/1.1 200 OK\r\n"
TOKEN = "s3cret-s3cret-s3cret"
ONCE = QUICK | {"max_retries": 0, "n_requests": 1}
#: Pieces of a reply that is complete in the end, so that a teacher without a deadline would get its answer.
PIECES, PAUSE = 100, 0.1


@contextmanager
def hostile(parts):
    """Serve connections, one after the other: `parts(request, pause)` yields the bytes of the reply."""
    done = threading.Event()

    def serve():
        while not done.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                try:
                    for part in parts(read_request(connection), done.wait):
                        connection.sendall(part)
                except OSError:  # the teacher has hung up
                    continue

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            done.set()
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def read_request(connection):
    """Read one request and return its header and its JSON."""
    content = b""
    while b"\r\n\r\n" not in content:
        content += connection.recv(2**16) or b"\r\n\r\n"
    header, _, body = content.partition(b"\r\n\r\n")
    size = [int(line.split(b":")[1]) for line in header.split(b"\r\n") if line.lower().startswith(b"content-length")]
    while size and len(body) < size[0]:
        body += connection.recv(2**16)
    return header, json.loads(body or b"null")


def whole(request, headers=b"", content=None):
    body = json.dumps(answer_v2(request[1])).encode() if content is None else content
    return headers + b"Content-Length: %d\r\n\r\n" % len(body) + body


def dripping(parts, ended):
    """Yield something every moment, then let the reply end, which is noted."""

    def drip(request, pause):
        before, piece, after = parts(request)
        yield before
        for _ in range(PIECES):
            if pause(PAUSE):
                return
            yield piece
        ended.append(True)
        yield after

    return drip


ENDLESS = {
    "the status": lambda request: (b"", b"", OK + whole(request)),
    "a header": lambda request: (OK + b"X-Name: ", b"a", b"\r\n" + whole(request)),
    "many headers": lambda request: (OK, b"X-Name: a\r\n", whole(request)),
    "interim replies": lambda request: (b"", b"HTTP/1.1 102 Processing\r\n\r\n", OK + whole(request)),
    "the body": lambda request: (OK, b"", whole(request)),
    "spaces": lambda request: (OK + b"Connection: close\r\n\r\n", b" ", json.dumps(answer_v2(request[1])).encode()),
    "a chunk extension": lambda request: (OK + b"Transfer-Encoding: chunked\r\n\r\n2;", b"a", b"\r\n{}\r\n0\r\n\r\n"),
    "chunks": lambda request: (OK + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n", b"2\r\n{}\r\n0\r\n\r\n"),
    "trailers": lambda request: (OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n", b"A: b\r\n", b"\r\n"),
}


@pytest.mark.parametrize("part", ENDLESS)
def test_one_deadline_ends_a_request_wherever_it_stands(part):
    ended = []
    with hostile(dripping(ENDLESS[part], ended)) as url:
        teacher = RemoteTeacher(url, CLASSES, **ONCE | {"timeout": 0.3})
        with pytest.raises(RuntimeError, match=r"rows 0 to 9 failed: no reply within timeout=0.3 seconds"):
            teacher.predict_proba(X)
    assert not ended, "the teacher kept reading to the end"


def test_a_handshake_that_does_not_end_is_given_up():
    with socket.create_server(("127.0.0.1", 0)) as listener:  # connections are made, and nothing is said
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(RuntimeError, match=r"no reply within timeout=0.3 seconds"):
            RemoteTeacher(url, CLASSES, **ONCE | {"timeout": 0.3}).predict_proba(X)


@pytest.mark.parametrize("encoding", [b"gzip", b"gzip, gzip", b"deflate", b"br", b"zstd", b"identity, gzip"])
def test_compressed_replies_are_refused_before_they_grow(encoding):
    seen = []

    def bomb(request, pause):
        seen.append(request[0].lower())
        content = gzip.compress(gzip.compress(bytes(2**26)))
        yield OK + whole(request, b"Content-Encoding: " + encoding + b"\r\n", content)

    with hostile(bomb) as url, pytest.raises(RuntimeError, match="the reply is compressed, which was not asked for"):
        RemoteTeacher(url, CLASSES, **ONCE).predict_proba(X)
    assert b"accept-encoding: identity" in seen[0]


def test_a_reply_that_says_it_is_not_compressed_is_read():
    def plain(request, pause):
        yield OK + whole(request, b"Content-Encoding: identity\r\nConnection: close\r\n")

    with hostile(plain) as url:
        np.testing.assert_allclose(RemoteTeacher(url, CLASSES, **ONCE).predict_proba(X), EXPECTED)


def replying(status, content, headers=b""):
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    return lambda request, pause: [b"HTTP/1.1 %d Status\r\n" % status + whole(request, headers, body)]


OUTPUT = {"name": TOKEN, "shape": [10, 3], "data": [1 / 3] * 30}
ESCAPED = "".join(f"\\u{ord(letter):04x}" for letter in TOKEN).encode()
ECHOES = {
    "an error": replying(400, {"got": TOKEN}),
    "an error that is cut in the token": replying(400, b"x" * 290 + TOKEN.encode()),
    "a time to wait": replying(503, TOKEN.encode(), b"Retry-After: 3600\r\n"),
    "JSON of another kind": replying(200, {"got": TOKEN}),
    "JSON that is cut in the token": replying(200, {"got": "x" * 180 + TOKEN}),
    "escaped JSON": replying(200, b'{"got": "' + ESCAPED + b'"}'),
    "an escaped error": replying(400, b'{"got": "' + ESCAPED + b'"}'),
    "no JSON": replying(200, TOKEN.encode()),
    "an output's name": replying(200, {"outputs": [OUTPUT | {"data": [1]}]}),
    "the names of outputs": replying(200, {"outputs": [OUTPUT, OUTPUT | {"name": "b"}]}),
    "a label": replying(200, {"outputs": [OUTPUT | {"shape": [10], "data": [TOKEN] * 10}]}),
    "a shape": replying(200, {"outputs": [OUTPUT | {"shape": [TOKEN]}]}),
    "a value": replying(200, {"outputs": [OUTPUT | {"data": [{TOKEN: 1}] * 30}]}),
    "a broken header": lambda request, pause: [OK + TOKEN.encode() + b"\r\n\r\n"],
    "a broken status": lambda request, pause: [b"HTTP/1.1 " + TOKEN.encode() + b"\r\n\r\n"],
}


@pytest.mark.parametrize("echo", ECHOES)
def test_the_token_is_in_no_message(echo, monkeypatch):
    monkeypatch.setenv("ANIMALS_TOKEN", TOKEN)
    with hostile(ECHOES[echo]) as url, pytest.raises((RuntimeError, ValueError)) as caught:
        RemoteTeacher(url, CLASSES, token_env="ANIMALS_TOKEN", **ONCE).predict_proba(X)
    shown = "".join(traceback.format_exception(caught.value)) + repr(caught.value.args)
    assert TOKEN not in shown
    assert TOKEN[:8] not in shown, "not even a part of it"
    assert "\\u0073\\u0033" not in shown


def test_the_token_is_in_no_warning(monkeypatch):
    monkeypatch.setenv("ANIMALS_TOKEN", TOKEN)
    with hostile(replying(503, TOKEN.encode())) as url, pytest.warns(UserWarning, match=r"503: \[token\]"):
        RemoteTeacher(url, CLASSES, token_env="ANIMALS_TOKEN", abstain=True, **ONCE).predict_proba(X)


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "schlüssel"])
def test_what_cannot_be_a_token_is_refused_without_showing_it(token, monkeypatch):
    monkeypatch.setenv("ANIMALS_TOKEN", token)
    with pytest.raises(ValueError, match="'ANIMALS_TOKEN': a token has only visible ASCII characters") as caught:
        RemoteTeacher("https://host", CLASSES, token_env="ANIMALS_TOKEN").predict_proba(X)
    assert token not in str(caught.value)


NESTED = b"[" * 100_000 + b"]" * 100_000
STRANGE = {
    "nested without end": NESTED,
    "nested data": b'{"outputs": [{"name": "p", "shape": [10, 3], "data": ' + b"[" * 500 + b"]" * 500 + b"}]}",
    "a huge shape": json.dumps({"outputs": [{"name": "p", "shape": [10**30, 3], "data": [1]}]}).encode(),
    "a shape of text": json.dumps({"outputs": [{"name": "p", "shape": "ten", "data": [1]}]}).encode(),
    "numbers of other rows": json.dumps({"outputs": [{"name": "p", "shape": [2**40, 0], "data": []}]}).encode(),
    "dicts": json.dumps({"outputs": [{"name": "p", "shape": [10, 3], "data": [{}] * 30}]}).encode(),
    "no numbers": b'{"outputs": [{"name": "p", "shape": [10, 3], "data": [' + b"null," * 29 + b"null]}]}",
    "infinities": b'{"outputs": [{"name": "p", "shape": [10, 3], "data": [' + b"1e999," * 29 + b"NaN]}]}",
    "long numbers": b"1" * 10_000,
}


@pytest.mark.parametrize("reply", STRANGE)
def test_strange_json_is_an_error_that_names_the_rows_or_the_server(reply):
    with hostile(replying(200, STRANGE[reply])) as url:
        with pytest.raises((RuntimeError, ValueError), match=r"reply|server at http") as caught:
            RemoteTeacher(url, CLASSES, abstain=True, **ONCE).predict_proba(X)
        assert "rows 0 to 9" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize("row", [None, 3, [0.2, 0.3, 0.5], {"cat": 0.2}, {"cat": "a", "dog": 1, "cow": 0}])
def test_mixed_rows_of_mlflow_are_an_error(row):
    rows = [dict.fromkeys(CLASSES, 1 / 3)] * 9 + [row]
    with (
        hostile(replying(200, {"predictions": rows})) as url,
        pytest.raises(ValueError, match=r"answers are named by class, others|server at http"),
    ):
        RemoteTeacher(url, CLASSES, protocol="mlflow", **ONCE).predict_proba(X)


@pytest.mark.parametrize("wait", ["nan", "inf", "1e300", "-1e300", "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"])
def test_strange_times_to_wait_are_an_error_or_no_wait(wait):
    with (
        hostile(replying(503, b"later", b"Retry-After: " + wait.encode() + b"\r\n")) as url,
        pytest.raises(RuntimeError, match="the server answered 503: later"),
    ):
        RemoteTeacher(url, CLASSES, **ONCE | {"max_retries": 1}).predict_proba(X)
