"""Networks distilled from teachers of several kinds, on soft labels and by direct backpropagation."""

import pickle
import warnings

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

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TeacherMerger, fit_membership
from sklearn_uhc.merging import resolve_method
from sklearn_uhc.merging.losses import LogitFactorizationLoss
from sklearn_uhc.students import skorch as nets
from tests.helpers import linear_teachers
from tests.memberships import Fixed
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
    clf = HeterogeneousDistiller(
        TeacherMerger(None, calibrate=False), student, class_lists=lists, method="mf_lu", backprop=True
    )
    clf.fit(X, log_p=log_p)
    logits = clf.student_.estimator_.forward(X)
    scales = LogitFactorizationLoss(lists, scale="free").scales(logits, torch.as_tensor(log_p))
    expected = torch.softmax(scales.mean() * logits, dim=1).numpy()
    np.testing.assert_allclose(clf.predict_proba(X), expected, atol=1e-5)
    assert np.abs(expected - torch.softmax(logits, dim=1).numpy()).max() > 0.3


@pytest.mark.parametrize("method", ["ce", "mf_p", "mf_lu", "mf_lf"])
@pytest.mark.usefixtures("few_steps")
def test_weights_and_silence(images, teachers, method):
    """A teacher that is always wrong counts little, and silent teachers are left out."""
    X, y = images[0][600:1300], images[1][600:1300]
    rng = np.random.default_rng(0)
    answers = [teacher.predict_proba(X) for teacher in teachers]
    log_p = np.log(np.hstack([*answers, np.eye(10)[(y + rng.integers(1, 4, len(y))) % 10]]).clip(1e-4))
    lists, lengths = [*(teacher.classes_ for teacher in teachers), np.arange(10)], [6, 5, 5, 10]
    whose = np.repeat(np.arange(4), lengths)
    quiet = rng.random((len(log_p), 4)) < 0.2
    quiet[:20] = True
    log_p[quiet[:, whose]] = np.nan
    student = SoftLabelClassifier(net(max_epochs=12, train_split=None), random_state=0)
    clf = HeterogeneousDistiller(
        TeacherMerger(None, abstain=True, calibrate=False), student, class_lists=lists, method=method, backprop=True
    )
    scores = {}
    for name, weight in {"alike": [1, 1, 1, 1], "little": [1, 1, 1, 1e-3], "default": None}.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of the wrong teacher, and of rows without answers
            fitted = clone(clf).set_params(teachers__teacher_weight=weight).fit(X, log_p=log_p)
        scores[name] = fitted.score(X, y)
        assert np.isfinite(fitted.predict_proba(X)).all()
    assert scores["little"] > max(0.7, scores["alike"] + 0.02)
    assert scores["default"] > max(0.7, scores["alike"] + 0.02)
    # Weights of the method, and answers by teachers that are silent, are the same.
    own = clone(clf).set_params(method=resolve_method(method).set_params(teacher_weight=[1, 1, 1, 1e-3], abstain=True))
    with pytest.warns(UserWarning, match="No teacher answers"):
        own.set_params(teachers__abstain=None, temperature=3.0).fit(X, log_p=log_p)
    assert own.score(X, y) == pytest.approx(scores["little"], abs=1e-6)


@pytest.mark.usefixtures("few_steps")
def test_mf_lu_s_scale_is_that_of_teachers_that_answer():
    lists = [[0, 1, 2], [1, 2, 3], [0, 2, 3]]
    X = np.random.default_rng(0).normal(size=(300, 8)).astype(np.float32)
    log_p = 3 * np.hstack([teacher.predict_log_proba(X) for teacher in linear_teachers(lists)])
    log_p[:50], log_p[50:150, :3] = np.nan, np.nan
    student = SoftLabelClassifier(nn.Linear(8, 4), random_state=0)
    clf = HeterogeneousDistiller(
        TeacherMerger(None, calibrate=False, abstain=True), student, class_lists=lists, method="mf_lu", backprop=True
    )
    with pytest.warns(UserWarning, match="No teacher answers"):
        clf.fit(X, log_p=log_p)
    logits = clf.student_.estimator_.forward(X)
    loss = LogitFactorizationLoss(lists, scale="free")
    scales = [
        loss.scales(logits[150:], torch.as_tensor(log_p[150:])).mean(dim=1),
        LogitFactorizationLoss(lists[1:], scale="free")
        .scales(logits[50:150], torch.as_tensor(log_p[50:150, 3:]))
        .mean(dim=1),
    ]
    expected = torch.softmax(torch.cat(scales).mean() * logits, dim=1).numpy()
    np.testing.assert_allclose(clf.predict_proba(X), expected, atol=1e-5)


@pytest.mark.parametrize("none_label", [None, -1])
@pytest.mark.parametrize("T", [1.0, 3.0])
@pytest.mark.parametrize("method", ["ce", "mf_lf", "mf_p"])
def test_memberships_are_those_of_the_merge(method, T, none_label):
    """The soft labels of the merge with scorers are a stationary point of the loss."""
    lists = [[0, 1, 2], [1, 2, 3], [0, 3, 4]]
    teachers, rng = linear_teachers(lists), np.random.default_rng(3)
    X = rng.uniform(size=(12, 3))
    scorers = [Fixed(rng.uniform(0.1, 0.9, 12)) for _ in lists]
    merger = TeacherMerger(
        teachers, method=method, temperature=T, membership=scorers, none_label=none_label, calibrate=False
    )
    Q = merger.fit_transform(X)
    answers = merger.adjust(merger.answers(X), X)
    loss = merger.method_.make_loss(answers.space, teacher_weight=answers.teacher_weight, untempered=answers.untempered)
    assert loss.classes.tolist() == merger.classes_.tolist()
    at_merge = torch.as_tensor(T * np.log(Q)).requires_grad_()
    loss(at_merge, torch.as_tensor(answers.log_p)).backward()
    assert at_merge.grad.abs().max() < 1e-6
    elsewhere = (at_merge.detach() + torch.as_tensor(0.1 * rng.normal(size=Q.shape))).requires_grad_()
    loss(elsewhere, torch.as_tensor(answers.log_p)).backward()
    assert elsewhere.grad.abs().max() > 1e-4


@pytest.fixture(scope="module")
def sites(flat, images):
    """Rows, digits, two teachers that do not know 8 and 9, and their scorers."""
    y, public = images[1], np.arange(700, 1200)
    own = [np.flatnonzero(np.isin(y[:700], known)) for known in ([0, 1, 2, 3, 4], [3, 4, 5, 6, 7])]
    teachers = [LogisticRegression(max_iter=300).fit(flat[rows], y[rows]) for rows in own]
    return flat, y, public, teachers, [fit_membership(flat[rows], flat[public], y_own=y[rows]) for rows in own]


@pytest.mark.filterwarnings("ignore::sklearn_uhc.FindingWarning")
def test_memberships_by_backpropagation(sites, monkeypatch):
    X, y, public, teachers, scorers = sites
    monkeypatch.setattr(nets, "LEAST_STEPS", 300)
    rows, new = public[y[public] < 8], np.flatnonzero(y[1200:] < 8) + 1200
    torch.manual_seed(0)
    student, score = SoftLabelClassifier(nn.Linear(64, 8), random_state=0), {}
    for membership in (None, scorers):
        clf = HeterogeneousDistiller(teachers, student, method="ce", backprop=True, membership=membership)
        score[str(membership)[:9]] = clf.fit(X[rows]).score(X[new], y[new])
        assert np.isfinite(clf.score(X[new]))
    none, by_owners = score.values()
    assert by_owners > none + 0.01


@pytest.mark.filterwarnings("ignore::sklearn_uhc.FindingWarning")
def test_none_of_these_by_backpropagation(sites, monkeypatch):
    X, y, public, teachers, scorers = sites
    monkeypatch.setattr(nets, "LEAST_STEPS", 600)
    torch.manual_seed(0)
    student = SoftLabelClassifier(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 9)), random_state=0)
    clf = HeterogeneousDistiller(teachers, student, method="ce", backprop=True, membership=scorers, none_label=-1)
    none = clf.fit(X[public]).predict_proba(X[1200:])[:, 0]
    assert clf.classes_.tolist() == [-1, *range(8)]
    assert none[y[1200:] > 7].mean() > none[y[1200:] < 8].mean() + 0.2


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"balance": True}, ValueError, "balance=True weights soft labels"),
        ({"balance": np.True_}, ValueError, "balance=True weights soft labels"),
        ({"method": "sd"}, ValueError, "StandardDistillation cannot be used by backpropagation"),
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


def test_a_student_that_is_no_network_is_refused_before_teachers_are_called(images, teachers):
    called = []

    class Watched:
        classes_ = teachers[0].classes_

        def predict_proba(self, X):
            called.append(len(X))
            return teachers[0].predict_proba(X)

    student = make_pipeline(StandardScaler(), RandomForestClassifier())
    with pytest.raises(TypeError, match="RandomForestClassifier is not one"):
        HeterogeneousDistiller([Watched(), *teachers[1:]], student, backprop=True).fit(images[0][:200])
    assert called == []


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
            TeacherMerger(None, calibrate=calibrate), nn.Linear(64, 4), class_lists=lists, backprop=True, method="ce"
        )
        return clf.fit(flat[:100], log_p=answers)

    assert fit(log_p).predict_proba(flat[:5]).shape == (5, 4)
    with pytest.raises(ValueError, match="holds probabilities"):
        fit(np.exp(log_p))
    with pytest.raises(ValueError, match=r"contains NaN, first in row 7, column 4 \(teacher 1\)"):
        fit(broken)
    with pytest.raises(ValueError, match=r"log_p must have shape \(100, 9\).*got \(100, 8\)"):
        fit(log_p[:, :8])
