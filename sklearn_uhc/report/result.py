"""The report itself: a dict that can be printed, shown and sent."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sklearn_uhc.report.page import fragment, page
from sklearn_uhc.report.words import as_text, complaints

__all__ = ["TeacherReport"]


#: Columns of the frames: those that may have no row keep them. None: as they come.
COLUMNS = {
    "teachers": None,
    "pairs": ["first", "second", "shared", "agreement"],
    "rows": ["row", "error", "says", "probability", "contradicted_by"],
}


class TeacherReport(dict[str, Any]):
    """What a merge rests on, as `teacher_report` finds it: a dict, tables as text, and one HTML page.

    Its entries:

    - "space", what the class lists determine: `summary`, `n_teachers`, `n_classes`, `groups` (classes that chains of
      teachers link), `known_by_one` (each `class` that one `teacher` alone knows) and `look_alikes` (names that differ
      in case, blanks or underscores only, each with a teacher that has it);
    - "n_samples" and "n_unanswered", how many rows there are, and for how many of them no teacher answers;
    - "teachers", one entry each: `teacher` (its number), `name`, `n_classes`, `classes`; `coverage`, the share of rows
      it answers; `confidence`, the mean of its largest probability; `temperature` and `weight` of `TeacherCalibrator`,
      and `left`, why it has no temperature; `shared`, how many of its classes others know; `agreement`, how often it
      prefers the same as others among the classes it shares with each (`pairwise_agreement`); `residual`, its mean
      Kullback-Leibler divergence from the merge (MF-LF at temperature 1, calibrated);
    - "pairs" of teachers that disagree most: `first`, `second`, `shared` (two classes or more) and `agreement`;
    - "rows" that are hardest to reconcile: `row` (its number), `error` (`reconciliation_error` of that merge, teachers
      that are noise left out), `says` and `probability`, the merge's first choice, and `contradicted_by`: for every
      `teacher` furthest from the merge its `divergence`, what it `says`, its calibrated `probability`, and what the
      merge prefers among the same classes (`merge_says`, `merge_probability`);
    - "warnings", what is wrong, in words.

    What cannot be told is None. `print(report)` shows tables; in a notebook the report shows itself with its plots.

    Parameters
    ----------
    contents : dict
        The entries above but for the warnings.
    displays : dict of displays
        The plots of the page: "overlap", "agreement" and, if a row was answered, "soft_labels".
    as_frame : bool, default=False
        Whether "teachers", "pairs" and "rows" are pandas DataFrames.

    Attributes
    ----------
    displays : dict of displays
        `ClassOverlapDisplay`, `TeacherAgreementDisplay` and `SoftLabelDisplay`, not drawn yet: call `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc import teacher_report
    >>> Z = np.random.default_rng(0).normal(size=(200, 3))
    >>> report = teacher_report(log_p=np.hstack([Z, Z[:, :2]]), class_lists=[["cat", "cow", "dog"], ["ant", "bee"]])
    >>> for line in report["warnings"]:
    ...     print(line.split(":")[0])
    The class lists do not connect
    No temperature for teacher 0 and teacher 1
    >>> page = report.to_html()  # or to_html("report.html")
    >>> page.startswith("<!DOCTYPE html>")
    True
    """

    def __init__(self, contents: dict[str, Any], displays: dict[str, Any], *, as_frame: bool = False) -> None:
        self.displays = displays
        self._plain = {**contents, "warnings": complaints(contents)}
        super().__init__(self._plain)
        if as_frame:
            import pandas as pd

            frames = {name: pd.DataFrame(contents[name], columns=names) for name, names in COLUMNS.items()}
            self.update(frames)

    def __str__(self) -> str:
        return as_text(self._plain)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return fragment(self._plain, self.displays)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Return the report as one HTML page, or save it.

        The page needs no other file, no network and no scripts. Plots need matplotlib; without it there are tables.

        Parameters
        ----------
        path : str or path, default=None
            Where to save the page. None: it is returned.

        Returns
        -------
        html : str or None
            The page, if there is no path.
        """
        html = page(self._plain, self.displays)
        if path is None:
            return html
        Path(path).write_text(html, encoding="utf-8")
        return None
