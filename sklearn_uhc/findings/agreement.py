"""What comparisons of teachers show: one of them is wrong, names are positions, or the rows are foreign to all.

Teachers that mean the same confirm nearly all shared classes of each other. If leaving out a few teachers restores
that, these are to blame; if leaving out any one of them does not, it is the class lists or the rows. The thresholds
were chosen on data and seeds other than those reported in `docs/findings.json` (`benchmarks/findings.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.findings.comparisons import Comparisons
from sklearn_uhc.findings.result import Finding
from sklearn_uhc.label_space import LabelSpace, shorten, spelled

#: Fewer comparisons show nothing.
LEAST_COMPARISONS = 4
#: The others are fine if they confirm this share of each other's classes, with this strength at least.
FINE_CONFIRMED, FINE_STRENGTH = 0.9, 0.35
#: A teacher is wrong if its strength is this much below that of the others, and ...
GAP = 0.3
#: ... others confirm at most this share of its classes, and prefer another one by this much on average; or ...
WRONG_CONFIRMED, WRONG_AGAINST = 0.75, 0.1
#: ... its answers have next to nothing to do with theirs: its strength is this small relative to them; or ...
NOISE_STRENGTH, NOISE_CONFIRMED = 0.2, 0.85
#: ... two of its classes or more are called something else, by this much on average, in two comparisons at least; by
#: more where fewer rows than this were looked at, as their mean varies more.
MISNAMED, MISNAMED_ROWS = -0.3, 30
#: In so few comparisons (one other teacher, two shared classes) chance is large, and hardly any may be confirmed.
FEW_COMPARISONS, FEW_CONFIRMED = 8, 0.25
#: Two teachers contradict each other if no more than this is confirmed, and they prefer another class by this much.
QUARREL_CONFIRMED, QUARREL_AGAINST = 0.5, 0.1
#: Rows are foreign, or lists positions, if no more than this is confirmed, others prefer another class by this much,
#: and strength is low whoever is left out. Uneven classes are confirmed less too, but little is said against them.
TROUBLED_CONFIRMED, TROUBLED_AGAINST, TROUBLED_STRENGTH = 0.92, 0.02, 0.7
#: Fewer comparisons cannot tell foreign rows from a weak teacher.
TROUBLED_COMPARISONS = 8
#: Classes that a message names at most.
MOST_NAMED = 4


def judge(found: Comparisons, space: LabelSpace, suspects: tuple[int, ...] = ()) -> list[Finding]:
    """Return what is wrong with teachers, lists or rows; `suspects` are teachers that are noise by other evidence."""
    culprits = find_culprits(found, space.n_teachers)
    if len(culprits) == 1 and (other := only_partner(found, culprits[0])) is not None:
        return [quarrel(found, space, (culprits[0], other))]
    if culprits:
        return [contradiction(found, space, i, culprits) for i in culprits]
    pair = np.union1d(found.teacher, found.other).tolist()
    if len(pair) == 2 and is_quarrel(found):
        return [positions(found, space) if like_positions(space) else quarrel(found, space, (pair[0], pair[1]))]
    if len(pair) > 2 and is_troubled(found, space.n_teachers):
        return [positions(found, space) if like_positions(space) else foreign(found)]
    return [contradiction(found, space, i, suspects) for i in suspects]


def find_culprits(found: Comparisons, n_teachers: int) -> list[int]:
    """Return teachers, a third of them at most, without whom the others confirm each other."""
    gone: list[int] = []
    while len(gone) < max(1, (n_teachers - 1) // 3):
        tally = Tally.of(found.without(gone), n_teachers)
        own = np.flatnonzero(tally.n >= LEAST_COMPARISONS)
        if not len(own):
            return []
        worst = own[np.argsort(tally.strength[own], kind="stable")]
        wrong = worst[tally.wrong[worst]]
        gone.append(int((wrong if len(wrong) else worst)[0]))
        rest = found.without(gone)
        if len(wrong) and all(is_wrong(found.without(set(gone) - {i}).of(i), rest) for i in gone):
            return sorted(gone)
    return []


def only_partner(found: Comparisons, i: int) -> int | None:
    """Return the teacher that alone contradicts teacher i, unless others confirm that one."""
    own = found.of(i)
    partners = np.setdiff1d(np.union1d(own.teacher, own.other), [i]).tolist()
    if len(partners) > 1 or len(found.of(partners[0])) > len(own):
        return None
    return int(partners[0])


def is_quarrel(found: Comparisons) -> bool:
    """Whether two teachers contradict each other."""
    if len(found) < LEAST_COMPARISONS:
        return False
    limit = FEW_CONFIRMED if len(found) < FEW_COMPARISONS else QUARREL_CONFIRMED
    return found.confirmed <= limit and found.against >= QUARREL_AGAINST


def is_wrong(own: Comparisons, rest: Comparisons) -> bool:
    """Whether a teacher contradicts others who confirm each other."""
    figures, others = ((part.confirmed, part.mean_strength, part.against) for part in (own, rest))
    return bool(_wrong(len(own), len(rest), figures, others, n_misnamed(own, np.zeros_like(own.label), 1)[0]))


def _wrong(n: Any, n_rest: Any, own: Any, rest: Any, misnamed: Any) -> Any:
    """Judge numbers of comparisons, and confirmed, strength, against: (3,) or, of N teachers at once, (3, N)."""
    (confirmed, strength, against), (confirmed_rest, strength_rest, _) = own, rest
    fine = (confirmed_rest >= FINE_CONFIRMED) & (strength_rest >= FINE_STRENGTH)
    limit = np.where(n < FEW_COMPARISONS, FEW_CONFIRMED, WRONG_CONFIRMED)
    misplaced = (confirmed <= limit) & (against >= WRONG_AGAINST)
    noise = (strength <= NOISE_STRENGTH * strength_rest) & (confirmed <= NOISE_CONFIRMED)
    wrong = ((strength_rest - strength >= GAP) & (misplaced | noise)) | (misnamed > 1)
    return (np.minimum(n, n_rest) >= LEAST_COMPARISONS) & fine & wrong


def n_misnamed(found: Comparisons, who: NDArray[np.int_], n_teachers: int) -> NDArray[np.int_]:
    """Count the classes of each teacher, (N,), that others call something else; `who` takes part, (m,)."""
    keys = np.column_stack([who, found.label])
    kinds, kind, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    values = (found.margin, found.n_rows)
    margin, n_rows = (np.bincount(kind.reshape(-1), value, minlength=len(kinds)) / count for value in values)
    limit = MISNAMED * np.sqrt(np.maximum(1.0, MISNAMED_ROWS / n_rows))
    return np.bincount(kinds[(count > 1) & (margin <= limit), 0], minlength=n_teachers)


@dataclass(frozen=True)
class Tally:
    """Of each teacher, (N,): its comparisons, their mean strength, and whether it contradicts all others."""

    n: NDArray[np.int_]
    strength: NDArray[np.float64]
    wrong: NDArray[np.bool_]

    @classmethod
    def of(cls, found: Comparisons, n_teachers: int) -> Tally:
        """Add up all comparisons at once; a teacher takes part on either side."""
        both = found.twice()
        values = np.stack([np.ones(len(both)), both.margin > 0, both.strength, np.maximum(0.0, -both.margin)])
        own = np.stack([np.bincount(both.teacher, v, minlength=n_teachers) for v in values])
        rest = values.sum(axis=1, keepdims=True) / 2 - own
        with np.errstate(invalid="ignore", divide="ignore"):
            means, others = own[1:] / own[0], rest[1:] / rest[0]
        wrong = _wrong(own[0], rest[0], means, others, n_misnamed(both, both.teacher, n_teachers))
        return cls(own[0].astype(int), means[1], wrong)


def is_troubled(found: Comparisons, n_teachers: int) -> bool:
    """Whether teachers contradict each other whoever is left out."""
    if len(found) < TROUBLED_COMPARISONS or found.confirmed > TROUBLED_CONFIRMED or found.against < TROUBLED_AGAINST:
        return False
    rests = [found.without([i]) for i in range(n_teachers)]
    strengths = [rest.mean_strength for rest in rests if LEAST_COMPARISONS <= len(rest) < len(found)]
    return bool(strengths) and max(strengths) <= TROUBLED_STRENGTH


def is_range(labels: NDArray[Any]) -> bool:
    """Whether a class list is 0, 1, 2, ..., as numbers or as digits."""
    return [str(label) for label in labels.tolist()] == [str(k) for k in range(len(labels))]


def like_positions(space: LabelSpace) -> bool:
    """Whether all class lists are 0, 1, 2, ..."""
    return all(map(is_range, space.class_lists))


def contradiction(found: Comparisons, space: LabelSpace, i: int, culprits: Any) -> Finding:
    """Say that a teacher is wrong."""
    own, rest = found.without(set(culprits) - {i}).of(i), found.without(culprits)
    who = space.called(i)
    called = other_names(own, space, i)
    says = f"T{who[1:]} contradicts the other teachers{_confirmed(own, rest)}.{_call(called)}"
    remedy = (
        f"Check that its class list, {shorten(space.class_lists[i])}, has the order of its outputs. Otherwise leave it "
        "out, or use teacher_weight='agreement', which gives such a teacher almost no weight."
    )
    if is_range(space.class_lists[i]):
        remedy = f"Its class list looks like positions: after a LabelEncoder, pass encoder.classes_. {remedy}"
    return Finding("contradiction", (i,), _evidence(own, rest) | {"called": called}, says, remedy)


def quarrel(found: Comparisons, space: LabelSpace, pair: tuple[int, int]) -> Finding:
    """Say that one of two teachers is wrong."""
    own, both = found.of(pair[0]), " and ".join(space.called(i) for i in pair)
    says = f"T{both[1:]} contradict each other{_confirmed(own)}."
    remedy = (
        "Either a class list is not in the order of the outputs, or one of them is wrong, or the rows are of classes "
        "that neither knows: check class_lists, and use rows of their classes."
    )
    return Finding("contradiction", tuple(sorted(pair)), _evidence(own), says, remedy)


def positions(found: Comparisons, space: LabelSpace) -> Finding:
    """Say that class lists look like positions."""
    lengths = sorted({len(labels) for labels in space.class_lists})
    size = f"0 to {lengths[0] - 1}" if len(lengths) == 1 else f"0 to {lengths[0] - 1} up to 0 to {lengths[-1] - 1}"
    says = (
        f"The class lists look like positions, not names: all {space.n_teachers} teachers have the classes {size}, "
        f"but do not mean the same by them{_confirmed(found)}."
    )
    remedy = (
        "A teacher trained after a LabelEncoder knows only numbers: pass the names in the order of its "
        "outputs, class_lists=[encoder.classes_, ...]. If the names are right, the rows may be foreign to the teachers."
    )
    return Finding("positions", tuple(range(space.n_teachers)), _evidence(found), says, remedy)


def foreign(found: Comparisons) -> Finding:
    """Say that rows look foreign."""
    says = f"The rows look foreign to the teachers, who contradict each other on all kinds of rows{_confirmed(found)}."
    remedy = (
        "Do not trust what is learned from such rows: use rows like those the teachers were trained on. If "
        "the rows are right, several class lists may be wrong: see teacher_report(teachers, X)."
    )
    return Finding("foreign", (), _evidence(found), says, remedy)


def other_names(own: Comparisons, space: LabelSpace, i: int) -> dict[Any, Any]:
    """Return what others call the classes of teacher i, where most of them agree on another name."""
    names = {}
    for label in np.unique(own.label[own.teacher == i]).tolist():
        votes = np.bincount(own.choice[(own.teacher == i) & (own.label == label)], minlength=space.n_classes)
        if votes.argmax() != label and 2 * votes.max() > votes.sum():
            names[space.classes[label].item()] = space.classes[votes.argmax()].item()
    return names


def _confirmed(own: Comparisons, rest: Comparisons | None = None) -> str:
    """Give the figures."""
    if not len(own):
        return ""
    text = f": where one teacher is most confident, others choose the same class in {own.confirmed:.0%} of the cases"
    return text if rest is None or not len(rest) else f"{text}, in {rest.confirmed:.0%} without it"


def _call(called: dict[Any, Any]) -> str:
    pairs = [f"{spelled(a)} is {spelled(b)}" for a, b in called.items()][:MOST_NAMED]
    return f" According to the others, its {', its '.join(pairs)}." if pairs else ""


def _evidence(own: Comparisons, rest: Comparisons | None = None) -> dict[str, Any]:
    def figures(part: Comparisons) -> dict[str, Any]:
        shown = {"confirmed": part.confirmed, "strength": part.mean_strength, "against": part.against}
        return {"comparisons": len(part), **shown} if len(part) else {"comparisons": 0}

    rests = {} if rest is None else {f"{name}_others": value for name, value in figures(rest).items()}
    return figures(own) | rests
