"""Validation of a user's net: scikit-learn's scorers, and the user's own rows with hard or soft labels."""

import pickle

import numpy as np
import pytest
import skorch
import torch
from sklearn.metrics import balanced_accuracy_score, f1_score, log_loss, make_scorer
from skorch.callbacks import BatchScoring, Checkpoint, EarlyStopping, EpochScoring
from skorch.dataset import Dataset as SkorchDataset
from skorch.helper import predefined_split
from torch import nn
from torch.utils.data import IterableDataset, TensorDataset

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier
from sklearn_uhc.students.net_validation import most_probable
from tests.networks.helpers import Small, net

NAMES = np.array(list("abcdefghij"))


@pytest.fixture
def held_out(images, soft):
    """Validation rows: images, labels, soft labels."""
    return images[0][1200:], images[1][1200:], soft[1200:]


def fitted(student, images, soft, T=1.0, **params):
    """Train on the first 1,200 images."""
    return SoftLabelClassifier(student, temperature=T, random_state=0, **params).fit(images[0][:1200], soft[:1200])


@pytest.mark.parametrize(
    ("scoring", "expected"),
    [
        ("accuracy", lambda y, P: (y == P.argmax(axis=1)).mean()),
        (None, lambda y, P: (y == P.argmax(axis=1)).mean()),
        (balanced_accuracy_score, lambda y, P: balanced_accuracy_score(y, P.argmax(axis=1))),
        (make_scorer(f1_score, average="macro"), lambda y, P: f1_score(y, P.argmax(axis=1), average="macro")),
        ("neg_log_loss", lambda y, P: -log_loss(y, P)),
    ],
    ids=["accuracy", "score", "metric", "scorer", "probabilities"],
)
@pytest.mark.parametrize("names", [np.arange(10), NAMES], ids=["numbers", "names"])
def test_scorers_compare_with_the_most_probable_class(images, soft, held_out, scoring, expected, names):
    X, _, Q = held_out
    student = net(max_epochs=2, callbacks=[EpochScoring(scoring, lower_is_better=False, name="own")])
    clf = SoftLabelClassifier(student, classes=names, random_state=0)
    weight = np.random.default_rng(0).uniform(0.1, 2, size=1200)
    clf.fit(images[0][:1200], soft[:1200], weight, eval_set=[(X, Q)])
    own = clf.estimator_.history[-1, "own"]
    assert own == pytest.approx(expected(Q.argmax(axis=1), clf.predict_proba(X)), abs=1e-4)
    assert student.callbacks[0].target_extractor is not most_probable
    assert clf.estimator_.classes_.tolist() == names.tolist()
    pickle.loads(pickle.dumps(clf))


def test_scorers_that_name_one_of_two_classes(images, soft):
    """They take the second class as the positive one, whatever its name."""
    X, Q = images[0][:400], np.column_stack([soft[:400, :5].sum(axis=1), soft[:400, 5:].sum(axis=1)])
    scorers = [EpochScoring(name, lower_is_better=False) for name in ("f1", "average_precision", "roc_auc")]
    last = [
        SoftLabelClassifier(net(module__n_out=2, callbacks=scorers), classes=classes, random_state=0)
        .fit(X, Q)
        .estimator_.history[-1]
        for classes in ([0, 1], ["no", "yes"])
    ]
    assert last[0]["f1"] > 0.6
    for name in ("f1", "average_precision", "roc_auc"):
        assert last[0][name] == last[1][name]


def test_other_ways_to_score(images, soft):
    callbacks = [
        ("batches", BatchScoring("accuracy", name="batches", lower_is_better=False)),
        EpochScoring("accuracy", on_train=True, name="train_acc", lower_is_better=False),
        EpochScoring(lambda net, X, targets: targets.shape[1], name="soft"),
        EpochScoring("accuracy", name="mine", target_extractor=lambda y: most_probable(y) * 0),
    ]
    own = EpochScoring("balanced_accuracy", name="valid_acc", lower_is_better=False)
    last = fitted(net(callbacks=callbacks, callbacks__valid_acc=own), images, soft).estimator_.history[-1]
    assert last["batches"] > 0.8
    assert last["train_acc"] > 0.8
    assert last["valid_acc"] > 0.8
    assert last["soft"] == 10, "functions of the user get the soft labels"
    assert last["mine"] < 0.3, "an extractor of the user's stays"


def test_scorers_that_have_nothing_to_compare_with(images, soft, teachers):
    callback = EpochScoring("accuracy", use_caching=False)
    for student in (net(callbacks=[callback]), net(callbacks=[EpochScoring("accuracy")], use_caching=False)):
        with pytest.raises(ValueError, match=r"EpochScoring\('accuracy'\) needs .* leave use_caching"):
            fitted(student, images, soft)
    by_backprop = HeterogeneousDistiller(teachers, net(callbacks=[EpochScoring("accuracy")]), backprop=True)
    with pytest.raises(ValueError, match=r"EpochScoring\('accuracy'\) compares with labels.*'valid_loss'"):
        by_backprop.fit(images[0][:100])


def test_what_waits_for_an_accuracy_that_there_is_not(images, soft):
    waits = net(callbacks=[EarlyStopping(monitor="valid_acc", lower_is_better=False)], use_caching=False)
    with pytest.raises(ValueError, match=r"EarlyStopping monitors 'valid_acc'.*monitor 'valid_loss'"):
        fitted(waits, images, soft)


@pytest.mark.parametrize("probabilities", [False, True])
def test_rows_with_true_labels_to_stop_by(images, soft, held_out, probabilities):
    """Their loss is the log-loss of the predictions, at temperature 1 whatever that of the soft labels."""
    X, y, _ = held_out
    split = predefined_split(TensorDataset(torch.as_tensor(X), torch.as_tensor(y)))
    scorer = EpochScoring("accuracy", lower_is_better=False)
    student = net(train_split=split, max_epochs=4, callbacks=[scorer], module__probabilities=probabilities)
    clf = fitted(student, images, soft, T=3.0)
    last = clf.estimator_.history[-1]
    assert last["valid_loss"] == pytest.approx(log_loss(y, clf.predict_proba(X)), rel=1e-4)
    assert last["valid_acc"] == last["accuracy"] == pytest.approx(clf.score(X, y))
    assert clf.estimator_.train_split is not split, "it was cloned"
    assert clf.estimator_.train_split.func is split.func


def test_a_checkpoint_by_true_labels(images, soft, held_out, tmp_path):
    X, y, _ = held_out
    best = Checkpoint(monitor="valid_acc_best", dirname=str(tmp_path), load_best=True, f_pickle="net.pkl")
    stop = EarlyStopping(monitor="valid_acc", lower_is_better=False, patience=2, threshold=0.02)
    student = net(train_split=predefined_split(SkorchDataset(X, y)), max_epochs=30, callbacks=[stop, best])
    clf = fitted(student, images, soft)
    history = clf.estimator_.history[:, "valid_acc"]
    assert len(history) < 30
    assert clf.score(X, y) == pytest.approx(max(history))


def test_labels_are_names_of_classes(images, soft, held_out):
    X, y, _ = held_out
    by_number = fitted(net(train_split=predefined_split(SkorchDataset(X, y))), images, soft)
    student = net(train_split=predefined_split(SkorchDataset(X, NAMES[y])))
    by_name = fitted(student, images, soft, classes=NAMES)
    assert by_name.estimator_.history[:, "valid_loss"] == by_number.estimator_.history[:, "valid_loss"]
    with pytest.raises(ValueError, match=r"row 0 .* label 'h', which is not among the classes \[0, 1, .*names"):
        fitted(student, images, soft)


def test_rows_with_soft_labels_are_like_an_eval_set(images, soft, held_out):
    X, _, Q = held_out
    expected = SoftLabelClassifier(net(), random_state=0).fit(images[0][:1200], soft[:1200], eval_set=[(X, Q)])
    for rows in (TensorDataset(torch.as_tensor(X), torch.as_tensor(Q)), SkorchDataset(X.astype(float), Q)):
        clf = fitted(net(train_split=predefined_split(rows)), images, soft)
        for name in ("valid_loss", "valid_acc"):
            history = clf.estimator_.history[:, name]
            np.testing.assert_allclose(history, expected.estimator_.history[:, name], rtol=1e-5)


def test_rows_in_double_precision_and_a_plain_net(images, soft, held_out):
    X, y, _ = held_out
    rows = [SkorchDataset(X.astype(float), y), TensorDataset(torch.as_tensor(X).double(), torch.as_tensor(y))]
    for valid in rows:
        plain = skorch.NeuralNet(Small, nn.CrossEntropyLoss, verbose=0, train_split=predefined_split(valid))
        clf = fitted(plain, images, soft)
        loss = clf.estimator_.history[-1, "valid_loss"]
        assert loss == pytest.approx(log_loss(y, clf.predict_proba(X)), rel=1e-4)


def test_rows_that_cannot_be_validated_by(images, soft, held_out, teachers):
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(zip(*held_out[:2], strict=True))

    class Bare(TensorDataset):
        def __getitem__(self, i):
            return super().__getitem__(i)[0]

    X, y, Q = held_out
    for rows, message in (
        (SkorchDataset(X, Q[:, :7]), r"targets of shape \(7,\): return a label, one of the 10 classes"),
        (Bare(torch.as_tensor(X)), "targets of shape None"),
        (Stream(), "Stream, without random access"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            fitted(net(train_split=predefined_split(rows)), images, soft)
    for targets in (y, Q):
        student = net(train_split=predefined_split(SkorchDataset(X, targets)))
        with pytest.raises(ValueError, match=r"the 16 answers of the teachers: .*ValidSplit\(5\)"):
            HeterogeneousDistiller(teachers, student, backprop=True).fit(images[0][:100])


def test_rows_set_aside_in_a_shape_of_the_users_own(images, soft):
    """A net's own dataset may return anything that its own collate_fn can handle."""

    class Named(SkorchDataset):
        def transform(self, X, y):
            return {"row": X, "target": y}

    def unpacked(items):
        return tuple(torch.stack([torch.as_tensor(item[name]) for item in items]) for name in ("row", "target"))

    own = {"iterator_train__collate_fn": unpacked, "iterator_valid__collate_fn": unpacked}
    clf = fitted(net(dataset=Named, max_epochs=2, **own), images, soft)
    expected = fitted(net(max_epochs=2), images, soft)
    np.testing.assert_allclose(*(c.estimator_.history[:, "valid_loss"] for c in (clf, expected)), rtol=1e-5)
