"""The report of the paper's experiments, from made-up records."""

import re
import warnings

import numpy as np
import pytest
from scipy.stats import permutation_test, rankdata, wilcoxon

from benchmarks.paper.claims import judge_claims
from benchmarks.paper.published import METHODS, PROTOCOLS, column
from benchmarks.paper.records import by_setting, complete_trials, read_records
from benchmarks.paper.report import make_report
from benchmarks.paper.statistics import bootstrap_interval, compare, wilcoxon_p
from benchmarks.paper.tables import main_table
from tests.benchmarks.made_up_records import OTHERS, experiment, record, study, write


@pytest.fixture
def file(tmp_path):
    return tmp_path / "results.jsonl"


# Published values


@pytest.mark.parametrize(
    ("setting", "method", "accuracy", "mark"),
    [
        (("random", "imagenet", "vgg16"), "MF-LF-BS", 0.6935, "same"),
        (("random", "imagenet", "vgg16"), "MF-P-BP", 0.6945, "best"),
        (("random", "lsun", "resnet34"), "MF-LU-BP", 0.6389, ""),
        (("random", "places365", "vgg16"), "SPV", 0.5525, ""),
        (("overlapping", "imagenet", "resnet34"), "MF-P-E", 0.7297, "best"),
        (("overlapping", "lsun", "vgg16"), "MF-LU-E", 0.7031, "best"),
        (("overlapping", "places365", "resnet34"), "MF-LF-BS", 0.6330, ""),
        (("random", "tinyimagenet", "small_cnn"), "SD", 0.5543, ""),
        (("random", "digits", "forest"), "CE-BP", 0.6520, "same"),
    ],
)
def test_published_values(setting, method, accuracy, mark):
    found = column(*setting)
    assert found.accuracy[method] == accuracy
    assert found.mark[method] == mark


def test_published_marks_belong_to_the_greatest_values():
    for protocol in PROTOCOLS:
        for dataset in ("imagenet", "lsun", "places365"):
            for student in ("vgg16", "resnet34"):
                found = column(protocol, dataset, student)
                assert list(found.accuracy) == METHODS
                assert len(METHODS) == 15
                greatest = max(value for method, value in found.accuracy.items() if method != "SPV")
                for method, mark in found.mark.items():
                    assert (mark == "best") == (found.accuracy[method] == greatest and method != "SPV")


def test_datasets_without_counterpart():
    assert column("random", "synthetic", "vgg16") is None
    assert column("other", "imagenet", "vgg16") is None


# Records


def test_the_last_of_repeated_records_counts(file, tmp_path):
    write(file, [record(accuracy=0.1), record(accuracy=0.2), record(trial=1)])
    later = write(tmp_path / "later.jsonl", [record(accuracy=0.3, unknown_field=[1])])
    found = read_records([file, later])
    assert sorted((r["trial"], r["accuracy"]) for r in found) == [(0, 0.3), (1, 0.7)]


def test_a_line_that_a_killed_run_left_is_skipped(file):
    write(file, [record()], end='{"dataset": "feat')
    with pytest.warns(UserWarning, match=r"results.jsonl, line 2 .* skipped"):
        assert len(read_records([file])) == 1


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"dataset": "features"}, "line 1: the record has no protocol, student, trial, method, accuracy"),
        (record(accuracy=None), "accuracy is None"),
        (record(accuracy=float("nan")), "accuracy is nan"),
        (record(study="size"), "'size' needs a value"),
    ],
)
def test_wrong_records_are_refused(file, bad, message):
    with pytest.raises(ValueError, match=message):
        read_records([write(file, [bad])])


def test_no_records(file, tmp_path):
    with pytest.raises(ValueError, match=r"No records in .*results.jsonl"):
        make_report([write(file, [])], tmp_path / "out")


def test_incomplete_trials_are_left_out(file, tmp_path):
    records = [record("SD", t, 0.5) for t in range(4)] + [record("CE-E", t, 0.7 + t) for t in (0, 2)]
    trials = complete_trials(records)
    assert trials.trials == [0, 2]
    assert trials.n_left_out == 2
    assert trials.mean("accuracy", "CE-E") == pytest.approx(1.7)
    assert "has not finished them: 2 trials" in make_report([write(file, records)], tmp_path)


def test_a_setting_without_complete_trials_has_no_table(file, tmp_path):
    text = make_report([write(file, [record("SD", 0), record("CE-E", 1)])], tmp_path)
    assert text.startswith("# The paper's experiments, repeated\n\n## Main experiment")
    assert "0 trials" in text
    assert "|" not in text


def test_settings_stay_apart_and_in_the_papers_order():
    records = [record(study="accuracy", value=0.4), record(study="size", value=10), record(protocol="overlapping")]
    records += [record(student="vgg16"), record()]
    order = [(s.study, s.protocol, s.student) for s in by_setting(records)]
    assert order == [
        ("main", "random", "features"),
        ("main", "random", "vgg16"),
        ("main", "overlapping", "features"),
        ("size", "random", "features"),
        ("accuracy", "random", "features"),
    ]


# Statistics


def test_wilcoxon_is_scipys():
    rng = np.random.default_rng(0)
    for n in (20, 50, 80):
        a, b = rng.random(n), rng.random(n) + 0.1
        assert wilcoxon_p(a, b) == pytest.approx(wilcoxon(a, b).pvalue)


def test_wilcoxon_with_ties_is_near_the_permutation_test():
    rng = np.random.default_rng(1)
    d = rng.integers(-2, 5, 12) / 100
    d = d[d != 0]
    ranks = rankdata(np.abs(d).round(6))

    def statistic(x, axis=-1):
        return np.sum(np.sign(x) * ranks, axis=axis)

    exact = permutation_test((d,), statistic, permutation_type="samples", n_resamples=np.inf).pvalue
    assert wilcoxon_p(0.7 + d, np.full(len(d), 0.7)) == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("n", [1, 2, 5, 7])
def test_few_trials_are_never_significant(n):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wilcoxon_p(np.full(n, 0.9), np.full(n, 0.1)) >= 0.01
        assert wilcoxon_p(np.linspace(0.8, 0.9, n), np.full(n, 0.1)) >= 0.01


def test_equal_results():
    a = np.linspace(0, 1, 50)
    assert wilcoxon_p(a, a) == 1
    assert wilcoxon_p(a + 0.1, a + 0.1 + 1e-16) == 1
    assert wilcoxon_p(np.full(8, 0.9), np.full(8, 0.1)) == pytest.approx(2 / 2**8)


def test_bootstrap_interval_is_near_the_normal_one_and_repeats():
    values = np.random.default_rng(0).normal(3, 2, 400)
    expected = values.mean() + np.array([-1.96, 1.96]) * values.std() / 20
    np.testing.assert_allclose(bootstrap_interval(values), expected, atol=0.02)
    assert bootstrap_interval(values) == bootstrap_interval(values)
    assert bootstrap_interval([0.5]) == (0.5, 0.5)


# Tables


def cells(markdown):
    """Return the rows of all Markdown tables, by their first cell."""
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in ([c.strip() for c in line.strip("|").split("|")] for line in lines)}


@pytest.mark.parametrize("methods", [METHODS, METHODS + OTHERS])
def test_marks_follow_wilcoxon(methods):
    trials = complete_trials(experiment(50, methods=methods))
    rows = cells(main_table(trials, None, "").markdown())
    accuracy = {m: trials.get("accuracy", m) for m in methods}
    best = max((m for m in methods if m != "SPV"), key=lambda m: accuracy[m].mean())
    assert accuracy["SPV"].mean() > accuracy[best].mean()
    marked = set()
    for method in methods:
        text = f"{accuracy[method].mean():.4f}"[1:]
        if method == best:
            text = f"<u>**{text}**</u>"
        elif method != "SPV" and wilcoxon(accuracy[method], accuracy[best]).pvalue >= 0.01:
            text = f"**{text}**"
            marked.add(method)
        assert rows[method][0] == text
    assert 0 < len(marked) < 13
    order = [name for name in rows if name in methods]
    assert order == methods


def test_no_number_of_the_main_table_can_be_broken():
    """A browser breaks lines at spaces and after hyphens, but not after a leading minus."""
    trials = complete_trials(experiment(50))
    rows = cells(main_table(trials, column("random", "features", "x"), "").markdown())
    numbers = [cell for method in METHODS for cell in rows[method]]
    assert not [cell for cell in numbers if " " in cell or "-" in cell[1:]]
    shown = {method: rows[method][4] for method in METHODS if rows[method][4] != "-"}
    p = compare(trials).p
    assert {method for method, text in shown.items() if text == "<.001"} == {m for m in shown if p[m] < 0.001} != set()
    assert r"$<$.001" in main_table(trials, None, "").latex()


def test_columns_of_the_main_table():
    trials = complete_trials([record("SPV", t, 0.8 + t / 10, log_loss=0.5) for t in range(2)] + [
        record(m, t, a + t / 10) for m, a in (("SD", 0.5), ("CE-E", 0.75)) for t in range(2)
    ])  # fmt: skip
    rows = cells(main_table(trials, column("random", "features", "x"), "").markdown())
    assert rows["method"] == ["accuracy", "std. error", "vs SPV", "vs SD", "p", "paper", "log-loss", "seconds"]
    assert rows["SPV"] == [".8500", ".0500", "-", "+30.0", "-", ".7212", ".500", "2.0"]
    # Two trials show nothing: SD is 25 points behind, and yet not significantly different.
    assert rows["SD"] == ["**.5500**", ".0500", "-30.0", "-", ".500", ".5543", "1.250", "2.0"]
    assert rows["CE-E"] == ["<u>**.8000**</u>", ".0500", "-5.0", "+25.0", "-", "**.6911**", "1.250", "2.0"]


def test_unknown_losses_and_a_single_trial_leave_no_nan():
    records = [record(m, log_loss=loss, seconds=None) for m, loss in (("SD", None), ("CE-E", float("inf")))]
    text = main_table(complete_trials(records), None, "").markdown()
    assert "nan" not in text
    assert cells(text)["CE-E"][-2:] == ["-", "-"]
    assert cells(text)["SD"][1] == "-"


def test_captions_say_what_the_paper_column_is(file, tmp_path):
    records = experiment(2) + experiment(2, dataset="imagenet", student="resnet34") + experiment(2, dataset="synthetic")
    text = make_report([write(file, records)], tmp_path)
    assert "for ImageNet, VGG16, random classes, the closest match to ours (dataset features, student feat" in text
    assert "for ImageNet, ResNet34, random classes.\n" in text
    assert "The paper has no counterpart" in text


# Claims


def verdicts(protocol="random", methods=tuple(METHODS), **shift):
    shift = {name.replace("_", "-"): value for name, value in shift.items()}
    trials = complete_trials(experiment(20, protocol, methods, shift, noise=1e-4))
    return {j.text: j for j in judge_claims(protocol, trials, column(protocol, "features", "vgg16"))}


def find(found, words):
    (judged,) = [j for text, j in found.items() if words in text]
    return judged


@pytest.mark.parametrize(
    ("words", "protocol", "shift"),
    [
        ("proposed methods are more than 9", "random", {"MF_P_E": 0.6430}),
        ("CE and MF-LF are more than 9", "random", {"CE_E": 0.6430}),
        ("MF-P and MF-LU are more than 7", "random", {"MF_LU_BP": 0.62}),
        ("CE and MF-LF are less than 4", "random", {"MF_LF_BP": 0.68}),
        ("MF-P and MF-LU are less than 6", "random", {"SPV": 0.7270}),
        ("Balancing improves", "random", {"MF_LF_E": 0.6940}),
        ("Balancing lifts SD", "random", {"SD_BS": 0.6040}),
        ("Nonconvex", "random", {"MF_LU_E": 0.6890}),
        ("MF-LF-BS is the best", "random", {"MF_P_BP": 0.7}),
        ("within about 1 point", "overlapping", {"CE_BP": 0.7320}),
        ("slightly worse", "overlapping", {"SD_BS": 0.7276}),
    ],
)
def test_claims_flip_with_the_numbers(words, protocol, shift):
    # Without noise MF-P-BP, .0010 above, would be significantly better.
    usual = {"MF_P_BP": 0.6930} if words.startswith("MF-LF-BS") else {}
    assert find(verdicts(protocol, **usual), words).ours.holds is True
    judged = find(verdicts(protocol, **shift), words)
    assert judged.ours.holds is False
    assert str(judged.ours) == "does not hold"
    assert judged.paper.holds is True


def test_the_papers_own_table_does_not_bear_out_its_gap_to_spv():
    judged = find(verdicts(), "proposed methods are less than 4 points below SPV")
    assert judged.paper.holds is False
    assert "-5.8 (SD-BS) to -2.7 (MF-P-BP)" in judged.paper.figures
    assert find(verdicts(SPV=0.7), "proposed methods are less than 4 points").ours.holds is True


def test_claims_give_figures_and_name_what_is_missing():
    found = verdicts(methods=[m for m in METHODS if m != "MF-P-BP"])
    nonconvex = find(found, "Nonconvex")
    assert str(nonconvex.ours) == "holds as far as run"
    assert nonconvex.ours.figures == "MF-LU +2.29 ± 0.00 (not run: MF-P-BP)"
    assert nonconvex.paper.figures == "MF-P +1.26, MF-LU +2.29"
    without = find(verdicts(methods=["SPV", "SD", "CE-E"]), "Balancing lifts")
    assert without.ours.holds is None
    assert str(without.ours) == "not measured"
    assert without.ours.figures == "no results of SD-BS"


def test_two_trials_decide_nothing():
    trials = complete_trials(experiment(2, noise=1e-4))
    assert {str(j.ours) for j in judge_claims("random", trials, None)} == {"undecided"}


def test_claims_are_about_the_papers_methods():
    trials = complete_trials(experiment(20, methods=METHODS + OTHERS, shift={"Snorkel": 0.9, "MF-P-BP": 0.69}))
    assert compare(trials).best == "Snorkel"
    (best,) = [j for j in judge_claims("random", trials, None) if j.text.startswith("MF-LF-BS")]
    assert best.ours.holds is True
    assert best.paper is None


# The whole report


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    records = experiment(10, methods=METHODS + OTHERS) + experiment(10, "overlapping")
    records += study("size", [1000, 10000]) + study("temperature", [1, 3], METHODS + OTHERS)
    records += study("accuracy", [0.4, 0.8])
    text = make_report([write(folder / "a.jsonl", records)], folder / "out" / "deep")
    return text, folder / "out" / "deep"


def test_the_report_is_written_and_refers_to_its_figures(whole):
    text, folder = whole
    assert (folder / "report.md").read_text(encoding="utf-8") == text
    figures = re.findall(r"\((.*?\.png)\)", text)
    assert sorted(figures) == sorted(path.name for path in folder.glob("*.png"))
    assert len(figures) == 5
    assert all((folder / name).stat().st_size > 5000 for name in figures)
    assert len(re.findall(r"^## ", text, re.MULTILINE)) == 5
    assert "nan" not in text
    assert "10 trials. Per trial: 30 classes, 12 teachers, 10,000 unlabelled samples." in text


def test_markdown_tables_are_rectangular(whole):
    widths = [line.count("|") for line in whole[0].splitlines() if line.startswith("|")]
    assert set(widths) == {10, 4}


def test_latex_is_well_formed(whole):
    latex = (whole[1] / "report.tex").read_text(encoding="utf-8")
    plain = latex.replace(r"\{", "").replace(r"\}", "")
    depth = np.cumsum([(letter == "{") - (letter == "}") for letter in plain])
    assert depth.min() >= 0
    assert depth[-1] == 0
    opened, closed = (sorted(re.findall(rf"\\{word}{{(\w+)}}", latex)) for word in ("begin", "end"))
    assert opened == closed
    tables = re.findall(r"\\begin{tabular}{(\w+)}(.*?)\\end{tabular}", latex, re.DOTALL)
    assert len(tables) == 5
    for columns, body in tables:
        for line in body.strip().splitlines():
            if line.startswith(r"\multicolumn"):
                assert rf"\multicolumn{{{len(columns)}}}" in line
            elif not line.endswith("rule"):
                assert line.count(" & ") == len(columns) - 1
                assert line.endswith(r" \\")
    assert re.search(r"\\underline{\\textbf{\.\d{4}}}", latex)
    unescaped = re.sub(r"\\[&%$#_]|\$[^$]*\$|\\includegraphics.*", "", re.sub(r"(?m)^%.*| & ", "", latex))
    assert not set("&%$#_±") & set(unescaped)


def test_values_that_are_not_complete_are_left_out(file, tmp_path):
    records = study("size", [10, 20], ["SD", "CE-BS"], 2)
    records = [r for r in records if not (r["value"] == 20 and r["method"] == "SD")]
    records += [r for r in study("size", [30], ["SD", "CE-BS"], 3) if (r["trial"], r["method"]) != (2, "SD")]
    text = make_report([write(file, records)], tmp_path)
    assert cells(text)["trials"] == ["2", "2", "2"]
    assert cells(text)["SD"][1] == "-"
    assert "has not finished them: 1 trial." in text
