"""The content of the plots: data of images and lines, and names on the axes."""

import subprocess
import sys
import warnings
from threading import Barrier

import numpy as np
import pytest
from joblib import parallel_config
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import (
    OTHER,
    HeterogeneousDistiller,
    LabelSpace,
    TeacherCalibrator,
    TeacherMerger,
    TeacherOutputs,
    UnifiedEnsemble,
)
from sklearn_uhc.evidence import pairwise_agreement, teacher_agreement_scorer
from sklearn_uhc.inspection import (
    ClassOverlapDisplay,
    DistillationCurveDisplay,
    RowDisplay,
    SoftLabelDisplay,
    TeacherAgreementDisplay,
)
from sklearn_uhc.inspection.plots.row import row_of_answers
from tests.helpers import LinearTeacher, Meeting, linear_teachers, random_outputs

plt = pytest.importorskip("matplotlib.pyplot")
LISTS = [["ant", "bee", "cat"], ["bee", "cat", "dog"], ["cat", "dog", "ant"]]


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).normal(size=(60, 4))


@pytest.fixture(scope="module")
def distiller(X):
    student = KNeighborsClassifier(3)
    merger = TeacherMerger(linear_teachers(LISTS), calibrate=False)
    return HeterogeneousDistiller(merger, student, balance=True).fit(X)


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


# Names


def test_names_are_not_formulas():
    display = ClassOverlapDisplay.from_class_lists([["$\\frac{$", "half \ud800", "tab\tbed"]])
    assert ticks(display.ax_.xaxis) == ["$\\frac{$", "half \N{REPLACEMENT CHARACTER}", "tab bed"]
    display.figure_.canvas.draw()


NASTY = ["$\\frac{1}{$", "50$ to 60$", "_hidden", "new\nline, nul\0, half \ud800", "a\\$b", "x" * 300, "$x$", "%^&{}~#"]
CUT = ["new line, nul\N{REPLACEMENT CHARACTER}, half \N{REPLACEMENT CHARACTER}", "x" * 59 + "…"]
SHOWN = [*NASTY[:3], CUT[0], NASTY[4], CUT[1], *NASTY[6:]]


def drawn_text(display):
    """Draw, since only then matplotlib interprets formulas, and return all text that is not a number."""
    display.figure_.canvas.draw()
    return [text.get_text() for text in display.figure_.findobj(plt.Text) if text.get_text()]


@pytest.mark.parametrize(("name", "shown"), list(zip(NASTY, SHOWN, strict=True)))
def test_every_name_is_shown_as_it_is(name, shown):
    """Mathtext fails on some of these, and removes dollars and leading underscores from others."""
    tick = shown if len(shown) <= 22 else shown[:21] + "…"
    curve = DistillationCurveDisplay(
        [name, "b"], [[0.5, 0.6], [0.6, 0.7]], names=[name, "other"], param_name=name, score_name=name
    ).plot()
    assert [text.get_text() for text in curve.ax_.get_legend().get_texts()] == [shown, "other"]
    assert (curve.ax_.get_xlabel(), curve.ax_.get_ylabel()) == (shown, shown)
    lists, names = [[name, "b"], ["b", "c"]], [name, "second"]
    displays = [
        curve,
        ClassOverlapDisplay.from_class_lists(dict(zip(names, lists, strict=True))),
        TeacherAgreementDisplay(np.array([[1, 0.5], [0.5, 1]]), teacher_names=names).plot(),
        SoftLabelDisplay(np.array([[0.5, 0.5]]), classes=[name, "b"]).plot(),
    ]
    for display in displays:
        assert tick in drawn_text(display)
        ours = [text for text in display.figure_.findobj(plt.Text) if text.get_text() in (tick, shown)]
        assert not any(text.get_parse_math() or text.get_usetex() for text in ours)


# Who agrees with whom


def naive_agreement(log_p, space, i, j):
    """Computed row by row, by the definition in the docstring."""
    shared = sorted(set(space.columns[i]) & set(space.columns[j]))
    total = same = 0.0
    for row in np.exp(log_p):
        chosen, mass = [], 1.0
        for t in (i, j):
            p = row[space.blocks[t]] / row[space.blocks[t]].sum()
            part = [p[list(space.columns[t]).index(label)] for label in shared]
            chosen.append(int(np.argmax(part)))
            mass *= sum(part)
        total, same = total + mass, same + mass * (chosen[0] == chosen[1])
    return same / total


def test_pairwise_agreement_is_the_naive_one():
    lists = [*LISTS, ["eel", "ant"]]
    space = LabelSpace(lists)
    log_p = random_outputs(np.random.default_rng(1), lists, 30)
    found = pairwise_agreement(log_p, lists)
    for i in range(3):
        for j in range(i):
            assert found[i, j] == found[j, i] == pytest.approx(naive_agreement(log_p, space, i, j))
    assert np.ma.getmaskarray(found)[3, :3].all()  # one shared class decides nothing


def test_rows_that_one_teacher_leaves_out_do_not_count():
    log_p = random_outputs(np.random.default_rng(2), LISTS, 30)
    silent = log_p.copy()
    silent[10:, 3:6] = np.nan
    found, full, head = (pairwise_agreement(a, LISTS) for a in (silent, log_p, log_p[:10]))
    assert found[0, 1] == pytest.approx(head[0, 1])
    assert found[0, 2] == pytest.approx(full[0, 2])
    weights = np.r_[np.ones(10), np.zeros(20)]
    assert pairwise_agreement(log_p, LISTS, sample_weight=weights)[0, 1] == pytest.approx(head[0, 1])


def test_agreement_draws_the_pairs_and_hides_the_diagonal(distiller, X):
    display = TeacherAgreementDisplay.from_estimator(distiller, X)
    drawn = display.image_.get_array()
    expected = pairwise_agreement(distiller.merger_.teacher_outputs_.transform(X), LISTS)
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(drawn[off], expected[off])
    assert np.ma.getmaskarray(drawn).tolist() == np.eye(3, dtype=bool).tolist()
    assert len(display.texts_) == 6
    assert ticks(display.ax_.xaxis) == ticks(display.ax_.yaxis) == [f"{i} LinearTeacher" for i in range(3)]


def test_agreement_from_plain_numbers():
    display = TeacherAgreementDisplay([[1, 0.25, np.nan], [0.25, 1, 1.0], [np.nan, 1.0, 1]]).plot()
    assert [text.get_text() for text in display.texts_] == [".25", ".25", "1.00", "1.00"]
    assert [text.get_color() for text in display.texts_] == ["white", "white", "black", "black"]  # low is dark


def test_the_same_agreement_has_the_same_colour_in_every_plot():
    plots = [TeacherAgreementDisplay([[1, a], [a, 1]]).plot() for a in (0.93, 0.83, 0.32, np.nan)]
    assert {plot.image_.get_clim() for plot in plots} == {(0, 1)}
    lightness = [plot.image_.to_rgba(plot.image_.get_array())[0, 1, :3].mean() for plot in plots]
    assert lightness[0] > lightness[1] > 0.7 > 0.5 > lightness[2]
    with pytest.raises(ValueError, match="teachers, teachers"):
        TeacherAgreementDisplay([[1, 2]])


def test_many_teachers_get_no_numbers():
    assert TeacherAgreementDisplay(np.full((30, 30), 0.5)).plot().texts_ == []


def test_answers_given_before_cannot_be_asked_for_again(X):
    log_p = TeacherOutputs(linear_teachers(LISTS)).fit_transform(X)
    clf = HeterogeneousDistiller(None, KNeighborsClassifier(3), class_lists=LISTS).fit(X, log_p=log_p)
    with pytest.raises(ValueError, match="from_outputs"):
        TeacherAgreementDisplay.from_estimator(clf, X)
    with pytest.raises(ValueError, match=r"use SoftLabelDisplay\(Q"):
        SoftLabelDisplay.from_estimator(clf, X)
    assert ticks(ClassOverlapDisplay.from_estimator(clf).ax_.yaxis) == ["teacher 0", "teacher 1", "teacher 2"]


@pytest.mark.parametrize("wrap", [lambda clf: make_pipeline(clf), lambda clf: make_pipeline(StandardScaler(), clf)])
def test_pipelines_are_unwrapped(X, wrap):
    pipeline = wrap(UnifiedEnsemble(linear_teachers(LISTS))).fit(X)
    inside = pipeline[:-1].transform(X) if len(pipeline) > 1 else X
    assert ClassOverlapDisplay.from_estimator(pipeline).image_.get_array().shape == (3, 4)
    for display in (TeacherAgreementDisplay, SoftLabelDisplay):
        found, expected = display.from_estimator(pipeline, X), display.from_estimator(pipeline[-1], inside)
        attribute = "agreement" if display is TeacherAgreementDisplay else "mean"
        np.testing.assert_allclose(getattr(found, attribute), getattr(expected, attribute))


def test_what_cannot_be_drawn_is_told_what_can(X):
    other = LogisticRegression().fit(X, np.arange(60) % 2)
    with pytest.raises(TypeError, match=r"UnifiedEnsemble, TeacherMerger or TeacherOutputs, .* got Logistic"):
        ClassOverlapDisplay.from_estimator(other)
    with pytest.raises(TypeError, match=r"Pipeline .*got LogisticRegression"):
        TeacherAgreementDisplay.from_estimator(make_pipeline(StandardScaler(), other).fit(X, np.arange(60) % 2), X)
    with pytest.raises(TypeError, match=r"UnifiedEnsemble or TeacherMerger, .* got TeacherOutputs"):
        SoftLabelDisplay.from_estimator(TeacherOutputs(linear_teachers(LISTS)).fit(X), X)
    with pytest.raises(NotFittedError):
        SoftLabelDisplay.from_estimator(UnifiedEnsemble(linear_teachers(LISTS)), X)


# What the student is taught


def test_soft_labels_draw_means_with_the_weights_of_classes(distiller, X):
    display = SoftLabelDisplay.from_estimator(distiller, X)
    mean = distiller.merger_.method_.transform(distiller.merger_.teacher_outputs_.transform(X)).mean(axis=0)
    np.testing.assert_allclose([bar.get_height() for bar in display.artists_[0]], mean)
    assert [f"×{0.25 / m:.2g}" for m in mean] == [text.get_text() for text in display.ax_.texts]
    np.testing.assert_allclose(display.balanced_mean, 0.25)
    assert ticks(display.ax_.xaxis) == ["ant", "bee", "cat", "dog"]


def test_soft_labels_draw_choices_as_merged_and_balanced(distiller, X):
    display = SoftLabelDisplay.from_estimator(distiller, X, kind="top")
    Q = distiller.merger_.method_.transform(distiller.merger_.teacher_outputs_.transform(X))
    for bars, targets in zip(display.artists_, (Q, Q / Q.mean(axis=0)), strict=True):
        expected = np.bincount(targets.argmax(axis=1), minlength=4) / 60
        np.testing.assert_allclose([bar.get_height() for bar in bars], expected)


def test_soft_labels_are_those_that_the_student_was_taught(X):
    teachers = linear_teachers(LISTS)
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(3)).fit(X)
    display = SoftLabelDisplay.from_estimator(clf, X)
    np.testing.assert_allclose(
        display.mean, TeacherMerger(teachers, class_prior="auto").fit_transform(X).mean(axis=0), rtol=1e-6
    )


class ShyTeacher(LinearTeacher):
    """Silent if the first feature is negative."""

    def predict_log_proba(self, X):
        return np.where(np.asarray(X)[:, :1] < 0, np.nan, super().predict_log_proba(X))


def test_rows_that_nobody_answers_are_not_drawn(X):
    teachers = [ShyTeacher(tuple(labels), seed).fit(None) for seed, labels in enumerate(LISTS)]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="No teacher answers")
        clf = HeterogeneousDistiller(TeacherMerger(teachers, abstain=True), KNeighborsClassifier(3)).fit(X)
    display = SoftLabelDisplay.from_estimator(clf, X)
    expected = SoftLabelDisplay.from_estimator(clf, X[X[:, 0] >= 0])
    assert len(display.entropy) == (X[:, 0] >= 0).sum()
    np.testing.assert_allclose(display.balanced_mean, expected.balanced_mean)
    with pytest.raises(ValueError, match="for any row of X"):
        SoftLabelDisplay.from_estimator(clf, -np.abs(X))


def test_backpropagation_has_no_soft_labels(X):
    nn = pytest.importorskip("torch.nn")
    clf = HeterogeneousDistiller(linear_teachers(LISTS), nn.Linear(4, 4), method="ce", backprop=True, balance=False)
    clf.fit(X.astype(np.float32))
    with pytest.raises(ValueError, match="makes no soft labels to plot"):
        SoftLabelDisplay.from_estimator(clf, X)


@pytest.mark.parametrize("kind", ["mean", "top", "entropy"])
def test_nothing_is_cut_off_at_the_default_size(distiller, X, kind):
    shown = SoftLabelDisplay.from_estimator(distiller, X, kind=kind)
    lists = [[("cat", "dog"), "cow"], ["cat", "dog", OTHER]]
    for display in (shown, ClassOverlapDisplay.from_class_lists(lists)):
        display.figure_.canvas.draw()
        inside, ax = display.figure_.bbox, display.ax_
        for part in (ax.xaxis.label, ax.yaxis.label, ax.get_legend()):
            box = part.get_window_extent()
            assert inside.x0 <= box.x0 <= box.x1 <= inside.x1, part
            assert inside.y0 <= box.y0 <= box.y1 <= inside.y1, part


def test_entropy_counts_all_rows(distiller, X):
    display = SoftLabelDisplay.from_estimator(distiller, X, kind="entropy")
    assert sum(bar.get_height() for bar in display.artists_[0]) == len(X)
    assert "at T = 1" in display.ax_.get_legend().get_texts()[0].get_text()
    uniform = SoftLabelDisplay(np.full((5, 4), 0.25))
    np.testing.assert_allclose(uniform.entropy, 1)
    np.testing.assert_allclose(SoftLabelDisplay(np.eye(4)).entropy, 0)


def test_soft_labels_weigh_rows_and_take_weights():
    Q = np.array([[0.8, 0.2], [0.2, 0.8]])
    display = SoftLabelDisplay(Q, sample_weight=[3, 1], class_weight=[1, 1])
    np.testing.assert_allclose(display.mean, [0.65, 0.35])
    np.testing.assert_allclose(display.balanced_mean, [0.65, 0.35])
    np.testing.assert_allclose(display.top, [0.75, 0.25])


def test_soft_labels_of_fifty_classes_name_all():
    Q = np.random.default_rng(0).dirichlet(np.ones(50), size=20)
    display = SoftLabelDisplay(Q, classes=[f"class {k}" for k in range(50)]).plot()
    assert len(ticks(display.ax_.xaxis)) == 50
    assert display.figure_.get_size_inches()[0] > 10


def test_soft_labels_refuse_what_they_cannot_draw():
    with pytest.raises(ValueError, match="sum to 1"):
        SoftLabelDisplay([[0.5, 0.2]])
    with pytest.raises(ValueError, match="3 classes for 2"):
        SoftLabelDisplay([[0.5, 0.5]], classes=["a", "b", "c"])
    with pytest.raises(ValueError, match="kind must be"):
        SoftLabelDisplay([[0.5, 0.5]]).plot(kind="median")


# Searches


@pytest.mark.filterwarnings("ignore:A search without labels:UserWarning")
def test_curve_of_a_search_takes_the_best_of_the_other_choices(X):
    clf = HeterogeneousDistiller(linear_teachers(LISTS), KNeighborsClassifier())
    grid = {"temperature": [3, 1], "student__n_neighbors": [3, 20], "method": ["ce", "mf_lf"]}
    search = GridSearchCV(clf, grid, cv=2).fit(X)
    display = DistillationCurveDisplay.from_search(search, by="method")
    assert [line.get_label() for line in display.ax_.get_legend_handles_labels()[0]] == ["ce", "mf_lf"]
    found = search.cv_results_
    for line, method in zip(display.lines_, ["ce", "mf_lf"], strict=True):
        assert line.get_xdata().tolist() == [1, 3]
        for T, y in zip(line.get_xdata(), line.get_ydata(), strict=True):
            chosen = (found["param_temperature"] == T) & (found["param_method"] == method)
            assert y == pytest.approx(found["mean_test_score"][chosen].max())
    with pytest.raises(ValueError, match="no parameter 'floor', only"):
        DistillationCurveDisplay.from_search(search, param_name="floor")


def found_by(scores, **params):
    """The attributes of a fitted search that a curve reads."""
    columns = {f"param_{name}": np.ma.array(np.empty(len(scores), dtype=object)) for name in params}
    for name, values in params.items():
        for k, value in enumerate(values):
            columns[f"param_{name}"][k] = value
    scores = {"mean_test_score": np.array(scores), "std_test_score": np.zeros(len(scores))}
    search = GridSearchCV(UnifiedEnsemble([]), {})
    search.cv_results_ = {**scores, **columns}
    return search


def test_a_curve_without_temperatures_shows_the_only_parameter():
    search = found_by([-0.9, -0.8], calibrate=[True, False])
    assert DistillationCurveDisplay.from_search(search).param_name == "calibrate"
    two = found_by([-0.9, -0.8], calibrate=[True, False], floor=[0, 1])
    assert DistillationCurveDisplay.from_search(two, by="floor").param_name == "calibrate"
    with pytest.raises(ValueError, match=r"\['calibrate', 'floor'\]: choose the horizontal axis with param_name="):
        DistillationCurveDisplay.from_search(two)


def test_a_failed_fit_does_not_hide_those_that_worked():
    search = found_by([-0.9, -0.8, np.nan, np.nan, np.nan], temperature=[1, 3, 1, 3, 10], floor=[0, 0, 1, 1, 1])
    display = DistillationCurveDisplay.from_search(search)
    np.testing.assert_array_equal(display.scores, [[-0.9, -0.8, np.nan]])


@pytest.mark.parametrize(
    ("scoring", "scores", "name"),
    [
        (None, [-0.5, -0.4], "agreement with the teachers"),
        (None, [0.5, 0.6], "accuracy"),
        ("neg_log_loss", [-0.5, -0.4], "neg_log_loss"),
        (teacher_agreement_scorer, [-0.5, -0.4], "teacher agreement"),
    ],
)
def test_the_score_of_a_search_is_named(scoring, scores, name):
    search = found_by(scores, temperature=[1, 3])
    search.scoring = scoring
    assert DistillationCurveDisplay.from_search(search).ax_.get_ylabel() == name


def test_estimators_of_one_type_are_told_apart():
    kinds = [TeacherCalibrator(tolerance=0.5), TeacherCalibrator(), False]
    search = found_by([1, 2, 3, 4, 5, 6], temperature=[1, 1, 1, 3.0, 3, 3], calibrate=kinds * 2)
    display = DistillationCurveDisplay.from_search(search, by="calibrate")
    assert display.names == ["TeacherCalibrator(tolerance=0.5)", "TeacherCalibrator()", "False"]
    assert display.scores.tolist() == [[1, 4], [2, 5], [3, 6]]
    search = found_by([1, 2], temperature=[1, 2], calibrate=kinds[1:])
    assert DistillationCurveDisplay.from_search(search, by="calibrate").names == ["TeacherCalibrator", "False"]


def test_values_may_be_arrays():
    weights = [np.array([1, 1, 2]), np.array([1, 2, 1]), None, np.array([1, 1, 2])]
    search = found_by([1, 2, 3, 4], teacher_weight=weights, temperature=[1, 1, 1, 1])
    assert DistillationCurveDisplay.from_search(search, param_name="teacher_weight").scores.tolist() == [[4, 2, 3]]
    by = DistillationCurveDisplay.from_search(search, by="teacher_weight")
    assert by.names == ["[1 1 2]", "[1 2 1]", "None"]


def test_curve_of_an_estimator(X):
    clf = UnifiedEnsemble(linear_teachers(LISTS))
    display = DistillationCurveDisplay.from_estimator(clf, X, param_range=[1, 3, 10], cv=2)
    assert ticks(display.ax_.xaxis) == ["1", "3", "10"]
    assert display.ax_.get_xscale() == "log"
    with pytest.warns(UserWarning, match="TeacherHoldoutSearch"):
        search = GridSearchCV(clf, {"temperature": [1, 3, 10]}, cv=2).fit(X)
    np.testing.assert_allclose(display.lines_[0].get_ydata(), search.cv_results_["mean_test_score"])


def test_curve_of_an_estimator_is_made_by_n_jobs(X):
    clf = UnifiedEnsemble([Meeting(("ant", "bee"), 0, Barrier(2, timeout=60)).fit(None)])
    with parallel_config(backend="threading"):  # the two folds are fitted at the same time, or wait in vain
        display = DistillationCurveDisplay.from_estimator(clf, X, param_range=[3], cv=2, n_jobs=2)
    assert np.isfinite(display.scores).all()


def test_curve_over_names_and_from_plain_numbers():
    display = DistillationCurveDisplay(["sd", "ce"], [[1, 2], [3, 4]], names=["a", "b"], param_name="method").plot()
    assert ticks(display.ax_.xaxis) == ["sd", "ce"]
    styles = {(line.get_linestyle(), line.get_marker()) for line in display.lines_}
    assert len(styles) == 2  # told apart without color
    assert len({line.get_color() for line in display.lines_}) == 2
    with pytest.raises(ValueError, match="2 values, but 3 scores"):
        DistillationCurveDisplay([1, 2], [1, 2, 3])
    with pytest.raises(ValueError, match="1 names for 2 lines"):
        DistillationCurveDisplay([1, 2], [[1, 2], [3, 4]], names=["a"])


# All


def test_all_draw_on_axes_that_are_given(distiller, X):
    figure, axes = plt.subplots(2, 2)
    displays = [
        ClassOverlapDisplay.from_estimator(distiller, ax=axes[0, 0]),
        TeacherAgreementDisplay.from_estimator(distiller, X, ax=axes[0, 1]),
        SoftLabelDisplay.from_estimator(distiller, X, ax=axes[1, 0]),
        DistillationCurveDisplay([1, 3], [1, 2]).plot(axes[1, 1]),
    ]
    for display, ax in zip(displays, axes.ravel(), strict=True):
        assert display.ax_ is ax
        assert display.figure_ is figure


def test_without_matplotlib_the_remedy_is_named():
    code = """
import sys
sys.modules["matplotlib"] = None
from sklearn_uhc.inspection import ClassOverlapDisplay
try:
    ClassOverlapDisplay.from_class_lists([["a", "b"]])
except ImportError as error:
    print(error)
"""
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "pip install 'sklearn-uhc[plots]'" in shown


# The path of one row


def test_a_row_shows_what_everybody_says(distiller, X):
    display = RowDisplay.from_estimator(distiller, X, 7)
    assert display.names == [*(f"{i} LinearTeacher" for i in range(3)), "merge", "student"]
    log_p = distiller.merger_.teacher_outputs_.transform(X[7:8])[0]
    for line, known, block in zip(display.probabilities, LISTS, LabelSpace(LISTS).blocks, strict=False):
        columns = np.searchsorted(distiller.classes_, known)
        np.testing.assert_allclose(line[columns], np.exp(log_p[block]))
        assert np.isnan(np.delete(line, columns)).all()
    np.testing.assert_allclose(display.probabilities[3], distiller.merger_.transform(X[7:8])[0])
    np.testing.assert_allclose(display.probabilities[4], distiller.predict_proba(X[7:8])[0])
    assert len(display.texts_) == sum(map(len, LISTS)) + 2 * len(distiller.classes_)


def test_sets_and_silence_of_a_row():
    space = LabelSpace([[("a", "b"), "c"], ["a", "b", "c"], ["a", "c"]])
    log_p = np.log([0.6, 0.4, 0.5, 0.2, 0.3, np.nan, np.nan])
    display = row_of_answers(space, log_p, ["x", "y", "z"], space.classes, np.array([0.5, 0.2, 0.3]), None).plot()
    texts = [text.get_text() for text in display.texts_]
    assert texts == ["(.60)", "(.60)", ".40", ".50", ".20", ".30", ".50", ".20", ".30"]
    assert [text.get_text() for text in display.ax_.texts if text not in display.texts_] == ["no answer"]


def test_a_row_of_many_classes_shows_the_most_probable():
    P = np.random.default_rng(0).dirichlet(np.full(50, 0.1), size=3)
    display = RowDisplay(P, ["a", "b", "merge"]).plot()
    assert len(display.shown) == 12
    assert set(P.argmax(axis=1)) <= set(display.shown)
    assert display.ax_.get_xlabel() == "12 of 50 classes, the most probable ones"


def test_a_row_refuses_what_does_not_fit():
    with pytest.raises(ValueError, match="a line for each of the 2 names"):
        RowDisplay([[0.5, 0.5]], ["a", "b"])
    with pytest.raises(ValueError, match="classes names 3 classes for 2 columns"):
        RowDisplay([[0.5, 0.5]], ["a"], classes=["x", "y", "z"])
