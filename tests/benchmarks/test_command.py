"""The benchmark's command line: mistakes are told in one line."""

import json

import pytest

from benchmarks.__main__ import main, make_experiment, parse
from benchmarks.paper.experiments import EXPERIMENTS
from benchmarks.paper.runner import run_trial

RUN = ["run", "digits", "--trials", "1", "--methods", "sd", "--device", "cpu"]


def message(capsys, arguments):
    """Run a command that is refused, and return what it says on the error stream."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--student vgg99", "--student: there is no architecture 'vgg99'; take one of features, small_cnn, alexnet,"),
        ("--teachers features foo", "--teachers: there is no architecture 'foo'; take one of"),
        ("--trials 0", "--trials is 0; it must be at least 1"),
        ("--trials -1", "--trials is -1"),
        ("--first -1", "--first is -1; it must be at least 0"),
        ("--epochs 0", "--epochs is 0; it must be at least 1"),
        ("--jobs 0", "--jobs is 0"),
        ("--values 3", "add --study with one of size, temperature, accuracy"),
        ("--study size --values 100 .5", "--study size must be whole numbers of samples from 1 on, got 0.5"),
        ("--study size --values 0", "got 0"),
        ("--study accuracy --values 2", "--study accuracy must be above 0 and at most 1, got 2"),
        ("--study accuracy --values nan", "got nan"),
        ("--study temperature --values 0", "--study temperature must be positive numbers, got 0"),
        ("--methods nonsense", "There is no method 'nonsense'; take 'paper'"),
        ("--student vgg16", "dataset 'digits' holds features, but backbone 'vgg16' takes images; use 'features'"),
    ],
)
def test_arguments_that_cannot_run_are_refused(tmp_path, capsys, arguments, words):
    out = tmp_path / "results.jsonl"
    assert words in message(capsys, ["run", "digits", *arguments.split(), "--out", str(out)])
    assert not out.exists()


def test_data_that_is_missing_is_told_in_one_line(tmp_path, capsys):
    command = ["run", "features", "--out", str(tmp_path / "a" / "results.jsonl")]
    assert "needs the folder that holds it" in message(capsys, command)
    assert "nowhere is missing." in message(capsys, [*command, "--data", str(tmp_path / "nowhere")])
    assert not (tmp_path / "a").exists()


def test_results_that_are_missing_are_told_in_one_line(tmp_path, capsys):
    file = tmp_path / "results.jsonl"
    command = ["report", str(file), "--out", str(tmp_path / "out")]
    assert "No such file" in message(capsys, command)
    file.write_text("nonsense\n" + json.dumps([1]) + "\n")
    with pytest.warns(UserWarning, match="is not a record"):
        assert "empty, or no line is one" in message(capsys, command)


def test_values_are_run_once():
    assert make_experiment(parse([*RUN, "--study", "size", "--values", "20", "10", "20"])).values == (20, 10)


def test_a_trial_that_fails_keeps_its_traceback():
    with pytest.raises(RuntimeError, match="Trial -1 of digits-random-features-main failed: expected") as failed:
        run_trial(EXPERIMENTS["digits"], -1, [(None, "SD")], None)
    assert isinstance(failed.value.__cause__, ValueError)
