"""Random and malicious answers: results are finite, on the simplex, optimal, equal in any batch, order and library."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.exceptions import ConvergenceWarning

from sklearn_uhc import LabelSpace
from sklearn_uhc.solvers import blocks_of, mf_lu, mf_p
from tests import reference
from tests.helpers import METHOD_NAMES, make_method

ITERATIVE = ("ce", "mf_p", "mf_lu")
#: Tolerance for answers in different batches and libraries, if the method reports them as determined.
SAME = 1e-8


def some_lists(rng):
    """Draw class lists of up to 8 classes, connected or not, including lists of one class and equal lists."""
    L, N = int(rng.integers(2, 9)), int(rng.integers(1, 7))
    lists = [rng.choice(L, int(rng.integers(1, L + 1)), replace=False).tolist() for _ in range(N)]
    return [*lists, lists[0]] if rng.random() < 0.2 else lists


def certain(rng, space, n):
    return np.where(rng.random((n, space.n_outputs)) < 0.3, 0.0, np.log(1e-6))


def tied(rng, space, n):
    return rng.integers(-2, 3, size=(n, space.n_outputs)).astype(float)


def tiny(rng, space, n):
    return -80 * rng.random((n, space.n_outputs))


def consistent(rng, space, n):
    return (rng.choice([1.0, 4.0, 12.0]) * rng.normal(size=(n, space.n_classes)))[:, np.concatenate(space.columns)]


def noisy(rng, space, n):
    return consistent(rng, space, n) + rng.normal(size=(n, space.n_outputs))


def contradictory(rng, space, n):
    return 10 * rng.normal(size=(n, space.n_outputs))


def impossible(rng, space, n):
    return np.where(rng.random((n, space.n_outputs)) < 0.4, -np.inf, noisy(rng, space, n))


KINDS = [certain, tied, tiny, consistent, noisy, contradictory, impossible]


def draw(rng, name, n):
    """Return a method, its answers Z (n, K), and their description."""
    space = LabelSpace(some_lists(rng))
    kind = KINDS[rng.integers(len(KINDS))]
    weight = None if rng.random() < 0.7 else (10 ** rng.uniform(-3, 3, space.n_teachers)).tolist()
    temperature = float(rng.choice([0.5, 1.0, 3.0, 10.0]))
    lists = [list(labels) for labels in space.class_lists]
    return make_method(name, lists, temperature=temperature, teacher_weight=weight), kind(rng, space, n), kind.__name__


def solve(method, Z):
    """Fit and transform without warnings about such answers; the counts are tested instead."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=ConvergenceWarning)
        warnings.filterwarnings("ignore", message="The class lists do not connect")
        warnings.filterwarnings("ignore", message="No teacher answers")
        warnings.filterwarnings("ignore", message="None of the")
        return method.fit_transform(Z)


def determined(method, Z):
    """Return which rows the method reports as solved and well conditioned, row by row."""
    if method.n_not_converged_ + method.n_ill_conditioned_ == 0:
        return np.ones(len(Z), dtype=bool)
    found = []
    for row in Z:
        solve(method, row[None])
        found.append(method.n_not_converged_ + method.n_ill_conditioned_ == 0)
    return np.array(found)


def check_simplex(Q):
    assert np.isfinite(Q).all()
    assert (Q >= 0).all()
    np.testing.assert_allclose(Q.sum(axis=1), 1, atol=1e-6)


def check_same(found, expected, rows, what, atol=SAME):
    apart = np.abs(np.asarray(found) - expected).max(axis=1)
    assert (apart[rows] <= atol).all(), f"{what}: {apart[rows].max()}"


def check_order(method, Z, Q, rows, what, rng):
    """Adding a constant to a teacher changes nothing, nor does another order of the classes."""
    blocks = method.label_space_.blocks
    shifted, columns, lists = Z.copy(), [], []
    for block, labels in zip(blocks, method.class_lists, strict=True):
        shifted[:, block] += np.round(rng.normal())
        order = rng.permutation(len(labels))
        columns.append(np.arange(block.start, block.stop)[order])
        lists.append([labels[k] for k in order])
    check_same(solve(method, shifted), Q, rows, f"{what}, shifted")
    other = make_method(what.split(",")[0], lists, **{k: getattr(method, k) for k in ("temperature", "teacher_weight")})
    check_same(solve(other, Z[:, np.concatenate(columns)]), Q, rows, f"{what}, relisted")


def attack(name, seed, n):
    """Draw one label space and n rows, and check everything that holds for all answers."""
    rng = np.random.default_rng(seed)
    method, Z, kind = draw(rng, name, n)
    what = f"{name}, seed {seed}, {kind}, T = {method.temperature}"
    Q = solve(method, Z)
    check_simplex(Q)
    counts = method.n_not_converged_, method.n_ill_conditioned_
    assert counts[0] + counts[1] <= n
    assert name in ("mf_p", "mf_lu") or counts[1] == 0
    assert counts[0] == 0 or method.n_iter_ == method.max_iter, what
    rows = determined(method, Z)
    order = rng.permutation(n)
    check_same(solve(method, Z[order]), Q[order], rows[order], f"{what}, another order")
    check_same(solve(method, Z[:1]), Q[:1], rows[:1], f"{what}, alone")
    check_same(solve(method, torch.asarray(Z)), Q, rows, f"{what}, torch")
    check_order(method, Z, Q, rows, what, rng)
    single = solve(method, Z.astype(np.float32))
    assert single.dtype == np.float32
    check_simplex(single)


def attack_silence(name, seed, n):
    """With silent teachers, the result of a row is that of the same row alone."""
    rng = np.random.default_rng(seed)
    method, Z, _ = draw(rng, name, n)
    method.set_params(abstain=True)
    space = LabelSpace(method.class_lists)
    for block in space.blocks:
        Z[rng.random(n) < 0.3, block] = np.nan
    Q = solve(method, Z)
    check_simplex(Q)
    rows = determined(method, Z)
    check_same(solve(method, Z[::-1].copy()), Q[::-1], rows[::-1], f"{name}, seed {seed}, silence")


@pytest.mark.parametrize("name", METHOD_NAMES)
@pytest.mark.parametrize("seed", range(8))
def test_attack(name, seed):
    attack(name, seed, 40)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_attack_with_silence(name):
    attack_silence(name, 0, 40)


def objectives(seed, n):
    """Yield methods with our and the reference's relative objectives, for noisy rows with a single local optimum."""
    rng = np.random.default_rng(seed)
    space = LabelSpace(some_lists(rng))
    blocks = blocks_of(space)
    Z = blocks.log_softmax(
        rng.normal(size=(n, space.n_classes))[:, blocks.class_of] + 0.3 * rng.normal(size=(n, space.n_outputs))
    )
    P = np.exp(Z)
    found, logits = mf_p.solve_mf_p(P, blocks), mf_lu.solve_mf_lu(Z, blocks)
    for k in range(n):
        p, M = reference.dense(P[k], space.class_lists, space.classes)
        z, _ = reference.dense(Z[k], space.class_lists, space.classes)
        theirs = reference.mf_p_objective(*reference.mf_p(p, M, tol=0, max_iter=200), p, M)
        yield "mf_p", reference.mf_p_objective(found.u[k], found.v[k], p, M), theirs
        ours = mf_lu.objective(Z[k : k + 1], logits.u[k : k + 1], logits.v[k : k + 1], 0.01, blocks)[0]
        yield "mf_lu", ours, reference.mf_lu_objective(*reference.mf_lu(z, M, tol=0, max_iter=200), z, M, 0.01)


@pytest.mark.parametrize("seed", range(4))
def test_no_worse_than_the_papers_algorithms(seed):
    for name, ours, theirs in objectives(seed, 5):
        assert ours <= theirs + 1e-8, name


@pytest.mark.parametrize("name", ["ce", "mf_p", "mf_lf"])
@pytest.mark.parametrize("seed", range(6))
def test_teachers_that_agree_give_q(name, seed):
    """However probable or improbable their shared classes are."""
    rng = np.random.default_rng(seed)
    space = LabelSpace(some_lists(rng))
    while not space.is_connected:
        space = LabelSpace(some_lists(rng))
    U = rng.choice([1.0, 3.0, 8.0]) * rng.normal(size=(200, space.n_classes))
    Q = np.exp(U - U.max(axis=1, keepdims=True))
    method = make_method(name, [list(labels) for labels in space.class_lists], temperature=1)
    found = solve(method, U[:, np.concatenate(space.columns)])
    np.testing.assert_allclose(found, Q / Q.sum(axis=1, keepdims=True), atol=1e-8)
    assert method.n_not_converged_ == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", METHOD_NAMES)
def test_long_attack(name):
    """Some hundred thousand rows per method, in label spaces that the short test does not draw."""
    for seed in range(1000, 1000 + (200 if name in ITERATIVE else 1000)):
        attack(name, seed, 300)
        attack_silence(name, seed, 100)
