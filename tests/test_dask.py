"""Dask collections as X, with Dask's local schedulers: lazy in, lazy out, the same answers as in memory."""

import json
import os

import dask
import dask.array as da
import dask.bag
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklearn_uhc import (
    CrossEntropyUnifier,
    FunctionTeacher,
    HeterogeneousDistiller,
    SoftLabelClassifier,
    TeacherCalibrator,
    TeacherMerger,
    TeacherOutputs,
    UnifiedEnsemble,
)

NAMES = np.array(["ash", "birch", "cedar", "dune"])
LISTS = [(0, 1, 2), (1, 2, 3), (0, 2, 3)]


@pytest.fixture(autouse=True)
def _one_thread():
    with dask.config.set(scheduler="synchronous"):
        yield


@pytest.fixture(scope="module")
def rows():
    X, y = make_blobs(600, n_features=4, centers=4, cluster_std=2.5, random_state=0)
    return pd.DataFrame(X, columns=list("abcd")), NAMES[y]


def fitted_teachers(X, y):
    kinds = [LogisticRegression(), GaussianNB(), DecisionTreeClassifier(max_depth=4, random_state=0)]
    known = [np.isin(y, NAMES[list(numbers)]) for numbers in LISTS]
    return {f"site{i}": kind.fit(X[mine], y[mine]) for i, (kind, mine) in enumerate(zip(kinds, known, strict=True))}


@pytest.fixture(scope="module", params=["frame", "array", "unknown sizes"])
def both(request, rows):
    """X in memory, the same as a collection, and teachers of its kind."""
    X, y = rows
    frame = dd.from_pandas(X, npartitions=4)
    if request.param == "frame":
        return X, frame, fitted_teachers(X, y)
    values = X.to_numpy()
    lazy = da.from_array(values, chunks=(170, 3)) if request.param == "array" else frame.to_dask_array()
    return values, lazy, fitted_teachers(values, y)


@pytest.fixture
def frames(rows):
    X, y = rows
    return X, dd.from_pandas(X, npartitions=4), fitted_teachers(X, y)


def assert_same(lazy, expected, atol=1e-10):
    """Compare the computed collection with its metadata, and with values in memory."""
    found = lazy.compute()
    if isinstance(found, pd.DataFrame):
        assert found.dtypes.equals(lazy._meta.dtypes)
        assert list(found.columns) == list(lazy.columns)
    else:
        assert found.dtype == lazy.dtype
    assert_allclose(np.asarray(found), np.asarray(expected), atol=atol)


@pytest.mark.parametrize("method", ["sd", "ce", "mf_p", "mf_lu", "mf_lf"])
def test_soft_labels_are_those_of_rows_in_memory(both, method):
    X, lazy, teachers = both
    merger = TeacherMerger(teachers, method=method).fit(lazy)
    assert_same(merger.transform(lazy), TeacherMerger(teachers, method=method).fit_transform(X))


def test_answers_are_those_of_rows_in_memory_with_names_and_index(both):
    X, lazy, teachers = both
    outputs = TeacherOutputs(teachers).fit(lazy)
    out = outputs.transform(lazy)
    assert_same(out, TeacherOutputs(teachers).fit_transform(X))
    if hasattr(X, "columns"):
        assert list(out.columns) == outputs.get_feature_names_out().tolist()
        assert_array_equal(out.compute().index, X.index)


def test_a_pipeline_of_steps_hands_the_class_lists_on(both):
    X, lazy, teachers = both
    steps = [TeacherOutputs(teachers), TeacherCalibrator(min_overlap=0), CrossEntropyUnifier()]
    expected = make_pipeline(*steps).fit_transform(X)
    pipeline = make_pipeline(*steps)
    assert_same(pipeline.fit_transform(lazy), expected)
    assert pipeline[-1].classes_.tolist() == NAMES.tolist()


def test_the_ensemble_is_that_of_rows_in_memory(both, rows):
    X, lazy, teachers = both
    here, there = (UnifiedEnsemble(teachers, balance=True).fit(rows) for rows in (X, lazy))
    assert_allclose(there.class_weight_, here.class_weight_, atol=1e-10)
    assert_same(there.predict_proba(lazy), here.predict_proba(X))
    assert_same(there.predict_log_proba(lazy), here.predict_log_proba(X))
    labels = there.predict(lazy)
    assert_array_equal(np.asarray(labels.compute()), here.predict(X))
    y = rows[1]
    lazy_y = dd.from_pandas(pd.Series(y), npartitions=4) if X is rows[0] else da.from_array(y, chunks=170)
    if lazy_y.npartitions == lazy.npartitions and not np.isnan(getattr(lazy, "chunks", [[0]])[0]).any():
        assert there.score(lazy, lazy_y) == pytest.approx(here.score(X, y))


def test_told_frequencies_count_as_in_memory(frames, tmp_path):
    X, lazy, teachers = frames
    prior = dict(zip(NAMES.tolist(), [0.6, 0.2, 0.2, 0.0], strict=True))
    here = HeterogeneousDistiller(teachers, GaussianNB(), class_prior=prior).fit(X).predict_proba(X)
    for store in (None, tmp_path):
        plain = HeterogeneousDistiller(TeacherMerger(teachers, store=store), GaussianNB()).fit(lazy)
        there = HeterogeneousDistiller(TeacherMerger(teachers, store=store), GaussianNB(), class_prior=prior).fit(lazy)
        assert_same(there.predict_proba(lazy), here, atol=1e-8)
        assert np.abs(plain.predict_proba(lazy).compute().to_numpy() - here).max() > 0.1  # not what was stored


def test_weights_of_rows_count_as_in_memory(frames):
    X, lazy, teachers = frames
    weight = pd.Series(np.random.default_rng(0).random(len(X)), index=X.index)
    here = UnifiedEnsemble(teachers, balance=True).fit(X, sample_weight=weight)
    there = UnifiedEnsemble(teachers, balance=True).fit(lazy, sample_weight=dd.from_pandas(weight, npartitions=4))
    assert_allclose(there.class_weight_, here.class_weight_, atol=1e-10)
    with pytest.raises(TypeError, match="sample_weight must be one too"):
        UnifiedEnsemble(teachers).fit(lazy, sample_weight=weight)
    with pytest.raises(ValueError, match="same blocks"):
        UnifiedEnsemble(teachers).fit(lazy, sample_weight=dd.from_pandas(weight, npartitions=2))


def test_columns_of_a_folder_of_files_keep_their_blocks(rows, counted, tmp_path):
    X, _ = rows
    table = X.assign(weight=np.random.default_rng(0).random(len(X)), **{f"other{i}": 0 for i in range(20)})
    dd.from_pandas(table, npartitions=12).to_parquet(tmp_path / "rows", write_index=False)
    frame = dd.read_parquet(tmp_path / "rows")
    lazy = frame[list(X.columns)] + 0.0
    assert lazy.optimize().npartitions < 12  # Dask joins files from which it reads few columns
    here = UnifiedEnsemble(counted, balance=True).fit(X, sample_weight=table["weight"])
    there = UnifiedEnsemble(TeacherMerger(counted, store=tmp_path / "store"), balance=True).fit(
        lazy, sample_weight=frame["weight"]
    )
    assert_allclose(there.class_weight_, here.class_weight_, atol=1e-10)
    asked = Counted.asked
    proba = there.predict_proba(lazy)
    assert proba.npartitions == 12
    assert_same(proba, here.predict_proba(X))
    assert Counted.asked == asked + len(X)  # by here


def test_temperatures_come_from_the_very_rows_that_are_taken_in_memory(frames, monkeypatch):
    X, lazy, teachers = frames
    monkeypatch.setattr("sklearn_uhc.dask.sampling.TIMES", 3)
    asked = []

    def answer(rows):
        asked.append(len(rows))
        return teachers["site0"].predict_proba(rows)

    all_teachers = {**teachers, "counted": FunctionTeacher(answer, teachers["site0"].classes_)}
    calibrator = TeacherCalibrator(min_overlap=0, max_samples=41)
    here = TeacherMerger(all_teachers, calibrate=calibrator).fit(X)
    asked.clear()
    there = TeacherMerger(all_teachers, calibrate=calibrator).fit(lazy)
    assert sum(asked) == 3 * 40 + 1
    assert (here.calibrator_.temperatures_ != 1).any()
    assert_allclose(there.calibrator_.temperatures_, here.calibrator_.temperatures_, rtol=1e-10)


class Counted:
    """A teacher that counts the rows it is called on, in this process, and may fail."""

    asked = 0
    fails_at = None

    def __init__(self, model):
        self.model, self.classes_ = model, model.classes_

    def predict_proba(self, X):
        values = np.asarray(X)
        if self.fails_at is not None and (values[:, 0] == self.fails_at).any():
            raise RuntimeError("no answer")
        type(self).asked += len(values)
        return self.model.predict_proba(X)


@pytest.fixture
def counted(frames):
    Counted.asked = 0
    yield {**frames[2], "counted": Counted(frames[2]["site0"])}
    Counted.fails_at = None


def test_nothing_is_asked_before_somebody_computes(frames, counted):
    _, lazy, _ = frames
    ensemble = UnifiedEnsemble(counted, balance=False).fit(lazy)
    Counted.asked = 0
    proba = ensemble.predict_proba(lazy)
    assert Counted.asked == 0
    proba.compute()
    assert Counted.asked == 600


def test_an_error_names_block_and_teacher(frames, counted):
    X, lazy, _ = frames
    ensemble = UnifiedEnsemble(counted, balance=False).fit(X)
    Counted.fails_at = X["a"].iloc[320]
    with pytest.raises(RuntimeError, match="no answer") as caught:
        ensemble.predict_proba(lazy).compute()
    notes = " ".join(caught.value.__notes__)
    assert "block 2 of X" in notes
    assert "teacher 'counted' (Counted)" in notes


def test_a_second_run_asks_no_teacher(frames, counted, tmp_path):
    _, lazy, _ = frames
    ensemble = UnifiedEnsemble(TeacherMerger(counted, store=tmp_path), balance=True)
    first = clone(ensemble).fit(lazy)
    assert Counted.asked == 1200  # the sample, and all rows
    second = clone(ensemble).fit(lazy)
    proba = second.predict_proba(lazy).compute()
    other = clone(ensemble).set_params(method="mf_lf").fit(lazy)
    assert Counted.asked == 1200
    assert_array_equal(second.class_weight_, first.class_weight_)
    here = clone(ensemble).set_params(teachers__store=None).fit(lazy.compute())
    assert_allclose(proba, here.predict_proba(lazy.compute()), atol=1e-10)
    assert len(list(tmp_path.glob("answers-*"))) == 4
    manifests = [json.loads(path.read_text()) for path in tmp_path.glob("soft_labels-*/manifest.json")]
    assert {manifest["method"] for manifest in manifests} == {"LogitFactorization", "CrossEntropyUnifier"}
    assert manifests[0]["columns"] == [*NAMES, "row weight"]
    assert other.classes_.tolist() == NAMES.tolist()


def test_a_run_that_failed_goes_on_at_the_blocks_that_are_missing(frames, counted, tmp_path):
    X, lazy, _ = frames
    merger = TeacherMerger(counted, store=tmp_path).fit(X.iloc[:100])
    Counted.fails_at, Counted.asked = X["a"].iloc[320], 0
    with pytest.raises(RuntimeError, match="no answer"):
        merger.transform(lazy).compute()
    assert 0 < Counted.asked < 600
    Counted.fails_at = None
    found = merger.transform(lazy).compute()
    assert Counted.asked == 600  # what was there was not asked for again
    assert_allclose(found, merger.transform(X), atol=1e-10)


DAMAGE = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "empty": lambda path: path.write_bytes(b""),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"x"),
    "one bit": lambda path: path.write_bytes(path.read_bytes()[:-50] + b"\x01" + path.read_bytes()[-49:]),
    "of another block": lambda path: path.write_bytes(path.with_name(sorted(os.listdir(path.parent))[1]).read_bytes()),
    "objects": lambda path: np.save(path, np.array([[{}]], dtype=object), allow_pickle=True),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
    "a link": lambda path: (path.rename(path.with_suffix(".old")), path.symlink_to(path.with_suffix(".old"))),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_not_used(damage, frames, counted, tmp_path):
    X, lazy, _ = frames
    merger = TeacherMerger(counted, store=tmp_path).fit(X.iloc[:100])
    expected = merger.transform(lazy).compute()
    file = sorted(tmp_path.glob("answers-*/*.npy"))[0]
    Counted.asked = 0
    DAMAGE[damage](file)
    with pytest.warns(UserWarning, match=rf"{file.name}.* has changed since it was written"):
        assert_allclose(merger.transform(lazy).compute(), expected)
    assert Counted.asked < 600, "only the damaged block is computed again"
    if damage != "a folder":
        assert_allclose(merger.transform(lazy).compute(), expected)  # it was replaced


def test_a_file_of_another_teacher_is_not_used(frames, counted, tmp_path):
    X, lazy, _ = frames
    merger = TeacherMerger(counted, store=tmp_path).fit(X.iloc[:100])
    expected = merger.transform(lazy).compute()
    one, other = (path / sorted(os.listdir(path))[0] for path in sorted(tmp_path.glob("answers-*"))[:2])
    assert one.name == other.name, "the same rows"
    one.write_bytes(other.read_bytes())
    with pytest.warns(UserWarning, match="changed since it was written"):
        assert_allclose(merger.transform(lazy).compute(), expected)


MANIFESTS = {
    "empty": lambda path: path.write_bytes(b""),
    "a list": lambda path: path.write_bytes(b"[]"),
    "nested": lambda path: path.write_bytes(b"[" * 10**6),
    "of others": lambda path: path.write_text('{"format": 1, "columns": ["elm"]}'),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", MANIFESTS)
def test_a_manifest_is_written_for_people_and_never_read(damage, frames, counted, tmp_path):
    X, lazy, _ = frames
    merger = TeacherMerger(counted, store=tmp_path).fit(X.iloc[:100])
    expected = merger.transform(lazy).compute()
    manifest = next(tmp_path.glob("answers-*/manifest.json"))
    right, Counted.asked = manifest.read_text(), 0
    MANIFESTS[damage](manifest)
    assert_allclose(merger.transform(lazy).compute(), expected)
    assert Counted.asked == 0
    assert manifest.is_dir() if damage == "a folder" else manifest.read_text() == right


def test_blocks_without_rows_and_images(frames):
    X, lazy, teachers = frames
    merger = TeacherMerger(teachers).fit(X)
    some = lazy[lazy["a"] > float(X["a"].quantile(0.98))]
    assert 0 in [len(part.compute()) for part in some.to_delayed()] or len(some) == 12
    assert_same(merger.transform(some), merger.transform(some.compute()))
    assert_same(merger.transform(lazy[lazy["a"] > 1e9]), np.empty((0, 4)))
    images = np.random.default_rng(0).random((50, 3, 4, 4))
    looking = FunctionTeacher(_brightness, ["dark", "light"])
    outputs = TeacherOutputs([looking]).fit(images)
    assert_same(outputs.transform(da.from_array(images, chunks=(20, 1, 4, 4))), outputs.transform(images))


def _brightness(images):
    p = images.mean(axis=(1, 2, 3))
    return np.column_stack([1 - p, p])


STUDENTS = [GaussianNB(), BernoulliNB(binarize=0.5), MultinomialNB()]


@pytest.mark.parametrize("student", STUDENTS, ids=lambda student: type(student).__name__)
def test_naive_bayes_learns_from_all_blocks_what_it_learns_in_memory(rows, student):
    X, y = rows[0].abs(), rows[1]
    teachers, lazy = fitted_teachers(X, y), dd.from_pandas(rows[0].abs(), npartitions=4)
    here = HeterogeneousDistiller(teachers, student).fit(X)
    there = HeterogeneousDistiller(teachers, SoftLabelClassifier(student, max_rows=100)).fit(lazy)
    for name in ("theta_", "var_", "class_prior_", "feature_log_prob_", "class_log_prior_"):
        if hasattr(here.student_.estimator_, name):
            learnt = getattr(there.student_.estimator_, name), getattr(here.student_.estimator_, name)
            assert_allclose(*learnt, rtol=1e-8, atol=1e-10)
    assert_array_equal(there.predict(lazy).compute(), there.predict(X))


def test_a_student_gets_the_same_rows_as_in_memory_if_they_fit(both):
    X, lazy, teachers = both
    here, there = (HeterogeneousDistiller(teachers, LogisticRegression(), balance=True).fit(rows) for rows in (X, lazy))
    assert_allclose(there.class_weight_, here.class_weight_, atol=1e-10)
    assert_same(there.predict_proba(lazy), here.predict_proba(X), atol=1e-8)
    assert there.n_features_in_ == 4


def test_partial_fit_goes_over_the_blocks_several_times(frames, rows):
    X, lazy, teachers = frames
    learner = make_pipeline(StandardScaler(), SGDClassifier(loss="log_loss", random_state=0))
    student = SoftLabelClassifier(learner, max_rows=100, random_state=0)
    here = HeterogeneousDistiller(teachers, student).fit(X)
    there = HeterogeneousDistiller(teachers, student).fit(lazy)
    last = there.student_.estimator_[-1]
    assert last.strategy_ == "epochs"
    assert last.estimator_.t_ > 5 * len(X)
    assert there.score(lazy.compute(), rows[1]) > here.score(X, rows[1]) - 0.05


def test_any_other_student_is_told_how_many_rows_it_gets(frames, monkeypatch):
    _, lazy, teachers = frames
    monkeypatch.setattr("sklearn_uhc.dask.students.BUDGET", 200 * (4 * 8 + 24 * 4))
    with pytest.warns(UserWarning, match=r"600 rows need .* trained on 200 rows, drawn by their weight"):
        clf = HeterogeneousDistiller(teachers, DecisionTreeClassifier(random_state=0)).fit(lazy)
    assert clf.student_.estimator_.tree_.n_node_samples[0] == pytest.approx(200, abs=4)
    clf = HeterogeneousDistiller(teachers, SoftLabelClassifier(DecisionTreeClassifier(), max_rows=50)).fit(lazy)
    assert clf.student_.estimator_.tree_.n_node_samples[0] <= 50


def test_rows_are_drawn_by_their_weight_and_the_loss_stays_the_same():
    from sklearn_uhc.dask.soft_blocks import Part, draw

    rng = np.random.default_rng(0)
    weight = np.minimum(rng.exponential(size=4000), 9.0)
    part = Part(np.arange(4000)[:, None], np.eye(2)[rng.integers(2, size=4000)], weight)
    drawn = [draw(part, number, 0.1, 0) for number in range(50)]
    assert np.mean([len(each.Q) for each in drawn]) == pytest.approx(0.1 * weight.sum(), rel=0.01)
    assert np.mean([each.weight @ each.Q for each in drawn], axis=0) == pytest.approx(weight @ part.Q, rel=0.02)
    assert np.ptp(drawn[0].weight) == pytest.approx(0.0, abs=1e-9)  # none was so heavy that it had to be there


def test_soft_labels_of_ones_own_train_a_student(frames):
    X, lazy, teachers = frames
    Q = TeacherMerger(teachers).fit(X).transform(lazy)
    here = SoftLabelClassifier(LogisticRegression(), classes=NAMES).fit(X, Q.compute())
    there = SoftLabelClassifier(LogisticRegression()).fit(lazy, Q)
    assert there.classes_.tolist() == NAMES.tolist()
    assert_same(there.predict_proba(lazy), here.predict_proba(X), atol=1e-8)
    with pytest.raises(TypeError, match="y must be one too"):
        SoftLabelClassifier(LogisticRegression()).fit(lazy, rows)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"backprop": True}, "backprop=True is not supported"),
        ({"balance": "yes"}, "balance must be"),
    ],
)
def test_what_needs_all_rows_in_memory_is_refused(frames, change, message):
    _, lazy, teachers = frames
    clf = HeterogeneousDistiller(teachers, GaussianNB(), **change)
    with pytest.raises(ValueError, match=message):
        clf.fit(lazy)
    assert not hasattr(clf, "merger_")


def test_mistakes_are_told_before_anything_is_computed(frames, rows):
    X, lazy, teachers = frames
    merger = TeacherMerger(teachers).fit(X)
    with pytest.raises(ValueError, match="feature names should match"):
        merger.transform(lazy[["a", "b"]])
    with pytest.raises(ValueError, match=r"y is not supported.*Dask"):
        UnifiedEnsemble(teachers).fit(lazy, rows[1])
    with pytest.raises(ValueError, match="needs a table in memory"):
        merger.set_output(transform="pandas").transform(lazy)
    with pytest.raises(TypeError, match=r"bag\.to_dataframe"):
        TeacherMerger(teachers).fit(dask.bag.from_sequence([1, 2]))
    with pytest.raises(ValueError, match="no rows"):
        TeacherMerger(teachers).fit(lazy[lazy["a"] > 1e9])
    with pytest.raises(ValueError, match="score without labels"):
        UnifiedEnsemble(teachers).fit(X).score(lazy)
    with pytest.raises(TypeError, match="y must be one too"):
        UnifiedEnsemble(teachers).fit(X).score(lazy, rows[1])
