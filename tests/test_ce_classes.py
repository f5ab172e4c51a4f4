"""CE with more teachers than classes: one variable per class gives the optimum of the dual."""

from dataclasses import replace

import numpy as np
import pytest

from sklearn_uhc import LabelSpace
from sklearn_uhc.solvers import blocks_of, ce
from sklearn_uhc.solvers.class_fit import ClassFit
from tests.helpers import random_lists, random_outputs

GROUPS = [[0, 1, 2], [1, 2], [0, 2], [2, 1, 0], [3, 4], [4, 3], [3, 4], [0, 1]]


def many(spread, lists=None, seed=0, n=30):
    """Return probabilities of more teachers than classes, and the blocks."""
    rng = np.random.default_rng(seed)
    lists = random_lists(rng, 6, 40, 2, 4) if lists is None else lists
    blocks = blocks_of(LabelSpace(lists))
    return np.exp(blocks.log_softmax(random_outputs(rng, lists, n, spread=spread, noise=spread))), blocks


@pytest.mark.parametrize("spread", [2.0, 8.0])
@pytest.mark.parametrize("lists", [None, GROUPS])
@pytest.mark.parametrize("weighted", [False, True])
def test_it_is_the_optimum_of_the_dual(spread, lists, weighted):
    P, blocks = many(spread, lists)
    weight = np.exp(np.random.default_rng(1).normal(size=blocks.n_teachers)) if weighted else None
    dual = replace(
        ce.CrossEntropyDual.of(P, blocks, weight),
        a=blocks.sum_classes(P * (1 if weight is None else weight[blocks.teacher_of])),
    )
    theta = ce.minimize(dual, room=30, tol=1e-9, max_iter=200, damping=1e-8).x
    expected = blocks.level_components(dual.a / blocks.sum_owners(np.exp(theta)))
    solved = ce.solve_ce(P, blocks, weight=weight)
    np.testing.assert_allclose(solved.u, expected, atol=1e-9)
    assert solved.converged.all()
    assert solved.residual.max() <= 1e-9


def test_derivatives_are_those_of_the_objective():
    P, blocks = many(2.0, GROUPS, n=2)
    rng = np.random.default_rng(2)
    w, u = rng.uniform(0.5, 2, size=blocks.n_teachers), rng.normal(size=(2, 5))
    problem = ClassFit(ce.CrossEntropy, P, u, np.ones(2), w[None, :], 1.0, blocks, 0.0, np.zeros(5, dtype=bool))
    point = problem.at(u)
    model = problem.model(point)
    H, scale = model.H / (model.unit[:, :, None] * model.unit[:, None, :]), 1 / model.unit**2
    for l in range(5):
        step = 1e-5 * np.eye(5)[l]
        ahead, back = problem.at(u + step), problem.at(u - step)
        np.testing.assert_allclose((ahead.value - back.value) / 2e-5, point.gradient[:, l], atol=1e-8)
        # The common shift of a group is filled.
        together = np.array([0, 0, 0, 1, 1]) == [0, 0, 0, 1, 1][l]
        fill = scale * together * (scale[:, l] / (scale * together).sum(axis=1))[:, None]
        np.testing.assert_allclose((ahead.gradient - back.gradient) / 2e-5, H[:, :, l] - fill, atol=1e-8)


def test_torch_gives_the_same():
    torch = pytest.importorskip("torch")
    P, blocks = many(8.0)
    solved = ce.solve_ce(torch.as_tensor(P), blocks.like(torch.as_tensor(P)))
    np.testing.assert_allclose(solved.u.numpy(), ce.solve_ce(P, blocks).u, atol=1e-9)
