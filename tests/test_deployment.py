"""From owners of five kinds of models to a process without any of their libraries: nothing is unpickled on the way."""

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tests.deployment import deploy, deploy_alone, merge

#: Path of fashion_mnist.npz, with X_train, y_train and so on as published by Zalando.
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


def test_digits(tmp_path):
    merge(tmp_path, *digits())
    assert deploy(tmp_path) > 0.8


@pytest.mark.slow
@pytest.mark.parametrize("data", [digits, fashion], ids=lambda f: f.__name__)
def test_in_an_environment_with_numpy_and_onnxruntime_only(data, tmp_path):
    merge(tmp_path, *data())
    shown = deploy_alone(tmp_path)
    print(data.__name__, shown)
    assert float(shown.split()[-1]) > (0.8 if data is digits else 0.6)
