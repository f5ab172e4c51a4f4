"""Networks distilled from teachers of several kinds, on soft labels and by direct backpropagation."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.utils.data import DataLoader

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier
from sklearn_uhc.losses import LogitFactorizationLoss
from tests.helpers import linear_teachers
from tests.networks.helpers import Images, net


def test_a_network_distilled_from_a_network_a_forest_and_a_logistic_regression(images, teachers):
    X, y = images
    clf = HeterogeneousDistiller(teachers, SoftLabelClassifier(net(max_epochs=20), random_state=0), temperature=1)
    assert clf.fit(X[600:]).score(X[600:], y[600:]) > 0.8
    dataset = clone(clf).fit(Images(X[600:]))
    assert dataset.score(X[600:], y[600:]) > 0.8
    loader = clone(clf).fit(DataLoader(Images(X[600:]), batch_size=32))
    np.testing.assert_allclose(loader.predict_proba(X), dataset.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(loader.predict_proba(Images(X)), loader.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("method", ["ce", "mf_p", "mf_lu", "mf_lf"])
def test_direct_backpropagation(images, teachers, method):
    X, y = images
    student = SoftLabelClassifier(net(max_epochs=20), random_state=0)
    clf = HeterogeneousDistiller(teachers, student, method=method, backprop=True).fit(X[600:])
    assert clf.score(X[600:], y[600:]) > 0.75
    assert clf.class_weight_ is None
    assert np.isfinite(clf.score(X[:100]))
    revived = pickle.loads(pickle.dumps(clf.student_))
    np.testing.assert_array_equal(revived.predict_proba(X), clf.predict_proba(X))
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1, atol=1e-5)


@pytest.mark.usefixtures("few_steps")
def test_backpropagation_through_a_pipeline_a_bare_module_and_a_search(flat, images, teachers):
    _, y = images
    models = [
        LogisticRegression(max_iter=300).fit(flat[:600][y[:600] < 6], y[:600][y[:600] < 6]),
        LogisticRegression(max_iter=300).fit(flat[:600][y[:600] > 3], y[:600][y[:600] > 3]),
    ]
    linear = nn.Linear(64, 10)
    student = make_pipeline(StandardScaler(), linear)
    clf = HeterogeneousDistiller(models, SoftLabelClassifier(student, random_state=0), backprop=True, method="ce")
    assert clf.fit(flat[600:]).score(flat, y) > 0.7
    inner = make_pipeline(StandardScaler(), SoftLabelClassifier(linear, random_state=0))
    same = HeterogeneousDistiller(models, inner, backprop=True, method="ce").fit(flat[600:])
    np.testing.assert_allclose(same.predict_proba(flat), clf.predict_proba(flat), atol=1e-5)
    apart = [LogisticRegression().fit(flat, images[1] > 4), LogisticRegression().fit(flat, 2 + (images[1] > 2))]
    with pytest.warns(UserWarning, match="do not connect"):
        HeterogeneousDistiller(apart, nn.Linear(64, 4), class_lists=[[0, 1], None], backprop=True).fit(flat[:99])
    bare = HeterogeneousDistiller(models, nn.Linear(64, 10), backprop=True)
    search = GridSearchCV(bare, {"temperature": [1, 3]}, cv=2, refit=False)
    with pytest.warns(UserWarning, match="backprop=True ignores y"):
        search.fit(flat[600:900], y[600:900])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.usefixtures("few_steps")
def test_mf_lu_answers_on_the_scale_of_its_teachers():
    """MF-LU's u has an arbitrary scale: the mean of v over the transfer set brings it to the teachers'."""
    lists = [[0, 1, 2], [1, 2, 3], [0, 2, 3]]
    X = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    log_p = 3 * np.hstack([teacher.predict_log_proba(X) for teacher in linear_teachers(lists)])
    torch.manual_seed(0)
    student = SoftLabelClassifier(nn.Linear(8, 4), random_state=0)
    clf = HeterogeneousDistiller(None, student, class_lists=lists, method="mf_lu", calibrate=False, backprop=True)
    clf.fit(X, log_p=log_p)
    logits = clf.student_.estimator_.forward(X)
    scales = LogitFactorizationLoss(lists, scale="free").scales(logits, torch.as_tensor(log_p))
    expected = torch.softmax(scales.mean() * logits, dim=1).numpy()
    np.testing.assert_allclose(clf.predict_proba(X), expected, atol=1e-5)
    assert np.abs(expected - torch.softmax(logits, dim=1).numpy()).max() > 0.3


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"balance": True}, ValueError, "balance=True weights soft labels"),
        ({"balance": np.True_}, ValueError, "balance=True weights soft labels"),
        ({"method": "sd"}, ValueError, "StandardDistillation cannot be used by backpropagation"),
        ({"store_soft_labels": True}, ValueError, "makes no soft labels"),
        ({"student": RandomForestClassifier()}, TypeError, "RandomForestClassifier is not one"),
        ({"student": net(module__probabilities=True)}, ValueError, "remove its softmax"),
    ],
)
def test_what_backpropagation_cannot_do(images, teachers, params, error, message):
    given = {"student": net(), "backprop": True} | params
    with pytest.raises(error, match=message):
        HeterogeneousDistiller(teachers, **given).fit(images[0][:200])
    with pytest.raises(ValueError, match="does not accept sample_weight"):
        HeterogeneousDistiller(teachers, net(), backprop=True).fit(images[0][:50], sample_weight=np.ones(50))


@pytest.mark.parametrize("calibrate", [True, False])
@pytest.mark.usefixtures("few_steps")
def test_wrong_answers_are_refused(flat, calibrate):
    """As without backpropagation; training would diverge on them, or learn nonsense."""
    rng, lists = np.random.default_rng(0), [[0, 1, 2], [1, 2, 3], [0, 2, 3]]
    log_p = np.log(np.hstack([rng.dirichlet(np.ones(3), size=100) for _ in lists]))
    broken = log_p.copy()
    broken[7, 4] = np.nan

    def fit(answers):
        clf = HeterogeneousDistiller(
            None, nn.Linear(64, 4), class_lists=lists, backprop=True, method="ce", calibrate=calibrate
        )
        return clf.fit(flat[:100], log_p=answers)

    assert fit(log_p).predict_proba(flat[:5]).shape == (5, 4)
    with pytest.raises(ValueError, match="holds probabilities"):
        fit(np.exp(log_p))
    with pytest.raises(ValueError, match=r"contains NaN, first in row 7, column 4 \(teacher 1\)"):
        fit(broken)
    with pytest.raises(ValueError, match=r"log_p must have shape \(100, 9\).*got \(100, 8\)"):
        fit(log_p[:, :8])
