"""Thousands of classes: sums by index equal dense products, and no array has classes by classes."""

import tracemalloc

import numpy as np
import pytest
import torch

from sklearn_uhc import (
    CrossEntropyUnifier,
    LabelSpace,
    LogitFactorization,
    ProbabilityFactorization,
    StandardDistillation,
    TeacherCalibrator,
)
from sklearn_uhc.merging.losses import CrossEntropyUnifierLoss, LogitFactorizationLoss, ProbabilityFactorizationLoss
from sklearn_uhc.merging.method import FIT_ROWS
from sklearn_uhc.solvers import blocks_of, incidence, pairs
from tests.helpers import random_lists, random_outputs

METHODS = {
    "sd": StandardDistillation,
    "ce": CrossEntropyUnifier,
    "mf_lf": LogitFactorization,
    "mf_p": ProbabilityFactorization,
    "mf_lu": lambda lists, **more: LogitFactorization(lists, scale="free", **more),
}


@pytest.fixture
def never_dense(monkeypatch):
    """Use sums by index at any size."""
    for module in (incidence, pairs):
        monkeypatch.setattr(module, "DENSE", 0)
    monkeypatch.setattr(incidence, "CALL", -1)


@pytest.mark.parametrize("kind", ["numpy", "torch"])
def test_sums_by_index_are_products_with_dense_matrices(never_dense, kind):
    rng = np.random.default_rng(0)
    blocks = blocks_of(LabelSpace(random_lists(rng, 12, 5, 3, 7)))
    F, G = rng.normal(size=(2, 4, len(blocks.class_of)))
    U, V = rng.normal(size=(4, blocks.n_classes)), rng.normal(size=(4, blocks.n_teachers))
    M, to_class, to_teacher = blocks.M, blocks.to_class, np.eye(blocks.n_teachers)[blocks.teacher_of]
    cube_F, cube_G = blocks.pairs.cube(F), blocks.pairs.cube(G)
    expected = {
        "classes": F @ to_class,
        "teachers": F @ to_teacher,
        "lists": U @ M.T,
        "owners": V @ M,
        "pair sums": np.einsum("nl,il,jl->nij", U, M, M),
        "spread": np.einsum("nil,jl->nij", cube_F, M),
        "squares": np.einsum("nil,njl->nij", cube_F, cube_F),
        "products": np.einsum("nil,njl->nij", cube_F, cube_G),
        "largest": np.where(M > 0, V[:, :, None], -np.inf).max(axis=1),
        "scaled": F * (V @ to_teacher.T),
    }
    if kind == "torch":
        F, G, U, V = map(torch.asarray, (F, G, U, V))
        blocks = blocks.like(F[:1])
    found = {
        "classes": blocks.sum_classes(F),
        "teachers": blocks.sum_teachers(F),
        "lists": blocks.sum_lists(U),
        "owners": blocks.sum_owners(V),
        "pair sums": blocks.pairs.sums(U),
        "spread": blocks.pairs.spread(F),
        "squares": blocks.pairs.products(F),
        "products": blocks.pairs.products(F, G),
        "largest": blocks.largest_owner(V),
        "scaled": blocks.scaled(F, V),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(np.asarray(found[name]), values, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("method", METHODS)
def test_answers_do_not_depend_on_how_sums_are_made(never_dense, monkeypatch, method):
    rng = np.random.default_rng(1)
    lists = random_lists(rng, 12, 6, 3, 7)
    X = random_outputs(rng, lists, 20)
    by_index = METHODS[method](lists).fit_transform(X)
    monkeypatch.setattr(incidence, "CALL", 10**12)
    monkeypatch.setattr(pairs, "DENSE", 10**12)
    np.testing.assert_allclose(by_index, METHODS[method](lists).fit_transform(X), atol=1e-8)


@pytest.fixture(scope="module")
def large():
    """3,000 classes, 40 teachers: 3 rows of answers."""
    rng = np.random.default_rng(2)
    lists = [rng.choice(3000, 250, replace=False).tolist() for _ in range(40)]
    # No 40 lists of this length have all classes by chance: the first one gets those that are left.
    lists[0] += sorted(set(range(3000)) - set(np.concatenate(lists).tolist()))
    return lists, random_outputs(rng, lists, 3)


@pytest.fixture
def little_memory():
    """Fail if as much is allocated as a matrix of columns by classes needs: 38 MB of booleans, 300 MB of numbers."""
    tracemalloc.start()
    yield
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 30 * 2**20


@pytest.mark.parametrize("method", METHODS)
def test_thousands_of_classes_need_no_matrix_of_columns_by_classes(large, little_memory, method):
    lists, X = large
    fitted = METHODS[method](lists)
    Q = fitted.fit_transform(X)
    np.testing.assert_allclose(Q.sum(axis=1), 1)
    assert fitted.n_not_converged_ == 0


def test_losses_of_thousands_of_classes_need_none_either(large, little_memory):
    lists, X = large
    start = torch.asarray(np.random.default_rng(4).normal(size=(3, 3000)))  # zeros are a stationary point of MF-LU
    for loss in (
        CrossEntropyUnifierLoss(lists),
        ProbabilityFactorizationLoss(lists),
        LogitFactorizationLoss(lists),
        LogitFactorizationLoss(lists, scale="free"),
    ):
        logits = start.clone().requires_grad_()
        loss(logits, torch.asarray(X)).backward()
        assert torch.isfinite(logits.grad).all()
        assert logits.grad.abs().max() > 0


def test_calibration_of_thousands_of_classes_needs_none_either(large, little_memory):
    lists, X = large
    calibrator = TeacherCalibrator(lists).fit(np.vstack([X] * 4) + np.arange(12)[:, None] * 1e-3)
    assert np.isfinite(calibrator.temperatures_).all()


@pytest.mark.parametrize("method", METHODS)
def test_threads_give_the_same_answers(method):
    rng = np.random.default_rng(3)
    lists = random_lists(rng, 8, 4, 3, 5)
    X = random_outputs(rng, lists, 7000)  # several chunks
    alone = METHODS[method](lists).fit_transform(X)
    np.testing.assert_allclose(METHODS[method](lists, n_jobs=2).fit_transform(X), alone, atol=1e-8)


def test_fit_looks_at_a_sample_and_fit_transform_at_all_rows():
    lists = [["a", "b"], ["b", "c"]]
    X = np.zeros((3 * FIT_ROWS, 4))
    X[1, 0] = 5.0  # the only row that takes steps; not among those that fit looks at
    assert CrossEntropyUnifier(lists).fit(X).n_iter_ < CrossEntropyUnifier(lists).fit(X[:2]).n_iter_
    together = CrossEntropyUnifier(lists)
    together.fit_transform(X)
    assert together.n_iter_ == CrossEntropyUnifier(lists).fit(X[:2]).n_iter_
