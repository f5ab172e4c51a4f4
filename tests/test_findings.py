"""Problems that `fit` finds with teachers and rows, and no findings if there are none."""

import warnings

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB

from sklearn_uhc import (
    OTHER,
    CrossEntropyUnifier,
    FindingWarning,
    HeterogeneousDistiller,
    LabelSpace,
    TeacherMerger,
    UnifiedEnsemble,
)
from sklearn_uhc.answers import Answers
from sklearn_uhc.evidence import examine, find, find_uneven
from sklearn_uhc.evidence.behaviour import surest_rows
from sklearn_uhc.evidence.comparisons import compare, reliability
from sklearn_uhc.inspection import teacher_report
from tests.helpers import random_lists, random_outputs

LISTS = [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 0, 1], [1, 2, 4, 5], [0, 3, 5, 2]]


def world(seed=0, lists=LISTS, n=400, noise=0.7):
    """Answers of teachers that agree up to noise."""
    return random_outputs(np.random.default_rng(seed), lists, n, spread=2.5, noise=noise)


def answers_of(Z, lists=LISTS):
    return Answers.of(Z, LabelSpace(lists), abstain=True)


def kinds(Z, lists=LISTS):
    return [(finding.kind, finding.teachers) for finding in find(answers_of(Z, lists))]


def told(fit, *args, **kwargs):
    """Fit, and return the findings in the warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit(*args, **kwargs)
    return [str(warning.message) for warning in caught if issubclass(warning.category, FindingWarning)]


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("noise", [0.3, 1.5])
def test_nothing_is_found_where_nothing_is_wrong(seed, noise):
    rng = np.random.default_rng(seed)
    lists = random_lists(rng, 6, int(rng.integers(2, 8)), 2, 6)
    Z = random_outputs(rng, lists, 400, spread=2.5, noise=noise)
    assert kinds(Z, lists) == []
    TeacherMerger(None, class_lists=lists).fit(None, log_p=Z)  # a warning would be an error


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("culprit", [0, 3])
def test_a_teacher_with_classes_in_another_order_is_named(seed, culprit):
    lists = [labels[::-1] if i == culprit else labels for i, labels in enumerate(LISTS)]
    (finding,) = find(answers_of(world(seed), lists))
    assert (finding.kind, finding.teachers) == ("contradiction", (culprit,))
    assert finding.evidence["reliability"] < 0.1 < 0.8 < finding.evidence["reliability_others"]
    assert str(finding).startswith(f"Teacher {culprit} contradicts the other teachers")
    assert str(LISTS[culprit][0]) in finding.remedy


def test_given_weights_are_used_as_they_are_and_the_message_says_what_is_done():
    lists = [list(labels) for labels in LISTS]
    lists[1] = lists[1][::-1]
    merger = TeacherMerger(None, class_lists=lists)
    (usual,) = told(merger.fit, None, log_p=world())
    assert "The merge gives it next to no weight. Check that its class list" in usual
    assert merger.teacher_weight_.tolist() == [1, 1e-3, 1, 1, 1]
    given = [1.0, 2.0, 1.0, 1.0, 1.0]
    (kept,) = told(merger.set_params(teacher_weight=given).fit, None, log_p=world())
    assert "weight" not in kept
    assert merger.teacher_weight_.tolist() == given
    merger.set_params(teacher_weight=None, method=CrossEntropyUnifier(teacher_weight=given))
    (of_method,) = told(merger.fit, None, log_p=world())
    assert of_method == kept
    assert merger.teacher_weight_.tolist() == given


def test_a_teacher_that_answers_at_random_is_named():
    Z = world()
    Z[:, LabelSpace(LISTS).blocks[2]] = 3 * np.random.default_rng(1).normal(size=(400, 4))
    assert kinds(Z) == [("contradiction", (2,))]


def test_two_wrong_teachers_among_seven():
    lists = [list(range(5))] * 7
    wrong = [[1, 2, 3, 4, 0] if i in (1, 4) else labels for i, labels in enumerate(lists)]
    found = find(answers_of(world(0, lists), wrong))
    assert [finding.teachers for finding in found] == [(1,), (4,)]


def test_of_two_teachers_nobody_can_tell_who_is_wrong():
    lists = [[0, 1, 2, 3], [0, 1, 2, 4]]
    Z = world(0, lists)
    assert kinds(Z, lists) == []
    assert kinds(Z, [[0, 1, 2, 3], [4, 2, 1, 0]]) == [("contradiction", (0, 1))]


def test_lists_that_are_positions():
    Z, positions = world(), [list(range(4))] * len(LISTS)
    (finding,) = find(answers_of(Z, positions))
    assert finding.kind == "positions"
    assert finding.teachers == tuple(range(len(LISTS)))
    assert "encoder.classes_" in finding.remedy
    assert kinds(Z, [[str(k) for k in labels] for labels in positions])[0][0] == "positions"
    # The same numbers are fine where they mean the same.
    assert kinds(world(0, positions), positions) == []


def test_one_list_of_positions_is_the_fault_of_one_teacher():
    lists = [*LISTS[:3], [0, 1, 2, 3], LISTS[4]]
    (finding,) = find(answers_of(world(), lists))
    assert (finding.kind, finding.teachers) == ("contradiction", (3,))
    assert "LabelEncoder" in finding.remedy


def test_rows_that_mean_nothing_to_anybody():
    Z = 3 * np.random.default_rng(0).normal(size=(400, LabelSpace(LISTS).n_outputs))
    (finding,) = find(answers_of(Z))
    assert (finding.kind, finding.teachers) == ("contradiction", (0, 1, 2, 3, 4))
    assert "rows are foreign" in finding.remedy
    half = np.concatenate([world()[:200], Z[:200]])
    assert kinds(half) == []


def broken(Z, lists, i, how, rng):
    """Return answers and lists with teacher i broken."""
    Z, lists, block = Z.copy(), list(lists), LabelSpace(lists).blocks[i]
    k = len(lists[i])
    if how == "order":
        lists[i] = [*lists[i][1:], lists[i][0]]
    elif how == "noise":
        Z[:, block] = 3 * rng.normal(size=(len(Z), k))
    else:
        Z[:, block] = 20 * np.eye(k)[rng.integers(k)] if how == "constant" else rng.normal(size=k)
    return Z, lists


SIX = [[0, 1, 2, 3], [2, 3, 4, 5], [4, 5, 0, 1], [1, 2, 4, 5], [0, 3, 5, 2], [0, 1, 3, 4]]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "how", [["constant"], ["constant odds"], ["order", "constant"], ["noise", "order", "constant"]]
)
def test_broken_teachers_are_named_and_the_remedies_work(seed, how):
    """They count next to nothing, so that the merge is nearly as good as that of the good ones."""
    rng = np.random.default_rng(seed)
    culprits = np.sort(rng.choice(6, len(how), replace=False)).tolist()
    truth = 3.0 * rng.normal(size=(600, 6))
    Z = np.hstack([truth[:, own] + 0.7 * rng.normal(size=(600, 4)) for own in SIX])
    lists = SIX
    for i, kind in zip(culprits, how, strict=True):
        Z, lists = broken(Z, lists, i, kind, rng)
    found = find(answers_of(Z, lists))
    assert [finding.teachers for finding in found] == [(i,) for i in culprits]
    assert all("leave it out" in finding.remedy for finding in found)

    def right(lists, Z, **params):
        merger = TeacherMerger(None, class_lists=lists, calibrate=False, class_prior=None, **params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FindingWarning)
            Q = merger.fit_transform(None, log_p=Z)
        return (merger.classes_[Q.argmax(axis=1)] == truth.argmax(axis=1)).mean(), merger

    good = [i for i in range(6) if i not in culprits]
    blocks = LabelSpace(lists).blocks
    best, rest = right([lists[i] for i in good], np.hstack([Z[:, blocks[i]] for i in good]))
    assert rest.findings_ == []
    weighted, merger = right(lists, Z)
    assert (merger.teacher_weight_ < 0.01).tolist() == [i in culprits for i in range(6)]
    assert weighted > best - 0.02
    assert right(lists, Z, teacher_weight=[1] * 6)[0] < best - 0.02


def test_only_teachers_that_are_named_alone_lose_their_weight():
    Z, lists = broken(world(5, SIX, n=600), SIX, 2, "constant", np.random.default_rng(5))
    assert examine(answers_of(Z, lists)).weight.tolist() == [1, 1, 1e-3, 1, 1, 1]
    assert (examine(answers_of(world(5, SIX, n=600), SIX)).weight == 1).all()
    nonsense = 3 * np.random.default_rng(0).normal(size=(400, LabelSpace(LISTS).n_outputs))
    found = examine(answers_of(nonsense))
    assert found.findings
    assert (found.weight == 1).all()


def test_a_class_that_only_a_broken_teacher_knows_does_not_take_all_rows():
    """It always says so, with certainty; with a small weight alone nobody would oppose it."""
    lists = [*SIX[:5], [0, 1, 3, 9]]
    Z = np.hstack([world(3, SIX, n=600)[:, :20], np.tile([0.0, 0.0, 0.0, 20.0], (600, 1))])
    merger = TeacherMerger(None, class_lists=lists)
    told(merger.fit, None, log_p=Z)
    assert merger.teacher_weight_.tolist() == [1, 1, 1, 1, 1, 1e-3]
    answers = merger.adjust(answers_of(Z[:5], lists))
    np.testing.assert_allclose(answers.log_p[:, -4:], -np.log(4))
    assert np.mean(merger.merge(answers).argmax(axis=1) == 6) == 0
    Z[:50, -4:] = np.nan  # what is not answered stays so
    merger.set_params(abstain=True)
    told(merger.fit, None, log_p=Z)
    assert np.isnan(merger.adjust(answers_of(Z, lists)).log_p[:50, -4:]).all()


def test_classes_may_be_uneven_or_absent():
    rng = np.random.default_rng(6)
    for share in ([48, 1, 5, 5, 5, 5], [1, 1, 1, 0, 0, 0], [100, 40, 16, 6, 2.5, 1]):
        y = rng.choice(6, 600, p=np.divide(share, sum(share)))
        truth = 5.0 * np.eye(6)[y] + rng.normal(size=(600, 6))
        assert kinds(np.hstack([truth[:, own] + 0.7 * rng.normal(size=(600, 4)) for own in SIX]), SIX) == []


def test_a_class_that_nobody_claims_is_not_compared():
    lists = [[0, 1, 2]] * 2
    Z = world(9, lists, n=300)
    Z[:, [2, 5]] = -30.0
    found = compare(answers_of(Z, lists))
    assert found.kappa[0, 1] > 0.7
    Z[:, 2] = world(9, lists, n=300)[:, 2]  # one of them claims it
    assert compare(answers_of(Z, lists)).kappa[0, 1] < found.kappa[0, 1] - 0.2


def test_a_teacher_that_only_a_broken_one_knows_is_not_blamed():
    lists = [[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 1, 2, 3, 4], [3, 4, 5]]
    Z = world(7, lists)
    Z[:, LabelSpace(lists).blocks[3]] = 3 * np.random.default_rng(7).normal(size=(400, 5))
    assert kinds(Z, lists) == [("contradiction", (3,))]


@pytest.mark.parametrize("seed", range(3))
def test_teachers_of_sets_that_make_the_same_errors_do_not_refute_a_good_one(seed):
    rng, fine, sets = np.random.default_rng(seed), [[0, 1, 2, 3], [0, 1, 2, 3], [3, 4, 5]], [(0, 2, 4), (1, 3, 5)]
    Z = random_outputs(rng, fine, 400, spread=2.5, noise=0.3)
    wrong, lists = 3 * rng.normal(size=(400, 2)), [*fine, sets, sets]
    answers = answers_of(np.hstack([Z, wrong, wrong]), lists)
    found, judged = compare(answers), examine(answers)
    assert not found.weight[:3, 3:].any()
    assert (found.weight[3:, :3] > 0).all()
    assert judged.weight[:3].tolist() == [1, 1, 1]
    assert (judged.weight[3:] < 0.05).all()
    # Where no two teachers share single classes, sets are all there is.
    alone = compare(answers_of(np.hstack([Z[:, 8:], wrong, wrong]), lists[2:]))
    assert (alone.weight[0, 1:] > 0).all()


def test_reliability_explains_agreement():
    r = np.array([0.9, 0.8, 0.0, 0.5])
    kappa = np.outer(r, r)
    weight = 1.0 - np.eye(4)
    np.testing.assert_allclose(reliability(kappa, weight), r, atol=1e-3)
    weight[3] = weight[:, 3] = 0.0  # compared with nobody
    np.testing.assert_allclose(reliability(kappa, weight), [0.9, 0.8, 0.0, 1.0], atol=0.1)


def uneven(seed=0, n=1500):
    """Answers on classes of which the last is a hundred times rarer than the first."""
    rng = np.random.default_rng(seed)
    share = 100.0 ** -np.linspace(0, 1, 6)
    y = rng.choice(6, n, p=share / share.sum())
    lists = [list(range(6))] * 3
    truth = 8.0 * np.eye(6)[y] + rng.normal(size=(n, 6))
    return np.hstack([truth + 0.3 * rng.normal(size=(n, 6)) for _ in lists]), lists, y


@pytest.mark.parametrize("balance", [True, False, "auto"])
def test_uneven_classes_and_what_helps(balance):
    Z, lists, y = uneven()
    clf = HeterogeneousDistiller(None, GaussianNB(), class_lists=lists, balance=balance)
    (message,) = told(clf.fit, np.zeros((len(Z), 2)) + y[:, None], log_p=Z)
    (finding,) = clf.merger_.findings_
    assert str(finding) == message
    assert (finding.kind, finding.teachers) == ("uneven", ())
    assert finding.evidence["commonest"] == 0
    assert finding.evidence["absent"] == []
    assert f"0 is the most probable class of {(y == 0).sum()} of 1,500 rows." in message
    assert "Label 20 to 50 rows drawn at random" in message
    assert "class_prior" in message


def test_nothing_is_said_of_uneven_classes_if_frequencies_are_known():
    Z, lists, y = uneven()
    X = np.zeros((len(Z), 2)) + y[:, None]
    share = np.bincount(y, minlength=6) / len(y)
    assert told(HeterogeneousDistiller(None, GaussianNB(), class_lists=lists, class_prior=share).fit, X, log_p=Z) == []
    some = np.where(np.random.default_rng(0).random(len(y)) < 0.05, y, -1)
    assert told(HeterogeneousDistiller(None, GaussianNB(), class_lists=lists).fit, X, some, log_p=Z) == []


def test_classes_that_seem_to_be_absent_are_named():
    Z, lists, y = uneven()
    few = np.isin(y, [1, 2])
    merger = TeacherMerger(None, class_lists=lists)
    Q = merger.fit_transform(None, log_p=Z[few])
    (finding,) = find_uneven(Q, np.ones(few.sum(), dtype=bool), merger.classes_, merger.label_space_)
    assert finding.evidence["absent"] == [0, 3, 4, 5]
    assert "and no row seems to be of [0, 3, 4, 5] (4 of 6 classes)" in finding.says


def test_a_teacher_that_alone_claims_many_rows_is_named():
    """Nobody can compare the last teacher: it shares one class with the others."""
    rng = np.random.default_rng(0)
    y = rng.integers(5, size=600)
    good = 5.0 * np.eye(5)[y] + rng.normal(size=(600, 5))
    constant = np.tile([0.0, 9.0], (600, 1))
    lists = [[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 9]]
    merger = TeacherMerger(None, class_lists=dict(zip("abc", lists, strict=True)))
    Q = merger.fit_transform(None, log_p=np.hstack([good, good, constant]))
    (finding,) = find_uneven(Q, np.ones(600, dtype=bool), merger.classes_, merger.label_space_)
    assert finding.teachers == (2,)
    assert "of the rows it is a class that only teacher 'c' knows" in finding.says
    assert finding.remedy.startswith("Nobody can confirm teacher 'c', so check it first.")


def test_even_classes_are_not_uneven():
    Z, lists, y = uneven()
    rows = np.resize(np.concatenate([np.flatnonzero(y == k)[:8] for k in range(6)]), 600)
    merger = TeacherMerger(None, class_lists=lists)
    Q, answered = merger.fit_transform(None, log_p=Z[rows]), np.ones(600, dtype=bool)
    assert find_uneven(Q, answered, merger.classes_, merger.label_space_) == []
    assert find_uneven(np.eye(6)[:1], answered[:1], merger.classes_, merger.label_space_) == []  # one row shows nothing
    assert find_uneven(np.eye(6)[[0] * 30], answered[:30], merger.classes_, merger.label_space_)
    assert find_uneven(np.eye(6)[[0] * 30], ~answered[:30], merger.classes_, merger.label_space_) == []


def test_none_of_these_is_no_class_that_could_be_rare():
    space, rows = LabelSpace([["a", "b", "c"]]), np.ones(40, dtype=bool)
    Q = np.eye(4)[np.r_[[3] * 10, [0] * 10, [1] * 10, [2] * 10]]
    classes = np.array(["a", "b", "c", "none"])
    assert find_uneven(Q, rows, classes, space, "none") == []
    Q = np.eye(4)[[3] * 25 + [0] * 15]
    (finding,) = find_uneven(Q, rows, classes, space, "none")
    assert finding.evidence["absent"] == ["b", "c"]


class Given:
    """A teacher whose answers are the columns of X."""

    def __init__(self, classes, columns):
        self.classes_, self.where = np.asarray(classes), columns

    def predict_log_proba(self, X):
        Z = X[:, self.where]
        return Z - np.log(np.exp(Z).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("kind", ["merger", "ensemble", "distiller"])
def test_every_fit_warns_once(kind):
    Z, blocks = world(), LabelSpace(LISTS).blocks
    lists = [LISTS[0][::-1], *LISTS[1:]]
    teachers = {name: Given(own, block) for name, own, block in zip("ABCDE", lists, blocks, strict=True)}
    student = {"student": LogisticRegression()} if kind == "distiller" else {}
    make = {"merger": TeacherMerger, "ensemble": UnifiedEnsemble, "distiller": HeterogeneousDistiller}[kind]
    model = make(teachers, **student)
    (message,) = told(model.fit, Z)
    assert message.startswith("Teacher 'A' contradicts the other teachers")
    assert "class list" in message
    found = (model if kind == "merger" else model.merger_).findings_
    assert [finding.teachers for finding in found] == [(0,)]
    report = teacher_report(teachers, Z)
    assert message in report["warnings"]
    assert report["findings"][0]["teachers"] == [0]
    # An earlier fit's findings are not those of the next.
    model.set_params(class_lists=dict(zip("ABCDE", LISTS, strict=True)))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="class_lists")
        warnings.simplefilter("error", FindingWarning)
        model.fit(Z)
    assert (model if kind == "merger" else model.merger_).findings_ == []


def test_users_can_stop_at_a_finding_or_go_on():
    Z, lists = world(), [LISTS[0][::-1], *LISTS[1:]]
    merger = TeacherMerger(None, class_lists=LISTS).fit(None, log_p=Z)
    with pytest.raises(FindingWarning, match="Teacher 0"):
        merger.set_params(class_lists=lists).fit(None, log_p=Z)
    assert merger.findings_ == []  # as after the fit before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FindingWarning)
        assert len(merger.fit(None, log_p=Z).findings_) == 1


def test_silent_teachers_are_compared_where_they_answer():
    Z = world(n=800)
    for i, block in enumerate(LabelSpace(LISTS).blocks):
        Z[100 * i : 100 * i + 300, block] = np.nan
    assert kinds(Z) == []
    lists = [LISTS[0][::-1], *LISTS[1:]]
    assert kinds(Z, lists) == [("contradiction", (0,))]
    Z[:, LabelSpace(LISTS).blocks[0]] = np.nan
    assert kinds(Z, lists) == []


def test_columns_of_sets_that_no_column_lies_within_are_not_compared():
    sets = [[(0, 1), (2, 3)], [(2, 4), (3, 5)]]
    assert find(Answers.of(world()[:, :4], LabelSpace(sets), abstain=False)) == []
    lists = [[*labels[:3], OTHER] for labels in LISTS]
    for seed in range(3):
        assert kinds(world(seed), lists) == []


@pytest.mark.parametrize("seed", range(3))
def test_a_coarse_teacher_is_compared_with_classes_within_its_sets(seed):
    rng = np.random.default_rng(seed)
    truth = 3.0 * rng.normal(size=(600, 6))
    fine = np.hstack([truth[:, own] + 0.7 * rng.normal(size=(600, 4)) for own in LISTS])
    P = np.exp(truth)
    odds = np.log(np.column_stack([P[:, ::2].sum(axis=1), P[:, 1::2].sum(axis=1)]))
    even, odd = (0, 2, 4), (1, 3, 5)
    assert kinds(np.hstack([fine, odds]), [*LISTS, [even, odd]]) == []
    (finding,) = find(answers_of(np.hstack([fine, odds]), [*LISTS, [odd, even]]))
    assert (finding.kind, finding.teachers) == ("contradiction", (5,))
    assert finding.evidence["called"] == {"1|3|5": "0|2|4", "0|2|4": "1|3|5"}
    assert examine(answers_of(np.hstack([fine, odds]), [*LISTS, [even, odd]])).weight[:5].tolist() == [1] * 5
    weak = [
        examine(answers_of(np.hstack([fine, odds + k * rng.normal(size=odds.shape)]), [*LISTS, [even, odd]])).weight[5]
        for k in (0, 2, 5)
    ]
    assert 1 >= weak[0] > weak[1] > weak[2] > 0.01
    noise = 3 * rng.normal(size=(600, 2))
    assert kinds(np.hstack([fine, noise]), [*LISTS, [even, odd]]) == [("contradiction", (5,))]


@pytest.mark.parametrize("n", [1, 30, 47])
def test_few_rows_show_nothing(n):
    Z = 3 * np.random.default_rng(0).normal(size=(n, LabelSpace(LISTS).n_outputs))
    assert find(answers_of(Z)) == []


def test_a_bounded_number_of_rows_is_looked_at():
    Z = np.broadcast_to(np.zeros(LabelSpace(LISTS).n_outputs), (1_000_000, LabelSpace(LISTS).n_outputs))
    assert 100 < len(compare(Answers(Z, LabelSpace(LISTS))).responses.P) < 1000


def test_comparisons_are_what_the_definition_says():
    rng = np.random.default_rng(3)
    lists = [[3, 1, 0, 4], [4, 2, 1], [0, 1, 2, 3, 4], [3, 4]]
    space, Z = LabelSpace(lists), world(3, lists, n=300, noise=2.0)
    Z[rng.random(300) < 0.2, space.blocks[1]] = np.nan
    found = compare(Answers.of(Z, space, abstain=True))
    P = np.concatenate([np.exp(Z[:, b]) / np.exp(Z[:, b]).sum(axis=1, keepdims=True) for b in space.blocks], axis=1)

    def mean_answers(i, j, shared):
        own, other = ([space.blocks[k].start + lists[k].index(c) for c in shared] for k in (i, j))
        p, answered = np.nan_to_num(P[:, own]), ~np.isnan(P[:, own])
        sizes = np.minimum(answered.sum(axis=0) / 5, p.sum(axis=0))
        return (surest_rows(p, sizes)[0] * answered).T @ np.nan_to_num(P[:, other])

    for i, own in enumerate(lists):
        for j, other in enumerate(lists):
            shared = sorted(set(own) & set(other))
            if i == j or len(shared) < 2:
                assert found.weight[i, j] == 0
                continue
            J = mean_answers(i, j, shared) + mean_answers(j, i, shared).T
            total, chance = J.sum(), J.sum(axis=0) @ J.sum(axis=1) / J.sum() ** 2
            assert found.kappa[i, j] == pytest.approx((np.trace(J) / total - chance) / (1 - chance))
            assert found.weight[i, j] == pytest.approx((1 - chance) * total)
