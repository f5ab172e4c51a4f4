"""The figures of the benchmark's report, read back from their axes."""

import numpy as np
import pytest

from benchmarks.paper.figures import REPRESENTATIVES, draw_differences, draw_study
from benchmarks.paper.published import METHODS, column
from benchmarks.paper.records import by_value, complete_trials
from benchmarks.paper.statistics import bootstrap_interval
from tests.benchmarks.made_up_records import OTHERS, experiment, study


def test_the_figure_of_differences():
    trials, paper = complete_trials(experiment(7, methods=METHODS + OTHERS)), column("random", "features", "x")
    figure = draw_differences(trials, paper, "title")
    (axes,) = figure.axes
    rows = [*METHODS[1:], *OTHERS]
    assert [label.get_text() for label in axes.get_yticklabels()] == rows
    assert axes.get_ylim()[0] > axes.get_ylim()[1]  # the first row is at the top
    assert "SPV" in axes.get_xlabel()
    dots = [line for line in axes.lines if line.get_marker() == "."]
    means = [line for line in axes.lines if line.get_marker() == "|"]
    assert len(dots) == len(means) == len(rows)
    for row, (dot, mean) in enumerate(zip(dots, means, strict=True)):
        expected = 100 * (trials.get("accuracy", rows[row]) - trials.get("accuracy", "SPV"))
        np.testing.assert_allclose(dot.get_xdata(), expected)
        assert np.abs(dot.get_ydata() - row).max() < 0.3
        assert mean.get_xdata()[0] == pytest.approx(expected.mean())
    (diamonds,) = [line for line in axes.lines if line.get_marker() == "d"]
    np.testing.assert_allclose(diamonds.get_xdata(), [100 * (paper.accuracy[m] - 0.7212) for m in METHODS[1:]])


def test_differences_to_sd_where_there_is_no_spv():
    figure = draw_differences(complete_trials(experiment(3, methods=["SD", "CE-E"])), None, "")
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["CE-E"]
    assert "SD" in figure.axes[0].get_xlabel()


def test_the_figure_of_a_study():
    values = list(by_value(study("size", [1000, 10000, 30000])))
    figure = draw_study("size", values, "title")
    (axes,) = figure.axes
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1k", "10k", "30k"]
    assert axes.get_xlabel() == "number of unlabelled samples"
    assert {line.get_label() for line in axes.lines} == set(REPRESENTATIVES)
    for line in axes.lines:
        np.testing.assert_allclose(line.get_ydata(), [t.mean("accuracy", line.get_label()) for _, t in values])
    assert len(axes.collections) == 5  # the bands
    for look in ("get_color", "get_marker"):
        assert len({getattr(line, look)() for line in axes.lines}) == 5
    assert len({str(line._dash_pattern) for line in axes.lines}) == 5
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == set(REPRESENTATIVES)
    figure.draw_without_rendering()
    assert legend.get_window_extent().x0 >= axes.get_window_extent().x1


def test_bands_are_bootstrap_intervals():
    values = list(by_value(study("temperature", [1, 3], ["SD"])))
    figure = draw_study("temperature", values, "")
    (band,) = figure.axes[0].collections
    low, high = bootstrap_interval(values[0][1].get("accuracy", "SD"))
    y = band.get_paths()[0].vertices
    assert {low, high} <= set(y[y[:, 0] == 1][:, 1])
    assert figure.axes[0].get_xscale() == "linear"


def test_many_methods_get_a_panel_per_group():
    values = list(by_value(study("accuracy", [0.4, 0.8], METHODS + OTHERS)))
    figure = draw_study("accuracy", values, "")
    assert [axes.get_title()[:3] for axes in figure.axes] == ["(A)", "(B)", "(C)", "Oth"]
    drawn = {line.get_label() for axes in figure.axes for line in axes.lines}
    assert drawn == set(METHODS + OTHERS)
    for axes in figure.axes:
        lines = axes.lines
        assert {"SPV", "SD"} <= {line.get_label() for line in lines}
        assert (
            len({line.get_marker() for line in lines}) == len({str(line._dash_pattern) for line in lines}) == len(lines)
        )
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert set(names) == {"SPV", "SD", "SD-BS", "CE", "MF-P", "MF-LU", "MF-LF", *OTHERS}
