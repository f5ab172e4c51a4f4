"""Compare names and answers of teachers, and suggest which mean the same class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.answers import Answers, answers_given, to_numpy
from sklearn_uhc.evidence.behaviour import ALIKE, LEAST_ROWS, Alike, Behaviour, Columns
from sklearn_uhc.inspection.suggestions.result import Suggestion, Suggestions
from sklearn_uhc.spaces.harmonize import NamedList, is_pair, members, read_lists
from sklearn_uhc.spaces.label_space import OTHER, LabelSpace
from sklearn_uhc.spaces.names import (
    grouped,
    may_mean_other,
    nearly_equal,
    one_for_each,
    owners_of_names,
    sounding_like_other,
)
from sklearn_uhc.teachers import TeacherOutputs
from sklearn_uhc.utils.rows import count_rows, some_rows, take_rows

#: Maximum number of rows on which answers are compared.
MOST_ROWS = 5000


def suggest_harmonization(teachers: Any, X: Any = None, *, log_p: Any = None) -> Suggestions:
    """Suggest which names mean the same class.

    Names are compared without case, spaces, underscores, hyphens, dots, accents and plurals. Given unlabelled rows, or
    the teachers' answers for some, the columns are compared as well, whatever their names: two that behave alike may be
    one class. Two names of the same teacher are never suggested to be the same. Names such as "other", "unknown" or
    "unassigned" may mean `OTHER`. Coarse classes are not recognised.

    Nothing is applied. Read the suggestions, select, and pass what is right to `harmonize`. Answers can mislead: two
    classes that no teacher distinguishes may look like one, above all in small tables, where teachers are sure even of
    classes that they have never seen.

    Parameters
    ----------
    teachers : list of fitted classifiers, of lists of classes, or of (name, either) pairs; or dict of name: either
        As in `harmonize`.
    X : array-like with n rows, default=None
        Unlabelled rows; at most 5,000 are used. Teachers are called on them, so they must be classifiers. Each class
        should have at least 10 rows.
    log_p : array-like of shape (n, K), default=None
        The teachers' log-probabilities or logits, if you have them already, as returned by `TeacherOutputs`.

    Returns
    -------
    suggestions : Suggestions
        With `as_synonyms()` and `as_other()` for `harmonize`, and `to_frame()`.

    See Also
    --------
    harmonize : Apply what was accepted.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn_uhc.inspection import suggest_harmonization
    >>> X, y = load_digits(return_X_y=True)
    >>> def teacher(known, names):
    ...     rows = np.isin(y[:900], known)
    ...     return LogisticRegression(C=1e-3, max_iter=300).fit(X[:900][rows], np.array(names)[y[:900][rows]])
    >>> english = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
    >>> german = ["null", *english[1:]]
    >>> teachers = [teacher([0, 1, 2, 3, 9], english), teacher([0, 4, 5, 6, 7, 8], german)]
    >>> suggest_harmonization(teachers, X[900:]).as_synonyms()
    {'null': 'zero'}
    """
    if X is not None and log_p is not None:
        raise ValueError("X and log_p were both given: pass the rows, or the teachers' answers for them.")
    lists = read_lists(teachers)
    entries = [own.entries for own in lists]
    P = None if X is None and log_p is None else _probabilities(teachers, lists, X, log_p)
    behaviour = None if P is None else Behaviour(P, _columns(entries))
    same = _same(entries, behaviour)
    return Suggestions([*_sorted(same), *_others(entries)], note=_note(behaviour, P))


def _probabilities(teachers: Any, lists: Sequence[NamedList], X: Any, log_p: Any) -> NDArray[np.float64]:
    """Return (n, K) probabilities for some of the rows, with NaN where a teacher is silent."""
    # Columns get unique names, since the teachers' own names need not be compatible yet.
    space = LabelSpace([[f"{i} {k}" for k in range(len(own.entries))] for i, own in enumerate(lists)])
    if X is not None:
        X = take_rows(X, some_rows(count_rows(X), MOST_ROWS))
        log_p = TeacherOutputs(_classifiers(teachers), class_lists=space.class_lists, abstain=True).fit_transform(X)
    answers = answers_given(_without_names(log_p), space, abstain=True)
    Z = np.asarray(to_numpy(take_rows(answers.log_p, some_rows(len(answers), MOST_ROWS))), dtype=float)
    return np.column_stack([_softmax(Z[:, block]) for block in space.blocks])


def _without_names(log_p: Any) -> Any:
    """Return answers as an array, without the teachers' class names in the columns of a frame."""
    if isinstance(log_p, Answers):
        return log_p.log_p
    return np.asarray(log_p.to_numpy(), dtype=float) if hasattr(log_p, "to_numpy") else log_p


def _softmax(Z: NDArray[np.float64]) -> NDArray[np.float64]:
    Z = np.maximum(Z, -1e30)  # a row of only -inf becomes uniform
    P = np.exp(Z - Z.max(axis=1, keepdims=True))
    return np.asarray(P / P.sum(axis=1, keepdims=True))


def _classifiers(teachers: Any) -> list[Any]:
    """Return the teachers; raise an error for plain lists, which cannot be called."""
    items: Iterable[Any] = teachers.values() if isinstance(teachers, Mapping) else teachers
    found = [item[1] if is_pair(item) else item for item in items]
    for i, teacher in enumerate(found):
        if not hasattr(teacher, "classes_"):
            raise TypeError(
                f"Teacher {i} is a list of classes, which cannot answer for X: pass fitted classifiers, or "
                "their answers as log_p."
            )
    return found


def _columns(entries: Sequence[Sequence[Any]]) -> Columns:
    """Return what the columns are: each set or OTHER gets a name of its own; what may mean OTHER is no class."""
    numbers: dict[Any, int] = {}
    name_of, is_class = [], []
    for i, own in enumerate(entries):
        for k, entry in enumerate(own):
            single = entry is not OTHER and not isinstance(entry, tuple)
            name_of.append(numbers.setdefault(("class", entry) if single else (i, k), len(numbers)))
            is_class.append(single and not may_mean_other(entry))
    teacher_of = np.repeat(np.arange(len(entries)), [len(own) for own in entries])
    return Columns([key[1] for key in numbers], np.array(name_of), teacher_of, np.array(is_class))


def _same(entries: Sequence[Sequence[Any]], behaviour: Behaviour | None) -> dict[Any, Suggestion]:
    """Return a suggestion for each name that may mean another."""
    labels = [[label for entry in own for label in members(entry)] for own in entries]
    owners = owners_of_names(labels)
    links = {pair: _spelling(pair, behaviour) for pair in nearly_equal(entries)}
    for one in behaviour.alikes() if behaviour is not None else ():
        assert behaviour is not None
        a, b = behaviour.columns.names[one.a], behaviour.columns.names[one.b]
        if (a, b) not in links and (b, a) not in links:
            links[a, b] = _answers(a, b, one)
    out = {}
    for group in grouped(owners, links):
        use = max(group, key=lambda label: len(owners[label]))  # the most common name, the first of equals
        for label in group:
            if label != use:
                out[label] = _towards(label, use, links)
    return out


def _others(entries: Sequence[Sequence[Any]]) -> list[Suggestion]:
    """Return names that sound like OTHER, if there are classes that it could stand for."""
    found = sounding_like_other(entries)
    chosen, out = one_for_each(found), []
    for label in chosen:
        text = 'the name sounds like "none of my other classes": if so, pass it as other= to harmonize'
        if beside := [name for name in found if name not in chosen and set(found[name]) & set(found[label])]:
            text += f"; {', '.join(map(repr, beside))} too, but a teacher has one OTHER: add up these columns first"
        out.append(Suggestion("other", label, (OTHER,), None, text))
    return out


def _towards(label: Any, use: Any, links: Mapping[tuple[Any, Any], Suggestion]) -> Suggestion:
    """Return the link that supports renaming a class to `use`: the direct one, else the strongest."""
    own = [link for pair, link in links.items() if label in pair]
    direct = [link for pair, link in links.items() if label in pair and use in pair]
    best = (direct or own)[0]
    return Suggestion(best.kind, label, (use,), best.score, best.evidence, best.numbers)


def _spelling(pair: tuple[Any, Any], behaviour: Behaviour | None) -> Suggestion:
    a, b = pair
    text = "the names are nearly equal"
    if behaviour is None or any(label not in behaviour.columns.names for label in pair):
        return Suggestion("spelling", b, (a,), None, text)
    one = behaviour.alike(*(behaviour.columns.names.index(label) for label in pair))
    if np.isnan(one.score):
        return Suggestion("spelling", b, (a,), None, text)
    # A low score is weak evidence: the surest rows may be foreign to one of the two.
    text += f"; similarity of the answers: {one.score:.2f}" if one.score >= ALIKE else ""
    return Suggestion("spelling", b, (a,), one.score, text, _figures(one))


def _answers(a: Any, b: Any, one: Alike) -> Suggestion:
    text = (
        f"on the top rows of {a!r}, {b!r} has {one.forward:.0%} of its probability on its own top rows, and vice versa "
        f"{one.backward:.0%} ({one.n_rows} rows)"
    )
    return Suggestion("answers", b, (a,), one.score, text, _figures(one))


def _figures(one: Alike) -> dict[str, Any]:
    return {"forward": one.forward, "backward": one.backward, "n_rows": one.n_rows}


def _sorted(same: Mapping[Any, Suggestion]) -> list[Suggestion]:
    """Return spelling suggestions first, then those from answers, each sorted by score."""
    return sorted(same.values(), key=lambda one: (one.kind != "spelling", -(one.score or 0.0)))


def _note(behaviour: Behaviour | None, P: NDArray[np.float64] | None) -> str:
    if behaviour is None or P is None:
        return "Only spelling was compared. Abbreviations and synonyms show in the answers: pass X."
    if behaviour.enough_rows or not behaviour.columns.is_class.any():
        return ""
    need = LEAST_ROWS * len(behaviour.columns.names)
    if len(P) >= need:
        return "Answers were not compared: teachers with two or more classes answer for too few of the rows."
    return (
        f"Answers were not compared: {len(P)} rows are too few for {len(behaviour.columns.names)} names; pass {need}."
    )
