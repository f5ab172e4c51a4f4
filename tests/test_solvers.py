"""Solvers against the paper's naive algorithms and against optimality certificates."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

from sklearn_uhc import LabelSpace
from sklearn_uhc.solvers import ce, mf_lf, mf_lu, mf_p
from sklearn_uhc.solvers.blocks import MIN_LOG_P, Blocks, softmax
from tests import reference
from tests.helpers import random_lists, random_outputs

SIZES = [(10, 5, 2, 5), (35, 15, 5, 15)]


def problem(seed, L, N, smallest, largest, n=12):
    rng = np.random.default_rng(seed)
    lists = random_lists(rng, L, N, smallest, largest)
    space = LabelSpace(lists)
    blocks = Blocks.from_label_space(space)
    Z = blocks.log_softmax(random_outputs(rng, lists, n)) / 3
    return space, blocks, Z, np.exp(blocks.log_softmax(Z))


@pytest.fixture(params=[(seed, *size) for seed in range(3) for size in SIZES], ids=str)
def case(request):
    return problem(*request.param)


def dense_rows(space, *flats):
    """Yield, sample by sample, the paper's matrices of each flat array, then the mask."""
    for rows in zip(*flats, strict=True):
        pairs = [reference.dense(row, space.class_lists, space.classes) for row in rows]
        yield (*[pair[0] for pair in pairs], pairs[0][1])


def test_mf_lf_is_least_squares(case):
    space, blocks, Z, _ = case
    U = Z @ mf_lf.solution_operator(blocks)
    for (z, M), u in zip(dense_rows(space, Z), U, strict=True):
        np.testing.assert_allclose(u, reference.mf_lf(z, M), atol=1e-9)


def test_mf_lf_solves_the_normal_equations(case):
    _, blocks, Z, _ = case
    A, B = mf_lf.normal_equations(blocks)
    U = Z @ mf_lf.solution_operator(blocks)
    np.testing.assert_allclose(U @ A, Z @ B.T, atol=1e-10)


def test_mf_lf_nullity_is_the_number_of_components():
    space = LabelSpace([[0, 1, 2], [2, 3], [4, 5], [6]])
    A, _ = mf_lf.normal_equations(Blocks.from_label_space(space))
    assert np.sum(np.linalg.eigvalsh(A) < 1e-10) == space.n_components == 3


def test_ce_reaches_the_optimum_of_a_general_optimiser(case):
    space, blocks, _, P = case
    solved = ce.solve_ce(P[:3], blocks)
    for (p, M), q in zip(dense_rows(space, P[:3]), solved.u, strict=True):
        expected = reference.ce(p, M)
        np.testing.assert_allclose(q, expected, atol=1e-6)
        assert reference.ce_objective(np.log(q), p, M) <= reference.ce_objective(np.log(expected), p, M) + 1e-10


def test_ce_certificate(case):
    _, blocks, _, P = case
    solved = ce.solve_ce(P, blocks)
    gradient = ce.dual_gradient(solved.v, P @ blocks.to_class, blocks.M)
    assert solved.converged.all()
    assert np.abs(gradient).max() <= 1e-9
    assert solved.n_iter.max() <= 10


def test_ce_primal_gradient_vanishes(case):
    """q restricted to each list, summed over the teachers, gives back the sum of their probabilities."""
    _, blocks, _, P = case
    Q = ce.solve_ce(P, blocks).u
    restricted = Q[:, blocks.class_of] / (Q @ blocks.M.T)[:, blocks.teacher_of]
    np.testing.assert_allclose(restricted @ blocks.to_class, P @ blocks.to_class, atol=1e-8)


def test_ce_dual_gradient_by_differences(case):
    _, blocks, _, P = case
    a = (P @ blocks.to_class)[:1]
    theta = np.random.default_rng(0).normal(size=len(blocks.M))
    error = check_grad(
        lambda t: ce.dual_value(t[None], a, blocks.M)[0], lambda t: ce.dual_gradient(t[None], a, blocks.M)[0], theta
    )
    assert error < 1e-5


def test_mf_p_is_at_least_as_good_as_the_paper(case):
    space, blocks, _, P = case
    solved = mf_p.solve_mf_p(P, blocks)
    for (p, M), u, v in zip(dense_rows(space, P), solved.u, solved.v, strict=True):
        theirs = reference.mf_p_objective(*reference.mf_p(p, M), p, M)
        assert reference.mf_p_objective(u, v, p, M) <= theirs + 1e-12


def test_mf_p_certificate(case):
    _, blocks, _, P = case
    solved = mf_p.solve_mf_p(P, blocks)
    size = (P**2).sum(axis=1, keepdims=True)
    assert solved.converged.all()
    assert np.abs(mf_p.gradient(P, solved.v, blocks) / size).max() <= 1e-8
    assert (solved.u >= 0).all()
    assert (solved.v >= 0).all()
    np.testing.assert_allclose(solved.u.sum(axis=1), 1)
    # Both blocks of variables are at their least-squares optimum given the other.
    np.testing.assert_allclose(mf_p.best_u(P, solved.v, blocks), solved.u, atol=1e-7)
    np.testing.assert_allclose(mf_p.best_v(P, solved.u, blocks), solved.v, rtol=1e-5)


def test_mf_p_gradient_by_differences(case):
    _, blocks, _, P = case
    p = P[:1]

    def value(theta):
        v = np.exp(theta)[None]
        return 0.5 * mf_p.objective(p, mf_p.best_u(p, v, blocks), v, blocks)[0]

    theta = np.random.default_rng(0).normal(size=len(blocks.M))
    assert check_grad(value, lambda t: mf_p.gradient(p, np.exp(t)[None], blocks)[0], theta) < 1e-6


def test_mf_p_sweep_is_the_papers(case):
    space, blocks, _, P = case
    V = np.ones((len(P), len(blocks.M)))
    for _ in range(4):
        V = mf_p.sweep(P, V, blocks)
    for (p, M), v in zip(dense_rows(space, P), V, strict=True):
        np.testing.assert_allclose(v, reference.mf_p(p, M, tol=0, max_iter=4)[1])


def test_mf_lu_is_at_least_as_good_as_the_paper(case):
    """The problem is not convex: a rare sample (1 in 1,500 noisy ones) ends in another local optimum."""
    space, blocks, Z, _ = case
    solved = mf_lu.solve_mf_lu(Z, blocks)
    ours = mf_lu.objective(Z, solved.u, solved.v, 0.01, blocks)
    theirs = [reference.mf_lu_objective(*reference.mf_lu(z, M), z, M, 0.01) for z, M in dense_rows(space, Z)]
    assert (ours <= np.array(theirs) + 1e-9).all()


def test_mf_lu_warm_up_is_the_papers(case):
    space, blocks, Z, _ = case
    centered, V = blocks.center(Z), np.ones((len(Z), len(blocks.M)))
    C = np.zeros_like(V)
    for _ in range(4):
        U, V, C = mf_lu.paper_sweep(centered, V, C, 0.01, blocks)
    for (z, M), u, v in zip(dense_rows(space, Z), U, V, strict=True):
        expected = reference.mf_lu(z, M, tol=0, max_iter=4)
        np.testing.assert_allclose(u, expected[0], atol=1e-10)
        np.testing.assert_allclose(v, expected[1], atol=1e-10)


def test_mf_lu_objective_is_the_papers(case):
    space, blocks, Z, _ = case
    rng = np.random.default_rng(0)
    U, V = rng.normal(size=(len(Z), len(space.classes))), rng.random((len(Z), len(blocks.M)))
    for (z, M), u, v, value in zip(dense_rows(space, Z), U, V, mf_lu.objective(Z, U, V, 0.01, blocks), strict=True):
        c = (M * (z - np.outer(u, v))).sum(axis=0) / M.sum(axis=0)
        assert value == pytest.approx(reference.mf_lu_objective(u, v, c, z, M, 0.01))


def test_mf_lu_certificate(case):
    _, blocks, Z, _ = case
    solved = mf_lu.solve_mf_lu(Z, blocks, tol=1e-9, max_iter=20000)
    by_u, by_v = mf_lu.gradient(Z, solved.u, solved.v, 0.01, blocks)
    assert solved.converged.all()
    assert (solved.v >= 0).all()
    assert np.abs(by_u).max() < 1e-6
    assert np.abs(np.where(solved.v > 0, by_v, np.minimum(by_v, 0))).max() < 1e-6


def test_mf_lu_sweeps_never_increase_the_objective(case):
    _, blocks, Z, _ = case
    Z = blocks.center(Z)
    V = np.ones((len(Z), len(blocks.M)))
    U = mf_lu.best_u(Z, V, np.zeros_like(V), 0.01, blocks)
    values = []
    for _ in range(30):
        values.append(mf_lu.objective(Z, U, V, 0.01, blocks))
        U, V = mf_lu.sweep(Z, U, V, 0.01, blocks)
    assert (np.diff(values, axis=0) <= 1e-10).all()


def test_max_iter_is_kept_and_counted():
    _, blocks, Z, P = problem(0, 10, 5, 2, 5, n=50)
    for solved in (
        ce.solve_ce(P, blocks, max_iter=1),
        mf_p.solve_mf_p(P, blocks, max_iter=6),
        mf_lu.solve_mf_lu(Z, blocks, max_iter=22, tol=1e-9),
    ):
        assert not solved.converged.all()
        assert (solved.n_iter[~solved.converged] == solved.n_iter.max()).all()
        assert np.isfinite(solved.u).all()


def test_samples_do_not_influence_each_other():
    _, blocks, Z, P = problem(1, 10, 5, 2, 5, n=40)
    for solve, data in ((ce.solve_ce, P), (mf_p.solve_mf_p, P)):
        np.testing.assert_allclose(solve(data, blocks).u[7:9], solve(data[7:9], blocks).u, atol=1e-7)
    together, alone = mf_lu.solve_mf_lu(Z, blocks, tol=1e-8), mf_lu.solve_mf_lu(Z[7:9], blocks, tol=1e-8)
    np.testing.assert_allclose(together.u[7:9], alone.u, atol=1e-5)


def test_log_softmax_clips_and_survives_anything():
    blocks = Blocks.from_label_space(LabelSpace([[0, 1, 2], [1, 2], [3]]))
    Z = np.array([[0, -np.inf, -1e308, -np.inf, -np.inf, -np.inf], [1e308, -1e308, 0, 5, 5, 7]])
    log_p = blocks.log_softmax(Z)
    assert np.isfinite(log_p).all()
    assert log_p.min() >= MIN_LOG_P - 1
    np.testing.assert_allclose(np.exp(log_p[0, 3:5]), 0.5)
    np.testing.assert_allclose(np.exp(log_p) @ blocks.to_teacher, 1)


# Adversarial probabilities: exact zeros, one-hot teachers that contradict each other, values of 1e-300.
ENTRY = st.sampled_from([0.0, 1e-300, 1e-30, 1e-6, 0.1, 0.5, 1.0])


@st.composite
def adversarial(draw):
    L = draw(st.integers(1, 6))
    lists = draw(st.lists(st.lists(st.integers(0, L - 1), min_size=1, max_size=L, unique=True), min_size=1, max_size=5))
    space = LabelSpace(lists)
    rows = []
    for columns in space.columns:
        values = np.array(draw(st.lists(ENTRY, min_size=len(columns), max_size=len(columns))))
        rows.append(values / values.sum() if values.sum() > 0 else np.full(len(values), 1 / len(values)))
    return Blocks.from_label_space(space), np.concatenate(rows)[None]


@settings(max_examples=300, deadline=None)
@given(adversarial())
def test_adversarial_inputs_stay_on_the_simplex(drawn):
    blocks, P = drawn
    with np.errstate(divide="ignore"):
        Z = blocks.log_softmax(np.log(P))
    tempered = np.exp(blocks.log_softmax(Z / 3))
    answers = [
        ce.solve_ce(P, blocks).u,
        ce.solve_ce(tempered, blocks).u,
        blocks.level_components(mf_p.solve_mf_p(P, blocks).u),
        softmax(mf_lu.solve_mf_lu(Z, blocks).u),
        softmax(Z @ mf_lf.solution_operator(blocks)),
    ]
    for Q in answers:
        assert np.isfinite(Q).all()
        assert (Q >= 0).all()
        assert Q.sum() == pytest.approx(1)


def test_ce_limit_when_zeros_disconnect_a_sample():
    """Teacher 1 over A, B says A for certain, teacher 2 over B, C says B: A beats B beats C."""
    blocks = Blocks.from_label_space(LabelSpace([["a", "b"], ["b", "c"]]))
    solved = ce.solve_ce(np.array([[1.0, 0.0, 1.0, 0.0]]), blocks)
    np.testing.assert_allclose(solved.u, [[1, 0, 0]], atol=1e-6)
    flat = ce.solve_ce(np.array([[1.0, 0.0, 0.0, 1.0]]), blocks)
    assert flat.converged.all()
    np.testing.assert_allclose(flat.u, [[0.5, 0, 0.5]], atol=1e-6)
