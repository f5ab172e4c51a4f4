"""Results that were wrong but reported as solved: plateaus, ties, weak links, exhausted steps, BLAS limits."""

import itertools
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from sklearn_uhc import LabelSpace
from sklearn_uhc.solvers import blocks_of, ce, mf_lu, mf_p
from sklearn_uhc.solvers.ce import fit_differences
from tests.helpers import make_method
from tests.test_precision import LISTS, one_hots


def restricted(q, lists):
    """Probabilities of teachers that all agree with q, (1, K)."""
    q = np.asarray(q)
    return np.concatenate([q[labels] / q[labels].sum() for labels in lists])[None]


@pytest.mark.parametrize("start", [mf_p.AGREED, -1.0], ids=["agreement", "sweeps"])
def test_mf_p_does_not_stop_on_a_plateau(monkeypatch, start):
    """It gave (.9999, 0, 0, .0001), certified with a residual of 9e-9."""
    monkeypatch.setattr(mf_p, "AGREED", start)
    lists, q = [[0, 1], [1, 2], [2, 3]], [0.0009, 0.0001, 0.0016, 0.9974]
    solved = mf_p.solve_mf_p(restricted(q, lists), blocks_of(LabelSpace(lists)))
    assert solved.converged.all()
    np.testing.assert_allclose(solved.u[0], q, atol=1e-8)


@pytest.mark.parametrize("ratio", [1e-4, 1e-6, 1e-9])
def test_mf_p_sees_that_a_point_far_out_is_no_optimum(ratio):
    """On a plateau the gradient vanishes with v relative to P, but not relative to v itself."""
    lists, q = [[0, 1], [1, 2], [2, 3]], [0.1, 0.2, 0.3, 0.4]
    P = restricted(q, lists)
    fit = mf_p.ProbabilityFit(P, (P**2).sum(axis=1), blocks_of(LabelSpace(lists)))
    assert fit.at(np.log([[1.0, 1.0, ratio]])).residual[0] > 0.01


def certain_pairs(n_teachers):
    hot = np.log(np.clip(np.eye(4), 1e-6, None))
    return np.array([np.concatenate(rows) for rows in itertools.product(hot, repeat=n_teachers)])


@pytest.mark.parametrize("n_teachers", [2, 3])
@pytest.mark.parametrize("name", ["mf_lu", "mf_p"])
def test_ties_are_broken_alike_alone_in_any_batch_and_library(name, n_teachers):
    """Two teachers certain of different classes: MF-LU chose one alone and the other in a batch of two."""
    Z = certain_pairs(n_teachers)
    method = make_method(name, [[0, 1, 2, 3]] * n_teachers, temperature=1)
    Q = method.fit_transform(Z)
    assert method.n_not_converged_ == 0
    alone = np.concatenate([method.transform(row[None]) for row in Z])
    np.testing.assert_allclose(alone, Q, atol=1e-8)
    np.testing.assert_allclose(method.transform(Z[::-1].copy())[::-1], Q, atol=1e-8)
    np.testing.assert_allclose(method.transform(torch.asarray(Z)).numpy(), Q, atol=1e-8)
    np.testing.assert_allclose(method.transform(np.repeat(Z, 50, axis=0))[::50], Q, atol=1e-8)


#: Class lists, weights and answers of rows that ended at a saddle point where a v_i is 0 and its slope is rounding.
BOUND = {
    "weights": (
        [[4], [2, 0, 3, 4, 1], [0, 3, 4], [1], [1, 3, 4, 2], [2]],
        [0.1896717843002486, 577.4979572488352, 2.470705495775843, 846.3626105431686, 0.0206447572069645, 0.54],
        [[-2], [0, -1, -1, -1, 2], [1, 2, -1], [-2], [0, 2, -1, -2], [1]],
    ),
    "even": ([[0, 6, 2], [7, 2], [0, 6, 2]], None, [[6, 6, 0], [0.1, 0], [-13, 13, 0]]),
    "certain": (
        [[5, 0, 3, 2], [2, 6, 5, 4, 1, 3, 0], [1, 6, 4, 0, 2, 3, 5]],
        None,
        [[-3, 0, 0, 0], [-5, -5, 0, -5, -5, -5, -5], [0, -12, 0, -12, -12, -12, -12]],
    ),
}


@pytest.mark.parametrize("row", BOUND)
def test_rounding_does_not_decide_whether_a_teacher_of_scale_0_counts(row):
    """A teacher that another one, alone, tells nothing about: v_i = 0 is a saddle point, and was reported as solved."""
    lists, weight, answers = BOUND[row]
    rng, found = np.random.default_rng(0), []
    for n in [1, 3, 60] * 3:
        orders = [rng.permutation(len(labels)) for labels in lists]
        labels = [[labels[k] for k in order] for labels, order in zip(lists, orders, strict=True)]
        z = np.concatenate([np.array(part, dtype=float)[order] for part, order in zip(answers, orders, strict=True)])
        method = make_method("mf_lu", labels, temperature=0.5, teacher_weight=weight)
        Z = np.tile(z, (n, 1))
        found += [method.fit_transform(Z), method.transform(torch.asarray(Z)).numpy()]
        assert method.n_not_converged_ + method.n_ill_conditioned_ == 0
    Q = np.concatenate(found)
    np.testing.assert_allclose(Q, np.tile(Q[0], (len(Q), 1)), atol=1e-8)


@pytest.mark.parametrize(
    ("lists", "z"),
    [
        ([[0, 1], [0, 1]], [0.005, 0.011, 0.027, 0.013]),
        (
            [[1, 4, 6, 5, 2, 0, 3], [4, 3, 6, 2, 1, 5, 0], [4, 0, 1, 5, 6]],
            [-0.1, -0.1, -0.1, 0.1, 0, 0.1, 0.1, -0.1, -0.1, -0.1, 0, 0.1, 0, 0, 0.1, 0.1, -0.1, -0.1, 0],
        ),
    ],
    ids=["all", "two"],
)
def test_negative_curvature_beyond_a_bound_does_not_count(lists, z):
    """It is negative only where one v_i grows from 0 and another falls below."""
    solved = mf_lu.solve_mf_lu(np.array([z]), blocks_of(LabelSpace(lists)))
    assert solved.converged.all()
    assert solved.well_conditioned.all()


@pytest.mark.parametrize("factor", [1.3, 4.3, 13.0])
@pytest.mark.parametrize("low", ["11110101000111000", "01111110000101110"])
def test_curvature_is_that_of_the_end(low, factor):
    """A slope that vanished in the last step still held a v_i at 0 in the curvature before it."""
    blocks = blocks_of(LabelSpace([[3, 1], [0, 5, 3], [3, 5, 2, 1], [2, 0], [4, 2, 1, 0, 3, 5]]))
    Z = blocks.center(-factor * np.array([[float(digit) for digit in low]]))
    solved = mf_lu.solve_mf_lu(Z, blocks)
    assert solved.converged.all()
    fit = mf_lu.LogitFit(Z, (Z**2).sum(axis=1) + 0.01, 0.01, blocks)
    assert fit.model(fit.at(solved.v)).lowest()[0] > 0


def test_the_rule_for_ties_prefers_the_first_teacher():
    first, second = np.log(np.clip(np.eye(4)[[1, 3]], 1e-6, None))
    method = make_method("mf_lu", [[0, 1, 2, 3]] * 2, temperature=1)
    assert method.fit_transform(np.concatenate([first, second])[None]).argmax() == 1
    assert method.fit_transform(np.concatenate([second, first])[None]).argmax() == 3


@pytest.mark.parametrize(
    ("q", "lists"),
    [
        ([0.2, 1e-20, 0.8], [[0, 1], [1, 2]]),
        ([0.2, 0.3, 1e-20, 0.1, 0.4], [[0, 1], [0, 1, 2], [2, 3, 4], [3, 4]]),
        ([0.1, 1e-20, 0.2, 1e-30, 0.7], [[0, 1], [1, 2], [2, 3], [3, 4]]),
    ],
    ids=["chain", "between clusters", "two scales"],
)
@pytest.mark.parametrize("weight", [None, [1.0, 20.0, 0.1, 3.0]], ids=["alike", "unlike"])
def test_ce_sees_links_next_to_nothing(q, lists, weight):
    """It gave (.5, 1.6e-20, .5) for the first and called it converged."""
    method = make_method("ce", lists, temperature=1, teacher_weight=weight and weight[: len(lists)])
    np.testing.assert_allclose(method.fit_transform(np.log(restricted(q, lists)))[0], q, atol=1e-8)
    assert method.n_not_converged_ == 0


def test_differences_between_teachers_lead_to_the_same_optimum():
    """If no link is weak, both solvers of CE agree, also for teachers that do not."""
    blocks = blocks_of(LabelSpace([[0, 1], [1, 2], [2, 0]]))
    P = np.random.default_rng(0).dirichlet([1, 1], size=(50, 3)).reshape(50, 6)
    usual, links = ce.solve_ce(P, blocks), ce.minimize_links(P, blocks, tol=1e-9, max_iter=200)
    assert links.converged.all()
    np.testing.assert_allclose(*(v - v.mean(axis=1, keepdims=True) for v in (usual.v, links.x)), atol=1e-8)


def test_differences_are_fitted_by_least_squares():
    rng = np.random.default_rng(0)
    W, E = rng.random((4, 5, 5)), rng.normal(size=(4, 5, 5))
    W, E = W + W.transpose(0, 2, 1), E - E.transpose(0, 2, 1)
    for x, w, e in zip(fit_differences(E, W), W, E, strict=True):
        laplacian = np.diag(w.sum(axis=1) - np.diag(w)) - w + np.diag(np.diag(w))
        np.testing.assert_allclose(x, np.linalg.pinv(laplacian) @ (w * e).sum(axis=1), atol=1e-10)


@pytest.mark.parametrize("name", ["ce", "mf_p", "mf_lu"])
def test_rows_that_stop_at_max_iter_are_counted(name):
    """A small gradient alone does not make a row solved."""
    Z = 3 * np.random.default_rng(0).normal(size=(60, 8))
    method = make_method(name, [[0, 1, 2], [1, 2, 3], [0, 3]], temperature=1, max_iter=2, tol=1e-2)
    with pytest.warns(ConvergenceWarning, match="stopped at max_iter"):
        method.fit(Z)
    assert method.n_not_converged_ > 0
    assert method.n_iter_ == 2


@pytest.mark.parametrize("temperature", [0.001, 0.05])
def test_mf_lu_at_low_temperatures_counts_what_it_cannot_solve(temperature):
    """93 rows ran to 1,000 steps and were not counted, at 186 ms a row."""
    method = make_method("mf_lu", [[0, 1, 2, 3]] * 3, temperature=temperature)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        method.fit(certain_pairs(3))
    assert method.n_not_converged_ > 0 or method.n_iter_ < method.max_iter


def test_flat_optima_are_counted():
    """Answers of 1e-6 enter MF-P with their squares; at T = 10 they are .25."""
    method = make_method("mf_p", LISTS, temperature=1).fit(one_hots(1e-6))
    assert method.n_not_converged_ == 0
    assert method.n_ill_conditioned_ > 100
    assert make_method("mf_p", LISTS, temperature=10).fit(one_hots(1e-6)).n_ill_conditioned_ == 0


def test_a_saddle_point_is_no_optimum():
    """Between two certain teachers MF-LU's symmetric point has gradient 0 and is left."""
    Z = certain_pairs(2)[1:2]
    blocks = blocks_of(LabelSpace([[0, 1, 2, 3]] * 2))
    solved = mf_lu.solve_mf_lu(Z, blocks)
    assert solved.converged.all()
    assert abs(solved.v[0, 0] - solved.v[0, 1]) > 0.1


OVERLAP = """
import threading
import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits
from sklearn_uhc.solvers.blas import one_blas_thread

def threads():
    return [lib["num_threads"] for lib in threadpool_info() if lib["user_api"] == "blas"]

with threadpool_limits(2, user_api="blas"):
    before = threads()
    first_in, second_in, first_out = (threading.Event() for _ in range(3))

    def first():
        with one_blas_thread():
            first_in.set()
            second_in.wait()
        first_out.set()

    def second():
        first_in.wait()
        with one_blas_thread():
            second_in.set()
            first_out.wait()
            assert set(threads()) == {1}, threads()

    both = [threading.Thread(target=f) for f in (first, second)]
    [t.start() for t in both]
    [t.join() for t in both]
    assert threads() == before and set(before) == {2}, (before, threads())
    try:
        with one_blas_thread():
            raise KeyError
    except KeyError:
        assert threads() == before
print("as before")
"""


def test_limits_of_blas_nest():
    """After fits that overlapped in two threads BLAS stayed at one thread for the whole process."""
    done = subprocess.run([sys.executable, "-c", OVERLAP], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.strip() == "as before", done.stderr
