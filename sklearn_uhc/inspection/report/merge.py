"""Report of a merge: what to trust in its result and what to doubt, class by class, with labels or without."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.stats import binomtest
from sklearn.pipeline import Pipeline

from sklearn_uhc.answers import Answers, to_numpy
from sklearn_uhc.inspection.plots import RowDisplay
from sklearn_uhc.inspection.plots._drawing import labels_of, teacher_answers, unwrap
from sklearn_uhc.inspection.plots.confidence import ConfidenceDisplay
from sklearn_uhc.inspection.plots.row import row_of_answers
from sklearn_uhc.inspection.report.hardest import check_n_rows, divergences, hardest_rows
from sklearn_uhc.inspection.report.measure import plain, what_is_open, without_repeats
from sklearn_uhc.inspection.report.merge_words import doubts, merge_story, trusts
from sklearn_uhc.inspection.report.result import Report
from sklearn_uhc.inspection.report.story import Story
from sklearn_uhc.labels import Labels, read_labels
from sklearn_uhc.merging.balance import balanced_targets
from sklearn_uhc.solvers import blocks_of
from sklearn_uhc.utils.rows import count_rows
from sklearn_uhc.utils.simplex import sharpen

__all__ = ["MergeReport", "merge_report"]

Floats = NDArray[np.floating[Any]]

#: Labelled rows in a point of the calibration curve, and the most points: with fewer rows, intervals say nothing.
ROWS_PER_POINT, MOST_POINTS = 20, 10
#: Number of confusions listed.
MOST_CONFUSIONS = 8


class MergeReport(Report):
    """The result of `merge_report`: a dict that prints as text and can be saved as one HTML page.

    "The result" is the student of a distiller, else the merge itself. A share is a dict of `share`, the `low` and
    `high` end of its 95 % interval (Wilson's), and `n`, the rows that it is of. Its entries:

    - "n_samples", "n_unanswered" and "n_labelled", numbers of rows; "has_student";
    - "doubts" and "trusts", the verdict in sentences;
    - "classes", one entry each: `class`; `teachers` that know it; how frequent it is: `merged`, mean merged probability
      on these rows, `told` as class_prior, and `labelled`; `rows` of which the merge chooses it; in these rows, the
      mean `confidence` of the merge, `conflict`, the share of the answers of teachers that know the class which choose
      another one, and `kept`, the share of rows of which the student says the same; with labels `found`, the share of
      its labelled rows that the result gets right;
    - "teachers", one entry each: `teacher`, `name`, `called`, and `conflict` as above;
    - "kept", the share of rows of which the student says what the merge says, None without a student;
    - "confidence", the mean of the result's largest probability, on labelled rows if there are any;
    - "accuracy" of the "result" and of the "merge", shares, None without labels; "used_in_fit", whether `fit` learned
      from these labels; "calibration", for rows of similar `confidence` the share that is right; "confusions", each
      with the `class`, what is `predicted` instead, and the share of the labelled rows of the class;
    - "rows" on which merge and teachers differ most, as in `TeacherReport`, with `index` and `text` of the row, what
      the result `student_says` and `student_probability`, and the `label`;
    - "findings" of `fit`; and "space", what the class lists leave open: `groups`, `never_apart`, `undetermined`,
      `in_one_set`, see `TeacherReport`.

    Unknown values are None.

    Parameters
    ----------
    contents : dict
        The entries above, except "doubts" and "trusts".
    displays : dict of displays
        The plots of the page: "row" and, with enough labels, "calibration".
    """

    def __init__(self, contents: dict[str, Any], displays: dict[str, Any]) -> None:
        super().__init__({**contents, "doubts": doubts(contents), "trusts": trusts(contents)}, displays)

    def _story(self) -> Story:
        return merge_story(self)


def merge_report(clf: Any, X: Any, y: Any = None, *, n_rows: int = 5) -> MergeReport:
    """Say what to trust in a merge and what to doubt, from its answers on rows, labelled or not.

    The teachers are called on X. Rows that `fit` did not see show more: a student may know its own rows by heart.

    Parameters
    ----------
    clf : HeterogeneousDistiller, UnifiedEnsemble or TeacherMerger
        Fitted with teachers, or a fitted Pipeline that ends in one.
    X : array-like with n rows
        The rows. Texts and the index of a frame are shown with the hardest rows.
    y : array-like of shape (n,), default=None
        Labels of some rows, with None, NaN or -1 for the others. They show how often the result is right.
    n_rows : int, default=5
        Number of rows to show, those on which merge and teachers differ most first.

    Returns
    -------
    report : MergeReport
        A dict that prints as text, is displayed in notebooks, and can be saved as a page: `report.to_html(path)`.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_uhc import UnifiedEnsemble
    >>> from sklearn_uhc.inspection import merge_report
    >>> X, y = load_iris(return_X_y=True)
    >>> teachers = [LogisticRegression(max_iter=500).fit(X[y != k], y[y != k]) for k in (0, 2)]
    >>> report = merge_report(UnifiedEnsemble(teachers).fit(X[::2]), X[1::2], y[1::2])
    >>> {name: round(value, 2) for name, value in report["accuracy"]["result"].items()}
    {'share': 0.97, 'low': 0.91, 'high': 0.99, 'n': 75}
    >>> page = report.to_html()  # or to_html("report.html")
    """
    check_n_rows(n_rows)
    seen = _look(clf, X, y)
    hardest = seen.hardest(n_rows)
    contents = {
        "n_samples": len(seen.P),
        "n_unanswered": int((~seen.answered).sum()),
        "n_labelled": len(seen.rows),
        "has_student": seen.has_student,
        "space": what_is_open(seen.answers.space, seen.joined),
        "findings": [plain(finding) for finding in seen.merger.findings_],
        "classes": seen.describe_classes(),
        "teachers": seen.describe_teachers(),
        "kept": share(seen.kept) if seen.has_student else None,
        **seen.judge(),
        "rows": [seen.describe_row(row, X) for row in hardest],
    }
    displays: dict[str, Any] = {}
    if contents["calibration"]:
        displays["calibration"] = ConfidenceDisplay(contents["calibration"])
    if hardest:
        displays["row"] = seen.display(hardest[0]["row"])
    return MergeReport(contents, displays)


def share(right: NDArray[np.bool_]) -> dict[str, Any] | None:
    """Return the share of True with its 95 % interval (Wilson's); None of nothing."""
    n, k = len(right), int(right.sum())
    if not n:
        return None
    interval = binomtest(k, n).proportion_ci(method="wilson")
    return {"share": k / n, "low": float(interval.low), "high": float(interval.high), "n": n}


@dataclass(frozen=True)
class _Seen:
    """What teachers, merge and student say of n rows, and the labels of m of them."""

    merger: Any
    said: Floats  #: (n, K), the teachers' answers as they are
    answers: Answers  #: calibrated, without membership scorers
    joined: Any  #: label space with the scorers
    classes: NDArray[Any]  #: (L,)
    P: Floats  #: (n, L), merged, at temperature 1
    R: Floats  #: (n, L), the result: the student's probabilities, or the merged and balanced ones
    has_student: bool
    rows: NDArray[np.int_]  #: (m,)
    codes: NDArray[np.int_]  #: (m,)

    @property
    def answered(self) -> NDArray[np.bool_]:
        return self.answers.answered

    @property
    def kept(self) -> NDArray[np.bool_]:
        """Whether the student says what the merge says, of answered rows."""
        same: NDArray[np.bool_] = self.P.argmax(axis=1) == self.R.argmax(axis=1)
        return same[self.answered]

    def conflicts(self) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(n, N) each: where a teacher knows the class that the merge chooses, and where it then says another one."""
        space, n = self.answers.space, len(self.P)
        place = {label: k for k, label in enumerate(space.classes.tolist())}
        chosen = np.array([place.get(label, -1) for label in self.classes.tolist()])[self.P.argmax(axis=1)]
        knows = space.mask[:, chosen].T & self.answers.speaking & (chosen >= 0)[:, None]
        meant = csr_array((np.ones(len(space.members), dtype=bool), space.members, space.offsets))
        meant.resize(space.n_outputs, space.n_classes)
        says = np.zeros((n, space.n_teachers), dtype=np.int64)
        for i, block in enumerate(space.blocks):
            Z = self.answers.log_p[:, block]
            says[:, i] = block.start + np.where(np.isnan(Z), -np.inf, Z).argmax(axis=1)
        row, teacher = np.nonzero(knows)
        other = np.zeros_like(knows)
        other[row, teacher] = ~np.asarray(meant[says[row, teacher], chosen[row]]).astype(bool).ravel()
        return knows, other

    def describe_classes(self) -> list[dict[str, Any]]:
        """Describe every class."""
        knows, other = self.conflicts()
        says, names, L = self.P.argmax(axis=1), labels_of(self.merger), len(self.classes)
        space = self.answers.space
        owners = dict(zip(space.classes.tolist(), space.mask.T, strict=True))
        prior = self.merger._prior
        merged = self.P[self.answered].mean(axis=0) if self.answered.any() else np.full(L, np.nan)
        labelled = np.bincount(self.codes, minlength=L) / max(len(self.rows), 1)
        right = self.R[self.rows].argmax(axis=1) == self.codes
        same = self.P.argmax(axis=1) == self.R.argmax(axis=1)
        out = []
        for k, label in enumerate(self.classes.tolist()):
            here = (says == k) & self.answered
            against = other[here][knows[here]]
            out.append(
                {
                    "class": label,
                    "teachers": [names[i] for i in np.flatnonzero(owners.get(label, ()))],
                    "merged": _known(merged[k]),
                    "told": None if prior is None else _known(prior[k]),
                    "labelled": float(labelled[k]) if len(self.rows) else None,
                    "rows": int(here.sum()),
                    "confidence": float(self.P[here, k].mean()) if here.any() else None,
                    "conflict": float(against.mean()) if len(against) else None,
                    "kept": float(same[here].mean()) if here.any() and self.has_student else None,
                    "found": share(right[self.codes == k]),
                }
            )
        return out

    def describe_teachers(self) -> list[dict[str, Any]]:
        """Describe every teacher."""
        (knows, other), space = self.conflicts(), self.answers.space
        return [
            {
                "teacher": i,
                "name": name,
                "called": space.called(i),
                "conflict": float(other[knows[:, i], i].mean()) if knows[:, i].any() else None,
            }
            for i, name in enumerate(labels_of(self.merger))
        ]

    def judge(self) -> dict[str, Any]:
        """Compare the result with the labels."""
        R = self.R[self.rows] if len(self.rows) else self.R[self.answered]
        top = R.max(axis=1)
        out = {"confidence": float(top.mean()) if len(top) else None, "used_in_fit": self._used_in_fit()}
        if not len(self.rows):
            return {**out, "accuracy": None, "calibration": [], "confusions": []}
        says, merged = R.argmax(axis=1), self.P[self.rows].argmax(axis=1)
        right = says == self.codes
        n_points = min(MOST_POINTS, len(right) // ROWS_PER_POINT)
        parts = np.array_split(np.argsort(top, kind="stable"), n_points) if n_points else []
        return {
            **out,
            "accuracy": {"result": share(right), "merge": share(merged == self.codes)},
            "calibration": [{"confidence": float(top[part].mean()), **(share(right[part]) or {})} for part in parts],
            "confusions": self._confusions(says),
        }

    def _confusions(self, says: NDArray[np.int_]) -> list[dict[str, Any]]:
        """List the most frequent confusions."""
        wrong = says != self.codes
        pairs, counts = np.unique(np.stack([self.codes[wrong], says[wrong]]), axis=1, return_counts=True)
        worst = np.argsort(-counts, kind="stable")[:MOST_CONFUSIONS]
        return [
            {
                "class": self.classes[k].item(),
                "predicted": self.classes[j].item(),
                **(share(says[self.codes == k] == j) or {}),
            }
            for k, j in pairs.T[worst]
        ]

    def _used_in_fit(self) -> bool:
        """Return whether `fit` learned from these labels."""
        own: Labels | None = self.merger.labels_
        return own is not None and own.n == len(self.P) and bool(np.isin(self.rows, own.rows).any())

    def hardest(self, most: int) -> list[dict[str, Any]]:
        """List the rows on which merge and teachers differ most."""
        rows, space = np.flatnonzero(self.answered), self.answers.space
        Q = self.P[rows][:, np.isin(self.classes, space.classes)]
        Z = self.answers.log_p[rows]
        return hardest_rows(rows, Z, Q, divergences(Z, Q, blocks_of(space)), space, most) if len(rows) else []

    def describe_row(self, row: dict[str, Any], X: Any) -> dict[str, Any]:
        """Add to a hard row what it is, its label, and what the result says."""
        k = row["row"]
        best = int(self.R[k].argmax())
        label = self.classes[self.codes[self.rows == k]].tolist()
        says = {"student_says": self.classes[best].item(), "student_probability": float(self.R[k, best])}
        index, text = _index_of(X, k), _text_of(X, k)
        return {**row, "index": index, "text": text, **says, "label": label[0] if label else None}

    def display(self, row: int) -> RowDisplay:
        """Return the picture of a row."""
        student = self.R[row] if self.has_student else None
        names = labels_of(self.merger)
        return row_of_answers(self.answers.space, self.said[row], names, self.classes, self.P[row], student)


def _look(clf: Any, X: Any, y: Any) -> _Seen:
    """Call teachers, merge and student on X."""
    merger, inner = unwrap(clf, X, merged=True)
    last = clf[-1] if isinstance(clf, Pipeline) else clf
    if getattr(last, "backprop", False):
        raise ValueError("Direct backpropagation merges nothing that could be reported: fit with backprop=False.")
    count_rows(X)
    remedy = "fit with teachers, or teacher_report(log_p=..., class_lists=...) on the answers"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a class that nobody knows is an error here
        labels = read_labels(y, X, merger.classes_)
    if labels is not None and labels.new.any():
        lost = labels.classes[labels.new].tolist()
        raise ValueError(f"y has the labels {lost}, which the merge does not know: pass None for such rows.")
    answers = teacher_answers(merger, inner, remedy)
    adjusted, space = merger.adjust(answers, inner), answers.space
    with without_repeats():
        P = sharpen(to_numpy(merger.merge(adjusted, inner)), merger.method_.temperature)
    calibrated = answers.saying(to_numpy(adjusted.log_p)[:, : space.n_outputs].astype(float))
    has_student, weight = hasattr(last, "student_"), getattr(last, "class_weight_", None)
    R = clf.predict_proba(X) if has_student else P if weight is None else balanced_targets(P, weight)[0]
    rows, codes = (np.empty(0, dtype=int),) * 2 if labels is None else (labels.rows, labels.codes)
    return _Seen(
        merger,
        to_numpy(answers.log_p),
        calibrated,
        adjusted.space,
        merger.classes_,
        P,
        np.asarray(R),
        has_student,
        rows,
        codes,
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _index_of(X: Any, row: int) -> Any:
    """Return the index of a row of a frame, as text if it is not a plain number; the row's number without one."""
    index = getattr(X, "index", None)
    if index is None or callable(index):
        return row
    label = index[row]
    return label.item() if hasattr(label, "item") else label if isinstance(label, int) else str(label)


def _text_of(X: Any, row: int) -> str | None:
    """Return the text of a row if rows are texts, alone or in one column of a frame."""
    if hasattr(X, "shape") and len(X.shape) == 2 and X.shape[1] != 1:
        return None
    value: Any = X.iloc[row] if hasattr(X, "iloc") else None if hasattr(X, "columns") else X[row]
    value = value.item() if getattr(value, "size", 0) == 1 and hasattr(value, "item") else value
    return value if isinstance(value, str) else None
