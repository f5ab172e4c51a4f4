"""Keys of networks: different networks never share a key, and how a network is run does not matter."""

import copy
import io
import pickle
import subprocess
import sys
import threading
from collections import OrderedDict
from functools import partial

import numpy as np
import pytest
import skorch
import torch
from sklearn.frozen import FrozenEstimator
from torch import nn

from sklearn_uhc import TeacherOutputs, TorchTeacher
from sklearn_uhc.teachers.fingerprint import fingerprint
from tests.networks.helpers import Small


class Scale:
    """A preprocessing step that is an object."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, batch):
        return self.factor * batch


def times(batch, factor):
    return factor * batch


def sharper(logits):
    return torch.softmax(3 * logits, dim=-1)


class Tempered:
    """A user's own teacher, with a module and a parameter."""

    classes_ = np.array([0, 1])

    def __init__(self, module, T):
        self.module = module
        self.T = T

    def decision_function(self, X):
        with torch.no_grad():
            return self.module(torch.as_tensor(X)).numpy() / self.T


class Divided(nn.Linear):
    """A layer with a number that is not a weight and not in its repr."""

    def __init__(self, T):
        super().__init__(3, 2)
        self.T = T

    def forward(self, X):
        return super().forward(X) / self.T


def linear(make=nn.Linear, *args):
    torch.manual_seed(0)
    return make(*(args or (3, 2)))


def trained(**params):
    """Return an initialised net; its weights are always the same."""
    torch.manual_seed(0)
    linear = skorch.NeuralNetClassifier(nn.Linear, module__in_features=3, module__out_features=2, verbose=0, **params)
    return linear.initialize()


PARTS = [("a", nn.Tanh()), ("b", nn.ReLU())]
KINDS = {
    "preprocess": [TorchTeacher(linear(), [0, 1], preprocess=p) for p in (None, Scale(1.0), Scale(5.0))],
    "partial": [TorchTeacher(linear(), [0, 1], preprocess=partial(times, factor=f)) for f in (1.0, 5.0)],
    "dtype": [TorchTeacher(linear(), [0, 1], dtype=dtype) for dtype in (None, torch.bfloat16, torch.float16)],
    "own": [Tempered(linear(), T) for T in (1, 10)],
    "module": [TorchTeacher(linear(Divided, T), [0, 1]) for T in (1, 10)],
    "weights": [TorchTeacher(nn.Linear(3, 2), [0, 1]) for _ in range(2)],
    "order": [TorchTeacher(nn.Sequential(OrderedDict(parts)), [0, 1]) for parts in (PARTS, PARTS[::-1])],
    "nonlinearity": [trained(predict_nonlinearity=f) for f in ("auto", None, sharper)],
    "frozen": [FrozenEstimator(TorchTeacher(linear(), [0, 1], preprocess=p)) for p in (None, Scale(5.0))],
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_decides_the_answers_is_in_the_key(kind):
    keys = [fingerprint(teacher) for teacher in KINDS[kind]]
    assert len(set(keys)) == len(keys)
    assert [fingerprint(teacher) for teacher in copy.deepcopy(KINDS[kind])] == keys


def test_a_store_does_not_mix_preprocessing_up(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    for preprocess in (None, Scale(5.0), partial(times, factor=2.0)):
        teacher = TorchTeacher(linear(), [0, 1], device="cpu", preprocess=preprocess)
        stored = TeacherOutputs([teacher], store=tmp_path).fit_transform(X)
        np.testing.assert_array_equal(stored, TeacherOutputs([teacher]).fit_transform(X))


def test_lambdas_and_locks_are_refused(tmp_path):
    X = np.zeros((5, 3), dtype=np.float32)
    for teacher in (
        TorchTeacher(linear(), [0, 1], device="cpu", preprocess=lambda batch: batch),
        Tempered(linear(), threading.Lock()),
    ):
        with pytest.raises(ValueError, match=f"{type(teacher).__name__} cannot be pickled.*leave store out"):
            TeacherOutputs([teacher], store=tmp_path).fit(X)


def test_how_a_network_is_run_is_not_in_the_key():
    module = Small(6)
    key = fingerprint(TorchTeacher(module, list(range(6))))
    assert fingerprint(TorchTeacher(module.eval(), list(range(6)), batch_size=8, device="cpu")) == key
    one = trained(max_epochs=1)
    X, y = np.zeros((10, 3), dtype=np.float32), np.arange(10) % 2
    fitted = one.fit(X, y)
    other = pickle.loads(pickle.dumps(fitted)).set_params(batch_size=3, max_epochs=7, callbacks__valid_acc=None)
    assert fingerprint(other) == fingerprint(fitted)


def test_half_precision_cycles_and_tied_weights():
    keys = set()
    for dtype in (torch.float32, torch.bfloat16):
        tied = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3)).to(dtype)
        tied[1].weight = tied[0].weight
        tied[0].__dict__["parent"] = tied
        keys.add(fingerprint(TorchTeacher(tied, [0, 1, 2])))
    assert len(keys) == 2


def test_another_process_finds_the_same_key(tmp_path):
    teachers = [TorchTeacher(nn.Conv2d(1, 2, 3), [0, 1], dtype=torch.bfloat16), trained()]
    (tmp_path / "teachers.pkl").write_bytes(pickle.dumps(teachers))
    code = (
        "import pickle\nfrom sklearn_uhc.teachers.fingerprint import fingerprint\n"
        f"print(*map(fingerprint, pickle.load(open({str(tmp_path / 'teachers.pkl')!r}, 'rb'))))"
    )
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert found.split() == [fingerprint(teacher) for teacher in teachers]


class Scripted(nn.Module):
    """Code, a weight, a number and a constant."""

    def __init__(self, T: float):
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(3, 2)
        self.T = T

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return self.linear(X) / self.T + torch.tensor([1.0, 2.0])


class Doubled(Scripted):
    def forward(self, X: torch.Tensor) -> torch.Tensor:
        return 2 * self.linear(X) / self.T + torch.tensor([1.0, 2.0])


def saved_and_loaded(script):
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    return torch.jit.load(file)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_torchscript(tmp_path):
    X = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    scripts = [torch.jit.script(module.eval()) for module in (Scripted(1.0), Scripted(2.0), Doubled(1.0))]
    scripts += [torch.jit.trace(Scripted(1.0).eval(), torch.zeros(1, 3)), torch.jit.script(Scripted(1.0).eval())]
    scripts[-1].linear.weight.data[0, 0] += 1
    keys = [fingerprint(TorchTeacher(script, [0, 1])) for script in scripts]
    assert len(set(keys)) == len(scripts)
    for script, key in zip(scripts, keys, strict=True):
        again = TorchTeacher(saved_and_loaded(script), [0, 1])
        assert fingerprint(again) == key
        assert fingerprint(TorchTeacher(saved_and_loaded(again.module), [0, 1], batch_size=3)) == key
        stored = TeacherOutputs([TorchTeacher(script, [0, 1], device="cpu")], store=tmp_path).fit_transform(X)
        expected = TeacherOutputs([TorchTeacher(script, [0, 1], device="cpu")]).fit_transform(X)
        np.testing.assert_array_equal(stored, expected)
    assert fingerprint(torch.jit.script(times_two)) != fingerprint(torch.jit.script(times_three))


def times_two(X: torch.Tensor) -> torch.Tensor:
    return 2 * X


def times_three(X: torch.Tensor) -> torch.Tensor:
    return 3 * X
