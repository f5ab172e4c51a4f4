"""The content of a TorchScript module (code, attributes, tensors), read from the output of `torch.jit.save`."""

from __future__ import annotations

import io
import pickle
import re
import zipfile
from typing import Any

#: Torch numbers classes of the same name in the order in which a process creates them.
MANGLED = re.compile(r"\.?___torch_mangle_\d+")


class Saved:
    """An object of an archive, of any class: its arguments and attributes."""

    args: tuple[Any, ...]

    def __new__(cls, *args: Any) -> Saved:
        """Store the arguments, since there is nothing to call."""
        saved = super().__new__(cls)
        saved.args = args
        return saved

    @property
    def parts(self) -> Any:
        """Class name, arguments and attributes, without the training mode."""
        return type(self).__name__, sorted((key, value) for key, value in vars(self).items() if key != "training")


class Reader(pickle.Unpickler):
    """Reads the attributes of a saved module; creates only `Saved` objects."""

    def __init__(self, archive: zipfile.ZipFile, folder: str) -> None:
        super().__init__(io.BytesIO(archive.read(f"{folder}.pkl")))
        self._archive, self._folder = archive, folder

    def find_class(self, module: str, name: str) -> Any:
        """Return a class that only stores its arguments."""
        return type(MANGLED.sub("", f"{module}.{name}"), (Saved,), {})

    def persistent_load(self, pid: Any) -> Any:
        """Return the type and bytes of a tensor's storage, without its device."""
        return pid[1].__name__, self._archive.read(f"{self._folder}/{pid[2]}")


def parts_of_script(script: Any) -> Any:
    """Return code, attributes, tensors and constants, which are the same after saving and loading."""
    import torch

    file = io.BytesIO()
    torch.jit.save(script, file)
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        code = sorted(MANGLED.sub("", archive.read(name).decode()) for name in names if name.endswith(".py"))
        roots = [name[: -len(".pkl")] for name in names if name.endswith(("/data.pkl", "/constants.pkl"))]
        return code, [Reader(archive, root).load() for root in sorted(roots)]
