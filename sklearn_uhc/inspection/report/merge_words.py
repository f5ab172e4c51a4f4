"""The sentences and tables of the report of a merge."""

from __future__ import annotations

from typing import Any

from sklearn_uhc.inspection.report.story import Section, Story, Table, count, number, percent
from sklearn_uhc.inspection.report.words import choice, findings, left_open, unlinked
from sklearn_uhc.spaces.label_space import spelled
from sklearn_uhc.spaces.undetermined import listed

#: A class is doubtful if less than this speaks for it: the merge's confidence, the teachers, the student, or labels.
HALF = 0.5
#: Rows per class below which a class without any row is no surprise: even ones lack it with a chance of e^-5.
FEW_ROWS = 5
#: A student that says something else than the merge for more than one row in ten has not learned it.
LEAST_KEPT = 0.9
#: Longest text of a row.
LONGEST_TEXT = 200
#: What the columns of numbers in the table of classes mean.
COLUMNS = {
    "merged": "how frequent the class is on these rows: its mean merged probability",
    "told": "how frequent it is according to class_prior",
    "labelled": "its share of the labelled rows",
    "rows": "rows of which the merge chooses this class; the next three columns are about them",
    "sure": "mean probability that the merge gives to the class",
    "conflict": "share of the answers of teachers that know the class which choose another one",
    "kept": "share of these rows of which the student says the same",
    "found": "share of its labelled rows that the result gets right, with its 95 % interval",
}


def merge_story(report: dict[str, Any]) -> Story:
    """Return all that the report says."""
    n_classes = len(report["classes"])  # a merge has at least two
    sizes = f"{count(len(report['teachers']), 'teacher')}, {n_classes} classes, {count(report['n_samples'], 'row')}"
    lead = f"{_verdict(report)} {sizes}."
    sections = [Section("Class by class", table=_class_table(report)), *_labelled(report), *_rows(report)]
    return Story("Merge report", lead, report["doubts"], report["trusts"], [*sections, _teachers(report)])


def _verdict(report: dict[str, Any]) -> str:
    """Return how often the result is right, as far as anybody can know."""
    if report["accuracy"] is None:
        return (
            "How often the result is right is not known, since no row has a label: label 50 rows drawn at random and "
            "pass them as y."
        )
    used = " These labels were used in fit, so new rows may show less." if report["used_in_fit"] else ""
    return f"The result is right for {interval(report['accuracy']['result'])} of the labelled rows.{used}"


def interval(found: dict[str, Any] | None) -> str:
    """Write a share with its interval and the rows it is of."""
    if found is None:
        return "-"
    ends = f"{100 * found['low']:.0f} to {100 * found['high']:.0f} %"
    return f"{percent(found['share'])} ({ends}, n = {found['n']:,})"


def doubts(report: dict[str, Any]) -> list[str]:
    """Return what to doubt, in plain words; empty if nothing."""
    found = [*findings(report), unlinked(report), *left_open(report), *_doubtful_labels(report), *_weak(report)]
    if report["n_unanswered"]:
        found.append(f"No teacher answers for {report['n_unanswered']:,} of {report['n_samples']:,} rows.")
    if report["kept"] and report["kept"]["share"] < LEAST_KEPT and not _student_is_better(report):
        found.append(
            f"The student says what the merge says for only {interval(report['kept'])} of the rows. It may correct the "
            "merge there, or have failed to learn it: label some of these rows and pass them as y."
        )
    return [sentence for sentence in [*found, _alone(report)] if sentence]


def _student_is_better(report: dict[str, Any]) -> bool:
    """Return whether the student is right at least as often as the merge on labelled rows."""
    right = report["accuracy"]
    return bool(report["has_student"] and right and right["result"]["share"] >= right["merge"]["share"])


def _doubtful_labels(report: dict[str, Any]) -> list[str]:
    """Return doubts that labels show."""
    if report["accuracy"] is None:
        return []
    found, sure = report["accuracy"]["result"], report["confidence"]
    missed = [one for one in report["classes"] if one["found"] and one["found"]["high"] < HALF]
    out = [f"Less than half of the labelled rows are found of: {_names(missed)}."] if missed else []
    if not found["low"] <= sure <= found["high"]:
        word = "overconfident" if sure > found["high"] else "too modest"
        out.append(
            f"Its probabilities are {word}: they say {number(sure)} on average, and {interval(found)} of the labelled "
            "rows are right."
        )
    return out


def _weak(report: dict[str, Any]) -> list[str]:
    """Return doubts about classes."""
    classes = report["classes"]
    unsure = [one for one in classes if one["rows"] and one["confidence"] < HALF]
    contested = [one for one in classes if (one["conflict"] or 0) > HALF]
    lost = [one for one in classes if one["kept"] is not None and one["kept"] < HALF]
    says = {
        "The merge chooses no row for": _absent(report),
        "The merge gives less than one half, on average, to its own choice of": unsure,
        "Teachers that know these classes mostly contradict the merge, on rows of which it chooses": contested,
        "The student mostly says something else than the merge on rows of": lost,
    }
    return [f"{what}: {_names(which)}." for what, which in says.items() if which]


def _absent(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Return classes without a row, unless a finding names them or there are too few rows to wonder."""
    named = any(one["kind"] == "uneven" for one in report["findings"])
    few = report["n_samples"] < FEW_ROWS * len(report["classes"])
    return [] if named or few else [one for one in report["classes"] if one["rows"] == 0]


def _alone(report: dict[str, Any]) -> str:
    """Return a sentence about classes that nobody can confirm."""
    alone = [one for one in report["classes"] if len(one["teachers"]) == 1]
    if len(report["teachers"]) == 1:
        return "There is only one teacher, so nobody confirms it."
    return f"Only one teacher knows, and nobody confirms: {_names(alone)}." if alone else ""


def _names(classes: list[dict[str, Any]]) -> str:
    return listed([one["class"] for one in classes])


def trusts(report: dict[str, Any]) -> list[str]:
    """Return what to trust, in plain words."""
    space, out = report["space"], []
    if not report["findings"]:
        out.append("fit found no problem with the teachers or the rows.")
    if len(space["groups"]) == 1 and not space["undetermined"] and not space["in_one_set"]:
        out.append("The class lists determine the probabilities of all classes.")
    agreed = _agreed(report)
    if agreed is not None and agreed > HALF:
        out.append(f"Teachers that know the class of a row confirm it with {percent(agreed)} of their answers.")
    if report["kept"] and report["kept"]["share"] >= LEAST_KEPT:
        out.append(f"The student says what the merge says for {interval(report['kept'])} of the rows.")
    if _student_is_better(report):
        student, merge = (interval(report["accuracy"][name]) for name in ("result", "merge"))
        out.append(f"The student is right for {student} of the labelled rows, the merge for {merge}.")
    found = report["accuracy"] and report["accuracy"]["result"]
    if found and not report["used_in_fit"] and found["low"] <= report["confidence"] <= found["high"]:
        out.append(f"Its probabilities fit the labels: they say {number(report['confidence'])} on average.")
    return out


def _agreed(report: dict[str, Any]) -> float | None:
    """Return how often teachers confirm the merge on average, of classes that several know, by rows."""
    several = [one for one in report["classes"] if len(one["teachers"]) > 1 and one["conflict"] is not None]
    rows = sum(one["rows"] for one in several)
    return sum((1 - one["conflict"]) * one["rows"] for one in several) / rows if rows else None


def _class_table(report: dict[str, Any]) -> Table:
    """Return the table of classes; columns that nothing is known about are left out."""
    rows, marked, weights = [], set(), report["classes"]
    for k, one in enumerate(weights):
        cells = {
            "merged": percent(one["merged"]),
            "told": percent(one["told"]),
            "labelled": percent(one["labelled"]),
            "rows": f"{one['rows']:,}",
            "sure": number(one["confidence"]),
            "conflict": percent(one["conflict"]),
            "kept": percent(one["kept"]),
            "found": interval(one["found"]),
        }
        rows.append({"class": spelled(one["class"]), "known to": one["teachers"], **cells})
        if one["rows"] and (one["confidence"] < HALF or (one["conflict"] or 0) > HALF):
            marked.add(k)
    shown = [name for name in rows[0] if name not in COLUMNS or any(row[name] != "-" for row in rows)]
    meaning = {name: COLUMNS[name] for name in shown if name in COLUMNS}
    return Table(tuple(shown), [[row[name] for name in shown] for row in rows], 2, marked, meaning)


def _labelled(report: dict[str, Any]) -> list[Section]:
    """Return what the labels show."""
    if report["accuracy"] is None:
        return []
    right = report["accuracy"]
    lines = [f"The result is right for {interval(right['result'])}, the merge for {interval(right['merge'])}."]
    if not report["calibration"]:
        lines.append("There are too few labels for a calibration curve: it takes 20.")
    note = "Intervals are 95 % (Wilson). On the dotted line, as many rows are right as the probabilities say."
    out = [Section("On labelled rows", note, lines, plot="calibration" if report["calibration"] else None)]
    if report["confusions"]:
        rows = [[spelled(one["class"]), spelled(one["predicted"]), interval(one)] for one in report["confusions"]]
        out.append(Section("Confusions", table=Table(("label", "predicted", "of its labelled rows"), rows, 2)))
    return out


def _rows(report: dict[str, Any]) -> list[Section]:
    """Return the rows on which merge and teachers differ most, and a picture of the first."""
    if not report["rows"]:
        return []
    labelled = any(row["label"] is not None for row in report["rows"])
    texts = any(row["text"] is not None for row in report["rows"])
    student = ("student says",) if report["has_student"] else ()
    head = ("row", *(("text",) if texts else ()), "merge says", *student, "teachers against it")
    rows = []
    for row in report["rows"]:
        says = choice(row["says"], row["probability"])
        cells = [spelled(row["index"]), *([(row["text"] or "")[:LONGEST_TEXT]] if texts else []), says]
        cells += [choice(row["student_says"], row["student_probability"])] if student else []
        rows.append([*cells, _against(report, row), *([_label(row)] if labelled else [])])
    head = (*head, "label") if labelled else head
    note = (
        "The rows on which merge and teachers differ most, the worst first. Look at them: teachers may be wrong, or "
        "the row may belong to none of the classes."
    )
    table = Section("Hardest rows", note, table=Table(head, rows, len(head)))
    return [table, Section("The first of them", "What each teacher says, and what becomes of it.", plot="row")]


def _label(row: dict[str, Any]) -> str:
    return "-" if row["label"] is None else spelled(row["label"])


def _against(report: dict[str, Any], row: dict[str, Any]) -> str:
    """Name the teachers that say something else than the merge."""
    names = [report["teachers"][one["teacher"]]["name"] for one in row["contradicted_by"]]
    says = [choice(one["says"], one["probability"]) for one in row["contradicted_by"]]
    return "; ".join(f"{name}: {what}" for name, what in zip(names, says, strict=True)) or "none, only less sure"


def _teachers(report: dict[str, Any]) -> Section:
    """Return how often each teacher contradicts the merge."""
    rows = [[one["name"], percent(one["conflict"])] for one in report["teachers"]]
    note = "How often a teacher says another class, on rows of which the merge chooses a class that it knows."
    return Section("Teachers against the merge", note, table=Table(("teacher", "conflict"), rows, 1), folded=True)
