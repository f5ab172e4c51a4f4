"""Classifiers that each know some of the digits become one that knows all: `make demo`.

Several teachers of different kinds, each trained on its own images of 2 to 5 digits, are merged with unlabelled images
only. Prints who knows what, then the accuracy on held-out labelled images; saves a figure.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from tqdm import tqdm

from benchmarks.digits import Trial, make_trial
from sklearn_uhc import HeterogeneousDistiller, LabelSpace

METHODS = {"sd": "SD (naive)", "ce": "CE", "mf_p": "MF-P", "mf_lu": "MF-LU", "mf_lf": "MF-LF"}
STUDENTS: dict[str, Any] = {
    "random forest": RandomForestClassifier(100, random_state=0),
    "10 neighbours": KNeighborsClassifier(10),
}


def kind(teacher: Any) -> str:
    """Name a teacher by its type, or by the last step of its pipeline."""
    return type(teacher[-1] if hasattr(teacher, "steps") else teacher).__name__


def show_teachers(trial: Trial) -> None:
    """Print which teacher knows which digit."""
    print("Who knows what: each teacher was trained on its own images of a few digits\n")
    for teacher in trial.teachers:
        row = " ".join(str(digit) if digit in teacher.classes_ else "." for digit in range(10))
        known = np.isin(trial.y_test, teacher.classes_)
        alone = teacher.score(trial.X_test[known], trial.y_test[known])
        everything = teacher.score(trial.X_test, trial.y_test)
        print(f"  {kind(teacher):24s} {row}   accuracy {alone:.3f} on these, {everything:.3f} on all ten digits")
    print(f"\n{LabelSpace([t.classes_ for t in trial.teachers]).describe()}.")
    print(f"{len(trial.X_unlabelled)} unlabelled images to merge them with.\n")


def most_confident_teacher(trial: Trial) -> float:
    """Accuracy of what people do without this library: of the teachers that give probabilities, believe the surest."""
    best, label = np.zeros(len(trial.X_test)), np.zeros(len(trial.X_test), dtype=int)
    for teacher in trial.teachers:
        if hasattr(teacher, "predict_proba"):
            P = teacher.predict_proba(trial.X_test)
            surer = P.max(axis=1) > best
            best[surer], label[surer] = P.max(axis=1)[surer], teacher.classes_[P.argmax(axis=1)][surer]
    return float((label == trial.y_test).mean())


def measure(trial: Trial) -> dict[Any, float]:
    """Accuracy of every method, plain and balanced, with every student, and of the supervised ceiling."""
    steps = [(s, m, b) for s in STUDENTS for m in METHODS for b in (False, True)]
    found: dict[Any, float] = {}
    for student, method, balance in tqdm(steps, desc="Distilling"):
        clf = HeterogeneousDistiller(trial.teachers, STUDENTS[student], method=method, balance=balance)
        found[student, method, balance] = clf.fit(trial.X_unlabelled).score(trial.X_test, trial.y_test)
    for student, model in STUDENTS.items():
        found[student, "ceiling"] = clone(model).fit(trial.X_pool, trial.y_pool).score(trial.X_test, trial.y_test)
    return found


def show_results(found: dict[Any, float], confident: float) -> None:
    """Print the accuracies as a table."""
    print("\nAccuracy on held-out images of all ten digits\n")
    print(f"  {'':14s}" + "".join(f"{s:>28s}" for s in STUDENTS))
    print(f"  {'':14s}" + f"{'plain':>18s}{'balanced':>10s}" * len(STUDENTS))
    for method, name in METHODS.items():
        row = "".join(f"{found[s, method, False]:18.3f}{found[s, method, True]:10.3f}" for s in STUDENTS)
        print(f"  {name:14s}{row}")
    print(f"\n  most confident teacher{confident:10.3f}    (no student; what one does without this library)")
    for student in STUDENTS:
        print(
            f"  supervised ceiling    {found[student, 'ceiling']:10.3f}    ({student} on all teachers' labelled data)"
        )


def draw(found: dict[Any, float], confident: float, path: Path) -> None:
    """Save the accuracies as a bar chart."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(STUDENTS), figsize=(10, 4), sharey=True, layout="constrained")
    x = np.arange(len(METHODS))
    for axis, student in zip(axes, STUDENTS, strict=True):
        for shift, balance, color in ((-0.2, False, "#a6bddb"), (0.2, True, "#1f5a94")):
            heights = [found[student, method, balance] for method in METHODS]
            label = "balanced soft labels" if balance else "plain soft labels"
            bars = axis.bar(x + shift, heights, 0.38, color=color, label=label)
            ink = "white" if balance else "black"
            axis.bar_label(bars, fmt="%.2f", fontsize=7, padding=-11, color=ink, weight="bold")
        axis.axhline(found[student, "ceiling"], color="black", lw=1, label="supervised ceiling")
        axis.axhline(confident, color="black", lw=1, ls=":", label="most confident teacher")
        axis.set_xticks(x, list(METHODS.values()), fontsize=8)
        axis.set_title(f"student: {student}", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("accuracy on all ten digits")
    axes[0].set_ylim(0, 1.05)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="draws the split and the class lists")
    parser.add_argument("--figure", type=Path, default=Path("demo.png"))
    args = parser.parse_args()
    trial = make_trial(args.seed, "varied", n_teachers=8, smallest=2, largest=5)
    show_teachers(trial)
    found, confident = measure(trial), most_confident_teacher(trial)
    show_results(found, confident)
    draw(found, confident, args.figure)
    print(f"\nFigure: {args.figure}")


if __name__ == "__main__":
    main()
