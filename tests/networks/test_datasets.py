"""torch Datasets as X: subsets, searches over them, and datasets without access by row."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import GridSearchCV, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from skorch.helper import SliceDataset
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TeacherOutputs, TorchTeacher, UnifiedEnsemble
from tests.networks.helpers import Images, net


def distiller(teachers, **params):
    return HeterogeneousDistiller(teachers, SoftLabelClassifier(net(**params), random_state=0))


class Stream(IterableDataset):
    """An iterable dataset without access by row."""

    def __init__(self, X):
        self.X = X

    def __iter__(self):
        return iter(torch.as_tensor(self.X))


class StreamWithLength(Stream):
    def __len__(self):
        return len(self.X)


class Endless(Dataset):
    """Has access by row number, but no length."""

    def __init__(self, X):
        self.X = X

    def __getitem__(self, i):
        return self.X[i]


@pytest.mark.parametrize(
    "part", [Subset, lambda rows, which: SliceDataset(rows)[which]], ids=["Subset", "SliceDataset"]
)
def test_a_part_of_a_dataset_is_that_part(images, teachers, part):
    X, _ = images
    which = np.arange(900, 1300, 2)
    rows = part(Images(X), which)
    for of_dataset, of_array in ((rows, X[which]), (DataLoader(rows, batch_size=7, shuffle=True), X[which])):
        expected = TeacherOutputs(teachers).fit(of_array).transform(of_array)
        np.testing.assert_allclose(TeacherOutputs(teachers).fit(of_dataset).transform(of_dataset), expected, rtol=1e-6)
        clf = distiller(teachers, max_epochs=2).fit(of_dataset)
        by_array = distiller(teachers, max_epochs=2).fit(of_array)
        np.testing.assert_allclose(clf.predict_proba(of_dataset), by_array.predict_proba(of_array), atol=1e-5)


@pytest.mark.parametrize("with_labels", [True, False])
def test_searches_over_a_sliced_dataset(images, teachers, with_labels):
    X, y = images[0][600:800], images[1][600:800]
    rows = SliceDataset(TensorDataset(torch.as_tensor(X), torch.as_tensor(y)))

    def searched(rows):
        search = GridSearchCV(distiller(teachers, max_epochs=2), {"student__estimator__lr": [0.1, 1e-6]}, cv=2)
        return search.fit(rows, y if with_labels else None)

    search, expected = searched(rows), searched(X)
    assert search.best_params_ == {"student__estimator__lr": 0.1}
    scores = [found.cv_results_["mean_test_score"] for found in (search, expected)]
    np.testing.assert_allclose(*scores, rtol=1e-4)
    np.testing.assert_allclose(search.predict_proba(rows), expected.predict_proba(X), atol=1e-5)


def test_cross_validation_predicts_every_row(images, teachers):
    X, y = images[0][600:800], images[1][600:800]
    ensemble = UnifiedEnsemble(teachers)
    found = cross_val_predict(ensemble, SliceDataset(Images(X)), y, cv=3, method="predict_proba")
    np.testing.assert_allclose(found, cross_val_predict(ensemble, X, y, cv=3, method="predict_proba"), rtol=1e-5)


def test_a_search_without_the_wrapper_says_what_to_do(images, teachers):
    search = GridSearchCV(distiller(teachers), {"temperature": [1, 3]}, cv=2, error_score="raise")
    with pytest.raises(TypeError, match=r"list of tuples that begin with Tensors.*SliceDataset\(dataset\)"):
        search.fit(Images(images[0][:50]))


@pytest.mark.parametrize("kind", [Stream, StreamWithLength, Endless])
def test_rows_without_a_number_are_refused(images, soft, teachers, kind):
    rows, X = kind(images[0][:50]), images[0][:100]
    ensemble = UnifiedEnsemble(teachers).fit(X)
    student = SoftLabelClassifier(net(max_epochs=1)).fit(X, soft[:100])
    for ask in (
        distiller(teachers).fit,
        TeacherOutputs(teachers).fit,
        ensemble.predict,
        student.predict,
        teachers[0].predict,
        lambda rows: student.fit(rows, soft[:50]),
        lambda rows: distiller(teachers).fit(DataLoader(rows)),
    ):
        with pytest.raises(TypeError, match=rf"{kind.__name__}, without random access.*__getitem__"):
            ask(rows)


def test_loaders_where_rows_are_needed(images, soft, module):
    loader = DataLoader(Images(images[0][:50]))
    for ask in (TorchTeacher(module, list(range(6))).predict, lambda X: SoftLabelClassifier(net()).fit(X, soft[:50])):
        with pytest.raises(TypeError, match=r"X is a DataLoader.*pass its dataset"):
            ask(loader)


def test_students_that_are_no_networks(images, soft, teachers):
    rows, forest = Images(images[0][600:700]), RandomForestClassifier(5, random_state=0)
    for fit in (
        HeterogeneousDistiller(teachers, forest).fit,
        lambda rows: SoftLabelClassifier(forest).fit(rows, soft[600:700]),
    ):
        with pytest.raises(TypeError, match="RandomForestClassifier cannot: load"):
            fit(rows)
    reader = FunctionTransformer(lambda rows: np.stack([np.asarray(X).ravel() for X, _ in rows]))
    clf = HeterogeneousDistiller(teachers, make_pipeline(reader, forest)).fit(rows)
    assert clf.predict_proba(rows).shape == (100, 10)
