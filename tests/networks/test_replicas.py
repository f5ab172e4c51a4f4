"""Networks as teachers are never changed: neither mode, nor buffers, nor weights, in any number of threads."""

import copy
import subprocess
import sys
from functools import partial

import numpy as np
import pytest
import torch
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier
from torch import nn

from sklearn_uhc import TeacherOutputs, TorchTeacher


class Net(nn.Module):
    """Its answers differ in training mode, where it also updates its buffers."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
        self.head = nn.Linear(8, 3)

    def forward(self, X):
        return self.head(torch.relu(self.body(X)))


class ByReference(Net):
    """Calls its parts through a list, a method, a partial function and a closure."""

    def __init__(self):
        super().__init__()
        self.parts = [self.body[0], self.body[1]]
        self.drop = self.body[2].forward
        self.last = {"head": partial(nn.Sequential.forward, nn.Sequential(self.head))}
        self.all = lambda X: self.last["head"](torch.relu(self.drop(self.parts[1](self.parts[0](X)))))

    def forward(self, X):
        return self.all(X)


class Merging(nn.Linear):
    """Merges an adapter into its weights in evaluation mode, in place, as LoRA does."""

    merged = False

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.adapter = nn.Parameter(torch.ones_like(self.weight))

    def train(self, mode=True):
        if mode == self.merged:
            self.weight.data += -self.adapter.data if mode else self.adapter.data
            self.merged = not mode
        return super().train(mode)

    def forward(self, X):
        return nn.functional.linear(X, self.weight if self.merged else self.weight + self.adapter, self.bias)


class Counting(nn.Linear):
    """Writes to a buffer in evaluation mode too."""

    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, X):
        self.calls += 1
        return super().forward(X) + self.calls


def compiled_in_place():
    module = Net()
    module.compile(backend="eager")
    return module


def with_compiled_forward():
    module = Net()
    module.forward = torch.compile(module.forward, backend="eager")
    return module


def with_part(change):
    module = Net()
    module.body = change(module.body)
    return module


MODULES = {
    "plain": Net,
    "parts by reference": ByReference,
    "script": lambda: torch.jit.script(Net()),
    "script inside": lambda: with_part(torch.jit.script),
    "compiled": lambda: torch.compile(Net(), backend="eager"),
    "compiled inside": lambda: with_part(partial(torch.compile, backend="eager")),
    "compiled in place": compiled_in_place,
    "compiled forward": with_compiled_forward,
    "traced by fx": lambda: torch.fx.symbolic_trace(Net()),
    "parametrized": lambda: nn.Sequential(Net(), nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))),
    "old spectral norm": lambda: nn.Sequential(Net(), nn.utils.spectral_norm(nn.Linear(3, 3))),
    "own mode switch": lambda: nn.Sequential(Net(), Merging(3, 3)),
}


def state(module):
    flags = [(name, part.training) for name, part in module.named_modules()]
    return flags, {name: value.clone() for name, value in module.state_dict().items()}


def assert_same_state(module, before):
    flags, values = state(module)
    assert flags == before[0]
    for name, value in values.items():
        assert torch.equal(value, before[1][name]), name


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(1, 3, size=(40, 4)).astype(np.float32)


def trained(make, X):
    """Return a module in training mode with updated buffers, and its answers in evaluation mode."""
    torch.manual_seed(0)
    module = make()
    with torch.no_grad():
        module(torch.as_tensor(X))
        expected = module.eval()(torch.as_tensor(X)).numpy()
    return module.train(), expected


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("kind", MODULES)
def test_a_module_in_training_mode_is_read_in_evaluation_mode_and_not_changed(kind, X):
    module, expected = trained(MODULES[kind], X)
    before, during = state(module), []
    teacher = TorchTeacher(
        module, [0, 1, 2], device="cpu", preprocess=lambda X: during.append(assert_same_state(module, before)) or X
    )
    for _ in range(2):
        np.testing.assert_allclose(teacher.decision_function(X), expected, atol=1e-6)
        assert_same_state(module, before)
    assert during


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("kind", MODULES)
def test_weights_and_parts_that_were_changed_are_seen(kind, X):
    module, _ = trained(MODULES[kind], X)
    teacher = TorchTeacher(module, [0, 1, 2], device="cpu")
    first = teacher.decision_function(X)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.data = parameter.data * 1.5
    second = teacher.decision_function(X)
    expected = module.eval()(torch.as_tensor(X)).detach().numpy()
    assert np.abs(first - second).max() > 0.01
    np.testing.assert_allclose(second, expected, atol=1e-5)


def test_compiled_modules_are_not_compiled_for_every_reading(X):
    compilations = []

    def backend(graph, inputs):
        compilations.append(graph)
        return graph

    torch._dynamo.reset()
    teacher = TorchTeacher(torch.compile(Net(), backend=backend), [0, 1, 2], device="cpu")
    for _ in range(12):
        teacher.predict(X)
    assert len(compilations) == 1


def test_buffers_that_a_module_writes_to_in_evaluation_mode_stay(X):
    module = Counting(4, 3)
    teacher = TorchTeacher(module, [0, 1, 2], device="cpu")
    np.testing.assert_array_equal(teacher.predict_proba(X), teacher.predict_proba(X))
    assert module.calls == 0


def test_hooks_see_every_reading_and_tied_weights_stay_tied(X):
    module, seen, count = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)), [], 0
    module[1].weight = module[0].weight

    def hook(part, args, output):
        nonlocal count
        count += 1
        seen.append((part.training, part.weight))

    for part in module:
        part.register_forward_hook(hook)
    TorchTeacher(module, [0, 1, 2, 3], device="cpu").predict(X)
    assert count == 2
    assert [training for training, _ in seen] == [False, False]
    assert seen[0][1] is seen[1][1]


def test_a_module_as_preprocess_is_not_changed_either(X):
    scale = nn.BatchNorm1d(4)
    scale(torch.as_tensor(X))
    before = state(scale)
    expected = copy.deepcopy(scale).eval()(torch.as_tensor(X)).detach()
    module = nn.Linear(4, 3)
    teacher = TorchTeacher(module, [0, 1, 2], device="cpu", preprocess=scale)
    np.testing.assert_allclose(teacher.decision_function(X), module(expected).detach(), atol=1e-6)
    assert_same_state(scale, before)


def test_a_preprocess_may_write_to_its_batch_but_not_to_x(X):
    before = X.copy()
    teacher = TorchTeacher(nn.Linear(4, 3), [0, 1, 2], device="cpu", preprocess=lambda batch: batch.div_(255))
    teacher.predict(X)
    np.testing.assert_array_equal(X, before)
    teacher.predict(torch.as_tensor(X))
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda net: net,
        FrozenEstimator,
        lambda net: make_pipeline(StandardScaler().fit(np.zeros((2, 4), np.float32)), net),
        lambda net: FrozenEstimator(make_pipeline(StandardScaler().fit(np.zeros((2, 4), np.float32)), net)),
    ],
    ids=["net", "frozen", "pipeline", "frozen pipeline"],
)
def test_a_skorch_net_is_left_in_its_mode(wrap, X):
    module, expected = trained(Net, X)
    net = NeuralNetClassifier(module, criterion=nn.CrossEntropyLoss, classes=[0, 1, 2], verbose=0).initialize()
    before, teacher = state(net.module_), wrap(net)
    log_p = TeacherOutputs([teacher], floor=1e-12).fit_transform(X)
    np.testing.assert_allclose(log_p, torch.log_softmax(torch.as_tensor(expected), 1), atol=1e-5)
    assert_same_state(net.module_, before)
    assert net.module_.training


def test_a_search_over_nets_is_left_in_its_mode(X):
    torch.manual_seed(0)
    net = NeuralNetClassifier(Net, criterion=nn.CrossEntropyLoss, train_split=None, max_epochs=1, verbose=0)
    search = GridSearchCV(net, {"lr": [0.1]}, cv=2).fit(X, np.arange(40) % 3)
    module = search.best_estimator_.module_.train()
    before = state(module)
    TeacherOutputs([search]).fit(X)
    assert_same_state(module, before)


RACE = """
import threading
import numpy as np
import torch
from torch import nn
from sklearn_uhc import TeacherOutputs, TorchTeacher, UnifiedEnsemble

torch.set_num_threads(1)
torch.manual_seed(0)
body = nn.Sequential(nn.Linear(8, 64), nn.BatchNorm1d(64), nn.Dropout(0.5), nn.ReLU())
modules = [nn.Sequential(body, nn.Linear(64, 3)) for _ in range(4)]
X = np.random.default_rng(0).normal(1, 30, size=(2000, 8)).astype(np.float32)
for module in modules:
    module(torch.as_tensor(X))
expected = np.hstack([torch.log_softmax(m.eval()(torch.as_tensor(X)), 1).detach().numpy() for m in modules])
for module in modules:
    module.train()
before = {name: value.clone() for name, value in body.state_dict().items()}
lists = [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 0]]
teachers = [TorchTeacher(m, labels, batch_size=16, device="cpu") for m, labels in zip(modules, lists)]

# Somebody else, who trains the backbone, must find it in training mode all the time.
done, in_training = threading.Event(), set()
def look():
    while not done.is_set():
        in_training.add(all(part.training for m in modules for part in m.modules()))
other = threading.Thread(target=look)
other.start()
try:
    found = TeacherOutputs(teachers, n_jobs=2, floor=1e-12).fit_transform(X)
    ensemble = UnifiedEnsemble(teachers).fit(X)
    alone, answers = ensemble.predict_proba(X), {}
    threads = [threading.Thread(target=lambda i=i: answers.update({i: ensemble.predict_proba(X)})) for i in range(2)]
    [thread.start() for thread in threads], [thread.join() for thread in threads]
finally:
    done.set(), other.join()

moved = [name for name, value in body.state_dict().items() if not torch.equal(value, before[name])]
wrong = int((np.abs(np.exp(found) - np.exp(expected)) > 1e-4).any(axis=1).sum())
off = [float(np.abs(answers[i] - alone).max()) > 1e-6 for i in range(2)]
print(f"moved {moved}, in training {in_training}, rows wrong {wrong}, threads wrong {off}")
"""


def test_modules_that_share_a_backbone_in_threads():
    """In a separate process, so that a race that kills the interpreter is a failed test."""
    done = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, timeout=600)
    expected = "moved [], in training {True}, rows wrong 0, threads wrong [False, False]"
    assert done.stdout.strip() == expected, done.stderr
