"""The five methods as transformers: exact facts, invariances, bad input."""

import tracemalloc
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from sklearn_uhc import LabelSpace, LogitFactorization, ProbabilityFactorization, StandardDistillation, TeacherOutputs
from sklearn_uhc.merging import METHODS, resolve_method
from tests import reference
from tests.helpers import (
    METHOD_NAMES,
    consistent_outputs,
    linear_teachers,
    make_method,
    random_lists,
    random_outputs,
)

UNIFIERS = [name for name in METHOD_NAMES if name != "sd"]
LISTS = [["cat", "dog"], ["dog", "cow", "ant"], ["cat", "ant"]]


def true_probabilities(n=20, L=10, seed=0):
    return softmax(2 * np.random.default_rng(seed).normal(size=(n, L)), axis=1)


@pytest.mark.parametrize("temperature", [1, 3])
@pytest.mark.parametrize("name", ["ce", "mf_lf", "mf_p"])
def test_consistent_teachers_give_back_the_truth(name, temperature):
    """Proposition 1 of the paper, at temperature 1; tempered truth otherwise."""
    Q = true_probabilities()
    lists = random_lists(np.random.default_rng(1), 10, 6, 2, 5)
    found = make_method(name, lists, temperature=temperature).fit_transform(consistent_outputs(Q, lists))
    np.testing.assert_allclose(found, softmax(np.log(Q) / temperature, axis=1), atol=1e-8)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_identical_teachers_with_all_classes_give_back_their_answer(name):
    Q = true_probabilities()
    log_p = np.tile(np.log(Q), 5)
    found = make_method(name, [range(10)] * 5, temperature=1).fit_transform(log_p)
    np.testing.assert_allclose(found, Q, atol=2e-3 if name == "mf_lu" else 1e-7)


def test_the_raw_scale_of_mf_lu_is_an_accident_of_its_ridge():
    Q = true_probabilities()
    log_p = np.tile(np.log(Q), 5)
    mean = LogitFactorization([range(10)] * 5, scale="free", temperature=1)
    raw = clone(mean).set_params(gauge="paper")
    assert np.abs(mean.fit_transform(log_p) - Q).max() < 2e-3
    assert np.abs(raw.fit_transform(log_p) - Q).max() > 0.1


def test_standard_distillation_is_the_mean_with_zeros():
    log_p = random_outputs(np.random.default_rng(0), LISTS, 5)
    method = StandardDistillation(LISTS, temperature=2)
    Q = method.fit_transform(log_p)
    for row, q in zip(log_p, Q, strict=True):
        Z, M = reference.dense(row, LISTS, method.classes_)
        np.testing.assert_allclose(q, reference.sd(reference.temper(Z, M, 2), M))


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), name=st.sampled_from(METHOD_NAMES))
def test_order_of_teachers_and_names_of_classes_do_not_matter(seed, name):
    rng = np.random.default_rng(seed)
    lists = random_lists(rng, 7, 4, 2, 4)
    space, log_p = LabelSpace(lists), random_outputs(rng, lists, 6)
    method = make_method(name, lists, **({} if name == "sd" else {"tol": 1e-9, "max_iter": 20000}))
    Q = method.fit_transform(log_p)

    order = rng.permutation(4)
    moved = np.concatenate([log_p[:, space.blocks[i]] for i in order], axis=1)
    np.testing.assert_allclose(
        clone(method).set_params(class_lists=[lists[i] for i in order]).fit_transform(moved), Q, atol=1e-6
    )

    rename = rng.permutation(7)
    renamed = clone(method).set_params(class_lists=[rename[labels] for labels in lists]).fit_transform(log_p)
    np.testing.assert_allclose(renamed[:, rename], Q, atol=1e-6)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_a_constant_on_one_teachers_logits_changes_nothing(name):
    log_p = random_outputs(np.random.default_rng(0), LISTS, 8)
    shifted = log_p + np.repeat([5.0, -300.0, 1e6], [2, 3, 2])
    method = make_method(name, LISTS)
    np.testing.assert_allclose(method.fit_transform(log_p), method.fit_transform(shifted), atol=1e-6)


@pytest.mark.parametrize("name", METHOD_NAMES)
@pytest.mark.parametrize("lists", [[["only"]], [["a", "b", "c"]], [["a", "b"], ["b"]], [["a"], ["a"], ["a"]]], ids=str)
def test_one_teacher_one_class_single_class_lists(name, lists):
    log_p = random_outputs(np.random.default_rng(0), lists, 4)
    Q = make_method(name, lists, temperature=1).fit_transform(log_p)
    np.testing.assert_allclose(Q.sum(axis=1), 1)
    if name not in ("sd", "mf_lu"):
        k = len(lists[0])
        np.testing.assert_allclose(Q, softmax(log_p[:, :k], axis=1), atol=1e-7)


@pytest.mark.parametrize("name", UNIFIERS)
def test_groups_that_do_not_connect_are_warned_of_and_get_mean_logit_zero(name):
    lists = [["a", "b"], ["b", "c"], ["x", "y"], ["lone"]]
    log_p = random_outputs(np.random.default_rng(0), lists, 6)
    method = make_method(name, lists)
    with pytest.warns(UserWarning, match=r"\{a, b, c\}, \{lone\}, \{x, y\}") as caught:
        Q = method.fit_transform(log_p)
    assert len(caught) == 1
    logits = np.log(Q)
    for group in ([0, 1, 2], [3], [4, 5]):
        means = logits[:, group].mean(axis=1)
        np.testing.assert_allclose(means, logits[:, 3], atol=1e-9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method.transform(log_p)


def test_standard_distillation_does_not_mind_groups():
    """Its zeros determine the probabilities of groups: there is nothing to warn about."""
    lists = [["a", "b"], ["x", "y"]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Q = make_method("sd", lists, temperature=1).fit_transform(np.log([[0.8, 0.2, 0.5, 0.5]]))
    np.testing.assert_allclose(Q, [[0.4, 0.1, 0.25, 0.25]])


def test_ce_and_mf_lf_agree_on_groups_of_consistent_teachers():
    lists = [["a", "b"], ["b", "c"], ["x", "y"]]
    log_p = consistent_outputs(true_probabilities(L=5), lists)
    with pytest.warns(UserWarning, match="do not connect"):
        found = [make_method(name, lists).fit_transform(log_p) for name in ("ce", "mf_lf", "mf_p")]
    np.testing.assert_allclose(found[0], found[1], atol=1e-7)
    np.testing.assert_allclose(found[2], found[1], atol=1e-6)


@pytest.mark.parametrize("name", METHOD_NAMES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_infinities_and_huge_logits_never_give_nan(name):
    log_p = np.array(
        [
            [0, -np.inf, -np.inf, 0, -np.inf, -np.inf, 0],
            [-np.inf, -np.inf, -np.inf, -np.inf, -np.inf, -np.inf, -np.inf],
            [1e300, -1e300, 0, 0, 0, 700, -700],
            [-1e5, 0, 0, -1e5, -1e5, 0, -1e5],
        ]
    )
    Q = make_method(name, LISTS).fit_transform(log_p)
    assert np.isfinite(Q).all()
    assert (Q >= 0).all()
    np.testing.assert_allclose(Q.sum(axis=1), 1)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_float32_in_float32_out_close_to_float64(name):
    log_p = random_outputs(np.random.default_rng(0), LISTS, 30)
    method = make_method(name, LISTS)
    Q32 = method.fit_transform(log_p.astype(np.float32))
    assert Q32.dtype == np.float32
    np.testing.assert_allclose(Q32, method.fit_transform(log_p), atol=1e-6)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_tensors_in_tensors_out(name):
    log_p = random_outputs(np.random.default_rng(0), LISTS, 30)
    method = make_method(name, LISTS)
    expected = method.fit_transform(log_p)
    Q = clone(method).fit_transform(torch.asarray(log_p))
    assert isinstance(Q, torch.Tensor)
    np.testing.assert_allclose(Q.numpy(), expected, atol=1e-8)
    np.testing.assert_allclose(method.transform(torch.asarray(log_p)).numpy(), expected, atol=1e-8)
    bad = torch.asarray(log_p.copy())
    bad[1, 2] = float("nan")
    with pytest.raises(ValueError, match="contains NaN, first in row 1, column 2"):
        method.transform(bad)
    with pytest.raises(ValueError, match="6 features"):
        method.transform(torch.zeros(2, 6))
    with pytest.raises(ValueError, match=r"float32 or float64, got torch.int64: convert it with .float\(\)"):
        method.fit(torch.zeros(2, 7, dtype=torch.int64))


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_certificate_and_state_belong_to_fit(name):
    rng = np.random.default_rng(0)
    method = make_method(name, LISTS).fit(random_outputs(rng, LISTS, 5, noise=0.1))
    before = dict(vars(method))
    assert 0 <= method.max_residual_ < 1e-8
    assert method.n_iter_ >= 1
    method.transform(random_outputs(rng, LISTS, 50, noise=3))
    assert vars(method).keys() == before.keys()
    assert all(vars(method)[k] is before[k] for k in before)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_chunks_give_the_same_answer_in_bounded_memory(name):
    rng = np.random.default_rng(0)
    lists = random_lists(rng, 10, 5, 2, 5)
    log_p = random_outputs(rng, lists, 300)
    method = make_method(name, lists)
    whole = method.fit_transform(log_p)
    with sklearn.config_context(working_memory=0.02):
        parts = method.fit_transform(log_p)
    np.testing.assert_allclose(parts, whole, atol=1e-7)


def test_output_is_a_frame_with_class_names_if_asked():
    log_p = random_outputs(np.random.default_rng(0), LISTS, 3)
    Q = LogitFactorization(LISTS).set_output(transform="pandas").fit_transform(log_p)
    assert isinstance(Q, pd.DataFrame)
    assert Q.columns.tolist() == ["ant", "cat", "cow", "dog"]


def test_without_lists_the_columns_are_the_classes():
    frame = pd.DataFrame([[0.0, 1.0]], columns=["yes", "no"])
    method = LogitFactorization(temperature=1).fit(frame)
    assert method.classes_.tolist() == ["no", "yes"]
    np.testing.assert_allclose(method.transform(frame), softmax([[1.0, 0.0]], axis=1))
    assert LogitFactorization().fit([[1.0, 2.0, 3.0]]).classes_.tolist() == [0, 1, 2]


def test_pipeline_with_teacher_outputs():
    X = np.random.default_rng(0).normal(size=(20, 4))
    pipe = make_pipeline(TeacherOutputs(linear_teachers(LISTS)), METHODS["ce"]().set_params(class_lists=LISTS))
    Q = pipe.fit_transform(X)
    assert Q.shape == (20, 4)
    np.testing.assert_allclose(pipe.transform(X), Q)
    assert pipe.get_feature_names_out().tolist() == ["ant", "cat", "cow", "dog"]


def test_forgotten_logarithms_and_lists_are_noticed():
    log_p = consistent_outputs(true_probabilities(L=4), LISTS)
    with pytest.raises(ValueError, match="X holds probabilities"):
        make_method("ce", LISTS).fit(np.exp(log_p))
    outputs = TeacherOutputs(linear_teachers(LISTS)).set_output(transform="pandas")
    frame = outputs.fit_transform(np.random.default_rng(0).normal(size=(9, 3)))
    method = make_method("ce")
    expected = make_method("ce", outputs.class_lists_).fit_transform(frame)
    np.testing.assert_array_equal(method.fit_transform(frame), expected)  # the columns' names say which class is whose
    assert method.classes_.tolist() == ["ant", "cat", "cow", "dog"]


def test_temperature_does_not_change_the_ranking_of_mf_lf():
    log_p = random_outputs(np.random.default_rng(0), LISTS, 50)
    order = [LogitFactorization(LISTS, temperature=T).fit_transform(log_p).argsort(axis=1) for T in (1, 10)]
    np.testing.assert_array_equal(*order)


def test_convergence_warning_counts_the_samples():
    log_p = random_outputs(np.random.default_rng(0), LISTS, 40, noise=3)
    method = ProbabilityFactorization(LISTS, max_iter=6)
    with pytest.warns(ConvergenceWarning, match=r"stopped at max_iter for"):
        method.fit(log_p)
    assert 0 < method.n_not_converged_ <= 40
    assert method.n_iter_ == 6
    method.set_params(max_iter=500).fit(log_p)
    assert method.n_not_converged_ == 0


@pytest.mark.parametrize("name", METHOD_NAMES)
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([[np.nan] + [0.0] * 6], "contains NaN, first in row 0, column 0"),
        ([[0.0] * 6 + [np.inf]], "contains infinity, first in row 0, column 6"),
        ([[0.0] * 6], "6 columns, but the 3 class lists have 7 entries"),
        (np.zeros((0, 7)), "0 sample"),
    ],
)
def test_bad_outputs(name, bad, message):
    with pytest.raises(ValueError, match=message):
        make_method(name, LISTS).fit(np.asarray(bad))


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("ce", {"temperature": 0}, "temperature must be a positive number, got 0"),
        ("ce", {"temperature": "hot"}, "temperature must be a positive number"),
        ("ce", {"max_iter": 2.5}, "max_iter must be a positive integer"),
        ("mf_p", {"tol": -1}, "tol must be a positive number"),
        ("mf_lu", {"lam": 0}, "lam must be a positive number"),
        ("mf_lu", {"scale": "other"}, "scale must be one of"),
        ("mf_lu", {"gauge": "other"}, "gauge must be one of"),
    ],
)
def test_bad_parameters(name, params, message):
    with pytest.raises(ValueError, match=message):
        make_method(name, LISTS, **params).fit(np.zeros((2, 7)))


def test_methods_by_name_and_by_instance():
    assert resolve_method("mf_lf").scale == "fixed"
    given = LogitFactorization(temperature=7)
    resolved = resolve_method(given)
    assert resolved is not given
    assert resolved.temperature == 7
    for bad in ("mf", LogitFactorization, None):
        with pytest.raises(ValueError, match="method must be one of"):
            resolve_method(bad)


def test_log_probabilities_and_logits_are_the_same_input():
    logits = random_outputs(np.random.default_rng(0), LISTS, 5)
    space = LabelSpace(LISTS)
    log_p = np.concatenate([log_softmax(logits[:, b], axis=1) for b in space.blocks], axis=1)
    method = make_method("ce", LISTS)
    np.testing.assert_allclose(method.fit_transform(logits), method.fit_transform(log_p), atol=1e-8)


@pytest.mark.parametrize("name", METHOD_NAMES)
def test_ten_thousand_rows_in_bounded_memory(name):
    """In addition to its input and output, a merge of the paper's size takes megabytes, not gigabytes."""
    rng = np.random.default_rng(0)
    lists = random_lists(rng, 35, 15, 5, 15)
    log_p = random_outputs(rng, lists, 10_000)
    transformer = make_method(name, lists)
    tracemalloc.start()
    Q = transformer.fit_transform(log_p)
    peak = tracemalloc.get_traced_memory()[1] - Q.nbytes
    tracemalloc.stop()
    assert transformer.n_not_converged_ == 0
    np.testing.assert_allclose(Q.sum(axis=1), 1)
    assert peak < 150 * 2**20


@pytest.mark.parametrize("name", ["ce", "mf_p", "mf_lu", "mf_lf"])
def test_a_teacher_with_one_column_changes_nothing(name):
    lists, log_p = [[0, 1, 2], [2, 1]], np.log([[0.7, 0.2, 0.1, 0.4, 0.6]])
    expected = make_method(name, lists).fit_transform(log_p)
    found = make_method(name, [*lists, [0]]).fit_transform(np.hstack([log_p, [[0.0]]]))
    np.testing.assert_allclose(found, expected, atol=1e-7)
