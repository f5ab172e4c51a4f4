"""Torch teachers, skorch students, direct backpropagation."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TeacherOutputs, TorchTeacher
from sklearn_uhc._device import resolve_device
from sklearn_uhc.soft_labels import resolve_method

torch = pytest.importorskip("torch")
skorch = pytest.importorskip("skorch")
from skorch.callbacks import EarlyStopping, EpochScoring, LRScheduler  # noqa: E402
from torch import nn  # noqa: E402
from torch.utils.data import DataLoader, Dataset, TensorDataset  # noqa: E402

torch.set_num_threads(1)  # tests run in two processes: more threads than cores would slow them down


class Small(nn.Module):
    """A convolution and a linear layer for 8 x 8 images."""

    def __init__(self, n_out=10, probabilities=False):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, n_out))
        self.probabilities = probabilities

    def forward(self, X):
        out = self.body(X)
        return out.softmax(dim=-1) if self.probabilities else out


def net(**params):
    own = {"max_epochs": 8, "lr": 0.1, "iterator_train__shuffle": True, "verbose": 0, "batch_size": 64}
    return skorch.NeuralNetClassifier(Small, **own | {"optimizer__momentum": 0.9} | params)


@pytest.fixture(scope="module")
def images():
    X, y = load_digits(return_X_y=True)
    return (X / 16).reshape(-1, 1, 8, 8).astype(np.float32), y


@pytest.fixture(scope="module")
def flat(images):
    return images[0].reshape(len(images[0]), -1)


@pytest.fixture(scope="module")
def soft(images, flat):
    y = images[1]
    return LogisticRegression(C=0.1, max_iter=500).fit(flat[:400], y[:400]).predict_proba(flat)


@pytest.fixture(scope="module")
def module(images):
    """A small network that knows the digits 0 to 5."""
    X, y = images
    rows = np.flatnonzero(y[:600] < 6)
    trained = skorch.NeuralNetClassifier(
        Small(6), criterion=nn.CrossEntropyLoss, max_epochs=15, lr=0.1, train_split=None, verbose=0
    )
    torch.manual_seed(0)
    return trained.fit(X[rows], y[rows]).module_


def flattened(model):
    return make_pipeline(FunctionTransformer(lambda X: np.asarray(X).reshape(len(X), -1)), model)


@pytest.fixture(scope="module")
def teachers(images, module):
    X, y = images
    forest, logistic = (
        flattened(RandomForestClassifier(50, random_state=0)),
        flattened(LogisticRegression(max_iter=500)),
    )
    rows = [np.flatnonzero((y[:600] > 3) & (y[:600] < 9)), np.flatnonzero((y[:600] > 6) | (y[:600] < 2))]
    return [
        TorchTeacher(module, list(range(6)), device="cpu"),
        forest.fit(X[rows[0]], y[rows[0]]),
        logistic.fit(X[rows[1]], y[rows[1]]),
    ]


# Teachers


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


def test_torch_teacher_takes_the_module_to_the_device_and_back():
    """Even if it fails there. The meta device stands for one that this machine may not have."""
    seen = []

    class Spy(nn.Linear):
        def to(self, device):
            seen.append(torch.device(device).type)
            return self

        def forward(self, X):
            seen.append(f"a batch on {X.device.type}")
            raise InterruptedError

    with pytest.raises(InterruptedError):
        TorchTeacher(Spy(3, 2), [0, 1], device="meta").predict(np.zeros((4, 3)))
    assert seen == ["meta", "a batch on meta", "cpu"]


def test_torch_teacher_refuses_probabilities(images):
    with pytest.raises(ValueError, match="Small gives probabilities where TorchTeacher expects logits"):
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


# Students


def test_a_net_written_for_hard_labels_learns_soft_ones(images, soft):
    X, y = images
    plain = skorch.NeuralNet(Small, nn.CrossEntropyLoss, max_epochs=8, lr=0.1, optimizer__momentum=0.9, verbose=0)
    plain.set_params(iterator_train__shuffle=True)
    for student in (net(), net(criterion=nn.CrossEntropyLoss, train_split=None), plain):
        clf = SoftLabelClassifier(student, random_state=0).fit(X, soft)
        assert clf.strategy_ == "direct"
        assert clf.score(X, y) > 0.85
        np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1, atol=1e-5)
        assert not hasattr(student, "module_")


def test_a_module_that_gives_probabilities(images, soft):
    """Skorch's default criterion expects these, and the answers are the same network's."""
    X, _ = images
    logits = SoftLabelClassifier(net(), random_state=0).fit(X, soft)
    probabilities = SoftLabelClassifier(net(module__probabilities=True), random_state=0).fit(X, soft)
    np.testing.assert_allclose(probabilities.predict_proba(X), logits.predict_proba(X), atol=0.02)
    other = net(module__probabilities=True, criterion=nn.CrossEntropyLoss)
    same = SoftLabelClassifier(other, random_state=0).fit(X, soft)
    np.testing.assert_allclose(same.predict_proba(X), probabilities.predict_proba(X), atol=1e-6)


@pytest.mark.parametrize(
    "params", [{"callbacks": "disable"}, {"callbacks__valid_acc": None}, {"callbacks": []}], ids=str
)
def test_callbacks_that_are_off_already(images, soft, params):
    X, _ = images
    clf = SoftLabelClassifier(net(max_epochs=1, **params), random_state=0).fit(X[:100], soft[:100])
    assert clf.predict_proba(X[:3]).shape == (3, 10)


def test_a_replaced_criterion_is_warned_of(images, soft):
    X, _ = images
    for params in (
        {"criterion": nn.MultiMarginLoss},
        {"criterion__label_smoothing": 0.5, "criterion": nn.CrossEntropyLoss},
    ):
        with pytest.warns(UserWarning, match="criterion of NeuralNetClassifier is replaced"):
            SoftLabelClassifier(net(max_epochs=1, **params)).fit(X[:100], soft[:100])


def test_kinds_of_rows(flat, soft):
    student = SoftLabelClassifier(nn.Linear(64, 10), random_state=0)
    expected = student.fit(flat, soft).predict_proba(flat)
    for convert in (
        csr_matrix,
        pd.DataFrame,
        lambda X: torch.as_tensor(X, dtype=torch.float64),
        lambda X: X.astype(float),
    ):
        X = convert(flat)
        np.testing.assert_allclose(clone(student).fit(X, soft).predict_proba(X), expected, atol=1e-5)
        teacher = TorchTeacher(student.estimator_.module_, list(range(10)), device="cpu")
        np.testing.assert_allclose(teacher.predict_proba(X), expected, atol=1e-5)


def test_ordinary_labels_for_a_bare_module(flat, images):
    y = np.array(list("abcdefghij"))[images[1]]
    clf = SoftLabelClassifier(nn.Linear(64, 10), random_state=0).fit(flat, y)
    assert clf.score(flat, y) > 0.7


def test_nan_and_divergence_are_errors(flat, images, soft):
    broken = flat.copy()
    broken[0, 0] = np.nan
    with pytest.raises(ValueError, match="The student gives NaN"):
        SoftLabelClassifier(nn.Linear(64, 10), random_state=0).fit(broken, soft).predict(flat)


def test_validation_rows_are_not_carried_along(flat, soft):
    clf = SoftLabelClassifier(nn.Linear(64, 10), random_state=0).fit(flat, soft, eval_set=[(flat, soft)])
    assert clf.estimator_.history[-1, "valid_loss"] > 0
    assert len(pickle.dumps(clf)) < 100_000


def test_temperature_is_the_networks_own(images, soft):
    """Trained on softened labels at T = 3, the answers are at temperature 1."""
    X, y = images
    tempered = np.exp(np.log(soft) / 3)
    tempered /= tempered.sum(axis=1, keepdims=True)
    losses = {
        T: log_loss(y, SoftLabelClassifier(net(lr=0.3), temperature=T, random_state=0).fit(X, Q).predict_proba(X))
        for T, Q in ((1, soft), (3, tempered))
    }
    ignored = log_loss(y, SoftLabelClassifier(net(lr=0.3), random_state=0).fit(X, tempered).predict_proba(X))
    assert losses[3] < ignored - 0.1
    assert losses[3] < losses[1] + 0.15


def test_weights_are_in_the_targets(images):
    X, y = images
    weight = np.where(y < 5, 1.0, 1e-6)
    clf = SoftLabelClassifier(net(), random_state=0).fit(X, np.eye(10)[y], weight)
    assert clf.score(X[y >= 5], y[y >= 5]) < 0.05
    assert clf.score(X[y < 5], y[y < 5]) > 0.9


def test_seeds_and_the_random_state_of_others(images, soft):
    X, _ = images
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    clf = SoftLabelClassifier(net(), random_state=0).fit(X, soft)
    torch.testing.assert_close(torch.rand(3), expected)
    one = clf.predict_proba(X)
    np.testing.assert_array_equal(one, SoftLabelClassifier(net(), random_state=0).fit(X, soft).predict_proba(X))
    assert np.abs(one - SoftLabelClassifier(net(), random_state=1).fit(X, soft).predict_proba(X)).max() > 1e-3


def test_callbacks_work_and_validation_is_soft(images, soft):
    X, _ = images
    callbacks = [
        ("schedule", LRScheduler("StepLR", step_size=3, gamma=0.1)),
        ("own", EpochScoring(lambda net, X, y: 1.0, name="own")),
        ("stop", EarlyStopping(patience=2, threshold=0.5)),
    ]
    clf = SoftLabelClassifier(net(max_epochs=50, callbacks=callbacks), random_state=0).fit(X, soft)
    history = clf.estimator_.history
    assert len(history) < 50
    assert {"train_loss", "valid_loss", "own"} <= set(history[-1])
    given = SoftLabelClassifier(net(max_epochs=2), random_state=0).fit(
        X[:900], soft[:900], eval_set=[(X[900:], soft[900:])]
    )
    loss = -(soft[900:] * np.log(given.predict_proba(X[900:]))).sum(axis=1).mean()
    assert given.estimator_.history[-1, "valid_loss"] == pytest.approx(loss, rel=1e-3)


def test_bare_modules(images, soft):
    X, y = images
    for student in (Small, Small(10)):
        clf = SoftLabelClassifier(student, random_state=0).fit(X, soft)
        assert clf.score(X, y) > 0.85
        clone(clf).fit(X[:50], soft[:50])
    given = Small(10)
    before = [p.clone() for p in given.parameters()]
    SoftLabelClassifier(given, random_state=0).fit(X[:100], soft[:100])
    for p, q in zip(given.parameters(), before, strict=True):
        torch.testing.assert_close(p, q)


def test_the_wrong_number_of_outputs_is_said_before_training(images, soft):
    with pytest.raises(ValueError, match="its last layer needs 10 outputs"):
        SoftLabelClassifier(net(module__n_out=7)).fit(images[0], soft)


def test_search_pickle_and_save(images, soft, tmp_path):
    X, _ = images
    search = GridSearchCV(SoftLabelClassifier(net(max_epochs=2), random_state=0), {"estimator__lr": [0.1, 0.01]}, cv=2)
    search.fit(X[:400], soft[:400])
    assert search.best_params_ == {"estimator__lr": 0.1}
    clf = search.best_estimator_
    revived = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(revived.predict_proba(X), clf.predict_proba(X))
    clf.estimator_.save_params(f_params=tmp_path / "weights.pt")
    again = Small(10)
    again.load_state_dict(torch.load(tmp_path / "weights.pt", weights_only=True))
    with torch.no_grad():
        expected = again(torch.as_tensor(X)).softmax(dim=1).numpy()
    np.testing.assert_allclose(clf.predict_proba(X), expected, atol=1e-6)


def test_another_process_predicts_the_same(images, soft, tmp_path):
    X, _ = images
    clf = SoftLabelClassifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)), random_state=0).fit(X, soft)
    (tmp_path / "student.pkl").write_bytes(pickle.dumps(clf))
    np.save(tmp_path / "X.npy", X[:20])
    code = (
        "import pickle, sys, numpy as np\n"
        f"clf = pickle.load(open({str(tmp_path / 'student.pkl')!r}, 'rb'))\n"
        f"np.save({str(tmp_path / 'P.npy')!r}, clf.predict_proba(np.load({str(tmp_path / 'X.npy')!r})))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    np.testing.assert_allclose(np.load(tmp_path / "P.npy"), clf.predict_proba(X[:20]), atol=1e-6)


# Distillation


class Images(Dataset):
    """Images read one by one; counts how many are held at most is left to the caller."""

    def __init__(self, X):
        self.X = X

    def __len__(self):
        return len(self.X)

    def __getitem__(self, i):
        return torch.as_tensor(self.X[i]), 0


def test_a_network_distilled_from_a_network_a_forest_and_a_logistic_regression(images, teachers):
    X, y = images
    clf = HeterogeneousDistiller(teachers, SoftLabelClassifier(net(max_epochs=20), random_state=0), temperature=1)
    assert clf.fit(X[600:]).score(X[600:], y[600:]) > 0.8
    dataset = clone(clf).fit(Images(X[600:]))
    assert dataset.score(X[600:], y[600:]) > 0.8
    loader = clone(clf).fit(DataLoader(Images(X[600:]), batch_size=32))
    np.testing.assert_allclose(loader.predict_proba(X), dataset.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(loader.predict_proba(Images(X)), loader.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("method", ["ce", "mf_p", "mf_lu", "mf_lf"])
def test_direct_backpropagation(images, teachers, method):
    X, y = images
    student = SoftLabelClassifier(net(max_epochs=20), random_state=0)
    clf = HeterogeneousDistiller(teachers, student, method=method, backprop=True).fit(X[600:])
    assert clf.score(X[600:], y[600:]) > 0.75
    assert clf.class_weight_ is None
    assert np.isfinite(clf.score(X[:100]))
    revived = pickle.loads(pickle.dumps(clf.student_))
    np.testing.assert_array_equal(revived.predict_proba(X), clf.predict_proba(X))
    np.testing.assert_allclose(clf.predict_proba(X).sum(axis=1), 1, atol=1e-5)


def test_backpropagation_through_a_pipeline_a_bare_module_and_a_search(flat, images, teachers):
    _, y = images
    models = [
        LogisticRegression(max_iter=300).fit(flat[:600][y[:600] < 6], y[:600][y[:600] < 6]),
        LogisticRegression(max_iter=300).fit(flat[:600][y[:600] > 3], y[:600][y[:600] > 3]),
    ]
    linear = nn.Linear(64, 10)
    student = make_pipeline(StandardScaler(), linear)
    clf = HeterogeneousDistiller(models, SoftLabelClassifier(student, random_state=0), backprop=True, method="ce")
    assert clf.fit(flat[600:]).score(flat, y) > 0.7
    inner = make_pipeline(StandardScaler(), SoftLabelClassifier(linear, random_state=0))
    same = HeterogeneousDistiller(models, inner, backprop=True, method="ce").fit(flat[600:])
    np.testing.assert_allclose(same.predict_proba(flat), clf.predict_proba(flat), atol=1e-5)
    apart = [LogisticRegression().fit(flat, images[1] > 4), LogisticRegression().fit(flat, 2 + (images[1] > 2))]
    with pytest.warns(UserWarning, match="do not connect"):
        HeterogeneousDistiller(apart, nn.Linear(64, 4), class_lists=[[0, 1], None], backprop=True).fit(flat)
    bare = HeterogeneousDistiller(models, nn.Linear(64, 10), backprop=True)
    search = GridSearchCV(bare, {"temperature": [1, 3], "backprop": [True, False]}, cv=2).fit(flat[600:], y[600:])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"balance": True}, ValueError, "balance=True weighs soft labels by their mean"),
        ({"method": "sd"}, ValueError, "StandardDistillation has no form by backpropagation"),
        ({"store_soft_labels": True}, ValueError, "makes no soft labels"),
        ({"student": RandomForestClassifier()}, TypeError, "RandomForestClassifier is none"),
        ({"student": net(module__probabilities=True)}, ValueError, "leave its softmax out"),
    ],
)
def test_what_backpropagation_cannot_do(images, teachers, params, error, message):
    given = {"student": net(), "backprop": True} | params
    with pytest.raises(error, match=message):
        HeterogeneousDistiller(teachers, **given).fit(images[0][:200])
    with pytest.raises(ValueError, match="takes no sample_weight"):
        HeterogeneousDistiller(teachers, net(), backprop=True).fit(images[0][:50], sample_weight=np.ones(50))


# On a GPU: `make gpu`. These could not be run where they were written.

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


@pytest.mark.slow
def test_a_hundred_thousand_images_in_flat_memory():
    """Images are made when they are asked for; what is held of them does not grow with their number."""
    code = """
import resource, sys, numpy as np, torch
from torch import nn
from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TorchTeacher
class Synthetic(torch.utils.data.Dataset):
    def __init__(self, n): self.n = n
    def __len__(self): return self.n
    def __getitem__(self, i): return torch.full((3, 32, 32), (i % 97) / 97.0)
torch.manual_seed(0)
small = lambda k: nn.Sequential(nn.AvgPool2d(8), nn.Flatten(), nn.Linear(48, k))
teachers = [TorchTeacher(small(3), [0, 1, 2]), TorchTeacher(small(3), [2, 3, 4])]
import skorch, sklearn
sklearn.set_config(working_memory=64)
student = skorch.NeuralNet(small(5), nn.MSELoss, max_epochs=1, batch_size=256, train_split=None, verbose=0)
peaks = []
for n in (2_000, 100_000):
    HeterogeneousDistiller(teachers, SoftLabelClassifier(student)).fit(Synthetic(n))
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
print(peaks[1] - peaks[0])
"""
    grown = float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
    assert grown < 300, "all images together are 1,200 MiB"
