"""skorch nets and bare modules on soft labels."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import skorch
import torch
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from skorch.callbacks import Checkpoint, EarlyStopping, EpochScoring, LRScheduler
from torch import nn
from torch.utils.data import default_collate

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TorchTeacher
from sklearn_uhc.students.skorch import Rows, SoftTargetLoss, enough_epochs, fit, predict_proba, wrap
from sklearn_uhc.students.soft_data import EvalRows, SoftData
from tests.networks.helpers import Small, net


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
    """Skorch's default criterion expects probabilities, and the predictions are those of the same network."""
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
        with pytest.warns(UserWarning, match="criterion of NeuralNetClassifier is replaced") as told:
            SoftLabelClassifier(net(max_epochs=1, **params)).fit(X[:100], soft[:100])
        assert [warning.filename for warning in told] == [__file__]


@pytest.mark.usefixtures("few_steps")
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


@pytest.mark.usefixtures("few_steps")
def test_ordinary_labels_for_a_bare_module(flat, images):
    y = np.array(list("abcdefghij"))[images[1]]
    clf = SoftLabelClassifier(nn.Linear(64, 10), random_state=0).fit(flat, y)
    assert clf.score(flat, y) > 0.7


@pytest.mark.usefixtures("few_steps")
def test_nan_and_divergence_are_errors(flat, images, soft):
    broken = flat.copy()
    broken[0, 0] = np.nan
    with pytest.raises(ValueError, match="The training of Linear diverged"):
        SoftLabelClassifier(nn.Linear(64, 10), random_state=0).fit(broken, soft)
    with pytest.raises(ValueError, match=r"Lower the learning rate \(student__lr\)"):
        SoftLabelClassifier(net(lr=1e20), random_state=0).fit(images[0], soft)
    with pytest.raises(ValueError, match="The student returns NaN"):
        SoftLabelClassifier(nn.Linear(64, 10), random_state=0).fit(flat, soft).predict(broken)


@pytest.mark.usefixtures("few_steps")
def test_validation_rows_are_not_carried_along(flat, soft):
    clf = SoftLabelClassifier(nn.Linear(64, 10), random_state=0).fit(flat, soft, eval_set=[(flat, soft)])
    assert clf.estimator_.history[-1, "valid_loss"] > 0
    assert len(pickle.dumps(clf)) < 100_000


def test_temperature_is_the_networks_own(images, soft):
    """Trained on softened labels at T = 3, its predictions are at temperature 1."""
    X, y = images
    tempered = np.exp(np.log(soft) / 3)
    tempered /= tempered.sum(axis=1, keepdims=True)
    losses = {
        T: log_loss(y, SoftLabelClassifier(net(), temperature=T, random_state=0).fit(X, Q).predict_proba(X))
        for T, Q in ((1, soft), (3, tempered))
    }
    ignored = log_loss(y, SoftLabelClassifier(net(), random_state=0).fit(X, tempered).predict_proba(X))
    assert losses[3] < ignored - 0.1
    assert losses[3] < losses[1] + 0.02


def test_one_learning_rate_serves_all_temperatures(images, soft):
    """At the start, with equal probabilities, the curvature of the loss by the logits is that of hard labels."""
    for T in (0.5, 1, 10):
        loss, target = SoftTargetLoss(temperature=T), torch.full((1, 4), 0.25)
        H = torch.autograd.functional.hessian(lambda x: loss(x, target), torch.zeros(1, 4))  # noqa: B023
        assert torch.linalg.eigvalsh(H[0, :, 0]).max().item() == pytest.approx(1 / 4, rel=1e-4)
    X, y = images
    scores = {}
    for T in (1, 3, 10):
        Q = soft ** (1 / T)
        student = SoftLabelClassifier(net(max_epochs=5), temperature=T, random_state=0)
        scores[T] = student.fit(X, Q / Q.sum(axis=1, keepdims=True)).score(X, y)
    assert min(scores.values()) > 0.85
    assert np.ptp(list(scores.values())) < 0.03


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


@pytest.mark.usefixtures("few_steps")
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


@pytest.mark.parametrize("backprop", [False, True])
def test_a_bare_module_is_trained_for_long_enough(flat, images, backprop):
    """On 500 rows, 20 epochs are 80 steps of Adam, far too few."""
    y = images[1]
    known = [y[:600] < 7, (y[:600] > 3) | (y[:600] < 2)]
    teachers = [LogisticRegression(max_iter=300).fit(flat[:600][rows], y[:600][rows]) for rows in known]
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    student = SoftLabelClassifier(module, random_state=0)
    clf = HeterogeneousDistiller(teachers, student, backprop=backprop).fit(flat[600:1100])
    assert clf.student_.estimator_.max_epochs == 500
    assert clf.score(flat[1100:], y[1100:]) > 0.85


@pytest.mark.parametrize(("rows", "epochs"), [(1, 2000), (129, 1000), (1400, 182), (12_800, 20), (10**6, 20)])
def test_epochs_of_a_bare_module(rows, epochs):
    assert enough_epochs(rows, batch_size=128) == epochs


@pytest.mark.usefixtures("few_steps")
def test_a_bare_module_is_reproducible(flat, soft):
    module = nn.Sequential(nn.Linear(64, 32), nn.Dropout(0.5), nn.Linear(32, 10))  # seeds order of rows and dropout
    P, Q, R = (
        SoftLabelClassifier(module, random_state=s).fit(flat[:200], soft[:200]).predict_proba(flat) for s in (0, 0, 1)
    )
    np.testing.assert_array_equal(P, Q)
    assert np.abs(P - R).max() > 1e-3


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


@pytest.mark.usefixtures("few_steps")
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


def test_whole_batches_train_the_same_network_as_rows_one_by_one(images, soft):
    class OneByOne(skorch.dataset.Dataset):
        pass

    def trained(**params):
        return SoftLabelClassifier(net(max_epochs=3, **params), random_state=0).fit(images[0], soft)

    at_once, one_by_one = trained(), trained(dataset=OneByOne)
    assert not isinstance(one_by_one.estimator_.get_dataset(images[0]), Rows)
    np.testing.assert_allclose(at_once.predict_proba(images[0]), one_by_one.predict_proba(images[0]), atol=1e-6)


def test_a_net_keeps_its_own_way_of_making_batches(images, soft):
    sizes = []

    def own(items):
        sizes.append(len(items))
        return default_collate(items)

    SoftLabelClassifier(net(max_epochs=1, iterator_train__collate_fn=own), random_state=0).fit(images[0], soft)
    assert max(sizes) == 64


def test_callbacks_may_monitor_the_accuracy(images, soft, tmp_path):
    """Against the most probable class of the soft labels, whatever the rows weigh."""
    X, _ = images
    stop = EarlyStopping(monitor="valid_acc", lower_is_better=False, patience=2, threshold=0.5)
    best = Checkpoint(monitor="valid_acc_best", dirname=str(tmp_path), load_best=True)
    student = SoftLabelClassifier(net(max_epochs=30, callbacks=[stop, best]), random_state=0)
    weight = np.random.default_rng(0).uniform(0.1, 2, size=900)
    student.fit(X[:900], soft[:900], weight, eval_set=[(X[900:], soft[900:])])
    history = student.estimator_.history[:, "valid_acc"]
    assert len(history) < 30
    accuracy = (student.predict(X[900:]) == soft[900:].argmax(axis=1)).mean()
    assert accuracy == pytest.approx(max(history))
    pickle.loads(pickle.dumps(student)).predict(X[:3])


def test_nothing_may_wait_for_an_accuracy_that_there_is_not(images, soft, teachers):
    X, _ = images
    stop = EarlyStopping(monitor="valid_acc", lower_is_better=False)
    with pytest.raises(ValueError, match=r"EarlyStopping monitors 'valid_acc'.*monitor 'valid_loss'"):
        HeterogeneousDistiller(teachers, net(callbacks=[("stop", stop)]), backprop=True).fit(X[:100])
    waiting = net(callbacks=[Checkpoint(monitor="valid_acc_best")], use_caching=False)
    with pytest.raises(ValueError, match=r"Checkpoint monitors 'valid_acc_best'.*use_caching"):
        SoftLabelClassifier(waiting).fit(X[:100], soft[:100])
    by_loss = net(callbacks=[EarlyStopping()], max_epochs=1)
    HeterogeneousDistiller(teachers, by_loss, backprop=True).fit(X[:100])


def test_weights_of_rows_to_stop_by_count(flat, soft):
    weight = np.random.default_rng(0).uniform(0, 2, size=100)
    rows = EvalRows(flat[:100], soft[:100], weight)
    for T in (1, 3):
        data = SoftData(flat, soft, None, np.arange(10), (rows,), random_state=0, temperature=T)
        trained = fit(wrap(nn.Linear(64, 10)).set_params(max_epochs=2), data)
        softened = predict_proba(trained, flat[:100]) ** (1 / T)
        losses = -(soft[:100] * np.log(softened / softened.sum(axis=1, keepdims=True))).sum(axis=1)
        expected = T**2 * np.average(losses, weights=weight)
        assert trained.history[-1, "valid_loss"] == pytest.approx(expected, rel=1e-4)


def test_several_inputs_by_name_are_refused(images, soft, teachers):
    with pytest.raises(TypeError, match=r"X is a dict with \['X'\]: only one input per row"):
        SoftLabelClassifier(net()).fit({"X": images[0]}, soft)
    with pytest.raises(TypeError, match="Put the inputs side by side"):
        HeterogeneousDistiller(teachers, net()).fit({"X": images[0]})
