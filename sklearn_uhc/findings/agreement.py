"""Rules for comparisons of teachers: a teacher is wrong, names are positions, or the rows are foreign to all.

Teachers that mean the same confirm nearly all shared classes of each other. If leaving out a few teachers restores
that, these are to blame; if leaving out any one of them does not, it is the class lists or the rows. The thresholds
were chosen on data and seeds other than those reported in `benchmarks/results/findings.json`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sklearn_uhc.findings.comparisons import Comparisons
from sklearn_uhc.findings.result import Finding
from sklearn_uhc.label_space import LabelSpace, shorten, spelled

#: Minimum number of comparisons.
LEAST_COMPARISONS = 4
#: The others are fine if they confirm at least this share of each other's classes, with at least this strength.
FINE_CONFIRMED, FINE_STRENGTH = 0.9, 0.35
#: A teacher is wrong if its strength is at least this much below that of the others, and ...
GAP = 0.3
#: ... others confirm at most this share of its classes, and prefer another one by at least this margin on average; or
WRONG_CONFIRMED, WRONG_AGAINST = 0.75, 0.1
#: ... its strength is at most this share of theirs, and at most this share is confirmed: its answers are noise; or ...
NOISE_STRENGTH, NOISE_CONFIRMED = 0.2, 0.85
#: ... at least two of its classes have another name, by this margin on average, in at least two comparisons. The margin
#: is larger if there are fewer rows than this, since their mean varies more.
MISNAMED, MISNAMED_ROWS = -0.3, 30
#: With so few comparisons (one other teacher, two shared classes) chance is large: at most this share may be confirmed,
#: or this share of noise.
FEW_COMPARISONS, FEW_CONFIRMED, FEW_NOISE_CONFIRMED = 8, 0.25, 0.4
#: Two teachers contradict each other if at most this share is confirmed, and they prefer another class by this margin.
QUARREL_CONFIRMED, QUARREL_AGAINST = 0.5, 0.1
#: Rows are foreign, or lists are positions, if at most this share is confirmed, others prefer another class by this
#: margin, and strength is low whichever teacher is left out. Uneven classes are confirmed less, but margins are small.
TROUBLED_CONFIRMED, TROUBLED_AGAINST, TROUBLED_STRENGTH = 0.88, 0.03, 0.67
#: With fewer comparisons, foreign rows cannot be distinguished from a weak teacher.
TROUBLED_COMPARISONS = 8
#: Maximum number of classes in a message.
MOST_NAMED = 4


def judge(
    found: Comparisons, space: LabelSpace, suspects: tuple[int, ...] = (), by_agreement: bool = False
) -> list[Finding]:
    """Return problems with teachers, lists or rows.

    `suspects` are teachers that are noise by other evidence; `by_agreement` says that such teachers have little weight.
    """
    culprits = find_culprits(found, space.n_teachers)
    if len(culprits) == 1 and (other := only_partner(found, culprits[0])) is not None:
        return [quarrel(found, space, (culprits[0], other))]
    if culprits:
        return [contradiction(found, space, i, culprits, by_agreement) for i in culprits]
    pair = np.union1d(found.teacher, found.other).tolist()
    if len(pair) == 2 and is_quarrel(found):
        return [positions(found, space) if like_positions(space) else quarrel(found, space, (pair[0], pair[1]))]
    if len(pair) > 2 and is_troubled(found, space.n_teachers):
        return [positions(found, space) if like_positions(space) else foreign(found)]
    return [contradiction(found, space, i, suspects, by_agreement) for i in suspects]


def find_culprits(found: Comparisons, n_teachers: int) -> list[int]:
    """Return teachers, at most a third of them, without which the others confirm each other."""
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
    """Return the only teacher that contradicts teacher i, or None if others confirm that one."""
    own = found.of(i)
    partners = np.setdiff1d(np.union1d(own.teacher, own.other), [i]).tolist()
    if len(partners) > 1 or len(found.of(partners[0])) > len(own):
        return None
    return int(partners[0])


def is_quarrel(found: Comparisons) -> bool:
    """Return whether two teachers contradict each other."""
    if len(found) < LEAST_COMPARISONS:
        return False
    limit = FEW_CONFIRMED if len(found) < FEW_COMPARISONS else QUARREL_CONFIRMED
    return found.confirmed <= limit and found.against >= QUARREL_AGAINST


def is_wrong(own: Comparisons, rest: Comparisons) -> bool:
    """Return whether a teacher contradicts others that confirm each other."""
    figures, others = ((part.confirmed, part.mean_strength, part.against) for part in (own, rest))
    return bool(_wrong(len(own), len(rest), figures, others, n_misnamed(own, np.zeros_like(own.label), 1)[0]))


def _wrong(n: Any, n_rest: Any, own: Any, rest: Any, misnamed: Any) -> Any:
    """Apply the rules to numbers of comparisons and (confirmed, strength, against), (3,) or for N teachers (3, N)."""
    (confirmed, strength, against), (confirmed_rest, strength_rest, _) = own, rest
    fine = (confirmed_rest >= FINE_CONFIRMED) & (strength_rest >= FINE_STRENGTH)
    few = n < FEW_COMPARISONS
    misplaced = (confirmed <= np.where(few, FEW_CONFIRMED, WRONG_CONFIRMED)) & (against >= WRONG_AGAINST)
    limit = np.where(few, FEW_NOISE_CONFIRMED, NOISE_CONFIRMED)
    noise = (strength <= NOISE_STRENGTH * strength_rest) & (confirmed <= limit)
    wrong = ((strength_rest - strength >= GAP) & (misplaced | noise)) | (misnamed > 1)
    return (np.minimum(n, n_rest) >= LEAST_COMPARISONS) & fine & wrong


def n_misnamed(found: Comparisons, who: NDArray[np.int_], n_teachers: int) -> NDArray[np.int_]:
    """Return (N,), the number of each teacher's classes that others name differently; `who` (m,) is the teacher."""
    keys = np.column_stack([who, found.label])
    kinds, kind, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
    values = (found.margin, found.n_rows)
    margin, n_rows = (np.bincount(kind.reshape(-1), value, minlength=len(kinds)) / count for value in values)
    limit = MISNAMED * np.sqrt(np.maximum(1.0, MISNAMED_ROWS / n_rows))
    return np.bincount(kinds[(count > 1) & (margin <= limit), 0], minlength=n_teachers)


@dataclass(frozen=True)
class Tally:
    """For each teacher, (N,): number of comparisons, their mean strength, and whether it contradicts all others."""

    n: NDArray[np.int_]
    strength: NDArray[np.float64]
    wrong: NDArray[np.bool_]

    @classmethod
    def of(cls, found: Comparisons, n_teachers: int) -> Tally:
        """Add up all comparisons at once; a teacher counts on either side."""
        both = found.twice()
        values = np.stack([np.ones(len(both)), both.margin > 0, both.strength, np.maximum(0.0, -both.margin)])
        own = np.stack([np.bincount(both.teacher, v, minlength=n_teachers) for v in values])
        rest = values.sum(axis=1, keepdims=True) / 2 - own
        with np.errstate(invalid="ignore", divide="ignore"):
            means, others = own[1:] / own[0], rest[1:] / rest[0]
        wrong = _wrong(own[0], rest[0], means, others, n_misnamed(both, both.teacher, n_teachers))
        return cls(own[0].astype(int), means[1], wrong)


def is_troubled(found: Comparisons, n_teachers: int) -> bool:
    """Return whether teachers contradict each other whichever is left out."""
    if len(found) < TROUBLED_COMPARISONS or found.confirmed > TROUBLED_CONFIRMED or found.against < TROUBLED_AGAINST:
        return False
    rests = [found.without([i]) for i in range(n_teachers)]
    strengths = [rest.mean_strength for rest in rests if LEAST_COMPARISONS <= len(rest) < len(found)]
    return bool(strengths) and max(strengths) <= TROUBLED_STRENGTH


def is_range(labels: NDArray[Any]) -> bool:
    """Return whether a class list is 0, 1, 2, ..., as numbers or digits."""
    return [str(label) for label in labels.tolist()] == [str(k) for k in range(len(labels))]


def like_positions(space: LabelSpace) -> bool:
    """Return whether all class lists are 0, 1, 2, ..."""
    return all(map(is_range, space.class_lists))


def contradiction(found: Comparisons, space: LabelSpace, i: int, culprits: Any, by_agreement: bool) -> Finding:
    """Return the finding that a teacher is wrong."""
    own, rest = found.without(set(culprits) - {i}).of(i), found.without(culprits)
    who = space.called(i)
    called = other_names(own, space, i)
    says = f"T{who[1:]} contradicts the other teachers{_confirmed(own, rest)}.{_call(called)}"
    weigh = ", or use teacher_weight='agreement', which gives such a teacher almost no weight"
    remedy = (
        f"Check that its class list, {shorten(space.class_lists[i])}, has the order of its outputs. Otherwise leave it "
        f"out{'' if by_agreement else weigh}."
    )
    if is_range(space.class_lists[i]):
        remedy = f"Its class list looks like positions: after a LabelEncoder, pass encoder.classes_. {remedy}"
    return Finding("contradiction", (i,), _evidence(own, rest) | {"called": called}, says, remedy)


def quarrel(found: Comparisons, space: LabelSpace, pair: tuple[int, int]) -> Finding:
    """Return the finding that one of two teachers is wrong."""
    own, both = found.of(pair[0]), " and ".join(space.called(i) for i in pair)
    says = f"T{both[1:]} contradict each other{_confirmed(own)}."
    remedy = (
        "Either a class list is not in the order of the outputs, or one of them is wrong, or the rows are of classes "
        "that neither knows: check class_lists, and use rows of their classes."
    )
    return Finding("contradiction", tuple(sorted(pair)), _evidence(own), says, remedy)


def positions(found: Comparisons, space: LabelSpace) -> Finding:
    """Return the finding that class lists look like positions."""
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
    """Return the finding that rows look foreign."""
    says = f"The rows look foreign to the teachers, who contradict each other on all kinds of rows{_confirmed(found)}."
    remedy = (
        "Do not trust what is learned from such rows: use rows like those the teachers were trained on. If "
        "the rows are right, several class lists may be wrong: see teacher_report(teachers, X)."
    )
    return Finding("foreign", (), _evidence(found), says, remedy)


def other_names(own: Comparisons, space: LabelSpace, i: int) -> dict[Any, Any]:
    """Return other names for the classes of teacher i, on which most of the others agree."""
    names = {}
    for label in np.unique(own.label[own.teacher == i]).tolist():
        votes = np.bincount(own.choice[(own.teacher == i) & (own.label == label)], minlength=space.n_classes)
        if votes.argmax() != label and 2 * votes.max() > votes.sum():
            names[space.classes[label].item()] = space.classes[votes.argmax()].item()
    return names


def _confirmed(own: Comparisons, rest: Comparisons | None = None) -> str:
    """Return the numbers as text."""
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
