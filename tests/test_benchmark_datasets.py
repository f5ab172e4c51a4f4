"""Loaders of the paper's datasets, each on a tiny fake of the real layout."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from benchmarks.paper.datasets import DATASETS, load


def read_all(part):
    return part.images.read(np.arange(len(part.images)))


def write_features(path, **changes):
    rng = np.random.default_rng(0)
    arrays = {
        f"X_{part}": rng.normal(size=(n, 3)).astype(np.float16)
        for part, n in zip(("train", "test", "unlabelled"), (6, 4, 5), strict=True)
    }
    arrays |= {
        "y_train": np.arange(6, dtype=np.uint8) % 2,
        "y_test": np.arange(4, dtype=np.uint8) % 2,
        "class_names": np.array(["cat", "dog"]),
    }
    arrays = {name: value for name, value in (arrays | changes).items() if value is not None}
    np.savez(path, **arrays)
    return arrays


class TestFeatures:
    def test_file_and_folder_give_the_same(self, tmp_path):
        arrays = write_features(tmp_path / "tinyimagenet_lite0_pca256.npz")
        by_folder, by_file = load("features", tmp_path), load("features", tmp_path / "tinyimagenet_lite0_pca256.npz")
        assert by_folder.key == by_file.key
        assert by_folder.class_names == ("cat", "dog")
        X = by_folder.train.images.read(np.array([4, 1]))
        assert X.dtype == np.float32
        np.testing.assert_array_equal(X, arrays["X_train"][[4, 1]])
        np.testing.assert_array_equal(by_folder.test.y, [0, 1, 0, 1])
        assert by_folder.train.y.dtype == np.int64
        assert by_folder.unlabelled.y is None
        assert len(by_folder.unlabelled.images) == 5

    def test_classes_without_names_are_numbers(self, tmp_path):
        write_features(tmp_path / "own.npz", class_names=None)
        assert load("features", tmp_path, file="own.npz").class_names == ("0", "1")

    def test_other_content_has_another_key(self, tmp_path):
        write_features(tmp_path / "a.npz")
        write_features(tmp_path / "b.npz", X_test=np.ones((4, 3)))
        assert load("features", tmp_path / "a.npz").key != load("features", tmp_path / "b.npz").key

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"X_unlabelled": None}, "has no array X_unlabelled"),
            ({"X_test": np.ones((4, 2))}, "one d"),
            ({"X_test": np.full((4, 3), np.nan)}, "X_test holds NaN"),
            ({"y_test": np.arange(3)}, "y_test must hold 4 integers"),
            ({"y_train": np.full(6, 2)}, "y_train runs from 2 to 2, but there are 2 classes"),
        ],
    )
    def test_wrong_arrays_are_named(self, tmp_path, changes, message):
        write_features(tmp_path / "own.npz", **changes)
        with pytest.raises(ValueError, match=message):
            load("features", tmp_path / "own.npz")


class TestDigits:
    def test_split_is_fixed_stratified_and_disjoint(self):
        data = load("digits")
        sizes = [len(part.images) for part in (data.train, data.unlabelled, data.test)]
        assert sizes == [718, 719, 360]
        assert data.key == load("digits").key
        X = np.concatenate([read_all(part) for part in (data.train, data.unlabelled, data.test)])
        assert len(np.unique(X, axis=0)) == len(X)
        assert X.dtype == np.float32
        assert (X.min(), X.max(), X.shape[1]) == (0, 1, 64)
        assert np.ptp(np.bincount(data.train.y)) <= 5

    def test_labels_belong_to_their_rows(self):
        data = load("digits")
        model = LogisticRegression(max_iter=300).fit(read_all(data.train), data.train.y)
        assert model.score(read_all(data.test), data.test.y) > 0.9


class TestSynthetic:
    def test_options_and_seed(self):
        options = {"n_classes": 3, "n_features": 5, "sizes": (30, 12, 9)}
        data, same, other = (load("synthetic", seed=seed, **options) for seed in (0, 0, 1))
        assert data.key == same.key != other.key
        assert [read_all(part).shape for part in (data.train, data.test, data.unlabelled)] == [(30, 5), (12, 5), (9, 5)]
        np.testing.assert_array_equal(np.bincount(data.train.y), [10, 10, 10])
        assert len(data.class_names) == 3

    def test_parts_share_their_centres(self):
        data = load("synthetic")
        model = LogisticRegression(max_iter=500).fit(read_all(data.train), data.train.y)
        assert model.score(read_all(data.test), data.test.y) > 0.9


@pytest.mark.parametrize("name", ["features"])
def test_a_missing_folder_is_asked_for(name, tmp_path):
    with pytest.raises(ValueError, match=f"'{name}' needs the folder"):
        load(name)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load(name, tmp_path / "nowhere")


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(ValueError, match=f"'cifar'; take one of {DATASETS[0]}, "):
        load("cifar")
