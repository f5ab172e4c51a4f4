"""Torch modules and skorch nets as teachers."""

import warnings

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from skorch import NeuralNetClassifier
from torch import nn
from torch.utils.data import TensorDataset

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TeacherOutputs, TorchTeacher
from tests.networks.helpers import Small, net


def test_torch_teacher_gives_the_modules_answers(images, module):
    X, y = images
    teacher = TorchTeacher(module, list("abcdef"), batch_size=100, device="cpu")
    with torch.no_grad():
        expected = module(torch.as_tensor(X)).softmax(dim=1).numpy()
    np.testing.assert_allclose(teacher.predict_proba(X), expected, atol=1e-6)
    np.testing.assert_allclose(np.exp(teacher.predict_log_proba(X)), expected, atol=1e-6)
    assert set(teacher.predict(X)) <= set("abcdef")
    known = y < 6
    assert (teacher.predict(X[known]) == np.array(list("abcdef"))[y[known]]).mean() > 0.8


def test_torch_teacher_reads_whatever_holds_images(images, module):
    X, y = images
    teacher = TorchTeacher(module, list(range(6)), device="cpu")
    expected = teacher.predict_proba(X)
    for other in (torch.as_tensor(X), X.astype(float), TensorDataset(torch.as_tensor(X), torch.as_tensor(y))):
        np.testing.assert_allclose(teacher.predict_proba(other), expected, atol=1e-6)
    halved = TorchTeacher(module, list(range(6)), device="cpu", preprocess=lambda batch: batch / 2)
    np.testing.assert_allclose(halved.predict_proba(2 * X), expected, atol=1e-6)
    mixed = TorchTeacher(module, list(range(6)), device="cpu", dtype=torch.bfloat16)
    np.testing.assert_allclose(mixed.predict_proba(X), expected, atol=0.05)


def test_torch_teacher_leaves_the_module_as_it_was(images, module):
    X, _ = images
    module.train()
    module.body[1].eval()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    TorchTeacher(module, list(range(6)), device="cpu").predict(X[:10])
    assert module.training
    assert not module.body[1].training
    for name, value in module.state_dict().items():
        torch.testing.assert_close(value, before[name])


def test_torch_teacher_computes_on_the_device_and_the_module_stays_where_it_was():
    """Even if it fails there. The meta device stands for one that this machine may not have."""
    seen = []

    class Spy(nn.Linear):
        def forward(self, X):
            seen.append((X.device.type, self.weight.device.type))
            raise InterruptedError

    module = Spy(3, 2)
    weight = module.weight
    with pytest.raises(InterruptedError):
        TorchTeacher(module, [0, 1], device="meta").predict(np.zeros((4, 3)))
    assert seen == [("meta", "meta")]
    assert module.weight is weight
    assert weight.device.type == "cpu"


def test_torch_teacher_refuses_probabilities(images):
    with pytest.raises(ValueError, match=r"Small returns probabilities.*logits"):
        TorchTeacher(Small(6, probabilities=True), list(range(6)), device="cpu").predict(images[0][:5])


def test_torch_teacher_with_the_wrong_number_of_outputs(images, module):
    with pytest.raises(ValueError, match=r"Small gave an output of shape \(5, 6\) for 5 rows and 3 classes"):
        TorchTeacher(module, [0, 1, 2], device="cpu").predict(images[0][:5])


def test_auto_finds_a_device(images, module):
    assert TorchTeacher(module, list(range(6))).predict_proba(images[0][:5]).shape == (5, 6)


def test_a_skorch_net_is_a_teacher(images):
    X, y = images
    rows = y[:500] < 4
    torch.manual_seed(0)
    trained = net(module__n_out=4, criterion=nn.CrossEntropyLoss).fit(X[:500][rows], y[:500][rows])
    log_p = TeacherOutputs([trained]).fit_transform(X)
    np.testing.assert_allclose(np.exp(log_p), trained.predict_proba(X), atol=1e-5)


def test_networks_read_frames_of_polars():
    X = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    frame = pl.DataFrame(X, schema=["a", "b", "c"])
    module = nn.Linear(3, 2)
    trained = NeuralNetClassifier(module, criterion=nn.CrossEntropyLoss, classes=[0, 1]).initialize()
    for teacher in (trained, TorchTeacher(module, [0, 1], device="cpu")):
        log_p = TeacherOutputs([teacher]).fit_transform(frame)
        np.testing.assert_allclose(log_p, TeacherOutputs([teacher]).fit_transform(X), atol=1e-6)


def test_tags_of_what_has_none(teachers):
    """scikit-learn 1.6 and 1.7 warn whenever tags are read."""

    class Predicts:
        classes_ = [0, 1]

        def predict_proba(self, X):
            return np.full((len(X), 2), 0.5)

    linear = nn.Linear(64, 10)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for student in (linear, make_pipeline(StandardScaler(), linear), SoftLabelClassifier(linear)):
            assert not get_tags(HeterogeneousDistiller([*teachers, Predicts()], student)).input_tags.sparse
    assert not caught
