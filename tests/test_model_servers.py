"""RemoteTeacher with real servers: MLServer and MLflow.

They are too large for the development environment (0.5 GB each). So they must be on the path, `mlserver` (with
`mlserver-sklearn`) and `mlflow`, or where the variables MLSERVER and MLFLOW point to, in environments of their own.
"""

import json
import os
import shutil
import socket
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression

from sklearn_uhc import RemoteTeacher, TeacherOutputs

#: Time limit for the start of a server, in seconds.
PATIENCE = 120
COLUMNS = ["sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)"]
TRAIN = """
import sys
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
iris = load_iris(as_frame=len(sys.argv) > 2)
clf = LogisticRegression(max_iter=1000).fit(iris.data, iris.target)
"""
SAVE = {
    "mlserver": "import joblib; joblib.dump(clf, sys.argv[1])",
    "mlflow": "import mlflow.sklearn; mlflow.sklearn.save_model(clf, sys.argv[1], pyfunc_predict_fn='predict_proba')",
}


def find(name):
    command = os.environ.get(name.upper()) or shutil.which(name)
    if command is None:
        pytest.skip(f"{name} is not installed: set {name.upper()} to the command in an environment of its own")
    return Path(command)


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def train(command, path, *frame):
    """Train and save a model in the server's own environment, with its own version of scikit-learn."""
    python = command.parent / "python"
    code = TRAIN + SAVE[command.name]
    subprocess.run([python, "-W", "ignore", "-c", code, path, *frame], check=True, cwd=path.parent, capture_output=True)


@contextmanager
def running(arguments, ready, folder):
    """Run a server until its URL answers; stop it and its workers at the end."""
    path = f"{Path(arguments[0]).parent}{os.pathsep}{os.environ['PATH']}"
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"PATH": path}
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen(arguments, stdout=log, stderr=log, cwd=folder, env=env, start_new_session=True)
        try:
            wait_for(ready, process, folder / "log")
            yield
        finally:
            os.killpg(process.pid, 15)
            process.wait(30)


def wait_for(url, process, log):
    for _ in range(4 * PATIENCE):
        if process.poll() is not None:
            break
        try:
            with urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.25)
    pytest.fail(f"the server did not start: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def expected():
    iris = load_iris()
    return iris.data, LogisticRegression(max_iter=1000).fit(iris.data, iris.target).predict_proba(iris.data)


@pytest.mark.parametrize("frame", [False, True])
def test_mlserver(tmp_path, expected, frame):
    command, (http, grpc, metrics) = find("mlserver"), free_ports(3)
    train(command, tmp_path / "model.joblib", *(["frame"] if frame else []))
    settings = {
        "host": "127.0.0.1",
        "http_port": http,
        "grpc_port": grpc,
        "metrics_port": metrics,
        "parallel_workers": 0,
    }
    model = {"name": "iris", "implementation": "mlserver_sklearn.SKLearnModel", "parameters": {"uri": "model.joblib"}}
    (tmp_path / "settings.json").write_text(json.dumps(settings))
    (tmp_path / "model-settings.json").write_text(json.dumps(model))
    X, proba = expected
    given = pd.DataFrame(X, columns=COLUMNS) if frame else X
    url = f"http://127.0.0.1:{http}/v2/models/iris"
    with running([command, "start", tmp_path], f"{url}/ready", tmp_path):
        teacher = RemoteTeacher(url, [0, 1, 2], output="predict_proba", batch_size=40)
        assert_allclose(teacher.predict_proba(given), proba, atol=1e-3)
        assert TeacherOutputs([teacher]).fit_transform(given).shape == (150, 3)
        with pytest.raises(ValueError, match=r"returns labels, such as .* output=\"predict_proba\""):
            RemoteTeacher(url, [0, 1, 2]).predict(given)
        with pytest.raises(RuntimeError, match=r"rows 0 to 149 failed: .*404"):
            RemoteTeacher(f"{url}s", [0, 1, 2]).predict(given)
        with pytest.raises(ValueError, match=r"gave an output of shape \(150, 3\) for 150 rows and 2 classes"):
            RemoteTeacher(url, [0, 1], output="predict_proba").predict(given)


@pytest.mark.parametrize("frame", [False, True])
def test_mlflow(tmp_path, expected, frame):
    command, (port,) = find("mlflow"), free_ports(1)
    train(command, tmp_path / "model", *(["frame"] if frame else []))
    X, proba = expected
    given = pd.DataFrame(X, columns=COLUMNS) if frame else X
    url = f"http://127.0.0.1:{port}"
    arguments = [command, "models", "serve", "-m", tmp_path / "model", "-p", str(port), "--env-manager", "local"]
    with running(arguments, f"{url}/ping", tmp_path):
        teacher = RemoteTeacher(url, [0, 1, 2], protocol="mlflow", batch_size=40)
        assert np.argmax(teacher.predict_proba(given), axis=1).tolist() == proba.argmax(axis=1).tolist()
        assert_allclose(teacher.predict_proba(given), proba, atol=1e-3)
        assert TeacherOutputs([teacher]).fit_transform(given).shape == (150, 3)
