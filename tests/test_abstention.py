"""Teachers that are silent for some rows: NaN in a whole block means "I cannot say"."""

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from sklearn_uhc import (
    CrossEntropyUnifier,
    HeterogeneousDistiller,
    LabelSpace,
    TeacherMerger,
    TeacherOutputs,
    UnifiedEnsemble,
)
from sklearn_uhc.answers import Answers
from sklearn_uhc.evidence.metrics import teacher_agreement
from sklearn_uhc.inspection import teacher_report
from tests.helpers import METHOD_NAMES, LinearTeacher, configured, make_method, random_outputs

LISTS = [[0, 1, 2], [1, 2, 3], [0, 3, 4], [2, 4]]
SPACE = LabelSpace(LISTS)


class Silent(LinearTeacher):
    """A teacher that is silent for rows whose first feature is above a limit."""

    def __init__(self, classes=(0, 1, 2), seed=0, limit=0.5, part=False):
        super().__init__(classes, seed)
        self.limit = limit
        self.part = part

    def predict_log_proba(self, X):
        answer = super().predict_log_proba(X)
        answer[np.asarray(X)[:, 0] > self.limit, : 1 if self.part else None] = np.nan
        return answer


def silent_teachers(*limits, part=False):
    return [Silent(tuple(k), i, limit, part).fit(None) for i, (k, limit) in enumerate(zip(LISTS, limits, strict=True))]


@pytest.fixture
def answers():
    """Answers in which every teacher but the second is silent for some rows; none answers row 0."""
    rng = np.random.default_rng(0)
    Z = random_outputs(rng, LISTS, 60)
    quiet = rng.random((60, 4)) < 0.3
    quiet[:, 1] = False
    quiet[0], quiet[1], quiet[2] = True, [False, True, False, False], False
    for i, block in enumerate(SPACE.blocks):
        Z[np.ix_(quiet[:, i], np.r_[block])] = np.nan
    return Z, quiet


@pytest.mark.parametrize("name", METHOD_NAMES)
@pytest.mark.parametrize("weight", [None, np.array([5.0, 0.3, 2.0, 1.0])], ids=["alike", "weighted"])
@pytest.mark.filterwarnings("ignore:The class lists do not connect")
def test_a_silent_teacher_is_left_out_for_that_row(name, weight, answers):
    """Each row equals the method applied to the teachers that answer, as far as they determine the classes."""
    Z, quiet = answers
    with pytest.warns(UserWarning, match="answers for 1 of 60"):
        Q = make_method(name, LISTS, abstain=True, teacher_weight=weight).fit_transform(Z)
    np.testing.assert_allclose(Q.sum(axis=1), 1)
    np.testing.assert_allclose(Q[0], 0.2)
    for row in range(1, 60):
        speaking = np.flatnonzero(~quiet[row])
        part = LabelSpace([LISTS[i] for i in speaking])
        z = np.concatenate([Z[row, SPACE.blocks[i]] for i in speaking])
        own = None if weight is None else weight[speaking]
        alone = make_method(name, part.class_lists, teacher_weight=own).fit_transform(z[None])[0]
        classes = np.searchsorted(SPACE.classes, part.classes)
        np.testing.assert_allclose(Q[row, classes] / Q[row, classes].sum(), alone, atol=1e-6)
        unanswered = np.setdiff1d(np.arange(5), classes)
        if name == "sd":
            assert (Q[row, unanswered] == 0).all()
        elif len(unanswered):  # mean logit 0, like a group of classes that no teacher links
            means = [np.log(Q[row, classes[part.components == g]]).mean() for g in range(part.n_components)]
            np.testing.assert_allclose(np.log(Q[row, unanswered]), means[0], atol=1e-5)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_complete_rows_are_solved_as_before(name):
    Z = random_outputs(np.random.default_rng(1), LISTS, 30)
    np.testing.assert_array_equal(
        make_method(name, LISTS, abstain=True).fit_transform(Z), make_method(name, LISTS).fit_transform(Z)
    )


def silence(quiet, space):
    return Answers(np.zeros((len(quiet), space.n_outputs)), space, quiet)


def test_patterns_are_many_but_never_one_per_row():
    quiet = np.random.default_rng(2).random((500, 4)) < 0.4
    found = list(silence(quiet, SPACE).patterns())
    assert len(found) <= 15
    rows = np.concatenate([p.rows for p in found])
    assert sorted(rows) == np.flatnonzero(~quiet.all(axis=1)).tolist()
    for p in found:
        assert (quiet[p.rows] == ~np.isin(np.arange(4), p.teachers)).all()


def test_patterns_of_many_teachers():
    space = LabelSpace([[0, 1]] * 70)
    quiet = np.zeros((4, 70), dtype=bool)
    quiet[1, 0] = quiet[2, 69] = quiet[3, 35] = True
    assert sorted(p.rows.tolist() for p in silence(quiet, space).patterns()) == [[0], [1], [2], [3]]


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_nan_is_an_error_until_asked_for_and_in_part_always(name, answers):
    Z, _ = answers
    with pytest.raises(ValueError, match=r"contains NaN.*row 0, column 0 \(teacher 0\).*abstain=True"):
        make_method(name, LISTS).fit(Z)
    complete = random_outputs(np.random.default_rng(3), LISTS, 10)
    complete[4, 7] = np.nan
    for abstain in (False, True):
        with pytest.raises(ValueError, match=r"row 4, column 7 \(teacher 2\).*for all its classes, or for none"):
            make_method(name, LISTS, abstain=abstain).fit(complete)
    with pytest.raises(ValueError, match="abstain must be"):
        make_method(name, LISTS, abstain="yes").fit(complete)


def test_tensors():
    torch = pytest.importorskip("torch")
    Z = random_outputs(np.random.default_rng(4), LISTS, 20)
    Z[:7, SPACE.blocks[3]] = np.nan
    method = CrossEntropyUnifier(LISTS, abstain=True)
    np.testing.assert_allclose(method.fit_transform(torch.asarray(Z)).numpy(), method.fit_transform(Z), atol=1e-8)


def test_reconciliation_error_counts_who_answers(answers):
    Z, quiet = answers
    Z = Z[2:]
    method = make_method("mf_lf", LISTS, abstain=True, temperature=1)
    error = method.fit(Z).reconciliation_error(Z)
    assert error.shape == (58,)
    assert np.isfinite(error).all()
    assert error[quiet[2:].sum(axis=1) == 3].max(initial=0) < 1e-12  # nobody to disagree with
    assert error[0] > 1e-3


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_nothing_to_reconcile_is_0(name, answers):
    """Never NaN, and rows with answers are unchanged."""
    Z, _ = answers
    with pytest.warns(UserWarning, match="answers for 1 of 60"):
        method = make_method(name, LISTS, abstain=True).fit(Z)
    error = method.reconciliation_error(Z)
    assert error[0] == 0
    np.testing.assert_allclose(error[1:], method.reconciliation_error(Z[1:]), atol=1e-7)


def test_outputs_keep_silence_and_floors_do_not_see_it():
    X = np.random.default_rng(5).normal(size=(40, 3))
    teachers = silent_teachers(0.5, np.inf, np.inf, np.inf)
    with pytest.raises(ValueError, match=r"teacher 0 \(Silent\) returns NaN.*whole row.*abstain=True"):
        TeacherOutputs(teachers).fit(X)
    outputs = TeacherOutputs(teachers, abstain=True).fit(X)
    log_p = outputs.transform(X)
    assert (np.isnan(log_p[:, 0]) == (X[:, 0] > 0.5)).all()
    assert not np.isnan(log_p[:, 3:]).any()
    assert (outputs.floor_ == 1e-6).all()
    with pytest.raises(ValueError, match=r"\(part of the row\). To leave a row unanswered, .* NaN for all its classes"):
        TeacherOutputs(silent_teachers(0.5, 0.5, 0.5, 0.5, part=True), abstain=True).fit(X)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_may_be_silent_too(n_classes):
    class Scores:
        classes_ = np.arange(n_classes)

        def decision_function(self, X):
            scores = X[:, 0] if n_classes == 2 else X[:, :n_classes].copy()
            return np.where((np.arange(len(X)) % 3 == 0).reshape(-1, *[1] * (scores.ndim - 1)), np.nan, scores)

    X = np.random.default_rng(5).normal(size=(12, 3))
    log_p = TeacherOutputs([Scores()], abstain=True).fit_transform(X)
    assert (np.isnan(log_p).all(axis=1) == (np.arange(12) % 3 == 0)).all()
    assert not np.isnan(log_p[np.arange(12) % 3 > 0]).any()
    with pytest.raises(ValueError, match=r"4 of 12 rows.*\(whole row\).*With abstain=True"):
        TeacherOutputs([Scores()]).fit(X)


@pytest.mark.parametrize("calibrate", [False, True])
def test_distiller_gives_no_weight_to_rows_that_nobody_answers(calibrate):
    X = np.random.default_rng(6).normal(size=(200, 3))
    silent = X[:, 0] > 1
    student = KNeighborsClassifier(3)
    params = {"abstain": True, "calibrate": calibrate, "balance": True}
    with pytest.warns(UserWarning, match=f"answers for {silent.sum()} of 200"):
        clf = configured(HeterogeneousDistiller, silent_teachers(1, 1, 1, 1), student, **params).fit(X)
    without = configured(HeterogeneousDistiller, silent_teachers(1, 1, 1, 1), student, **params).fit(X[~silent])
    np.testing.assert_allclose(clf.class_weight_, without.class_weight_)
    near = np.linspace(-2, 0.5, 50)[:, None] * [1, 0, 0]
    np.testing.assert_allclose(clf.predict_proba(near), without.predict_proba(near), atol=1e-6)


def test_ensemble_is_uniform_where_nobody_answers():
    X = np.random.default_rng(7).normal(size=(100, 3))
    ensemble = UnifiedEnsemble(TeacherMerger(silent_teachers(1, 1, 1, 1), abstain=True)).fit(X[X[:, 0] <= 1])
    with pytest.warns(UserWarning, match="No teacher answers"):
        proba = ensemble.predict_proba(X)
    np.testing.assert_allclose(proba[X[:, 0] > 1], 0.2)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert ensemble.score(X[X[:, 0] <= 1]) < 0


def test_agreement_is_the_mean_over_answers(answers):
    Z, quiet = answers
    Q = np.random.default_rng(8).dirichlet(np.ones(5), size=60)
    found = teacher_agreement(Z, Q, LISTS, abstain=True)
    total, count = 0.0, 0
    for i, block in enumerate(SPACE.blocks):
        rows = ~quiet[:, i]
        total += rows.sum() * teacher_agreement(Z[rows, block], Q[rows][:, LISTS[i]], [LISTS[i]])
        count += rows.sum()
    assert found == pytest.approx(total / count)
    with pytest.raises(ValueError, match="log_p contains NaN"):
        teacher_agreement(Z, Q, LISTS)


def test_backpropagation_needs_abstain_for_silence():
    pytest.importorskip("torch")
    from torch import nn

    X = np.random.default_rng(9).normal(size=(20, 3))
    clf = HeterogeneousDistiller(silent_teachers(0, 9, 9, 9), nn.Linear(3, 5), backprop=True)
    with pytest.raises(ValueError, match=r"abstain=True.*NaN for a whole row"):
        clf.fit(X)


@pytest.mark.parametrize("calibrate", [False, True])
def test_abstain_of_the_method_is_that_of_the_merge(calibrate):
    """Rows without answers then have no weight, and teachers may be silent."""
    X = np.random.default_rng(6).normal(size=(200, 3))
    teachers, method = silent_teachers(1, 1, 1, 1), CrossEntropyUnifier(abstain=True)
    with pytest.warns(UserWarning, match="No teacher answers"):
        expected = HeterogeneousDistiller(
            TeacherMerger(teachers, abstain=True, calibrate=calibrate), KNeighborsClassifier(3), method="ce"
        ).fit(X)
    log_p = expected.merger_.teacher_outputs_.transform(X)
    for given in (None, log_p):
        clf = HeterogeneousDistiller(
            TeacherMerger(teachers, calibrate=calibrate), KNeighborsClassifier(3), method=method
        )
        with pytest.warns(UserWarning, match="No teacher answers"):
            clf.fit(X, log_p=given)
        np.testing.assert_array_equal(clf.predict_proba(X), expected.predict_proba(X))
    ensemble = UnifiedEnsemble(TeacherMerger(teachers, calibrate=calibrate), method=method).fit(X[X[:, 0] <= 1])
    with pytest.warns(UserWarning, match="No teacher answers"):
        proba = ensemble.predict_proba(X)
    np.testing.assert_allclose(proba[X[:, 0] > 1], 0.2)
    assert np.isfinite(ensemble.score(X[X[:, 0] <= 1]))


@pytest.mark.parametrize("balance", [False, True])
@pytest.mark.filterwarnings("ignore:No teacher answers")
def test_weight_on_unanswered_rows_alone_is_an_error(balance):
    X = np.random.default_rng(6).normal(size=(200, 3))
    weight = (X[:, 0] > 1).astype(float)
    student, params = KNeighborsClassifier(3), {"abstain": True, "balance": balance}
    for clf in (
        configured(HeterogeneousDistiller, silent_teachers(1, 1, 1, 1), student, **params),
        configured(UnifiedEnsemble, silent_teachers(1, 1, 1, 1), **params),
    ):
        with pytest.raises(ValueError, match="sample_weight is above zero"):
            clf.fit(X, sample_weight=weight)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_a_teacher_silent_about_all_rows_is_told(name):
    """Class 4 is known to the last two teachers, 3 to others as well."""
    Z = random_outputs(np.random.default_rng(10), LISTS, 20)
    Z[:, SPACE.blocks[2]] = np.nan
    with pytest.warns(
        UserWarning, match=r"None of the 20 rows is answered by teacher 2, so the merge ignores it\. Use rows"
    ):
        make_method(name, LISTS, abstain=True).fit(Z)
    Z[:, SPACE.blocks[3]] = np.nan
    message = (
        r"None of the 20 rows is answered by teacher 2, teacher 3, .* No other teacher answers for \[4\]: their prob"
    )
    with pytest.warns(UserWarning, match=message):
        method = make_method(name, LISTS, abstain=True).fit(Z)
    method.transform(Z[:1])  # told once, by fit


@pytest.mark.parametrize("calibrate", [False, True])
def test_distiller_and_ensemble_tell_of_a_mute_teacher(calibrate):
    X = np.random.default_rng(11).normal(size=(50, 3))
    teachers, params = silent_teachers(9, 9, -9, -9), {"abstain": True, "calibrate": calibrate}
    for clf in (
        configured(HeterogeneousDistiller, teachers, KNeighborsClassifier(3), **params),
        configured(UnifiedEnsemble, teachers, **params),
    ):
        with pytest.warns(UserWarning, match=r"teacher 2, teacher 3, .* No other teacher answers for \[4\]") as told:
            clf.fit(X)
        assert [warning.filename for warning in told] == [__file__]
    report = teacher_report(teachers, X)
    assert "No row is answered by teacher 2 (Silent) and teacher 3 (Silent). No other teacher answers for 4:" in str(
        report["warnings"]
    )


def test_warnings_of_unanswered_rows_say_what_becomes_of_them_and_point_at_the_caller():
    X = np.random.default_rng(6).normal(size=(100, 3))
    teachers = silent_teachers(1, 1, 1, 1)
    ensemble = UnifiedEnsemble(TeacherMerger(teachers, abstain=True))
    for call in (
        HeterogeneousDistiller(TeacherMerger(teachers, abstain=True), KNeighborsClassifier(3)).fit,
        make_pipeline(ensemble).fit,
        UnifiedEnsemble(TeacherMerger(teachers, abstain=True)).fit(X[X[:, 0] <= 1]).predict,
    ):
        with pytest.warns(UserWarning, match="No teacher answers for .*neither in training") as told:
            call(X)
        assert [warning.filename for warning in told] == [__file__]
    for call in (ensemble.predict, ensemble.score, ensemble.fit):
        with pytest.warns(UserWarning, match="No teacher answers for") as told:
            call(X)
        assert sum("No teacher" in str(one.message) for one in told) == 1


@pytest.mark.parametrize("calibrate", [False, True])
def test_rows_without_any_answer_are_an_error_without_a_warning(calibrate):
    teachers, params = silent_teachers(-9, -9, -9, -9), {"abstain": True, "calibrate": calibrate}
    for clf in (
        configured(HeterogeneousDistiller, teachers, KNeighborsClassifier(3), **params),
        configured(UnifiedEnsemble, teachers, **params),
    ):
        with pytest.raises(ValueError, match="No teacher answers for any row: "):
            clf.fit(np.zeros((20, 3)))


def test_a_hole_in_the_first_column_of_every_teacher_is_not_silence():
    lists = [[0, 1, 2], [1, 2, 3]]
    log_p = random_outputs(np.random.default_rng(30), lists, 20)
    log_p[:, [0, 3]] = np.nan
    clf = HeterogeneousDistiller(TeacherMerger(None, abstain=True), KNeighborsClassifier(3), class_lists=lists)
    with pytest.raises(ValueError, match=r"row 0, column 0 .teacher 0"):
        clf.fit(np.zeros((20, 1)), log_p=log_p)


def test_answers_as_frames_and_as_tensors_with_gradients():
    pd, torch = pytest.importorskip("pandas"), pytest.importorskip("torch")
    lists = [[0, 1, 2], [1, 2, 3]]
    log_p = random_outputs(np.random.default_rng(31), lists, 30)
    log_p[:5, :3] = np.nan
    found = []
    for given in (log_p, pd.DataFrame(log_p), torch.tensor(log_p, requires_grad=True)):
        clf = HeterogeneousDistiller(TeacherMerger(None, abstain=True), KNeighborsClassifier(3), class_lists=lists).fit(
            np.zeros((30, 1)), log_p=given
        )
        found.append(clf.predict_proba(np.zeros((30, 1))))
        assert not hasattr(clf.merger_.method_, "feature_names_in_")
    np.testing.assert_allclose(found[1], found[0])
    np.testing.assert_allclose(found[2], found[0], atol=1e-10)
