"""Columns that mean sets where there are many classes: sums by index, OTHER as all classes less the named ones."""

import numpy as np
import pytest

from sklearn_uhc import OTHER, LabelSpace
from sklearn_uhc.solvers import set_index
from sklearn_uhc.solvers.blocks import Blocks
from sklearn_uhc.solvers.conjugate import solve_products
from tests.helpers import METHOD_NAMES, consistent_set_outputs, make_method, random_set_lists
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
    monkeypatch.setattr(set_index, "FEW_CLASSES", 1)


@pytest.mark.parametrize("kind", ["other", "membership"])
def test_sums_over_sets(kind):
    rng = np.random.default_rng(0)
    space = LabelSpace(many_lists(kind, rng))
    blocks, table = Blocks.from_label_space(space), space.membership()[space.set_sizes > 1].astype(float)
    index = blocks.members
    assert len(index.wide) == 10
    x = rng.normal(size=(4, L))
    np.testing.assert_allclose(index.sums(x), x @ table.T, atol=1e-12)
    y = rng.normal(size=(4, len(table)))
    np.testing.assert_allclose(index.give(y), y @ table, atol=1e-12)


def test_what_is_thin_keeps_its_digits():
    """A teacher that names all that counts: total less named would be rounding."""
    rng = np.random.default_rng(0)
    space = LabelSpace(many_lists("other", rng))
    blocks, table = Blocks.from_label_space(space), space.membership()[space.set_sizes > 1].astype(float)
    U = rng.normal(size=(3, L))
    U[0, space.members[space.offsets[0]]] += 60  # a class that the first teacher names
    at = blocks.columns(U, 1.0)
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


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_no_matrix_of_columns_by_classes(name, monkeypatch):
    rng = np.random.default_rng(2)
    lists = many_lists("other", rng)
    log_p = consistent_set_outputs(random_q(rng, 2, L), lists) + 0.3 * rng.normal(size=(2, sum(map(len, lists))))

    def refuse(*args):
        raise AssertionError("K times L numbers")

    monkeypatch.setattr(LabelSpace, "membership", refuse)
    method = make_method(name, lists)
    Q = method.fit_transform(log_p)
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
            few.setattr(set_index, "FEW_CLASSES", 256)
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


def test_conjugate_gradients():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(5, 8, 12))
    H = A @ A.swapaxes(1, 2) + 0.1 * np.eye(8)
    b = rng.normal(size=(5, 8))
    diagonal = np.einsum("nii->ni", H).copy()
    x = solve_products(lambda x: np.einsum("nij,nj->ni", H, x), b, diagonal, np.full(5, 1e-10))
    np.testing.assert_allclose(x, np.linalg.solve(H, b[:, :, None])[:, :, 0], rtol=1e-6)
    H[0] *= -1  # which bends downwards: the step still leads down the slope -b
    x = solve_products(lambda x: np.einsum("nij,nj->ni", H, x), b, diagonal, np.full(5, 1e-10))
    assert (np.sum(x * b, axis=1) > 0).all()
