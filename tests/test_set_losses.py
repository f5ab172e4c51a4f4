"""Losses of direct backpropagation with columns of sets: the solvers' objectives and gradients."""

import numpy as np
import pytest

from sklearn_uhc import OTHER, LabelSpace
from sklearn_uhc.solvers import blocks_of
from sklearn_uhc.solvers.ce import CrossEntropy
from sklearn_uhc.solvers.class_fit import ClassFit
from sklearn_uhc.solvers.mf_lf import LogitError
from sklearn_uhc.solvers.mf_p import ProbabilityError

torch = pytest.importorskip("torch")
losses = pytest.importorskip("sklearn_uhc.merging.losses")

LISTS = [[0, (1, 2), 3], [2, 3, (4, 5)], [(0, 4), 5, 1], [1, 6, OTHER], [(0, 1, 2), OTHER]]
KINDS = {
    "ce": (losses.CrossEntropyUnifierLoss, {}),
    "mf_p": (losses.ProbabilityFactorizationLoss, {"factor": 1}),
    "mf_lf": (losses.LogitFactorizationLoss, {"factor": 1}),
}


@pytest.fixture
def answers():
    rng = np.random.default_rng(1)
    blocks = blocks_of(LabelSpace(LISTS))
    log_p = blocks.log_softmax(2 * rng.normal(size=(6, len(blocks.teacher_of))))
    return blocks, log_p, 2 * rng.normal(size=(6, 7))


def solver_point(name, log_p, u, blocks, T):
    """Value and gradient by u of the numpy solver's objective, with the other variables optimal."""
    Z, w, size = log_p / T, np.ones((1, len(LISTS))), np.ones(len(u))
    objective = {"ce": CrossEntropy, "mf_p": ProbabilityError, "mf_lf": LogitError}[name]
    X = Z if name == "mf_lf" else np.exp(blocks.log_softmax(Z))
    point = ClassFit(objective, X, u, size, w, T, blocks, 0.0, np.zeros(u.shape[1], dtype=bool)).at(u)
    times = 1 if name == "ce" else 2  # the solvers halve squares
    return times * point.value, times * point.gradient


@pytest.mark.parametrize("T", [1.0, 3.0])
@pytest.mark.parametrize("name", list(KINDS))
def test_value_and_gradient_are_the_solvers_times_t_squared_over_n(answers, name, T):
    blocks, log_p, logits = answers
    kind, params = KINDS[name]
    value, gradient = solver_point(name, log_p, logits / T, blocks, T)
    x = torch.asarray(logits).requires_grad_()
    loss = kind(LISTS, temperature=T, **params)(x, torch.asarray(log_p))
    loss.backward()
    assert loss.item() == pytest.approx(T**2 / len(LISTS) * value.mean(), abs=1e-9)
    np.testing.assert_allclose(x.grad.numpy(), T / len(LISTS) * gradient / len(logits), atol=1e-9)


@pytest.mark.parametrize("name", list(KINDS))
def test_gradients(answers, name):
    _, log_p, logits = answers
    kind, params = KINDS[name]
    loss, log_p = kind(LISTS, temperature=2.0, **params), torch.asarray(log_p)
    logits = torch.asarray(logits).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, log_p), (logits,), eps=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["ce", "mf_p", "mf_lf"])
@pytest.mark.parametrize("T", [1.0, 3.0])
def test_the_logits_behind_consistent_answers_are_the_best(answers, name, T):
    blocks, _, logits = answers
    Q = np.exp(logits - logits.max(axis=1, keepdims=True))
    log_p = blocks.log_softmax(np.log(Q @ blocks.space.membership().T))
    kind, params = KINDS[name]
    x = torch.asarray(logits).requires_grad_()
    kind(LISTS, temperature=T, **params)(x, torch.asarray(log_p)).backward()
    assert x.grad.abs().max() < 1e-12


def test_mf_lu_refuses_sets():
    with pytest.raises(ValueError, match=r"MF-LU does not support .*several classes"):
        losses.LogitFactorizationLoss(LISTS, scale="free")
