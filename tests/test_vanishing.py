"""Classes that are in sets only and vanish in some rows."""

import numpy as np
import pytest
from scipy.special import logsumexp, softmax

from sklearn_uhc import OTHER, LabelSpace
from sklearn_uhc.solvers import blocks_of
from tests.helpers import consistent_set_outputs, make_method

#: 6 is in sets only; 1 and 5 have one column of their own each.
LISTS = [[0, (1, 2, 6), 3], [2, 3, OTHER], [4, 5, (0, 6), 1], [0, 2, 4], [1, 3, 4, OTHER]]
#: Here 6 and 7 are.
TWO = [[0, (1, 2, 6), 3], [2, 3, (4, 7), OTHER], [4, 5, (0, 6), 1], [0, 2, 4, (5, 7)], [1, 3, 4, OTHER]]
METHODS = ["ce", "mf_lf", "mf_p"]


def noisy(lists, n=120, noise=0.5, seed=0, rare=()):
    rng, classes = np.random.default_rng(seed), LabelSpace(lists).classes
    Q = np.maximum(rng.dirichlet(np.ones(len(classes)), size=n), 1e-3) * np.where(np.isin(classes, rare), 0.05, 1.0)
    exact = consistent_set_outputs(Q / Q.sum(axis=1, keepdims=True), lists)
    return exact + noise * rng.normal(size=exact.shape)


def objective(name, q, log_p, lists, T):
    """(n,), the objective of a method for q at temperature 1, from its definition."""
    space, total = LabelSpace(lists), 0.0
    phi = np.log(q @ space.membership().T) / T
    for block in space.blocks:
        z, own = log_p[:, block] / T, phi[:, block]
        p = softmax(z, axis=1)
        if name == "ce":
            total = total + logsumexp(own, axis=1) - (p * own).sum(axis=1)
        elif name == "mf_lf":
            error = T * (z - own)
            total = total + 0.5 * ((error - error.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        else:
            e = np.exp(own - own.max(axis=1, keepdims=True))
            v = (p * e).sum(axis=1, keepdims=True) / (e * e).sum(axis=1, keepdims=True)
            total = total + 0.5 * ((p - v * e) ** 2).sum(axis=1)
    return total


@pytest.mark.parametrize("T", [1.0, 3.0])
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("lists", [LISTS, TWO])
def test_what_vanishes_would_not_help(name, T, lists):
    """A little of a class that has vanished increases the objective, and so does any change of the others."""
    log_p, lonely = noisy(lists), np.flatnonzero(~blocks_of(LabelSpace(lists)).has_own).tolist()
    method = make_method(name, lists, temperature=T)
    tempered = method.fit_transform(log_p)
    assert method.n_not_converged_ == 0
    q = tempered**T / (tempered**T).sum(axis=1, keepdims=True)
    gone = q[:, lonely] < 1e-12
    assert 0.1 < gone.mean() < 0.9
    best = objective(name, q, log_p, lists, T)
    for j in range(q.shape[1]):
        for factor in (1e-2, 1e-3):
            more = q.copy()
            more[:, j] += factor * (1e-2 if j in lonely else q[:, j])
            assert (objective(name, more, log_p, lists, T) >= best - 1e-10).all()


@pytest.mark.parametrize("name", METHODS)
def test_rows_do_not_depend_on_each_other(name):
    """A row alone is not worth a label space of its own, and is solved with all classes."""
    log_p = noisy(LISTS, n=40, seed=2)
    together = make_method(name, LISTS).fit_transform(log_p)
    alone = np.concatenate([make_method(name, LISTS).fit_transform(row[None, :]) for row in log_p])
    np.testing.assert_allclose(together, alone, atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
def test_weights_count(name):
    log_p = noisy(LISTS, seed=3)
    twice = make_method(name, [*LISTS, LISTS[1]]).fit_transform(np.hstack([log_p, log_p[:, 3:6]]))
    weighted = make_method(name, LISTS, teacher_weight=[1, 2, 1, 1, 1]).fit_transform(log_p)
    assert (np.abs(twice - weighted).max(axis=1) < 1e-6).mean() > 0.97


def test_a_row_whose_other_classes_are_lost_too_is_checked():
    """Without 3, 5 and 6 the answers fit nearly as well, once 1, 2 and 4 are lost with them."""
    lists = [[(3, 4), (5, 6, 2, 1, 0)], [1, 4, 2], [(0, 6, 5, 4), (1, 3, 2)], [(1, 2, 3, 5), (6, 4), OTHER]]
    q = np.array([0.003, 0.0256, 0.0976, 0.5914, 0.1702, 0.0094, 0.1027])
    rng = np.random.default_rng(0)
    Q = np.vstack([q / q.sum(), np.maximum(rng.dirichlet(np.ones(7), size=49), 1e-3)])
    Q /= Q.sum(axis=1, keepdims=True)
    found = make_method("mf_lf", lists, temperature=1.0).fit_transform(consistent_set_outputs(Q, lists))
    np.testing.assert_allclose(found[0], Q[0], atol=1e-6)


@pytest.mark.filterwarnings("ignore:No teacher distinguishes")
@pytest.mark.parametrize("name", METHODS)
def test_classes_that_are_never_apart_vanish_together(name):
    lists = [[(7, 1, 2), 4, 5, 0], [4, 2, 8, OTHER], [3, 5, 6], [5, 2, 3, 6, OTHER]]
    Q = make_method(name, lists, temperature=2.0).fit_transform(noisy(lists, noise=2.0))
    np.testing.assert_allclose(Q[:, 1], Q[:, 7], rtol=1e-9, atol=1e-12)
    assert 0.1 < (Q[:, 1] < 1e-12).mean() < 0.9


#: Others know the cats of the third teacher as a part of OTHER only.
SPECIALIST = [
    ["dog", "bird", OTHER],
    ["bird", "fish", OTHER],
    ["persian", "tabby", "manx"],
    ["dog", "fish"],
    [("dog", "tabby"), "bird"],
]
CATS = ["manx", "persian", "tabby"]


@pytest.mark.parametrize("T", [1.0, 3.0])
@pytest.mark.parametrize("name", METHODS)
def test_a_group_vanishes_as_a_whole(name, T):
    log_p, space = noisy(SPECIALIST, n=300, rare=CATS), LabelSpace(SPECIALIST)
    method = make_method(name, SPECIALIST, temperature=T)
    tempered = method.fit_transform(log_p)
    assert method.n_not_converged_ == 0
    assert method.n_iter_ < 300
    cats = np.isin(space.classes, CATS)
    q = tempered**T / (tempered**T).sum(axis=1, keepdims=True)
    gone = q[:, cats].sum(axis=1) < 1e-6  # their slope is within the tolerance, long before q is 0
    assert 0.1 < gone.mean() < 0.9
    best, shape = objective(name, q, log_p, SPECIALIST, T), softmax(log_p[:, space.blocks[2]], axis=1)
    order = np.searchsorted(space.classes, SPECIALIST[2])
    # The specialist's answer is kept.
    np.testing.assert_allclose((q[:, order] / q[:, order].sum(axis=1, keepdims=True))[gone], shape[gone], atol=1e-6)
    for amount in (1e-3, 1e-5):
        more = q.copy()
        more[:, order] += amount * shape
        assert (objective(name, more, log_p, SPECIALIST, T) >= best - 1e-9)[gone].all()


@pytest.mark.filterwarnings("ignore:These classes are named in one set")
@pytest.mark.filterwarnings("ignore:.*stopped at max_iter")  # rows of a condition above 1,000
@pytest.mark.parametrize("name", ["ce", "mf_lf"])
def test_a_good_fit_is_not_lost_because_classes_vanish(name):
    """Exact answers fit exactly, also where some classes may seem to vanish and rows are solved together."""
    lists = [[("f", "e"), "b", ("g", "c"), "a"], [("e", "a"), "b"], [("e", "d"), ("b", "f")], ["a", "c"]]
    q = np.random.default_rng(0).dirichlet(np.full(7, 0.3), 400) + 1e-6
    q /= q.sum(axis=1, keepdims=True)
    space, rows = LabelSpace(lists), [325, *range(0, 400, 10)]
    rows = [row for row in rows if space.condition(q[row]) < 50]
    assert len(rows) > 5
    found = make_method(name, lists).fit_transform(consistent_set_outputs(q, lists))
    np.testing.assert_allclose(found[rows], q[rows], atol=1e-6)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize(("lists", "rare"), [(TWO, ()), (SPECIALIST, CATS)])
def test_torch_gives_the_same(name, lists, rare):
    torch = pytest.importorskip("torch")
    log_p = noisy(lists, seed=4, rare=rare)
    tensor = make_method(name, lists).fit_transform(torch.asarray(log_p))
    np.testing.assert_allclose(tensor.numpy(), make_method(name, lists).fit_transform(log_p), atol=1e-6)
