"""scikit-learn's own checks, for every public estimator."""

from inspect import signature

import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from sklearn_uhc import (
    CrossEntropyUnifier,
    HeterogeneousDistiller,
    LogitFactorization,
    ProbabilityFactorization,
    SoftLabelClassifier,
    StandardDistillation,
    TeacherCalibrator,
    TeacherHoldoutSearch,
    TeacherMerger,
    TeacherOutputs,
    UnifiedEnsemble,
)
from tests.helpers import linear_teachers

try:
    from sklearn.utils.estimator_checks import parametrize_with_checks
except RuntimeError as error:  # scikit-learn 1.6, where array-api-compat is installed
    pytest.skip(f"scikit-learn's checks need SCIPY_ARRAY_API=1: {error}", allow_module_level=True)

#: A parameter since scikit-learn 1.8; before, xfail_strict of pytest's settings does the same.
STRICT = {"xfail_strict": True} if "xfail_strict" in signature(parametrize_with_checks).parameters else {}

# Labels may be missing, and the classes are the teachers' as well.
MORE_THAN_Y = {
    "check_classifiers_classes": "classes_ are the teachers' classes, not those of y",
    "check_classifiers_train": "the teachers know a class that y does not show, and say so",
    "check_supervised_y_no_nan": "NaN in y marks rows without a label",
}

# scikit-learn exempts its own forests: the bootstrap draws rows, not weights.
EXEMPT_FORESTS = {
    "check_sample_weight_equivalence_on_dense_data": "bootstrap samples of repeated and of weighted rows differ",
    "check_sample_weight_equivalence_on_sparse_data": "bootstrap samples of repeated and of weighted rows differ",
}


def instances():
    teachers = linear_teachers([[0, 1], [1, 2], [2, 3], [0, 1, 2, 3]])
    yield TeacherOutputs(teachers)
    yield TeacherCalibrator()
    yield StandardDistillation()
    yield CrossEntropyUnifier()
    yield ProbabilityFactorization()
    yield LogitFactorization(scale="fixed")
    yield LogitFactorization(scale="free")
    yield SoftLabelClassifier(LogisticRegression())
    yield SoftLabelClassifier(RandomForestClassifier(n_estimators=5, random_state=0))
    yield HeterogeneousDistiller(teachers, LogisticRegression(), method="ce")
    yield HeterogeneousDistiller(teachers, RandomForestClassifier(n_estimators=5, random_state=0))
    yield HeterogeneousDistiller(teachers, LogisticRegression(), method="mf_p", balance=False)
    for method in ("sd", "ce", "mf_p", "mf_lu", "mf_lf"):
        yield UnifiedEnsemble(
            TeacherMerger(teachers, calibrate=True), method=method
        )  # "auto" leaves teachers of one kind alone here
    distiller = HeterogeneousDistiller(TeacherMerger(teachers, calibrate=False), LogisticRegression())
    yield TeacherHoldoutSearch(distiller, {"temperature": [1, 3]}, folds=2)


def wrapped(estimator):
    return getattr(estimator, "student", getattr(estimator, "estimator", None))


def expected_failures(estimator):
    failures = {}
    merged = getattr(estimator, "estimator", estimator)
    if hasattr(merged, "teachers") and hasattr(estimator, "predict"):
        failures |= MORE_THAN_Y
    if isinstance(wrapped(estimator), RandomForestClassifier):
        failures |= EXEMPT_FORESTS
    return failures


@pytest.mark.filterwarnings("ignore:y holds classes that no teacher knows:UserWarning")
@parametrize_with_checks(list(instances()), expected_failed_checks=expected_failures, **STRICT)
def test_sklearn_checks(estimator, check):
    check(estimator)
