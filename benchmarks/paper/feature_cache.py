"""Features of frozen extractors, computed once per image and kept on disk.

One folder per dataset and backbone holds two arrays a part: the features and which of their rows are done. Features are
written before their rows are marked, batch by batch, so that a killed run loses a batch and nothing else.
"""

from __future__ import annotations

import os
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from benchmarks.paper.backbones import Backbone
from benchmarks.paper.datasets import Data, Images

Array = NDArray[Any]


class Features:
    """Rows of a dataset as a backbone's trained part takes them.

    Parameters
    ----------
    data : Data
        The dataset.
    backbone : Backbone
        Its extractor computes the features.
    cache : path or None
        Folder to keep them in; None keeps them in memory.
    device : str, default="auto"
        Where to compute; "auto" takes CUDA, else MPS, else the CPU.
    batch_size : int, default=256
        Images that are read and extracted at a time.
    """

    def __init__(
        self, data: Data, backbone: Backbone, cache: Path | str | None, device: str = "auto", batch_size: int = 256
    ) -> None:
        self.data = data
        self.backbone = backbone
        self.cache = None if cache is None else Path(cache)
        self.device = device
        self.batch_size = batch_size
        self._memory: dict[str, tuple[Array, Array]] = {}
        has = "images" if self._sample.ndim == 4 else "features"
        if has != backbone.takes:
            use = "one of the others" if has == "images" else "'features'"
            takes = f"backbone {backbone.name!r} takes {backbone.takes}"
            raise ValueError(f"dataset {data.name!r} holds {has}, but {takes}; use {use}")

    @cached_property
    def shape(self) -> tuple[int, ...]:
        """Shape of one row."""
        if self.cache is not None and self.backbone.cached:
            for path in sorted(self._folder.glob("*-features.npy")):
                return np.load(path, mmap_mode="r", allow_pickle=False).shape[1:]  # spares building the extractor
        return self._extract(self._sample).shape[1:]

    def prepare(self, part: str, rows: Array, verbose: int = 0) -> None:
        """Compute what is missing of the given rows of a part: "train", "test" or "unlabelled"."""
        if not self.backbone.cached:
            return
        values, done = self._open(part, "r+")
        missing = np.unique(rows)
        missing = missing[~done[missing]]
        batches = [missing[k : k + self.batch_size] for k in range(0, len(missing), self.batch_size)]
        for batch in self._progress(batches, part, verbose):
            values[batch] = self._extract(self._images(part).read(batch))
            _flush(values)
            done[batch] = True
            _flush(done)

    def read(self, part: str, rows: Array) -> NDArray[np.float32]:
        """Return the features of the given rows, (n, *shape); what is missing is computed first."""
        rows = np.asarray(rows)
        if not self.backbone.cached:
            return self._read_directly(part, rows)
        values, done = self._open(part, "r")
        if not done[rows].all():
            self.prepare(part, rows)
            values, done = self._open(part, "r")
        return np.array(values[rows])

    def __getstate__(self) -> dict[str, Any]:
        """Leave the extractor behind: another process builds its own if it needs one."""
        return {name: value for name, value in self.__dict__.items() if name != "_extractor"}

    def _images(self, part: str) -> Images:
        """Return the images of a part."""
        if part not in ("train", "test", "unlabelled"):
            raise ValueError(f"there is no part {part!r}; take 'train', 'test' or 'unlabelled'")
        images: Images = getattr(self.data, part).images
        return images

    @cached_property
    def _sample(self) -> Array:
        """One row of the dataset."""
        return self.data.train.images.read(np.array([0]))

    @cached_property
    def _extractor(self) -> nn.Module:
        """The frozen network, on its device."""
        return self.backbone.extractor().to(self._device)

    @property
    def _device(self) -> torch.device:
        """Where to compute: what costs nothing is not worth the way to a GPU."""
        return pick_device(self.device if self.backbone.cached else "cpu")

    def _extract(self, images: Array) -> Array:
        """Return the features of a batch."""
        tensor = torch.from_numpy(images).to(self._device)
        with torch.no_grad():
            features = self._extractor(tensor).float().cpu().numpy()
        if not np.isfinite(features).all():
            raise ValueError(f"backbone {self.backbone.name!r} gave NaN or infinite features of {self.data.name!r}")
        return np.asarray(features)

    def _read_directly(self, part: str, rows: Array) -> Array:
        """Return rows through an extractor that costs nothing, in batches: images grow fourfold as floats."""
        result = np.empty((len(rows), *self.shape), dtype=np.float32)
        for k in range(0, len(rows), self.batch_size):
            result[k : k + self.batch_size] = self._extract(self._images(part).read(rows[k : k + self.batch_size]))
        return result

    @property
    def _folder(self) -> Path:
        """Folder of this dataset's features by this backbone."""
        assert self.cache is not None
        return self.cache / self.data.key / self.backbone.key

    def _open(self, part: str, mode: Literal["r", "r+"]) -> tuple[Array, Array]:
        """Return the features of a part and which rows are done, created if need be."""
        n = len(self._images(part))
        if self.cache is None:
            if part not in self._memory:
                self._memory[part] = np.zeros((n, *self.shape), dtype=np.float32), np.zeros(n, dtype=bool)
            return self._memory[part]
        values_file, done_file = self._folder / f"{part}-features.npy", self._folder / f"{part}-done.npy"
        if not done_file.exists():
            _create(values_file, (n, *self.shape), np.float32)
            _create(done_file, (n,), bool)
        values, done = (np.load(path, mmap_mode=mode, allow_pickle=False) for path in (values_file, done_file))
        if values.shape != (n, *self.shape) or done.shape != (n,):
            raise ValueError(f"{values_file} has shape {values.shape}, not {(n, *self.shape)}; delete {self._folder}")
        return values, done

    def _progress(self, batches: list[Array], part: str, verbose: int) -> Any:
        """Return the batches, with a bar if wanted."""
        if not verbose or not batches:
            return batches
        from tqdm import tqdm

        return tqdm(batches, desc=f"{self.data.name}, {part}: {self.backbone.name}", unit="batch")


def pick_device(name: str) -> torch.device:
    """Return torch's device of that name; "auto" is CUDA, else MPS, else the CPU."""
    if name != "auto":
        return torch.device(name)
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def _create(path: Path, shape: tuple[int, ...], dtype: Any) -> None:
    """Make a file of zeros unless there is one: complete when it appears, even if two processes try at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    os.close(handle)
    try:
        np.lib.format.open_memmap(temporary, mode="w+", dtype=dtype, shape=shape)  # sparse: takes no space yet
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        os.unlink(temporary)


def _flush(values: Array) -> None:
    """Write to disk what is kept there."""
    if isinstance(values, np.memmap):
        values.flush()
