"""What `fit` of a merge checks before it calls any teacher: everything that its parameters and labels can get wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import ArrayLike, NDArray

from sklearn_uhc.answers import Answers
from sklearn_uhc.estimators.steps import Step, resolve_calibrator
from sklearn_uhc.evidence import FindingWarning
from sklearn_uhc.labels import Labels, read_labels
from sklearn_uhc.labels.learning import check_label_model
from sklearn_uhc.membership.out_of_list import Memberships, make_memberships, universe_of
from sklearn_uhc.merging import resolve_method, takes_sets
from sklearn_uhc.merging.class_prior import prior_of_fit
from sklearn_uhc.spaces.class_sets import refuse_sets
from sklearn_uhc.spaces.label_space import LabelSpace
from sklearn_uhc.teachers import TeacherOutputs
from sklearn_uhc.teachers.roster import Roster, check_teachers
from sklearn_uhc.utils.notes import warn_user
from sklearn_uhc.utils.parameters import check_flag, check_weights
from sklearn_uhc.utils.rows import count_rows

if TYPE_CHECKING:
    from sklearn_uhc.estimators.merger import TeacherMerger


class Plan(NamedTuple):
    """The parts of a merge, checked and not fitted."""

    roster: Roster | None  #: None if answers are given
    space: LabelSpace
    method: Any
    memberships: Memberships | None
    steps: list[Step]
    outputs: TeacherOutputs
    teacher_weight: ArrayLike | None
    labels: Labels | None
    classes: NDArray[Any]  #: all of them, with those that only labels have
    prior: NDArray[Any] | None


def make_plan(merger: TeacherMerger, X: Any, y: Any, log_p: Any, foreign: str) -> Plan:
    """Return the parts of a merge; raise an error if a parameter or a label is wrong."""
    roster, space = _find_teachers(merger, log_p)
    method = make_method(merger, space)
    memberships = _make_memberships(merger, roster, space, X, method)
    calibrator = resolve_calibrator(merger.calibrate, one_kind=roster is not None and roster.is_of_one_kind)
    steps = [] if calibrator is None else [calibrator]
    outputs, weight = _make_outputs(merger, method), given_weights(merger, method, space)
    check_label_model(merger.label_model)
    if log_p is None:
        assert roster is not None
        outputs.check_params(roster)
    classes = space.classes if memberships is None else memberships.space.classes
    sets = None if roster is None or y is None else roster.names_of_sets()
    labels = read_labels(y, X, classes, foreign=foreign, sets=sets)
    prior = prior_of_fit(merger.class_prior, classes, labels, merger.none_label)
    if roster is not None:
        _warn_of_too_little(roster, X)
    classes = classes if labels is None else labels.classes
    return Plan(roster, space, method, memberships, steps, outputs, weight, labels, classes, prior)


def _warn_of_too_little(roster: Roster, X: Any) -> None:
    """Warn about a single teacher, about one that is given twice, and about fewer rows than classes."""
    found, space = [id(teacher) for teacher in roster.teachers], roster.space
    twice = next((i for i, one in enumerate(found) if one in found[:i]), None)
    if len(found) == 1:
        warn_user("There is only one teacher, so nothing is merged: its answers are the soft labels.", FindingWarning)
    if twice is not None:
        warn_user(
            f"{space.called(found.index(found[twice]))} and {space.called(twice)} are the same object, which counts "
            "twice: pass it once.",
            FindingWarning,
        )
    if X is not None and (n := count_rows(X)) < space.n_classes:
        warn_user(
            f"X has {n} rows for {space.n_classes} classes, so some classes cannot be learned: pass many more "
            "unlabelled rows.",
            FindingWarning,
        )


def _find_teachers(merger: TeacherMerger, log_p: Any) -> tuple[Roster | None, LabelSpace]:
    """Return the teachers and what their columns mean."""
    universe = universe_of(merger.none_label)
    if merger.teachers is not None:
        roster = check_teachers(merger.teachers, merger.class_lists, universe)
        return roster, roster.space
    if merger.class_lists is not None and log_p is not None:
        return None, LabelSpace(merger.class_lists, universe=universe)
    if isinstance(log_p, Answers):
        return None, log_p.space
    raise TypeError("teachers is None: pass fitted classifiers, or their answers as class_lists and fit(X, log_p=...).")


def make_method(merger: TeacherMerger, space: LabelSpace) -> Any:
    """Return the method at the temperature of the merge."""
    method = resolve_method(merger.method)
    if not takes_sets(method):
        refuse_sets(space.class_lists)
    if merger.abstain is not None:
        check_flag("abstain", merger.abstain)
    own = getattr(method, "class_lists", None)
    if own is not None and LabelSpace(own) != space:
        raise ValueError(
            "The method has class_lists of its own, and they are not the teachers': leave them out of the method, "
            "and rename classes with class_lists of the merge."
        )
    known = method.get_params(deep=False)
    changes = {"temperature": merger.temperature, "n_jobs": merger.n_jobs, "verbose": merger.verbose or None}
    method.set_params(**{name: value for name, value in changes.items() if value is not None and name in known})
    if hasattr(method, "check_params"):
        method.check_params()
    return method


def _make_memberships(
    merger: TeacherMerger, roster: Roster | None, space: LabelSpace, X: Any, method: Any
) -> Memberships | None:
    """Return the membership scorers that take part, or None."""
    teachers = () if roster is None else roster.teachers
    given, none = merger.membership, merger.none_label
    found = make_memberships(given, merger.membership_weight, none, space, teachers, merger.store)
    if found is not None and not takes_sets(method):
        if not isinstance(given, str) or none is not None:
            refuse_sets(found.space.class_lists)
        names = ", ".join(space.called(i) for i in found.whose)
        warn_user(f"MF-LU does not support membership scorers: those of {names} are left out. CE and MF-LF use them.")
        return None
    if found is not None and X is None:
        raise ValueError("Memberships need X, which is None: pass X with log_p, or membership=None.")
    return found


def abstains(merger: TeacherMerger, method: Any) -> bool:
    """Return whether teachers may be silent: what the merge says, else what its method says."""
    return bool(getattr(method, "abstain", False) if merger.abstain is None else merger.abstain)


def _make_outputs(merger: TeacherMerger, method: Any) -> TeacherOutputs:
    """Return the teacher step."""
    names = ("class_lists", "floor", "store", "n_jobs", "verbose")
    of_merger = {name: getattr(merger, name) for name in names}
    return TeacherOutputs(merger.teachers, abstain=abstains(merger, method), **of_merger)


def given_weights(merger: TeacherMerger, method: Any, space: LabelSpace | None = None) -> ArrayLike | None:
    """Return the teacher weights given to the merge or to its method, checked if `space` is given; else None."""
    given = merger.teacher_weight
    weight: ArrayLike | None = getattr(method, "teacher_weight", None) if given is None else given
    if weight is not None and space is not None:
        check_weights(weight, space.n_teachers)
    return weight
