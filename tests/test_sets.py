"""Merging with columns that stand for sets of classes."""

import re

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp, softmax

from sklearn_uhc import OTHER, LabelSpace, TeacherMerger
from sklearn_uhc.answers.value import to_numpy
from sklearn_uhc.solvers import blocks_of, class_fit, set_blocks
from sklearn_uhc.solvers.ce import CrossEntropy
from sklearn_uhc.solvers.class_fit import linear_start
from sklearn_uhc.solvers.mf_lf import LogitError
from sklearn_uhc.solvers.mf_p import ProbabilityError
from tests.helpers import SET_METHODS, consistent_set_outputs, make_method, random_set_lists

#: Largest condition of a label space, at the true q, for recovering consistent answers to the bounds below.
CONDITION = 50
LISTS = [[0, (1, 2), 3], [2, 3, (4, 5)], [(0, 4), 5, 1], [1, 6, OTHER], [(0, 1, 2), OTHER]]
COARSE = [[2, 5, 1, 6, 4], [(5, 0, 3, 2), (1, 4, 6)], [(3, 5, 0, 2, 6), (1, 4)], [(2, 6, 0, 1), 4]]
#: Lists and q, up to a factor, for which solvers that start only at an even split end where a class has vanished.
HARD = [
    (COARSE, [356, 8, 185, 115, 243, 48, 44]),
    (COARSE, [18, 2, 332, 51, 40, 191, 366]),
    ([[(0, 2), (1, 3)], [2, 3], [(1, 2), 0]], [462, 504, 2, 33]),
    ([[(3, 0), OTHER], [3, (0, 1), OTHER], [(3, 4, 1), (0, 2)]], [671, 30, 73, 1, 225]),
]
TOL = {"sd": 1e-9, "ce": 1e-9, "mf_p": 1e-8, "mf_lf": 1e-8}


# What random lists name once is no mistake here.
pytestmark = pytest.mark.filterwarnings("ignore:These classes are named in one set")


def temper(Q, T):
    return softmax(np.log(Q) / T, axis=1)


def random_q(rng, n, L):
    Q = np.maximum(rng.dirichlet(np.ones(L), size=n), 1e-3)
    return Q / Q.sum(axis=1, keepdims=True)


@pytest.fixture
def noisy():
    rng = np.random.default_rng(0)
    Q = random_q(rng, 40, 7)
    return consistent_set_outputs(Q, LISTS) + rng.normal(size=(40, 14))


@given(seed=st.integers(0, 10**6), T=st.sampled_from([1.0, 3.0, 10.0]))
@settings(max_examples=40, deadline=None, derandomize=True)  # set_recovery.json: no row of 30,000 misses
def test_consistent_answers_give_q_at_every_temperature(seed, T):
    rng = np.random.default_rng(seed)
    L = int(rng.integers(3, 9))
    lists = random_set_lists(rng, L, int(rng.integers(2, 7)))
    space, Q = LabelSpace(lists), random_q(rng, 3, L)
    assume(space.has_sets and space.is_identified)
    assume(max(map(space.condition, Q)) < CONDITION)
    log_p = consistent_set_outputs(Q, lists)
    for name, bound in (("ce", 1e-7), ("mf_lf", 1e-7), *((("mf_p", 1e-6),) if T == 1 else ())):
        method = make_method(name, lists, temperature=T)
        np.testing.assert_allclose(method.fit_transform(log_p), temper(Q, T), atol=bound, err_msg=name)
        assert method.n_not_converged_ == 0
        assert method.max_residual_ <= TOL[name]
        assert method.reconciliation_error(log_p).max() < 1e-6


@pytest.mark.parametrize("T", [1.0, 3.0])
@pytest.mark.parametrize("name", ["ce", "mf_lf", "mf_p"])
@pytest.mark.parametrize(("lists", "shares"), HARD)
def test_no_class_is_lost_in_a_bad_local_optimum(lists, shares, name, T):
    """From an even split alone, one method or another takes a class to 0 here."""
    Q = np.array([shares]) / sum(shares)
    q = make_method(name, lists, temperature=T).fit_transform(consistent_set_outputs(Q, lists))
    np.testing.assert_allclose(q, temper(Q, T), atol=1e-6)


def test_the_linear_start_is_q_where_answers_agree():
    lists = [*LISTS, [6, (3, 5), OTHER]]
    space = LabelSpace(lists)
    assert space.is_identified
    Q = random_q(np.random.default_rng(0), 10, 7)
    blocks = blocks_of(space)
    start = linear_start(blocks.shift(consistent_set_outputs(Q, lists)), blocks)
    np.testing.assert_allclose(softmax(start, axis=1), Q, atol=1e-9)


@pytest.mark.parametrize("T", [1.0, 3.0])
def test_sd_with_other_everywhere_is_right(T):
    lists = [[0, 1, OTHER], [2, OTHER], [(0, 3), OTHER], [1, 3, 2, OTHER], [4, OTHER]]
    Q = random_q(np.random.default_rng(0), 20, 5)
    log_p = consistent_set_outputs(Q, lists)
    sd = make_method("sd", lists, temperature=T)
    np.testing.assert_allclose(sd.fit_transform(log_p), temper(Q, T), atol=1e-7)
    assert sd.max_residual_ <= TOL["sd"]


def test_sd_with_other_everywhere_is_ce():
    """Also where teachers contradict each other, with weights: the same local optimum."""
    lists = [["a", "b", OTHER], ["b", "c", OTHER], ["c", "d", "a", OTHER]]
    Z = np.random.default_rng(1).normal(size=(200, 10)) * 2
    options = {"temperature": 3, "teacher_weight": [1, 5, 0.2]}
    sd, ce = (make_method(name, lists, **options).fit_transform(Z) for name in ("sd", "ce"))
    np.testing.assert_allclose(sd, ce, atol=1e-8)


def test_sd_at_temperature_1_is_the_most_likely_q(noisy):
    """The answers are shares of one draw each: q maximises sum p_k log q(S_k)."""
    P = np.exp(blocks_of(LabelSpace(LISTS)).log_softmax(noisy))
    table = LabelSpace(LISTS).membership().astype(float)
    Q = make_method("sd", LISTS, temperature=1.0).fit_transform(noisy)
    expected = np.full_like(Q, 1 / 7)
    for _ in range(20000):  # expectation, maximisation
        expected = expected * ((P / (expected @ table.T)) @ table) / len(LISTS)
    np.testing.assert_allclose(Q, expected, atol=1e-3)
    likelihood = (P * np.log(Q @ table.T)).sum(axis=1)
    assert (likelihood >= (P * np.log(expected @ table.T)).sum(axis=1) - 1e-9).all()


@pytest.mark.parametrize("T", [1.0, 3.0])
@pytest.mark.parametrize("name", ["ce", "mf_lf", "mf_p"])
def test_objectives_by_numbers(noisy, name, T):
    """Each objective, written naively, has no lower value nearby, and the certificate is its gradient."""
    space = LabelSpace(LISTS)
    weight = np.array([1.0, 2.0, 0.5, 1.5, 1.0])
    Q = make_method(name, LISTS, temperature=T, teacher_weight=weight).fit_transform(noisy)

    def objective(logits, row):
        total = 0.0
        for i, block in enumerate(space.blocks):
            parts = [space.members[space.offsets[k] : space.offsets[k + 1]] for k in range(block.start, block.stop)]
            phi = np.array([logsumexp(T * logits[part]) / T for part in parts])
            z = noisy[row, block] / T
            p = softmax(z)
            if name == "ce":
                total += weight[i] * (logsumexp(phi) - p @ phi)
            elif name == "mf_lf":
                total += weight[i] * np.sum(((z - phi) - (z - phi).mean()) ** 2)
            else:
                rho = np.exp(phi)
                total += weight[i] * np.sum((p - rho * (p @ rho) / (rho @ rho)) ** 2)
        return total

    rng = np.random.default_rng(0)
    for row in range(5):
        logits = np.log(np.maximum(Q[row], 1e-12))
        best = objective(logits, row)
        for _ in range(50):
            assert objective(logits + 1e-3 * rng.normal(size=7), row) > best - 1e-10


@pytest.mark.parametrize("name", SET_METHODS)
def test_rounding_does_not_choose_between_local_optima(name):
    """Teachers that contradict each other leave several; MF-P chose differently in 7 rows."""
    rng = np.random.default_rng(0)
    log_p = consistent_set_outputs(random_q(rng, 300, 7), LISTS) + rng.normal(size=(300, 14))
    Q, moved = make_method(name, LISTS).fit_transform(log_p), np.zeros(300, dtype=bool)
    for _ in range(6):
        almost = log_p * (1 + 1e-15 * rng.normal(size=log_p.shape))
        moved |= np.abs(make_method(name, LISTS).fit_transform(almost) - Q).max(axis=1) > 1e-6
    assert moved.sum() <= 1


@pytest.mark.parametrize("name", SET_METHODS)
def test_order_does_not_matter(noisy, name):
    Q = make_method(name, LISTS).fit_transform(noisy)
    rng, space = np.random.default_rng(0), LabelSpace(LISTS)
    order, lists, columns = rng.permutation(5), [], []
    for i in order:
        own = rng.permutation(len(LISTS[i]))
        entries = [LISTS[i][j] for j in own]
        lists.append([e[::-1] if isinstance(e, tuple) else e for e in entries])
        columns += [space.blocks[i].start + j for j in own]
    np.testing.assert_allclose(make_method(name, lists).fit_transform(noisy[:, columns]), Q, atol=1e-7)
    renamed = [
        [tuple(-x for x in e) if isinstance(e, tuple) else e if e is OTHER else -e for e in own] for own in LISTS
    ]
    np.testing.assert_allclose(make_method(name, renamed).fit_transform(noisy)[:, ::-1], Q, atol=1e-7)


@pytest.mark.parametrize("T", [1.0, 3.0])
@pytest.mark.parametrize("name", SET_METHODS)
def test_sets_of_one_are_classes(name, T):
    rng = np.random.default_rng(0)
    lists, log_p = [[0, 1, 2], [2, 3], [3, 0, 1]], rng.normal(size=(30, 8))
    plain = make_method(name, lists, temperature=T).fit_transform(log_p)
    sets = make_method(name, [[(0,), 1, (2,)], [2, (3,)], [3, 0, 1]], temperature=T)
    np.testing.assert_allclose(sets.fit_transform(log_p), plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize("T", [1.0, 3.0])
@pytest.mark.parametrize("name", ["ce", "mf_lf", "mf_p"])
def test_the_set_solver_agrees_with_the_plain_one_where_it_need_not_be_used(name, T):
    """A set with a single column says nothing: the other teachers alone determine the odds."""
    rng = np.random.default_rng(0)
    lists, log_p = [[0, 1, 2], [2, 3, 0], [3, 1, 2]], 0.5 * rng.normal(size=(30, 9))
    plain = make_method(name, lists, temperature=T).fit_transform(log_p)
    more = np.concatenate([log_p, np.zeros((30, 1))], axis=1)  # one column: it says nothing
    merged = make_method(name, [*lists, [(0, 1)]], temperature=T).fit_transform(more)
    np.testing.assert_allclose(merged, plain, atol=1e-6)


@pytest.mark.parametrize("name", SET_METHODS)
def test_certificates(noisy, name):
    method = make_method(name, LISTS, temperature=3.0).fit(noisy)  # at T = 1, MF-P takes 1,000 steps for some rows
    assert method.n_not_converged_ == 0
    assert 0 < method.max_residual_ <= TOL[name]
    assert 1 < method.n_iter_ < 200


@pytest.mark.parametrize("name", [name for name in SET_METHODS if name != "sd"])
def test_too_few_steps_are_told(noisy, name):
    method = make_method(name, LISTS, max_iter=1)
    with pytest.warns(UserWarning, match="stopped at max_iter"):
        method.fit(noisy)
    assert method.n_not_converged_ > 0


@pytest.mark.parametrize("name", ["sd", "ce", "mf_p", "mf_lf"])
def test_weights_count_teachers(noisy, name):
    """A weight of 2 is the same teacher twice."""
    block = LabelSpace(LISTS).blocks[1]
    twice = np.concatenate([noisy, noisy[:, block]], axis=1)
    T = 1.0 if name == "sd" else 3.0  # SD is convex at T = 1 only; MF-P has several optima there
    weighted = make_method(name, LISTS, teacher_weight=[1, 2, 1, 1, 1], temperature=T).fit_transform(noisy)
    doubled = make_method(name, [*LISTS, LISTS[1]], temperature=T).fit_transform(twice)
    np.testing.assert_allclose(weighted, doubled, atol=1e-6)


def test_equal_weights_change_nothing(noisy):
    for name in SET_METHODS:
        weighted = make_method(name, LISTS, teacher_weight=[3.0] * 5).fit_transform(noisy)
        np.testing.assert_allclose(weighted, make_method(name, LISTS).fit_transform(noisy), atol=1e-12)


@pytest.mark.parametrize("name", SET_METHODS)
def test_silence(noisy, name):
    """A silent teacher is left out for the row, and OTHER means what it meant."""
    log_p = noisy.copy()
    space = LabelSpace(LISTS)
    log_p[::2, space.blocks[1]] = np.nan
    Q = make_method(name, LISTS, abstain=True).fit_transform(log_p)
    np.testing.assert_allclose(Q[1::2], make_method(name, LISTS).fit_transform(noisy)[1::2], atol=1e-6)
    answered = [0, 2, 3, 4]
    columns = np.concatenate([np.arange(14)[space.blocks[i]] for i in answered])
    rest = make_method(name, [LISTS[i] for i in answered]).fit_transform(noisy[::2][:, columns])
    np.testing.assert_allclose(Q[::2], rest, atol=1e-6)


@pytest.mark.parametrize("name", ["ce", "mf_lf", "mf_p", "sd"])
def test_what_is_open_stays_even(noisy, name):
    lists = [[("a", "b"), "c"], [("a", "b"), "d", "e"]]
    with pytest.warns(UserWarning, match=re.escape("No teacher distinguishes these classes: {a, b}.")) as caught:
        Q = make_method(name, lists, temperature=2.0).fit_transform(noisy[:, :5])
    assert len(caught) == 1
    np.testing.assert_allclose(Q[:, 0], Q[:, 1], atol=1e-12)


def test_fit_warns_of_sets_that_determine_too_little(noisy):
    lists = [[("a", "b"), ("c", "d")], [("a", "c"), ("b", "d")]]
    with pytest.warns(UserWarning, match="sets do not determine .*a, b, c, d.") as caught:
        make_method("mf_lf", lists).fit(noisy[:, :4])
    assert len(caught) == 1


def test_fit_warns_of_a_class_that_only_one_set_has(noisy):
    lists = {"atlas": [("CD4 T", "Tregs"), "B"], "lab": ["CD4 T", "NK", "B"]}
    match = re.escape(
        "These classes are named in one set of one teacher only: Tregs (teacher 'atlas'). Check their spelling."
    )
    with pytest.warns(UserWarning, match=match):
        TeacherMerger(None, class_lists=lists).fit(None, log_p=noisy[:, :5])


def test_other_and_scorers_leave_nothing_open_that_fit_warns_of(noisy):
    named = [["a", "b", OTHER], [("a", "b"), "c", OTHER]]
    X, scorer = np.zeros((len(noisy), 1)), Everybody()
    for lists, more in ((named, {"none_label": "none"}), ([["a", "b"], ["b", "c"]], {"membership": [scorer, None]})):
        K = sum(map(len, lists))
        TeacherMerger(None, class_lists=lists, **more).fit(X, log_p=noisy[:, :K])  # a warning would be an error


class Everybody:
    """A scorer that accepts all rows."""

    def predict_membership(self, X):
        return np.full(len(X), 0.9)


@pytest.mark.parametrize("T", [1.0, 3.0])
@pytest.mark.parametrize("name", ["ce", "mf_p", "mf_lf"])
def test_membership_is_compared_with_q_untempered(name, T):
    """Two teachers and a scorer of two columns: the chance that a row belongs to the first list."""
    lists = [["a", "b"], ["c", "d"], [("a", "b"), OTHER]]
    d = np.array([0.1, 0.5, 0.99])
    log_p = np.log(np.column_stack([[0.8] * 3, [0.2] * 3, [0.3] * 3, [0.7] * 3, d, 1 - d]))
    expected = np.column_stack([0.8 * d, 0.2 * d, 0.3 * (1 - d), 0.7 * (1 - d)])
    Q = make_method(name, lists, temperature=T, teacher_weight=[1, 1, 0.3]).fit_transform(log_p)
    np.testing.assert_allclose(Q, temper(expected, T), atol=1e-6)


@pytest.mark.parametrize("name", SET_METHODS)
def test_a_class_may_vanish(name):
    """Class "none" is not needed to explain the row."""
    lists = [["a", "b"], ["b", "c"], [("a", "b"), ("c", "none")], [("b", "c"), ("a", "none")]]
    log_p = np.log([[0.6, 0.4, 0.6, 0.4, 0.97, 0.03, 0.9, 0.1]])
    for T in (1.0, 3.0, 10.0):
        method = make_method(name, lists, temperature=T)
        Q = method.fit_transform(log_p)
        assert method.n_not_converged_ == 0
        assert np.isfinite(Q).all()
        if name in ("ce", "mf_lf"):
            assert Q[0, 3] < 1e-9


@pytest.mark.parametrize("name", SET_METHODS)
def test_certain_and_impossible_answers(name):
    log_p = np.full((3, 14), -np.inf)
    for i, block in enumerate(LabelSpace(LISTS).blocks):
        log_p[0, block.start], log_p[1, block.stop - 1], log_p[2, block.start + i % 2] = 0.0, 0.0, 0.0
    Q = make_method(name, LISTS).fit_transform(log_p)
    np.testing.assert_allclose(Q.sum(axis=1), 1)
    assert (Q >= 0).all()


@pytest.mark.parametrize("name", SET_METHODS)
def test_torch_gives_the_same(noisy, name):
    torch = pytest.importorskip("torch")
    Q = make_method(name, LISTS).fit_transform(noisy)
    tensor = make_method(name, LISTS).fit_transform(torch.asarray(noisy))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_allclose(to_numpy(tensor), Q, atol=1e-7)


@pytest.mark.parametrize("T", [1.0, 3.0])
@pytest.mark.parametrize("objective", [CrossEntropy, LogitError, ProbabilityError])
@pytest.mark.parametrize("few", [True, False])
def test_derivatives(noisy, objective, few, T, monkeypatch):
    """Gradient and Hessian by finite differences, as a matrix and as a product; no class is vanishing there."""
    monkeypatch.setattr(set_blocks, "FEW_CLASSES", 256 if few else 1)
    monkeypatch.setattr(class_fit, "NEAR", np.inf)
    blocks, rng = blocks_of(LabelSpace(LISTS)), np.random.default_rng(0)
    Z, w = blocks.log_softmax(noisy[:3] / T), rng.uniform(0.5, 2, size=(1, 5))
    X, u = Z if objective is LogitError else np.exp(Z), rng.normal(size=(3, 7))
    problem = class_fit.ClassFit(objective, X, u, np.ones(3), w, T, blocks, 0.0, np.zeros(7, dtype=bool))
    moved = [(problem.at(u + step), problem.at(u - step)) for step in 1e-6 * np.eye(7)]
    slope = np.stack([(up.value - down.value) / 2e-6 for up, down in moved], axis=1)
    bend = np.stack([(up.gradient - down.gradient) / 2e-6 for up, down in moved], axis=1)
    point = problem.at(u)
    np.testing.assert_allclose(point.gradient, slope, atol=1e-7)
    model = problem.model(point)
    if few:
        scale = 1 / model.unit**2  # the common shift of all classes is filled
        whole = model.H / (model.unit[:, :, None] * model.unit[:, None, :])
        whole -= scale[:, :, None] * scale[:, None, :] / scale.sum(axis=1)[:, None, None]
    else:
        whole = np.stack([model.product(np.tile(step, (3, 1))) for step in np.eye(7)], axis=2)
    np.testing.assert_allclose(whole, bend, atol=1e-5)


@pytest.mark.parametrize("more", [{"class_lists": LISTS}, {"class_lists": [[0, 1], [1, 2]], "membership": "scorers"}])
def test_mf_lu_refuses_sets_and_names_what_to_use(more):
    X, K = np.zeros((3, 1)), sum(map(len, more["class_lists"]))
    if "membership" in more:
        more = more | {"membership": [Everybody(), Everybody()]}
    with pytest.raises(ValueError, match=r"MF-LU does not support .* CE \(method='ce'\) or MF-LF .* membership=None"):
        TeacherMerger(None, method="mf_lu", **more).fit(X, log_p=np.zeros((3, K)))


def test_mf_lu_as_a_transformer_refuses_sets(noisy):
    with pytest.raises(ValueError, match=r"several classes, such as '1\|2'"):
        make_method("mf_lu", LISTS).fit(noisy)


RANDOM = [
    [[(0, 1), (2, 3), (4, 5), 6], [(1, 2), (3, 4), 5, 6, 7], [7, 8, 9, 0, (2, 6)]],
    [[(0, 1), 2], [0, (1, 2)], [1, 2, 0]],
    [[0, 1, (2, 3)], [1, 4, 5, 6, (2, 3)], [(2, 3), 6, 7, 8, 9]],
]


@pytest.mark.filterwarnings("ignore:No teacher distinguishes")
@pytest.mark.parametrize("name", ["ce", "mf_lf"])
@pytest.mark.parametrize("lists", RANDOM)
def test_a_row_alone_gets_the_same_answer(lists, name):
    """Answers that contradict each other: which local optimum is found must not depend on other rows."""
    method, log_p = make_method(name, lists, temperature=1.0), random_answers(lists, 60)
    Q = method.fit_transform(log_p)
    alone = np.concatenate([method.transform(log_p[i : i + 1]) for i in range(60)])
    np.testing.assert_allclose(alone, Q, atol=1e-5)
    assert method.fit(log_p[:1]).n_not_converged_ == 0


def random_answers(lists, n):
    rng = np.random.default_rng(0)
    Z = [3 * rng.normal(size=(n, len(own))) for own in lists]
    return np.hstack([own - logsumexp(own, axis=1, keepdims=True) for own in Z])
