"""Answers on disk: read once, resumed after an interruption."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from sklearn_uhc import HeterogeneousDistiller, TeacherOutputs, UnifiedEnsemble


class Asked:
    """A teacher that counts the rows it is asked for, and may be interrupted."""

    classes_ = np.array([0, 1])

    def __init__(self, seed=0):
        self.seed = seed

    asked = 0
    limit = np.inf

    def predict_proba(self, X):
        if type(self).asked + len(X) > type(self).limit:
            raise KeyboardInterrupt
        type(self).asked += len(X)
        p = 1 / (1 + np.exp(-X[:, 0] - self.seed))
        return np.column_stack([1 - p, p])


@pytest.fixture
def teacher(monkeypatch):
    monkeypatch.setattr("sklearn_uhc.teachers.teacher_outputs.STORED_ROWS", 100)
    Asked.asked, Asked.limit = 0, np.inf
    return Asked()


def test_a_store_answers_the_second_time(teacher, tmp_path):
    X = np.random.default_rng(0).normal(size=(450, 3))
    outputs = TeacherOutputs([teacher], store=tmp_path)
    first = outputs.fit_transform(X)
    assert Asked.asked == 450
    np.testing.assert_array_equal(outputs.transform(X), first)
    np.testing.assert_array_equal(TeacherOutputs([Asked()], store=tmp_path).fit_transform(X), first)
    assert Asked.asked == 450
    np.testing.assert_array_equal(TeacherOutputs([teacher]).fit_transform(X), first)
    # Another teacher, or other rows, are read anew.
    Asked.asked = 0
    assert np.abs(TeacherOutputs([Asked(seed=1)], store=tmp_path).fit_transform(X) - first).max() > 0.1
    outputs.transform(X + 1)
    assert Asked.asked == 900


def test_an_interrupted_reading_goes_on(teacher, tmp_path):
    X = np.random.default_rng(0).normal(size=(450, 3))
    Asked.limit = 250
    with pytest.raises(KeyboardInterrupt):
        TeacherOutputs([teacher], store=tmp_path).fit(X)
    assert Asked.asked == 200
    Asked.limit = np.inf
    answers = TeacherOutputs([teacher], store=tmp_path).fit_transform(X)
    assert Asked.asked == 450
    np.testing.assert_array_equal(answers, TeacherOutputs([teacher]).fit_transform(X))


def test_a_half_written_chunk_is_read_again(teacher, tmp_path):
    X = np.random.default_rng(0).normal(size=(450, 3))
    expected = TeacherOutputs([teacher], store=tmp_path).fit_transform(X)
    (rows,) = tmp_path.glob("*.rows")
    (file,) = tmp_path.glob("*.npy")
    rows.write_text("300")
    answers = np.load(file, mmap_mode="r+")
    answers[300:] = np.nan
    answers.flush()
    np.testing.assert_array_equal(TeacherOutputs([teacher], store=tmp_path).fit_transform(X), expected)


def test_a_distiller_and_an_ensemble_pass_the_store_on(teacher, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 3))
    teachers, lists = [teacher, Asked(seed=1)], [["a", "b"], ["b", "c"]]
    for _ in range(2):
        HeterogeneousDistiller(teachers, KNeighborsClassifier(), class_lists=lists, store=tmp_path).fit(X)
        UnifiedEnsemble(teachers, class_lists=lists, store=tmp_path).fit(X)
    assert Asked.asked == 600


def test_a_teacher_that_cannot_be_pickled_is_told_why(tmp_path):
    teacher = Asked()
    teacher.preprocess = lambda X: X
    with pytest.raises(ValueError, match=r"Asked cannot be pickled.*lambdas"):
        TeacherOutputs([teacher], store=tmp_path).fit(np.zeros((5, 3)))


class SometimesSilent(Asked):
    """Says nothing about rows that begin with a large number."""

    def predict_proba(self, X):
        return np.where(X[:, :1] > 1, np.nan, super().predict_proba(X))


def test_stored_silence_is_an_error_where_silence_is_none(teacher, tmp_path):
    X = np.random.default_rng(0).normal(size=(450, 3))
    silent = SometimesSilent()
    kept = TeacherOutputs([silent], store=tmp_path, abstain=True).fit_transform(X)
    assert np.isnan(kept).any()
    first = int(np.argmax(X[:, 0] > 1))
    message = rf"stored of teacher 0 \(SometimesSilent\) gives NaN in .* first in row {first} .*abstain=True"
    with pytest.raises(ValueError, match=message):
        TeacherOutputs([silent], store=tmp_path).fit(X)
    np.testing.assert_array_equal(TeacherOutputs([silent], store=tmp_path, abstain=True).fit_transform(X), kept)
