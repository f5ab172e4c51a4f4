"""Tests on a GPU: `make gpu`. They could not be run where they were written."""

import numpy as np
import pytest
import torch

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TorchTeacher
from sklearn_uhc.merging import resolve_method
from sklearn_uhc.utils.device import resolve_device
from tests.networks.helpers import net

needs_gpu = pytest.mark.skipif(
    not (torch.cuda.is_available() or torch.backends.mps.is_available()), reason="there is no GPU"
)


@pytest.mark.gpu
@needs_gpu
def test_gpu_teacher_answers_as_on_the_cpu(images, module):
    X, _ = images
    on_gpu, on_cpu = (TorchTeacher(module, list(range(6)), device=d).predict_proba(X) for d in ("auto", "cpu"))
    np.testing.assert_allclose(on_gpu, on_cpu, atol=1e-4)
    assert next(module.parameters()).device.type == "cpu"


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("backprop", [False, True])
def test_gpu_student(images, teachers, backprop):
    X, y = images
    student = SoftLabelClassifier(net(max_epochs=20, device=resolve_device("auto")), random_state=0)
    clf = HeterogeneousDistiller(teachers, student, backprop=backprop).fit(X[600:])
    assert clf.score(X[600:], y[600:]) > 0.7


@pytest.mark.gpu
@needs_gpu
@pytest.mark.parametrize("method", ["sd", "ce", "mf_p", "mf_lu", "mf_lf"])
def test_gpu_solvers_answer_as_on_the_cpu(method):
    lists = [[0, 1, 2], [2, 3], [3, 4, 0]]
    Z = torch.randn(50, 8)
    transformer = resolve_method(method).set_params(class_lists=lists).fit(Z)
    on_gpu = transformer.transform(Z.to(resolve_device("auto")))
    assert on_gpu.device.type != "cpu"
    torch.testing.assert_close(on_gpu.cpu(), transformer.transform(Z), atol=1e-3, rtol=0)
