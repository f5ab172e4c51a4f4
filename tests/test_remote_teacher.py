"""Models behind a URL, on a local test server with configurable faults."""

import json
import pickle
import shutil
import ssl
import subprocess
import threading
import time
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from scipy.sparse import csr_matrix
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.utils import get_tags

from sklearn_uhc import HeterogeneousDistiller, RemoteTeacher, TeacherMerger, TeacherOutputs
from sklearn_uhc.teachers.fingerprint import fingerprint
from sklearn_uhc.teachers.remote_client import Patience, _seconds

CLASSES = ["cat", "dog", "cow"]
W = np.random.default_rng(0).normal(size=(4, 3))
X = np.random.default_rng(1).normal(size=(50, 4))
EXPECTED = softmax(X @ W, axis=1)
QUICK = {"backoff": 0.001, "max_wait": 5.0, "timeout": 5.0, "batch_size": 10}


def answer_v2(request):
    tensors = request["inputs"]
    data = np.column_stack([np.reshape(t["data"], t["shape"]) for t in tensors])
    proba = softmax(data @ W, axis=1)
    return {"outputs": [{"name": "p", "shape": list(proba.shape), "datatype": "FP64", "data": proba.ravel().tolist()}]}


class Faulty(ThreadingHTTPServer):
    """Answers requests; `fault(number of the request, handler)` may answer instead and return True."""

    def __init__(self, answer=answer_v2, fault=lambda number, handler: False):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.fault = answer, fault
        self.requests, self.headers, self.paths, self.lock = [], [], [], threading.Lock()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_port}/v2/models/animals"

    def handle_error(self, request, client_address):
        pass


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        content = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            number = len(self.server.requests)
            self.server.requests.append(content)
            self.server.headers.append(dict(self.headers))
            self.server.paths.append(self.path)
        if not self.server.fault(number, self):
            self.reply(200, self.server.answer(content))

    def reply(self, status, content, **headers):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)
        return True

    def log_message(self, *args):
        pass


@contextmanager
def serving(*args, **kwargs):
    with Faulty(*args, **kwargs) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def first(count, status, **headers):
    """Answer the first requests with an error status."""
    return lambda number, handler: number < count and handler.reply(status, {"error": "tired"}, **headers)


@pytest.mark.parametrize("n_requests", [1, 4])
@pytest.mark.parametrize("given", [X, X.tolist(), csr_matrix(X), X.astype(np.float32)], ids=lambda g: type(g).__name__)
def test_open_inference_protocol(given, n_requests):
    with serving() as server:
        teacher = RemoteTeacher(server.url, CLASSES, n_requests=n_requests, input_name="rows", **QUICK)
        assert_allclose(teacher.predict_proba(given), EXPECTED, atol=1e-5)
        assert (teacher.predict(given) == np.array(CLASSES)[EXPECTED.argmax(axis=1)]).all()
    assert server.paths == ["/v2/models/animals/infer"] * 10
    (tensor,) = server.requests[0]["inputs"]
    assert (tensor["name"], tensor["shape"]) == ("rows", [10, 4])
    assert tensor["datatype"] == ("FP32" if getattr(given, "dtype", None) == np.float32 else "FP64")


def test_requests_go_out_at_the_same_time():
    """The server answers only when it has three requests at once."""
    gate = threading.Barrier(3)
    with serving(fault=lambda number, handler: gate.wait(20) < 0) as server:
        teacher = RemoteTeacher(server.url, CLASSES, n_requests=3, **QUICK | {"timeout": 30})
        assert_allclose(teacher.predict_proba(X[:30]), EXPECTED[:30])


def test_frames_are_sent_by_column():
    frame = pd.DataFrame(X, columns=list("abcd"))
    with serving() as server:
        assert_allclose(
            RemoteTeacher(server.url, CLASSES, dtype="float32", **QUICK).predict_proba(frame), EXPECTED, atol=1e-5
        )
    request = server.requests[0]
    assert [(t["name"], t["shape"], t["datatype"]) for t in request["inputs"]] == [(c, [10, 1], "FP32") for c in "abcd"]
    assert request["parameters"] == {"content_type": "pd"}
    with serving(answer=lambda request: {"outputs": [{"name": "p", "shape": [2], "data": [0.5, 0.25]}]}) as server:
        texts = pd.DataFrame({"text": ["so", "what"], "size": [1, 2]})
        assert_allclose(RemoteTeacher(server.url, ["no", "yes"]).predict_proba(texts), [[0.5, 0.5], [0.75, 0.25]])
    text, size = server.requests[0]["inputs"]
    assert (text["datatype"], text["data"], text["parameters"]) == ("BYTES", ["so", "what"], {"content_type": "str"})
    assert size["datatype"] == "INT64"


def test_mlflow():
    def answer(request):
        rows = request["inputs"] if "inputs" in request else request["dataframe_split"]["data"]
        return {"predictions": softmax(np.array(rows) @ W, axis=1).tolist()}

    frame = pd.DataFrame(X, columns=list("abcd"))
    with serving(answer) as server:
        url = f"http://127.0.0.1:{server.server_port}"
        for given in (X, frame):
            for end in ("", "/", "/invocations"):
                teacher = RemoteTeacher(url + end, CLASSES, protocol="mlflow", **QUICK)
                assert_allclose(teacher.predict_proba(given), EXPECTED)
    assert set(server.paths) == {"/invocations"}
    assert server.requests[-1]["dataframe_split"]["columns"] == list("abcd")


def test_mlflow_answers_by_class():
    rows = [{"dog": 0.2, "cat": 0.7, "cow": 0.1}, {"cow": 0.5, "cat": 0.25, "dog": 0.25}]
    with serving(lambda request: {"predictions": rows}) as server:
        teacher = RemoteTeacher(server.url, CLASSES, protocol="mlflow")
        assert_allclose(teacher.predict_proba(X[:2]), [[0.7, 0.2, 0.1], [0.25, 0.25, 0.5]])
        with pytest.raises(ValueError, match=r"answers are named \['dog', 'cat', 'cow'\], and \['bird'\] are"):
            RemoteTeacher(server.url, ["cat", "dog", "bird"], protocol="mlflow").predict(X[:2])


def of_my_own(rows, send):
    rows[:] *= 1  # it may write to them
    return send({"instances": rows.tolist()})["scores"]


def test_a_function_of_ones_own():
    with serving(lambda request: {"scores": (np.array(request["instances"]) @ W).tolist()}, first(2, 500)) as server:
        teacher = RemoteTeacher(server.url, CLASSES, protocol=of_my_own, output_kind="logits", **QUICK)
        assert_allclose(teacher.predict_log_proba(X), log_softmax(X @ W, axis=1))
    assert set(server.paths) == {"/v2/models/animals"}
    assert len(server.requests) == 7
    assert fingerprint(teacher) != fingerprint(clone(teacher).set_params(protocol="v2"))


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
def test_what_may_pass_is_asked_again(status):
    with serving(fault=first(3, status)) as server:
        assert_allclose(RemoteTeacher(server.url, CLASSES, **QUICK).predict_proba(X), EXPECTED)
    assert len(server.requests) == 8


def cut(handler, *_):
    """Announce more bytes than are sent, and hang up."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"outputs": [')
    handler.close_connection = True
    handler.connection.close()
    return True


def hang_up(handler):
    handler.close_connection = True
    handler.connection.close()
    return True


@pytest.mark.parametrize("fault", [cut, hang_up])
def test_a_cut_connection_is_asked_again(fault):
    with serving(fault=lambda number, handler: number in (0, 3) and fault(handler)) as server:
        assert_allclose(RemoteTeacher(server.url, CLASSES, **QUICK).predict_proba(X), EXPECTED)
    assert len(server.requests) == 7


def test_a_slow_server_is_given_up_and_asked_again():
    done = threading.Event()
    with serving(fault=lambda number, handler: number == 0 and (done.wait(20) or True)) as server:
        teacher = RemoteTeacher(server.url, CLASSES, **QUICK | {"timeout": 0.3})
        assert_allclose(teacher.predict_proba(X), EXPECTED)
        done.set()
    assert len(server.requests) == 6


def test_a_reply_that_does_not_end_is_given_up():
    done = threading.Event()

    def drip(number, handler):
        handler.send_response(200)
        handler.end_headers()
        for _ in range(2000):
            handler.wfile.write(b" ")
            handler.wfile.flush()
            if done.wait(0.01):
                break
        return True

    with serving(fault=drip) as server:
        teacher = RemoteTeacher(server.url, CLASSES, **QUICK | {"timeout": 0.2, "max_retries": 1})
        with pytest.raises(RuntimeError, match=r"timeout=0.2 .*of 2 attempts"):
            teacher.predict(X[:5])
        done.set()


def test_the_server_says_how_long_to_wait():
    assert _seconds(None) is None
    assert _seconds("soon") is None
    assert _seconds("7") == 7
    assert _seconds("-7") == 0
    date = datetime.now(timezone.utc) + timedelta(seconds=100)
    assert 90 < _seconds(format_datetime(date)) < 101
    assert _seconds("Wed, 21 Oct 2015 07:28:00 GMT") == 0
    patience = Patience(1, 5, backoff=1, max_wait=3)
    assert patience.pause(0, 2.5) == 2.5
    assert 0.5 <= patience.pause(0, None) <= 1
    assert 1.5 <= patience.pause(9, None) <= 3
    with serving(fault=first(1, 429, Retry_After="0")) as server:  # at once, where the pause would be an hour
        teacher = RemoteTeacher(server.url, CLASSES, **QUICK | {"backoff": 3600, "max_wait": 3600})
        assert_allclose(teacher.predict_proba(X), EXPECTED)
    refused = pytest.raises(RuntimeError, match=r"429.* asks to wait 3600 seconds, more than max_wait=5")
    with serving(fault=first(9, 429, Retry_After="3600")) as server, refused:
        RemoteTeacher(server.url, CLASSES, n_requests=1, **QUICK).predict(X)
    assert len(server.requests) <= 2


def only(numbers, status):
    """Reject the batches that begin with these rows."""
    starts = [X[number, 0] for number in numbers]
    return lambda _, h: h.server.requests[-1]["inputs"][0]["data"][0] in starts and h.reply(status, b"down")


def test_a_batch_that_keeps_failing():
    with serving(fault=only([20], 503)) as server:
        teacher = RemoteTeacher(server.url, CLASSES, max_retries=2, n_requests=1, **QUICK)
        with pytest.raises(RuntimeError, match=r"rows 20 to 29 failed: .*503: down, .*of 3"):
            teacher.predict(X)
        teacher.set_params(abstain=True)
        with pytest.warns(
            UserWarning, match=r"did not answer for 10 of 50 rows, first for row 20: 1 failed requests\. The"
        ):
            proba = teacher.predict_proba(X)
        silent = np.isnan(proba).all(axis=1)
        assert np.flatnonzero(silent).tolist() == list(range(20, 30))
        assert_allclose(proba[~silent], EXPECTED[~silent])
        with (
            pytest.warns(UserWarning, match="did not answer for"),
            pytest.raises(ValueError, match=r"10 of 50 rows, .*row 20"),
        ):
            teacher.predict(X)
        with pytest.warns(UserWarning, match="did not answer"):
            log_p = TeacherOutputs([teacher], abstain=True).fit_transform(X)
        assert (np.isnan(log_p).all(axis=1) == silent).all()


def test_a_server_that_is_down_is_not_asked_for_ever():
    with serving(fault=first(10**6, 500)) as server:
        teacher = RemoteTeacher(
            server.url, CLASSES, abstain=True, max_retries=0, n_requests=1, **QUICK | {"batch_size": 1}
        )
        with pytest.warns(UserWarning, match="50 of 50 rows, first for row 0: 8 failed requests, 8 in a row, so the"):
            assert np.isnan(teacher.predict_proba(X)).all()
        assert len(server.requests) <= 10
    with pytest.raises(RuntimeError, match=r"ConnectError.*at the last of 2 attempts"):
        RemoteTeacher("http://127.0.0.1:9", CLASSES, **QUICK, max_retries=1).predict(X)


@pytest.mark.parametrize("abstain", [False, True])
@pytest.mark.parametrize("status", [301, 307, 400, 401, 403, 404, 422])
def test_what_does_not_pass_is_an_error_at_once(status, abstain):
    with serving(fault=first(10**6, status, Location="http://127.0.0.1:9/")) as server:
        teacher = RemoteTeacher(server.url, CLASSES, abstain=abstain, n_requests=1, **QUICK)
        with pytest.raises(RuntimeError, match=rf"rows 0 to 9 failed: .*{status}: .*tired"):
            teacher.predict(X)
    assert len(server.requests) <= 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"outputs": [{"name": "p", "shape": [9, 3], "data": [1 / 3] * 27}]}, r"shape \(9, 3\) for 10 rows and 3"),
        ({"outputs": [{"name": "p", "shape": [10, 2], "data": [0.5] * 20}]}, r"shape \(10, 2\) for 10 rows and 3"),
        ({"outputs": [{"name": "p", "shape": [10, 3], "data": [0.5] * 20}]}, "'p' of the reply has no data that"),
        ({"outputs": [{"name": "p", "shape": [10, 3], "data": [2.0] * 30}]}, r"row 0 sums to 6.*output_kind="),
        ({"outputs": [{"name": "p", "shape": [10, 3], "data": ["a"] * 30}]}, "values of type <U1 instead of numbers"),
        ({"outputs": [{"name": "p", "shape": [10], "data": [1] * 10}]}, "returns labels, such as .*predict_proba"),
        ({"outputs": [{"name": "a"}, {"name": "b"}]}, r"the reply has the outputs \['a', 'b'\]: pass"),
        ({"outputs": 3}, 'no list of "outputs"'),
        ([1, 2], 'no list of "outputs"'),
    ],
)  # fmt: skip
def test_answers_of_the_wrong_shape(answer, message):
    with serving(lambda request: answer) as server, pytest.raises(ValueError, match=message) as caught:
        RemoteTeacher(server.url, CLASSES, abstain=True, **QUICK).predict(X)
    assert any("rows 0 to 9" in note for note in getattr(caught.value, "__notes__", ["rows 0 to 9"]))


def test_a_reply_that_is_not_json():
    refused = pytest.raises(RuntimeError, match="rows 0 to 9 failed: the reply is not JSON: '<html>'")
    with serving(fault=lambda number, handler: handler.reply(200, b"<html>")) as server, refused:
        RemoteTeacher(server.url, CLASSES, **QUICK).predict(X)


def test_an_output_by_its_name():
    def answer(request):
        right = answer_v2(request)["outputs"][0]
        return {"outputs": [right | {"name": "predict", "data": [0.0] * 30}, right | {"name": "predict_proba"}]}

    with serving(answer) as server:
        assert_allclose(RemoteTeacher(server.url, CLASSES, output="predict_proba", **QUICK).predict_proba(X), EXPECTED)
    assert server.requests[0]["outputs"] == [{"name": "predict_proba"}]


def test_the_token_is_sent_and_shown_nowhere(monkeypatch, caplog):
    caplog.set_level("DEBUG")
    monkeypatch.setenv("ANIMALS_TOKEN", "s3cret-s3cret")

    def echo(number, handler):
        return number >= 5 and handler.reply(403, {"got": handler.headers["Authorization"]})

    with serving(fault=echo) as server:
        teacher = RemoteTeacher(server.url, CLASSES, token_env="ANIMALS_TOKEN", **QUICK)
        assert_allclose(teacher.predict_proba(X), EXPECTED)
        with pytest.raises(RuntimeError, match=r"403.*Bearer \[token\]") as caught:
            teacher.predict(X)
    assert {headers["Authorization"] for headers in server.headers} == {"Bearer s3cret-s3cret"}
    shown = [
        repr(teacher),
        str(vars(teacher)),
        str(pickle.dumps(teacher)),
        str(teacher._decides_answers()),
        caplog.text,
    ]
    assert not any("s3cret" in text for text in [*shown, repr(caught.value), str(caught.value.__cause__)])
    without = RemoteTeacher(server.url, CLASSES, **QUICK)
    assert fingerprint(teacher) == fingerprint(without), "who asks does not change the answer"
    monkeypatch.delenv("ANIMALS_TOKEN")
    with pytest.raises(ValueError, match="'ANIMALS_TOKEN': there is no"):
        teacher.predict(X)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make a certificate with")
def test_certificates_are_checked(tmp_path, monkeypatch):
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-out", str(certificate), "-keyout", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with serving() as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        teacher = RemoteTeacher(server.url.replace("http:", "https:"), CLASSES, abstain=True, **QUICK)
        with pytest.raises(RuntimeError, match=r"rows 0 to 9 failed: ConnectError: .*CERTIFICATE_VERIFY_FAILED"):
            teacher.predict(X)
        assert server.requests == []
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert_allclose(teacher.predict_proba(X), EXPECTED)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"url": "ftp://host"}, "url must start with http or https"),
        ({"url": "models"}, "url must start with http or https"),
        ({"url": "https://me:secret@host/"}, "url contains a user name or password"),
        ({"url": "http://host/", "token_env": "TOKEN"}, "would be sent unencrypted to host: use https"),
        ({"protocol": "v3"}, 'protocol must be "v2", "mlflow" or a function'),
        ({"output_kind": "percent"}, "output_kind must be one of 'proba', 'log_proba', 'logits'"),
        ({"batch_size": 0}, "batch_size must be a positive integer"),
        ({"n_requests": 1.5}, "n_requests must be a positive integer"),
        ({"timeout": 0}, "timeout must be a positive number"),
        ({"max_retries": -1}, "max_retries must be an integer of 0 or more"),
        ({"abstain": "yes"}, "abstain must be True or False"),
    ],
)
def test_parameters_are_checked_before_anything_is_sent(change, message):
    teacher = RemoteTeacher("https://host/v2/models/m", CLASSES).set_params(**change)
    for ask in (teacher.predict, TeacherOutputs([teacher]).fit):
        with pytest.raises(ValueError, match=message) as caught:
            ask(X)
        assert "secret" not in str(caught.value)


def test_missing_values_cannot_be_sent():
    refused = pytest.raises(ValueError, match=r"X has NaN .*JSON")
    with serving() as server, refused:
        RemoteTeacher(server.url, CLASSES, **QUICK).predict(np.full((3, 4), np.nan))
    assert server.requests == []


def test_with_a_store_nothing_is_asked_twice(tmp_path):
    with serving() as server:
        teacher = RemoteTeacher(server.url, CLASSES, version="1", **QUICK)
        first_time = TeacherOutputs([teacher], store=tmp_path).fit_transform(X)
        assert len(server.requests) == 5
        again = pickle.loads(pickle.dumps(clone(teacher))).set_params(batch_size=7, timeout=9, abstain=True)
        assert_allclose(TeacherOutputs([again], store=tmp_path).fit_transform(X), first_time)
        clf = HeterogeneousDistiller(TeacherMerger([again], store=tmp_path), LogisticRegression()).fit(X)
        assert len(server.requests) == 5
        assert clf.predict(X).shape == (50,)
        TeacherOutputs([again.set_params(version="2")], store=tmp_path).fit(X)
        assert len(server.requests) > 5


def test_an_error_does_not_wait_for_the_others():
    """The first batch is rejected while the second would wait an hour: the error is immediate."""

    def fault(number, handler):
        time.sleep(0.05)
        start = handler.server.requests[number]["inputs"][0]["data"][0]
        return handler.reply(404, b"no") if start == X[0, 0] else handler.reply(503, b"later", Retry_After="3600")

    with serving(fault=fault) as server:
        teacher = RemoteTeacher(server.url, CLASSES, **QUICK | {"max_wait": 1e4})
        with pytest.raises(RuntimeError, match=r"rows 0 to 9 failed: .*404"):
            teacher.predict(X)


def test_tags_say_that_anything_goes():
    tags = get_tags(RemoteTeacher("https://host", CLASSES)).input_tags
    assert tags.sparse
    assert tags.string
