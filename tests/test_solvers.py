"""Solvers compared with the paper's naive algorithms, and with optimality certificates."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import approx_fprime, check_grad

from sklearn_uhc import LabelSpace
from sklearn_uhc.solvers import blocks_of, ce, mf_lf, mf_lu, mf_p
from sklearn_uhc.solvers.blocks import MIN_LOG_P, softmax
from sklearn_uhc.solvers.newton import Hessian, minimize
from sklearn_uhc.solvers.plain_blocks import PlainBlocks
from tests import reference
from tests.helpers import random_lists, random_outputs

SIZES = [(10, 5, 2, 5), (35, 15, 5, 15)]


def problem(seed, L, N, smallest, largest, n=12):
    rng = np.random.default_rng(seed)
    lists = random_lists(rng, L, N, smallest, largest)
    space = LabelSpace(lists)
    blocks = blocks_of(space)
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
    U, _ = mf_lf.LogitAverage.of(blocks).solve(Z)
    for (z, M), u in zip(dense_rows(space, Z), U, strict=True):
        np.testing.assert_allclose(u, reference.mf_lf(z, M), atol=1e-9)


def test_mf_lf_certificate(case):
    _, blocks, Z, _ = case
    equations = mf_lf.LogitAverage.of(blocks)
    U, residual = equations.solve(Z)
    error = blocks.center(Z - blocks.by_class(U))
    assert np.abs(error @ blocks.to_class).max() < 1e-12
    assert residual.max() < 1e-12
    wrong = equations._replace(inverse=equations.inverse + 0.1 * np.eye(len(equations.inverse)))
    U, residual = wrong.solve(Z)
    error = blocks.center(Z - blocks.by_class(U))
    np.testing.assert_allclose(residual, np.abs(error @ blocks.to_class).max(axis=1), atol=1e-12)
    assert residual.max() > 1e-3


@pytest.mark.parametrize("value", [None, -np.inf, -200.0, 5e3, -1e300], ids=str)
def test_mf_lf_shifts_logits_only_where_that_matters(value):
    blocks = blocks_of(LabelSpace([["a", "b", "c"], ["b", "c", "d"]]))
    Z = np.random.default_rng(0).normal(size=(4, 6))
    if value is not None:
        Z[0, 1] = value
    unshifted, shifted = blocks.unshifted(Z), blocks.shift(Z)
    equations = mf_lf.LogitAverage.of(blocks)
    np.testing.assert_allclose(equations.solve(unshifted)[0], equations.solve(shifted)[0], rtol=0, atol=1e-12)
    assert (unshifted == Z).all() == (value is None)


def test_mf_lf_nullity_is_the_number_of_components():
    space = LabelSpace([[0, 1, 2], [2, 3], [4, 5], [6]])
    core = mf_lf.system(blocks_of(space), np.ones((1, 4)), np.array([[1.0, 1, 2, 1, 1, 1, 1]]))
    assert np.sum(np.linalg.eigvalsh(core) < 1e-10) == space.n_components == 3


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
    problem = ce.CrossEntropyDual.of(P @ blocks.to_class, blocks)
    assert solved.converged.all()
    np.testing.assert_allclose(problem.at(solved.v).residual, solved.residual, atol=1e-14)
    assert solved.residual.max() <= 1e-9
    assert solved.n_iter.max() <= 10


def test_ce_primal_gradient_vanishes(case):
    """q restricted to each list, summed over the teachers, equals the sum of their probabilities."""
    _, blocks, _, P = case
    Q = ce.solve_ce(P, blocks).u
    restricted = Q[:, blocks.class_of] / (Q @ blocks.M.T)[:, blocks.teacher_of]
    np.testing.assert_allclose(restricted @ blocks.to_class, P @ blocks.to_class, atol=1e-8)


def matrix_of(problem, point):
    """The Hessian as a matrix plus a diagonal, and the scale of every variable."""
    model = problem.model(point)
    scale = 1 / model.unit**2
    return model.H / (model.unit[:, :, None] * model.unit[:, None, :]), 0 * scale, scale


def check_derivatives(problem, x):
    """Compare gradient and Hessian of one sample with central differences."""

    def gradient(x):
        return problem.at(x[None]).gradient[0]

    assert check_grad(lambda x: problem.at(x[None]).value[0], gradient, x) < 1e-5
    numeric = approx_fprime(x, gradient, 1e-7)
    B, d, _ = matrix_of(problem, problem.at(x[None]))
    np.testing.assert_allclose(B[0] + np.diag(d[0]), numeric, atol=1e-4)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_derivatives(size):
    _, blocks, Z, P = problem(0, *size, n=1)
    rng = np.random.default_rng(0)
    x = 0.3 * rng.normal(size=len(blocks.M))
    # Without the projectors that fill the null spaces in.
    bare = replace(blocks, teacher_component_mean=np.zeros_like(blocks.teacher_component_mean))
    check_derivatives(ce.CrossEntropyDual.of(P @ blocks.to_class, bare), x)
    check_derivatives(mf_p.ProbabilityFit(P, (P**2).sum(axis=1), bare), x)
    Z = blocks.center(Z)
    start = mf_lu.solve_mf_lu(Z, blocks, max_iter=1).v[0] + 0.1 * rng.random(len(blocks.M)) + 0.5
    fit = mf_lu.LogitFit(Z, (Z**2).sum(axis=1) + 0.01, 0.01, blocks)
    point = fit.at(start[None])
    assert (point.gradient < start * matrix_of(fit, point)[2]).all(), "the case must be in the interior"
    check_derivatives(fit, start)


def problems(blocks, Z, P):
    """The three problems of the shared loop, each with a start."""
    Z, x = blocks.center(Z), 0.5 * np.random.default_rng(0).normal(size=(len(Z), len(blocks.M)))
    return {
        "ce": (ce.CrossEntropyDual.of(P @ blocks.to_class, blocks), x),
        "mf_p": (mf_p.ProbabilityFit(P, (P**2).sum(axis=1), blocks), x),
        "mf_lu": (mf_lu.LogitFit(Z, (Z**2).sum(axis=1) + 0.01, 0.01, blocks), np.exp(x)),
    }


@pytest.mark.parametrize("method", ["ce", "mf_p", "mf_lu"])
def test_the_safe_step_never_increases_the_objective(case, method):
    _, blocks, Z, P = case
    fit, x = problems(blocks, Z, P)[method]
    first = point = fit.at(x)
    for _ in range(20):
        after = fit.at(fit.safe(point))
        assert (after.value <= point.value + 1e-12 * (1 + np.abs(point.value))).all()
        point = after
    assert (point.value < first.value).all()


@pytest.mark.parametrize("method", ["ce", "mf_p", "mf_lu"])
def test_the_safe_step_takes_over_where_newton_fails(method):
    """With a nonsensical curvature every Newton step leads uphill, and the optimum is still found."""
    _, blocks, Z, P = problem(0, 10, 5, 2, 5, n=20)
    fit, x = problems(blocks, Z, P)[method]

    class Misled(type(fit)):
        def start(self):
            return x

        def model(self, point, mu=None):
            B, _, scale = matrix_of(fit.keep(slice(0, len(point.x))), point)
            return Hessian.of(0 * B, -scale, scale, point.gradient, mu)

    misled = Misled(**vars(fit))
    before = fit.at(x).value
    found = minimize(misled, room=20, tol=1e-4, max_iter=20_000)
    assert found.residual.max() <= 1e-4
    assert (fit.at(found.x).value < before).all()


def test_mf_p_is_at_least_as_good_as_the_paper(case):
    space, blocks, _, P = case
    solved = mf_p.solve_mf_p(P, blocks)
    for (p, M), u, v in zip(dense_rows(space, P), solved.u, solved.v, strict=True):
        theirs = reference.mf_p_objective(*reference.mf_p(p, M), p, M)
        assert reference.mf_p_objective(u, v, p, M) <= theirs + 1e-12


def test_mf_p_certificate(case):
    _, blocks, _, P = case
    solved = mf_p.solve_mf_p(P, blocks)
    problem = mf_p.ProbabilityFit(P, (P**2).sum(axis=1), blocks)
    assert solved.converged.all()
    assert problem.at(np.log(solved.v)).residual.max() <= 2e-8
    assert (solved.u >= 0).all()
    assert (solved.v >= 0).all()
    np.testing.assert_allclose(solved.u.sum(axis=1), 1)
    # Both blocks of variables are at their least-squares optimum given the other.
    np.testing.assert_allclose(mf_p.best_u(P, solved.v, blocks), solved.u, atol=1e-8)
    np.testing.assert_allclose(mf_p.best_v(P, solved.u, blocks), solved.v, rtol=1e-6)


def test_mf_p_sweep_is_the_papers(case):
    space, blocks, _, P = case
    V = np.ones((len(P), len(blocks.M)))
    for _ in range(4):
        V = mf_p.sweep(P, V, blocks)
    for (p, M), v in zip(dense_rows(space, P), V, strict=True):
        np.testing.assert_allclose(v, reference.mf_p(p, M, tol=0, max_iter=4)[1])


def test_mf_lu_is_at_least_as_good_as_the_paper(case):
    """Not convex: among noisy samples about 1 in 400 ends in another local optimum than the paper's run."""
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
    solved = mf_lu.solve_mf_lu(Z, blocks)
    by_u, by_v = mf_lu.gradient(Z, solved.u, solved.v, 0.01, blocks)
    assert solved.converged.all()
    assert (solved.v >= 0).all()
    assert np.abs(by_u).max() < 1e-9
    assert np.abs(np.where(solved.v > 0, by_v, np.minimum(by_v, 0))).max() < 1e-6
    # At the optimum the ridge has made both norms equal.
    np.testing.assert_allclose((solved.u**2).sum(axis=1), (solved.v**2).sum(axis=1), rtol=1e-3)


def test_mf_lu_keeps_scales_at_zero():
    """A teacher that contradicts all others gets scale 0, not a negative one."""
    lists = [[0, 1, 2, 3]] * 4
    blocks = blocks_of(LabelSpace(lists))
    z = np.array([3.0, 1.0, -1.0, -3.0])
    solved = mf_lu.solve_mf_lu(np.concatenate([z, z, z, -z])[None], blocks)
    assert solved.converged.all()
    np.testing.assert_allclose(solved.v[0, 3], 0)
    assert solved.u[0].argmax() == 0


def test_mf_lu_sweeps_never_increase_the_objective(case):
    _, blocks, Z, _ = case
    Z = blocks.center(Z)
    V = np.ones((len(Z), len(blocks.M)))
    U, V, _ = mf_lu.paper_sweep(Z, V, np.zeros_like(V), 0.01, blocks)
    values = []
    for _ in range(30):
        values.append(mf_lu.objective(Z, U, V, 0.01, blocks))
        U, V = mf_lu.balanced_sweep(Z, U, V, 0.01, blocks)
    assert (np.diff(values, axis=0) <= 1e-10).all()


@pytest.mark.parametrize("max_iter", [1, 6, 43])
def test_max_iter_is_kept_and_counted(max_iter):
    _, blocks, Z, P = problem(0, 10, 5, 2, 5, n=50)
    for solved in (
        ce.solve_ce(P, blocks, max_iter=max_iter, tol=1e-15),
        mf_p.solve_mf_p(P, blocks, max_iter=max_iter, tol=1e-17),
        mf_lu.solve_mf_lu(Z, blocks, max_iter=max_iter, tol=1e-17),
    ):
        assert solved.n_iter.max() <= max_iter
        assert (solved.n_iter[~solved.converged] == max_iter).all()
        assert np.isfinite(solved.u).all()
        if max_iter < 6:
            assert not solved.converged.all()


@pytest.mark.parametrize(("small", "error_of_mf_p"), [(1e-3, 1e-8), (1e-5, 1e-3), (1e-6, 0.02)])
def test_tiny_probabilities_still_decide_the_odds(small, error_of_mf_p):
    """Two consistent teachers whose shared class is nearly impossible: it enters MF-P squared, down to rounding."""
    blocks = blocks_of(LabelSpace([["a", "b"], ["b", "c"]]))
    P = np.array([[1 - small, small, small / 10, 1 - small / 10]])
    expected = np.array([[1 / small - 1, 1, 10 / small - 1]])
    expected /= expected.sum()
    np.testing.assert_allclose(ce.solve_ce(P, blocks).u, expected, atol=1e-8)
    np.testing.assert_allclose(mf_p.solve_mf_p(P, blocks).u, expected, atol=error_of_mf_p)


@pytest.mark.parametrize("spread", [2, 5, 10])
def test_ce_of_sharp_consistent_teachers_is_exact(spread):
    rng = np.random.default_rng(0)
    lists = random_lists(rng, 10, 6, 2, 5)
    blocks = blocks_of(LabelSpace(lists))
    U = spread * rng.normal(size=(400, 10))
    solved = ce.solve_ce(np.exp(blocks.log_softmax(U[:, blocks.class_of])), blocks)
    assert solved.converged.all()
    assert (solved.u.argmax(axis=1) == U.argmax(axis=1)).mean() >= (1 if spread < 10 else 0.99)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_samples_do_not_influence_each_other(monkeypatch, size, library):
    """Alone, in another order, all at once or a few at a time: the results are the same."""
    _, blocks, Z, P = problem(1, *size, n=60)
    convert = torch.asarray if library == "torch" else np.asarray
    blocks, order = blocks.like(convert(P)), np.random.default_rng(0).permutation(60)
    for solve, data in ((ce.solve_ce, P), (mf_p.solve_mf_p, P), (mf_lu.solve_mf_lu, Z)):
        together = solve(convert(data), blocks)
        others = [(solve(convert(data[7:8]), blocks), [7]), (solve(convert(data[order]), blocks), order)]
        for room in (1, 7, 32):
            with monkeypatch.context() as patch:
                patch.setattr(PlainBlocks, "batch_rows", room)
                others.append((solve(convert(data), blocks), range(60)))
        for found, rows in others:
            assert found.converged.all()
            np.testing.assert_allclose(found.u, together.u[rows], atol=1e-8)
            np.testing.assert_allclose(found.v, together.v[rows], atol=1e-6)
            assert abs(found.n_iter - together.n_iter[rows]).max() <= 1  # rounding may tip the last one


def test_samples_that_never_converge_leave_too(monkeypatch):
    """With room for few, all samples enter, and each takes its own number of steps."""
    monkeypatch.setattr(PlainBlocks, "batch_rows", 4)
    _, blocks, Z, P = problem(0, 10, 5, 2, 5, n=30)
    for solve, data in ((ce.solve_ce, P), (mf_p.solve_mf_p, P), (mf_lu.solve_mf_lu, Z)):
        solved = solve(data, blocks, max_iter=60, tol=1e-30)
        assert (solved.n_iter[~solved.converged] == 60).all()
        assert (solved.residual[solved.converged] == 0).all()
        assert not solved.converged.all()
        np.testing.assert_allclose(solved.u, solve(data, blocks).u, atol=1e-6)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_torch_gives_the_same_answers(size):
    _, blocks, Z, P = problem(2, *size, n=40)
    theirs = blocks.like(torch.asarray(P))
    for solve, data in ((ce.solve_ce, P), (mf_p.solve_mf_p, P), (mf_lu.solve_mf_lu, Z)):
        ours, torchs = solve(data, blocks), solve(torch.asarray(data), theirs)
        assert isinstance(torchs.u, torch.Tensor)
        assert bool(torchs.converged.all())
        np.testing.assert_allclose(torchs.u.numpy(), ours.u, atol=1e-8)
    U, _ = mf_lf.LogitAverage.of(theirs).solve(torch.asarray(Z))
    np.testing.assert_allclose(U.numpy(), mf_lf.LogitAverage.of(blocks).solve(Z)[0], atol=1e-10)
    np.testing.assert_allclose(theirs.log_softmax(torch.asarray(Z)).numpy(), blocks.log_softmax(Z), atol=1e-12)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_float32_is_good_to_four_digits(size, library):
    _, blocks, Z, P = problem(3, *size, n=40)
    convert = (lambda A: torch.asarray(A, dtype=torch.float32)) if library == "torch" else np.float32
    single = blocks.like(convert(P))
    for solve, data in ((ce.solve_ce, P), (mf_p.solve_mf_p, P), (mf_lu.solve_mf_lu, Z)):
        solved = solve(convert(data), single, tol=1e-5)
        assert str(solved.u.dtype).endswith("float32")
        np.testing.assert_allclose(np.asarray(solved.u), solve(data, blocks).u, atol=2e-3 if data is Z else 3e-4)


def test_log_softmax_clips_and_survives_anything():
    blocks = blocks_of(LabelSpace([[0, 1, 2], [1, 2], [3]]))
    Z = np.array([[0, -np.inf, -1e308, -np.inf, -np.inf, -np.inf], [1e308, -1e308, 0, 5, 5, 7]])
    log_p = blocks.log_softmax(Z)
    assert np.isfinite(log_p).all()
    assert log_p.min() >= MIN_LOG_P - 1
    np.testing.assert_allclose(np.exp(log_p[0, 3:5]), 0.5)
    np.testing.assert_allclose(blocks.sum_teachers(np.exp(log_p)), 1)


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
    return blocks_of(space), np.concatenate(rows)[None]


@settings(max_examples=300, deadline=None)
@given(adversarial())
def test_adversarial_inputs_stay_on_the_simplex(drawn):
    blocks, P = drawn
    with np.errstate(divide="ignore"):
        Z = blocks.log_softmax(np.log(P))
    tempered = np.exp(blocks.log_softmax(Z / 3))
    solved = [
        ce.solve_ce(P, blocks),
        ce.solve_ce(tempered, blocks),
        mf_p.solve_mf_p(P, blocks),
        mf_lu.solve_mf_lu(Z, blocks),
    ]
    for answer, most in zip(solved, (200, 200, 1000, 1000), strict=True):
        assert (answer.converged | (answer.n_iter == most)).all()
    answers = [
        solved[0].u,
        solved[1].u,
        blocks.level_components(solved[2].u),
        softmax(solved[3].u),
        softmax(mf_lf.LogitAverage.of(blocks).solve(Z)[0]),
    ]
    for Q in answers:
        assert np.isfinite(Q).all()
        assert (Q >= 0).all()
        assert Q.sum() == pytest.approx(1)


def test_ce_limit_when_zeros_disconnect_a_sample():
    """Teacher 1 over A, B says A for certain, teacher 2 over B, C says B: A beats B beats C."""
    blocks = blocks_of(LabelSpace([["a", "b"], ["b", "c"]]))
    solved = ce.solve_ce(np.array([[1.0, 0.0, 1.0, 0.0]]), blocks)
    np.testing.assert_allclose(solved.u, [[1, 0, 0]], atol=1e-6)
    flat = ce.solve_ce(np.array([[1.0, 0.0, 0.0, 1.0]]), blocks)
    assert flat.converged.all()
    np.testing.assert_allclose(flat.u, [[0.5, 0, 0.5]], atol=1e-6)
