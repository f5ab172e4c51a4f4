"""Digits as images, soft labels for them, and teachers of three kinds."""

import numpy as np
import pytest
import skorch
import torch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from torch import nn

from sklearn_uhc import TorchTeacher
from sklearn_uhc.students import skorch as nets
from tests.networks.helpers import Small, flattened

torch.set_num_threads(1)  # tests run in two processes: more threads than cores would slow them down


@pytest.fixture
def few_steps(monkeypatch):
    """Train bare modules for 20 epochs, however few steps that is, in tests of something else."""
    monkeypatch.setattr(nets, "LEAST_STEPS", 1)


@pytest.fixture(scope="module")
def images():
    X, y = load_digits(return_X_y=True)
    return (X / 16).reshape(-1, 1, 8, 8).astype(np.float32), y


@pytest.fixture(scope="module")
def flat(images):
    return images[0].reshape(len(images[0]), -1)


@pytest.fixture(scope="module")
def soft(images, flat):
    y = images[1]
    return LogisticRegression(C=0.1, max_iter=500).fit(flat[:400], y[:400]).predict_proba(flat)


@pytest.fixture(scope="module")
def module(images):
    """A small network that knows the digits 0 to 5."""
    X, y = images
    rows = np.flatnonzero(y[:600] < 6)
    trained = skorch.NeuralNetClassifier(
        Small(6), criterion=nn.CrossEntropyLoss, max_epochs=15, lr=0.1, train_split=None, verbose=0
    )
    torch.manual_seed(0)
    return trained.fit(X[rows], y[rows]).module_


@pytest.fixture(scope="module")
def teachers(images, module):
    X, y = images
    forest, logistic = (
        flattened(RandomForestClassifier(50, random_state=0)),
        flattened(LogisticRegression(max_iter=500)),
    )
    rows = [np.flatnonzero((y[:600] > 3) & (y[:600] < 9)), np.flatnonzero((y[:600] > 6) | (y[:600] < 2))]
    return [
        TorchTeacher(module, list(range(6)), device="cpu"),
        forest.fit(X[rows[0]], y[rows[0]]),
        logistic.fit(X[rows[1]], y[rows[1]]),
    ]
