"""Answers on disk: read once, resumed after an interruption."""

import os
import pickle
import sys
import tracemalloc

import numpy as np
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier

from sklearn_uhc import HeterogeneousDistiller, TeacherMerger, TeacherOutputs, UnifiedEnsemble


class Asked:
    """A teacher that counts the rows it is called on, and may be interrupted."""

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
    # Another teacher or other rows are computed again.
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


#: Replacements of a file of the store. Each gets the file and one of other rows.
DAMAGES = {
    "empty": lambda file, other: file.write_bytes(b""),
    "truncated": lambda file, other: file.write_bytes(file.read_bytes()[:-30]),
    "longer": lambda file, other: file.write_bytes(file.read_bytes() + b"0"),
    "a value changed": lambda file, other: file.write_bytes(flip(file.read_bytes(), 500)),
    "its header changed": lambda file, other: file.write_bytes(flip(file.read_bytes(), 50)),
    "other rows": lambda file, other: file.write_bytes(other.read_bytes()),
    "an array of its shape": lambda file, other: np.save(file, np.log(np.full((100, 2), 0.5))),
    "an array of another shape": lambda file, other: np.save(file, np.zeros((7, 3))),
    "an object": lambda file, other: np.save(file, np.array([{}, None], dtype=object), allow_pickle=True),
    "text": lambda file, other: file.write_text("12"),
    "a link": lambda file, other: (file.unlink(), file.symlink_to(other)),
    "a link to itself": lambda file, other: (file.unlink(), file.symlink_to(file)),
    "a pipe": lambda file, other: (file.unlink(), os.mkfifo(file)),
}


def flip(content, i):
    return content[:i] + bytes([content[i] ^ 1]) + content[i + 1 :]


@pytest.mark.skipif(sys.platform == "win32", reason="links and pipes")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_is_not_as_it_was_written_is_read_anew(damage, teacher, tmp_path):
    X = np.random.default_rng(0).normal(size=(450, 3))
    expected = TeacherOutputs([teacher], store=tmp_path).fit_transform(X)
    Asked.asked = 0
    file, other = next(tmp_path.glob("*-100-200.npy")), next(tmp_path.glob("*-200-300.npy"))
    written, others = file.read_bytes(), other.read_bytes()
    DAMAGES[damage](file, other)
    with pytest.warns(UserWarning, match=rf"1 files in the store .* teacher 0 \(Asked\) was called again.*{file.name}"):
        found = TeacherOutputs([teacher], store=tmp_path).fit_transform(X)
    np.testing.assert_array_equal(found, expected)
    assert Asked.asked == 100
    assert not file.is_symlink()
    assert file.read_bytes() == written
    assert other.read_bytes() == others
    TeacherOutputs([teacher], store=tmp_path).fit(X)
    assert Asked.asked == 100


def test_files_of_others_in_the_folder_do_not_matter(teacher, tmp_path):
    X = np.random.default_rng(0).normal(size=(450, 3))
    for name in ("notes.npy", "1a2b.npy", "1a2b.rows", "1a2b-0-100.npy.part"):
        (tmp_path / name).write_text("mine")
    expected = TeacherOutputs([teacher]).fit_transform(X)
    np.testing.assert_array_equal(TeacherOutputs([teacher], store=tmp_path).fit_transform(X), expected)
    assert sorted(path.name for path in tmp_path.iterdir() if path.read_bytes() == b"mine") == sorted(
        ["notes.npy", "1a2b.npy", "1a2b.rows", "1a2b-0-100.npy.part"]
    )


def test_a_file_of_the_store_is_an_ordinary_one(teacher, tmp_path):
    X = np.random.default_rng(0).normal(size=(450, 3))
    expected = TeacherOutputs([teacher], store=tmp_path).fit_transform(X)
    files = sorted(tmp_path.iterdir(), key=lambda path: int(path.stem.split("-")[2]))
    assert [path.stem.split("-")[2:] for path in files][-1] == ["400", "450"]
    np.testing.assert_allclose(np.concatenate([np.load(path) for path in files]), expected)
    umask = os.umask(0)
    os.umask(umask)
    assert {path.stat().st_mode & 0o777 for path in files} == {0o666 & ~umask}


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble, ">f4"])
def test_all_kinds_of_floats_can_be_stored(dtype, teacher, tmp_path):
    X = np.random.default_rng(0).normal(size=(450, 3)).astype(dtype)
    expected = TeacherOutputs([teacher]).fit_transform(X)
    for _ in range(2):
        found = TeacherOutputs([teacher], store=tmp_path).fit_transform(X)
        np.testing.assert_allclose(found, expected, rtol=1e-14)
        assert found.dtype == (np.float64 if dtype is np.longdouble else expected.dtype)
    assert Asked.asked == 900


def test_less_working_memory_goes_on_with_the_same_files(teacher, tmp_path):
    X = np.random.default_rng(0).normal(size=(450, 3))
    Asked.limit = 250
    with pytest.raises(KeyboardInterrupt):
        TeacherOutputs([teacher], store=tmp_path).fit(X)
    Asked.limit = np.inf
    with sklearn.config_context(working_memory=30 * 56 / 2**20):
        found = TeacherOutputs([teacher], store=tmp_path).fit_transform(X)
    assert Asked.asked == 450
    np.testing.assert_array_equal(found, TeacherOutputs([teacher]).fit_transform(X))


class Wide:
    """A teacher of many classes."""

    classes_ = np.arange(40)

    def decision_function(self, X):
        return X * np.arange(40.0)


def test_stored_answers_are_never_in_memory_together(teacher, tmp_path):
    X = np.random.default_rng(0).normal(size=(20_000, 1))
    tracemalloc.start()
    found = TeacherOutputs([Wide(), Wide()], class_lists=[range(40), range(20, 60)], store=tmp_path).fit_transform(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.shape == (20_000, 80)
    assert peak < found.nbytes / 5
    found[0] = 0  # it is an array like any other, but for where it is
    assert pickle.loads(pickle.dumps(found)).shape == found.shape
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".npy"] * 200


def test_a_distiller_and_an_ensemble_pass_the_store_on(teacher, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 3))
    teachers, lists = [teacher, Asked(seed=1)], [["a", "b"], ["b", "c"]]
    for _ in range(2):
        HeterogeneousDistiller(TeacherMerger(teachers, store=tmp_path), KNeighborsClassifier(), class_lists=lists).fit(
            X
        )
        UnifiedEnsemble(TeacherMerger(teachers, store=tmp_path), class_lists=lists).fit(X)
    assert Asked.asked == 600


def test_a_search_asks_once_per_fold_however_many_candidates_there_are(teacher, tmp_path):
    X = np.random.default_rng(0).normal(size=(90, 3))
    teachers, lists = [teacher, Asked(seed=1)], [["a", "b"], ["b", "c"]]
    asked = {}
    for store in (None, tmp_path):
        Asked.asked = 0
        clf = HeterogeneousDistiller(TeacherMerger(teachers, store=store), KNeighborsClassifier(), class_lists=lists)
        GridSearchCV(clf, {"student__n_neighbors": [1, 3, 5]}, cv=3).fit(X)
        asked[store] = Asked.asked / (len(teachers) * len(X))
    assert asked == {None: 10, tmp_path: 4}  # folds times candidates, or folds, and the final fit


def test_a_teacher_that_cannot_be_pickled_is_told_why(tmp_path):
    teacher = Asked()
    teacher.preprocess = lambda X: X
    with pytest.raises(ValueError, match=r"Asked cannot be pickled.*lambdas"):
        TeacherOutputs([teacher], store=tmp_path).fit(np.zeros((5, 3)))


class SometimesSilent(Asked):
    """Silent for rows that begin with a large number."""

    def predict_proba(self, X):
        return np.where(X[:, :1] > 1, np.nan, super().predict_proba(X))


def test_stored_silence_is_an_error_where_silence_is_none(teacher, tmp_path):
    X = np.random.default_rng(0).normal(size=(450, 3))
    silent = SometimesSilent()
    kept = TeacherOutputs([silent], store=tmp_path, abstain=True).fit_transform(X)
    assert np.isnan(kept).any()
    first = int(np.argmax(X[:, 0] > 1))
    message = rf"stored of teacher 0 \(SometimesSilent\) returns NaN in .* first in row {first} .*abstain=True"
    with pytest.raises(ValueError, match=message):
        TeacherOutputs([silent], store=tmp_path).fit(X)
    np.testing.assert_array_equal(TeacherOutputs([silent], store=tmp_path, abstain=True).fit_transform(X), kept)


def test_a_folder_in_the_place_of_a_file_is_left_there(teacher, tmp_path):
    X = np.random.default_rng(0).normal(size=(150, 3))
    outputs = TeacherOutputs([teacher], store=tmp_path)
    first = outputs.fit_transform(X)
    file = sorted(tmp_path.glob("*.npy"))[0]
    file.unlink()
    file.mkdir()
    with pytest.warns(UserWarning, match=rf"had changed since they were written.*{file.name}"):
        np.testing.assert_array_equal(outputs.transform(X), first)
    assert file.is_dir()
    assert not list(tmp_path.glob("*.part"))
