"""Losses of direct backpropagation with teacher weights and silent teachers, against the solvers' objectives."""

import numpy as np
import pytest
from scipy.special import softmax

from sklearn_uhc import OTHER, LabelSpace
from sklearn_uhc.answers import Answers
from sklearn_uhc.merging.scales import of_mean_one
from sklearn_uhc.solvers import blocks_of, mf_lu, mf_p
from sklearn_uhc.solvers.ce import CrossEntropy
from sklearn_uhc.solvers.class_fit import ClassFit
from sklearn_uhc.solvers.mf_lf import LogitError
from sklearn_uhc.solvers.mf_p import ProbabilityError
from sklearn_uhc.solvers.set_blocks import SetBlocks

torch = pytest.importorskip("torch")
losses = pytest.importorskip("sklearn_uhc.merging.losses")

LISTS = {
    "classes": [[0, 1, 2], [1, 2, 3, 4], [0, 3], [2, 4, 5, 6]],
    "sets": [[0, (1, 2), 3], [2, 3, (4, 5)], [(0, 4), 5, 1], [1, 6, OTHER]],
}
KINDS = {
    "ce": (losses.CrossEntropyUnifierLoss, {}),
    "mf_p": (losses.ProbabilityFactorizationLoss, {"factor": 1}),
    "mf_lu": (losses.LogitFactorizationLoss, {"scale": "free", "factor": 1}),
    "mf_lf": (losses.LogitFactorizationLoss, {"factor": 1}),
}
#: MF-LU does not support sets.
CASES = [(name, columns) for name in KINDS for columns in LISTS if (name, columns) != ("mf_lu", "sets")]
WEIGHT = [3.0, 0.2, 1.0, 0.7]
LAM = 0.01


def make(name, lists, **params):
    kind, own = KINDS[name]
    if name == "ce":
        params.pop("factor", None)  # it has none
    return kind(lists, **own | params)


def make_answers(columns, n=12):
    """Answers and logits; each teacher but the second is silent for some rows, and nobody answers row 0."""
    rng, space = np.random.default_rng(1), LabelSpace(LISTS[columns])
    log_p = blocks_of(space).log_softmax(2 * rng.normal(size=(n, space.n_outputs)))
    quiet = rng.random((n, 4)) < 0.4
    quiet[:, 1], quiet[0], quiet[1] = False, True, False
    log_p[quiet[:, space.teacher_of]] = np.nan
    return log_p, 2 * rng.normal(size=(n, space.n_classes)), quiet


def of_solver(name, log_p, u, blocks, w, T):
    """Objective of the solvers and its derivative by u, for teachers that all answer, the other variables optimal."""
    Z, one = log_p / T, np.ones(len(u))
    P, wk = np.exp(blocks.log_softmax(Z)), w[blocks.teacher_of]
    if isinstance(blocks, SetBlocks):
        objective = {"ce": CrossEntropy, "mf_p": ProbabilityError, "mf_lf": LogitError}[name]
        X, none = Z if name == "mf_lf" else P, np.zeros(u.shape[1], dtype=bool)
        point = ClassFit(objective, X, u, one, w[None, :], T, blocks, 0.0, none).at(u)
        times = 1 if name == "ce" else 2  # the solvers halve squares
        return times * point.value, times * point.gradient
    if name == "ce":
        a, s = (wk * P) @ blocks.to_class, np.exp(u) @ blocks.M.T
        return np.log(s) @ w - (a * u).sum(axis=1), np.exp(u) * ((w / s) @ blocks.M) - a
    root = np.sqrt(w)[None, :]  # the weighted problem is the plain one for rows multiplied by sqrt(weight)
    if name == "mf_p":
        P, U = P * blocks.by_teacher(root), np.exp(u) / np.exp(u).sum(axis=1, keepdims=True)
        V = mf_p.best_v(P, U, blocks)
        by_U = -2 * ((P - blocks.by_class(U) * blocks.by_teacher(V)) * blocks.by_teacher(V)) @ blocks.to_class
        return mf_p.objective(P, U, V, blocks), U * (by_U - (U * by_U).sum(axis=1, keepdims=True))
    Z = blocks.center(Z) * blocks.by_teacher(root)
    if name == "mf_lf":
        value, slope = (f(Z, u, 0 * Z[:, :1] + root, 0.0, blocks) for f in (mf_lu.objective, mf_lu.gradient))
        return value, 2 * slope[0]
    V = root * mf_lu.best_v(Z / blocks.by_teacher(root), u, LAM, blocks)
    return mf_lu.objective(Z, u, V, LAM, blocks), 2 * mf_lu.gradient(Z, u, V, LAM, blocks)[0]


def of_solvers(name, log_p, logits, lists, weight, T):
    """T^2 / N times the objective of every row, for its N teachers, and its derivative by the logits."""
    teacher_weight = np.ones(len(lists)) if weight is None else weight
    answers = Answers.of(log_p, LabelSpace(lists), abstain=True, teacher_weight=teacher_weight)
    value, gradient = np.zeros(len(logits)), np.zeros_like(logits)
    for pattern in answers.patterns():
        part, at = answers.part(pattern, pattern.rows), np.ix_(pattern.rows, pattern.classes)
        w, N = of_mean_one(part.teacher_weight, part.log_p), len(pattern.teachers)
        found = of_solver(name, part.log_p, logits[at] / T, blocks_of(part.space), w, T)
        value[pattern.rows], gradient[at] = T**2 / N * found[0], T / N * found[1]
    return value, gradient


@pytest.mark.parametrize("T", [1.0, 3.0])
@pytest.mark.parametrize("weight", [None, WEIGHT], ids=["alike", "weighted"])
@pytest.mark.parametrize(("name", "columns"), CASES)
def test_value_and_gradient_are_the_solvers(name, columns, weight, T):
    log_p, logits, quiet = make_answers(columns)
    value, gradient = of_solvers(name, log_p, logits, LISTS[columns], weight, T)
    x = torch.asarray(logits).requires_grad_()
    loss = make(name, LISTS[columns], temperature=T, teacher_weight=weight)(x, torch.asarray(log_p))
    loss.backward()
    assert loss.item() == pytest.approx(value.mean(), abs=1e-9)
    np.testing.assert_allclose(x.grad.numpy(), gradient / len(logits), atol=1e-9)
    assert (x.grad[0] == 0).all()  # nobody answers
    assert quiet[1:].any(axis=1).sum() > 3


@pytest.mark.parametrize(("name", "columns"), CASES)
def test_gradients(name, columns):
    log_p, logits, _ = make_answers(columns)
    loss, log_p = make(name, LISTS[columns], teacher_weight=WEIGHT, factor=None), torch.asarray(log_p)
    x = torch.asarray(logits).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, log_p), (x,), eps=1e-6, atol=1e-6)


@pytest.mark.parametrize(("name", "columns"), CASES)
def test_a_silent_teacher_is_left_out_of_the_lists(name, columns):
    lists, (log_p, logits, _) = LISTS[columns], make_answers(columns)
    space = LabelSpace(lists)
    log_p = np.where(np.isnan(log_p), 0.5, log_p)
    silent = log_p.copy()
    silent[:, space.blocks[0]] = np.nan
    rest = space.restrict([1, 2, 3])
    known = np.isin(space.classes, rest.classes)
    for params in ({}, {"teacher_weight": WEIGHT}):
        x = torch.asarray(logits).requires_grad_()
        value = make(name, lists, factor=None, **params)(x, torch.asarray(silent))
        value.backward()
        y = torch.asarray(logits[:, known]).requires_grad_()
        less = {key: weight[1:] for key, weight in params.items()}
        expected = make(name, rest, factor=None, **less)(y, torch.asarray(log_p[:, space.blocks[0].stop :]))
        expected.backward()
        torch.testing.assert_close(value, expected)
        torch.testing.assert_close(x.grad[:, known], y.grad)
        assert (x.grad[:, ~known] == 0).all()


@pytest.mark.parametrize(("name", "columns"), CASES)
def test_weight_two_is_the_teacher_twice(name, columns):
    lists, (log_p, logits, _) = LISTS[columns], make_answers(columns)
    params = {"factor": None} | ({"lam": 1e-12} if name == "mf_lu" else {})  # the ridge of u counts once, not by weight
    twice = np.hstack([log_p, log_p[:, LabelSpace(lists).blocks[0]]])
    found = []
    for loss, answers in (
        (make(name, lists, teacher_weight=[2, 1, 1, 1], **params), log_p),
        (make(name, LabelSpace([*lists, lists[0]]), **params), twice),
    ):
        x = torch.asarray(logits).requires_grad_()
        value = loss(x, torch.asarray(answers))
        value.backward()
        found.append((value.detach(), x.grad))
    torch.testing.assert_close(*found)


@pytest.mark.parametrize(("name", "columns"), CASES)
def test_no_nan_from_silence(name, columns):
    """Also with certain teachers, far logits and single precision, and if nobody answers anything."""
    log_p, logits, _ = make_answers(columns)
    log_p = torch.asarray(np.where(log_p < -1, -np.inf, log_p), dtype=torch.float32)
    loss = make(name, LISTS[columns], teacher_weight=WEIGHT, factor=None)
    x = (100 * torch.asarray(logits, dtype=torch.float32)).requires_grad_()
    value = loss(x, log_p)
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(x.grad).all()
    x.grad = None
    value = loss(x, torch.full_like(log_p, float("nan")))
    value.backward()
    assert value == 0
    assert (x.grad == 0).all()


def test_scales_of_silent_teachers_are_not_known():
    log_p, logits, quiet = make_answers("classes")
    for name in ("mf_lf", "mf_lu"):
        v = make(name, LISTS["classes"], teacher_weight=WEIGHT).scales(torch.asarray(logits), torch.asarray(log_p))
        np.testing.assert_array_equal(v.isnan().numpy(), quiet)
        alike = make(name, LISTS["classes"]).scales(torch.asarray(logits), torch.asarray(log_p))
        torch.testing.assert_close(v, alike, equal_nan=True)


@pytest.mark.parametrize("columns", list(LISTS))
def test_gaps_and_wrong_weights_are_errors(columns):
    log_p, logits, _ = make_answers(columns)
    with pytest.raises(ValueError, match="holds probabilities"):
        make("ce", LISTS[columns])(torch.asarray(logits), torch.asarray(np.exp(log_p)))
    log_p[1, 1] = np.nan
    with pytest.raises(ValueError, match="log_p has nan, first in row 1, column 1: a teacher must answer for all"):
        make("ce", LISTS[columns])(torch.asarray(logits), torch.asarray(log_p))
    for weight in ([1, 2, 3], [1, 2, 3, 0], [1, 2, 3, np.nan]):
        with pytest.raises(ValueError, match="per teacher, 4 in all"):
            make("ce", LISTS[columns], teacher_weight=weight)


@pytest.mark.parametrize("T", [1.0, 3.0])
@pytest.mark.parametrize("name", ["ce", "mf_p", "mf_lf"])
def test_untempered_teachers_are_those_of_the_merge(name, T):
    """The others are tempered, and the solver is at temperature 1, where untempered ones count 1 / T."""
    lists, as_is = [[0, 1, 2], [2, 3, 4], [(0, 1, 2), OTHER], [(2, 3, 4), OTHER]], np.array([False, False, True, True])
    space, rng = LabelSpace(lists), np.random.default_rng(2)
    log_p = blocks_of(space).log_softmax(2 * rng.normal(size=(8, space.n_outputs)))
    logits, scale = 2 * rng.normal(size=(8, 5)), np.where(as_is, 1.0, 1 / T)
    w = of_mean_one(np.array([3.0, 1.0, 0.5, 0.5]) * np.where(as_is, 1 / T, 1.0), log_p)
    tempered = log_p * scale[space.teacher_of]
    value, gradient = of_solver(name, tempered, logits / T, blocks_of(space), w, 1.0)
    x = torch.asarray(logits).requires_grad_()
    loss = make(name, lists, temperature=T, teacher_weight=[3.0, 1.0, 0.5, 0.5], untempered=as_is)
    found = loss(x, torch.asarray(log_p))
    found.backward()
    assert found.item() == pytest.approx(T**2 / 4 * value.mean(), abs=1e-9)
    np.testing.assert_allclose(x.grad.numpy(), T / 4 * gradient / 8, atol=1e-9)


@pytest.mark.parametrize("name", ["ce", "mf_p", "mf_lf"])
def test_classes_that_only_untempered_teachers_know(name):
    """Their probability is at temperature 1, next to that of all known classes; silent rows included."""
    space = LabelSpace([[0, 1, 2], [2, 3], [(0, 1, 2), OTHER], [(2, 3), OTHER]], universe=[-1])
    rng, as_is = np.random.default_rng(2), [False, False, True, True]
    log_p, logits = blocks_of(space).log_softmax(2 * rng.normal(size=(8, space.n_outputs))), rng.normal(size=(8, 5))
    log_p[0], log_p[1:3, :3] = np.nan, np.nan  # nobody, and not the only one that knows 0 and 1
    loss, log_p = make(name, space, factor=None, untempered=as_is), torch.asarray(log_p)
    x = torch.asarray(logits).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, log_p), (x,), eps=1e-6, atol=1e-6)
    u = loss._prepare(x, log_p).u.detach().numpy()
    for row, rest in ((3, [0]), (1, [0, 1, 2])):  # columns of -1, and of 0 and 1 as well
        found, expected = (softmax(values)[rest] for values in (u[row], logits[row]))
        np.testing.assert_allclose(found, expected)
