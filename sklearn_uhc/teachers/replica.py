"""Replicas of networks, so that calling a teacher does not change it, even if others use it at the same time.

Evaluation mode, device and buffers are state of a module, and modules can share parts. Restoring them after a call is
too late for another thread that runs or trains the same part. So each call gets its own replica: a new tree of modules
whose parameters share the memory of the originals, with copies of the buffers. This is cheap compared with a forward
pass, and changes of the module between two calls take effect.
"""

from __future__ import annotations

import copy
import sys
from collections import OrderedDict
from functools import partial
from types import CellType, FunctionType, MethodType
from typing import Any

#: Types of objects that may refer to modules.
SEARCHED = frozenset([list, tuple, set, dict, OrderedDict, MethodType, partial, FunctionType])
#: Larger containers are not searched for modules: they are vocabularies, not lists of layers.
LONGEST = 1000


def replicate(module: Any) -> Any:
    """Return a replica of a module; its functions and lists refer to parts of the replica."""
    return _Replicas(module).of(module)


def without_side_effects(teacher: Any) -> Any:
    """Return a copy of a skorch net with replicas of its modules; other teachers are returned as they are.

    The net may be inside a Pipeline, search or FrozenEstimator. skorch leaves its module in evaluation mode.
    """
    if "skorch" not in sys.modules or not hasattr(teacher, "__dict__"):
        return teacher
    own = vars(teacher)
    if isinstance(teacher, sys.modules["skorch"].NeuralNet):
        return _with(teacher, {name: replicate(value) for name, value in own.items() if is_module(value)})
    if not type(teacher).__module__.startswith("sklearn."):
        return teacher
    if own.get("steps"):
        *first, (name, last) = own["steps"]
        inner = without_side_effects(last)
        return teacher if inner is last else _with(teacher, {"steps": [*first, (name, inner)]})
    holder = next((name for name in ("best_estimator_", "estimator") if name in own), None)
    inner = None if holder is None else without_side_effects(own[holder])
    return teacher if holder is None or inner is own[holder] else _with(teacher, {holder: inner})


def _with(obj: Any, attributes: dict[str, Any]) -> Any:
    """Return a shallow copy with some attributes replaced, without calling hooks of the class."""
    new = object.__new__(type(obj))
    vars(new).update(vars(obj))
    vars(new).update(attributes)
    return new


def is_module(value: Any) -> bool:
    """Return whether this is a torch module."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


class _Replicas:
    """The replicas made for one call; parts that are shared stay shared."""

    def __init__(self, module: Any) -> None:
        self.made: dict[int, Any] = {}
        # A module with its own `train` may change its weights there: LoRA merges them in and out.
        self.copies_weights = any(_switches_by_itself(part) for part in module.modules())

    def of(self, value: Any) -> Any:
        """Return the replica of a value, or the value itself if it contains no module."""
        searched = bool(value) if type(value) in SEARCHED else is_module(value)  # most attributes are empty or plain
        if not searched or id(value) in self.made:
            return self.made.get(id(value), value)
        self.made[id(value)] = value  # for objects that contain themselves
        new = self.made[id(value)] = self._make(value)
        return new

    def _make(self, value: Any) -> Any:
        kind = type(value)
        if is_module(value):
            return self._module(value)
        if kind in (list, tuple, set, dict, OrderedDict) and len(value) > LONGEST:
            return value
        if kind in (list, tuple, set):
            items = [self.of(item) for item in value]
            return kind(items) if _differ(items, value) else value
        if kind in (dict, OrderedDict):
            items = [self.of(item) for item in value.values()]
            return kind(zip(value, items, strict=True)) if _differ(items, value.values()) else value
        if kind is MethodType:
            return kind(value.__func__, self.of(value.__self__))
        if kind is partial:
            return kind(self.of(value.func), *map(self.of, value.args), **self.of(value.keywords))
        return self._function(value) if value.__closure__ else value

    def _module(self, module: Any) -> Any:
        import torch

        if isinstance(module, torch.jit.ScriptModule):  # its mode and parts are not Python objects
            with torch.no_grad():
                return copy.deepcopy(module)
        new = self.made[id(module)] = object.__new__(type(module))
        attributes = vars(module).copy()
        parameters = {name: self._parameter(p) for name, p in attributes.pop("_parameters").items()}
        buffers = {name: self._buffer(b) for name, b in attributes.pop("_buffers").items()}
        vars(new).update(_parameters=parameters, _buffers=buffers)
        vars(new).update({name: self.of(value) for name, value in attributes.items()})
        return new

    def _parameter(self, parameter: Any) -> Any:
        """Return a new parameter, so that it can move to a device, with the memory of the original."""
        import torch

        if type(parameter) is not torch.nn.Parameter:  # None, or a subclass that we cannot create
            return parameter
        if id(parameter) not in self.made:
            values = parameter.detach()
            new = torch.nn.Parameter(values.clone() if self.copies_weights else values, parameter.requires_grad)
            vars(new).update(vars(parameter))
            self.made[id(parameter)] = new
        return self.made[id(parameter)]

    def _buffer(self, buffer: Any) -> Any:
        if id(buffer) not in self.made:
            self.made[id(buffer)] = None if buffer is None else buffer.detach().clone()
        return self.made[id(buffer)]

    def _function(self, function: Any) -> Any:
        """Return a function whose closure refers to replicas instead of modules; `torch.compile` makes such functions.

        Variables without modules stay shared, so a counter in a hook keeps counting.
        """
        cells = tuple(self._cell(cell, function) for cell in function.__closure__)
        if not _differ(cells, function.__closure__):
            return function
        new = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, cells)
        new.__kwdefaults__ = function.__kwdefaults__
        vars(new).update({name: self.of(value) for name, value in vars(function).items()})
        for cell in cells:
            if _content(cell) is function:  # it calls itself
                cell.cell_contents = new
        return new

    def _cell(self, cell: CellType, function: Any) -> CellType:
        content = _content(cell)
        new = self.of(content)
        return cell if new is content and content is not function else CellType(new)


def _content(cell: CellType) -> Any:
    """Return the content of a closure's cell, or None if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _differ(items: Any, originals: Any) -> bool:
    return any(item is not original for item, original in zip(items, originals, strict=True))


def _switches_by_itself(module: Any) -> bool:
    """Return whether the module has its own `train` or `eval`."""
    import torch

    if isinstance(module, torch.jit.ScriptModule):
        return False
    kind, plain = type(module), torch.nn.Module
    return kind.train is not plain.train or kind.eval is not plain.eval
