"""The sentences and tables of the report of teachers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from sklearn_uhc.inspection.report.story import Section, Story, Table, count, number, percent
from sklearn_uhc.spaces.label_space import spelled
from sklearn_uhc.spaces.names import about_look_alikes, about_rests, quoted
from sklearn_uhc.spaces.undetermined import MOST_NAMED, about_one_set, about_undetermined, about_undistinguished, listed

#: Above this condition number, errors of the teachers may grow to wrong answers.
MOST_CONDITION = 50
#: A teacher whose agreement with the others is lower contradicts them.
LEAST_AGREEMENT = 0.5
#: What the columns of numbers in the table of teachers mean.
COLUMNS = {
    "n": "number of classes the teacher knows, alone or in sets",
    "coverage": "share of the rows that it answers for",
    "accepts": "share of the rows that its membership scorer gives more than one half; -: has no scorer in use",
    "confidence": "mean of its largest probability",
    "temperature": "its logits are divided by it; above 1 if it is more confident than the others justify; "
    "-: could not be estimated",
    "agreement": "how often it chooses the same class as others among shared classes; -: shares fewer than two",
}


def story(report: dict[str, Any]) -> Story:
    """Return all that the report says."""
    doubts, determined = report["warnings"], _determined(report)
    sections = [
        Section("Teachers", table=teacher_table(report)),
        Section("Which teacher knows which class", plot="overlap"),
        *([Section("What the class lists determine", lines=determined, folded=True)] if determined else []),
        _suggested(report),
        *_agreement(report),
        _soft_labels(report),
        _rows(report),
    ]
    trusts = [] if doubts else ["No problems found."]
    return Story("Teacher report", " ".join(summary(report)), doubts, trusts, sections)


def _suggested(report: dict[str, Any]) -> Section:
    lines = [f"{claim(one)}: {one['evidence']}." for one in report["suggestions"]]
    note = (
        "Names that are nearly equal, and classes that behave alike on these rows. "
        "Answers can mislead, so check before you accept. Pass what is right to harmonize."
    )
    lines = lines or ["None: no names are nearly equal, and no answers show that classes are the same."]
    lines += [report["suggestions_note"]] if report["suggestions_note"] else []
    return Section("Suggestions about the class lists (not applied)", note if report["suggestions"] else "", lines)


def _agreement(report: dict[str, Any]) -> list[Section]:
    title = "Agreement between teachers"
    if not report["pairs"]:
        return [Section(title, lines=["No two teachers can be compared: none share at least two classes."])]
    note = "How often two teachers choose the same class among those both know. Hatched: fewer than two shared classes."
    worst = Section("Pairs that disagree most", table=pair_table(report), folded=True)
    return [Section(title, note, plot="agreement"), worst]


def _soft_labels(report: dict[str, Any]) -> Section:
    title = "Soft labels for the student"
    if not report["frequencies"]:
        return Section(title, lines=["None: no teacher answers for any row."])
    note = (
        "The mean soft label of every class over the rows: how frequent the classes seem to be. A fit uses them so, "
        "unless it is given labels, class_prior or balance=True (then classes have the weights shown)."
    )
    return Section(title, note, plot="soft_labels")


def _rows(report: dict[str, Any]) -> Section:
    title = "Rows hardest to reconcile"
    note = (
        "Rows on which the merge is furthest from the teachers, the worst first, and the teachers that choose another "
        "class. Error: mean divergence from the teachers that answer and that no finding names. Probabilities in "
        "brackets are calibrated. Check these rows: teachers may be wrong about them, or they may belong to none of "
        "the classes."
    )
    if not report["rows"]:
        return Section(title, lines=["None: the merge does not contradict any teacher."])
    return Section(title, note, table=row_table(report))


def label_of(teacher: dict[str, Any]) -> str:
    """Return the label of a teacher in tables and plots: number and name."""
    i, name = teacher["teacher"], teacher["name"]
    return name if name == f"teacher {i}" else f"{i} {name}"


def summary(report: dict[str, Any]) -> list[str]:
    """Return a few sentences on what the merge is based on."""
    space, agreements = report["space"], [teacher["agreement"] for teacher in report["teachers"]]
    known = [value for value in agreements if value is not None]
    # Groups, and what sets leave undetermined, are named by warnings.
    out = [
        f"{re.split('[:;]', space['summary'])[0]}.",
        f"The teachers answered for {count(report['n_samples'], 'unlabelled row')}.",
    ]
    out += [_accepted(report), _lonely(report)]
    if known:
        mean = sum(known) / len(known)
        out.append(f"On shared classes, teachers choose the same class in {percent(mean)} of the cases on average.")
    return [sentence for sentence in out if sentence]


def _accepted(report: dict[str, Any]) -> str:
    """Return a sentence about the rows that membership scorers accept."""
    if not has_scorers(report):
        return ""
    n, share = sum(teacher["accepted"] is not None for teacher in report["teachers"]), percent(report["accepted"])
    who = "the only membership scorer" if n == 1 else f"at least one of the {n} membership scorers"
    return f"{share[0].upper()}{share[1:]} of the rows are accepted by {who}."


def _determined(report: dict[str, Any]) -> list[str]:
    """Return sentences about what the class lists determine, and how firmly."""
    space = report["space"]
    needed, rank, condition = space["n_classes"] - 1, space["rank"], space["condition"]
    if needed == 0:
        return []
    lists = "The class lists, with the membership scorers," if has_scorers(report) else "The class lists"
    if rank is None:
        first = f"Whether {lists[0].lower()}{lists[1:]} determine all probabilities takes too long to compute (rank)."
    else:
        do = "determine" if rank == needed else "do not determine"
        what = f"the answers give {rank:,} independent odds (rank), and {needed:,} are needed"
        first = f"{lists} {do} the probabilities of all classes: {what}."
    if condition is None:
        return [first, "How much errors may grow in the merge takes too long to compute (condition)."]
    grow = f"Errors in the teachers' log-odds may grow {_times(condition)} times in the merge (condition)."
    return [first, grow] if rank else [first]


def _lonely(report: dict[str, Any]) -> str:
    """Return a sentence about classes that only one teacher knows."""
    space, lonely = report["space"], report["space"]["known_by_one"]
    if not lonely or space["n_teachers"] == 1:
        return ""
    if len(lonely) == 1:
        (one,) = lonely
        return f"One class is known to only one teacher: {spelled(one['class'])} ({_called(report)(one['teacher'])})."
    names = listed([f"{spelled(item['class'])} ({_called(report)(item['teacher'])})" for item in lonely])
    share = "All" if len(lonely) == space["n_classes"] else str(len(lonely))
    return f"{share} classes are known to only one teacher: {names}."


def complaints(report: dict[str, Any]) -> list[str]:
    """Return the warnings, in plain words; empty if nothing is wrong."""
    alike = about_look_alikes(report["space"]["look_alikes"], _called(report))
    rests = about_rests(report["space"]["rests"], _called(report))
    lists = [unlinked(report), *left_open(report), _loosely_tied(report), alike, rests, _suspected(report)]
    found = [*lists, *findings(report), _contradicting(report), _mute(report), *_alone(report)]
    if report["n_unanswered"]:
        found.append(
            f"No teacher answers for {report['n_unanswered']} of {report['n_samples']} rows, so nothing is known about "
            "them, and the distiller gives them no weight."
        )
    return [sentence for sentence in found if sentence]


def unlinked(report: dict[str, Any]) -> str:
    """Return a warning if no teacher links groups of classes."""
    groups = report["space"]["groups"]
    if len(groups) == 1:
        return ""
    names = "; ".join("{" + listed(group) + "}" for group in groups[:MOST_NAMED])
    more = f"; and {len(groups) - MOST_NAMED} more" if len(groups) > MOST_NAMED else ""
    return (
        f"The class lists do not connect: no teacher links these {len(groups)} groups of classes: {names}{more}. The "
        "relative probability of these groups is a guess. A teacher that knows classes of two groups would link them. "
        "Or check whether the same class has two names."
    )


def left_open(report: dict[str, Any]) -> list[str]:
    """Return warnings about classes that sets do not determine."""
    space = report["space"]
    within = {label for group in space["never_apart"] for label in group}
    rest = [label for label in space["undetermined"] if label not in within]
    alone = [f"{spelled(one['class'])} ({_called(report)(one['teacher'])})" for one in space["in_one_set"]]
    return [*about_undistinguished(space["never_apart"]), *about_undetermined(rest), *about_one_set(alone)]


def _loosely_tied(report: dict[str, Any]) -> str:
    """Return a warning if errors can grow along chains of teachers or through large sets."""
    condition = report["space"]["condition"]
    if condition is None or condition <= MOST_CONDITION:
        return ""
    return (
        f"Some classes are linked to others only by a long chain of teachers, or only through large sets: errors in "
        f"the teachers' log-odds may grow {_times(condition)} times in the merge (LabelSpace.condition(), a problem "
        f"above {MOST_CONDITION}). Add a teacher that knows such classes together."
    )


def _suspected(report: dict[str, Any]) -> str:
    """Return a warning about classes that are the same according to answers."""
    found = [one for one in report["suggestions"] if one["kind"] == "answers"]
    if not found:
        return ""
    what = [claim(one) for one in found[:MOST_NAMED]]
    more = f"; and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else ""
    return (
        f"According to the teachers' answers, classes may mean the same: {'; '.join(what)}"
        f"{more}. At present they split their rows. Check the suggestions, and pass what is right to harmonize."
    )


def claim(suggestion: dict[str, Any]) -> str:
    """Return the text of a suggestion, without its evidence."""
    name, new = quoted([suggestion["name"], *suggestion["becomes"]])
    return f"{name} may mean {new}"


def findings(report: dict[str, Any]) -> list[str]:
    """Return the warnings of `fit`."""
    return [f"{one['says']} {one['remedy']}" for one in report["findings"]]


def _contradicting(report: dict[str, Any]) -> str:
    guilty = contradicting(report)
    if not guilty:
        return ""
    who = listed([f"{_who(teacher)}, {percent(teacher['agreement'])}" for teacher in guilty], " and ")
    return (
        f"On shared classes, these teachers choose the same class as others in less than half of the cases: {who}. A "
        "teacher may be wrong, its classes may be misnamed, or the rows may be unlike its training data."
    )


def _mute(report: dict[str, Any]) -> str:
    mute = [_who(teacher) for teacher in report["teachers"] if teacher["coverage"] == 0]
    if not mute:
        return ""
    unanswered = report["space"]["unanswered"] if len(mute) < len(report["teachers"]) else []
    lost = f" No other teacher answers for {listed(unanswered)}: their probabilities are a guess." if unanswered else ""
    return f"No row is answered by {listed(mute, ' and ')}.{lost}"


def _alone(report: dict[str, Any]) -> list[str]:
    """Return warnings about teachers that could not be compared with others, grouped by reason."""
    if report["space"]["n_teachers"] == 1:
        return ["There is only one teacher: its answers cannot be compared with anything."]
    reasons: dict[str, list[str]] = {}
    for teacher in report["teachers"]:
        if teacher["left"] and teacher["coverage"] > 0 and not teacher["contradicts"]:
            reasons.setdefault(teacher["left"], []).append(_who(teacher))
    return [
        f"Not calibrated: {listed(who, ' and ')} ({reason}). "
        f"{'Its' if len(who) == 1 else 'Their'} confidence is used as it is."
        for reason, who in reasons.items()
    ]


def blamed(report: dict[str, Any]) -> set[int]:
    """Return the numbers of the teachers that findings are about."""
    return {i for one in report["findings"] for i in one["teachers"]}


def contradicting(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return teachers that contradict the others more often than not, unless other warnings explain this."""
    if any(one["kind"] != "uneven" for one in report["findings"]):
        return []
    return [t for t in report["teachers"] if t["agreement"] is not None and t["agreement"] < LEAST_AGREEMENT]


def teacher_table(report: dict[str, Any]) -> Table:
    """Return the table of teachers."""
    meaning = {name: COLUMNS[name] for name in COLUMNS if name != "accepts" or has_scorers(report)}
    rows, marked, guilty = [], set(), contradicting(report)
    for k, teacher in enumerate(report["teachers"]):
        cells = {
            "n": str(teacher["n_classes"]),
            "coverage": percent(teacher["coverage"]),
            "accepts": percent(teacher["accepted"]),
            "confidence": number(teacher["confidence"]),
            "temperature": number(None if teacher["left"] else teacher["temperature"]),
            "agreement": number(teacher["agreement"]),
        }
        rows.append([label_of(teacher), teacher["classes"], *(cells[name] for name in meaning)])
        if teacher in guilty or teacher["coverage"] == 0 or k in blamed(report):
            marked.add(k)
    return Table(("teacher", "classes", *meaning), rows, 2, marked, meaning)


def has_scorers(report: dict[str, Any]) -> bool:
    """Return whether any teacher has a membership scorer."""
    return any(teacher["accepted"] is not None for teacher in report["teachers"])


def pair_table(report: dict[str, Any]) -> Table:
    """Return the table of pairs of teachers that disagree most."""
    labels = [label_of(teacher) for teacher in report["teachers"]]
    rows = [
        [labels[pair["first"]], labels[pair["second"]], str(pair["shared"]), number(pair["agreement"])]
        for pair in report["pairs"]
    ]
    return Table(("teacher", "and", "shared", "agreement"), rows, 2)


def row_table(report: dict[str, Any]) -> Table:
    """Return the table of rows hardest to reconcile, with a line per teacher whose choice differs from the merge."""
    labels = [label_of(teacher) for teacher in report["teachers"]]
    rows = []
    for row in report["rows"]:
        first = [str(row["row"]), choice(row["says"], row["probability"]), number(row["error"])]
        for other in row["contradicted_by"]:
            says = choice(other["says"], other["probability"])
            merge = choice(other["merge_says"], other["merge_probability"])
            rows.append([first[0], first[1], labels[other["teacher"]], says, merge, first[2]])
            first = ["", "", ""]
        if not row["contradicted_by"]:
            rows.append([first[0], first[1], "none: they differ only in confidence", "", "", first[2]])
    head = ("row", "merge says", "contradicted by", "teacher says", "merge among its classes", "error")
    return Table(head, rows, 5)


def _called(report: dict[str, Any]) -> Callable[[int], str]:
    """Return how sentences refer to the teacher with a number, without its kind."""
    return lambda i: str(report["teachers"][i]["called"])


def _who(teacher: dict[str, Any]) -> str:
    """Return the name of a teacher in a sentence."""
    numbered, called = f"teacher {teacher['teacher']}", str(teacher["called"])
    return f"{called} ({teacher['name']})" if called == numbered != teacher["name"] else called


def choice(label: Any, probability: float) -> str:
    """Write what somebody says with its probability."""
    return f"{spelled(label)} ({probability:.2f})"


def _times(condition: float) -> str:
    """Format a condition number."""
    return "more than a million" if condition >= 1e6 else f"{condition:,.{1 if condition < 10 else 0}f}"
