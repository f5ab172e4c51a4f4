"""Networks in packages and in ONNX files."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from skorch import NeuralNet, NeuralNetClassifier
from torch import nn

from sklearn_uhc import (
    HeterogeneousDistiller,
    LogitFactorization,
    SoftLabelClassifier,
    TorchTeacher,
    export,
    load_teacher,
    pack_teacher,
)


@pytest.fixture(scope="module")
def images():
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 1, 8, 8)).astype(np.float32)
    return X, rng.dirichlet([1, 1, 1], 60)


def cnn():
    layers = [nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3), nn.Flatten()]
    return nn.Sequential(*layers, nn.Linear(36, 3))


def test_modules_and_torch_teachers_are_packed_as_they_are_read(images, tmp_path):
    X, _ = images
    module = cnn().train()
    state = {name: value.clone() for name, value in module.state_dict().items()}
    own = TorchTeacher(module, ["a", "b", "c"], device="cpu").predict_log_proba(X)
    teacher = load_teacher(pack_teacher(module, tmp_path / "t", X, classes=["a", "b", "c"]))
    np.testing.assert_allclose(teacher.predict_log_proba(X), own, atol=1e-4)  # the tail as well
    assert teacher.classes_.tolist() == ["a", "b", "c"]
    assert module.training  # nothing was changed
    assert all(torch.equal(value, state[name]) for name, value in module.state_dict().items())
    scaled = TorchTeacher(module, ["a", "b", "c"], device="cpu", preprocess=lambda batch: (batch - 0.5) / 2)
    teacher = load_teacher(pack_teacher(scaled, tmp_path / "s", X))
    np.testing.assert_allclose(teacher.predict_proba(X), scaled.predict_proba(X), atol=1e-5)
    with pytest.raises(ValueError, match="does not know its classes"):
        pack_teacher(module, tmp_path / "n", X)


def test_the_owners_source_does_not_travel_along(images, tmp_path):
    X, _ = images
    path = pack_teacher(cnn(), tmp_path / "t", X, classes=[0, 1, 2])
    model = onnx.load_from_string(load_teacher(path).model)
    assert all(not node.metadata_props and not node.doc_string for node in model.graph.node)
    assert b".py" not in model.SerializeToString()


@pytest.mark.parametrize("criterion", [nn.CrossEntropyLoss, nn.NLLLoss])
def test_skorch_nets(criterion, images, tmp_path):
    X, Q = images
    module = cnn() if criterion is nn.CrossEntropyLoss else nn.Sequential(*cnn(), nn.Softmax(dim=-1))
    net = NeuralNetClassifier(module, criterion=criterion, max_epochs=2, verbose=0, train_split=None)
    net.fit(X, Q.argmax(axis=1))
    teacher = load_teacher(pack_teacher(net, tmp_path / "t", X))
    np.testing.assert_allclose(teacher.predict_proba(X), net.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("method", ["mf_lf", LogitFactorization(scale="free")])
def test_students_by_backpropagation(method, images, tmp_path):
    X, _ = images
    modules = [nn.Sequential(nn.Flatten(), nn.Linear(64, 2)) for _ in range(2)]
    teachers = [TorchTeacher(modules[i], names, device="cpu") for i, names in enumerate([["a", "b"], ["b", "c"]])]
    net = NeuralNet(cnn(), criterion=nn.CrossEntropyLoss, max_epochs=2, verbose=0, train_split=None)
    clf = HeterogeneousDistiller(teachers, net, method=method, backprop=True).fit(X)
    check(clf, X, tmp_path / "m.onnx")


def test_students_on_soft_labels(images, tmp_path):
    X, Q = images
    for module in (cnn(), nn.Sequential(*cnn(), nn.Softmax(dim=-1))):
        net = NeuralNet(module, criterion=nn.CrossEntropyLoss, max_epochs=2, verbose=0, train_split=None)
        check(SoftLabelClassifier(net, temperature=3, classes=["x", "y", "z"]).fit(X, Q), X, tmp_path / "m.onnx")


def check(clf, X, path):
    export(clf, path, X)
    label, proba = onnxruntime.InferenceSession(path).run(None, {"X": X})
    np.testing.assert_allclose(proba, clf.predict_proba(X), atol=1e-5)
    assert (label == clf.predict(X)).all()
