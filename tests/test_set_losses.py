"""Losses of direct backpropagation with columns of sets: the solvers' objectives and gradients."""

import numpy as np
import pytest

from sklearn_uhc import OTHER, LabelSpace
from sklearn_uhc.solvers import set_fit, set_mf_lu
from sklearn_uhc.solvers.blocks import Blocks

torch = pytest.importorskip("torch")
losses = pytest.importorskip("sklearn_uhc.losses")

LISTS = [[0, (1, 2), 3], [2, 3, (4, 5)], [(0, 4), 5, 1], [1, 6, OTHER], [(0, 1, 2), OTHER]]
KINDS = {
    "ce": (losses.CrossEntropyUnifierLoss, {}),
    "mf_p": (losses.ProbabilityFactorizationLoss, {"factor": 1}),
    "mf_lu": (losses.LogitFactorizationLoss, {"scale": "free", "factor": 1}),
    "mf_lf": (losses.LogitFactorizationLoss, {"factor": 1}),
}


@pytest.fixture
def answers():
    rng = np.random.default_rng(1)
    blocks = Blocks.from_label_space(LabelSpace(LISTS))
    log_p = blocks.log_softmax(2 * rng.normal(size=(6, len(blocks.teacher_of))))
    return blocks, log_p, 2 * rng.normal(size=(6, 7))


def solver_point(name, log_p, u, blocks, T):
    """Value and gradient by u of the numpy solver's objective, with the other variables optimal."""
    w, size = np.ones(len(LISTS)), np.ones(len(u))
    Z = log_p / T
    if name == "mf_lu":
        Z = blocks.center(Z)
        V = set_mf_lu.best_v(Z, u, T, 0.01, blocks)
        x = np.concatenate([u, V], axis=1)
        point = set_mf_lu.SetLogitFit(Z, x, size, w, T, 0.01, blocks).at(x)
        slope = point.gradient[:, u.shape[1] :]
        assert np.abs(np.where(V > 0, slope, np.minimum(slope, 0))).max() < 1e-10  # v is at its best
        return 2 * point.value, 2 * point.gradient[:, : u.shape[1]]
    objective = {"ce": set_fit.CE, "mf_p": set_fit.MF_P, "mf_lf": set_fit.MF_LF}[name]
    X = Z if name == "mf_lf" else np.exp(blocks.log_softmax(Z))
    point = set_fit.SetFit(X, u, size, objective, w, T, blocks).at(u)
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
    log_p = blocks.log_softmax(np.log(Q @ blocks.to_class.T))
    kind, params = KINDS[name]
    x = torch.asarray(logits).requires_grad_()
    kind(LISTS, temperature=T, **params)(x, torch.asarray(log_p)).backward()
    assert x.grad.abs().max() < 1e-12


def test_scales_of_mf_lu(answers):
    blocks, log_p, logits = answers
    loss = losses.LogitFactorizationLoss(LISTS, temperature=2.0, scale="free")
    V = loss.scales(torch.asarray(logits), torch.asarray(log_p)).numpy()
    np.testing.assert_allclose(V, set_mf_lu.best_v(blocks.center(log_p / 2), logits / 2, 2.0, 0.01, blocks), atol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_best_v_does_not_depend_on_the_batch(seed):
    """Also next to rows that are solved at the start, v = 1, and leave the batch at once."""
    rng, blocks = np.random.default_rng(seed), Blocks.from_label_space(LabelSpace(LISTS))
    U = 2 * rng.normal(size=(10, 7))
    Z = blocks.center(blocks.column_logits(U, 1.0))
    Z[:2] = blocks.center(5 * rng.normal(size=(2, Z.shape[1])))
    V = set_mf_lu.best_v(Z, U, 1.0, 1e-15, blocks)
    np.testing.assert_allclose(V[2:], 1, atol=1e-9)
    np.testing.assert_allclose(V[:2], set_mf_lu.best_v(Z[:2], U[:2], 1.0, 1e-15, blocks), atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("spread", [0.1, 2.0, 20.0])
@pytest.mark.parametrize("T", [0.3, 1.0, 3.0])
def test_best_v_is_a_minimum_for_every_teacher(T, spread, dtype):
    """Also where the curvature is close to 0 or negative on the way; 20 steps did not get there."""
    rng, blocks = np.random.default_rng(3), Blocks.from_label_space(LabelSpace(LISTS))
    Z, U = 2 * rng.normal(size=(1000, len(blocks.teacher_of))) / T, spread * rng.normal(size=(1000, 7)) / T
    Z, U = (torch.asarray(X).to(dtype) for X in (blocks.center(Z), U))
    V = set_mf_lu.best_v(Z, U, T, 0.01, blocks.like(U)).double().numpy()
    fit = set_mf_lu.ScaleFit.of(Z.double().numpy(), U.double().numpy(), T, 0.01, blocks)
    at = fit.at(V)
    assert (V >= 0).all()
    slope = np.abs(np.where(V > 0, at.slope, np.minimum(at.slope, 0)))
    assert (slope / at.size).max() < 100 * torch.finfo(dtype).eps
    assert (fit.at(V + 1e-3).value >= at.value - 1e-6 * (1 + at.value)).all()
    assert (fit.at(np.maximum(V - 1e-3, 0)).value >= at.value - 1e-6 * (1 + at.value)).all()
