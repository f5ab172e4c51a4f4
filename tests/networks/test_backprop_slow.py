"""Direct backpropagation against estimation, on digits as images, over seeds."""

import numpy as np
import pytest
import skorch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from torch import nn

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TorchTeacher
from tests.networks.helpers import Small, flattened, net

SEEDS = range(6)


def make_teachers(X, y, seed):
    """Three networks, a forest and a logistic regression, each of five or six of the digits, on 120 images each."""
    order = np.random.default_rng(seed).permutation(10)
    lists = [np.sort(np.take(order, np.arange(start, start + 6), mode="wrap")) for start in (0, 2, 4, 6, 8)]
    teachers = []
    for i, known in enumerate(lists):
        rows = np.flatnonzero(np.isin(y, known) & (np.arange(len(y)) % len(lists) == i))
        if i < 3:
            trained = skorch.NeuralNetClassifier(
                Small,
                module__n_out=6,
                criterion=nn.CrossEntropyLoss,
                max_epochs=20,
                lr=0.1,
                train_split=None,
                verbose=0,
            ).fit(X[rows], np.searchsorted(known, y[rows]))
            teachers.append(TorchTeacher(trained.module_, known, device="cpu"))
        else:
            model = LogisticRegression(max_iter=500) if i == 3 else RandomForestClassifier(random_state=seed)
            teachers.append(flattened(model).fit(X[rows], y[rows]))
    return teachers


@pytest.mark.slow
def test_backpropagation_is_within_two_points_of_estimation(images):
    X, y = images
    found = {}
    for seed in SEEDS:
        mixed = np.random.default_rng(seed).permutation(len(X))
        own, unlabelled, test = mixed[:700], mixed[700:1300], mixed[1300:]
        teachers = make_teachers(X[own], y[own], seed)
        for method in ("ce", "mf_p", "mf_lu", "mf_lf"):
            for backprop in (False, True):
                student = SoftLabelClassifier(net(max_epochs=30), random_state=seed)
                clf = HeterogeneousDistiller(teachers, student, method=method, backprop=backprop, balance=False)
                score = clf.fit(X[unlabelled]).score(X[test], y[test])
                found.setdefault((method, backprop), []).append(score)
    means = {key: np.mean(scores) for key, scores in found.items()}
    print({f"{method}{' by backpropagation' * backprop}": round(m, 4) for (method, backprop), m in means.items()})
    for method in ("ce", "mf_p", "mf_lu", "mf_lf"):
        assert means[method, True] > means[method, False] - 0.02, method
