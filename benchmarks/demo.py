"""Classifiers that each know some of the digits become one that knows all: `make demo`.

Several teachers of different kinds, each trained on its own images of 2 to 5 digits, are merged with unlabelled images
only. Prints who knows what in the first draw, then the mean accuracy over a few draws on held-out labelled images;
saves a figure in which every dot is a draw.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.neighbors import KNeighborsClassifier
from tqdm import tqdm

from benchmarks.digits import Trial, make_trial
from sklearn_uhc import FindingWarning, HeterogeneousDistiller, LabelSpace, TeacherOutputs
from sklearn_uhc.inspection.plots.style import CONTRAST, GUIDE, MAIN, SECOND

METHODS = {"sd": "SD (naive)", "ce": "CE", "mf_p": "MF-P", "mf_lu": "MF-LU", "mf_lf": "MF-LF"}
EXPLAINED = {
    "SD": "gives 0 to classes that a teacher does not know, and averages: the paper's naive baseline",
    "CE": "finds the distribution that fits all teachers' answers best by cross-entropy",
    "MF": "factorizes the answers: probabilities (P), logits with a scale per teacher (LU), logits as they are (LF)",
}
STUDENTS: dict[str, Any] = {
    "random forest": RandomForestClassifier(100, random_state=0),
    "10 neighbours": KNeighborsClassifier(10),
}


def kind(teacher: Any) -> str:
    """Name a teacher by its type, or by the last step of its pipeline."""
    return type(teacher[-1] if hasattr(teacher, "steps") else teacher).__name__


def show_teachers(trial: Trial) -> None:
    """Print which teacher knows which digit."""
    print("The teachers of the first trial. Each was trained on its own images of a few digits:\n")
    for teacher in trial.teachers:
        row = " ".join(str(digit) if digit in teacher.classes_ else "." for digit in range(10))
        known = np.isin(trial.y_test, teacher.classes_)
        alone = teacher.score(trial.X_test[known], trial.y_test[known])
        everything = teacher.score(trial.X_test, trial.y_test)
        print(f"  {kind(teacher):24s} {row}   accuracy {alone:.3f} on these, {everything:.3f} on all ten digits")
    print(f"\n{LabelSpace([t.classes_ for t in trial.teachers]).describe()}.")
    print(f"{len(trial.X_unlabelled)} unlabelled images to merge them with.\n")


def most_confident_teacher(trial: Trial) -> float:
    """Return the accuracy without this library: believe the most confident teacher of those with probabilities."""
    best, label = np.zeros(len(trial.X_test)), np.zeros(len(trial.X_test), dtype=int)
    for teacher in trial.teachers:
        if hasattr(teacher, "predict_proba"):
            P = teacher.predict_proba(trial.X_test)
            surer = P.max(axis=1) > best
            best[surer], label[surer] = P.max(axis=1)[surer], teacher.classes_[P.argmax(axis=1)][surer]
    return float((label == trial.y_test).mean())


def answers(trial: Trial) -> tuple[list[Any], Any]:
    """Call the teachers once; return their class lists and log-probabilities for the unlabelled images."""
    outputs = TeacherOutputs(trial.teachers).fit(trial.X_unlabelled)
    return outputs.class_lists_, outputs.transform(trial.X_unlabelled)


def measure(trial: Trial, bar: Any) -> dict[Any, float]:
    """Accuracy of every method and student, with estimated frequencies and balanced, and of the rivals."""
    lists, log_p = answers(trial)
    found: dict[Any, float] = {"surest": most_confident_teacher(trial)}
    for student, model in STUDENTS.items():
        for method in METHODS:
            for balance in ("auto", True):
                params: dict[str, Any] = {"class_lists": lists, "method": method, "balance": balance}
                clf = HeterogeneousDistiller(None, model, **params).fit(trial.X_unlabelled, log_p=log_p)
                found[student, method, balance] = clf.score(trial.X_test, trial.y_test)
                bar.update()
        found[student, "ceiling"] = clone(model).fit(trial.X_pool, trial.y_pool).score(trial.X_test, trial.y_test)
    return found


def show_results(trials: list[dict[Any, float]]) -> None:
    """Print mean accuracies as a table."""
    mean = {key: float(np.mean([trial[key] for trial in trials])) for key in trials[0]}
    print(f"\nMean accuracy on test images of all ten digits, {len(trials)} trials with new class lists and images\n")
    print(f"  {'':14s}" + "".join(f"{s:>28s}" for s in STUDENTS))
    print(f"  {'':14s}" + f"{'estimated':>18s}{'balanced':>10s}" * len(STUDENTS))
    for method, name in METHODS.items():
        mark = "*" if method == "ce" else " "
        row = "".join(f"{mean[s, method, 'auto']:17.3f}{mark}{mean[s, method, True]:10.3f}" for s in STUDENTS)
        print(f"  {name:14s}{row}")
    print("\n  * the default: HeterogeneousDistiller(teachers, student).fit(X_unlabelled)")
    print("  estimated: labels are scaled to class frequencies that are estimated from them, which is the default")
    print('  balanced, for classes that are equally frequent: HeterogeneousDistiller(..., balance=True, method="...")')
    for name, meaning in EXPLAINED.items():
        print(f"  {name}  {meaning}")
    print(f"\n  most confident teacher{mean['surest']:10.3f}    (no student; the baseline without this library)")
    for student in STUDENTS:
        print(f"  supervised ceiling    {mean[student, 'ceiling']:10.3f}    ({student} on all teachers' labelled data)")


def draw(trials: list[dict[Any, float]], path: Path) -> None:
    """Save a figure of the accuracies: a dot per draw, a bar for the mean."""
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, len(STUDENTS), figsize=(10, 3.6), sharex=True, sharey=True, layout="constrained")
    names = ["most confident teacher", *METHODS.values(), "supervised ceiling"]
    for axes, student in zip(panels, STUDENTS, strict=True):
        dots(axes, [trial["surest"] for trial in trials], 0, 0, GUIDE, None)
        for row, method in enumerate(METHODS, 1):
            for shift, balance, color in ((-0.17, "auto", SECOND), (0.17, True, MAIN)):
                label = ("estimated frequencies" if balance == "auto" else "balanced") if row == 1 else None
                dots(axes, [trial[student, method, balance] for trial in trials], row, shift, color, label)
        dots(axes, [trial[student, "ceiling"] for trial in trials], len(METHODS) + 1, 0, CONTRAST, None)
        axes.set_title(f"student: {student}", fontsize=10)
        axes.grid(axis="x", color="#e3e3e3", linewidth=0.7)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(length=0)
        axes.set_xlabel("accuracy on all ten digits")
    panels[0].set_yticks(range(len(names)), names)
    panels[0].invert_yaxis()
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(path, dpi=150)


def dots(axes: Any, values: list[float], row: int, shift: float, color: str, label: str | None) -> None:
    """Draw the values of all trials, and their mean."""
    y = row + shift
    axes.plot(values, [y] * len(values), "o", color=color, alpha=0.55, markersize=5, markeredgewidth=0)
    axes.plot([np.mean(values)] * 2, [y - 0.15, y + 0.15], color=color, linewidth=3, label=label)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the first draw of images and class lists")
    parser.add_argument("--draws", type=int, default=3, help="how many draws to average over")
    parser.add_argument("--figure", type=Path, default=Path("demo.png"))
    args = parser.parse_args()
    warnings.simplefilter("ignore", FindingWarning)  # the naive method makes classes uneven, as the table shows
    trials = []
    with tqdm(total=args.draws * len(STUDENTS) * len(METHODS) * 2, desc="Distilling", leave=False) as bar:
        for seed in range(args.seed, args.seed + args.draws):
            trial = make_trial(seed, "varied", n_teachers=8, smallest=2, largest=5)
            if seed == args.seed:
                show_teachers(trial)
            trials.append(measure(trial, bar))
    show_results(trials)
    draw(trials, args.figure)
    print(f"\nFigure: {args.figure}")


if __name__ == "__main__":
    main()
