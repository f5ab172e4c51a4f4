"""Load a teacher package: read it within limits, check it, and only then pass the model to onnxruntime."""

from __future__ import annotations

import os
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.packages.archive import CARD, EXAMPLE, MEMBERSHIP, MODEL, PackageError, read_archive
from sklearn_uhc.packages.card import Card, example_from_json, membership_of
from sklearn_uhc.teachers import OnnxTeacher
from sklearn_uhc.teachers.onnx_inputs import DTYPES
from sklearn_uhc.teachers.onnx_model import ModelBytes

__all__ = ["load_teacher"]

#: Maximum difference between the answers on the example rows and those in the package.
TOLERANCE = 1e-5
OUTPUT = "probabilities"


class Membership:
    """The probability that a row belongs to any of a teacher's classes."""

    def __init__(self, classifier: OnnxTeacher, log_scale: float | None = None) -> None:
        self.classifier, self.log_scale = classifier, log_scale

    def predict_membership(self, X: Any) -> NDArray[np.floating[Any]]:
        """Return one probability per row, shape (n,)."""
        return membership_of(self.classifier.predict_log_proba(X), self.log_scale)


class PackagedTeacher(OnnxTeacher):
    """A teacher from a package: an OnnxTeacher with a card and optionally a membership scorer."""

    card_: dict[str, Any]
    membership_: Membership | None
    sha256_: str

    def __sklearn_clone__(self) -> PackagedTeacher:
        new: PackagedTeacher = super().__sklearn_clone__()
        new.card_, new.membership_, new.sha256_ = self.card_, self.membership_, self.sha256_
        return new


def load_teacher(
    path: str | os.PathLike[str],
    *,
    max_size: int = 2**30,
    n_threads: int | None = None,
    providers: Sequence[Any] | None = None,
) -> PackagedTeacher:
    """Load a teacher package written by `pack_teacher`.

    No code from the file is run, and nothing is unpickled or written. The file is read into memory within limits. Its
    checksums, card and model are checked, and the model's answers on the example rows are compared with those of its
    owner. The page about security says what a malicious package can still do.

    Parameters
    ----------
    path : str or path-like
        The file.
    max_size : int, default=2**30
        Largest size of the file in bytes, packed or unpacked.
    n_threads : int, default=None
        Threads of one run of the model. None: as many as there are cores.
    providers : list, default=None
        Execution providers of onnxruntime. None: CUDA if available, else the CPU.

    Returns
    -------
    teacher : PackagedTeacher
        An `OnnxTeacher` with three more attributes: `card_`, the description in the package; `membership_`, an object
        with `predict_membership(X)`, or None; `sha256_`, the checksum of the file.

    Raises
    ------
    ValueError
        If the file is not a package, is damaged, or gives other answers than where it was made.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from sklearn_uhc import load_teacher, pack_teacher
    >>> X, y = load_iris(return_X_y=True)
    >>> forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> file = pack_teacher(forest, getfixture("tmp_path") / "iris.teacher", X, description="Fisher's iris flowers")
    >>> teacher = load_teacher(file)
    >>> teacher.classes_.tolist(), teacher.card_["description"]
    ([0, 1, 2], "Fisher's iris flowers")
    """
    try:
        members = read_archive(path, max_size)
        card = Card.from_json(members[CARD])
        teacher = _build(members[MODEL], MODEL, card, card.classes, n_threads, providers)
        membership = None
        if (MEMBERSHIP in members) != (card.membership is not None):
            raise PackageError(f"{MEMBERSHIP!r} is on the card or in the file, not both")
        if MEMBERSHIP in members:
            judge = _build(members[MEMBERSHIP], MEMBERSHIP, card, [False, True], n_threads, providers)
            membership = Membership(judge, card.membership_log_scale)
        _check_example(teacher, membership, members[EXAMPLE], card)
    except PackageError as error:
        raise PackageError(f"{os.fspath(path)!r} is not a usable teacher package: {error}.") from error
    teacher.card_, teacher.membership_ = card.to_dict(), membership
    teacher.sha256_ = sha256(Path(path).read_bytes()).hexdigest()
    return teacher


def _build(
    content: bytes, name: str, card: Card, classes: list[Any], n_threads: int | None, providers: Sequence[Any] | None
) -> PackagedTeacher:
    """Audit and load a model, and compare its inputs with the card."""
    own: dict[str, Any] = {"n_threads": n_threads, "providers": providers, "audit": True}
    teacher = PackagedTeacher(ModelBytes(content), classes, output=OUTPUT, output_kind="proba", **own)
    try:
        found = teacher._load().inputs
        teacher.classes_  # noqa: B018  it compares their number with the output's columns
    except ImportError:
        raise
    except Exception as error:  # onnxruntime raises many kinds
        raise PackageError(f"{name!r} cannot be loaded ({_short(error)})") from error
    given = [(p.name, np.dtype(object if p.dtype == "str" else p.dtype), [*p.shape]) for p in card.inputs.parts]
    kinds = [(i.name, np.dtype(object if i.dtype is DTYPES["tensor(string)"] else i.dtype), i.shape[1:]) for i in found]
    if given != kinds:
        raise PackageError(f"{name!r} has other inputs than the card")
    return teacher


def _check_example(teacher: PackagedTeacher, membership: Membership | None, content: bytes, card: Card) -> None:
    """Compare the answers on the example rows with those in the package."""
    feed, answers, known = example_from_json(content, card)
    if not len(answers):
        return
    judges = [(teacher, answers)]
    if membership is not None and known is not None:
        judges.append((membership.classifier, np.column_stack([1 - known, known])))
    for judge, expected in judges:
        try:
            (got,) = judge._load().session.run([OUTPUT], feed)
        except Exception as error:
            raise PackageError(f"its model fails on its own example rows ({_short(error)})") from error
        if got.shape != expected.shape or not (np.abs(got - expected) <= TOLERANCE).all():
            raise PackageError("its model gives other answers for the example rows than it did for its owner")


def _short(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200]
