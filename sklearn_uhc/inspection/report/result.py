"""The results of reports: dicts that print as tables and can be saved as a page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sklearn_uhc.inspection.report.page import fragment, page
from sklearn_uhc.inspection.report.story import Story, as_text
from sklearn_uhc.inspection.report.words import complaints, story

__all__ = ["Report", "TeacherReport"]


class Report(dict[str, Any]):
    """A dict that prints as text and can be saved as one HTML page. Subclasses say in words what it holds."""

    def __init__(self, contents: dict[str, Any], displays: dict[str, Any]) -> None:
        self.displays = displays
        super().__init__(contents)

    def _story(self) -> Story:
        """Return what the report says."""
        raise NotImplementedError

    def __str__(self) -> str:
        return as_text(self._story())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return fragment(self._story(), self.displays)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as a plain dict, ready for JSON if class names are."""
        return dict(self)

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """Return the report as one HTML page, or save it.

        The page is a single file without network access or scripts. Plots need matplotlib; without it there are tables.

        Parameters
        ----------
        path : str or path, default=None
            Where to save the page. None returns it.

        Returns
        -------
        html : str or None
            The page, if path is None.
        """
        html = page(self._story(), self.displays)
        if path is None:
            return html
        Path(path).write_text(html, encoding="utf-8")
        return None


class TeacherReport(Report):
    """The result of `teacher_report`: a dict that prints as tables and can be saved as one HTML page.

    Its entries:

    - "space", what the class lists determine, with membership scorers as in the merge: `summary`, `n_teachers`,
      `n_classes`; `groups`, classes linked by chains of teachers; `never_apart`, groups of classes that are in the same
      sets everywhere; `undetermined`, classes whose probability sets do not determine, including those of
      `never_apart`; `in_one_set`, other classes that are named in one set of one teacher only, with that teacher;
      `rank`, see `LabelSpace.rank`, None if more than 1,000 classes occur in sets only; `condition`, see
      `LabelSpace.condition`, None beyond 1,000 classes; `known_by_one`, each `class` that only one `teacher` names;
      `unanswered`, classes of teachers without any answer; `look_alikes`, groups of names that are nearly equal (they
      differ in case, spaces, underscores, hyphens, dots, accents or a plural), each with a teacher that has it; and
      `rests`, names that sound like OTHER, with their teachers, if others have classes that these do not name;
    - "n_samples" and "n_unanswered", the number of rows, and of rows that no teacher answers for; "accepted", the share
      of rows that at least one membership scorer gives more than one half, None without scorers; "frequencies", the
      mean soft label of every class: how frequent the classes are to `fit`, unless it is told or shown otherwise;
    - "teachers", one entry each: `teacher` (its number), `name`, `called`, how sentences refer to it, `n_classes`, the
      number of classes it names, alone or in sets, and `classes`, what its columns stand for; `coverage`, the share of
      rows it answers for; `accepted`, the share of rows that its membership scorer gives more than one half;
      `confidence`, its mean largest probability; `temperature`, as `fit` uses it, and `left`, why it was not
      calibrated; `contradicts`, whether a finding names it, so that it counts next to nothing; `agreement`, how often
      it chooses the same class as others among shared classes (`pairwise_agreement`);
    - "pairs", the five pairs of teachers that disagree most: `first`, `second`, `shared` (two classes or more) and
      `agreement`;
    - "rows" that are hardest to reconcile: `row` (its number), `error` (`reconciliation_error` of a merge by CE at
      temperature 1, calibrated, with membership scorers, without teachers that contradict the others), `says` and
      `probability`, the merge's first choice, and `contradicted_by`: for every `teacher` furthest from the merge its
      `divergence`, what it `says`, its calibrated `probability`, and what the merge prefers among the same classes
      (`merge_says`, `merge_probability`);
    - "suggestions" of `suggest_harmonization` from names and answers, none of them applied: `kind`, `name`,
      `becomes`, `score` and `evidence`; and "suggestions_note", what could not be compared;
    - "findings", what `fit` warns about: `kind` ("contradiction", "positions", "foreign", "uneven"), `teachers`, the
      figures in `evidence`, what it `says` and the `remedy`, see `Finding`;
    - "warnings", what is wrong, in words.

    Unknown values are None. `print(report)` shows tables; a notebook also shows the plots.

    Parameters
    ----------
    contents : dict
        The entries above, except the warnings.
    displays : dict of displays
        The plots of the page: "overlap", "agreement" and, if any row was answered, "soft_labels".

    Attributes
    ----------
    displays : dict of displays
        `ClassOverlapDisplay`, `TeacherAgreementDisplay` and `SoftLabelDisplay`, not drawn yet: call `plot`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_uhc.inspection import teacher_report
    >>> Z = np.random.default_rng(0).normal(size=(200, 3))
    >>> Z = np.hstack([Z, np.random.default_rng(1).normal(size=(200, 2))])
    >>> report = teacher_report(log_p=Z, class_lists=[["cat", "cow", "dog"], ["ant", "bee"]])
    >>> for line in report["warnings"]:
    ...     print(line.split(":")[0])
    The class lists do not connect
    Not calibrated
    >>> page = report.to_html()  # or to_html("report.html")
    >>> page.startswith("<!DOCTYPE html>")
    True
    """

    def __init__(self, contents: dict[str, Any], displays: dict[str, Any]) -> None:
        super().__init__({**contents, "warnings": complaints(contents)}, displays)

    def _story(self) -> Story:
        return story(self)
