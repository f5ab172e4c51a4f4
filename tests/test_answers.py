"""Answers that were computed before: what is wrong with them is said under the name that they were given by."""

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
    TeacherCalibrator,
    TeacherOutputs,
    pairwise_agreement,
    teacher_agreement,
    teacher_report,
)
from tests.helpers import linear_teachers

LISTS = [[0, 1, 2], [1, 2, 3], [0, 3, 4], [2, 4]]
SPACE = LabelSpace(LISTS)
X = np.random.default_rng(0).normal(size=(250, 3))
OUTPUTS = TeacherOutputs(linear_teachers(LISTS)).fit(X)
LOG_P = OUTPUTS.transform(X)
P = np.exp(LOG_P)


def n_rows(log_p):
    return log_p.shape[0] if hasattr(log_p, "shape") else len(X)


def distilled(log_p, calibrate=False):
    clf = HeterogeneousDistiller(None, KNeighborsClassifier(3), class_lists=LISTS, abstain=True, calibrate=calibrate)
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


@pytest.mark.parametrize("call", [*GIVEN, *METHODS])
@pytest.mark.parametrize(
    "wrong",
    [
        P,
        P.astype(np.float32),
        P.round(3),
        P.round(2),
        100 * P,
        (100 * P).round(),
        P[:1],
        P[:3],
        silenced(P, slice(100), [0]),
        silenced(P, slice(120), range(4)),
        silenced(P, slice(None), [2]),
    ],
    ids=["exact", "float32", "3 digits", "2 digits", "%", "whole %", "1 row", "3 rows", "head", "gap", "mute"],
)
def test_probabilities_are_noticed(call, wrong):
    name = "log_p" if call in GIVEN else "X"
    with pytest.raises(ValueError, match=f"^{name} holds probabilities.*logarithms, or logits"):
        call(wrong)


@pytest.mark.parametrize("call", [*GIVEN, *METHODS])
def test_logits_are_not_taken_for_probabilities(call):
    for logits in (np.zeros((3, 11)), np.abs(3 * LOG_P), P + 0.1, np.abs(LOG_P[:2])):
        call(logits)


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
            "The column 'teacher3__4' stands where the class lists name '0'",
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
    with pytest.raises(ValueError, match=f"^The array of answers contains {what}, first in row 3, column 2"):
        distilled(broken, calibrate)


def test_lists_and_frames_are_welcome():
    expected = distilled(LOG_P).predict_proba(X)
    for given in (LOG_P.tolist(), pd.DataFrame(LOG_P, dtype=object), pd.DataFrame(LOG_P, index=np.linspace(1, 2, 250))):
        np.testing.assert_allclose(distilled(given).predict_proba(X), expected)


@pytest.mark.parametrize("step", [TeacherCalibrator(), CrossEntropyUnifier()])
def test_forgotten_lists_are_noticed_without_names(step):
    with pytest.raises(ValueError, match=r"Every row holds 4 distributions.*class_lists=outputs.class_lists_"):
        make_pipeline(TeacherOutputs(linear_teachers(LISTS)), step).fit(X)
    one = LOG_P[:, SPACE.blocks[0]]
    step.fit(one)  # one distribution
    step.fit(one - one.max(axis=1, keepdims=True))  # logits
    step.fit(np.zeros((9, 3)))
