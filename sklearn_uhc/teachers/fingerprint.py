"""Keys of teachers and data, by which stored answers are found again.

A key is a hash of everything that affects a teacher's answers: its class, its parameters, its fitted attributes. It is
the same after a prediction, in a copy, after pickling and in another process. It does not depend on which parts are the
same object, on the order in which attributes were set, or on the memory layout of arrays. Parts that cannot be hashed,
such as lambdas, are an error: if only their name counted, one teacher's answers could be used for another.
"""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from hashlib import blake2b
from types import FunctionType
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.neighbors import BallTree, KDTree
from sklearn.utils import Bunch

from sklearn_uhc.teachers.answering import AnsweringTeacher
from sklearn_uhc.teachers.torch_teacher import TorchTeacher
from sklearn_uhc.teachers.torchscript import Saved, parts_of_script
from sklearn_uhc.utils.rows import count_rows, is_dataset, take_rows

#: Size of a key in bytes.
SIZE = 16
#: A strided array is copied in pieces of this many bytes.
COPIED = 2**22
#: Number of rows of a Dataset that are part of its key; hashing all would mean reading the whole Dataset.
SAMPLED = 64
#: Attributes of a network that affect how it is run, not its answers; a run may resume with other values of them.
HOW_TO_RUN = ("batch_size", "device", "verbose", "compile")
#: Attributes of a skorch net for training only, and those with such a prefix (`callbacks__...`).
FOR_TRAINING = (
    *("callbacks", "cuda_dependent_attributes", "history", "iterator_train", "lr", "max_epochs", "optimizer"),
    *("prefixes", "train_split", "virtual_params", "warm_start", "_modules", "_criteria", "_optimizers"),
    "_params_to_validate",
)
#: Packages whose objects pickle their complete state, and may have caches in addition.
PICKLED_WHOLE = frozenset({*sys.stdlib_module_names, "numpy", "scipy", "pandas", "polars", "pyarrow"})

SIMPLE = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


class NotHashableError(Exception):
    """A part of a teacher cannot be hashed."""


def fingerprint(teacher: Any) -> str:
    """Hash what a teacher's answers depend on: its parameters and its fitted attributes."""
    try:
        return Hasher().of(teacher).hex()
    except (NotHashableError, RecursionError) as error:
        raise ValueError(
            f"{type(teacher).__name__} cannot be pickled, so its answers cannot be kept in a store: use "
            f"importable functions instead of lambdas in it, or leave store out. ({error})"
        ) from error


def fingerprint_of_data(X: Any) -> str:
    """Hash X; for a Dataset, its length and some of its rows."""
    if is_dataset(X):
        n = count_rows(X)
        X = n, take_rows(X, np.unique(np.linspace(0, n - 1, SAMPLED).astype(int)))
    try:
        return Hasher().of(X).hex()
    except (NotHashableError, RecursionError) as error:
        raise ValueError(
            f"X, a {type(X).__name__}, cannot be pickled, so answers for it cannot be kept: leave store out. ({error})"
        ) from error


class Hasher:
    """Hashes an object by the values it consists of."""

    def __init__(self) -> None:
        self._open: dict[int, int] = {}  # objects being hashed, to find cycles
        self._known: dict[int, tuple[Any, bytes]] = {}  # keeps the object, so that its id is not reused

    def of(self, obj: Any) -> bytes:
        """Return the hash of an object."""
        if type(obj) in SIMPLE:
            return _digest(type(obj).__name__, [repr(obj).encode("utf-8", "surrogatepass")])
        if isinstance(obj, (type, FunctionType)):
            return _digest("name", [_importable_name(obj).encode()])
        if id(obj) in self._known:
            return self._known[id(obj)][1]
        if id(obj) in self._open:
            return _digest("cycle", [str(self._open[id(obj)]).encode()])
        self._open[id(obj)] = len(self._open)
        try:
            return self._compound(obj)
        finally:
            del self._open[id(obj)]

    def _compound(self, obj: Any) -> bytes:
        if isinstance(obj, np.ndarray):
            return self._array(obj)
        if type(obj) in (list, tuple):
            return _digest(type(obj).__name__, map(self.of, obj))
        if type(obj) is dict:
            return _digest("dict", (self.of(part) for pair in obj.items() for part in pair))
        if type(obj) in (set, frozenset):
            return _digest(type(obj).__name__, sorted(map(self.of, obj)))
        stand_in = _stand_in(obj)
        result = self._instance(obj) if stand_in is None else self.of(stand_in)
        self._known[id(obj)] = obj, result
        return result

    def _array(self, array: np.ndarray) -> bytes:
        """Hash an array by dtype, shape and values, whatever its memory layout."""
        if isinstance(array, np.ma.MaskedArray):
            return _digest("masked", map(self.of, (array.filled(), np.ma.getmaskarray(array))))
        array = np.asarray(array)
        if array.dtype.char in "gG":  # long double, which has padding bytes
            array = array.astype(str)
        head = f"{array.dtype.str} {array.shape}"
        if array.dtype.names:  # field by field, since gaps between fields may hold anything
            parts = (self.of(part) for name in array.dtype.names for part in (name, array[name]))
            return _digest(f"record {head}", parts)
        if array.dtype.hasobject or array.dtype.kind == "T":
            return _digest(f"objects {head}", map(self.of, array.ravel().tolist()))
        return _digest(f"array {head}", _bytes_of(array))

    def _instance(self, obj: Any) -> bytes:
        """Hash an object by its pickled state, and by attributes that are not pickled."""
        reduced = _reduce(obj)
        if isinstance(reduced, str):
            return _digest("name", [f"{getattr(obj, '__module__', '')}.{reduced}".encode()])
        make, args, state, items, pairs = (*reduced, *[None] * (5 - len(reduced)))[:5]
        parts = make, args, _ordered(state), list(items or ()), list(pairs or ())
        return _digest("object", [self.of(parts), *self._left_out(obj, state)])

    def _left_out(self, obj: Any, state: Any) -> Iterable[bytes]:
        """Hash attributes that `__getstate__` or `__reduce__` drops: weights may be among them.

        For those that cannot be hashed, such as locks and sessions, the type is hashed: a copy has to recreate them
        from its pickled state. Cached properties are skipped, since they follow from the rest.
        """
        own = getattr(obj, "__dict__", {})
        if state is own or type(obj).__module__.partition(".")[0] in PICKLED_WHOLE:
            return
        kept = state if isinstance(state, dict) else {}
        for name, value in sorted(own.items()):
            if (name in kept and kept[name] is value) or isinstance(getattr(type(obj), name, None), cached_property):
                continue
            try:
                hashed = self.of(value)
            except NotHashableError:
                hashed = _digest("type", [f"{type(value).__module__}.{type(value).__qualname__}".encode()])
            yield _digest("left out", [self.of(name), hashed])


def _digest(kind: str, parts: Iterable[Any]) -> bytes:
    """Hash bytes, buffers or hashes, prefixed with their kind."""
    total = blake2b(kind.encode() + b"\0", digest_size=SIZE)
    for part in parts:
        total.update(part)
    return total.digest()


def _bytes_of(array: np.ndarray) -> Iterable[Any]:
    """Yield the values in C order as buffers, without copies or with small ones."""
    if array.flags.c_contiguous:
        yield array.reshape(-1).view(np.uint8) if array.size else b""
        return
    step = max(1, COPIED * len(array) // max(array.nbytes, 1))
    for start in range(0, len(array), step):
        yield np.ascontiguousarray(array[start : start + step]).reshape(-1).view(np.uint8)


def _importable_name(obj: Any) -> str:
    """Return the name by which a class or function can be imported; raise an error if there is none."""
    found: Any = sys.modules.get(obj.__module__)
    for part in obj.__qualname__.split("."):
        found = getattr(found, part, None)
    if found is not obj:
        raise NotHashableError(f"{obj.__module__}.{obj.__qualname__} cannot be imported by this name")
    return f"{obj.__module__}.{obj.__qualname__}"


def _reduce(obj: Any) -> Any:
    """Return what pickle's `__reduce_ex__` returns for an object."""
    reducer: Callable[[Any], Any] | None = copyreg.dispatch_table.get(type(obj))
    try:
        return obj.__reduce_ex__(4) if reducer is None else reducer(obj)
    except Exception as error:  # anything that its own code raises
        raise NotHashableError(f"{type(obj).__name__}: {error}") from error


def _ordered(state: Any) -> Any:
    """Sort attributes by name, since their order does not matter."""
    if isinstance(state, tuple) and len(state) == 2:  # attributes and slots
        return tuple(map(_ordered, state))
    if isinstance(state, dict):
        return sorted(state.items(), key=lambda item: str(item[0]))
    return state


def _stand_in(obj: Any) -> Any:
    """Return what is hashed in place of an object whose pickle has too much or too little, or None for all others."""
    if issparse(obj):
        rows = obj.tocsr(copy=True)
        rows.sum_duplicates()  # the order of entries may change with use
        return "sparse", rows.shape, rows.data, rows.indices, rows.indptr
    if isinstance(obj, Bunch):
        return "bunch", dict(obj)
    if isinstance(obj, partial):
        return type(obj), obj.func, obj.args, obj.keywords
    if isinstance(obj, (KDTree, BallTree)):  # its integers are sizes, which arrays have too, and query counts
        return type(obj), [part for part in obj.__getstate__() if not isinstance(part, int)]
    if isinstance(obj, AnsweringTeacher) and (decisive := obj._decides_answers()) is not None:
        return type(obj), decisive
    if isinstance(obj, TorchTeacher):
        return type(obj), _without(obj, HOW_TO_RUN)
    for package, stand_in in STAND_INS.items():
        found = stand_in(obj) if package in sys.modules else None
        if found is not None:
            return found
    return None


def _stand_in_of_lightgbm(obj: Any) -> Any:
    """Return the text of a booster with all trees: a copy lacks what only training uses."""
    import lightgbm

    if not isinstance(obj, lightgbm.Booster):
        return None
    return "booster", obj.model_to_string(num_iteration=-1), max(obj.best_iteration, 0)


def _stand_in_of_catboost(obj: Any) -> Any:
    """Return the state of a copy of the model: in the original, the same trees may be in another order."""
    import catboost

    return (type(obj), _ordered(obj.copy().__getstate__())) if isinstance(obj, catboost.CatBoost) else None


def _stand_in_of_skorch(obj: Any) -> Any:
    import skorch

    return (type(obj), _without(obj, HOW_TO_RUN + FOR_TRAINING)) if isinstance(obj, skorch.NeuralNet) else None


def _stand_in_of_torch(obj: Any) -> Any:
    import torch

    if isinstance(obj, torch.Tensor):
        values = obj.detach().cpu().flatten().view(torch.uint8).numpy()  # as bytes, since NumPy has no bfloat16
        return "tensor", str(obj.dtype), tuple(obj.shape), values
    if isinstance(obj, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
        return parts_of_script(obj)
    if isinstance(obj, Saved):
        return obj.parts
    if isinstance(obj, torch.nn.Module):
        return type(obj), _without(obj, ("training",))
    return str(obj) if isinstance(obj, (torch.dtype, torch.device)) else None


def _without(obj: Any, names: tuple[str, ...]) -> Any:
    """Return the attributes of an object without some names: `name`, `name_` and `name__part` are left out."""
    return _ordered({key: value for key, value in vars(obj).items() if key.rstrip("_").split("__")[0] not in names})


#: Stand-ins by package. Nothing is imported here: there are no objects of a package that is not loaded.
STAND_INS: dict[str, Callable[[Any], Any]] = {
    "lightgbm": _stand_in_of_lightgbm,
    "catboost": _stand_in_of_catboost,
    "skorch": _stand_in_of_skorch,
    "torch": _stand_in_of_torch,
}
