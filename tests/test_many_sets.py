"""Columns that mean sets where there are many classes: sums by index, OTHER as all classes less the named ones."""

import tracemalloc
from dataclasses import dataclass

import numpy as np
import pytest

from sklearn_uhc import OTHER, LabelSpace
from sklearn_uhc.solvers import blocks_of, set_blocks
from sklearn_uhc.solvers.conjugate import solve_system
from tests.helpers import SET_METHODS, consistent_set_outputs, make_method, random_set_lists
from tests.test_sets import LISTS, TOL, random_q, temper

L = 300


def many_lists(kind, rng):
    """Ten teachers of 60 to 90 classes with OTHER, or with a membership each."""
    lists = [rng.choice(L, rng.integers(60, 90), replace=False).tolist() for _ in range(10)]
    for k, label in enumerate(sorted(set(range(L)) - set(np.concatenate(lists).tolist()))):
        lists[k % 10].append(label)
    if kind == "other":
        return [[*own, OTHER] for own in lists]
    return [*lists, *([tuple(own), OTHER] for own in lists)]


@pytest.fixture
def few_are_many(monkeypatch):
    monkeypatch.setattr(set_blocks, "FEW_CLASSES", 1)


@pytest.mark.parametrize("kind", ["other", "membership"])
def test_sums_over_sets(kind):
    rng = np.random.default_rng(0)
    space = LabelSpace(many_lists(kind, rng))
    blocks, table = blocks_of(space), space.membership()[space.set_sizes > 1].astype(float)
    assert blocks.is_wide.sum() == 10
    x = rng.normal(size=(4, L))
    np.testing.assert_allclose(blocks.sum_sets(x), x @ table.T, atol=1e-12)
    y = rng.normal(size=(4, len(table)))
    np.testing.assert_allclose(blocks.give(y), y @ table, atol=1e-12)


def test_what_is_thin_keeps_its_digits():
    """A teacher that names all that counts: total less named would be rounding."""
    rng = np.random.default_rng(0)
    space = LabelSpace(many_lists("other", rng))
    blocks, table = blocks_of(space), space.membership()[space.set_sizes > 1].astype(float)
    U = rng.normal(size=(3, L))
    U[0, space.members[space.offsets[0]]] += 60  # a class that the first teacher names
    at = blocks.at(U, 1.0)
    assert at.thin is not None
    assert 0 in at.thin.sets.tolist()
    q = np.exp(U - U.max(axis=1, keepdims=True))
    np.testing.assert_allclose(at.qS, q @ table.T, rtol=1e-13)
    G = rng.normal(size=(3, space.n_outputs))
    shares = space.membership() * (q[:, None, :] / (q @ space.membership().T)[:, :, None])
    np.testing.assert_allclose(blocks.pull(G, at), np.einsum("nk,nkl->nl", G, shares), rtol=1e-9, atol=1e-12)
    x = rng.normal(size=(3, L))
    np.testing.assert_allclose(blocks.push(x, at), np.einsum("nkl,nl->nk", shares, x), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ["other", "membership"])
@pytest.mark.parametrize("name", ["ce", "mf_lf", "mf_p"])
def test_consistent_answers_give_q(name, kind):
    rng = np.random.default_rng(1)
    lists, T = many_lists(kind, rng), 3.0
    Q = random_q(rng, 3, L)
    log_p = consistent_set_outputs(Q, lists)
    method = make_method(name, lists, temperature=T)
    np.testing.assert_allclose(method.fit_transform(log_p), temper(Q, T), atol=1e-6 if name == "mf_p" else 1e-8)
    assert method.n_not_converged_ == 0
    assert method.max_residual_ <= TOL[name]


@pytest.mark.parametrize("name", SET_METHODS)
def test_little_memory_for_many_classes(name):
    rng = np.random.default_rng(2)
    lists = many_lists("other", rng)
    log_p = consistent_set_outputs(random_q(rng, 2, L), lists) + 0.3 * rng.normal(size=(2, sum(map(len, lists))))

    method = make_method(name, lists)
    tracemalloc.start()
    Q = method.fit_transform(log_p)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < log_p.shape[1] * L * 8 / 2  # no matrix of columns by classes
    np.testing.assert_allclose(Q.sum(axis=1), 1)
    assert method.n_not_converged_ == 0
    assert method.max_residual_ <= TOL[name]


@pytest.mark.parametrize("T", [1.0, 3.0])
@pytest.mark.parametrize("name", ["sd", "ce", "mf_lf"])
def test_many_are_solved_like_few(name, T, few_are_many, monkeypatch):
    rng = np.random.default_rng(0)
    for lists in (LISTS, random_set_lists(rng, 8, 5)):
        log_p = 0.7 * rng.normal(size=(20, LabelSpace(lists).n_outputs))
        weight = rng.uniform(0.5, 2, size=len(lists))
        many = make_method(name, lists, temperature=T, teacher_weight=weight).fit_transform(log_p)
        with monkeypatch.context() as few:
            few.setattr(set_blocks, "FEW_CLASSES", 256)
            expected = make_method(name, lists, temperature=T, teacher_weight=weight).fit_transform(log_p)
        np.testing.assert_allclose(many, expected, atol=1e-6)


@pytest.mark.parametrize("name", ["ce", "mf_lf"])
def test_silence(name):
    rng = np.random.default_rng(3)
    lists = many_lists("other", rng)
    log_p = consistent_set_outputs(random_q(rng, 4, L), lists) + 0.3 * rng.normal(size=(4, sum(map(len, lists))))
    block = LabelSpace(lists).blocks[2]
    quiet = log_p.copy()
    quiet[:2, block] = np.nan
    Q = make_method(name, lists, abstain=True).fit_transform(quiet)
    np.testing.assert_allclose(Q[2:], make_method(name, lists).fit_transform(log_p)[2:], atol=1e-8)
    assert np.isfinite(Q).all()


@pytest.mark.parametrize("name", ["ce", "mf_lf"])
def test_torch_gives_the_same(name, few_are_many):
    torch = pytest.importorskip("torch")
    log_p = 0.7 * np.random.default_rng(4).normal(size=(5, LabelSpace(LISTS).n_outputs))
    tensor = make_method(name, LISTS).fit_transform(torch.asarray(log_p))
    np.testing.assert_allclose(tensor.numpy(), make_method(name, LISTS).fit_transform(log_p), atol=1e-7)


@dataclass
class Dense:
    """Systems given as matrices."""

    H: np.ndarray

    @property
    def about(self):
        return np.abs(np.einsum("nii->ni", self.H))

    def product(self, x):
        return np.einsum("nij,nj->ni", self.H, x)

    def keep(self, rows):
        return Dense(self.H[rows])


def test_conjugate_gradients():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 8, 12))
    H = A @ A.swapaxes(1, 2) + 0.1 * np.eye(8)
    b = rng.normal(size=(5, 8))
    share = np.array([1e-10, 0.5, 1e-10, 1e-10, 0.9])
    x = solve_system(Dense(H), b, share)
    expected = np.linalg.solve(H, b[:, :, None])[:, :, 0]
    np.testing.assert_allclose(x[share < 0.1], expected[share < 0.1], rtol=1e-6)  # also after others have left
    H[0] *= -1  # which bends downwards: the step still leads down the slope -b
    x = solve_system(Dense(H), b, share)
    assert (np.sum(x * b, axis=1) > 0).all()


def noisy(kind, rng, n):
    """Rows from flat to sharp, with noise: in the sharpest ones few classes have nearly all probability."""
    lists = many_lists(kind, rng)
    q = np.exp(1.2 * np.exp(0.65 * rng.normal(size=(n, 1))) * rng.normal(size=(n, L)))
    log_p = np.log(q @ LabelSpace(lists).membership().T)
    return lists, log_p + rng.normal(size=log_p.shape)


@pytest.mark.parametrize("kind", ["other", "membership"])
@pytest.mark.parametrize("name", ["ce", "mf_lf", "mf_p"])
def test_noisy_rows_converge(name, kind):
    """Near the optimum, a step gains less than the rounding of so large an objective, and must still be taken."""
    lists, log_p = noisy(kind, np.random.default_rng(3), 30 if name in ("ce", "mf_lf") else 6)
    weight = None if kind == "other" else np.repeat([1, 0.3], 10)
    method = make_method(name, lists, temperature=3.0, teacher_weight=weight).fit(log_p)
    assert method.n_not_converged_ == 0
    assert method.max_residual_ <= TOL[name]
    assert method.n_iter_ < 100


@pytest.mark.parametrize("kind", ["other", "membership"])
@pytest.mark.parametrize("name", ["ce", "mf_lf", "mf_p"])
def test_torch_gives_the_same_on_noisy_rows(name, kind):
    torch = pytest.importorskip("torch")
    lists, log_p = noisy(kind, np.random.default_rng(3), 3)
    tensor = make_method(name, lists, temperature=3.0).fit_transform(torch.asarray(log_p))
    expected = make_method(name, lists, temperature=3.0).fit_transform(log_p)
    np.testing.assert_allclose(tensor.numpy(), expected, atol=1e-8)
