"""Labels of some rows: reading y, scoring, folds, and pooling."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import approx_fprime
from scipy.special import log_softmax, softmax
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss

from sklearn_uhc import OTHER, LabelledKFold, labelled_scorer
from sklearn_uhc.labels import Pool, fit_pool, is_labelled, read_labels
from sklearn_uhc.labels.experts import fold_of_rows, out_of_fold, train_expert
from sklearn_uhc.labels.pool import RIDGE, best_doubt, by_groups
from sklearn_uhc.students import SoftLabelClassifier

KNOWN = np.array([True, False, True, True, False])
CODES = np.array([0, 1, 2, 1, 0])
NAMES = np.array(["cat", "dog", "eel"])


def masked(values, missing, dtype=object):
    out = np.asarray(values).astype(object)
    out[~KNOWN] = missing
    return out.astype(dtype)


def objects(values):
    out = np.empty(len(values), dtype=object)
    out[:] = values
    return out


NUMBERS = {
    "-1": masked(CODES, -1, int),
    "float NaN": masked(CODES, np.nan, float),
    "float -1": masked(CODES, -1, float),
    "objects None": masked(CODES, None),
    "objects NaN": masked(CODES, np.nan),
    "list None": [0, None, 2, 1, None],
    "Int64": pd.Series(masked(CODES, pd.NA), dtype="Int64"),
    "Float64": pd.Series(masked(CODES, pd.NA), dtype="Float64"),
    "category": pd.Series(masked(CODES, None), dtype="category"),
}
TEXTS = {
    "objects None": masked(NAMES[CODES], None),
    "objects NaN": masked(NAMES[CODES], np.nan),
    "objects -1": masked(NAMES[CODES], -1),
    "texts -1": np.where(KNOWN, NAMES[CODES], "-1"),
    "list None": masked(NAMES[CODES], None).tolist(),
    "list -1": masked(NAMES[CODES], -1).tolist(),
    "string": pd.Series(masked(NAMES[CODES], None), dtype="string"),
    "str": pd.Series(masked(NAMES[CODES], None)),
    "category": pd.Series(masked(NAMES[CODES], None), dtype="category"),
}


@pytest.mark.parametrize(
    ("y", "classes"),
    [pytest.param(y, np.arange(3), id=f"numbers, {form}") for form, y in NUMBERS.items()]
    + [pytest.param(y, NAMES, id=f"texts, {form}") for form, y in TEXTS.items()],
)
def test_every_form_of_y_says_the_same(y, classes):
    np.testing.assert_array_equal(is_labelled(y, classes), KNOWN)
    labels = read_labels(y, np.zeros((5, 1)), classes)
    np.testing.assert_array_equal(labels.rows, [0, 2, 3])
    np.testing.assert_array_equal(labels.codes, [0, 2, 1])
    assert labels.classes is classes
    assert len(labels) == 3
    assert labels.n == 5
    assert not labels.new.any()


def test_classes_as_objects():
    labels = read_labels(np.array(["cat", "dog"]), None, NAMES.astype(object))
    assert labels.codes.tolist() == [0, 1]
    assert labels.classes.dtype == object


@pytest.mark.parametrize("y", [None, np.full(5, -1), [None] * 5, np.full(5, np.nan), np.full(5, "-1")])
def test_no_label_is_like_no_y(y):
    assert read_labels(y, np.zeros((5, 1)), NAMES) is None


def test_minus_one_is_a_class_if_a_teacher_has_it():
    classes = np.array([-1, 1])
    with pytest.raises(ValueError, match=r"y has -1, which is one of the classes.*None or NaN.*y.astype\(object\)"):
        read_labels(np.array([-1, 1, -1]), None, classes)
    assert read_labels(np.array([-1, 1, np.nan]), None, classes).codes.tolist() == [0, 1]
    assert read_labels(np.array([-1, None, 1], dtype=object), None, classes).codes.tolist() == [0, 1]
    assert read_labels(np.array([-1, 1, -1], dtype=object), None, classes).codes.tolist() == [0, 1, 0]
    assert read_labels(np.array([1, 1]), None, classes).codes.tolist() == [1, 1]
    with pytest.raises(ValueError, match=r"y has '-1'.*one of the classes"):
        read_labels(np.array(["-1", "1"]), None, np.array(["-1", "1"]))


def test_classes_that_only_y_names():
    with pytest.warns(UserWarning, match=r"y holds classes that no teacher knows: \['bee'\]. They are learned"):
        labels = read_labels(["bee", None, "eel"], None, NAMES)
    assert labels.classes.tolist() == ["bee", "cat", "dog", "eel"]
    assert labels.new.tolist() == [True, False, False, False]
    assert labels.codes.tolist() == [0, 3]
    with pytest.warns(UserWarning, match=r"\[7.0\]"):
        labels = read_labels([7.0, np.nan, 2.0], None, np.arange(3))
    assert labels.classes.tolist() == [0, 1, 2, 7]
    assert labels.classes.dtype.kind == "i"


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (["ant", "bee"], r"No teacher knows any class of y: y has \['ant', 'bee'\]"),
        ([1, 2], r"No teacher knows any class of y: y has \[1, 2\]"),
        (["cat", 1], r"y has \[1\], but the teachers' classes are strings, such as 'cat'"),
        (np.array(["cat", np.nan]), "y has the string 'nan'.*np.where"),
        ([["cat", "dog"]] * 2, "y should be a 1d array"),
    ],
)
def test_what_is_wrong_with_y(y, message):
    with pytest.raises(ValueError, match=message):
        read_labels(y, np.zeros((2, 1)), NAMES)


@pytest.mark.parametrize("y", [["a", ("a", "b"), None], [("a", "b")] * 3, [OTHER, "a", None]])
@pytest.mark.parametrize("form", [list, objects, lambda y: pd.Series(objects(y))])
def test_a_label_is_not_a_set(form, y):
    with pytest.raises(TypeError, match=r"y has the label .*a label is one class, not a set or OTHER: pass None"):
        read_labels(form(y), None, np.array(["a", "b"]))


def test_a_mask_is_not_taken_for_labels():
    mask = np.array([True, False, True, False])
    with pytest.raises(ValueError, match=r"y holds True and False.*\[0, 1, 2\]"):
        read_labels(mask, None, np.arange(3))
    assert read_labels(mask, None, np.arange(3), foreign="ignore") is None
    assert len(read_labels(mask, None, np.array([False, True]))) == 4


def test_messages_say_that_there_are_more_classes():
    with pytest.raises(ValueError, match=r"y has \['cat'\], the teachers know \[.*7, '...'\]"):
        read_labels(["cat"], None, np.arange(9))


def test_few_labels_of_many_classes_are_not_taken_for_a_regression():
    assert len(read_labels(np.arange(40.0), None, np.arange(40))) == 40  # a warning would be an error


def test_more_that_is_wrong_with_y():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        read_labels(["cat", None], np.zeros((3, 1)), NAMES)
    with pytest.raises(ValueError, match="infinity"):
        read_labels([0.0, np.inf], None, np.arange(3))
    with pytest.raises(ValueError, match="Unknown label type"):
        read_labels([0.5, 1.0], None, np.arange(3))
    assert read_labels(["ant"], None, NAMES, foreign="ignore") is None


def test_folds_spread_every_class_and_the_other_rows():
    y = np.array(["cat"] * 10 + ["dog"] * 5 + [None] * 25, dtype=object)
    y = y[np.random.default_rng(0).permutation(40)]
    folds = LabelledKFold(5, random_state=0)
    tests = []
    for train, test in folds.split(np.zeros((40, 2)), y):
        assert len(np.intersect1d(train, test)) == 0
        assert len(train) + len(test) == 40
        assert (y[test] == "cat").sum() == 2
        assert (y[test] == "dog").sum() == 1
        tests.append(test)
    assert np.sort(np.concatenate(tests)).tolist() == list(range(40))
    again = [test for _, test in folds.split(np.zeros((40, 2)), y)]
    assert all(map(np.array_equal, tests, again))
    other = [test for _, test in LabelledKFold(5, random_state=1).split(np.zeros((40, 2)), y)]
    assert not all(map(np.array_equal, tests, other))
    assert folds.get_n_splits() == 5


@pytest.mark.parametrize("y", [NUMBERS["-1"], NUMBERS["float NaN"], NUMBERS["Int64"], TEXTS["objects None"]])
def test_no_fold_without_a_label(y):
    for _, test in LabelledKFold(3).split(np.zeros((5, 1)), y):
        assert is_labelled(y)[test].sum() == 1
    with pytest.raises(ValueError, match="number of labelled rows, 3"):
        next(LabelledKFold(4).split(np.zeros((5, 1)), y))


def test_what_folds_need():
    with pytest.raises(ValueError, match="pass y"):
        next(LabelledKFold().split(np.zeros((5, 1))))
    with pytest.raises(ValueError, match="n_splits must be"):
        next(LabelledKFold(2.5).split(np.zeros((5, 1)), NUMBERS["-1"]))
    with pytest.raises(ValueError, match="5 entries for 4 rows"):
        next(LabelledKFold(2).split(np.zeros((4, 1)), NUMBERS["-1"]))


def test_scorers_count_labelled_rows_only():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(3, size=60)
    clf, known = LogisticRegression().fit(X, y), np.arange(60) % 3 == 0
    some = np.where(known, y, -1)
    assert labelled_scorer("accuracy")(clf, X, some) == clf.score(X[known], y[known])
    expected = balanced_accuracy_score(y[known], clf.predict(X[known]))
    assert labelled_scorer("balanced_accuracy")(clf, X, some) == expected
    one = np.where(y == 1, y, -1)  # scikit-learn's own needs all classes
    expected = -log_loss(y[y == 1], clf.predict_proba(X[y == 1]), labels=[0, 1, 2])
    assert labelled_scorer("neg_log_loss")(clf, X, one) == pytest.approx(expected)
    assert labelled_scorer(lambda model, X, y: len(y))(clf, X, some) == 20
    assert repr(labelled_scorer("accuracy")) == "labelled_scorer('accuracy')"
    with pytest.raises(ValueError, match=r"No row has a label.*LabelledKFold"):
        labelled_scorer("accuracy")(clf, X, np.full(60, -1))
    with pytest.raises(ValueError, match="not a valid scoring"):
        labelled_scorer("magic")
    with pytest.raises(TypeError, match="scoring must be the name"):
        labelled_scorer(5)


def test_a_class_minus_one_counts_if_the_model_has_it():
    clf = DummyClassifier(strategy="constant", constant=-1).fit([[0], [1]], [-1, 1])
    assert labelled_scorer("accuracy")(clf, [[0], [1], [2]], [-1, 1, None]) == 0.5


def random_pool(rng, m=40, L=4):
    sources = log_softmax(rng.normal(size=(3, m, L)) * 2, axis=2)
    codes = rng.integers(L, size=m)
    return sources, codes, np.array([1.0, 0.0, 0.0])


def test_the_pool_is_where_its_gradient_vanishes():
    rng = np.random.default_rng(0)
    sources, codes, start = random_pool(rng)
    codes = np.where(rng.random(40) < 0.7, sources[1].argmax(axis=1), codes)
    weight = rng.uniform(0.5, 2, size=40)
    pool = fit_pool(sources, codes, start, weight)

    def loss(theta):
        log_q = log_softmax(np.tensordot(theta[:3], sources, 1) + theta[3:], axis=1)
        penalty = RIDGE / 2 * (((theta[:3] - start) ** 2).sum() + (theta[3:] ** 2).sum())
        return -weight @ log_q[np.arange(40), codes] + penalty

    gradient = approx_fprime(np.append(pool.weight, pool.bias), loss, 1e-6)
    free = np.append(pool.weight > 0, np.ones(4, dtype=bool))
    np.testing.assert_allclose(gradient[free], 0, atol=1e-3)
    assert (gradient[~free] > -1e-3).all()
    assert pool.weight[1] > 0.1
    np.testing.assert_allclose(pool(sources).sum(axis=1), 1)


def test_without_evidence_the_first_opinion_is_all():
    sources, codes, start = random_pool(np.random.default_rng(0))
    pool = fit_pool(sources, codes, start, np.full(40, 1e-9))
    np.testing.assert_allclose(pool(sources), softmax(sources[0], axis=1), atol=1e-6)
    alone = Pool(np.array([1.0]), np.zeros(4))
    np.testing.assert_allclose(alone(sources[:1]), np.exp(sources[0]))


def test_opinions_are_flattened_by_as_much_as_they_err():
    P = np.eye(3)[[0, 1, 2] * 10]
    ones = np.ones(30)
    right = np.tile([0, 1, 2], 10)
    assert best_doubt(P, right, ones) == 0.001
    assert best_doubt(P, (right + (np.arange(30) % 5 == 0)) % 3, ones) == 0.3


def test_groups_that_nobody_links_are_apart():
    log_p = log_softmax(np.random.default_rng(0).normal(size=(5, 4)), axis=1)
    assert by_groups(log_p, np.zeros(4, dtype=int))[0] is log_p
    within, between = by_groups(log_p, np.array([0, 1, 0, 1]))
    np.testing.assert_allclose(within + between, log_p)
    np.testing.assert_allclose(np.exp(within)[:, [0, 2]].sum(axis=1), 1)
    np.testing.assert_allclose(between[:, 0], between[:, 2])


def test_experts_leave_classes_that_they_do_not_know_to_the_merge():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(30, 2)), np.repeat([0, 2], 15)
    X[15:] += 5
    Q = softmax(rng.normal(size=(30, 4)), axis=1)
    expert = train_expert(SoftLabelClassifier(LogisticRegression()), X, codes, 4, np.ones(30))
    P = expert.says(X, Q)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    np.testing.assert_allclose(P[:, [1, 3]], Q[:, [1, 3]])
    assert (P[:15, 0] > P[:15, 2]).all()
    one = train_expert(SoftLabelClassifier(LogisticRegression()), X[:3], codes[:3], 4, np.ones(3))
    np.testing.assert_allclose(one.says(X, Q), Q)


def test_folds_of_experts_keep_copies_together_and_need_no_luck():
    rng = np.random.default_rng(0)
    A, codes = rng.normal(size=(23, 3)), rng.integers(3, size=23)
    fold = fold_of_rows(A, codes)
    assert np.bincount(fold).min() >= 4
    copied = fold_of_rows(np.vstack([A, A[:5]]), np.append(codes, codes[:5]))
    np.testing.assert_array_equal(copied, np.append(fold, fold[:5]))
    order = rng.permutation(23)
    np.testing.assert_array_equal(fold_of_rows(A[order], codes[order]), fold[order])
    Q = np.full((23, 3), 1 / 3)
    model = SoftLabelClassifier(LogisticRegression())
    said = out_of_fold(model, A, codes, Q, fold, np.ones(23))
    changed = codes.copy()
    changed[fold == 0] = 0  # what a row says of itself does not count
    np.testing.assert_allclose(out_of_fold(model, A, changed, Q, fold, np.ones(23))[fold == 0], said[fold == 0])
