"""From X to the log-probabilities of all teachers, side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted

from sklearn_uhc.answers import Answers, remembering
from sklearn_uhc.teachers.fingerprint import fingerprint, fingerprint_of_data
from sklearn_uhc.teachers.floor import apply_floor, learn_floor
from sklearn_uhc.teachers.holder import TeacherHolder
from sklearn_uhc.teachers.input import check_input, input_tags
from sklearn_uhc.teachers.replica import without_side_effects
from sklearn_uhc.teachers.roster import Roster, check_teachers
from sklearn_uhc.teachers.store import AnswerStore
from sklearn_uhc.utils.disk import stack
from sklearn_uhc.utils.features import own_columns, readable
from sklearn_uhc.utils.fitting import all_or_nothing
from sklearn_uhc.utils.lazy import lazily
from sklearn_uhc.utils.notes import add_note
from sklearn_uhc.utils.parameters import check_flag
from sklearn_uhc.utils.progress import progress
from sklearn_uhc.utils.response import check_not_nan, log_proba
from sklearn_uhc.utils.rows import chunks, column_names, count_rows, is_dataset, row_bytes, take_columns, take_rows
from sklearn_uhc.utils.threads import in_threads
from sklearn_uhc.utils.unchanged import unchanged

__all__ = ["TeacherOutputs"]

#: Number of rows per file in a store: an interruption loses at most these.
STORED_ROWS = 4096


#: Answers of `fit` are kept for an update up to this many bytes; `store` is for more.
KEPT_BYTES = 2**28


class Kept(NamedTuple):
    """The rows of the last `fit`, and what each teacher said about them, before floors."""

    X: Any
    teachers: list[Any]
    answers: list[NDArray[np.floating[Any]]]


class TeacherOutputs(TeacherHolder, TransformerMixin, BaseEstimator):
    """Call fitted classifiers and put their log-probabilities side by side, one block of columns per teacher.

    This is the first step of a merge. Its output of shape (n, K), where K is the sum of the list lengths, is the input
    of every soft-label method. It uses `predict_log_proba` of a teacher, else `predict_proba`, else
    `decision_function` (softmax of the scores; the logistic function of a binary score).

    Parameters
    ----------
    teachers : list or dict of fitted classifiers
        Any objects with one of the three methods: scikit-learn classifiers, Pipelines, or your own objects. A dict, or
        a list of (name, classifier) pairs, names them in messages, columns, plots and reports. They are never refitted,
        changed or cloned. A teacher that was trained on a frame takes its columns from the frame X by name, in any
        order. If one is missing, you get an error before any teacher is called.
    class_lists : list or dict of lists, default=None
        The names of each teacher's classes in the order of its outputs, if teachers use different names for the same
        class. May be a dict by teacher name. None, for all teachers or for one, means the teacher's own `classes_`.
    floor : float or "auto", default="auto"
        Smallest probability of a teacher's answers; smaller values are raised to it. "auto" learns one per teacher in
        `fit`: a saturated teacher (at least 2 % of its answers are below 1e-20, as with trees, forests, k-NN and naive
        Bayes) gets 0.05 / k for k classes, any other 1e-6.
    abstain : bool, default=False
        Whether a teacher may leave a row unanswered, by NaN for all its classes, for example because a request failed.
        False makes this an error. A row with some NaN is always an error.
    store : str or path, default=None
        Folder in which the answers are kept as plain numbers, chunk by chunk. An interrupted run resumes where it
        stopped, and a teacher is not called twice for the same X. Threads and processes may share the folder. The
        result is memory-mapped, so no more than a chunk of it is in memory. See Notes.
    n_jobs : int, default=None
        Number of teachers that are called at the same time, in threads.
    verbose : int, default=0
        1 shows a progress bar over the teachers.

    Attributes
    ----------
    class_lists_ : list of ndarrays
        The class list of every block, to be passed as `class_lists` to the next step.
    label_space_ : LabelSpace
        All classes, the blocks of columns, and the connected components.
    floor_ : ndarray of shape (N,)
        The floor of every teacher.
    roster_ : Roster
        The teachers with their names.
    called_ : list of int
        The teachers that `fit` called, or read from the store; in an update, only new ones.
    n_features_in_ : int
        Number of features, if X is two-dimensional.

    Notes
    -----
    `store` identifies answers by a key of the teacher (its parameters and weights) and of X. For a torch Dataset its
    length and 64 of its rows count. Every look-up hashes the teacher and X, about a second for 300 MB, so it is worth
    it for teachers that are slow on many rows. Teachers must be picklable. Functions and classes count by their
    names: use an empty folder when their code changes. If a teacher of your own changes its attributes when it is
    called, other than by `functools.cached_property`, its answers are not found again. Files can be deleted at any time
    when nothing reads them; those that end in `.part` were left by a killed process. `docs/guide/security.md`
    says what is checked.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn_uhc import TeacherOutputs
    >>> X, y = load_iris(return_X_y=True)
    >>> a = LogisticRegression(max_iter=500).fit(X[y != 2], y[y != 2])
    >>> b = GaussianNB().fit(X[y != 0], y[y != 0])
    >>> outputs = TeacherOutputs([a, b]).fit(X)
    >>> outputs.get_feature_names_out().tolist()
    ['teacher0__0', 'teacher0__1', 'teacher1__1', 'teacher1__2']
    >>> outputs.transform(X).shape
    (150, 4)
    """

    #: The rows and answers of the last `fit`, for an update; None if they are too large, and after pickling.
    _kept: Kept | None = None
    #: Outputs of an earlier fit, whose answers are taken for the same teachers and rows.
    _earlier: TeacherOutputs | None = None

    def __init__(
        self,
        teachers: Any,
        *,
        class_lists: Any = None,
        floor: float | str = "auto",
        abstain: bool = False,
        store: str | os.PathLike[str] | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.teachers = teachers
        self.class_lists = class_lists
        self.floor = floor
        self.abstain = abstain
        self.store = store
        self.n_jobs = n_jobs
        self.verbose = verbose

    @all_or_nothing
    @lazily
    def fit(self, X: Any, y: Any = None) -> TeacherOutputs:
        """Check the teachers and learn the floor of each from its answers on X.

        Parameters
        ----------
        X : array-like with n rows
            Passed to every teacher; none of them can change it.
        y : ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        self
        """
        self._learn(check_teachers(self.teachers, self.class_lists), X)
        return self

    @lazily
    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Fit, and return the answers. See `fit` and `transform`.

        Parameters
        ----------
        X : array-like with n rows
            Passed to every teacher; none of them can change it.
        y : ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        log_p : ndarray of shape (n, K)
        """
        return remembering(self.fit_answers(X).log_p, self.label_space_)

    @lazily
    def transform(self, X: Any) -> Any:
        """Return the teachers' log-probabilities.

        Parameters
        ----------
        X : array-like with n rows
            Passed to every teacher; none of them can change it.

        Returns
        -------
        log_p : ndarray of shape (n, K)
            Each teacher's block is normalised, after everything below its floor was raised to it. NaN where a teacher
            is silent, if `abstain` allows it.
        """
        return remembering(self.answers(X).log_p, self.label_space_)

    @all_or_nothing
    def fit_answers(self, X: Any, *, roster: Roster | None = None, teacher_weight: Any = None) -> Answers:
        """Fit, and return the answers as an `Answers` object.

        Parameters
        ----------
        X : array-like with n rows
            Passed to every teacher; none of them can change it.
        roster : Roster, default=None
            The teachers, if they are checked already.
        teacher_weight : array-like of shape (N,), default=None
            Weights of the teachers, for later steps.

        Returns
        -------
        answers : Answers
        """
        roster = check_teachers(self.teachers, self.class_lists) if roster is None else roster
        log_p = self._join(self._learn(roster, X))
        return Answers.of(
            log_p, roster.space, abstain=bool(self.abstain), teacher_weight=teacher_weight, source="What teachers say"
        )

    def answers(self, X: Any, *, teacher_weight: Any = None) -> Answers:
        """Return the teachers' answers as an `Answers` object.

        Parameters
        ----------
        X : array-like with n rows
            Passed to every teacher; none of them can change it.
        teacher_weight : array-like of shape (N,), default=None
            Weights of the teachers, for later steps.

        Returns
        -------
        answers : Answers
        """
        check_is_fitted(self, "floor_")
        log_p = self._join(self._read(self.roster_, check_input(self, X, reset=False)))
        return Answers.of(
            log_p,
            self.label_space_,
            abstain=bool(self.abstain),
            teacher_weight=teacher_weight,
            source="What teachers say",
        )

    def answers_of_fit(self, *, teacher_weight: Any = None) -> Answers:
        """Return the answers to the rows of the last `fit`, which are in `kept`, without calling teachers.

        Parameters
        ----------
        teacher_weight : array-like of shape (N,), default=None
            Weights of the teachers, for later steps.

        Returns
        -------
        answers : Answers
        """
        assert self._kept is not None
        given = {"abstain": bool(self.abstain), "teacher_weight": teacher_weight, "source": "What teachers say"}
        return Answers.of(self._join(self._kept.answers), self.label_space_, **given)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the columns, `<teacher>__<class>`.

        Parameters
        ----------
        input_features : ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        names : ndarray of str
        """
        check_is_fitted(self, "floor_")
        return np.asarray(self.label_space_.output_names)

    def _learn(self, roster: Roster, X: Any) -> list[NDArray[np.floating[Any]]]:
        """Call all teachers, and learn their floors."""
        self.check_params(roster)
        X = check_input(self, X, reset=True)
        self.called_ = [i for i in range(len(roster.teachers)) if i not in self._known(roster.teachers, X)]
        answers = self._read(roster, X)
        self._earlier = None
        small = self.store is not None or sum(answer.nbytes for answer in answers) <= KEPT_BYTES
        self._kept = Kept(X, roster.teachers, answers) if small else None
        learnt = self.floor == "auto"
        self.floor_ = np.array([learn_floor(answer) if learnt else float(self.floor) for answer in answers])
        self.roster_, self.label_space_, self.class_lists_ = roster, roster.space, roster.space.class_lists
        return answers

    def check_params(self, roster: Roster) -> None:
        """Raise if a parameter is wrong, before any teacher is called.

        Parameters
        ----------
        roster : Roster
            The teachers.
        """
        check_flag("abstain", self.abstain)
        self._check_floor()
        self._check_floor_of(roster)

    def _check_floor(self) -> None:
        number = isinstance(self.floor, Real) and not isinstance(self.floor, bool)
        if self.floor != "auto" and not (number and 0 < float(self.floor) < 0.5):
            raise ValueError(f'floor must be "auto" or a number above 0 and below 0.5, got {self.floor!r}.')

    def _check_floor_of(self, roster: Roster) -> None:
        """Raise an error if the floor is 1 / k or more, which would make all k answers of a teacher equal."""
        lengths = [len(labels) for labels in roster.space.class_lists]
        longest, k = int(np.argmax(lengths)), max(lengths)
        if self.floor != "auto" and k > 1 and float(self.floor) >= 1 / k:
            raise ValueError(
                f"floor={self.floor} is too high for the {k} classes of {roster.called(longest)}: it must be below "
                f"{1 / k:.3g}."
            )

    def _read(self, roster: Roster, X: Any) -> list[NDArray[np.floating[Any]]]:
        """Call every teacher, in threads: predictions release the GIL, and nothing has to be copied."""
        teachers, lists = roster.teachers, roster.space.class_lists
        names = [roster.called(i) for i in range(len(teachers))]
        for teacher, name in zip(teachers, names, strict=True):
            own_columns(teacher, X, name)  # raises an error for missing columns before any teacher is called
        known = self._known(teachers, X)
        data = None if self.store is None else fingerprint_of_data(X)
        every = enumerate(zip(teachers, lists, names, strict=True))
        requests = [(t, X, len(labels), name, data) for i, (t, labels, name) in every if i not in known]
        asked = in_threads(lambda request: self._read_one(*request), requests, effective_n_jobs(self.n_jobs))
        read = iter(progress(asked, total=len(requests), desc="Calling teachers", verbose=self.verbose))
        return [known[i] if i in known else next(read) for i in range(len(teachers))]

    def _known(self, teachers: list[Any], X: Any) -> dict[int, NDArray[np.floating[Any]]]:
        """Return what teachers have said about the same rows, in `earlier` outputs."""
        kept = None if self._earlier is None else self._earlier._kept
        if kept is None or X is not kept.X:
            return {}
        said = {id(teacher): answer for teacher, answer in zip(kept.teachers, kept.answers, strict=True)}
        return {i: said[id(teacher)] for i, teacher in enumerate(teachers) if id(teacher) in said}

    def __getstate__(self) -> Any:
        """Pickle neither the rows of `fit` nor what teachers said about them."""
        return {**super().__getstate__(), "_kept": None, "_earlier": None}

    def _read_one(self, teacher: Any, X: Any, n_classes: int, name: str, data: str | None) -> NDArray[np.floating[Any]]:
        """Call one teacher, or return its stored answers on the same data."""
        key = None if data is None else f"{fingerprint(teacher)}-{data}"
        return read_teacher(teacher, X, n_classes, name, key, self.store, self.verbose, bool(self.abstain))

    def _join(self, answers: list[NDArray[np.floating[Any]]]) -> NDArray[np.floating[Any]]:
        """Concatenate the blocks of all teachers after applying floors, chunk by chunk."""
        n, n_columns = len(answers[0]), sum(answer.shape[1] for answer in answers)
        joined = (
            np.concatenate([apply_floor(a[rows], f) for a, f in zip(answers, self.floor_, strict=True)], axis=1)
            for rows in chunks(n, 32 * n_columns, STORED_ROWS)
        )
        return stack(joined, n, self.store)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = input_tags(tags.input_tags, self.teachers)
        return tags


def read_teacher(
    teacher: Any, X: Any, n_classes: int, name: str, key: str | None, store: Any, verbose: int, abstain: bool
) -> NDArray[np.floating[Any]]:
    """Return one teacher's log-probabilities for all rows, computed in chunks of bounded memory."""
    n = count_rows(X)
    if store is None:
        return stack(_answers(teacher, X, slice(0, n), n_classes, name, abstain), n, None)
    assert key is not None
    kept = AnswerStore(store, key, n_classes)
    parts = _stored_answers(teacher, X, kept, name, abstain)
    total = -(-n // STORED_ROWS)
    out = stack(progress(parts, total=total, desc=f"Reading {name}", verbose=verbose), n, store)
    kept.warn_of_files_not_used(name)
    return out


def _stored_answers(
    teacher: Any, X: Any, store: AnswerStore, name: str, abstain: bool
) -> Iterator[NDArray[np.floating[Any]]]:
    """Yield chunks from the store, or call the teacher and store them; an interruption loses at most one chunk."""
    for rows in gen_batches(count_rows(X), STORED_ROWS):
        answer = store.load(rows)
        if answer is None:
            parts = list(_answers(teacher, X, rows, store.n_classes, name, abstain))
            answer = store.save(rows, np.concatenate(parts))
        elif not abstain:  # it may have been stored with abstain=True
            check_not_nan(answer, name, "What is stored", abstain, first=rows.start)
        yield answer


def _answers(
    teacher: Any, X: Any, rows: slice, n_classes: int, name: str, abstain: bool
) -> Iterator[NDArray[np.floating[Any]]]:
    """Call a teacher on these rows, chunk by chunk, and check every answer."""
    columns = own_columns(teacher, X, name)
    ask = partial(log_proba, without_side_effects(teacher), name=name, abstain=abstain)
    # A teacher may get a copy of its chunk, hence twice the bytes of a row.
    for part in chunks(rows.stop - rows.start, 2 * row_bytes(X) + 16 * n_classes):
        asked = slice(rows.start + part.start, rows.start + part.stop)
        try:
            answer = _ask_about(teacher, ask, X, asked, columns)
        except Exception as error:
            some = "" if asked == slice(0, count_rows(X)) else f", asked about rows {asked.start} to {asked.stop - 1}"
            add_note(error, f"This came from {name}{some}.{_hint_at_texts(X)}")
            raise
        _check_shape(answer.shape, asked.stop - asked.start, n_classes, name, _hint_at_texts(X))
        yield answer


def _ask_about(teacher: Any, ask: Callable[[Any], Any], X: Any, rows: slice, columns: list[str] | None) -> Any:
    """Call a teacher on some rows, with its own columns if they are named, without changing X."""
    if is_dataset(X):
        return ask(take_rows(X, rows))
    part = X if rows == slice(0, count_rows(X)) else take_rows(X, rows)
    part = part if columns is None else take_columns(part, columns)
    return unchanged(teacher, ask, readable(teacher, part))


def _hint_at_texts(X: Any) -> str:
    """Return a hint for a frame with one column of texts, of which vectorizers read the name instead of the rows."""
    names = column_names(X)
    if names is None or len(names) != 1 or not isinstance(next(iter(X[names[0]]), None), str):
        return ""
    return f" X is a frame with one column of texts: if the teachers read texts, pass X[{names[0]!r}]."


def _check_shape(shape: tuple[int, ...], n_rows: int, n_classes: int, name: str, hint: str) -> None:
    if shape[0] != n_rows:
        raise ValueError(f"{name} gave {shape[0]} rows of output for {n_rows} rows of X.{hint}")
    if shape[1] != n_classes:
        raise ValueError(
            f"{name} gave an output of shape {shape}, but its class list has {n_classes} entries: it must have one per "
            "output column."
        )
