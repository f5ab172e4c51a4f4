"""Lineage: who took part in a merge, how it was done, and what was found, as plain values that JSON can hold.

`fit` records it, so pickles carry it, and so do ONNX files and packages. Teachers in files are identified by their
checksum, as `sha256sum` prints it. Objects have a name and a type only: hashing them would cost a small fit a quarter
of its time, for a number that nobody could compare. URLs and tokens of servers are left out.
"""

from __future__ import annotations

import json
import platform
import sys
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from sklearn_uhc.estimators.merger import TeacherMerger
from sklearn_uhc.teachers import OnnxTeacher, RemoteTeacher
from sklearn_uhc.teachers.roster import kind_of_teacher
from sklearn_uhc.utils.versioned import current_version

#: Key in the metadata of an ONNX file, and on the card of a package.
KEY = "lineage"
#: Longer or deeper lineage in a file is refused.
LONGEST, DEEPEST = 2**20, 6
#: Libraries whose versions matter, if they are loaded.
LIBRARIES = ("numpy", "scipy", "sklearn", "lightgbm", "xgboost", "catboost", "torch", "skorch", "onnxruntime")


def make_lineage(merger: TeacherMerger, student: Any, balance: Any, n_rows: int | None) -> dict[str, Any]:
    """Return the lineage of a fitted merge; `student` is None for an ensemble."""
    labels, method = merger.labels_, merger.method
    return {
        "library": f"sklearn_uhc {current_version()}",
        "date": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "teachers": _teachers(merger),
        "classes": len(merger.classes_),
        "method": method if isinstance(method, str) else type(method).__name__,
        "temperature": float(merger.method_.temperature),
        "class_prior": _prior(merger),
        "balance": balance if isinstance(balance, str) else bool(balance),
        "student": None if student is None else kind_of_teacher(student.estimator),
        "rows": n_rows,
        "labelled_rows": 0 if labels is None else len(labels.rows),
        "findings": [finding.says for finding in merger.findings_],
        "versions": _versions(),
    }


def lineage_to_json(lineage: dict[str, Any]) -> str:
    """Return lineage as JSON."""
    return json.dumps(lineage, ensure_ascii=False)


def lineage_from_json(text: str) -> dict[str, Any]:
    """Return the lineage in a file: plain values of bounded size, but written by whoever made the file."""
    if len(text) > LONGEST:
        raise ValueError(f"its lineage has {len(text)} characters, at most {LONGEST} are allowed")
    try:
        found = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its lineage is not JSON ({type(error).__name__})") from error
    return check_lineage(found)


def check_lineage(found: Any) -> dict[str, Any]:
    """Return lineage that was parsed from JSON, if it is an object of limited depth."""
    if not isinstance(found, dict) or _is_deeper(found, DEEPEST):
        raise ValueError(f"its lineage is not an object of depth {DEEPEST} at most")
    return found


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _is_deeper(value: Any, depth: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(depth == 0 or _is_deeper(part, depth - 1) for part in inner)


def _teachers(merger: TeacherMerger) -> list[dict[str, Any]]:
    """Return name, type, number of classes and checksum of every teacher; with given answers, only what is known."""
    space, roster = merger.label_space_, merger.roster_
    teachers = [None] * space.n_teachers if roster is None else roster.teachers
    names = space.teacher_names if space.is_named else [str(i) for i in range(space.n_teachers)]
    weights = [None] * space.n_teachers if merger.teacher_weight_ is None else np.asarray(merger.teacher_weight_)
    found = []
    for name, teacher, labels, weight in zip(names, teachers, space.class_lists, weights, strict=True):
        entry = {"name": str(name), "type": "answers" if teacher is None else _kind(teacher), "classes": len(labels)}
        found.append(entry | _identity(teacher) | ({} if weight is None else {"weight": float(weight)}))
    return found


def _kind(teacher: Any) -> str:
    """Return the type of a teacher; for a package also that of the model inside, as its card has it."""
    card = getattr(teacher, "card_", None)
    model = card.get("model") if isinstance(card, dict) else None
    return f"package of {model[:80]}" if isinstance(model, str) else kind_of_teacher(teacher)


def _identity(teacher: Any) -> dict[str, str]:
    """Return the checksum of a teacher's file, if it comes from one; of a server nothing but its version."""
    if isinstance(teacher, RemoteTeacher):
        return {} if teacher.version is None else {"version": str(teacher.version)}
    known = getattr(teacher, "sha256_", None)
    if known is None and isinstance(teacher, OnnxTeacher):
        known = _checksum(teacher.model)
    return {"sha256": known} if isinstance(known, str) else {}


def _checksum(model: Any) -> str | None:
    try:
        return sha256(model if isinstance(model, bytes) else Path(model).read_bytes()).hexdigest()
    except OSError:  # the file is gone; the fit, which may have taken hours, is done
        return None


def _prior(merger: TeacherMerger) -> dict[str, float] | None:
    """Return the class frequencies that were told; None if they were estimated, or left as merged."""
    if merger._prior is None:
        return None
    shares = np.round(merger._prior, 6).tolist()  # NaN for a class that the prior leaves to the merge
    return {str(label): share for label, share in zip(merger.classes_.tolist(), shares, strict=True) if share == share}


def _versions() -> dict[str, str]:
    loaded = {name: str(getattr(sys.modules[name], "__version__", "")) for name in LIBRARIES if name in sys.modules}
    return {"python": platform.python_version(), **loaded}
