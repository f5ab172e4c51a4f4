"""The command `sklearn-uhc`: what it writes, and how it answers mistaken and hostile input."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import joblib
import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

from sklearn_uhc import HeterogeneousDistiller, load_teacher, pack_teacher
from sklearn_uhc.command import main
from sklearn_uhc.command.files import whole_files
from tests.test_remote_teacher import serving

NAMES = np.array(["amber", "blush", "claret", "dry"])
LISTS = {"north": NAMES[:3], "south": NAMES[1:], "west": NAMES[[0, 2, 3]]}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two packages, an answer file, a pickle, and 300 rows in several formats."""
    folder = tmp_path_factory.mktemp("made")
    X, y = make_classification(
        1200, 6, n_informative=5, n_redundant=0, n_classes=4, n_clusters_per_class=1, class_sep=1.5, random_state=0
    )
    frame, y = pd.DataFrame(X, columns=list("abcdef")), NAMES[y]
    models = {}
    for k, (name, known) in enumerate(LISTS.items()):
        own = np.isin(y, known) & (np.arange(1200) // 200 == k)
        models[name] = LogisticRegression().fit(frame[own], y[own])
    for name in ("north", "south"):
        pack_teacher(models[name], folder / f"{name}.teacher", frame[:100], description=f"from the {name}")
    joblib.dump(models["west"], folder / "west.joblib")
    rows = frame[600:900].reset_index(drop=True)
    answers = pd.DataFrame(models["west"].predict_proba(rows), columns=models["west"].classes_)
    answers.to_csv(folder / "west.csv", index=False)
    rows.to_csv(folder / "rows.csv", index=False)
    np.savez(folder / "rows.npz", X=rows.to_numpy(), kind=y[600:900])
    labels = pd.Series(y[600:900]).where(np.arange(300) % 10 == 0)
    ids = [f"r{i}" for i in range(300)]
    rows.assign(kind=labels, number=ids).to_csv(folder / "labelled.csv", index=False)
    rows.assign(kind=labels, number=ids).to_parquet(folder / "labelled.parquet")
    answers.assign(number=ids).sample(frac=1, random_state=0).to_csv(folder / "mixed.csv", index=False)
    frame[900:].to_csv(folder / "new.csv", index=False)
    pd.Series(y[900:]).to_csv(folder / "truth.csv", index=False)
    return folder


@pytest.fixture
def folder(made, tmp_path, monkeypatch):
    """A fresh folder with these files, where the command is run."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def run(folder, capsys):
    """Run the command; return its exit code and what it printed on stdout and stderr."""

    def run_command(line):
        before = set(os.listdir())
        try:
            code = main(line.split())
        except SystemExit as end:
            code = end.code
        out, err = capsys.readouterr()
        if code:
            assert set(os.listdir()) == before
            assert "Traceback" not in err
        return code, out, err

    return run_command


def accuracy(path):
    return float((pd.read_csv(path)["label"] == pd.read_csv("truth.csv")["0"]).mean())


def test_merge_writes_a_file_that_runs_alone_and_a_report(run, folder):
    code, out, err = run("merge north.teacher south.teacher west.csv --rows rows.csv --out m.onnx --report r.html")
    assert code == 0
    assert "m.onnx: 4 classes" in out
    assert "rows.csv" in err
    assert "<title>Merge report</title>" in (folder / "r.html").read_text()
    new = pd.read_csv("new.csv")
    session = onnxruntime.InferenceSession("m.onnx")
    labels, P = session.run(None, {name: new[[name]].to_numpy(np.float32) for name in new})
    assert run("predict m.onnx --rows new.csv --out p.csv")[0] == 0
    predicted = pd.read_csv("p.csv")
    assert (predicted["label"] == labels).all()
    np.testing.assert_allclose(predicted[list(NAMES)], P, atol=1e-6)
    assert accuracy("p.csv") > 0.85


def test_the_merge_is_that_of_the_library(run, folder):
    assert run("merge north.teacher south.teacher west.joblib --trust-pickle --rows rows.csv --out m.onnx")[0] == 0
    assert run("predict m.onnx --rows new.csv --out p.csv")[0] == 0
    from sklearn_uhc.command.students import make_student

    teachers = [load_teacher("north.teacher"), load_teacher("south.teacher"), joblib.load("west.joblib")]
    clf = HeterogeneousDistiller(teachers, make_student("logistic")).fit(pd.read_csv("rows.csv"))
    np.testing.assert_allclose(pd.read_csv("p.csv")[list(NAMES)], clf.predict_proba(pd.read_csv("new.csv")), atol=1e-5)


def test_answers_in_a_file_count_as_their_model_does(run):
    shares = []
    for west in ("west.csv", "west.joblib --trust-pickle", "mixed.csv --id number"):
        code, out, _ = run(f"merge north.teacher south.teacher {west} --rows labelled.csv --out m.onnx --json")
        assert code == 0
        shares.append(list(json.loads(out)["class_frequencies"].values()))
    np.testing.assert_allclose(shares[1:], [shares[0]] * 2, atol=1e-6)


@pytest.mark.parametrize("student", ["forest", "knn", "lightgbm", "mlp"])
def test_every_student_can_be_exported(run, student):
    assert run(f"merge north.teacher south.teacher --rows rows.csv --student {student} --out m.onnx")[0] == 0
    assert run("predict m.onnx --rows new.csv --out p.csv")[0] == 0
    assert accuracy("p.csv") > 0.6


@pytest.mark.parametrize("rows", ["labelled.csv", "labelled.parquet", "rows.npz"])
def test_rows_in_every_format_with_labels(run, rows):
    code, out, _ = run(f"merge north.teacher west.csv --rows {rows} --labels kind --out m.onnx --json")
    assert code == 0
    assert json.loads(out)["lineage"]["labelled_rows"] == (300 if rows == "rows.npz" else 30)


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_class_frequencies_that_are_known(run, folder, suffix):
    told = dict(zip(NAMES.tolist(), [0.4, 0.3, 0.2, 0.1], strict=True))
    (folder / "prior.json").write_text(json.dumps(told))
    pd.DataFrame({"class": told.keys(), "frequency": told.values()}).to_csv("prior.csv", index=False)
    line = f"merge north.teacher south.teacher --rows rows.csv --prior prior.{suffix} --out m.onnx --json"
    found = json.loads(run(line)[1])
    assert found["lineage"]["class_prior"] == pytest.approx(told)
    assert list(found["class_frequencies"].values()) == pytest.approx(list(told.values()), abs=0.05)


def test_predictions_of_a_package_are_an_answer_file(run):
    assert run("predict south.teacher --rows labelled.csv --id number --out south.csv")[0] == 0
    code, out, _ = run("merge north.teacher south.csv --rows labelled.csv --id number --out m.onnx --json")
    assert code == 0
    assert list(json.loads(out)["class_frequencies"]) == NAMES.tolist()


def test_pack_gives_what_load_teacher_reads(run):
    line = "pack west.joblib --trust-pickle --rows labelled.csv --labels kind --out w.teacher --examples 0"
    code, out, _ = run(f"{line} --description 2025 --classes a c d")
    assert code == 0
    assert "no rows" in out
    teacher = load_teacher("w.teacher")
    assert teacher.classes_.tolist() == ["a", "c", "d"]
    assert teacher.card_["description"] == "2025"
    assert teacher.feature_names_in_.tolist() == list("abcdef")


def test_inspect_tells_what_files_hold_and_share(run):
    code, out, err = run("inspect north.teacher south.teacher west.csv")
    assert (code, err) == (0, "")
    assert "from the north" in out
    assert "3 teachers, 4 classes, all linked" in out
    assert load_teacher("north.teacher").sha256_ in out
    found = json.loads(run("inspect north.teacher west.csv --json")[1])
    assert [file["classes"] for file in found["files"]] == [LISTS[name].tolist() for name in ("north", "west")]
    assert found["together"]["classes"][1] == {"class": "blush", "known_by": ["north"]}


def test_inspect_says_what_is_not_identified_and_looks_alike(run):
    pd.DataFrame({"B cell": [0.5], "T cell": [0.5]}).to_csv("one.csv", index=False)
    pd.DataFrame({"B-cells": [0.5], "NK": [0.5]}).to_csv("two.csv", index=False)
    out = run("inspect one.csv two.csv")[1]
    assert "not identified" in out
    assert "'B-cells' may mean 'B cell'" in out


def test_inspect_shows_the_lineage_of_a_merged_file(run):
    merged = json.loads(run("merge north.teacher west.csv --rows rows.csv --out m.onnx --json")[1])
    (file,) = json.loads(run("inspect m.onnx --json")[1])["files"]
    assert file["lineage"] == merged["lineage"]
    north, west = file["lineage"]["teachers"]
    assert (north["name"], north["sha256"]) == ("north", load_teacher("north.teacher").sha256_)
    assert west["type"] == "AnswerFile"
    out = run("inspect m.onnx")[1]
    assert north["sha256"] in out
    assert "rows: 300" in out


def test_text_from_files_cannot_move_the_cursor(run):
    run("merge north.teacher south.teacher --rows rows.csv --out m.onnx")
    model = onnx.load("m.onnx")
    for lineage in (json.dumps({"\x1b[2J": ["\x1b]0;title\x07\n\u202e"]}), "made by hand \x1b[2J"):
        next(entry for entry in model.metadata_props if entry.key == "lineage").value = lineage
        onnx.save(model, "odd.onnx")
        code, out, err = run("inspect odd.onnx")
        assert code == 0
        assert all(c.isprintable() or c == "\n" for c in out + err)
    assert "lineage" in err


def test_teachers_in_a_toml_file(run, folder):
    pytest.importorskip("tomllib")  # Python 3.11

    def answer(request):
        n = request["inputs"][0]["shape"][0]
        return {"outputs": [{"name": "p", "shape": [n, 2], "data": np.tile([0.75, 0.25], n).tolist()}]}

    percent = pd.read_csv("west.csv") * 100
    percent.to_csv("percent.csv", index=False)
    with serving(answer) as server:
        (folder / "t.toml").write_text(
            f"""
            [[teacher]]
            name = "server"
            url = "{server.url}"
            classes = ["amber", ["blush", "claret"]]
            token_env = "UHC_TEST_TOKEN"
            weight = 0.1

            [[teacher]]
            path = "percent.csv"
            scale = "percent"
            """
        )
        os.environ["UHC_TEST_TOKEN"] = "hush"
        try:
            code, out, err = run("merge north.teacher --teachers t.toml --rows rows.csv --out m.onnx --json")
        finally:
            del os.environ["UHC_TEST_TOKEN"]
    assert code == 0, err
    assert server.headers[0]["Authorization"] == "Bearer hush"
    teachers = json.loads(out)["lineage"]["teachers"]
    assert [teacher["name"] for teacher in teachers] == ["north", "server", "percent"]
    assert teachers[1]["weight"] < teachers[0]["weight"]
    assert "hush" not in out
    assert "hush" not in Path("m.onnx").read_bytes().decode(errors="replace")


@pytest.mark.parametrize(
    ("toml", "says"),
    [
        ("[[teacher", "TOML"),
        ("a = 1", r"\[\[teacher\]\]"),
        ('[[teacher]]\nname = "x"', "path or a url"),
        ('[[teacher]]\nurl = "https://example.org"', "needs classes"),
        ('[[teacher]]\nurl = "ftp://example.org"\nclasses = ["a", "b"]', "http"),
        ('[[teacher]]\npath = "west.csv"\nscala = "percent"', "unknown key 'scala'.*scale"),
        ('[[teacher]]\npath = "north.teacher"\nweight = "x"', "weight a number"),
        ('[[teacher]]\npath = "north.teacher"\nclasses = "abc"', "classes must be a list"),
        ('[[teacher]]\npath = "nothere.onnx"', "nothere.onnx: there is no such file"),
    ],
    ids=range(9),
)
def test_mistakes_in_a_toml_file_are_named(run, folder, toml, says):
    pytest.importorskip("tomllib")  # Python 3.11
    (folder / "t.toml").write_text(toml)
    code, _, err = run("merge south.teacher --teachers t.toml --rows rows.csv --out m.onnx")
    assert code == 1
    assert_says(err, says)


def assert_says(err, says):
    line = err.strip().splitlines()[-1]
    assert line.startswith("sklearn-uhc: error: ")
    assert re.search(says, line), line


JUNK = b"\x80\x04junk\x00"


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("merge nothere.teacher --rows rows.csv --out m.onnx", "nothere.teacher: there is no such file"),
        ("merge north.zip --rows rows.csv --out m.onnx", "north.zip: .*must end in .teacher"),
        ("merge --rows rows.csv --out m.onnx", "name the teachers' files"),
        ("merge north.teacher south.teacher --rows nothere.csv --out m.onnx", "nothere.csv: there is no such file"),
        ("merge north.teacher south.teacher --rows empty.csv --out m.onnx", "empty.csv"),
        ("merge north.teacher south.teacher --rows header.csv --out m.onnx", "header.csv: it has no rows"),
        ("merge north.teacher south.teacher --rows texts.csv --out m.onnx", "texts.csv: .*no columns of numbers"),
        ("merge north.teacher south.teacher --rows twice.csv --out m.onnx", "twice.csv: .*named 'a'"),
        ("merge north.teacher south.teacher --rows gaps.csv --out m.onnx", "gaps.csv.*NaN"),
        ("merge north.teacher south.teacher --rows narrow.csv --out m.onnx", "narrow.csv.*'north'.*'f'"),
        ("merge north.teacher south.teacher --rows junk.npz --out m.onnx", "junk.npz: .*no npz file"),
        ("merge north.teacher south.teacher --rows objects.npz --out m.onnx", "objects.npz"),
        ("merge north.teacher south.teacher --rows junk.parquet --out m.onnx", "junk.parquet"),
        ("merge north.teacher south.teacher --rows labelled.csv --labels knid --out m.onnx", "labelled.csv: .*'knid'"),
        ("merge north.teacher mixed.csv --rows labelled.csv --id nummer --out m.onnx", "labelled.csv: .*'nummer'"),
        ("merge north.teacher west.csv --rows labelled.csv --id number --out m.onnx", "west.csv.*'number'.*--id"),
        ("merge north.teacher short.csv --rows rows.csv --out m.onnx", "short.csv: .*99 rows.*rows.csv has 300.*--id"),
        ("merge north.teacher labelled.csv --rows rows.csv --out m.onnx", "'kind' of labelled.csv.*--id"),
        ("merge north.teacher wrong.csv --rows rows.csv --out m.onnx", "wrong.csv.*sum"),
        ("merge north.teacher other.csv --rows equal.npz --out m.onnx", "other.csv.*equal.npz that are equal"),
        ("merge north.teacher west.joblib --rows rows.csv --out m.onnx", "west.joblib: .*--trust-pickle"),
        ("merge north.teacher junk.pkl --trust-pickle --rows rows.csv --out m.onnx", "junk.pkl: .*cannot be loaded"),
        ("merge north.teacher junk.onnx --rows rows.csv --out m.onnx", "junk.onnx.*not"),
        ("merge north.teacher junk.teacher --rows rows.csv --out m.onnx", "junk.teacher.*zip"),
        ("merge north.teacher north.teacher --rows rows.csv --out m.onnx", "north.teacher: .*twice"),
        ("merge north.teacher south.teacher --rows rows.csv --out m.pkl", "m.pkl: .*must end in .onnx"),
        ("merge north.teacher south.teacher --rows rows.csv --out no/m.onnx", "no/m.onnx: there is no folder"),
        ("merge north.teacher south.teacher --rows rows.csv --out m.onnx --report r.pdf", "r.pdf: .*.html"),
        ("merge north.teacher own.onnx --rows rows.csv --out own.onnx", "own.onnx: .*also an input"),
        ("merge north.teacher south.teacher --rows rows.csv --prior p.json --out m.onnx", "p.json.*frequencies"),
        ("predict west.csv --rows rows.csv --out p.csv", "west.csv: a model must end in .onnx"),
        ("predict north.teacher --rows narrow.csv --out p.csv", "north.teacher on narrow.csv.*'f'"),
        ("pack west.joblib --rows rows.csv --out w.teacher", "west.joblib: .*--trust-pickle"),
        ("pack north.teacher --rows rows.csv --out w.teacher", "north.teacher: a model must end in .joblib"),
        ("pack west.joblib --trust-pickle --rows narrow.csv --out w.teacher", "narrow.csv: .*'f'"),
        ("pack list.joblib --trust-pickle --rows rows.csv --out w.teacher", "list.joblib.*classifier"),
        ("inspect north.teacher rows.csv", "rows.csv"),
        ("inspect north.teacher numbers.csv", "numbers.csv"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_file(run, folder, line, says):
    for name in ("junk.npz", "junk.parquet", "junk.onnx", "junk.teacher", "junk.pkl", "own.onnx"):
        Path(name).write_bytes(JUNK)
    rows = pd.read_csv("rows.csv")
    for name, text in {"empty": "", "header": "a,b\n", "texts": "a\nx\n", "twice": "a,a\n1,2\n"}.items():
        Path(f"{name}.csv").write_text(text)
    Path("p.json").write_text("[1]")
    np.savez("objects.npz", X=np.array([{}], dtype=object))
    np.savez("equal.npz", X=np.zeros((300, 6)))
    rows.drop(columns="f").to_csv("narrow.csv", index=False)
    rows.where(rows > -1).to_csv("gaps.csv", index=False)
    west = pd.read_csv("west.csv")
    west[:99].to_csv("short.csv", index=False)
    (west * 0.7).to_csv("wrong.csv", index=False)
    west.to_csv("other.csv", index=False)
    pd.DataFrame({"1": [0.5], "2": [0.7]}).to_csv("numbers.csv", index=False)
    joblib.dump([1, 2], "list.joblib")
    code, out, err = run(line)
    assert (code, out) == (1, "")
    assert_says(err, says)


@pytest.mark.parametrize("line", ["", "merge north.teacher --out m.onnx", "merge a.teacher --rows b --student tree"])
def test_wrong_arguments_end_with_2(run, line):
    code, out, err = run(line)
    assert (code, out) == (2, "")
    assert "usage: sklearn-uhc" in err


def test_what_fit_notices_is_a_warning_on_stderr_and_in_the_json(run):
    pd.read_csv("west.csv").set_axis(["claret", "dry", "amber"], axis=1).to_csv("west.csv", index=False)
    code, out, err = run("merge north.teacher south.teacher west.csv --rows rows.csv --out m.onnx --json")
    assert code == 0
    found = json.loads(out)
    assert any("west" in text for text in found["warnings"])
    assert "warning: " in err
    assert found["lineage"]["findings"] != []


def test_classes_and_labels_that_are_numbers(run):
    X = pd.read_csv("rows.csv")
    y = (X["a"] > 0).astype(int) + (X["b"] > 0)
    for name, known in {"low": [0, 1], "high": [1, 2]}.items():
        pack_teacher(LogisticRegression().fit(X[y.isin(known)], y[y.isin(known)]), f"{name}.teacher", X)
    pd.DataFrame({"0": np.full(300, 0.5), "2": np.full(300, 0.5)}).to_csv("even.csv", index=False)
    X.assign(y=y.where(X.index % 5 == 0)).to_csv("numbered.csv", index=False)
    line = "merge low.teacher high.teacher even.csv --rows numbered.csv --labels y --out m.onnx --json"
    code, out, err = run(line)
    assert code == 0, err
    assert json.loads(out)["lineage"]["labelled_rows"] == 60
    assert run("predict m.onnx --rows rows.csv --out p.csv")[0] == 0
    assert set(pd.read_csv("p.csv")["label"]) <= {0, 1, 2}


def test_odd_names_of_columns_and_classes(run, folder):
    columns = ["petal length (cm)", "1st", "ä/ö", "a b", "a_b c", "x,y"]
    rows = pd.read_csv("rows.csv").set_axis(columns, axis=1)
    rows.to_csv("odd.csv", index=False)
    names = ['B "cell", old', "düne", "a;b"]
    for k in (0, 1):
        y = np.array(names)[k : k + 2][(rows["1st"] > 0).astype(int)]
        pack_teacher(LogisticRegression().fit(rows, y), f"odd{k}.teacher", rows)
    code, out, err = run("merge odd0.teacher odd1.teacher --rows odd.csv --out m.onnx --json")
    assert code == 0, err
    assert list(json.loads(out)["class_frequencies"]) == sorted(names)
    assert run("predict m.onnx --rows odd.csv --out p.csv")[0] == 0
    assert pd.read_csv("p.csv").columns.tolist() == ["label", *sorted(names)]


def test_files_are_whole_or_not_there(tmp_path):
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("before")

    def interrupted():
        with whole_files(str(old), str(new)) as staged:
            for path in staged:
                path.write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert old.read_text() == "before"
    assert os.listdir(tmp_path) == ["old.txt"]


def test_an_interruption_leaves_nothing_behind(folder):
    (folder / "slow.py").write_text(
        "import time, pathlib, numpy\n"
        "class Slow:\n"
        "    classes_ = numpy.array(['amber', 'dry'])\n"
        "    def predict_proba(self, X):\n"
        "        pathlib.Path('started').touch()\n"
        "        time.sleep(60)\n"
    )
    made = "import joblib, slow; joblib.dump(slow.Slow(), 'slow.joblib')"
    paths = f"{folder}{os.pathsep}{Path(__file__).parent.parent}"
    env = os.environ | {"PYTHONPATH": paths}
    subprocess.run([sys.executable, "-c", made], env=env, check=True)
    line = "merge north.teacher slow.joblib --trust-pickle --rows rows.csv --out m.onnx --report r.html"
    command = subprocess.Popen([sys.executable, "-m", "sklearn_uhc", *line.split()], env=env, stderr=subprocess.PIPE)
    while not (folder / "started").exists():
        assert command.poll() is None
        time.sleep(0.05)
    command.send_signal(signal.SIGINT)
    err = command.communicate(timeout=50)[1].decode()
    assert command.returncode == 130
    assert err.strip().splitlines()[-1] == "sklearn-uhc: interrupted"
    assert not any(name.endswith((".onnx", ".html")) or name.startswith(".") for name in os.listdir(folder))
