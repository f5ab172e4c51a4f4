"""The diagram shown in notebooks."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

from sklearn_uhc import HeterogeneousDistiller, TeacherMerger, UnifiedEnsemble
from tests.helpers import LinearTeacher, linear_teachers

LISTS = [["ant", "bee"], ["bee", "<cat>"], [*"klmnopqr", "s" * 20]]


@pytest.mark.parametrize("wrap", [lambda clf: clf, lambda clf: make_pipeline(StandardScaler(), clf)])
def test_diagram_shows_teachers_with_classes_method_and_student(wrap):
    clf = HeterogeneousDistiller(linear_teachers(LISTS), KNeighborsClassifier(7), method="ce")
    shown = estimator_html_repr(wrap(clf))
    assert "teacher 0: ant, bee" in shown
    assert "teacher 1: bee, &lt;cat&gt;" in shown
    assert "teacher 2: 9 classes" in shown
    assert "9 classes\nk\nl" in shown
    for part in ("LinearTeacher", "CrossEntropyUnifier", "KNeighborsClassifier", ">method<", ">student<"):
        assert part in shown


def test_diagram_of_a_fitted_ensemble_with_renamed_classes():
    X = np.random.default_rng(0).normal(size=(20, 3))
    clf = UnifiedEnsemble(linear_teachers([[0, 1], [1, 2]]), class_lists=[["a", "b"], ["b", "c"]]).fit(X)
    shown = estimator_html_repr(clf)
    assert "teacher 1: b, c" in shown
    assert ">student<" not in shown


def test_diagram_of_many_teachers_counts_the_rest():
    clf = UnifiedEnsemble(linear_teachers([[k, k + 1] for k in range(20)]))
    shown = estimator_html_repr(clf)
    assert "teacher 2: 2, 3" in shown
    assert "and 17 more teachers" in shown
    assert "teacher 19: 19, 20" in shown


@pytest.mark.parametrize(
    ("clf", "drawn"),
    [
        (HeterogeneousDistiller(None, LogisticRegression(), class_lists=[["a", "b"]]), "teacher 0: a, b"),
        (
            HeterogeneousDistiller([LinearTeacher()], LogisticRegression()),
            "classes unknown: name them with class_lists",
        ),
        (HeterogeneousDistiller(None, LogisticRegression()), ">student<"),
    ],
    ids=["answers to come", "unfitted teacher", "nobody"],
)
def test_diagram_of_what_cannot_be_fitted_yet_shows_what_is_known(clf, drawn):
    """None of this is in the plain text to which scikit-learn falls back."""
    assert drawn in estimator_html_repr(clf)
    assert drawn not in str(clf)


@pytest.mark.parametrize(
    ("calibrate", "before", "after"), [("auto", False, True), (True, True, True), (False, False, False)]
)
def test_diagram_shows_a_calibration_that_is_certain(calibrate, before, after):
    X = np.random.default_rng(0).normal(size=(30, 3))
    clf = UnifiedEnsemble(TeacherMerger(linear_teachers([[0, 1, 2]] * 3), calibrate=calibrate))
    assert (">calibration<" in estimator_html_repr(clf)) == before
    assert (">calibration<" in estimator_html_repr(clf.fit(X))) == after


def test_diagram_does_not_call_answers_features():
    X = np.random.default_rng(0).normal(size=(30, 3))
    clf = UnifiedEnsemble(linear_teachers([[0, 1, 2]] * 3)).fit(X)
    assert "9 features" not in estimator_html_repr(clf)
