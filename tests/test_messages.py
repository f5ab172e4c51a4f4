"""Messages about what users often pass by mistake name it, and the remedy."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from sklearn_uhc import (
    FindingWarning,
    HeterogeneousDistiller,
    TeacherMerger,
    UnifiedEnsemble,
    load_teacher,
    pack_teacher,
)
from sklearn_uhc.inspection import teacher_report

X, y = load_iris(return_X_y=True)
PAIR = [GaussianNB().fit(X[y != k], y[y != k]) for k in (0, 2)]


def distiller(teachers=PAIR, **params):
    return HeterogeneousDistiller(teachers, GaussianNB(), **params)


@pytest.mark.parametrize("lists", [list(range(10)), ["a", "b"], np.arange(3), [[0, 1], 2]])
def test_class_lists_that_are_no_lists(lists):
    with pytest.raises(TypeError, match="class_lists must be a list of lists, one for each of the 2 teachers"):
        distiller(class_lists=lists).fit(X)


@pytest.mark.parametrize("method", ["CE-BP", "mf_p_bp", "MF-LU-BP"])
def test_direct_backpropagation_is_a_parameter(method):
    with pytest.raises(ValueError, match=f"method='{method}': for direct backpropagation pass backprop=True"):
        distiller(method=method).fit(X)


class AnnData:
    """Like anndata's, as far as it is looked at."""

    def __init__(self, matrix):
        self.X, self.shape = matrix, matrix.shape


AnnData.__module__ = "anndata._core.anndata"


def test_rows_that_are_no_rows():
    with pytest.raises(TypeError, match=r"X is an AnnData: pass its matrix, adata\.X"):
        distiller().fit(AnnData(X))
    with pytest.raises(TypeError, match="X is a single text: pass a list of texts"):
        distiller().fit("a text")
    fitted = distiller().fit(X)
    with pytest.raises(TypeError, match=r"pass its matrix, adata\.X"):
        fitted.predict(AnnData(X))


@pytest.mark.filterwarnings("ignore:X has feature names")
def test_a_frame_with_one_column_of_texts():
    texts, labels = ["red apple", "green pear", "red cherry", "green kiwi"] * 5, [0, 1, 2, 1] * 5
    reader = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts, labels)
    frame = pd.DataFrame({"text": texts})
    with pytest.raises(ValueError, match=r"gave 1 rows of output for 20 rows of X. .*pass X\['text'\]"):
        HeterogeneousDistiller([reader], reader).fit(frame)
    with pytest.raises(ValueError, match="could not convert") as caught:
        distiller().fit(frame)
    assert "X is a frame with one column of texts" in "".join(caught.value.__notes__)


def messages(teachers, rows):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        UnifiedEnsemble(teachers).fit(rows)
    return [str(one.message) for one in caught if one.category is FindingWarning]


def test_too_little_to_merge_or_to_learn_from():
    assert messages(PAIR, X) == []
    (one,) = messages(PAIR[:1], X)
    assert "only one teacher, so nothing is merged" in one
    (one,) = messages([*PAIR, PAIR[0]], X)
    assert "teacher 0 and teacher 2 are the same object, which counts twice: pass it once" in one
    (one,) = messages(PAIR, X[:2])
    assert "X has 2 rows for 3 classes" in one
    (one,) = messages(dict(zip("ab", [PAIR[0]] * 2, strict=True)), X)
    assert "'a'" in one
    assert "'b'" in one


@pytest.mark.parametrize("make", [distiller, UnifiedEnsemble, TeacherMerger, lambda t: distiller(TeacherMerger(t))])
def test_a_report_about_the_teachers_of_a_merge(make):
    direct = teacher_report(dict(zip("ab", PAIR, strict=True)), X)
    merge = make(dict(zip("ab", PAIR, strict=True)))
    assert str(teacher_report(merge, X)) == str(direct)
    assert str(teacher_report(merge.fit(X), X)) == str(direct)
    renamed = make(PAIR).set_params(class_lists=[["x", "y"], ["z", "x"]])
    assert teacher_report(renamed, X)["space"] != direct["space"]


def test_a_report_about_a_merge_of_answers_says_what_is_needed():
    merge = HeterogeneousDistiller(None, GaussianNB(), class_lists=[[0, 1], [1, 2]])
    with pytest.raises(ValueError, match="Pass either fitted teachers and X, or log_p and class_lists"):
        teacher_report(merge, X)


def test_packages_are_shown_without_their_bytes(tmp_path):
    teacher = load_teacher(pack_teacher(LogisticRegression(max_iter=500).fit(X, y), tmp_path / "t", X))
    for shown in (teacher, UnifiedEnsemble([teacher, PAIR[0]]), distiller([teacher, PAIR[0]])):
        assert "bytes>" in repr(shown)
        assert "\\x" not in repr(shown)
