"""Teacher packages: every kind of model in, the same answers out, and nothing that a file could do to its reader."""

import hashlib
import io
import json
import os
import pickle
import stat
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier

from sklearn_uhc import HeterogeneousDistiller, TeacherOutputs, load_teacher, pack_teacher

MODELS = [
    LogisticRegression(),
    make_pipeline(StandardScaler(), LogisticRegression()),
    make_pipeline(StandardScaler(), ExtraTreesClassifier(10, random_state=0)),
    RandomForestClassifier(10, random_state=0),
    DecisionTreeClassifier(random_state=0),
    GradientBoostingClassifier(n_estimators=5),
    HistGradientBoostingClassifier(max_iter=10),
    AdaBoostClassifier(n_estimators=5, random_state=0),
    KNeighborsClassifier(),
    GaussianNB(),
    LinearDiscriminantAnalysis(),
    MLPClassifier(max_iter=1000, random_state=0),
    SVC(),
    CalibratedClassifierCV(LogisticRegression(), cv=2),
    VotingClassifier([("a", LogisticRegression()), ("b", GaussianNB())], voting="soft"),
    GridSearchCV(LogisticRegression(), {"C": [0.1, 1]}, cv=2),
]


def log_answers(model, X):
    return TeacherOutputs([model], floor=1e-9).fit_transform(X)


@pytest.fixture(scope="module")
def package(data, tmp_path_factory):
    X, y = data
    model = LogisticRegression().fit(X, np.array(["ash", "birch", "cedar", "düne"])[y])
    path = tmp_path_factory.mktemp("package") / "trees.teacher"
    known = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y < 2)
    return pack_teacher(model, path, X, membership=known, description="four trees")


@pytest.mark.parametrize("two", [False, True], ids=["four classes", "two"])
@pytest.mark.parametrize("model", MODELS, ids=lambda m: str(m).split("(")[0] + ("+" if "steps" in str(m) else ""))
def test_models_of_scikit_learn_answer_the_same(model, two, data, tmp_path):
    X, y = data
    fitted = clone(model).fit(X[y < 2] if two else X, y[y < 2] if two else y)
    teacher = load_teacher(pack_teacher(fitted, tmp_path / "t", X))
    np.testing.assert_allclose(np.exp(log_answers(teacher, X)), np.exp(log_answers(fitted, X)), atol=1e-5)
    assert teacher.classes_.tolist() == fitted.classes_.tolist()
    clear = np.sort(teacher.predict_proba(X), axis=1)[:, -2] < 0.499
    assert (teacher.predict(X)[clear] == fitted.predict(X)[clear]).mean() > 0.98


@pytest.mark.parametrize("two", [False, True], ids=["four classes", "two"])
@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_boosters_answer_the_same(library, two, data, tmp_path):
    package = pytest.importorskip(library)
    X, y = data
    model = {
        "lightgbm": lambda: package.LGBMClassifier(n_estimators=10, verbose=-1),
        "xgboost": lambda: package.XGBClassifier(n_estimators=10),
        "catboost": lambda: package.CatBoostClassifier(iterations=10, verbose=0, allow_writing_files=False),
    }[library]()
    fitted = model.fit(X[y < 2] if two else X, y[y < 2] if two else y)
    teacher = load_teacher(pack_teacher(fitted, tmp_path / "t", X))
    np.testing.assert_allclose(teacher.predict_proba(X), fitted.predict_proba(X), atol=1e-5)


def test_a_lightgbm_model_with_categories(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.integers(0, 6, 400), rng.normal(size=400)]).astype(np.float32)
    y = (X[:, 0].astype(int) * 7 + 3) % 3
    model = lightgbm.LGBMClassifier(n_estimators=8, verbose=-1, min_data_per_group=5).fit(X, y, categorical_feature=[0])
    teacher = load_teacher(pack_teacher(model, tmp_path / "t", X))
    np.testing.assert_allclose(teacher.predict_proba(X), model.predict_proba(X), atol=1e-5)


def test_double_precision_is_kept(data, tmp_path):
    # The training rows themselves lie on the thresholds of histograms: single precision would send them elsewhere.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 3))
    y = (X.sum(axis=1) + rng.normal(size=2000) > 0).astype(int)
    model = HistGradientBoostingClassifier(max_iter=20).fit(X, y)
    assert np.abs(model.predict_proba(X) - model.predict_proba(X.astype(np.float32))).max() > 1e-3
    teacher = load_teacher(pack_teacher(model, tmp_path / "t", X))
    np.testing.assert_allclose(teacher.predict_proba(X), model.predict_proba(X), atol=1e-6)


def test_frames_have_their_columns_by_name(data, tmp_path):
    pd = pytest.importorskip("pandas")
    X, y = data
    frame = pd.DataFrame(X, columns=["a", "b (cm)", "c", "d"])
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(frame, y)
    teacher = load_teacher(pack_teacher(model, tmp_path / "t", frame))
    assert teacher.feature_names_in_.tolist() == ["a", "b (cm)", "c", "d"]
    other = frame[["d", "c", "b (cm)", "a"]].assign(more=1)
    np.testing.assert_allclose(teacher.predict_proba(other), model.predict_proba(frame), atol=1e-5)
    assert [entry["name"] for entry in teacher.card_["inputs"]] == ["a", "b (cm)", "c", "d"]


def test_classes_may_be_renamed(data, tmp_path):
    X, y = data
    model = LogisticRegression().fit(X, y)
    names = ["z", "y", "x", "w"]
    teacher = load_teacher(pack_teacher(model, tmp_path / "t", X, classes=names))
    assert teacher.classes_.tolist() == names
    assert (teacher.predict(X) == np.array(names)[model.predict(X)]).all()
    with pytest.raises(ValueError, match="names 2 classes"):
        pack_teacher(model, tmp_path / "t", X, classes=["a", "b"])
    with pytest.raises(ValueError, match="twice"):
        pack_teacher(model, tmp_path / "t", X, classes=["a", "b", "a", "c"])


def test_what_the_card_says_and_what_comes_along(package, data):
    X, _ = data
    teacher = load_teacher(package)
    card = teacher.card_
    assert (card["description"], card["model"]) == ("four trees", "LogisticRegression")
    assert card["classes"] == ["ash", "birch", "cedar", "düne"]
    assert card["inputs"] == [{"name": "X", "dtype": "float64", "shape": [4]}]
    assert card["versions"]["scikit-learn"]
    known = teacher.membership_.predict_membership(X)
    assert known.shape == (len(X),)
    assert ((known >= 0) & (known <= 1)).all()
    for copy in (clone(teacher), pickle.loads(pickle.dumps(teacher))):
        np.testing.assert_array_equal(copy.predict_proba(X), teacher.predict_proba(X))
        np.testing.assert_array_equal(copy.membership_.predict_membership(X), known)


def test_membership_is_the_second_probability_or_refused(data, tmp_path):
    X, y = data
    model, judge = LogisticRegression().fit(X, y), LogisticRegression().fit(X, y < 2)

    class Scorer:
        classifier_ = judge
        power = 1.0

        def predict_membership(self, X):
            return judge.predict_proba(X)[:, 1] ** self.power

    teacher = load_teacher(pack_teacher(model, tmp_path / "t", X, membership=Scorer()))
    np.testing.assert_allclose(teacher.membership_.predict_membership(X), judge.predict_proba(X)[:, 1], atol=1e-5)
    Scorer.power = 2.0
    with pytest.raises(TypeError, match="not the second probability"):
        pack_teacher(model, tmp_path / "t", X, membership=Scorer())
    with pytest.raises(TypeError, match="two classes"):
        pack_teacher(model, tmp_path / "t", X, membership=model)


def test_how_many_rows_are_stored(data, tmp_path):
    X, y = data
    model = LogisticRegression().fit(X, y)
    for n in (0, 1, 7):
        path = pack_teacher(model, tmp_path / "t", X, n_examples=n)
        assert len(json.loads(zipfile.ZipFile(path).read("example.json"))["answers"]) == n
        load_teacher(path)
    with pytest.raises(ValueError, match="n_examples"):
        pack_teacher(model, tmp_path / "t", X, n_examples=-1)


def test_the_same_model_gives_the_same_file(data, tmp_path):
    X, y = data
    model = LogisticRegression().fit(X, y)
    files = [pack_teacher(model, tmp_path / name, X).read_bytes() for name in "ab"]
    assert files[0] == files[1]


def test_missing_values_in_example_rows(data, tmp_path):
    X, y = data
    holes = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)
    model = HistGradientBoostingClassifier(max_iter=5).fit(holes, y)
    teacher = load_teacher(pack_teacher(model, tmp_path / "t", holes))
    np.testing.assert_allclose(teacher.predict_proba(holes), model.predict_proba(holes), atol=1e-5)


def test_what_cannot_be_packed_is_refused_before_anything_is_written(data, tmp_path):
    X, y = data
    path = tmp_path / "t"
    with pytest.raises(TypeError, match="fitted classifier"):
        pack_teacher(LogisticRegression(), path, X)
    with pytest.raises(TypeError, match="fitted classifier"):
        pack_teacher(Ridge().fit(X, y), path, X)
    with pytest.raises(TypeError, match="is a file"):
        pack_teacher("model.pkl", path, X)
    with pytest.raises(FileNotFoundError, match="no folder"):
        pack_teacher(LogisticRegression().fit(X, y), tmp_path / "none" / "t", X)

    class Own:
        classes_ = np.arange(4)

        def predict_proba(self, X):
            return np.full((len(X), 4), 0.25)

    with pytest.raises(TypeError, match="Own cannot be written as ONNX"):
        pack_teacher(Own(), path, X)
    nearest = KNeighborsClassifier(weights="distance").fit(X, y)
    with pytest.raises(TypeError, match=r"(not those of the original|cannot be written)"):
        pack_teacher(nearest, path, X)
    assert list(tmp_path.iterdir()) == []


def test_frozen_models_and_merged_ones_can_be_packed(data, tmp_path):
    X, y = data
    frozen = FrozenEstimator(LogisticRegression().fit(X, y))
    np.testing.assert_allclose(
        load_teacher(pack_teacher(frozen, tmp_path / "t", X)).predict_proba(X), frozen.predict_proba(X), atol=1e-5
    )
    teachers = [LogisticRegression().fit(X[y != k], y[y != k]) for k in (0, 1)]
    merged = HeterogeneousDistiller(teachers, RandomForestClassifier(5, random_state=0)).fit(X)
    teacher = load_teacher(pack_teacher(merged, tmp_path / "m", X))
    np.testing.assert_allclose(teacher.predict_proba(X), merged.predict_proba(X), atol=1e-5)


# What a file could do to its reader.


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def write(path, members, sums=True, infos=None):
    """Write a package by hand, with right checksums unless told otherwise."""
    if sums:
        known = {k: hashlib.sha256(v).hexdigest() for k, v in members.items() if k != "checksums.json"}
        members = members | {"checksums.json": json.dumps(known).encode()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr((infos or {}).get(name, name), content)
    return path


@pytest.mark.parametrize("name", ["../evil", "/etc/evil", "C:\\evil", "sub/model.onnx", "evil.pkl", "model.onnx/"])
def test_members_of_other_names_are_refused(name, package, tmp_path):
    path = write(tmp_path / "t", members_of(package) | {name: b"x"})
    with pytest.raises(ValueError, match=r"no place in a package|directory is not that"):
        load_teacher(path)
    assert [p.name for p in tmp_path.iterdir()] == ["t"]
    missing = members_of(package)
    del missing["membership.onnx"]
    with pytest.raises(ValueError, match="no place in a package"):
        load_teacher(write(tmp_path / "t", missing | {name: b"x"}))


def test_links_encryption_and_other_compression_are_refused(package, tmp_path):
    members = members_of(package)
    link = zipfile.ZipInfo("model.onnx")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(ValueError, match="link"):
        load_teacher(write(tmp_path / "t", members, infos={"model.onnx": link}))
    packed = zipfile.ZipInfo("model.onnx")
    packed.compress_type = zipfile.ZIP_LZMA
    with pytest.raises(ValueError, match="compressed in a way"):
        load_teacher(write(tmp_path / "t", members, infos={"model.onnx": packed}))
    content = bytearray(package.read_bytes())
    entry = content.index(b"PK\x01\x02")
    content[entry + 8] |= 1  # the flag of encryption in the directory
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(ValueError, match="encrypted"):
        load_teacher(tmp_path / "t")


def test_two_members_of_one_name_are_refused(package, tmp_path):
    members = members_of(package)
    del members["membership.onnx"]
    with zipfile.ZipFile(tmp_path / "t", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("model.onnx", b"other")
    with pytest.raises(ValueError, match="two members of one name"):
        load_teacher(tmp_path / "t")


def test_bombs_are_refused_by_what_they_announce(package, tmp_path):
    bomb = write(tmp_path / "t", members_of(package) | {"model.onnx": bytes(2**24)})
    assert bomb.stat().st_size < 2**18
    with pytest.raises(ValueError, match="at most 1048576 are allowed"):
        load_teacher(bomb, max_size=2**20)
    card = write(tmp_path / "c", members_of(package) | {"card.json": bytes(2**21)})
    with pytest.raises(ValueError, match=r"'card.json' would have"):
        load_teacher(card)
    with pytest.raises(ValueError, match="max_size allows"):
        load_teacher(package, max_size=100)


def test_a_bomb_that_lies_about_its_size_is_stopped_there(package, tmp_path):
    content = bytearray(write(tmp_path / "t", members_of(package) | {"model.onnx": bytes(2**24)}).read_bytes())
    size = struct.pack("<I", 2**24)
    assert content.count(size) == 2
    (tmp_path / "t").write_bytes(content.replace(size, struct.pack("<I", 1000)))
    with pytest.raises(ValueError, match="damaged"):
        load_teacher(tmp_path / "t")


def test_a_directory_of_a_million_members_is_not_read(package, tmp_path):
    content = bytearray(package.read_bytes())
    content[-12:-10] = struct.pack("<H", 60000)
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(ValueError, match="directory is not that of a package"):
        load_teacher(tmp_path / "t")


def test_pipes_and_folders_are_no_packages(tmp_path):
    with pytest.raises(ValueError, match="no regular file"):
        load_teacher(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ValueError, match="no regular file"):
            load_teacher(tmp_path / "pipe")


@pytest.mark.parametrize("name", ["card.json", "model.onnx", "membership.onnx", "example.json"])
def test_a_changed_member_is_noticed_by_its_checksum(name, package, tmp_path):
    members = members_of(package)
    changed = members[name][:-1] + bytes([members[name][-1] ^ 1])
    with pytest.raises(ValueError, match="checksums"):
        load_teacher(write(tmp_path / "t", members | {name: changed}, sums=False))
    del members[name]
    with pytest.raises(ValueError, match=r"lacks|checksums"):
        load_teacher(write(tmp_path / "t", members, sums=False))


def test_another_model_with_right_checksums_is_noticed_by_its_answers(package, data, tmp_path):
    X, y = data
    other = pack_teacher(LogisticRegression(C=0.01).fit(X, y), tmp_path / "o", X)
    members = members_of(package) | {"model.onnx": members_of(other)["model.onnx"]}
    with pytest.raises(ValueError, match="does not answer the example rows"):
        load_teacher(write(tmp_path / "t", members))
    narrow = pack_teacher(LogisticRegression().fit(X[:, :2], y), tmp_path / "o", X[:, :2])
    with pytest.raises(ValueError, match="other inputs than the card"):
        load_teacher(write(tmp_path / "t", members | {"model.onnx": members_of(narrow)["model.onnx"]}))


def nest(model, tensor):
    """Hide a constant in the body of an If, in a node of the graph."""
    body = helper.make_graph([], "body", [], [helper.make_tensor_value_info("w", 1, [1])], initializer=[tensor])
    node = helper.make_node("If", ["condition"], ["never"], then_branch=body, else_branch=body)
    condition = helper.make_tensor("condition", TensorProto.BOOL, [], [True])
    model.graph.initializer.append(condition)
    model.graph.node.append(node)


@pytest.mark.parametrize("nested", [False, True])
def test_a_model_that_wants_to_read_files_is_refused(nested, package, tmp_path):
    members = members_of(package)
    model = onnx.load_from_string(members["model.onnx"])
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="/etc/passwd")
    if nested:
        nest(model, tensor)
    else:
        model.graph.initializer.append(tensor)
    with pytest.raises(ValueError, match="weights in another file"):
        load_teacher(write(tmp_path / "t", members | {"model.onnx": model.SerializeToString()}))


def test_operators_of_others_are_refused(package, tmp_path):
    members = members_of(package)
    model = onnx.load_from_string(members["model.onnx"])
    model.graph.node.append(helper.make_node("PyOp", ["X"], ["out"], domain="ai.onnx.contrib"))
    with pytest.raises(ValueError, match=r"operators of 'ai.onnx.contrib'"):
        load_teacher(write(tmp_path / "t", members | {"model.onnx": model.SerializeToString()}))


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"format_version": 2},
        {"classes": []},
        {"classes": ["a", "a", "b", "c"]},
        {"classes": ["a", 1, 2, 3]},
        {"classes": [[1], [2], [3], [4]]},
        {"classes": [10**40, 1, 2, 3]},
        {"classes": ["a", "b"]},
        {"inputs": []},
        {"inputs": [{"name": "X", "dtype": "object", "shape": [4]}]},
        {"inputs": [{"name": "X", "dtype": "float64", "shape": [-1]}]},
        {"inputs": [{"name": "Y", "dtype": "float64", "shape": [4]}]},
        {"inputs": [{"name": "X", "dtype": "float64", "shape": [2**30]}]},
        {"membership": None},
        {"membership": 3},
        {"versions": None},
        {"versions": {"a": 1}},
        {"tolerance": "much"},
        {"description": None},
    ],
)
def test_cards_are_checked(change, package, tmp_path):
    members = members_of(package)
    card = json.loads(members["card.json"]) | change
    with pytest.raises(ValueError, match="not a teacher package that can be used"):
        load_teacher(write(tmp_path / "t", members | {"card.json": json.dumps(card).encode()}))


@pytest.mark.parametrize(
    "text", ["", "[", "[" * 100_000, "null", "{}", '{"inputs": {"X": "a"}, "answers": [[1]]}', "1" * 5000]
)
@pytest.mark.parametrize("name", ["card.json", "example.json", "checksums.json"])
def test_broken_json_is_an_error(name, text, package, tmp_path):
    members = members_of(package) | {name: text.encode()}
    with pytest.raises(ValueError, match="not a teacher package that can be used"):
        load_teacher(write(tmp_path / "t", members, sums=name != "checksums.json"))


@pytest.mark.parametrize("content", [b"", b"PK", b"x" * 100, io.BytesIO().getvalue()])
def test_files_that_are_no_packages(content, tmp_path):
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(ValueError, match="no zip file"):
        load_teacher(tmp_path / "t")


def test_loading_needs_neither_pickle_nor_converters(package, data):
    """A receiver has numpy, scipy, scikit-learn and onnxruntime; pickle is switched off."""
    code = f"""
import pickle, sys
import numpy as np
from sklearn.linear_model import LogisticRegression
import sklearn_uhc, onnxruntime
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("onnx", "skl2onnx", "onnxmltools", "onnxscript", "torch", "lightgbm", "xgboost"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Hidden())
def refuse(*args, **kwargs):
    raise AssertionError("pickle")
pickle.load = pickle.loads = pickle.Unpickler = refuse
np.load = refuse
teacher = sklearn_uhc.load_teacher({str(package)!r})
print(teacher.predict(np.zeros((1, 4))))
"""
    root = str(Path(__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": root}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()[2:-2] in ("ash", "birch", "cedar", "düne")
