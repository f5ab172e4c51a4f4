"""The benchmark's command line: results of different settings are not mixed, and mistakes give a one-line error."""

import json

import pytest

from benchmarks.__main__ import main, make_experiment, parse
from benchmarks.paper.experiments import EXPERIMENTS
from benchmarks.paper.records import conditions_of, read_records
from benchmarks.paper.report import make_report
from benchmarks.paper.runner import run_trial
from tests.benchmarks.made_up_records import record, study, write

RUN = ["run", "digits", "--trials", "1", "--methods", "sd", "--device", "cpu"]


def message(capsys, arguments):
    """Run a command that fails, and return its error output."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said


# Settings


@pytest.fixture
def short(tmp_path, capsys):
    """Results of one epoch."""
    file = tmp_path / "results.jsonl"
    main([*RUN, "--epochs", "1", "--out", str(file)])
    assert "Trained for 1 epoch, batches of 16." in capsys.readouterr().out
    return file


def test_a_run_does_not_go_on_with_results_of_other_settings(short, tmp_path, capsys):
    before = short.read_text()
    said = message(capsys, [*RUN, "--epochs", "2", "--out", str(short)])
    assert f"{short} holds epochs=1, but this run has epochs=2" in said
    assert "another --out" in said
    assert short.read_text() == before
    main([*RUN, "--epochs", "2", "--out", str(tmp_path / "other.jsonl")])
    assert "Trained for 2 epochs, batches of 16." in capsys.readouterr().out
    main([*RUN, "--epochs", "1", "--out", str(short)])
    assert short.read_text() == before, "the same settings go on, and nothing is left to do"


def test_every_setting_is_recorded_and_compared(short, capsys):
    (made,) = read_records([short])
    assert set(conditions_of(made)) == {"epochs", "batch_size", "teachers", "data"} < set(made)
    for name, held in {"batch_size": 8, "teachers": ["vgg16"], "data": "other"}.items():
        write(short, [made | {name: held}])
        said = message(capsys, [*RUN, "--epochs", "1", "--out", str(short)])
        assert f"holds {name}={held}, but this run has {name}={made[name]}" in said


def test_records_without_settings_have_the_defaults(tmp_path, capsys):
    file = tmp_path / "old.jsonl"
    old = {"dataset": "digits", "protocol": "random", "student": "features", "study": "main", "value": None}
    old |= {"trial": 0, "method": "SD", "accuracy": 0.125, "epochs": 20, "seed": 0}
    write(file, [old])
    assert conditions_of(old) == {"epochs": 20, "batch_size": 16, "teachers": ["features"]}
    before = file.read_text()
    main([*RUN, "--out", str(file)])
    assert file.read_text() == before
    said = capsys.readouterr().out
    assert ".1250" in said
    assert "Trained for 20 epochs, batches of 16." in said
    assert "old.jsonl holds epochs=20, but this run has epochs=3" in message(
        capsys, [*RUN, "--epochs", "3", "--out", str(file)]
    )


def test_a_killed_runs_parts_count_too(short, capsys):
    short.rename(short.with_suffix(".parts") / "trial-0.jsonl")
    assert "holds epochs=1, but" in message(capsys, [*RUN, "--epochs", "2", "--out", str(short)])
    assert [made["epochs"] for made in read_records([short])] == [1]


def test_a_report_does_not_join_other_settings(tmp_path, capsys):
    a, b = write(tmp_path / "a.jsonl", [record("SD")]), write(tmp_path / "b.jsonl", [record("CE-E", epochs=1)])
    said = message(capsys, ["report", str(a), str(b), "--out", str(tmp_path / "out")])
    assert f"{a} holds epochs=20, but {b} has epochs=1" in said
    assert "study 'main' of features, random classes, student features" in said


def test_other_experiments_may_have_other_settings(tmp_path):
    records = [record(), record(dataset="synthetic", epochs=1), record(student="vgg16", epochs=2)]
    records += [made | {"epochs": 3, "batch_size": 4} for made in study("size", [10, 20], ["SD"], 1)]
    text = make_report([write(tmp_path / "a.jsonl", records)], tmp_path)
    for words in ("20 epochs, batches of 128", "1 epoch,", "2 epochs,", "3 epochs, batches of 4."):
        assert text.count(f"Trained for {words}") == 1


def test_a_dataset_of_ones_own_has_no_defaults(tmp_path):
    text = make_report([write(tmp_path / "a.jsonl", [record(dataset="own")])], tmp_path)
    assert "Trained" not in text


# Mistakes


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
