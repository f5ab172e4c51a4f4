"""The card of a package, in JSON: the model, its inputs, and the meaning of its columns."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.estimators.lineage import KEY as LINEAGE
from sklearn_uhc.estimators.lineage import check_lineage
from sklearn_uhc.exporting.inputs import Input, Inputs
from sklearn_uhc.membership.scale import LOG_MIN
from sklearn_uhc.packages.archive import CARD, EXAMPLE, PackageError, parse_json

FORMAT, FORMAT_VERSION = "sklearn_uhc teacher", 1
#: Packages whose versions are on the card if they are installed.
VERSIONS = (
    "sklearn-uhc",
    "scikit-learn",
    "lightgbm",
    "xgboost",
    "catboost",
    "torch",
    "skl2onnx",
    "onnxmltools",
    "onnx",
)
DTYPES = ("float32", "float64", "str")


@dataclass(frozen=True)
class Card:
    """The content of a card."""

    model: str
    classes: list[Any]
    inputs: Inputs
    tolerance: float
    max_error: float
    description: str = ""
    membership: str | None = None
    membership_log_scale: float | None = None
    versions: dict[str, str] = field(default_factory=dict)
    lineage: dict[str, Any] | None = None

    def to_json(self) -> bytes:
        """Return the card as JSON."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False).encode()

    def to_dict(self) -> dict[str, Any]:
        """Return the content of the card as a dict."""
        parts = [{"name": p.name, "dtype": p.dtype, "shape": list(p.shape)} for p in self.inputs.parts]
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "description": self.description,
            "model": self.model,
            "classes": self.classes,
            "inputs": parts,
            "columns": self.inputs.columns,
            "outputs": ["label", "probabilities"],
            "membership": self.membership,
            "membership_log_scale": self.membership_log_scale,
            "tolerance": self.tolerance,
            "max_error": self.max_error,
            "versions": self.versions,
            LINEAGE: self.lineage,
        }

    @classmethod
    def from_json(cls, content: bytes) -> Card:
        """Read a card; raise an error for anything unexpected."""
        card = parse_json(content, CARD)
        _check(isinstance(card, dict) and card.get("format") == FORMAT, "it is not the card of a teacher")
        _check(
            card.get("format_version") == FORMAT_VERSION,
            f"its format has version {str(card.get('format_version'))[:20]}, this release reads {FORMAT_VERSION}: "
            "a newer release of sklearn_uhc may read it",
        )
        texts = card.get("model"), card.get("description"), card.get("membership") or ""
        _check(all(isinstance(text, str) for text in texts), "model, description and membership must be strings")
        numbers = card.get("tolerance"), card.get("max_error")
        _check(all(isinstance(number, float) for number in numbers), "tolerance and max_error must be numbers")
        scale = card.get("membership_log_scale")
        _check(scale is None or (isinstance(scale, float) and np.isfinite(scale)), "membership_log_scale is wrong")
        versions = card.get("versions")
        _check(isinstance(versions, dict) and _all_texts([*versions, *versions.values()]), "versions must be strings")
        return cls(
            card["model"], _classes(card.get("classes")), _inputs(card), *numbers, card["description"],
            card.get("membership"), scale, versions, _lineage(card.get(LINEAGE)),
        )  # fmt: skip


def installed_versions() -> dict[str, str]:
    """Return the versions of installed packages that the model may come from."""
    found = {}
    for package in VERSIONS:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def plain_classes(classes: NDArray[Any]) -> list[Any]:
    """Return class names as plain values for JSON."""
    names = classes.tolist()
    if len({type(name) for name in names}) > 1 or type(names[0]) not in (str, int, float, bool):
        raise TypeError(f"Classes must be all strings or all numbers to be put into a package, got {names[:3]!r}.")
    return names


def membership_of(log_p: NDArray[Any], log_scale: float | None) -> NDArray[np.float64]:
    """Return membership from log-probabilities (n, 2): the second column, or with a scale, as in `MembershipScorer`."""
    log_p = np.asarray(log_p, dtype=float)
    if log_scale is None:
        return np.asarray(np.exp(log_p[:, 1]))
    log_odds = np.diff(np.maximum(log_p, LOG_MIN), axis=1)[:, 0]
    return np.asarray(np.exp(np.minimum(log_odds - log_scale, 0.0)))


def example_to_json(feed: dict[str, NDArray[Any]], answers: NDArray[Any], membership: NDArray[Any] | None) -> bytes:
    """Return example rows and their answers as JSON; missing numbers are null."""
    rows = {name: _with_nulls(values) for name, values in feed.items()}
    known = None if membership is None else membership.tolist()
    return json.dumps({"inputs": rows, "answers": answers.tolist(), "membership": known}).encode()


def example_from_json(content: bytes, card: Card) -> tuple[dict[str, NDArray[Any]], NDArray[Any], NDArray[Any] | None]:
    """Read example rows and answers, as arrays with the shapes and types on the card."""
    example = parse_json(content, EXAMPLE)
    _check(isinstance(example, dict) and isinstance(example.get("inputs"), dict), "it holds no example rows", EXAMPLE)
    rows, answers, membership = example["inputs"], example.get("answers"), example.get("membership")
    _check(set(rows) == {part.name for part in card.inputs.parts}, "its inputs differ from the card", EXAMPLE)
    P = _array(answers, "float64")
    _check(
        (P.ndim == 2 and P.shape[1] == len(card.classes)) or P.size == 0, "its answers are not one per class", EXAMPLE
    )
    feed = {part.name: _array(rows[part.name], part.dtype) for part in card.inputs.parts}
    for part in card.inputs.parts:
        _check(feed[part.name].shape == (len(P), *part.shape) or not len(P), "its rows have another shape", EXAMPLE)
    known = None if membership is None else _array(membership, "float64")
    _check((known is None) == (card.membership is None), "membership is on the card or in it, not both", EXAMPLE)
    _check(known is None or known.shape == (len(P),), "its membership is not one number per row", EXAMPLE)
    return feed, P, known


def _array(values: Any, dtype: str) -> NDArray[Any]:
    try:
        if dtype == "str":
            array = np.asarray(values, dtype=object)
            _check(_all_texts(array.ravel().tolist()), "texts are expected", EXAMPLE)
            return array
        return np.asarray(values, dtype=float).astype(dtype)  # null becomes NaN
    except (TypeError, ValueError, OverflowError) as error:
        raise PackageError(f"{EXAMPLE!r} has no table of numbers ({error})") from error


def _with_nulls(values: NDArray[Any]) -> Any:
    if values.dtype == object or np.isfinite(values).all():
        return values.tolist()
    missing = np.isnan(values)
    if not np.isfinite(values[~missing]).all():
        raise ValueError("X_example has infinite numbers, which cannot be put into a package.")
    with_nulls = values.astype(object)
    with_nulls[missing] = None
    return with_nulls.tolist()


def _classes(names: Any) -> list[Any]:
    _check(isinstance(names, list) and len(names) > 0, "it names no classes")
    _check(len({type(name) for name in names}) == 1, "its classes are of several types")
    _check(type(names[0]) in (str, int, float, bool) and len(set(names)) == len(names), "its classes are no names")
    _check(np.asarray(names).tolist() == names, "its classes are no names")  # NaN, or texts that end in zeros
    _check(type(names[0]) is not int or all(-(2**63) <= name < 2**63 for name in names), "its classes are too large")
    return names


def _inputs(card: dict[str, Any]) -> Inputs:
    parts: Any = card.get("inputs")
    columns: Any = card.get("columns")
    _check(isinstance(parts, list) and len(parts) > 0 and isinstance(columns, bool), "it tells of no inputs")
    found = []
    for part in parts:
        _check(isinstance(part, dict) and isinstance(part.get("name"), str), "an input has no name")
        shape = part.get("shape")
        whole = isinstance(shape, list) and all(type(length) is int and 0 <= length < 2**31 for length in shape)
        _check(whole and part.get("dtype") in DTYPES, "an input has no shape or no known type")
        found.append(Input(part["name"], part["dtype"], tuple(shape)))
    _check(columns or len(found) == 1, "it has several inputs that are not columns")
    return Inputs(tuple(found), columns)


def _lineage(found: Any) -> dict[str, Any] | None:
    if found is None:
        return None
    try:
        return check_lineage(found)
    except ValueError as error:
        raise PackageError(f"{CARD!r}: {error}") from error


def _all_texts(values: list[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def _check(right: bool, problem: str, name: str = CARD) -> None:
    if not right:
        raise PackageError(f"{name!r}: {problem}")
