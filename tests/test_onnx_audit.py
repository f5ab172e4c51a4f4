"""The audit of ONNX models from elsewhere sees what onnxruntime would run, whatever the bytes look like."""

import pickle

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from skl2onnx import to_onnx
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from sklearn_uhc import OnnxTeacher, load_teacher, pack_teacher
from sklearn_uhc.teachers.onnx_audit import MOST_PARTS, allowed_operators, audit_model
from sklearn_uhc.teachers.onnx_file import NotOnnxError, parse_onnx, read_onnx
from tests.fuzzing import message, overlong
from tests.test_package_safety import members_of, write

X, Y = load_iris(return_X_y=True)
X = X.astype(np.float32)


def model():
    return to_onnx(LogisticRegression(max_iter=500).fit(X, Y), X[:1], options={"zipmap": False})


def audited(content):
    return OnnxTeacher(content, output="probabilities", audit=True).predict_proba(X)


def with_node(**arguments):
    changed = model()
    changed.graph.node.append(helper.make_node(**{"inputs": ["X"], "outputs": ["unused"]} | arguments))
    return changed.SerializeToString()


NODE = message(2, b"unused") + message(4, b"Identity")
HIDDEN = {
    "an operator": message(1, NODE + overlong(4, b"Loop")),
    "a domain": message(1, NODE + overlong(7, b"com.microsoft")),
    "other weights": message(5, message(8, b"w") + overlong(13, message(1, b"location") + message(2, b"/etc/passwd"))),
    "a graph": message(1, NODE + message(5, message(1, b"body") + overlong(6, b""))),
}


@pytest.mark.parametrize("hidden", HIDDEN)
def test_tags_of_five_bytes_hide_nothing(hidden, package, tmp_path):
    """onnxruntime drops bit 32 of a tag, so a parser that keeps it sees an unknown field where there is a loop."""
    content = model().SerializeToString() + message(7, HIDDEN[hidden])
    with pytest.raises(ValueError, match="cannot be parsed"):
        audited(content)
    with pytest.raises(ValueError, match="cannot be parsed"):
        OnnxTeacher(content, output="probabilities").predict_proba(X)
    members = members_of(package)
    members["model.onnx"] += message(7, HIDDEN[hidden])
    with pytest.raises(ValueError, match=r"not a usable teacher package.*'model.onnx'.*cannot be parsed"):
        load_teacher(write(tmp_path / "t", members))


def test_unknown_fields_are_refused_by_the_audit_and_never_reach_onnxruntime():
    content = model().SerializeToString() + message(1000, b"secret")
    with pytest.raises(ValueError, match="fields that ONNX does not know"):
        audited(content)
    assert b"secret" in parse_onnx(content).SerializeToString()
    assert b"secret" not in read_onnx(parse_onnx(content)).content
    assert OnnxTeacher(content, output="probabilities").predict_proba(X).shape == (150, 3)


@pytest.mark.parametrize("op", ["If", "Loop", "Scan", "SequenceMap"])
def test_operators_with_graphs_are_refused_with_and_without_them(op):
    with pytest.raises(ValueError, match=f"'{op}' holds a graph"):
        audited(with_node(op_type=op, body=helper.make_graph([], "body", [], [])))
    with pytest.raises(ValueError, match=f"'{op}' is not allowed"):
        audited(with_node(op_type=op))
    assert ("", op) not in allowed_operators()
    assert {("", "Gemm"), ("ai.onnx.ml", "TreeEnsembleClassifier")} <= allowed_operators()


@pytest.mark.parametrize("domain", ["com.microsoft", "ai.onnx.contrib", "ai.onnx.training", "me"])
def test_operators_of_others_are_refused(domain):
    with pytest.raises(ValueError, match=f"operators of '{domain}', which are not part of ONNX"):
        audited(with_node(op_type="Gelu", domain=domain))


def test_functions_and_graphs_for_training_are_refused():
    changed = model()
    changed.functions.append(helper.make_function("me", "F", ["x"], ["x"], [], [helper.make_opsetid("", 15)]))
    with pytest.raises(ValueError, match="has functions, which are not allowed"):
        audited(changed.SerializeToString())
    changed = model()
    changed.training_info.add().algorithm.name = "steps"
    with pytest.raises(ValueError, match="has training_info, which are not allowed"):
        audited(changed.SerializeToString())


@pytest.mark.parametrize("where", ["initializer", "attribute", "sparse"])
def test_weights_in_other_files_are_refused_wherever_they_are(where):
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    changed = model()
    if where == "initializer":
        changed.graph.initializer.append(tensor)
    elif where == "sparse":
        changed.graph.sparse_initializer.add().values.CopyFrom(tensor)
    else:
        changed.graph.node.append(helper.make_node("Constant", [], ["w"], value=tensor))
    with pytest.raises(ValueError, match="keeps weights in another file, but must contain everything"):
        audited(changed.SerializeToString())


def test_what_onnx_itself_rejects_is_refused():
    with pytest.raises(ValueError, match=r"onnx.checker rejects it: .*undefined"):
        audited(with_node(op_type="Identity", inputs=["undefined"]))
    changed = model()
    changed.graph.node[0].op_type = b"\xff\xfe".decode("latin1")
    broken = changed.SerializeToString().replace("ÿþ".encode(), b"\xff\xfe\xff\xfe")
    with pytest.raises(ValueError, match=r"not UTF-8|is not allowed"):
        audited(broken)


@pytest.mark.parametrize("numbers", [[1], [5], [1, 5], [1, 5, 10]])
def test_millions_of_small_parts_are_refused_before_they_are_looked_at(numbers):
    inner = message(numbers.pop(), b"") * (MOST_PARTS + 1)
    while numbers:
        inner = message(numbers.pop(), inner)
    content = model().SerializeToString() + message(7, inner)
    with pytest.raises(NotOnnxError, match="more than 200,000 parts"):
        audit_model(parse_onnx(content))


def test_an_audited_teacher_answers_as_one_that_is_trusted():
    content = model().SerializeToString()
    plain = OnnxTeacher(content, output="probabilities")
    strict = OnnxTeacher(content, output="probabilities", audit=True)
    np.testing.assert_array_equal(strict.predict_proba(X), plain.predict_proba(X))
    assert strict.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="audit must be True or False, got 'yes'"):
        _ = OnnxTeacher(content, audit="yes").classes_
    strict.set_params(model=with_node(op_type="Loop"))
    with pytest.raises(ValueError, match="'Loop' is not allowed"):
        strict.predict_proba(X)


def test_a_packaged_teacher_is_audited_again_wherever_it_is_loaded(package):
    teacher = load_teacher(package)
    for copied in (clone(teacher), pickle.loads(pickle.dumps(teacher))):
        assert copied.audit
        copied.model = copied.model + message(7, HIDDEN["an operator"])
        with pytest.raises(ValueError, match="cannot be parsed"):
            copied.predict_proba(np.zeros((1, 4)))


def test_what_load_teacher_would_refuse_is_not_packed(tmp_path):
    nearest = KNeighborsClassifier(metric="manhattan").fit(X, Y)
    with pytest.raises(ValueError, match=r"KNeighborsClassifier cannot be packed.*'Scan' holds a graph.*Pack another"):
        pack_teacher(nearest, tmp_path / "t", X)
    assert list(tmp_path.iterdir()) == []


def test_the_example_of_the_attack():
    node = b"\x22\x08Identity" + overlong(4, b"Loop")
    content = b"\x3a" + bytes([len(node) + 2]) + b"\x0a" + bytes([len(node)]) + node
    with pytest.raises(NotOnnxError, match="cannot be parsed"):
        parse_onnx(content)
    assert onnx.ModelProto.FromString(b"").ByteSize() == 0
