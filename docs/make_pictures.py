"""Draw the pictures of the README and the user guide into docs/images: `python docs/make_pictures.py`."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklearn_uhc import HeterogeneousDistiller
from sklearn_uhc.inspection import (
    ClassOverlapDisplay,
    DistillationCurveDisplay,
    RowDisplay,
    SoftLabelDisplay,
    TeacherAgreementDisplay,
)
from sklearn_uhc.inspection.plots.style import CONTRAST, GUIDE, INK, KNOWN, MAIN, PALE

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.comparison import ALL_DATA, BALANCED, OURS, RESULTS, TAUGHT

FOLDER = Path(__file__).parent / "images"
DARK = MAIN
ALL = ["flu", "cold", "asthma", "COVID", "allergy", "pneumonia"]
SITES = {
    "Hospital A": ("random forest", ["flu", "cold", "asthma"]),
    "Hospital B": ("neural network", ["asthma", "COVID", "pneumonia"]),
    "Hospital C": ("nearest neighbours", ["cold", "allergy", "pneumonia"]),
}


def box(ax: Any, x: float, y: float, width: float, height: float, face: str = "white", edge: str = INK) -> None:
    """Draw a box with round corners."""
    shape = "round,pad=0,rounding_size=0.12"
    ax.add_patch(FancyBboxPatch((x, y), width, height, boxstyle=shape, facecolor=face, edgecolor=edge, linewidth=1.3))


def chips(ax: Any, x: float, y: float, known: list[str], columns: int) -> None:
    """Draw all classes, those that are known filled."""
    for k, name in enumerate(ALL):
        left, bottom = x + 1.2 * (k % columns), y - 0.42 * (k // columns)
        filled = name in known
        box(ax, left, bottom, 1.12, 0.34, DARK if filled else "white", DARK if filled else "#cccccc")
        ink = "white" if filled else "#bbbbbb"
        ax.text(left + 0.56, bottom + 0.165, name, ha="center", va="center", fontsize=8, color=ink)


def arrow(ax: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    """Draw an arrow."""
    ax.add_patch(FancyArrowPatch(start, end, arrowstyle="-|>", mutation_scale=16, color=INK, linewidth=1.4))


def draw_problem() -> None:
    """Three sites with classifiers of different classes; one classifier of all classes comes out."""
    figure, ax = plt.subplots(figsize=(10.2, 5.1))
    ax.set(xlim=(0, 12.4), ylim=(-0.1, 6.0))
    ax.axis("off")
    for k, (site, (kind, known)) in enumerate(SITES.items()):
        bottom = 4.1 - 1.75 * k
        box(ax, 0.1, bottom, 4.0, 1.55, PALE)
        ax.text(0.3, bottom + 1.28, site, fontsize=10.5, weight="bold", color=INK, va="center")
        ax.text(3.9, bottom + 1.28, kind, fontsize=9, color=INK, va="center", ha="right", style="italic")
        chips(ax, 0.3, bottom + 0.62, known, 3)
        arrow(ax, (4.15, bottom + 0.78), (5.05, 3.0 + 0.28 * (1 - k)))
    ax.text(0.1, 5.8, "fitted classifiers; training data are not shared", fontsize=9.5)
    box(ax, 5.1, 2.1, 2.3, 1.8)
    ax.text(6.25, 3.0, "sklearn-uhc\n\nmerge the answers,\ntrain a student", ha="center", va="center", fontsize=9)
    box(ax, 5.1, 0.15, 2.3, 0.95, "white")
    ax.text(6.25, 0.62, "unlabelled data\n(no diagnoses)", ha="center", va="center", fontsize=9.5)
    arrow(ax, (6.25, 1.14), (6.25, 2.06))
    arrow(ax, (7.45, 3.0), (8.2, 3.0))
    box(ax, 8.25, 2.1, 4.0, 1.8, PALE)
    ax.text(8.45, 3.6, "One classifier", fontsize=10.5, weight="bold", color=INK, va="center")
    ax.text(12.05, 3.6, "of any kind", fontsize=9, style="italic", ha="right", va="center")
    chips(ax, 8.45, 2.88, ALL, 3)
    ax.text(10.25, 1.42, "knows all classes,\nruns without the hospitals' models", ha="center", fontsize=9.5)
    figure.savefig(FOLDER / "problem.png", dpi=150, bbox_inches="tight", pad_inches=0.05)


def path_data() -> tuple[Any, Any, int]:
    """Merge three teachers of digits; return the merge, all images, and which of them to follow."""
    X, y = load_digits(return_X_y=True)
    lists = [[0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8], [0, 1, 6, 7, 8, 9]]
    models = {
        "forest": RandomForestClassifier(random_state=0),
        "logistic": make_pipeline(StandardScaler(), LogisticRegression(C=0.02, max_iter=500)),
        "neighbours": KNeighborsClassifier(20),
    }
    own = [np.flatnonzero(np.isin(y[:900], known)) for known in lists]
    teachers = {name: model.fit(X[rows], y[rows]) for (name, model), rows in zip(models.items(), own, strict=True)}
    clf = HeterogeneousDistiller(teachers, KNeighborsClassifier(10)).fit(X[900:1400])
    # A row on which two teachers choose different classes of those that both know, and the merge is right.
    first, second = (teacher.predict(X[1400:]) for teacher in list(teachers.values())[:2])
    shared = np.isin(first, lists[1]) & np.isin(second, lists[0]) & (first != second)
    right = clf.predict(X[1400:]) == y[1400:]
    return clf, X, 1400 + int(np.flatnonzero(shared & right)[0])


def draw_path() -> None:
    """One image on its way through teachers, merge and student."""
    clf, X, row = path_data()
    figure, (image, table) = plt.subplots(1, 2, figsize=(8, 2.4), width_ratios=[1, 3.6], layout="constrained")
    image.imshow(X[row].reshape(8, 8), cmap="Greys")
    image.set(xticks=[], yticks=[])
    image.set_title("an unlabelled row", fontsize=9.5)
    RowDisplay.from_estimator(clf, X, row, ax=table)
    table.set_title("what becomes of it (hatched: the teacher does not know this digit)", fontsize=9.5)
    figure.savefig(FOLDER / "path.png", dpi=130)


def draw_decision() -> None:
    """Show what to call, by what one has."""
    figure, ax = plt.subplots(figsize=(11, 4.2))
    ax.set(xlim=(0, 13.6), ylim=(0.9, 5.9))
    ax.axis("off")
    questions = [
        "Do all classifiers know\nthe same classes?",
        "Do shared classes link\nall lists to each other?",
        "Can you label 20 random\nrows, or do you know the\nclass frequencies?",
    ]
    answers = [
        ("yes", "average their answers:\nVotingClassifier", PALE),
        ("no", "harmonize names, add\na linking teacher, or ask\nowners for scorers", PALE),
        ("yes", "fit(X, y), with None for\nall other rows, or\nclass_prior={...}", KNOWN),
    ]
    for x, question, (word, answer, face) in zip((0.1, 3.5, 6.9), questions, answers, strict=True):
        box(ax, x, 3.9, 2.7, 1.2, "white", DARK)
        ax.text(x + 1.35, 4.5, question, ha="center", va="center", fontsize=9.5, color=INK)
        arrow(ax, (x + 1.35, 3.85), (x + 1.35, 2.55))
        ax.text(x + 1.5, 3.2, word, fontsize=9.5, color=INK, va="center")
        box(ax, x, 1.3, 2.7, 1.2, face, INK)
        ink = "white" if face == KNOWN else INK
        ax.text(x + 1.35, 1.9, answer, ha="center", va="center", fontsize=9.5, color=ink)
    for x, word in ((0.1, "no"), (3.5, "yes"), (6.9, "no")):
        arrow(ax, (x + 2.75, 4.5), (x + 3.35, 4.5))
        ax.text(x + 3.05, 4.65, word, ha="center", fontsize=9.5, color=INK)
    arrow(ax, (9.65, 1.9), (10.25, 1.9))
    box(ax, 10.3, 1.3, 3.2, 3.8, KNOWN, INK)
    text = "HeterogeneousDistiller(\n    teachers, student\n).fit(X) or .fit(X, y)"
    ax.text(10.5, 4.2, text, ha="left", va="center", fontsize=9.5, color="white", family="monospace")
    text = "Then save the student,\nor export it to ONNX.\n\n"
    text += "No student wanted, and all\nteachers at hand for every\nprediction? UnifiedEnsemble"
    ax.text(10.5, 2.4, text, ha="left", va="center", fontsize=9, color="white")
    ax.text(0.1, 5.5, "Start here", fontsize=10.5, weight="bold", color=INK)
    figure.savefig(FOLDER / "decision.png", dpi=130, bbox_inches="tight", pad_inches=0.05)


#: Settings of the comparison, and approaches, best and worst of ours among them.
PICTURED = {
    "digits, mixed": "digits",
    "30 intents, even": "30 intents",
    "Tiny-ImageNet, networks": "Tiny-ImageNet",
    "detectors, word pairs": "languages, word pairs",
    "150 intents, even": "150 intents",
    "texts": "texts (synthetic)",
}
APPROACHES = {
    "average of probabilities": "average of probabilities",
    "average of those who know the class": "average of those who know the class",
    "most confident teacher": "most confident teacher",
    "Dawid-Skene": "Dawid-Skene",
    OURS: "our merge",
    ALL_DATA: "training data of all teachers, pooled",
}


def draw_comparison() -> None:
    """Show the student of each approach, with a dot per trial and a bar at the mean: none balanced, and all."""
    lines = [json.loads(line) for line in RESULTS.read_text().splitlines()]
    figure, grid = plt.subplots(2, len(PICTURED), figsize=(12, 4.6), sharey=True, sharex="col", layout="constrained")
    for panels, (ending, heading) in zip(grid, (("", "as it is (default)"), (BALANCED, "balanced")), strict=True):
        for ax, (setting, title) in zip(panels, PICTURED.items(), strict=True):
            own = [line for line in lines if line["world"] == setting]
            for place, way in enumerate(reversed(APPROACHES)):
                key = f"{TAUGHT}{way}{'' if way == ALL_DATA else ending}"
                if key in own[0]:
                    color = {OURS: MAIN, ALL_DATA: CONTRAST}.get(way, GUIDE)
                    draw_trials(ax, [line[key] for line in own], place, color)
            ax.set_title(title if not ending else "", fontsize=9.5)
            ax.grid(axis="x", color="#dddddd", linewidth=0.6)
            ax.spines[["top", "right", "left"]].set_visible(False)
            ax.tick_params(length=0, labelsize=8)
        panels[0].set_yticks(range(len(APPROACHES)), list(APPROACHES.values())[::-1], fontsize=8.5)
        panels[0].set_ylabel(heading, fontsize=10, fontweight="bold")
    figure.supxlabel("accuracy of the same student on all classes; a dot is a trial, a bar the mean", fontsize=9)
    figure.savefig(FOLDER / "comparison.png", dpi=130)
    plt.close(figure)


def draw_trials(ax: Any, values: list[float], place: int, color: str) -> None:
    """Draw a dot per trial, and a bar at the mean."""
    jitter = np.linspace(-0.18, 0.18, len(values))
    ax.plot(values, place + jitter, "o", markersize=4, alpha=0.6, color=color, markeredgewidth=0)
    ax.plot([np.mean(values)] * 2, [place - 0.35, place + 0.35], color=color, linewidth=2.5)


def display_data() -> tuple[Any, Any]:
    """Return unlabelled digits and a merge of four teachers."""
    X, y = load_digits(return_X_y=True)
    lists = {
        "tax office": [0, 1, 2, 3, 4, 5],
        "post office": [3, 4, 5, 6, 7],
        "registry": [0, 1, 6, 7, 8, 9],
        "archive": [0, 2, 4, 6, 8, 9],
    }
    teachers = {}
    for k, (name, known) in enumerate(lists.items()):
        rows = 225 * k + np.flatnonzero(np.isin(y[225 * k : 225 * k + 225], known))
        teachers[name] = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[rows], y[rows])
    return X[900:1400], HeterogeneousDistiller(teachers, KNeighborsClassifier(10)).fit(X[900:1400])


def draw_displays() -> None:
    """Draw one picture of each display for its page in the reference."""
    X, clf = display_data()
    ClassOverlapDisplay.from_estimator(clf).figure_.savefig(FOLDER / "ClassOverlapDisplay.png", dpi=110)
    RowDisplay.from_estimator(clf, X, 3).figure_.savefig(FOLDER / "RowDisplay.png", dpi=110)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the list in another order is what the picture shows
        wrong = clf.set_params(class_lists={"archive": [2, 0, 6, 4, 9, 8]}).fit(X)
        shown = TeacherAgreementDisplay.from_estimator(wrong, X)
        shown.figure_.savefig(FOLDER / "TeacherAgreementDisplay.png", dpi=110)
        clf = clf.set_params(class_lists=None).fit(X)
        SoftLabelDisplay.from_estimator(clf, X).figure_.savefig(FOLDER / "SoftLabelDisplay.png", dpi=110)
        curve = DistillationCurveDisplay.from_estimator(clf, X, param_range=(1, 2, 3, 6, 10))
        curve.figure_.savefig(FOLDER / "DistillationCurveDisplay.png", dpi=110)
    plt.close("all")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    draw_comparison()
    draw_decision()
    draw_problem()
    draw_path()
    draw_displays()
