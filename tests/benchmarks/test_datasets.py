"""Loaders of the paper's datasets, each on a tiny fake with the real layout."""

import io
import re
import shutil

import lmdb
import numpy as np
import pytest
from joblib import Parallel, delayed
from PIL import Image
from scipy.io import savemat
from sklearn.linear_model import LogisticRegression

from benchmarks.paper.datasets import DATASETS, images, load


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


def picture(red, width=80, height=64):
    """An image with red stripes left and right of the central square, which is grey with the given red."""
    image = np.full((height, width, 3), 128, dtype=np.uint8)
    image[..., 0] = red
    side = (width - height) // 2
    image[:, :side], image[:, width - side :] = (255, 0, 0), (255, 0, 0)
    return Image.fromarray(image)


def write_picture(path, red):
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(red).save(path, format="JPEG", quality=95)


def reds(part):
    """The red values of a part's images, which identify them."""
    images = read_all(part)
    assert images.shape[1:] == (64, 64, 3)
    assert images.dtype == np.uint8
    return np.round(images[:, 20:44, 20:44, 0].mean(axis=(1, 2)) / 10).astype(int).tolist()


class TestSquares:
    def test_central_square_is_kept(self):
        square = images.square(_bytes(picture(30, width=96), "PNG"))
        assert np.ptp(square.reshape(-1, 3), axis=0).tolist() == [0, 0, 0]
        assert square[0, 0].tolist() == [30, 128, 128]

    @pytest.mark.parametrize(("width", "height"), [(64, 64), (100, 300), (1200, 900), (20, 31)])
    def test_any_size_becomes_64(self, width, height):
        gradient = np.tile(np.linspace(0, 255, height).astype(np.uint8)[:, None, None], (1, width, 3))
        square = images.square(_bytes(Image.fromarray(gradient), "JPEG"))
        assert square.shape == (64, 64, 3)
        cut = max(height - width, 0) / 2 / height * 255
        assert abs(square[0].mean() - cut) < 8
        assert abs(square[-1].mean() - (255 - cut)) < 8

    @pytest.mark.parametrize("mode", ["L", "CMYK", "P", "RGBA"])
    def test_any_mode_becomes_rgb(self, mode):
        image = Image.new("L", (70, 64), 128).convert(mode)
        square = images.square(_bytes(image, "JPEG" if mode == "CMYK" else "PNG"))
        assert np.abs(square.astype(int) - 128).max() <= 2

    def test_a_broken_file_is_named(self, tmp_path):
        (tmp_path / "broken.jpg").write_bytes(b"no image")
        with pytest.raises(OSError, match=r"broken\.jpg cannot be read"):
            images.FileImages(tmp_path, ["broken.jpg"]).read(np.array([0]))

    def test_rows_come_in_the_order_asked_for(self, tmp_path):
        for red in (10, 90, 200):
            write_picture(tmp_path / f"{red}.jpg", red)
        source = images.FileImages(tmp_path, ["10.jpg", "90.jpg", "200.jpg"])
        assert source.read(np.array([2, 0, 2]))[:, 32, 32, 0].round(-1).tolist() == [200, 10, 200]
        assert source.read(np.array([], dtype=int)).shape == (0, 64, 64, 3)


def _bytes(image, form):
    stream = io.BytesIO()
    image.save(stream, format=form)
    return stream.getvalue()


def fake_imagenet(root):
    """Three classes; the kit's ids are in another order than WordNet's, and an inner node is not a class."""
    for k, wnid in enumerate(["n03", "n01", "n02"]):
        for i in range(2):
            write_picture(root / "train" / wnid / f"{wnid}_{i}.JPEG", 100 + 20 * k + 10 * i)
    for i in range(4):
        write_picture(root / "val" / f"ILSVRC2012_val_{i + 1:08d}.JPEG", 10 * i)
        write_picture(root / "test" / f"ILSVRC2012_test_{i + 1:08d}.JPEG", 200 + 10 * i)
    devkit = root / "ILSVRC2012_devkit_t12" / "data"
    devkit.mkdir(parents=True)
    kinds = [("ILSVRC2012_ID", "f8"), ("WNID", "O"), ("words", "O"), ("num_children", "f8")]
    rows = [(1, "n02", "dog, hound", 0), (2, "n03", "fish", 0), (3, "n01", "cat", 0), (4, "n00", "animal", 3)]
    savemat(devkit / "meta.mat", {"synsets": np.array(rows, dtype=kinds)[:, None]})
    (devkit / "ILSVRC2012_validation_ground_truth.txt").write_text("2\n3\n1\n3\n")


class TestImageNet:
    def test_ground_truth_of_the_kit(self, tmp_path):
        fake_imagenet(tmp_path)
        data = load("imagenet", tmp_path)
        assert data.class_names == ("cat", "dog, hound", "fish")
        assert reds(data.train) == [12, 13, 14, 15, 10, 11]
        assert data.train.y.tolist() == [0, 0, 1, 1, 2, 2]
        assert reds(data.test) == [0, 1, 2, 3]
        assert data.test.y.tolist() == [2, 0, 1, 0]
        assert reds(data.unlabelled) == [20, 21, 22, 23]
        assert data.unlabelled.y is None

    def test_validation_images_in_folders(self, tmp_path):
        fake_imagenet(tmp_path)
        shutil.rmtree(tmp_path / "ILSVRC2012_devkit_t12")
        for i, wnid in enumerate(["n03", "n01", "n02", "n01"]):
            (tmp_path / "val" / wnid).mkdir(exist_ok=True)
            name = f"ILSVRC2012_val_{i + 1:08d}.JPEG"
            (tmp_path / "val" / name).rename(tmp_path / "val" / wnid / name)
        data = load("imagenet", tmp_path)
        assert data.class_names == ("n01", "n02", "n03")
        assert list(zip(reds(data.test), data.test.y.tolist(), strict=True)) == [(1, 0), (3, 0), (2, 1), (0, 2)]

    def test_a_missing_validation_image_is_noticed(self, tmp_path):
        fake_imagenet(tmp_path)
        (tmp_path / "val" / "ILSVRC2012_val_00000002.JPEG").unlink()
        with pytest.raises(ValueError, match=r"holds 3 images, but .* has 4 lines"):
            load("imagenet", tmp_path)


def fake_tinyimagenet(root):
    root = root / "tiny-imagenet-200"
    for k, wnid in enumerate(["n03", "n01"]):
        for i in range(2):
            write_picture(root / "train" / wnid / "images" / f"{wnid}_{i}.JPEG", 100 + 20 * k + 10 * i)
    for i in range(3):
        write_picture(root / "val" / "images" / f"val_{i}.JPEG", 10 * i)
        write_picture(root / "test" / "images" / f"test_{i}.JPEG", 200 + 10 * i)
    lines = [f"val_{i}.JPEG\t{wnid}\t0\t32\t44\t62\n" for i, wnid in enumerate(["n03", "n01", "n03"])]
    (root / "val" / "val_annotations.txt").write_text("".join(lines))
    (root / "wnids.txt").write_text("n03\nn01\n")
    (root / "words.txt").write_text("n00\tentity\nn01\tgoldfish, Carassius auratus\nn03\tlemon\n")


class TestTinyImageNet:
    def test_standard_folder(self, tmp_path):
        fake_tinyimagenet(tmp_path)
        data = load("tinyimagenet", tmp_path)
        assert data.key == load("tinyimagenet", tmp_path / "tiny-imagenet-200").key
        assert data.class_names == ("goldfish, Carassius auratus", "lemon")
        assert (reds(data.train), data.train.y.tolist()) == ([12, 13, 10, 11], [0, 0, 1, 1])
        assert (reds(data.test), data.test.y.tolist()) == ([0, 1, 2], [1, 0, 1])
        assert reds(data.unlabelled) == [20, 21, 22]


def fake_places365(root, size="large"):
    train = [("a/airfield", 0), ("b/bow_window/indoor", 1), ("a/airfield", 0)]
    lines = []
    for i, (name, k) in enumerate(train):
        write_picture(root / f"data_{size}" / name / f"{i:08d}.jpg", 10 * i)
        lines.append(f"/{name}/{i:08d}.jpg {k}\n")
    (root / "places365_train_standard.txt").write_text("".join(lines))
    for i in range(2):
        write_picture(root / f"val_{size}" / f"Places365_val_{i:08d}.jpg", 100 + 10 * i)
    (root / "places365_val.txt").write_text("Places365_val_00000001.jpg 0\nPlaces365_val_00000000.jpg 1\n")
    names = [f"Places365_test_{i:08d}.jpg" for i in range(5)]
    for i, name in enumerate(names):
        write_picture(root / f"test_{size}" / name, 200 + 10 * i)
    (root / "places365_test.txt").write_text("\n".join(names) + "\n")
    (root / "categories_places365.txt").write_text("/a/airfield 0\n/b/bow_window/indoor 1\n")


class TestPlaces365:
    @pytest.mark.parametrize("size", ["large", "256"])
    def test_official_lists(self, tmp_path, size):
        fake_places365(tmp_path, size)
        data = load("places365", tmp_path)
        assert data.class_names == ("airfield", "bow_window/indoor")
        assert (reds(data.train), data.train.y.tolist()) == ([0, 1, 2], [0, 1, 0])
        assert (reds(data.test), data.test.y.tolist()) == ([11, 10], [0, 1])
        assert reds(data.unlabelled) == [20, 21, 22, 23, 24]

    def test_unlabelled_images_are_drawn(self, tmp_path):
        fake_places365(tmp_path)
        draws = [load("places365", tmp_path, n_unlabelled=3, seed=seed) for seed in (0, 0, 1, 2, 3)]
        assert draws[0].key == draws[1].key
        assert len({data.key for data in draws}) > 1
        assert all(len(set(reds(data.unlabelled))) == 3 for data in draws)


def fake_lsun(root, n=6):
    for k, category in enumerate(["bedroom", "tower"]):
        for split, size in (("train", n), ("val", 2)):
            path = str(root / f"{category}_{split}_lmdb")
            with lmdb.open(path, map_size=2**20) as database, database.begin(write=True) as transaction:
                for i in range(size):
                    red = 120 * k + 10 * i + 60 * (split == "val")
                    transaction.put(f"{category}{i:037d}".encode(), _bytes(picture(red), "WEBP"))


class TestLsun:
    OPTIONS = {"categories": ("bedroom", "tower"), "n_train": 2, "n_unlabelled": 3}

    def test_draws_share_no_image(self, tmp_path):
        fake_lsun(tmp_path)
        data = load("lsun", tmp_path, **self.OPTIONS)
        assert data.class_names == ("bedroom", "tower")
        assert data.train.y.tolist() == [0, 0, 1, 1]
        assert data.unlabelled.y is None
        train, unlabelled = reds(data.train), reds(data.unlabelled)
        assert len({*train, *unlabelled}) == 10
        assert [red // 12 for red in train] == [0, 0, 1, 1]
        assert (reds(data.test), data.test.y.tolist()) == ([6, 7, 18, 19], [0, 0, 1, 1])

    def test_seed(self, tmp_path):
        fake_lsun(tmp_path)
        draws = [load("lsun", tmp_path, seed=seed, **self.OPTIONS) for seed in (0, 0, 1, 2)]
        assert draws[0].key == draws[1].key
        assert reds(draws[0].train) == reds(draws[1].train)
        assert len({data.key for data in draws}) == 3

    def test_too_few_images_are_told(self, tmp_path):
        fake_lsun(tmp_path)
        with pytest.raises(ValueError, match="bedroom_train_lmdb has 6 images, too few for 2 images"):
            load("lsun", tmp_path, **(self.OPTIONS | {"n_unlabelled": 5}))

    def test_processes_read_at_once(self, tmp_path):
        fake_lsun(tmp_path)
        data = load("lsun", tmp_path, **self.OPTIONS)
        assert Parallel(n_jobs=2)(delayed(reds)(data.train) for _ in range(2)) == [reds(data.train)] * 2


@pytest.mark.parametrize(
    ("fake", "name", "lost", "archive"),
    [
        (fake_imagenet, "imagenet", "train", "ILSVRC2012_img_train.tar"),
        (fake_imagenet, "imagenet", "train/n01/*", "ILSVRC2012_img_train.tar"),
        (fake_imagenet, "imagenet", "val", "ILSVRC2012_img_val.tar"),
        (fake_imagenet, "imagenet", "test", "ILSVRC2012_img_test_v10102019.tar"),
        (fake_imagenet, "imagenet", "ILSVRC2012_devkit_t12", "ILSVRC2012_devkit_t12.tar.gz"),
        (fake_tinyimagenet, "tinyimagenet", "tiny-imagenet-200/wnids.txt", "tiny-imagenet-200.zip"),
        (fake_tinyimagenet, "tinyimagenet", "tiny-imagenet-200/val/val_annotations.txt", "tiny-imagenet-200.zip"),
        (fake_tinyimagenet, "tinyimagenet", "tiny-imagenet-200/test", "tiny-imagenet-200.zip"),
        (fake_places365, "places365", "places365_val.txt", "filelist_places365-standard.tar"),
        (fake_places365, "places365", "data_large", "train_large_places365standard.tar"),
        (fake_places365, "places365", "test_large", "test_large.tar"),
        (fake_lsun, "lsun", "tower_val_lmdb", "tower_val_lmdb.zip"),
    ],
)
def test_what_is_missing_and_where_is_said(fake, name, lost, archive, tmp_path):
    fake(tmp_path)
    for path in list(tmp_path.glob(lost)):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    options = TestLsun.OPTIONS if name == "lsun" else {}
    place = lost.removesuffix("/*")
    with pytest.raises(FileNotFoundError, match=f"{re.escape(str(tmp_path / place))}.* {re.escape(archive)}"):
        load(name, tmp_path, **options)


@pytest.mark.parametrize("name", ["imagenet", "places365", "lsun", "tinyimagenet", "features"])
def test_a_missing_folder_is_asked_for(name, tmp_path):
    with pytest.raises(ValueError, match=f"'{name}' needs the folder"):
        load(name)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        load(name, tmp_path / "nowhere")


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(ValueError, match=f"'cifar'; take one of {DATASETS[0]}, "):
        load("cifar")
