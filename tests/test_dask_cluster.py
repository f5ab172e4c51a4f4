"""A real cluster of two processes: teachers are sent once, workers die, boosters train where the rows are."""

import os
import signal
import sys
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pytest
from distributed import Client, KilledWorker, LocalCluster
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB

from sklearn_uhc import (
    HeterogeneousDistiller,
    SoftLabelClassifier,
    TeacherHoldoutSearch,
    TeacherMerger,
    UnifiedEnsemble,
)
from sklearn_uhc.dask import SharedTeachers

N_BLOCKS = 6
LIMIT = 500 * 2**20

#: Messages of distributed when a cluster is shut down on a busy machine, or a worker dies.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:.*worker.*:UserWarning")


@contextmanager
def cluster_of(memory_limit):
    settings = {"n_workers": 2, "threads_per_worker": 2, "memory_limit": memory_limit, "dashboard_address": ":0"}
    quick = {
        "distributed.scheduler.allowed-failures": 1,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.target": False,
        "distributed.worker.memory.terminate": 0.9,
    }
    with dask.config.set(quick), LocalCluster(**settings) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def client():
    """Workers without a limit: torch, LightGBM and XGBoost together need more than `LIMIT`."""
    with cluster_of(None) as client:
        yield client


@pytest.fixture
def small_client():
    with cluster_of(LIMIT) as client:
        yield client


@pytest.fixture(scope="module")
def rows():
    X, y = make_blobs(900, n_features=4, centers=4, cluster_std=2.5, random_state=0)
    return pd.DataFrame(X, columns=list("abcd")), y


@pytest.fixture
def lazy(rows):
    return dd.from_pandas(rows[0], npartitions=N_BLOCKS)


def teachers_of(rows):
    X, y = rows
    known = [y != 3, y != 0, y != 1]
    return {f"site{i}": LogisticRegression().fit(X[mine], y[mine]) for i, mine in enumerate(known)}


class Logged:
    """A teacher that logs where it is unpickled and called; files can tell it to kill its process."""

    def __init__(self, rows, folder, does="answer", at=None):
        self.model = LogisticRegression().fit(rows[0][rows[1] != 3], rows[1][rows[1] != 3])
        self.classes_ = self.model.classes_
        self.folder, self.does, self.at = str(folder), does, at

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._log("unpickled")

    def _log(self, what):
        with open(Path(self.folder) / "log.txt", "a") as file:
            file.write(f"{what} {os.getpid()}\n")

    def count(self, what):
        path = Path(self.folder) / "log.txt"
        lines = path.read_text().splitlines() if path.exists() else []
        return [line for line in lines if line.startswith(what)]

    def predict_proba(self, X):
        values = np.asarray(X)
        calm = Path(self.folder) / "calm"
        if self.at is not None and (values[:, 0] == self.at).any() and not calm.exists():
            self._misbehave(calm)
        self._log("asked")
        return self.model.predict_proba(X)

    def _misbehave(self, calm):
        if self.does == "die":
            calm.touch()  # the next one lives
            os.kill(os.getpid(), signal.SIGKILL)
        if self.does == "fail":
            raise RuntimeError("no answer")
        hoard = []
        for _ in range(200):  # until the nanny ends this process
            hoard.append(np.ones(2**21))
            time.sleep(0.05)


def test_teachers_travel_to_each_worker_once(client, rows, lazy, tmp_path):
    teacher = Logged(rows, tmp_path)
    ensemble = UnifiedEnsemble({**teachers_of(rows), "logged": teacher}, balance=False).fit(rows[0])
    asked = len(teacher.count("asked"))
    proba, labels = dask.compute(ensemble.predict_proba(lazy), ensemble.predict(lazy))
    assert len(teacher.count("asked")) == asked + 2 * N_BLOCKS
    unpickled = teacher.count("unpickled")
    assert len(unpickled) == len(set(unpickled)) <= 2
    assert_allclose(proba, ensemble.predict_proba(rows[0]), atol=1e-10)
    assert_array_equal(labels, ensemble.predict(rows[0]))


def test_a_worker_that_is_killed_changes_nothing_and_a_second_run_asks_no_teacher(client, rows, lazy, tmp_path):
    teacher = Logged(rows, tmp_path, "die", at=rows[0]["a"].iloc[500])
    teachers, params = {**teachers_of(rows), "logged": teacher}, {"balance": True}
    merger = TeacherMerger(teachers, store=tmp_path / "store", calibrate=False)
    clf = HeterogeneousDistiller(merger, GaussianNB(), **params)
    with pytest.MonkeyPatch.context() as patch:  # the sample is read in this process, which must not die
        patch.setattr("sklearn_uhc.dask.sampling.LEARNT_FROM", 2)
        patch.setattr("sklearn_uhc.dask.sampling.TIMES", 1)
        there = clone(clf).fit(lazy)
        assert (tmp_path / "calm").exists()
        asked = len(teacher.count("asked"))
        again = clone(clf).fit(lazy)
    assert len(teacher.count("asked")) == asked
    here = HeterogeneousDistiller(TeacherMerger(teachers, calibrate=False), GaussianNB(), **params).fit(rows[0])
    for fitted in (there, again):
        assert_allclose(fitted.class_weight_, here.class_weight_, rtol=1e-10)
        assert_allclose(fitted.predict_proba(lazy).compute(), here.predict_proba(rows[0]), atol=1e-8)
    client.wait_for_workers(2, timeout=60)
    assert all(client.run(has_the_package).values())  # the new one as well, whatever it has been asked to do


def has_the_package():
    return "sklearn_uhc.dask.students" in sys.modules


@pytest.mark.slow
def test_a_worker_without_memory_is_named_with_its_block_and_nothing_finished_is_lost(
    small_client, rows, lazy, tmp_path
):
    teacher = Logged(rows, tmp_path, "hoard", at=rows[0]["a"].iloc[-1])
    (tmp_path / "calm").touch()
    teachers = {**teachers_of(rows), "logged": teacher}
    merger = TeacherMerger(teachers, store=tmp_path / "store").fit(rows[0])
    (tmp_path / "calm").unlink()
    with pytest.raises(KilledWorker, match=r"uhc-transform.*5"):
        merger.transform(lazy).compute()
    done = len(teacher.count("asked"))
    assert done > 1
    (tmp_path / "calm").touch()
    found = merger.transform(lazy).compute()
    assert len(teacher.count("asked")) - done < N_BLOCKS
    assert_allclose(found, merger.transform(rows[0]), atol=1e-10)


def test_an_error_on_the_cluster_names_block_and_teacher(client, rows, lazy, tmp_path):
    teacher = Logged(rows, tmp_path, "fail", at=rows[0]["a"].iloc[500])
    (tmp_path / "calm").touch()
    merger = TeacherMerger({**teachers_of(rows), "logged": teacher}).fit(rows[0])
    (tmp_path / "calm").unlink()
    with pytest.raises(RuntimeError, match="no answer") as caught:
        merger.transform(lazy).compute()
    notes = " ".join(caught.value.__notes__)
    assert "block 3 of X" in notes
    assert "teacher 'logged' (Logged)" in notes


@pytest.mark.slow
def test_boosters_learn_where_the_rows_are(client, rows, lazy):
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    boosters = [
        xgboost.XGBClassifier(n_estimators=10, max_depth=3),
        lightgbm.LGBMClassifier(n_estimators=10, verbose=-1),
    ]
    teachers = teachers_of(rows)
    for booster in boosters:
        student = SoftLabelClassifier(booster, max_rows=100)
        here = HeterogeneousDistiller(teachers, student).fit(rows[0])
        there = HeterogeneousDistiller(teachers, student).fit(lazy)
        assert there.student_.strategy_ == "direct"
        assert type(there.student_.estimator_) is type(booster)
        off = np.abs(there.predict_proba(rows[0]) - here.predict_proba(rows[0]))
        assert (off > 0.25).mean() < 0.01  # which worker bins which rows moves some thresholds
        assert off.mean() < 0.02


@pytest.mark.slow
def test_networks_learn_from_a_stream_of_blocks(client, rows):
    torch = pytest.importorskip("torch")
    X = rows[0].to_numpy(np.float32)
    teachers = teachers_of((X, rows[1]))
    torch.manual_seed(0)
    student = SoftLabelClassifier(torch.nn.Linear(4, 4), max_rows=100, random_state=0)
    here = HeterogeneousDistiller(teachers, student).fit(X)
    there = HeterogeneousDistiller(teachers, student).fit(da.from_array(X, chunks=(300, 4)))
    assert len(there.student_.estimator_.history) == 250  # an epoch is a pass over all blocks
    assert np.abs(there.predict_proba(X) - here.predict_proba(X)).mean() < 0.02


def test_searches_on_the_cluster_do_not_copy_teachers_for_every_candidate(client, rows, tmp_path):
    X, _ = rows
    teacher = Logged(rows, tmp_path)
    teachers = {**teachers_of(rows), "logged": teacher}
    grid = {"student__var_smoothing": np.logspace(-9, 0, 6)}
    here, there = (HeterogeneousDistiller(each, GaussianNB()) for each in (teachers, SharedTeachers(teachers)))
    for search in (partial(GridSearchCV, cv=2), partial(TeacherHoldoutSearch, folds=2)):
        before = len(teacher.count("unpickled"))
        with joblib.parallel_config(backend="dask"):
            found = search(there, grid).fit(X)
        assert len(teacher.count("unpickled")) - before <= (2 if isinstance(found, GridSearchCV) else 0)
        alone = search(here, grid).fit(X)
        for score in ("mean_test_score", "std_test_score"):
            assert_allclose(found.cv_results_[score], alone.cv_results_[score], atol=1e-10)
        assert np.isfinite(found.cv_results_["mean_test_score"]).all()
