"""The paper's experiments: what is drawn, what is trained, and that a killed run loses nothing."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from distributed import LocalCluster

from benchmarks.__main__ import make_experiment, parse
from benchmarks.paper.experiments import EXPERIMENTS, METHODS, STUDIED, TABLE, choose_methods
from benchmarks.paper.protocol import FEW_CLASSES, MANY_CLASSES, draw_lists, draw_trial
from benchmarks.paper.records import read_records
from benchmarks.paper.rivals import RIVALS, known_average, one_coin
from benchmarks.paper.runner import Results, run
from benchmarks.paper.training import make_net, spoil, train
from benchmarks.paper.trial import Bench, Setting, Trial
from sklearn_uhc import LabelSpace

SMALL = replace(
    EXPERIMENTS["synthetic"], epochs=2, batch_size=32, device="cpu", methods=("SPV", "SD", "CE-BP", "MF-LF-BS")
)


@pytest.mark.parametrize("ranges", [MANY_CLASSES, FEW_CLASSES])
def test_random_classes_keep_to_the_papers_ranges(ranges):
    y = np.repeat(np.arange(200), 500)
    for seed in range(5):
        draw = draw_trial(seed, y, ranges, "random", ("a", "b"))
        assert ranges.classes[0] <= len(draw.classes) <= ranges.classes[1]
        assert ranges.teachers[0] <= len(draw.lists) <= ranges.teachers[1]
        assert LabelSpace(draw.lists).is_connected
        assert set(draw.architectures) <= {"a", "b"}
        every = np.concatenate(draw.rows)
        assert len(np.unique(every)) == len(every), "no image is shared"
        for known, rows in zip(draw.lists, draw.rows, strict=True):
            assert ranges.known[0] <= len(known) <= ranges.known[1]
            labels, counts = np.unique(y[rows], return_counts=True)
            np.testing.assert_array_equal(labels, known)
            assert counts.max() <= 200
        assert draw_trial(seed, y, ranges, "random", ("a", "b")).lists[0].tolist() == draw.lists[0].tolist()


def test_random_classes_do_not_favour_few_classes_or_many_teachers():
    draws = [draw_lists(np.random.default_rng(k), np.arange(200), MANY_CLASSES, "random") for k in range(200)]
    assert abs(np.mean([LabelSpace(lists).n_classes for lists in draws]) - 35) < 2
    assert abs(np.mean([len(lists) for lists in draws]) - 15) < 0.75


def test_overlapping_classes_share_what_there_is():
    y = np.repeat(np.arange(60), 500)
    draw = draw_trial(3, y, MANY_CLASSES, "overlapping", ("a",))
    assert LabelSpace(draw.lists).is_shared
    assert draw.samples[2] <= 500 // len(draw.lists)
    assert draw.samples[0] >= min(50, 500 // len(draw.lists))


def test_rows_set_aside_belong_to_nobody():
    y = np.repeat(np.arange(60), 500)
    draw = draw_trial(0, y, MANY_CLASSES, "random", ("a",), set_aside=True)
    assert not np.isin(draw.adjustment, np.concatenate(draw.rows)).any()
    np.testing.assert_array_equal(np.unique(y[draw.adjustment], return_counts=True)[1], 50)


def test_noise_lowers_the_accuracy_to_the_wanted_one():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 60)
    X = (rng.normal(size=(4, 10))[y] * 3 + rng.normal(size=(240, 10))).astype(np.float32)
    from benchmarks.paper.backbones import Head

    net = make_net(Head, (10,), 4, epochs=10, batch_size=32, device="cpu")
    module = train(net, X, y, np.arange(4), seed=0).estimator_.module_

    def accuracy():
        with torch.no_grad():
            return float((module.eval()(torch.as_tensor(X)).argmax(dim=1).numpy() == y).mean())

    before = {name: value.clone() for name, value in module.state_dict().items()}
    spoil(module, X, y, 1.0, seed=0)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items()), "good as it is"
    spoil(module, X, y, 0.6, seed=0)
    assert 0.45 < accuracy() <= 0.6
    changed = [name for name, value in module.state_dict().items() if not torch.equal(before[name], value)]
    assert changed == ["layers.4.weight"], "only the last layer"


def test_all_rows_of_the_table_run():
    setting = Setting(Trial(Bench(SMALL), 0), None)
    for method in (*TABLE, "Most confident"):
        record = setting.record(method)
        assert 0 <= record["accuracy"] <= 1
        assert np.isfinite(record["log_loss"])
        assert record["method"] == method


def test_students_of_a_trial_start_alike_and_teachers_do_not_depend_on_the_method():
    first, second = (Setting(Trial(Bench(SMALL), 1), None) for _ in range(2))
    np.testing.assert_array_equal(first.log_p, second.log_p)
    assert first.record("MF-LF-BS")["accuracy"] == second.record("MF-LF-BS")["accuracy"]


@pytest.mark.parametrize(("study", "values"), [("size", (50, 200)), ("temperature", (1, 6)), ("accuracy", (0.4, 0.8))])
def test_studies_change_what_they_say(study, values):
    bench = Bench(replace(SMALL, study=study, values=values))
    trial = Trial(bench, 0)
    low, high = (Setting(trial, value) for value in values)
    if study == "size":
        assert (len(low.X), len(high.X)) == values
        assert set(low.rows) < set(high.rows)
    elif study == "temperature":
        assert (low.temperature, high.temperature) == values
        np.testing.assert_array_equal(low.log_p, high.log_p)
    else:
        assert low.teacher_accuracy < high.teacher_accuracy
    assert low.record("SD")["value"] == values[0]


def test_a_run_that_was_killed_gives_the_same_table(tmp_path):
    command = [sys.executable, "-m", "benchmarks", "run", "synthetic", "--trials", "3", "--epochs", "2", "--methods"]
    command += ["SD,CE-E,MF-LF-BS,CE-BP", "--device", "cpu", "--cache", str(tmp_path), "--out"]
    killed = tmp_path / "killed.jsonl"
    process = subprocess.Popen([*command, str(killed)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not any(tmp_path.glob("killed.parts/*.jsonl")):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert any(tmp_path.glob("killed.parts/*.jsonl")), "something was finished when it was killed"
    args = parse([*command[3:], str(killed)])
    experiment = make_experiment(args)
    resumed = run(experiment, range(3), killed)
    at_once = run(experiment, range(3), tmp_path / "whole.jsonl")
    assert len(resumed) == len(at_once) == 12
    assert table(resumed) == table(at_once)
    before = killed.read_text()
    run(experiment, range(3), killed)
    assert killed.read_text() == before, "nothing is left to do"


def table(records):
    return {(r["trial"], r["method"]): (r["accuracy"], r["log_loss"]) for r in records}


def test_half_a_line_is_no_record_and_does_not_spoil_the_next(tmp_path):
    file = tmp_path / "results.jsonl"
    record = {
        "dataset": "d",
        "protocol": "p",
        "student": "s",
        "study": "main",
        "value": None,
        "trial": 0,
        "method": "SD",
        "accuracy": 0.5,
    }
    file.write_text(json.dumps(record) + "\n" + json.dumps(record)[:20])
    with pytest.warns(UserWarning, match="line 2 is not a record"):
        results = Results(file)
    results.add([record, record | {"method": "CE-E"}])
    with pytest.warns(UserWarning, match="line 2 is not a record"):
        assert [r["method"] for r in read_records([file])] == ["SD", "CE-E"]


@pytest.mark.filterwarnings("ignore")  # of distributed, when its processes end
def test_a_dask_cluster_runs_the_trials(tmp_path):
    small = replace(SMALL, methods=("SD", "MF-LF-BS"))
    here = run(small, range(2), tmp_path / "here.jsonl")
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        there = run(small, range(2), tmp_path / "there.jsonl", scheduler=cluster.scheduler_address)
    assert table(there) == table(here)


def test_methods_by_name():
    assert choose_methods("paper", "main") == TABLE
    assert len(TABLE) == 15
    assert choose_methods("paper", "size") == STUDIED
    assert choose_methods("sd,mf-lf-bs,rivals", "main") == ("SD", "MF-LF-BS", *RIVALS)
    assert set(STUDIED) < set(METHODS)
    with pytest.raises(ValueError, match="There is no method 'nonsense'"):
        choose_methods("nonsense", "main")


OWN = "sklearn_uhc.merging:LogitFactorization"


def test_a_method_of_ones_own_is_named_by_its_module():
    assert choose_methods(f"SD,{OWN}", "main") == ("SD", OWN)
    for wrong, why in (("nowhere.at.all:X", "nowhere"), ("math:X", "'X'"), ("sklearn_uhc:LabelSpace", "fit_transform")):
        with pytest.raises(ValueError, match=f"--methods {wrong}.*{why}"):
            choose_methods(wrong, "main")


def test_a_method_of_ones_own_runs_like_the_others():
    rival = "benchmarks.paper.rivals:known_average"
    trial = Trial(Bench(replace(SMALL, methods=(OWN, "MF-LF-E", rival))), 0)
    own, ours, average = trial.run([(None, OWN), (None, "MF-LF-E"), (None, rival)])
    assert own["method"] == OWN
    assert own["accuracy"] == ours["accuracy"]
    assert average["accuracy"] > 0.3


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::pandas.errors.Pandas4Warning")  # of crowd-kit
@pytest.mark.parametrize("name", list(RIVALS))
def test_rivals_follow_teachers_that_agree(name):
    space = LabelSpace([[0, 1, 2]] * 4)
    truth = np.random.default_rng(0).integers(3, size=200)
    log_p = np.log(np.tile(np.full((200, 3), 0.1) + 0.7 * np.eye(3)[truth], 4))
    Q = RIVALS[name](log_p, space)
    np.testing.assert_allclose(Q.sum(axis=1), 1, atol=1e-6)
    assert (Q.argmax(axis=1) == truth).mean() > 0.99


def test_a_class_that_few_know_is_averaged_over_those():
    space = LabelSpace([[0, 1], [0, 1], [1, 2]])
    log_p = np.log([[0.6, 0.4, 0.6, 0.4, 0.1, 0.9]])
    mean = np.array([0.6, 0.3, 0.9])
    np.testing.assert_allclose(known_average(log_p, space), [mean / mean.sum()])


def test_votes_of_those_who_do_not_know_a_class_are_neutral():
    rng, space = np.random.default_rng(0), LabelSpace([[0, 1], [0, 1], [0, 1, 2], [0, 1, 2]])
    truth = rng.choice(3, 600, p=[0.3, 0.3, 0.4])
    votes = [np.where(truth < k, truth, rng.integers(k, size=600)) for k in (2, 2, 3, 3)]  # class 2: two guess
    log_p = np.hstack([np.log(0.05 + 0.9 * np.eye(k)[v]) for k, v in zip((2, 2, 3, 3), votes, strict=True)])
    assert (one_coin(log_p, space).argmax(axis=1) == truth).mean() > 0.99
