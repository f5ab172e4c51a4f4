"""Precomputed answers: errors use the name of the argument."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from sklearn_uhc import (
    CrossEntropyUnifier,
    HeterogeneousDistiller,
    LabelSpace,
    LogitFactorization,
    StandardDistillation,
    TeacherCalibrator,
    TeacherMerger,
    TeacherOutputs,
)
from sklearn_uhc.answers.check import lists_in_names
from sklearn_uhc.evidence import pairwise_agreement, teacher_agreement
from sklearn_uhc.inspection import teacher_report
from tests.helpers import linear_teachers

LISTS = [[0, 1, 2], [1, 2, 3], [0, 3, 4], [2, 4]]
SPACE = LabelSpace(LISTS)
X = np.random.default_rng(0).normal(size=(250, 3))
OUTPUTS = TeacherOutputs(linear_teachers(LISTS)).fit(X)
LOG_P = OUTPUTS.transform(X)
P = np.exp(LOG_P)
RNG = np.random.default_rng(1)


def n_rows(log_p):
    return log_p.shape[0] if hasattr(log_p, "shape") else len(X)


def distilled(log_p, calibrate=False):
    clf = HeterogeneousDistiller(
        TeacherMerger(None, abstain=True, calibrate=calibrate), KNeighborsClassifier(3), class_lists=LISTS
    )
    return clf.fit(X[: n_rows(log_p)], log_p=log_p)


def calibrated(log_p):
    return distilled(log_p, calibrate=True)


def report_of(log_p):
    return teacher_report(log_p=log_p, class_lists=LISTS)


def agreement_of(log_p):
    return teacher_agreement(log_p, np.full((n_rows(log_p), 5), 0.2), LISTS, abstain=True)


def pairs_of(log_p):
    return pairwise_agreement(log_p, LISTS)


FITTED = CrossEntropyUnifier(LISTS, abstain=True).fit(LOG_P)
GIVEN = [distilled, calibrated, report_of, agreement_of, pairs_of]
METHODS = [CrossEntropyUnifier(LISTS, abstain=True).fit, FITTED.transform, FITTED.reconciliation_error]


def silenced(P, rows, teachers):
    out = P.copy()
    for i in teachers:
        out[rows, SPACE.blocks[i]] = np.nan
    return out


@pytest.mark.parametrize("call", [*GIVEN, METHODS[0]])
@pytest.mark.parametrize(
    "wrong",
    [
        P,
        P.astype(np.float32),
        P.astype(np.float16).astype(float),
        100 * P,
        P[:1],
        P[:3],
        silenced(P, slice(100), [0]),
        silenced(P, slice(120), range(4)),
        silenced(P, slice(None), [2]),
    ],
    ids=[
        "exact",
        "float32",
        "float16",
        "%",
        "1 row",
        "3 rows",
        "head",
        "gap",
        "mute",
    ],
)
def test_probabilities_are_noticed(call, wrong):
    name = "log_p" if call in GIVEN else "X"
    with pytest.raises(ValueError, match=f"^{name} holds probabilities.*logarithms, or logits"):
        call(wrong)


@pytest.mark.parametrize("call", [*GIVEN, *METHODS])
def test_logits_are_not_taken_for_probabilities(call):
    for logits in (np.zeros((3, 11)), np.abs(3 * LOG_P), P + 0.1, np.abs(LOG_P[:2])):
        call(logits)


@pytest.mark.parametrize(
    "logits",
    [
        np.clip(0.2 + 0.03 * RNG.normal(size=(200, 500)), 0, 1),
        np.clip(0.2 + 0.03 * RNG.normal(size=(200, 500)), 0, 1).round(2),
        20 + 0.3 * RNG.normal(size=(50, 5)),
        (20 + 0.3 * RNG.normal(size=(50, 5))).round(1),
        0.0005 * RNG.random((100, 4000)),
        (0.0005 * RNG.random((100, 4000))).round(4),
        [[0, 1.0003], [0, 0.9996]],
    ],
    ids=["cosines", "rounded cosines", "about 20", "about 20, rounded", "about 1/K", "about 1/K, rounded", "margins"],
)
def test_sums_near_a_whole_are_not_enough(logits):
    for method in (StandardDistillation(), LogitFactorization()):
        assert np.isfinite(method.fit_transform(logits)).all()


def test_the_batch_does_not_decide():
    method = CrossEntropyUnifier().fit(np.column_stack([np.zeros(50), RNG.normal(size=50)]))
    for batch in ([[0.0, 1.0], [0.0, 1.0]], [[0.25, 0.75]] * 9):
        expected = [method.transform([row])[0] for row in batch]
        np.testing.assert_allclose(method.transform(batch), expected)
        assert method.reconciliation_error(batch).shape == (len(batch),)


def test_a_single_class_may_have_the_logit_one():
    with pytest.warns(UserWarning, match="do not connect"):
        assert CrossEntropyUnifier([["a"], ["b"]]).fit_transform(np.ones((9, 2))).shape == (9, 2)
    with pytest.raises(ValueError, match="X holds probabilities"):
        CrossEntropyUnifier([["a"], ["a", "b"]]).fit(np.column_stack([np.zeros(9), np.full((9, 2), 0.5)]))


@pytest.mark.parametrize(
    "logits",
    [
        np.where(RNG.random((20, 4)).argsort(axis=1) < 2, 0, -np.inf),
        np.log(2 * RNG.dirichlet(np.full(9, 50.0), size=20)),
        np.tile([0, 0, -np.inf], (20, 1)),
    ],
    ids=["two of four", "mass 2", "the same two"],
)
def test_one_teacher_is_not_taken_for_several(logits):
    assert np.isfinite(StandardDistillation().fit_transform(logits)).all()


def test_one_row_of_one_teacher_says_too_little():
    assert CrossEntropyUnifier([["a", "b"]]).fit_transform([[0.0, 1.0]]).shape == (1, 2)


@pytest.mark.parametrize("call", GIVEN)
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (LOG_P[:, :-1], r"log_p must have shape \((n|250), 11\).*got \(250, 10\)"),
        (LOG_P[:, 0], r"log_p must have shape .*got \(250,\)"),
        (csr_matrix(LOG_P), r"log_p is sparse.*log_p.toarray\(\)"),
        ([LOG_P[:, block] for block in SPACE.blocks], r"log_p is a list of 4 arrays.*np.hstack\(log_p\)"),
        (
            pd.DataFrame(LOG_P, columns=OUTPUTS.get_feature_names_out()).iloc[:, ::-1],
            "The column 'teacher3__4' is where the class lists have '0'",
        ),
    ],
    ids=["columns", "flat", "sparse", "list", "order"],
)
def test_wrong_form_is_said_of_log_p(call, wrong, message):
    with pytest.raises((TypeError, ValueError), match=message):
        call(wrong)


def test_rows_are_counted():
    with pytest.raises(ValueError, match=r"log_p must have shape \(250, 11\).*got \(5, 11\)"):
        HeterogeneousDistiller(None, KNeighborsClassifier(3), class_lists=LISTS).fit(X, log_p=LOG_P[:5])


@pytest.mark.parametrize("calibrate", [True, False])
@pytest.mark.parametrize(("bad", "what"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_bad_numbers_are_not_those_of_x(calibrate, bad, what):
    broken = LOG_P.copy()
    broken[3, 2] = bad
    with pytest.raises(ValueError, match=f"^log_p contains {what}, first in row 3, column 2"):
        distilled(broken, calibrate)


@pytest.mark.parametrize("call", [distilled, report_of, agreement_of])
def test_infinity_is_told_among_numbers_that_are_not_negative(call):
    broken = P + 0.1
    broken[0, 2] = np.inf  # the first row is always among those looked at
    with pytest.raises(ValueError, match="contains infinity, first in row 0, column 2"):
        call(broken)


def test_lists_and_frames_are_welcome():
    expected = distilled(LOG_P).predict_proba(X)
    for given in (LOG_P.tolist(), pd.DataFrame(LOG_P, dtype=object), pd.DataFrame(LOG_P, index=np.linspace(1, 2, 250))):
        np.testing.assert_allclose(distilled(given).predict_proba(X), expected)


@pytest.mark.parametrize("step", [TeacherCalibrator(), CrossEntropyUnifier()])
def test_a_pipeline_hands_class_lists_on(step):
    pipeline = make_pipeline(TeacherOutputs(linear_teachers(LISTS)), step).fit(X)
    assert pipeline[-1].label_space_ == SPACE
    one = LOG_P[:, SPACE.blocks[0]]
    step.fit(one)  # one distribution
    step.fit(one - one.max(axis=1, keepdims=True))  # logits
    step.fit(np.zeros((9, 3)))


@pytest.mark.parametrize(
    ("names", "lists"),
    [
        (["north__a", "north__b", "south__b"], {"north": ["a", "b"], "south": ["b"]}),
        (["teacher0__a", "teacher0__b"], {"teacher0": ["a", "b"]}),
        (["x__a", "x__b"], None),  # classes of one teacher that happen to look so
        (["north__a", "south__b", "north__b"], None),  # not block by block
        (["north__a", "b"], None),
        (None, None),
    ],
)
def test_names_of_columns_tell_teachers_and_classes(names, lists):
    assert lists_in_names(names) == lists
