"""From owners of five kinds of models to a process without any of their libraries: nothing is unpickled on the way."""

import os
import subprocess
import sys
import venv
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tests.deployment import deploy, pack_all

SCRIPT = Path(__file__).parent / "deployment.py"
#: Where fashion_mnist.npz lies, with X_train, y_train and so on as Zalando publishes them.
DATA = os.environ.get("UHC_DATA")

pytest.importorskip("torch")
pytest.importorskip("lightgbm")
pytest.importorskip("xgboost")


def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y, 8


def fashion():
    if not DATA or not (Path(DATA) / "fashion_mnist.npz").exists():
        pytest.skip("set UHC_DATA to a folder with fashion_mnist.npz")
    with np.load(Path(DATA) / "fashion_mnist.npz", allow_pickle=False) as data:
        X, y = (data[name] for name in data.files[:2])
    return X[:4000].reshape(4000, -1) / 255, y[:4000].astype(int), 28


def run(*command, **settings):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **settings)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def merge(folder, X, y, side):
    """Owners pack what they trained on the first half; a receiver merges on the second."""
    half = len(X) // 2
    pack_all(folder, X[:half], y[:half], side)
    np.savetxt(folder / "X.csv", X[half:], delimiter=",")
    np.savetxt(folder / "y.csv", y[half:])
    run(sys.executable, SCRIPT, "receive", folder, env=os.environ | {"PYTHONPATH": str(SCRIPT.parent.parent)})


def test_digits(tmp_path):
    merge(tmp_path, *digits())
    assert deploy(tmp_path) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("data", [digits, fashion], ids=lambda f: f.__name__)
def test_in_an_environment_with_numpy_and_onnxruntime_only(data, tmp_path):
    merge(tmp_path, *data())
    venv.create(tmp_path / "alone", with_pip=True)
    python = tmp_path / "alone" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "numpy", "onnxruntime")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    assert run(python, "-c", "import importlib.util as u; print(u.find_spec('sklearn'))", env=environment) == "None\n"
    shown = run(python, SCRIPT, "deploy", tmp_path, env=environment)
    print(data.__name__, shown)
    assert float(shown.split()[-1]) > (0.8 if data is digits else 0.6)
