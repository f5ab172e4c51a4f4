"""Answers on disk: files and frames of probabilities, as one array of log-probabilities."""

import gzip
import tracemalloc

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.testing import assert_allclose
from scipy.special import softmax
from sklearn.datasets import load_digits, load_iris
from sklearn.linear_model import LogisticRegression

from sklearn_uhc import HeterogeneousDistiller, TeacherOutputs, read_answers
from sklearn_uhc.teachers.rounding import count_decimals

RNG = np.random.default_rng(0)
LISTS = [["cat", "dog", "cow"], ["dog", "ant"]]
PROBA = [softmax(RNG.normal(size=(20, len(labels))), axis=1) for labels in LISTS]
FRAMES = [pd.DataFrame(p, columns=labels) for p, labels in zip(PROBA, LISTS, strict=True)]
IDS = [f"row {i}" for i in range(20)]


def saved(frame, path):
    """Write a frame in the format given by the file name."""
    if path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in path.name else ",")
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.CSV", "a.tsv", "a.csv.gz", "a.parquet", "pandas", "polars", "arrow"])
@pytest.mark.parametrize("chunk_rows", [7, 1000])
def test_all_forms_give_the_same(tmp_path, name, chunk_rows):
    for i, frame in enumerate(FRAMES):
        if name in ("pandas", "polars", "arrow"):
            make = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": lambda f: pl.DataFrame(f).to_arrow()}[name]
            source = make(frame)
        else:
            source = saved(frame, tmp_path / f"{i}{name}")
        log_p, class_lists = read_answers([source], chunk_rows=chunk_rows)
        assert class_lists == [LISTS[i]]
        assert_allclose(np.exp(log_p), PROBA[i], atol=1e-12)


def test_sources_stand_side_by_side_and_feed_a_merge(tmp_path):
    iris = load_iris()
    X, y = iris.data, iris.target_names[iris.target]
    teachers = [LogisticRegression(max_iter=500).fit(X[y != out], y[y != out]) for out in ("setosa", "virginica")]
    paths = []
    for i, teacher in enumerate(teachers):
        frame = pd.DataFrame(teacher.predict_proba(X), columns=teacher.classes_).assign(id=np.arange(150))
        paths.append(saved(frame.sample(frac=1, random_state=i), tmp_path / f"{i}.{'csv' if i else 'parquet'}"))
    log_p, class_lists = read_answers(paths, id_column="id", ids=np.arange(150))
    assert_allclose(log_p, TeacherOutputs(teachers).fit_transform(X), atol=1e-6)
    clf = HeterogeneousDistiller(None, LogisticRegression(max_iter=500), class_lists=class_lists).fit(X, log_p=log_p)
    same = HeterogeneousDistiller(teachers, LogisticRegression(max_iter=500)).fit(X)
    assert_allclose(clf.predict_proba(X), same.predict_proba(X), atol=1e-4)


def test_sources_by_name():
    log_p, class_lists = read_answers({"hospital": FRAMES[0], "lab": FRAMES[1]})
    assert class_lists == {"hospital": LISTS[0], "lab": LISTS[1]}
    clf = HeterogeneousDistiller(None, LogisticRegression(), class_lists=class_lists).fit(np.eye(20), log_p=log_p)
    assert set(clf.classes_) == {"ant", "cat", "cow", "dog"}


def test_ids_put_rows_in_order(tmp_path):
    frames = [frame.assign(key=IDS) for frame in FRAMES]
    shuffled = frames[1].sample(frac=1, random_state=0)
    log_p, lists = read_answers([frames[0], saved(shuffled, tmp_path / "b.csv")], id_column="key", chunk_rows=6)
    assert lists == LISTS
    assert_allclose(np.exp(log_p), np.hstack(PROBA), atol=1e-12)
    backwards, _ = read_answers([shuffled, frames[0]], id_column="key", ids=IDS[::-1])
    assert_allclose(np.exp(backwards), np.hstack(PROBA[::-1])[::-1], atol=1e-12)


def test_numbers_are_ids_in_files_as_well_as_frames(tmp_path):
    frame = FRAMES[0].assign(id=[f"{i:03}" for i in range(20)])
    path = saved(frame, tmp_path / "a.csv")
    assert_allclose(np.exp(read_answers([path], id_column="id", ids=frame["id"])[0]), PROBA[0])
    with pytest.raises(ValueError, match=r"a.csv has rows .*\['000', '001', '002', '...'\]"):
        read_answers([path], id_column="id", ids=range(20))


def test_rows_that_do_not_match(tmp_path):
    first, second = (frame.assign(key=IDS) for frame in FRAMES)
    with pytest.raises(ValueError, match=r"sources\[1\] has 19 rows, sources\[0\] has 20.*id_column"):
        read_answers([FRAMES[0], FRAMES[1][1:]])
    with pytest.raises(ValueError, match=r"sources\[1\] has no rows .*\['row 3'\]"):
        read_answers([first, second.drop(index=3)], id_column="key")
    log_p, _ = read_answers([first, second.drop(index=3)], id_column="key", abstain=True)
    assert np.isnan(log_p[3, 3:]).all()
    assert np.isfinite(np.delete(log_p, 3, axis=0)).all()
    with pytest.raises(ValueError, match=r"sources\[0\] does not have: \['row 3'\]"):
        read_answers([first.drop(index=3), second], id_column="key", abstain=True)
    with pytest.raises(ValueError, match=r"sources\[0\] has repeated ids: \['row 0'\]"):
        read_answers([pd.concat([first, first[:1]])], id_column="key")
    with pytest.raises(ValueError, match="ids has repeated ids"):
        read_answers([first], id_column="key", ids=["a", "a"])
    with pytest.raises(ValueError, match=r"ids of sources\[0\] must be one per row"):
        read_answers([first.assign(key=[None, *IDS[1:]])], id_column="key")
    with pytest.raises(ValueError, match=r"sources\[0\] has no column 'id'.*\['cat', 'dog', 'cow'\]"):
        read_answers(FRAMES, id_column="id")
    with pytest.raises(ValueError, match="ids are given without id_column"):
        read_answers(FRAMES, ids=IDS)


@pytest.mark.parametrize("decimals", [2, 4])
def test_rounded_rows_are_normalised_with_a_note(tmp_path, decimals):
    path = saved(FRAMES[0].round(decimals), tmp_path / "a.csv")
    with pytest.warns(
        UserWarning, match=rf"because of rounding were normalised: \d+ of 20 in .*\({decimals} decimals\)"
    ):
        log_p, _ = read_answers([path], chunk_rows=9)
    assert_allclose(np.exp(log_p).sum(axis=1), 1)
    assert_allclose(np.exp(log_p), PROBA[0], atol=2 * 10.0**-decimals)
    single = FRAMES[0].round(decimals).astype(np.float32)
    with pytest.warns(UserWarning, match=rf"\({decimals} decimals\)"):
        assert_allclose(read_answers([single])[0], log_p, atol=1e-5)


def test_what_rounding_does_not_explain_is_an_error():
    """Three numbers with two decimals are off by at most .015; other rows show the number of decimals."""
    fine = pd.DataFrame([[0.33, 0.33, 0.33], [0.34, 0.34, 0.33]], columns=list("abc"))
    with pytest.warns(UserWarning, match="2 of 2"):
        read_answers([fine])
    short = pd.DataFrame([[0.5, 0.25, 0.25], [0.33, 0.33, 0.32]], columns=list("abc"))
    with pytest.raises(ValueError, match=r"row 1 sums to 0.98, but rounding explains only 0.015. Is a class miss"):
        read_answers([short])
    coarse = pd.DataFrame([[0.3, 0.3, 0.3], [0.25, 0.25, 0.5], [0.1234, 0.4, 0.4766]], columns=list("abc"))
    with pytest.raises(ValueError, match=r"row 0 sums to 0.9, .*0.00015"):
        read_answers([coarse], chunk_rows=1)
    votes = pd.DataFrame([[1, 1, 0], [1, 0, 0]], columns=list("abc"))
    with pytest.raises(ValueError, match=r"row 0 sums to 2, .* If every class was scored on its own"):
        read_answers([votes])
    nothing = pd.DataFrame(np.zeros((2, 30)) + 0.1 * np.eye(2, 30), columns=[f"c{i}" for i in range(30)])
    with pytest.raises(ValueError, match=r"sums to 0\.1"):
        read_answers([nothing])


def test_decimals():
    assert count_decimals(np.array([0.5, 0.25])) == 2
    assert count_decimals(np.array([1.0, 0.0, np.nan])) == 0
    assert count_decimals(np.array([1 / 3])) == 10
    assert count_decimals(np.float32([0.1, 0.7]).astype(float), 1.2e-7) == 1


def test_the_scale_is_asked_for():
    percent = (100 * FRAMES[0]).round(1)
    with pytest.raises(ValueError, match=r'sum to 1: row .*They sum to 100: .* pass scale="percent"'):
        read_answers([percent])
    with pytest.warns(UserWarning, match=r"\(3 decimals\)"):
        assert_allclose(np.exp(read_answers([percent], scale="percent")[0]), PROBA[0], atol=2e-3)
    with pytest.raises(ValueError, match='leave scale="percent" out'):
        read_answers([FRAMES[0]], scale="percent")
    logs = np.log(FRAMES[0])
    with pytest.raises(ValueError, match=r'negative values, first in row 0.*pass scale="log_proba"'):
        read_answers([logs])
    assert_allclose(np.exp(read_answers([logs], scale="log_proba")[0]), PROBA[0])
    with pytest.raises(ValueError, match='pass scale="logits"'):
        read_answers([logs + 5])
    assert_allclose(np.exp(read_answers([logs + 5], scale="logits")[0]), PROBA[0])
    with pytest.raises(ValueError, match='pass scale="logits"'):
        read_answers([logs + 5], scale="log_proba")
    with pytest.raises(ValueError, match=r"scale must be one of .*'percents'"):
        read_answers(FRAMES, scale="percents")


def test_empty_cells(tmp_path):
    frame = FRAMES[0].copy()
    frame.iloc[4] = np.nan
    path = saved(frame, tmp_path / "a.csv")
    with pytest.raises(ValueError, match=r"no number in row 4, column 'cat', nor in any other: with abstain=True"):
        read_answers([path], chunk_rows=3)
    log_p, _ = read_answers([path], abstain=True)
    assert np.isnan(log_p).all(axis=1).nonzero()[0].tolist() == [4]
    frame.iloc[7, 1] = np.nan
    for abstain in (False, True):
        with pytest.raises(ValueError, match=r"no number in row [47], column '(cat|dog)'"):
            read_answers([saved(frame, tmp_path / "b.csv")], abstain=abstain)


def test_columns_that_are_no_classes(tmp_path):
    frame = FRAMES[0].assign(text="so", guess=1.0)
    path = saved(frame, tmp_path / "a.csv")
    with pytest.raises(ValueError, match=r"Column 'text' of .*a.csv does not hold numbers.* add it to ignore"):
        read_answers([path])
    assert read_answers([path, frame], ignore=["text", "guess"])[1] == [LISTS[0], LISTS[0]]
    with pytest.raises(ValueError, match=r"a.csv has no column for a class"):
        read_answers([path], ignore=frame.columns.tolist())
    FRAMES[0].to_csv(tmp_path / "index.csv")
    with pytest.raises(ValueError, match=r"index.csv has a column without a name, .*index=False"):
        read_answers([tmp_path / "index.csv"])
    (tmp_path / "twice.csv").write_text("cat,dog,cat\n.5,.25,.25\n")
    with pytest.raises(ValueError, match=r"same name: \['cat'\]"):
        read_answers([tmp_path / "twice.csv"])


def test_names_of_classes(tmp_path):
    numbered = pd.DataFrame(PROBA[0])
    assert read_answers([numbered])[1] == [[0, 1, 2]]
    path = saved(numbered, tmp_path / "a.csv")
    assert read_answers([path])[1] == [["0", "1", "2"]]
    assert read_answers([path], class_type=int)[1] == [[0, 1, 2]]
    (tmp_path / "bom.csv").write_text("\ufeffNA,true\n.5,.5\n", encoding="utf-8")
    assert read_answers([tmp_path / "bom.csv"])[1] == [["NA", "true"]]


def test_zeros_get_a_floor():
    frame = pd.DataFrame([[1.0, 0.0], [0.75, 0.25]], columns=["a", "b"])
    assert_allclose(np.exp(read_answers([frame])[0][0]), [1 / 1.025, 0.025 / 1.025])
    assert_allclose(np.exp(read_answers([frame], floor=1e-3)[0][0]), [1 / 1.001, 0.001 / 1.001])
    for wrong in (0, 0.5, "none"):
        with pytest.raises(ValueError, match='floor must be "auto"'):
            read_answers([frame], floor=wrong)


def test_what_cannot_be_read(tmp_path):
    for wrong in ("a.csv", tmp_path / "a.csv", FRAMES[0], [], {}):
        with pytest.raises(TypeError, match="sources must be a list"):
            read_answers(wrong)
    with pytest.raises(FileNotFoundError, match=r"There is no file '.*a.csv'"):
        read_answers([tmp_path / "a.csv"])
    with pytest.raises(ValueError, match=r"a.xlsx: .*.csv, .tsv or .parquet"):
        read_answers([tmp_path / "a.xlsx"])
    with pytest.raises(TypeError, match=r"sources\[1\] is a ndarray: pass the path"):
        read_answers([FRAMES[0], PROBA[0]])
    (tmp_path / "empty.csv").write_text("cat,dog\n")
    with pytest.raises(ValueError, match=r"empty\.csv has no rows"):
        read_answers([tmp_path / "empty.csv"])
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write("cat,dog\n1,0\n")
    with pytest.raises(ValueError, match=r"ends in \.csv"):
        read_answers([tmp_path / "a.txt.gz"])


def test_large_files_are_read_in_chunks(tmp_path):
    n, k = 100_000, 10
    path = tmp_path / "a.parquet"
    pd.DataFrame(softmax(RNG.normal(size=(n, k)), axis=1), columns=[f"c{i}" for i in range(k)]).to_parquet(path)
    read_answers([path], chunk_rows=1000)
    tracemalloc.start()
    log_p, _ = read_answers([path], chunk_rows=1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert log_p.shape == (n, k)
    assert peak < 4.5 * n * k * 8, "the parts, the whole, and what the floor makes of it"


HEADER = "id,cat,dog\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read: No columns to parse"),
        ((HEADER + "a,.5,.5\n").encode("utf-16"), "is not in UTF-8: save it"),
        ((HEADER + "ä,.5,.5\n").encode("latin-1"), "is not in UTF-8: save it"),
        ((HEADER + 'a,".5,.5\nb,.5,.5\n').encode(), "cannot be read: .*EOF inside string"),
        ((HEADER + "a,.5,.5,.5\nb,.5,.5\n").encode(), "cannot be read: a row has more cells"),
        ((HEADER + "a,.5,.5\nb,.5,.5,.5\n").encode(), "cannot be read: .*Expected 3 fields in line 3, saw 4"),
        ((HEADER + "a,.5,.5,.5\nb,.5,.5,.5\n").encode(), "cannot be read: a row has more cells"),
    ],
)
@pytest.mark.parametrize("id_column", [None, "id"])
def test_damaged_files_are_named(content, message, id_column, tmp_path):
    path = tmp_path / "site.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=rf"site\.csv {message}"):
        read_answers([path], id_column=id_column, ignore=["id"])


def test_damaged_archives_and_tables_are_named(tmp_path):
    for name, content in {
        "a.csv.gz": b"no gzip",
        "b.csv.gz": gzip.compress(b"cat,dog\n" + b".5,.5\n" * 999)[:-9],
        "c.csv.xz": b"no xz",
        "d.parquet": b"",
        "e.parquet": b"PAR1" + b"x" * 99 + b"PAR1",
    }.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match=rf"{name} cannot be read"):
            read_answers([tmp_path / name])


@pytest.mark.parametrize("scale", ["proba", "percent", "log_proba", "logits"])
@pytest.mark.parametrize("abstain", [False, True])
@pytest.mark.parametrize("row", [[np.inf, 0.0], [np.inf, -np.inf], [-np.inf, -np.inf], [np.inf, np.inf]])
def test_infinities_are_an_error(row, abstain, scale):
    frame = pd.DataFrame([[0.0, -np.inf] if "log" in scale else [1.0, 0.0], row], columns=["cat", "dog"])
    with pytest.raises(ValueError, match=r"sources\[0\] has infinite values in row 1: replace them"):
        read_answers([frame], scale=scale, abstain=abstain)
    if scale == "logits":
        log_p, _ = read_answers([frame[:1]], scale=scale, abstain=abstain)
        assert np.isfinite(log_p).all(), "a masked class gets the floor"


def test_labels_instead_of_probabilities(tmp_path):
    labels = ["cat", "NA", "dog", "cat", "cat"]
    frame = pd.DataFrame({"id": list("vwxyz"), "said": labels, "note": 0})
    frame.to_csv(tmp_path / "a.csv", index=False)
    frame.to_parquet(tmp_path / "a.parquet")
    for source in (frame, tmp_path / "a.csv", tmp_path / "a.parquet"):
        for rows in (2, 100):
            log_p, (classes,) = read_answers(
                [source], id_column="id", ids=list("zyxwv"), ignore=["note"], scale="labels", chunk_rows=rows
            )
            assert classes == ["NA", "cat", "dog"]
            assert_allclose(np.exp(log_p).max(axis=1), 0.9)
            assert np.array(classes)[log_p.argmax(axis=1)].tolist() == labels[::-1]
            assert_allclose(np.exp(log_p).sum(axis=1), 1)


def test_numbers_as_labels_and_silence(tmp_path):
    frame = pd.DataFrame({"label": [3, 1, None, 1]})
    frame.to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "b.csv").write_text('label\n3\n1\n""\n1\n')
    for source, kind in ((frame, None), (tmp_path / "b.csv", int)):
        log_p, (classes,) = read_answers([source], scale="labels", abstain=True, class_type=kind, accuracy=0.75)
        assert classes == [1, 3]
        assert_allclose(np.exp(log_p), [[0.25, 0.75], [0.75, 0.25], [np.nan] * 2, [0.75, 0.25]])
        with pytest.raises(ValueError, match="no label in row 2: with abstain=True"):
            read_answers([source], scale="labels")


@pytest.mark.parametrize(
    ("column", "accuracy", "message"),
    [
        (["a", "a"], 0.9, "holds only the label a: labels must be of two"),
        ([0.2, 0.8], 0.9, 'names or numbers of classes, got .*leave scale="labels" out'),
        (["a", 1], 0.9, "names or numbers of classes"),
        ([["a"], ["b"]], 0.9, "names or numbers of classes"),
        (["a", "b", "c"], 0.9, "another label in every row: is this a column of ids"),
        (["a", "b"], 0.5, "accuracy=0.5 is no better than chance for the 2 classes"),
        (["a", "b"], 1.0, "accuracy must be a number between 0 and 1, got 1.0"),
    ],
)
def test_labels_that_cannot_be_used(column, accuracy, message):
    with pytest.raises(ValueError, match=message):
        read_answers([pd.DataFrame({"label": column})], scale="labels", accuracy=accuracy)
    with pytest.raises(ValueError, match=r"has the columns \['label', 'b'\], but .*needs a single one"):
        read_answers([pd.DataFrame({"label": column, "b": column})], scale="labels")


def test_merging_clients_that_send_labels_only():
    """Four clients with three classes each send labels; a student of their merge knows all classes."""
    X, y = load_digits(return_X_y=True)
    X, lists = X / 16, [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7], [6, 7, 8, 9, 0], [1, 2, 5, 8, 9]]
    own = [np.isin(y[:900], known) for known in lists]
    clients = [LogisticRegression(max_iter=500).fit(X[:900][rows], y[:900][rows]) for rows in own]
    sent = [pd.DataFrame({"label": client.predict(X[900:1400])}) for client in clients]
    log_p, class_lists = read_answers(sent, scale="labels")
    assert class_lists == lists or [sorted(known) for known in lists] == class_lists
    student = LogisticRegression(max_iter=500)
    clf = HeterogeneousDistiller(None, student, class_lists=class_lists).fit(X[900:1400], log_p=log_p)
    assert clf.score(X[1400:], y[1400:]) > 0.7
