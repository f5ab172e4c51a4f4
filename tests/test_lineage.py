"""Who took part in a merge: recorded by `fit`, carried by pickles, ONNX files and packages, and untrusted when read."""

import hashlib
import json
import pickle
from datetime import datetime, timezone

import numpy as np
import onnxruntime
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from sklearn_uhc import (
    HeterogeneousDistiller,
    OnnxTeacher,
    RemoteTeacher,
    UnifiedEnsemble,
    export,
    load_teacher,
    pack_teacher,
)
from sklearn_uhc.estimators.lineage import LONGEST, lineage_from_json
from sklearn_uhc.packages.archive import CARD, PackageError, read_archive, write_archive

NAMES = np.array(["ash", "birch", "cedar", "düne"])


def teacher(data, known):
    X, y = data
    own = np.isin(y, known)
    return LogisticRegression().fit(X[own], NAMES[y[own]])


@pytest.fixture(scope="module")
def merged(data, package):
    teachers = {"north": load_teacher(package), "south": teacher(data, [1, 2, 3])}
    labels = [*NAMES[data[1]][:10], *[None] * 290]
    prior = dict.fromkeys(NAMES.tolist(), 0.25)
    student = DecisionTreeClassifier(max_depth=4, random_state=0)
    return HeterogeneousDistiller(teachers, student, class_prior=prior, temperature=2).fit(data[0], labels)


def test_it_says_who_took_part_and_how(merged, package):
    told = merged.lineage_
    north, south = told["teachers"]
    assert (north["name"], north["sha256"]) == ("north", hashlib.sha256(package.read_bytes()).hexdigest())
    assert "LogisticRegression" in north["type"]
    assert (south["name"], south["type"], south["classes"]) == ("south", "LogisticRegression", 3)
    assert south.keys() == {"name", "type", "classes"}
    assert (told["method"], told["temperature"], told["student"]) == ("ce", 2.0, "DecisionTreeClassifier")
    assert (told["rows"], told["labelled_rows"]) == (300, 10)
    assert told["class_prior"] == dict.fromkeys(NAMES.tolist(), 0.25)
    age = datetime.now(timezone.utc) - datetime.fromisoformat(told["date"])
    assert 0 <= age.total_seconds() < 3600
    assert json.loads(json.dumps(told)) == told


def test_findings_are_told(data):
    honest = teacher(data, [0, 1, 2, 3])
    swapped = LogisticRegression().fit(data[0], NAMES[[2, 3, 0, 1]][data[1]])
    clf = UnifiedEnsemble([honest, honest, honest, swapped]).fit(data[0])
    assert clf.lineage_["findings"] == [finding.says for finding in clf.merger_.findings_] != []


def test_pickles_and_files_carry_it(merged, data, tmp_path):
    assert pickle.loads(pickle.dumps(merged)).lineage_ == merged.lineage_
    assert pickle.loads(pickle.dumps(merged.student_)).lineage_ == merged.lineage_
    for clf in (merged, merged.student_):
        export(clf, tmp_path / "merged.onnx", data[0])
        metadata = onnxruntime.InferenceSession(tmp_path / "merged.onnx").get_modelmeta().custom_metadata_map
        assert lineage_from_json(metadata["lineage"]) == merged.lineage_
        packed = load_teacher(pack_teacher(clf, tmp_path / "merged.teacher", data[0]))
        assert packed.card_["lineage"] == merged.lineage_


def test_an_update_tells_the_new_teachers(data):
    clf = UnifiedEnsemble({"north": teacher(data, [0, 1, 2])}).fit(data[0])
    clf.update({"south": teacher(data, [1, 2, 3]), "north": None})
    assert [entry["name"] for entry in clf.lineage_["teachers"]] == ["south"]


def test_dask_collections_are_counted_too(data):
    dask_array = pytest.importorskip("dask.array")
    X = dask_array.from_array(data[0], chunks=(100, 4))
    student = DecisionTreeClassifier(max_depth=4, random_state=0)
    clf = HeterogeneousDistiller([teacher(data, [0, 1, 2]), teacher(data, [1, 2, 3])], student).fit(X)
    assert clf.lineage_["rows"] == 300
    assert clf.student_.lineage_ == clf.lineage_


def test_a_student_that_is_trained_again_loses_it(merged, data):
    student = pickle.loads(pickle.dumps(merged.student_))
    student.fit(data[0], np.full((300, 4), 0.25))
    assert not hasattr(student, "lineage_")


def test_servers_and_secrets_are_left_out(data):
    class Server(RemoteTeacher):
        def predict_log_proba(self, X):
            return np.log(np.full((len(X), 2), 0.5))

    server = Server("https://example.org/v2/models/secret", ["ash", "birch"], token_env="TOKEN", version="7")
    clf = UnifiedEnsemble({"server": server, "south": teacher(data, [0, 1, 2])}).fit(data[0])
    entry = clf.lineage_["teachers"][0]
    assert entry == {"name": "server", "type": "Server", "classes": 2, "version": "7"}
    assert not any(word in json.dumps(clf.lineage_) for word in ("secret", "TOKEN", "example.org"))


def test_an_onnx_file_has_its_checksum(merged, data, tmp_path):
    export(merged, tmp_path / "merged.onnx", data[0])
    content = (tmp_path / "merged.onnx").read_bytes()
    teachers = [OnnxTeacher(tmp_path / "merged.onnx"), OnnxTeacher(content)]
    found = UnifiedEnsemble(teachers).fit(data[0].astype(np.float32)).lineage_["teachers"]
    assert [entry["sha256"] for entry in found] == [hashlib.sha256(content).hexdigest()] * 2


def test_given_answers_have_names_only(data):
    P = np.full((300, 2), 0.5)
    clf = UnifiedEnsemble(None, class_lists={"a": ["x", "y"], "b": ["y", "z"]})
    clf.fit(data[0], log_p=np.log(np.hstack([P, P])))
    assert [entry["name"] for entry in clf.lineage_["teachers"]] == ["a", "b"]
    assert clf.lineage_["teachers"][0]["type"] == "answers"


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "3", "{", '{"a": NaN}', '{"a": Infinity}', "[" * 100_000, '{"a":' * 50 + "1" + "}" * 50),
        json.dumps({"a": "x" * LONGEST}),
    ],
    ids=range(9),
)
def test_lineage_in_a_file_is_bounded_and_plain(text):
    with pytest.raises(ValueError, match="lineage"):
        lineage_from_json(text)


def test_a_package_with_odd_lineage_is_refused(package, tmp_path):
    members = read_archive(package, 2**30)
    members.pop("checksums.json")
    for odd in ([1], "x", {"a": {"b": {"c": {"d": {"e": {"f": {"g": {"h": 1}}}}}}}}):
        card = json.loads(members[CARD]) | {"lineage": odd}
        write_archive(tmp_path / "odd.teacher", members | {CARD: json.dumps(card).encode()})
        with pytest.raises(PackageError, match="lineage"):
            load_teacher(tmp_path / "odd.teacher")
