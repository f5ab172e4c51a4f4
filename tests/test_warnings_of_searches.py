"""A search says the same thing once, not in every fit."""

import warnings
from functools import partial

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.model_selection import GridSearchCV, cross_val_score, learning_curve
from sklearn.naive_bayes import GaussianNB

from sklearn_uhc import FindingWarning, HeterogeneousDistiller, TeacherHoldoutSearch
from sklearn_uhc.utils import notes
from sklearn_uhc.utils.notes import warn_user

LISTS = [[0, 1, 2, 3], [1, 2, 3, 4], [0, 2, 3, 4], [0, 1, 3, 4]]
X, y = make_blobs(900, centers=5, n_features=4, random_state=0)


@pytest.fixture(autouse=True)
def nothing_was_said():
    """Forget what was said at the same lines in other tests."""
    notes._said.clear()


@pytest.fixture(scope="module")
def clf():
    """Return a distiller with a teacher whose classes are in the wrong order."""
    own = [np.flatnonzero(np.isin(y[:300], known)) for known in LISTS]
    teachers = [GaussianNB().fit(X[rows], y[rows]) for rows in own]
    return HeterogeneousDistiller(teachers, GaussianNB(), class_lists=[[3, 2, 1, 0], *LISTS[1:]])


def told(call):
    """Return the findings in the warnings of a call, and how many warnings are about class_lists."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    findings = [str(w.message) for w in caught if issubclass(w.category, FindingWarning)]
    return findings, sum("class_lists[0]" in str(w.message) for w in caught)


@pytest.mark.parametrize(
    "run",
    [
        lambda clf: GridSearchCV(clf, {"temperature": [1, 2]}, cv=3).fit,
        lambda clf: partial(cross_val_score, clf, cv=3),
        lambda clf: partial(learning_curve, clf, cv=3, train_sizes=[0.8, 1.0]),
        lambda clf: lambda X, y: TeacherHoldoutSearch(clf, {"temperature": [1, 2]}).fit(X),
    ],
)
def test_a_search_warns_once_and_the_next_one_again(clf, run):
    first = told(lambda: run(clf)(X[300:], y[300:]))
    second = told(lambda: run(clf)(X[300:], y[300:]))  # another line of the user's code
    for findings, others in (first, second):
        assert len(findings) == 1
        assert findings[0].startswith("Teacher 0 contradicts")
        assert others == 1  # that class_lists renames its outputs


def test_single_fits_warn_each_time(clf):
    for _ in range(2):
        assert len(told(lambda: clf.fit(X[300:]))[0]) == 1


def test_a_warning_that_is_an_error_fails_every_fit(clf):
    search = GridSearchCV(clf, {"temperature": [1, 2]}, cv=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("error", FindingWarning)
        with pytest.raises(ValueError, match="All the 6 fits failed"):
            search.fit(X[300:], y[300:])


def test_workers_warn_once_each(clf, capfd):
    search = GridSearchCV(clf, {"temperature": [1, 2, 3]}, cv=3, n_jobs=2)
    assert len(told(lambda: search.fit(X[300:], y[300:]))[0]) == 1  # the last fit
    assert capfd.readouterr().err.count("FindingWarning: ") <= 2


class Warns(GaussianNB):
    """Warn about the number of rows."""

    def fit(self, X, y):
        warn_user(f"{len(X)} rows", about="rows")
        warn_user(f"{len(X)} rows of {len(y)}")
        return super().fit(X, y)


def test_what_differs_in_figures_only_is_the_same():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        GridSearchCV(Warns(), {"var_smoothing": [1e-9, 1e-8]}, cv=7).fit(X, y)
    assert [str(w.message) for w in caught] == ["771 rows", "771 rows of 771", "772 rows of 772", "900 rows of 900"]
