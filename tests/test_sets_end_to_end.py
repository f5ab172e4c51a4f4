"""Columns that stand for sets, from teachers to student, report and plots."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier

from sklearn_uhc import OTHER, HeterogeneousDistiller, LabelSpace, TeacherCalibrator, TeacherMerger, UnifiedEnsemble
from sklearn_uhc.evidence import pairwise_agreement, teacher_agreement
from sklearn_uhc.inspection import ClassOverlapDisplay, TeacherAgreementDisplay, teacher_report
from tests.helpers import SET_METHODS, random_outputs

LISTS = [[0, 1, 2, 3], [2, 3, 4, 5], [0, 5, 1, 4]]


@pytest.fixture(scope="module")
def digits():
    """Three teachers of single digits, one of even or odd, and one that knows 0, 1 and "other"."""
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 6] / 16, y[y < 6]
    rng = np.random.default_rng(0)
    rows = [rng.choice(np.flatnonzero(np.isin(y[:600], known)), 150, replace=False) for known in LISTS]
    models = [RandomForestClassifier(20, random_state=0), LogisticRegression(max_iter=300), KNeighborsClassifier()]
    teachers = [model.fit(X[own], y[own]) for model, own in zip(models, rows, strict=True)]
    lists = [model.classes_ for model in teachers]
    teachers.append(LogisticRegression(max_iter=300).fit(X[:200], y[:200] % 2))
    lists.append([(0, 2, 4), (1, 3, 5)])
    teachers.append(LogisticRegression(max_iter=300).fit(X[:200], np.minimum(y[:200], 2)))
    lists.append([0, 1, OTHER])
    names = ["forest", "logistic", "neighbours", "parity", "zero or one"]
    return dict(zip(names, teachers, strict=True)), dict(zip(names, lists, strict=True)), X[600:], y[600:]


@pytest.mark.parametrize("method", SET_METHODS)
def test_every_method_merges_coarse_teachers(digits, method):
    teachers, lists, X, y = digits
    ensemble = UnifiedEnsemble(teachers, method=method, class_lists=lists).fit(X[:300])
    assert ensemble.classes_.tolist() == [0, 1, 2, 3, 4, 5]
    assert ensemble.score(X[300:], y[300:]) > 0.8
    assert ensemble.score(X[300:]) < 0
    assert ensemble.predict_proba(X[300:]).sum(axis=1) == pytest.approx(1)


def test_coarse_teachers_help_a_student(digits):
    teachers, lists, X, y = digits
    fine = list(teachers)[:3]
    alone = HeterogeneousDistiller({name: teachers[name] for name in fine}, KNeighborsClassifier()).fit(X[:300])
    both = HeterogeneousDistiller(teachers, KNeighborsClassifier(), class_lists=lists).fit(X[:300])
    assert both.score(X[300:], y[300:]) >= alone.score(X[300:], y[300:])


def test_a_coarse_name_is_no_label(digits):
    teachers, lists, X, y = digits
    names = np.array(["even", "odd"])
    parity = LogisticRegression(max_iter=300).fit(X[:200], names[y[:200] % 2])
    given = y[:300].astype(object)
    given[:150] = names[y[:150] % 2]
    with pytest.raises(ValueError, match=r"'even', which is no class .* makes it \(0, 2, 4\) for teacher 'parity'"):
        UnifiedEnsemble(teachers | {"parity": parity}, class_lists=lists).fit(X[:300], given)


def test_teachers_with_sets_are_weighed_and_calibrated(digits):
    teachers, lists, X, _ = digits
    merger = TeacherMerger(teachers, class_lists=lists).fit(X)
    calibrator, weight = merger.calibrator_, merger.teacher_weight_
    assert calibrator.temperatures_.shape == calibrator.standard_errors_.shape == (5,)
    assert np.isfinite(calibrator.standard_errors_).all()
    assert calibrator.uncalibrated_ == {}
    assert weight[:3].tolist() == [1, 1, 1]
    assert (weight[3:] < 1).all()
    assert (weight[3:] > 0.1).all()
    only_sets = TeacherCalibrator([[(0, 1), (2, 3)], [(0, 2), (1, 3)]]).fit(np.log(np.full((20, 4), 0.5)))
    assert only_sets.temperatures_.tolist() == [1, 1]
    assert set(only_sets.uncalibrated_) == {0, 1}


def test_naive_bayes_for_even_and_odd_does_little_harm():
    X, y = load_digits(return_X_y=True)
    train, rows = np.split(np.random.default_rng(2).permutation(len(X)), [600])
    lists = [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 6, 7], [6, 7, 8, 9], [0, 1, 8, 9]]
    own = [train[np.isin(y[train], known)] for known in lists]
    fine = [LogisticRegression(max_iter=3000).fit(X[some], y[some]) for some in own]
    parity = [GaussianNB().fit(X[half], y[half] % 2) for half in np.array_split(train, 2)]
    sets = [*lists, *[[(0, 2, 4, 6, 8), (1, 3, 5, 7, 9)]] * 2]

    def right(teachers, lists, weight=None):
        merger = TeacherMerger(teachers, class_lists=lists, teacher_weight=weight)
        return (merger.fit_transform(X[rows]).argmax(axis=1) == y[rows]).mean()

    alike, weighed = right([*fine, *parity], sets, [1] * 7), right([*fine, *parity], sets)
    assert weighed > alike + 0.05
    assert weighed > right(fine, lists) - 0.12


def test_agreement_sums_over_sets():
    lists, q = [["a", "b", "c"], [("a", "b"), "c"]], np.array([[0.2, 0.3, 0.5]])
    log_p = np.log([[0.2, 0.3, 0.5, 0.5, 0.5]])
    best = teacher_agreement(log_p, q, lists)
    assert best == pytest.approx(0.5 * (q @ np.log(q.T)).item() + 0.5 * np.log(0.5))
    assert teacher_agreement(log_p, [[0.4, 0.3, 0.3]], lists) < best
    assert pairwise_agreement(log_p, lists).mask[0, 1]  # they share one single class only


def test_report_and_plots_show_sets(digits, tmp_path):
    teachers, lists, X, _ = digits
    report = teacher_report(teachers, X[:200], class_lists=lists)
    assert report["teachers"][3]["classes"] == ["0|2|4", "1|3|5"]
    assert report["teachers"][4]["classes"] == [0, 1, "OTHER"]
    assert "columns mean sets of classes" in report["space"]["summary"]
    assert "0|2|4" in report.to_html()
    pytest.importorskip("matplotlib")
    merger = TeacherMerger(teachers, class_lists=lists).fit(X[:200])
    assert ClassOverlapDisplay.from_estimator(merger).teacher_names == list(teachers)
    assert TeacherAgreementDisplay.from_estimator(merger, X[:200]).agreement.mask[3, 0]
    assert "parity: 0|2|4, 1|3|5" in merger._repr_html_()


def test_silent_teachers_with_sets(digits):
    lists = digits[1]
    space = LabelSpace(lists)
    log_p = random_outputs(np.random.default_rng(0), [range(len(labels)) for labels in space.class_lists], 60)
    for i in range(5):
        log_p[10 * i : 10 * i + 10, space.blocks[i]] = np.nan
    merger = TeacherMerger(None, class_lists=lists, abstain=True)
    Q = merger.fit_transform(None, log_p=log_p)
    assert np.isfinite(Q).all()
    assert Q.sum(axis=1) == pytest.approx(1)
