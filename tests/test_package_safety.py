"""What a malicious file could do to its reader: damaged and manipulated packages are rejected."""

import hashlib
import io
import json
import os
import stat
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper
from sklearn.linear_model import LogisticRegression

from sklearn_uhc import load_teacher, pack_teacher


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def write(path, members, sums=True, infos=None):
    """Write a package by hand, with correct checksums by default."""
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
    with pytest.raises(ValueError, match=r"does not belong in a package|directory is not that"):
        load_teacher(path)
    assert [p.name for p in tmp_path.iterdir()] == ["t"]
    missing = members_of(package)
    del missing["membership.onnx"]
    with pytest.raises(ValueError, match="does not belong in a package"):
        load_teacher(write(tmp_path / "t", missing | {name: b"x"}))


def test_links_encryption_and_other_compression_are_refused(package, tmp_path):
    members = members_of(package)
    link = zipfile.ZipInfo("model.onnx")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(ValueError, match="link"):
        load_teacher(write(tmp_path / "t", members, infos={"model.onnx": link}))
    packed = zipfile.ZipInfo("model.onnx")
    packed.compress_type = zipfile.ZIP_LZMA
    with pytest.raises(ValueError, match="compressed by a method"):
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
    with pytest.raises(ValueError, match="two members with the same name"):
        load_teacher(tmp_path / "t")


def test_bombs_are_refused_by_what_they_announce(package, tmp_path):
    bomb = write(tmp_path / "t", members_of(package) | {"model.onnx": bytes(2**24)})
    assert bomb.stat().st_size < 2**18
    with pytest.raises(ValueError, match="at most 1048576 are allowed"):
        load_teacher(bomb, max_size=2**20)
    card = write(tmp_path / "c", members_of(package) | {"card.json": bytes(2**21)})
    with pytest.raises(ValueError, match=r"'card.json' would have"):
        load_teacher(card)
    with pytest.raises(ValueError, match="but max_size is"):
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
    with pytest.raises(ValueError, match="directory is not that"):
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
    with pytest.raises(ValueError, match="gives other answers"):
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
    with pytest.raises(ValueError, match="'If' holds a graph of its own" if nested else "weights in another file"):
        load_teacher(write(tmp_path / "t", members | {"model.onnx": model.SerializeToString()}))


def test_operators_of_others_are_refused(package, tmp_path):
    members = members_of(package)
    model = onnx.load_from_string(members["model.onnx"])
    model.graph.node.append(helper.make_node("PyOp", ["X"], ["out"], domain="ai.onnx.contrib"))
    with pytest.raises(ValueError, match=r"operators of 'ai.onnx.contrib'"):
        load_teacher(write(tmp_path / "t", members | {"model.onnx": model.SerializeToString()}))


def test_a_loop_that_need_not_end_is_refused(package, tmp_path):
    members = members_of(package)
    model = onnx.load_from_string(members["model.onnx"])
    body = helper.make_graph([], "body", [], [])
    model.graph.node.append(helper.make_node("Loop", ["", ""], [], body=body))
    with pytest.raises(ValueError, match="'Loop' holds a graph of its own, which may run forever"):
        load_teacher(write(tmp_path / "t", members | {"model.onnx": model.SerializeToString()}))


def test_a_model_that_wants_a_petabyte_is_an_error(package, tmp_path):
    members = members_of(package)
    model = onnx.load_from_string(members["model.onnx"])
    (last,) = [node for node in model.graph.node if "probabilities" in node.output]
    last.output[0] = "small"
    shape = helper.make_tensor("shape", TensorProto.INT64, [2], [2**24, 2**24])
    model.graph.initializer.append(shape)
    model.graph.node.append(helper.make_node("ConstantOfShape", ["shape"], ["large"]))
    model.graph.node.append(helper.make_node("ReduceMax", ["large"], ["top"], keepdims=0))
    model.graph.node.append(helper.make_node("Cast", ["top"], ["double"], to=TensorProto.DOUBLE))
    model.graph.node.append(helper.make_node("Add", ["small", "double"], ["probabilities"]))
    with pytest.raises(ValueError, match=r"fails on its own example rows|cannot be loaded"):
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
        {"classes": ["a\0", "a", "b", "c"]},
        {"classes": [float("nan"), 1.0, 2.0, 3.0]},
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
    with pytest.raises(ValueError, match="not a usable teacher package"):
        load_teacher(write(tmp_path / "t", members | {"card.json": json.dumps(card).encode()}))


@pytest.mark.parametrize(
    "text", ["", "[", "[" * 100_000, "null", "{}", '{"inputs": {"X": "a"}, "answers": [[1]]}', "1" * 5000]
)
@pytest.mark.parametrize("name", ["card.json", "example.json", "checksums.json"])
def test_broken_json_is_an_error(name, text, package, tmp_path):
    members = members_of(package) | {name: text.encode()}
    with pytest.raises(ValueError, match="not a usable teacher package"):
        load_teacher(write(tmp_path / "t", members, sums=name != "checksums.json"))


@pytest.mark.parametrize("content", [b"", b"PK", b"x" * 100, io.BytesIO().getvalue()])
def test_files_that_are_no_packages(content, tmp_path):
    (tmp_path / "t").write_bytes(content)
    with pytest.raises(ValueError, match="not a zip file"):
        load_teacher(tmp_path / "t")


def test_loading_needs_neither_pickle_nor_converters(package, data):
    """A receiver has numpy, scipy, scikit-learn, onnx and onnxruntime; pickle is disabled."""
    code = f"""
import pickle, sys
import numpy as np
from sklearn.linear_model import LogisticRegression
import sklearn_uhc, onnxruntime
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("skl2onnx", "onnxmltools", "onnxscript", "torch", "lightgbm", "xgboost"):
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
