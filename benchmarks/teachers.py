"""Teachers of different reliability: benefit and cost of calibration, weights and abstention.

    python -m benchmarks.teachers [--seeds 20] [--data FOLDER] [--trials 10] [--out FILE]

For each mixture of teachers and method, without and with `calibrate="auto"`: accuracy of the merged labels of the
transfer set, accuracy and log-loss of a k-NN student and accuracy of a logistic regression on the test, log-loss and
calibration error of the merged `predict_proba` (UnifiedEnsemble) there; beside it the accuracy with the best
constant floor, which nobody could know. Then six teachers of digits of which one is silent about 30 % of the rows, and
what calibration gains for class lists that overlap more and more (`benchmarks.broken_teachers` has wrong teachers).
With --data, a folder with `tinyimagenet_lite0_pca256.npz`, network teachers of the paper's size (`benchmarks.paper`)
are added. Results are saved as JSON; finished parts are not run again. `python -m benchmarks.pictures` draws them.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from benchmarks import configured
from benchmarks.digits import Trial, make_trial
from benchmarks.mixtures import make_mixture
from sklearn_uhc import HeterogeneousDistiller, LabelSpace, TeacherCalibrator, TeacherOutputs, UnifiedEnsemble
from sklearn_uhc.merging import METHODS

Floats = NDArray[np.floating[Any]]
NAMES = ["mf_lf", "ce", "mf_p", "mf_lu", "sd"]
#: The paper's temperature.
T = 3.0
FLOORS = [0.1, 0.03, 0.01, 1e-3, 1e-6]
#: Name: data, mixture, number of teachers, shortest and longest class list, share of the images that teachers get.
SETTINGS: dict[str, tuple[Any, ...]] = {
    "digits, mixed, 6 of 3-5": ("digits", "mixed", 6, 3, 5),
    "digits, votes, 6 of 3-5": ("digits", "votes", 6, 3, 5),
    "digits, networks, 6 of 3-5": ("digits", "networks", 6, 3, 5),
    "digits, mixed, 6 of 4-7": ("digits", "mixed", 6, 4, 7),
    "digits, mixed, 10 of 2": ("digits", "mixed", 10, 2, 2),
    "half of digits, mixed, 6 of 4-5": ("digits", "mixed", 6, 4, 5, 0.5),
    "half of digits, votes, 6 of 4-5": ("digits", "votes", 6, 4, 5, 0.5),
    "wine, mixed, 3 of 2-3": ("wine", "mixed", 3, 2, 3),
    "wine, mixed, 5 of 2-3": ("wine", "mixed", 5, 2, 3),
    "points, mixed, 10 of 5-9": ("points", "mixed", 10, 5, 9),
    "points, logistic, 10 of 5-9": ("points", "logistic", 10, 5, 9),
    "texts, mixed, 10 of 4-8": ("texts", "mixed", 10, 4, 8),
}
#: Number of teachers, shortest and longest class list, for the rule of calibrate="auto".
OVERLAPS = [(10, 2, 2), (8, 2, 3), (6, 2, 4), (5, 3, 4), (4, 4, 5), (3, 5, 6), (2, 6, 8)]
MEASURES = ["labels", "k-NN", "k-NN log-loss", "merge log-loss", "merge ECE", "logistic"]


def get_trial(seed: int, data: str, *setting: Any) -> Trial:
    return make_trial(seed, *setting) if data == "digits" else make_mixture(seed, data, *setting)


def calibration_error(proba: Floats, correct: NDArray[np.bool_], bins: int = 15) -> float:
    """Return the mean distance of confidence and accuracy over bins of confidence."""
    top = proba.max(axis=1)
    which = np.minimum((top * bins).astype(int), bins - 1)
    gaps = [abs((correct[which == b] - top[which == b]).sum()) for b in range(bins)]
    return float(np.sum(gaps) / len(top))


def merge(log_p: Floats, lists: Any, method: str, weight: Any = None, abstain: bool = False) -> Floats:
    made = METHODS[method]().set_params(class_lists=lists, teacher_weight=weight, abstain=abstain, temperature=T)
    Q: Floats = made.fit_transform(log_p)
    return Q


def label_accuracy(log_p: Floats, lists: Any, method: str, y: Any, **more: Any) -> float:
    return float((LabelSpace(lists).classes[merge(log_p, lists, method, **more).argmax(axis=1)] == y).mean())


def measure(trial: Trial, method: str, calibrate: bool | str, neighbors: Any) -> list[float]:
    """Return what `MEASURES` names."""
    params: dict[str, Any] = {"method": method, "balance": True, "calibrate": calibrate, "temperature": T}
    distiller = configured(HeterogeneousDistiller, trial.teachers, neighbors, **params)
    distiller.fit(trial.X_unlabelled)
    ensemble = configured(UnifiedEnsemble, trial.teachers, **params).fit(trial.X_unlabelled)
    labels = ensemble.classes_[ensemble.merger_.transform(trial.X_unlabelled).argmax(axis=1)]
    merged = ensemble.predict_proba(trial.X_test)
    known = distiller.classes_
    clipped = [np.clip(p, 1e-6, None) for p in (distiller.predict_proba(trial.X_test), merged)]
    losses = [log_loss(trial.y_test, p / p.sum(axis=1, keepdims=True), labels=known) for p in clipped]
    error = calibration_error(merged, known[merged.argmax(axis=1)] == trial.y_test)
    score = float(distiller.score(trial.X_test, trial.y_test))
    distiller.set_params(student=make_pipeline(MaxAbsScaler(), LogisticRegression(max_iter=500)))
    logistic = float(distiller.fit(trial.X_unlabelled).score(trial.X_test, trial.y_test))
    return [float((labels == trial.y_unlabelled).mean()), score, *losses, error, logistic]


def mixture(seed: int, setting: tuple[Any, ...]) -> dict[str, Any]:
    """Measure one trial with every method."""
    warnings.simplefilter("ignore")
    trial = get_trial(seed, *setting)
    neighbors = KNeighborsClassifier(10)
    if setting[0] == "wine":  # columns of very different sizes
        neighbors = make_pipeline(StandardScaler(), neighbors)
    out: dict[str, Any] = {}
    for method in NAMES:
        kinds = {"plain": False, "auto": "auto"}
        out[method] = {name: measure(trial, method, kind, neighbors) for name, kind in kinds.items()}
    for floor in FLOORS:
        outputs = TeacherOutputs(trial.teachers, floor=min(floor, 0.9 / max(len(t.classes_) for t in trial.teachers)))
        log_p = outputs.fit_transform(trial.X_unlabelled)
        for method in NAMES:
            accuracy = label_accuracy(log_p, outputs.class_lists_, method, trial.y_unlabelled)
            out[method].setdefault("floors", []).append(accuracy)
    return out


def silent(seed: int, kind: str, copies: int = 10) -> dict[str, Any]:
    """Let one of six teachers be silent about 30 % of the rows; times on `copies` times the rows."""
    warnings.simplefilter("ignore")
    trial, rng = make_trial(seed, kind, 6, 3, 5), np.random.default_rng(seed)
    outputs = TeacherOutputs(trial.teachers)
    log_p = outputs.fit_transform(trial.X_unlabelled)
    lists, n, out = outputs.class_lists_, len(log_p), {}
    quiet = log_p.copy()
    quiet[np.ix_(rng.random(n) < 0.3, np.r_[outputs.label_space_.blocks[seed % 6]])] = np.nan
    for method in NAMES:
        result: dict[str, list[float]] = {}
        for name, answers, abstain in (("complete", log_p, False), ("silent", quiet, True)):
            params: dict[str, Any] = {"method": method, "class_lists": lists, "abstain": abstain, "temperature": T}
            student = configured(HeterogeneousDistiller, None, KNeighborsClassifier(10), balance=True, **params)
            score = student.fit(trial.X_unlabelled, log_p=answers).score(trial.X_test, trial.y_test)
            many, times = np.tile(answers, (copies, 1)), []
            for _ in range(3):
                start = time.process_time()
                merge(many, lists, method, abstain=abstain)
                times.append(time.process_time() - start)
            labels = label_accuracy(answers, lists, method, trial.y_unlabelled, abstain=abstain)
            result[name] = [labels, float(score), min(times)]
        out[method] = result
    return out


def overlap(seed: int, kind: str) -> list[dict[str, Any]]:
    """Measure what `calibrate=True` gains for lists that overlap more and more."""
    warnings.simplefilter("ignore")
    found = []
    for n_teachers, smallest, largest in OVERLAPS:
        trial = make_trial(seed, kind, n_teachers, smallest, largest)
        outputs = TeacherOutputs(trial.teachers)
        log_p = outputs.fit_transform(trial.X_unlabelled)
        lists, y = outputs.class_lists_, trial.y_unlabelled
        tempered = TeacherCalibrator(lists, min_overlap=0).fit_transform(log_p)
        row: dict[str, Any] = {"spare": (log_p.shape[1] - n_teachers - 9) / n_teachers}
        for method in ("mf_lf", "ce"):
            row[method] = label_accuracy(tempered, lists, method, y) - label_accuracy(log_p, lists, method, y)
        found.append(row)
    return found


def networks(seed: int, folder: Path) -> dict[str, Any]:
    """Network teachers on the Tiny-ImageNet features: merged labels and a logistic student, on the test."""
    from benchmarks.paper.experiments import EXPERIMENTS
    from benchmarks.paper.trial import Setting, Trial, open_bench

    warnings.simplefilter("ignore")
    trial = Trial(open_bench(replace(EXPERIMENTS["features"], folder=str(folder))), seed)
    setting = Setting(trial, None)
    lists, X_u, X_test, y_test = trial.draw.lists, setting.X, setting.X_test, setting.y_test
    answers = setting.log_p
    answers_test = trial.answers(setting.modules, "test", trial.bench.test_rows(trial.space.classes))
    tempered = TeacherCalibrator(lists).fit(answers)
    out: dict[str, Any] = {}
    for method in ("mf_lf", "ce"):
        out[method] = {}
        for name, log_p in (("plain", answers_test), ("auto", tempered.transform(answers_test))):
            params = {"method": method, "class_lists": lists, "calibrate": name == "auto" and "auto", "temperature": T}
            student = configured(HeterogeneousDistiller, None, LogisticRegression(C=0.1), balance=True, **params)
            score = float(student.fit(X_u, log_p=answers).score(X_test, y_test))
            out[method][name] = [label_accuracy(log_p, lists, method, y_test), score]
    return out


def save(found: dict[str, Any], file: Path) -> None:
    """Write with four digits: more would only make the file long."""
    rounded = json.loads(json.dumps(found), parse_float=lambda value: round(float(value), 4))
    file.write_text(json.dumps(rounded, separators=(",", ":")))


def run(args: argparse.Namespace, found: dict[str, Any], file: Path) -> None:
    """Run what is not there yet, and save after every part."""
    parts: dict[str, Any] = {name: (mixture, setting) for name, setting in SETTINGS.items()}
    parts |= {f"silence, {kind}": (silent, kind) for kind in ("mixed", "networks")}
    parts |= {f"overlap, {kind}": (overlap, kind) for kind in ("mixed", "votes", "networks")}
    for name, (function, setting) in parts.items():
        if name not in found and args.only in name:
            several = args.seeds
            if name.startswith(("points", "texts")):
                several = min(several, 8)
            elif name.startswith("wine"):  # 36 rows of test: one trial says little
                several *= 5
            seeds = range(args.first, args.first + several)
            found[name] = Parallel(n_jobs=args.n_jobs)(delayed(function)(seed, setting) for seed in seeds)
            save(found, file)
            print(name, "done", flush=True)
    if args.data and "Tiny-ImageNet networks" not in found and args.only in "Tiny-ImageNet networks":
        trials = range(args.first_trial, args.first_trial + args.trials)
        found["Tiny-ImageNet networks"] = [networks(seed, args.data) for seed in trials]
        save(found, file)


def show(found: dict[str, Any]) -> None:
    """Print the tables."""
    print("| teachers | method | " + " | ".join(MEASURES) + " | best floor, labels |\n" + "|---" * 9 + "|")
    for name in SETTINGS:
        for method in NAMES:
            rows = [trial[method] for trial in found.get(name, [])]
            if rows:
                plain, auto = (np.mean([r[key] for r in rows], axis=0) for key in ("plain", "auto"))
                cells = [f"{a:.3f} → {b:.3f}" for a, b in zip(plain, auto, strict=True)]
                best = np.mean([r["floors"] for r in rows], axis=0).max()
                print(f"| {name} | {method} | " + " | ".join(cells) + f" | {best:.3f} |")
    for name in (n for n in found if n.startswith("silence")):
        print(f"\n{name}: labels, student, seconds")
        for method in NAMES:
            cells = {k: np.mean([t[method][k] for t in found[name]], axis=0).round(3) for k in ("complete", "silent")}
            print(method, {k: v.tolist() for k, v in cells.items()})
    for name in (n for n in found if n.startswith("overlap")):
        rows = np.array([[row[key] for key in ("spare", "mf_lf", "ce")] for trial in found[name] for row in trial])
        print(f"\n{name}: spare comparisons per teacher, trials, gain of MF-LF and CE")
        for low, high in ((-1, 0.5), (0.5, 1), (1, 9)):
            some = rows[(rows[:, 0] >= low) & (rows[:, 0] < high)]
            print(f"{low} to {high}", len(some), some[:, 1:].mean(axis=0).round(3).tolist())
    for method in ("mf_lf", "ce") if "Tiny-ImageNet networks" in found else ():
        rows = [trial[method] for trial in found["Tiny-ImageNet networks"]]
        print("Tiny-ImageNet", method, {k: np.mean([r[k] for r in rows], axis=0).round(4).tolist() for k in rows[0]})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--first", type=int, default=9000, help="first seed")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--trials", type=int, default=10)
    parser.add_argument("--first-trial", type=int, default=720, help="first seed with --data")
    parser.add_argument("--only", default="", help="run only parts with this in their name")
    parser.add_argument("--n-jobs", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/teachers.json"))
    args = parser.parse_args()
    found = json.loads(args.out.read_text()) if args.out.exists() else {}
    run(args, found, args.out)
    show(found)


if __name__ == "__main__":
    main()
