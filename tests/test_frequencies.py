import numpy as np
import pytest

from sklearn_uhc import OTHER, LabelSpace
from sklearn_uhc.answers import Answers
from sklearn_uhc.frequencies import LEVELS, ROWS_PER_CLASS, class_frequencies, evenness_of, named

LISTS = [["a", "b", "c"], ["c", "d"], ["d", "e", "a"], ["b", "e"]]
UNEVEN = np.array([0.6, 0.05, 0.2, 0.02, 0.13])


def answered(frequencies, n=2000, seed=0, lists=LISTS):
    """Teachers that know their own classes, and mistake each other class for a certain one of theirs; merged labels."""
    rng, space = np.random.default_rng(seed), LabelSpace(lists)
    y, log_p = rng.choice(space.n_classes, n, p=frequencies), []
    for classes in lists:
        own = np.searchsorted(space.classes, classes)
        takes = np.array([np.flatnonzero(own == k)[0] if k in own else rng.integers(len(own)) for k in range(5)])
        Z = rng.normal(size=(n, len(own)))
        Z[np.arange(n), takes[y]] += np.where(np.isin(y, own), 5, 2.5)
        log_p.append(Z - np.log(np.exp(Z).sum(axis=1, keepdims=True)))
    Q = 0.5 * np.eye(5)[y] + 0.5 * rng.dirichlet([3, 3, 1, 1, 1], n)  # prefers the first classes
    return Answers.of(np.hstack(log_p), space, abstain=False), Q, y


@pytest.mark.parametrize("frequencies", [np.full(5, 0.2), UNEVEN])
def test_frequencies_are_found_where_the_mean_of_merged_labels_is_biased(frequencies):
    answers, Q, y = answered(frequencies)
    true = np.bincount(y, minlength=5) / len(y)
    found = class_frequencies(answers, answers.space, Q)
    assert found.sum() == pytest.approx(1)
    assert np.abs(found - true).sum() < 0.1 < np.abs(Q.mean(axis=0) - true).sum()


def vague(seed, n=1000):
    """Teachers that choose among their classes at random, if they do not know the right one, and nearly as sure."""
    rng, space = np.random.default_rng(seed), LabelSpace(LISTS)
    y, log_p = rng.choice(5, n, p=UNEVEN), []
    for classes in LISTS:
        own = np.searchsorted(space.classes, classes)
        Z = rng.normal(size=(n, len(own)))
        Z[np.arange(n), rng.integers(len(own), size=n)] += 3
        Z[np.isin(y, own)] = rng.normal(size=(np.isin(y, own).sum(), len(own)))
        Z += 4 * (y[:, None] == own)
        log_p.append(Z - np.log(np.exp(Z).sum(axis=1, keepdims=True)))
    Q = 0.3 * np.eye(5)[y] + 0.7 * rng.dirichlet(np.ones(5), n)
    return Answers.of(np.hstack(log_p), space, abstain=False), Q, np.bincount(y, minlength=5) / n


def test_uneven_rows_have_a_prior_of_their_own(monkeypatch):
    errors = {}
    for limit in (0.0, 1.0):  # of evenness: the first prior only, and the second
        monkeypatch.setattr("sklearn_uhc.frequencies.UNEVEN", limit)
        trials = [vague(seed) for seed in range(5)]
        found = [(class_frequencies(answers, answers.space, Q), true) for answers, Q, true in trials]
        errors[limit] = np.mean([np.abs(pi - true).sum() for pi, true in found])
    assert errors[1.0] < 0.7 * errors[0.0]


def test_no_class_is_lost_by_the_prior_of_uneven_rows(monkeypatch):
    answers, Q, _ = vague(0)
    monkeypatch.setattr("sklearn_uhc.frequencies.UNEVEN", 0.0)
    first = class_frequencies(answers, answers.space, Q)
    monkeypatch.setattr("sklearn_uhc.frequencies.UNEVEN", 1.0)
    second = class_frequencies(answers, answers.space, Q)
    assert evenness_of(second) < evenness_of(first)
    assert (second >= 0.5 * first / (1 + 0.5)).all()  # raised to half of the first, then normalised


@pytest.mark.parametrize("sure", [5, 95])
def test_two_degrees_of_confidence_are_told_apart_however_frequent_they_are(sure):
    p = np.where(np.arange(100) < sure, 0.9, 0.6)
    answers = Answers.of(np.log(np.column_stack([p, 1 - p])), LabelSpace([["a", "b"]]), abstain=False)
    said = named(answers, answers.space).toarray()
    assert said.shape == (100, 2 * LEVELS)
    levels = said[:, :LEVELS].argmax(axis=1)
    assert len(np.unique(levels)) == 2
    assert levels[:sure].min() == levels[:sure].max() > levels[sure:].max()


def test_weights_count_rows():
    answers, Q, y = answered(np.full(5, 0.2))
    weights = UNEVEN[y] / 0.2
    found = class_frequencies(answers, answers.space, Q, weights)
    assert np.abs(found - weights @ np.eye(5)[y] / weights.sum()).sum() < 0.1
    rows = np.flatnonzero(y != 3)
    without = class_frequencies(answers, answers.space, Q, (y != 3).astype(float))
    np.testing.assert_allclose(without, class_frequencies(answers.take(rows), answers.space, Q[rows]))


def test_silent_teachers_say_nothing():
    answers, Q, y = answered(UNEVEN)
    log_p = answers.log_p.copy()
    log_p[::3, answers.space.blocks[1]] = np.nan
    log_p[:10] = np.nan  # rows for which nobody answers
    quiet = Answers.of(log_p, answers.space, abstain=True)
    found = class_frequencies(quiet, quiet.space, Q)
    assert np.abs(found - np.bincount(y[10:], minlength=5) / len(y[10:])).sum() < 0.1
    mute = log_p.copy()
    mute[:, answers.space.blocks[1]] = np.nan
    assert np.isfinite(class_frequencies(Answers.of(mute, answers.space, abstain=True), answers.space, Q)).all()


def test_columns_may_mean_sets():
    answers, Q, y = answered(UNEVEN)
    log_p = np.hstack([answers.log_p, np.where(np.isin(y, [0, 1])[:, None], np.log([0.9, 0.1]), np.log([0.1, 0.9]))])
    space = LabelSpace([*LISTS, [("a", "b"), OTHER]])
    found = class_frequencies(Answers.of(log_p, space, abstain=False), space, Q)
    assert np.abs(found - np.bincount(y, minlength=5) / len(y)).sum() < 0.1


def test_too_few_rows_or_too_many_classes_tell_nothing(monkeypatch):
    answers, Q, _ = answered(UNEVEN, n=ROWS_PER_CLASS * 5)
    assert class_frequencies(answers, answers.space, Q) is not None
    assert class_frequencies(answers, answers.space, Q, np.arange(len(Q)) > 0) is None
    monkeypatch.setattr("sklearn_uhc.frequencies.MOST_WORK", 4 * 5 * len(Q) - 1)
    assert class_frequencies(answers, answers.space, Q) is None


def test_many_rows_are_sampled():
    answers, Q, _ = answered(UNEVEN, n=6001)
    rows = np.linspace(0, 6000, 2000).round().astype(int)
    sample = class_frequencies(answers.take(rows), answers.space, Q[rows])
    np.testing.assert_allclose(class_frequencies(answers, answers.space, Q), sample)
