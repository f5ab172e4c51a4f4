"""Losses of direct backpropagation: the solvers' objectives and gradients, for torch."""

import numpy as np
import pytest

from sklearn_uhc.solvers import blocks_of, ce, mf_lf, mf_lu, mf_p
from sklearn_uhc.spaces.label_space import LabelSpace
from tests.helpers import random_lists

torch = pytest.importorskip("torch")
losses = pytest.importorskip("sklearn_uhc.merging.losses")

LISTS = random_lists(np.random.default_rng(0), 8, 5, 2, 5)
T = 2.0


def make(name, **params):
    kind, own = {
        "ce": (losses.CrossEntropyUnifierLoss, {}),
        "mf_p": (losses.ProbabilityFactorizationLoss, {}),
        "mf_lu": (losses.LogitFactorizationLoss, {"scale": "free"}),
        "mf_lf": (losses.LogitFactorizationLoss, {}),
    }[name]
    return kind(LISTS, **{"temperature": T} | own | params)


NAMES = ["ce", "mf_p", "mf_lu", "mf_lf"]


@pytest.fixture
def answers():
    rng = np.random.default_rng(1)
    blocks = blocks_of(LabelSpace(LISTS))
    log_p = blocks.log_softmax(2 * rng.normal(size=(6, len(blocks.class_of))))
    return blocks, log_p, 2 * rng.normal(size=(6, blocks.M.shape[1]))


@pytest.mark.parametrize("name", NAMES)
def test_gradients(answers, name):
    _, log_p, logits = answers
    loss, log_p = make(name), torch.asarray(log_p)
    logits = torch.asarray(logits).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: loss(x, log_p), (logits,), eps=1e-6, atol=1e-6)


def solver_gradients(name, log_p, logits, blocks):
    """Objective and its derivative by u of the numpy solvers, with u = logits / T and other variables optimal."""
    Z = log_p / T
    P, u = np.exp(blocks.log_softmax(Z)), logits / T
    if name == "ce":
        E = np.exp(u)
        s = E @ blocks.M.T
        value = -((P @ blocks.to_class) * u).sum(axis=1) + np.log(s).sum(axis=1)
        return value, E * ((1 / s) @ blocks.M) - P @ blocks.to_class
    Z = blocks.center(Z)
    if name == "mf_lf":
        error = blocks.center(Z - blocks.by_class(u))
        return (error**2).sum(axis=1), -2 * error @ blocks.to_class
    V = mf_lu.best_v(Z, u, 0.01, blocks)
    return mf_lu.objective(Z, u, V, 0.01, blocks), 2 * mf_lu.gradient(Z, u, V, 0.01, blocks)[0]


@pytest.mark.parametrize("name", ["ce", "mf_lu", "mf_lf"])
def test_value_and_gradient_are_the_solvers_times_t_squared_over_n(answers, name):
    blocks, log_p, logits = answers
    value, gradient = solver_gradients(name, log_p, logits, blocks)
    x = torch.asarray(logits).requires_grad_()
    loss = make(name, **{} if name == "ce" else {"factor": 1})(x, torch.asarray(log_p))
    loss.backward()
    assert loss.item() == pytest.approx(T**2 / len(LISTS) * value.mean(), abs=1e-9)
    np.testing.assert_allclose(x.grad.numpy(), T / len(LISTS) * gradient / len(logits), atol=1e-9)


def test_mf_p_is_the_solvers_objective_times_t_squared_over_n_and_a_factor(answers):
    blocks, log_p, logits = answers
    P, U = np.exp(blocks.log_softmax(log_p / T)), np.exp(logits / T)
    U /= U.sum(axis=1, keepdims=True)
    value = mf_p.objective(P, U, mf_p.best_v(P, U, blocks), blocks).mean()
    for factor in (1, 150):
        loss = make("mf_p", factor=factor)(torch.asarray(logits), torch.asarray(log_p))
        assert loss.item() == pytest.approx(T**2 / len(LISTS) * factor * value)
    assert losses.ProbabilityFactorizationLoss([[0, 1], [1, 2, 3, 4]]).factor == 1.5


def curvature(loss, logits, log_p):
    """Largest eigenvalue of the Hessian with respect to the logits of a row."""
    H = torch.autograd.functional.hessian(lambda x: loss(x, log_p), logits)
    return torch.linalg.eigvalsh(H[0, :, 0]).max().item()


@pytest.mark.parametrize("temperature", [0.5, 1, 10])
@pytest.mark.parametrize("N", [1, 5])
def test_mf_p_mf_lf_and_ce_start_with_the_curvature_of_hard_labels(N, temperature):
    """Teachers that know the same four classes and give uniform answers, and a network that does too."""
    lists, log_p = [[0, 1, 2, 3]] * N, torch.full((1, 4 * N), -np.log(4), dtype=torch.float64)
    for kind in (losses.CrossEntropyUnifierLoss, losses.ProbabilityFactorizationLoss, losses.LogitFactorizationLoss):
        loss = kind(lists, temperature=temperature)
        assert curvature(loss, torch.zeros(1, 4, dtype=torch.float64), log_p) == pytest.approx(1 / 4)


def test_the_curvature_of_ce_has_the_bound_of_hard_labels(answers):
    """That of log-sum-exp, 1/2, is reached with two classes that are equally probable to every teacher."""
    _, log_p, logits = answers
    for row in range(len(logits)):
        found = curvature(make("ce"), *(torch.asarray(A[row : row + 1]) for A in (logits, log_p)))
        assert 0 < found <= 0.5
    loss = losses.CrossEntropyUnifierLoss([[0, 1]] * 3, temperature=5)
    flat = torch.zeros(1, 8, dtype=torch.float64)
    assert curvature(loss, flat[:, :2], flat[:, 2:] + np.log(0.5)) == pytest.approx(0.5)


def test_logit_matching_is_the_same_at_every_temperature(answers):
    """T^2 ||z / T - x / T||^2 = ||z - x||^2."""
    _, log_p, logits = answers
    found = [make("mf_lf", temperature=t)(torch.asarray(logits), torch.asarray(log_p)).item() for t in (0.5, 1, 10)]
    np.testing.assert_allclose(found, found[0])


def test_the_ridge_holds_back_an_untrained_mf_lu_at_high_temperatures(answers):
    """The ridge is weighed against squared logits over T^2; divided by T^2 it leaves v as it is at T = 1."""
    log_p, small = torch.asarray(answers[1]), torch.asarray(answers[2]) / 10
    plain, divided = (
        {T: make("mf_lu", temperature=T, lam=lam(T)).scales(small, log_p) for T in (1, 3, 10)}
        for lam in (lambda T: 0.01, lambda T: 0.01 / T**2)
    )
    assert plain[10].mean() < 0.3 * plain[1].mean()
    for T in (3, 10):
        torch.testing.assert_close(divided[T], plain[1])


@pytest.mark.parametrize("name", NAMES)
def test_the_solvers_answer_is_a_stationary_point(answers, name):
    blocks, log_p, _ = answers
    Z = log_p / T
    P = np.exp(blocks.log_softmax(Z))
    u = {
        "ce": lambda: np.log(ce.solve_ce(P, blocks).u),
        "mf_p": lambda: np.log(mf_p.solve_mf_p(P, blocks, tol=1e-12).u),
        "mf_lu": lambda: mf_lu.solve_mf_lu(Z, blocks, tol=1e-12).u,
        "mf_lf": lambda: mf_lf.LogitAverage.of(blocks).solve(Z)[0],
    }[name]()
    x = torch.asarray(T * u).requires_grad_()
    make(name)(x, torch.asarray(log_p)).backward()
    assert x.grad.abs().max() < 1e-6


@pytest.mark.parametrize("name", NAMES)
def test_no_nan_from_certain_teachers_and_far_logits(answers, name):
    _, log_p, logits = answers
    log_p = np.where(log_p < -1, -np.inf, log_p)
    x = (torch.asarray(logits, dtype=torch.float32) * 100).requires_grad_()
    loss = make(name)(x, torch.asarray(log_p))
    loss.backward()
    assert loss.dtype == torch.float32
    assert torch.isfinite(loss)
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("temperature", [0.1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_half_precision_and_teachers_that_say_nothing(answers, name, temperature, dtype):
    """A teacher with only -inf is uniform over its classes; sums are in single precision."""
    blocks, log_p, logits = answers
    silent, uniform = log_p.copy(), log_p.copy()
    silent[:3, blocks.slices[0]], uniform[:3, blocks.slices[0]] = -np.inf, 0
    loss = make(name, temperature=temperature)
    x = torch.asarray(logits).to(dtype).requires_grad_()
    value = loss(x, torch.asarray(silent).to(dtype))
    value.backward()
    assert value.dtype == torch.float32
    assert torch.isfinite(x.grad).all()
    expected = loss(x.detach().double(), torch.asarray(uniform).to(dtype).double())
    assert value.item() == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize("name", NAMES)
def test_autocast_does_not_reach_the_loss(answers, name):
    _, log_p, logits = answers
    x, target, loss = torch.asarray(logits).float(), torch.asarray(log_p).float(), make(name)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        value = loss(x, target)
    assert value == loss(x, target)


@pytest.mark.parametrize(
    ("value", "message"),
    [(np.nan, "log_p has nan, first in row 2, column 3"), (np.inf, "log_p has inf, first in row 2, column 3")],
)
@pytest.mark.parametrize("name", NAMES)
def test_answers_that_would_make_the_loss_nan(answers, name, value, message):
    _, log_p, logits = answers
    log_p[2, 3] = value
    with pytest.raises(ValueError, match=message):
        make(name)(torch.asarray(logits), torch.asarray(log_p))


def test_probabilities_are_refused(answers):
    _, log_p, logits = answers
    with pytest.raises(ValueError, match="log_p holds probabilities"):
        make("ce")(torch.asarray(logits), torch.asarray(log_p).exp())


def test_scales(answers):
    _, log_p, logits = answers
    log_p, logits = torch.asarray(log_p), torch.asarray(logits)
    assert (make("mf_lf").scales(logits, log_p) == 1).all()
    v = make("mf_lu").scales(logits, log_p)
    assert v.shape == (6, len(LISTS))
    assert (v >= 0).all()
    # A network that says what all teachers say, three times as loud, finds them at a third of its scale.
    loss = losses.LogitFactorizationLoss([[0, 1, 2]] * 2, temperature=1, scale="free", lam=1e-9)
    row = torch.tensor([[2.0, 0.0, -1.0]])
    np.testing.assert_allclose(loss.scales(3 * row, torch.cat([row, row], dim=1)), 1 / 3, atol=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make("ce")(torch.zeros(2, 3), torch.zeros(2, 4)), "must return 8 logits per row"),
        (lambda: make("ce")(torch.zeros(2, 8), torch.zeros(2, 4)), "log_p must have the shape"),
        (lambda: make("ce")(torch.zeros(0, 8), torch.zeros(0, 4)), "must return 8 logits per row"),
        (lambda: make("ce", temperature=0), "temperature must be a positive number"),
        (lambda: make("mf_lf", scale="loose"), "scale must be"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_plain_training_loop_finds_the_merge(answers):
    """Logits as free parameters, trained by CE-BP, reach the solver's optimum."""
    blocks, log_p, logits = answers
    x = torch.asarray(0 * logits).requires_grad_()
    loss, target = make("ce"), torch.asarray(log_p)
    optimizer = torch.optim.LBFGS([x], max_iter=200, tolerance_grad=1e-10, tolerance_change=1e-14)

    def closure():
        optimizer.zero_grad()
        value = loss(x, target)
        value.backward()
        return value

    optimizer.step(closure)
    expected = ce.solve_ce(np.exp(blocks.log_softmax(log_p / T)), blocks).u
    np.testing.assert_allclose((x / T).softmax(dim=1).detach().numpy(), expected, atol=1e-5)


def test_the_scale_of_a_teacher_with_one_column_does_not_count():
    loss = losses.LogitFactorizationLoss([[0, 1, 2], [1]], scale="free")
    logits, log_p = torch.randn(5, 3), torch.randn(5, 4)
    assert loss.scales(logits, log_p).isnan().tolist() == [[False, True]] * 5
