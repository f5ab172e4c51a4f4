"""Five public language detectors merged into one, without and with a few labels.

    python -m benchmarks.stories.languages --data FOLDER [--seeds 300 305] [--out benchmarks/results/languages.json]

FOLDER has `languages.npz`: texts, their language and kind, and the recorded answers of five detectors from PyPI. For
every seed, half of the texts of a kind are merged without labels, and the other half test. Two line-ups: all five, and
the four without lingua, whose own test data these texts are. Nothing was chosen on any seed: all settings are defaults.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.paper.rivals import known_average
from benchmarks.real import DETECTORS, Recorded
from sklearn_uhc import LabelSpace, TeacherOutputs, UnifiedEnsemble, harmonize

Array = NDArray[Any]
#: Codes of the same language in different detectors.
SYNONYMS = {"no": "nb", "zh-cn": "zh"}
#: Codes of the same language in one detector: the first column is added to the second.
WITHIN = {"langid": ("no", "nb"), "langdetect": ("zh-tw", "zh-cn")}
LINE_UPS = {"all five": DETECTORS, "without lingua": tuple(name for name in DETECTORS if name != "lingua")}
KINDS = {"sentences": "sentences", "word pairs": "word-pairs"}
LABELS = 20


def read_detectors(path: Path) -> tuple[dict[str, Recorded], Array, Array, Array]:
    """Return the detectors with their own codes, and all texts, languages and kinds."""
    with np.load(path) as data:
        texts, y, kind = data["texts"].astype(object), data["y"].astype(object), data["kind"]
        answers = {name: (data[f"{name}__classes"], data[f"{name}__p"].astype(float)) for name in DETECTORS}
    row_of = {text: row for row, text in enumerate(texts)}
    return {name: Recorded(*add_up(name, *own), row_of) for name, own in answers.items()}, texts, y, kind


def add_up(name: str, codes: Array, P: Array) -> tuple[Array, Array]:
    """Add the column of a code to that of its synonym in the same detector; rows sum to 1."""
    if name in WITHIN:
        extra, kept = (codes.tolist().index(code) for code in WITHIN[name])
        P[:, kept] += P[:, extra]
        codes, P = np.delete(codes, extra), np.delete(P, extra, axis=1)
    return codes.astype(object), P / P.sum(axis=1, keepdims=True)


def measure(teachers: dict[str, Any], texts: Array, y: Array, seed: int) -> dict[str, dict[str, float]]:
    """Return, for each way, the share of test texts with the right language and with one that does not occur."""
    order = np.random.default_rng(seed).permutation(len(y))
    rows, test = np.array_split(order, 2)
    there = np.unique(y)
    lists = harmonize(teachers, synonyms=SYNONYMS, handle_unknown="ignore")

    def record(named: Array) -> dict[str, float]:
        return {"right": float(np.mean(named == y[test])), "absent": float(np.mean(~np.isin(named, there)))}

    found = {
        name: record(np.asarray(lists[name], dtype=object)[teacher.predict_proba(texts[test]).argmax(axis=1)])
        for name, teacher in teachers.items()
    }
    outputs = TeacherOutputs(teachers, class_lists=lists).fit(texts[rows])
    space: LabelSpace = outputs.label_space_
    classes = np.asarray(space.classes, dtype=object)
    average = known_average(outputs.transform(texts[test]), space)
    occurs = np.isin(classes, there)
    found["average of those who know"] = record(classes[average.argmax(axis=1)])
    found["average, languages known"] = record(classes[(average * occurs).argmax(axis=1)])
    merge = UnifiedEnsemble(teachers, class_lists=lists)
    found["merge"] = record(merge.fit(texts[rows]).predict(texts[test]))
    known = {language: 1 / occurs.sum() if here else 0.0 for language, here in zip(classes, occurs, strict=True)}
    told = UnifiedEnsemble(teachers, class_lists=lists, class_prior=known)
    found["merge, languages known"] = record(told.fit(texts[rows]).predict(texts[test]))
    labels = np.full(len(rows), None)
    labels[:LABELS] = y[rows[:LABELS]]  # the order is random
    found[f"merge, {LABELS} labels"] = record(merge.fit(texts[rows], labels).predict(texts[test]))
    return found


def run(path: Path, seeds: range) -> list[dict[str, Any]]:
    """Return a record per line-up, kind and way, with means over seeds."""
    teachers, texts, y, kind = read_detectors(path)
    records: list[dict[str, Any]] = []
    for line_up, names in LINE_UPS.items():
        chosen = {name: teachers[name] for name in names}
        for shown, own in KINDS.items():
            rows = np.flatnonzero(kind == own)
            trials = [measure(chosen, texts[rows], y[rows], seed) for seed in seeds]
            for way in trials[0]:
                right = [trial[way]["right"] for trial in trials]
                known = len(teachers[way].classes) if way in teachers else None
                record = {"line_up": line_up, "kind": shown, "way": way, "codes": known, "trials": len(trials)}
                record |= {"right": float(np.mean(right)), "error": float(np.std(right, ddof=1) / len(right) ** 0.5)}
                record["absent"] = float(np.mean([trial[way]["absent"] for trial in trials]))
                records.append(record)
                print(line_up, shown, way, f"{record['right']:.3f} {record['absent']:.3f}", sep="; ", flush=True)
    return records


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs=2, default=(300, 305), metavar=("FIRST", "END"))
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/languages.json"))
    args = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        records = run(args.data / "languages.npz", range(*args.seeds))
    args.out.write_text(json.dumps(records, indent=1) + "\n")


if __name__ == "__main__":
    main()
