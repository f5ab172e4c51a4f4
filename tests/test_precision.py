"""Single precision, tensors on another device, weights that differ by orders of magnitude."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_uhc import TeacherCalibrator
from sklearn_uhc.merging import SoftLabelMethod
from sklearn_uhc.merging.method import Merged
from tests.helpers import METHOD_NAMES, make_method, random_outputs

LISTS = [[0, 1, 2, 3], [2, 3, 4], [4, 5, 0], [1, 5, 6], [6, 3]]


def one_hots(floor):
    """Return all combinations in which each of five teachers is certain of one of its classes, (216, 15)."""
    rows = itertools.product(*(np.eye(len(labels)) for labels in LISTS))
    with np.errstate(divide="ignore"):
        return np.log(np.clip([np.concatenate(row) for row in rows], floor, None))


@pytest.mark.parametrize("weight", [None, [1, 2, 0.001, 1, 100], [1e-7, 1, 1, 1, 1]], ids=["alike", "unlike", "tiny"])
@pytest.mark.parametrize("floor", [1e-6, 0])
@pytest.mark.parametrize("name", METHOD_NAMES)
def test_certain_teachers_in_single_precision_are_solved_like_double(name, floor, weight):
    """In single precision throughout, MF-P was off by .9, CE by .09 and MF-LU by .9, and reported as converged."""
    Z = one_hots(floor).astype(np.float32)
    method = make_method(name, LISTS, temperature=1, teacher_weight=weight)
    single = method.fit_transform(Z)
    assert method.n_not_converged_ == 0
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, method.fit_transform(Z.astype(float)), atol=1e-4)
    np.testing.assert_allclose(method.transform(Z), single, atol=1e-6)


@pytest.mark.parametrize("name", ["ce", "mf_p", "mf_lu", "mf_lf"])
@pytest.mark.parametrize("spread", [1, 4])
def test_single_precision_takes_the_steps_of_double(name, spread):
    Z = spread * np.random.default_rng(0).normal(size=(2000, 15)).astype(np.float32)
    single, double = (make_method(name, LISTS).fit(Z.astype(dtype)) for dtype in (np.float32, np.float64))
    assert single.n_iter_ == double.n_iter_
    np.testing.assert_allclose(single.transform(Z), double.transform(Z.astype(float)), atol=1e-6)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_the_least_trusted_teacher_still_decides_what_nobody_else_knows(name):
    """Without it nothing links class 2; with consistent answers weights do not matter, in either precision."""
    log_p = np.log([[0.8, 0.2, 0.5, 0.5], [0.3, 0.7, 0.1, 0.9]])
    expected = [[4 / 6, 1 / 6, 1 / 6], [3 / 73, 7 / 73, 63 / 73]]
    method = make_method(name, [[0, 1], [1, 2]], temperature=1, teacher_weight=[1e6, 0.1])
    for dtype, atol in ((np.float64, 1e-6), (np.float32, 1e-4)):
        Q = method.fit_transform(log_p.astype(dtype))
        assert np.isfinite(Q).all()
        if name in ("ce", "mf_p", "mf_lf"):
            np.testing.assert_allclose(Q, expected, atol=atol)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_weights_that_double_precision_cannot_hold(name):
    with pytest.raises(ValueError, match=r"factor of at most 1e\+08.*Leave a teacher out"):
        make_method(name, LISTS, teacher_weight=[1e-300, 1, 1, 1, 1e300]).fit(one_hots(1e-6))


@pytest.mark.parametrize("temperature", [0.05, 1, 3])
@pytest.mark.parametrize("name", METHOD_NAMES)
def test_a_teacher_of_nothing_but_minus_infinity_says_that_all_are_alike(name, temperature):
    Z = random_outputs(np.random.default_rng(1), LISTS, 10)
    alike = np.where(np.arange(15) < 4, 0.0, Z)
    method = make_method(name, LISTS, temperature=temperature)
    np.testing.assert_allclose(
        method.fit_transform(np.where(np.arange(15) < 4, -np.inf, Z)), method.fit_transform(alike), atol=1e-6
    )


torch = pytest.importorskip("torch")


class Elsewhere(torch.Tensor):
    """Stands for a tensor on another device: numpy cannot read it before it is moved to the CPU."""

    def __array__(self, *args, **kwargs):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def numpy(self, *args, **kwargs):
        raise TypeError("can't convert cuda:0 device type tensor to numpy")

    def cpu(self):
        return self.as_subclass(torch.Tensor)


def elsewhere(X):
    return torch.asarray(X).as_subclass(Elsewhere)


@pytest.fixture
def answers():
    X = random_outputs(np.random.default_rng(0), LISTS, 60)
    X[::4, :4] = np.nan
    X[1::4, 4:7] = np.nan
    return X


@pytest.mark.parametrize("weight", [None, [1, 2, 1, 1, 0.5]], ids=["alike", "unlike"])
@pytest.mark.parametrize("name", METHOD_NAMES)
def test_methods_never_read_a_device_through_numpy(name, weight, answers):
    method = make_method(name, LISTS, abstain=True, teacher_weight=weight)
    Q = clone(method).fit_transform(elsewhere(answers))
    assert isinstance(Q, torch.Tensor)
    expected = method.fit(answers)
    np.testing.assert_allclose(Q.cpu(), expected.transform(answers), atol=1e-8)
    error = clone(method).fit(elsewhere(answers)).reconciliation_error(elsewhere(answers))
    np.testing.assert_allclose(error.cpu(), expected.reconciliation_error(answers), atol=1e-8)
    with pytest.raises(ValueError, match="contains NaN, first in row 0"):
        make_method(name, LISTS).fit(elsewhere(answers))
    with pytest.raises(ValueError, match="X holds probabilities"):
        make_method(name, LISTS).fit(elsewhere(np.exp(one_hots(0))))


def test_the_calibrator_never_reads_a_device_through_numpy(answers):
    expected = TeacherCalibrator(LISTS, abstain=True).fit(answers)
    found = TeacherCalibrator(LISTS, abstain=True).fit(elsewhere(answers))
    np.testing.assert_allclose(found.temperatures_, expected.temperatures_)
    np.testing.assert_allclose(found.transform(elsewhere(answers)).cpu(), expected.transform(answers), atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "estimator", [make_method("ce", LISTS), TeacherCalibrator(LISTS)], ids=["method", "calibrator"]
)
def test_half_precision_is_refused_with_a_remedy(estimator, dtype):
    with pytest.raises(ValueError, match=r"got torch\.b?float16: convert it with \.float\(\)"):
        clone(estimator).fit(torch.asarray(one_hots(1e-3)).to(dtype))


class Plain(SoftLabelMethod):
    """A user's own method, with the two parameters that every method needs."""

    def __init__(self, class_lists=None, *, temperature=1.0):
        self.class_lists = class_lists
        self.temperature = temperature

    def merge(self, Z, blocks, weight):
        Q = self._tempered(Z, blocks) @ blocks.to_class
        return Merged(Q / Q.sum(axis=1, keepdims=True))


def test_a_method_of_ones_own_needs_two_parameters(answers):
    complete = np.nan_to_num(answers)
    np.testing.assert_allclose(Plain(LISTS).fit_transform(complete).sum(axis=1), 1)
    with pytest.raises(ValueError, match="contains NaN"):
        Plain(LISTS).fit(answers)
