"""How the score of `TeacherHoldoutSearch` was chosen: which rows, which classes, which weights.

    python -m benchmarks.holdout_variants run --data FOLDER --fits FOLDER [--out FILE]   a line per trial and variant
    python -m benchmarks.holdout_variants summary [--out FILE]            benchmarks/results/search_variants.json

Every trial fits 36 settings without each teacher, on a share of the rows, and keeps what they say about all rows in
the folder --fits, so that variants of the score cost nothing. Seeds are others than those of `benchmarks.choosing`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.lines import read
from benchmarks.membership_summary import mean_and_interval
from benchmarks.worlds import make_world
from sklearn_uhc import HeterogeneousDistiller, TeacherOutputs
from sklearn_uhc.answers import Answers
from sklearn_uhc.utils.rows import take_rows

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "holdout-variants.jsonl"
SUMMARY = HERE / "results" / "search_variants.json"
Array = NDArray[Any]

SEED, N_ROWS = 100, 700
BOTH = ["digits, mixed", "Fashion-MNIST, networks", "table", "digits, networks", "3 teachers"]
MORE = ["Tiny-ImageNet, mixed", "100 : 1", "MNIST, networks", "texts", "lists of 2 to 3", "Fashion-MNIST, mixed"]
MORE += ["Tiny-ImageNet, networks"]
TRIALS = [(name, 0.7) for name in [*BOTH, *MORE]] + [(name, 0.5) for name in BOTH]
STUDENTS = [KNeighborsClassifier(10), LogisticRegression(max_iter=200), RandomForestClassifier(30, random_state=0)]
SETTINGS = list(product(("ce", "mf_lf"), (1, 3, 6), (True, False), STUDENTS))


def make_fits(name: str, share: float, folder: Path) -> dict[str, Array]:
    """Return what all settings say about all rows without each teacher, and how good they are with all."""
    world = make_world(name, SEED, folder)
    n = min(N_ROWS, len(world.y))
    rows, rng = take_rows(world.X, np.arange(n)), np.random.default_rng(SEED + 1000)
    answers = TeacherOutputs(world.teachers).fit_answers(rows)
    X, X_test = rows, world.X_test
    if world.encoder is not None:
        encoder = clone(world.encoder).fit(X)
        X, X_test = encoder.transform(X), encoder.transform(X_test)
    space = answers.space
    masks = np.stack([rng.permutation(n) < share * n for _ in range(space.n_teachers)])
    accuracy, P = [], []
    for method, T, balance, student in SETTINGS:
        clf = HeterogeneousDistiller(None, student, method=method, temperature=T, balance=balance)
        accuracy.append(float((clone(clf).fit(X, log_p=answers).predict(X_test) == world.y_test).mean()))
        P.append([_without(clf, answers, i, X, train) for i, train in enumerate(masks)])
    lists = [",".join(map(str, np.searchsorted(space.classes, labels))) for labels in space.class_lists]
    log_p = np.asarray(answers.log_p)
    return {"acc": np.array(accuracy), "P": np.array(P), "masks": masks, "log_p": log_p, "lists": np.array(lists)}


def _without(clf: Any, answers: Answers, i: int, X: Array, train: NDArray[np.bool_]) -> NDArray[np.float16]:
    """Return the probabilities of all classes, of a student trained without teacher i."""
    space = answers.space
    rest = [j for j in range(space.n_teachers) if j != i]
    log_p = np.asarray(answers.log_p)[:, np.isin(space.teacher_of, rest)]
    fitted = clone(clf).fit(X[train], log_p=Answers(log_p, space.restrict(rest)).take(np.flatnonzero(train)))
    P = np.zeros((len(X), space.n_classes), dtype=np.float16)
    P[:, np.isin(space.classes, fitted.classes_)] = fitted.predict_proba(X)
    return P


def variants(fits: dict[str, Array]) -> dict[str, Array]:
    """Return the scores of all settings by every variant."""
    lists = [np.array(list(map(int, text.split(",")))) for text in fits["lists"]]
    blocks = np.split(fits["log_p"].astype(float), np.cumsum([len(labels) for labels in lists])[:-1], axis=1)
    found: dict[str, list[Array]] = {}
    for i, own in enumerate(lists):
        known = set(np.concatenate([labels for j, labels in enumerate(lists) if j != i]).tolist())
        here = np.array([j for j, label in enumerate(own) if label in known])
        if len(here) > 1:
            P, train = fits["P"][:, i].astype(np.float32), fits["masks"][i]
            for name, score in _of_teacher(P, own[here], blocks[i][:, here], train):
                found.setdefault(name, []).append(score)
    return {name: np.mean(scores, axis=0) for name, scores in found.items()}


def _of_teacher(P: Array, shared: Array, Z: Array, train: NDArray[np.bool_]) -> list[tuple[str, Array]]:
    """Return the variants' scores against one teacher: P is (settings, rows, classes), Z the teacher's log p."""
    S, chosen = P[:, :, shared], Z.argmax(axis=1)
    sure = 1 / np.exp(Z - Z.max(axis=1, keepdims=True)).sum(axis=1)
    mass = S.sum(axis=2)
    mean = mass.mean(axis=0)
    among_shared, among_all = S.argmax(axis=2) == chosen, P.argmax(axis=2) == shared[chosen]

    def share(right: Array, weight: Array, rows: NDArray[np.bool_]) -> Array:
        weight = np.broadcast_to(weight, right.shape)[:, rows]
        return (weight * right[:, rows]).sum(axis=1) / np.maximum(weight.sum(axis=1), 1e-9)

    return [
        ("rows it was trained on, shared classes, own mass", share(among_shared, mass, train)),
        ("other rows, shared classes, own mass", share(among_shared, mass, ~train)),
        ("other rows, all classes, own mass", share(among_all, mass, ~train)),
        ("other rows, all classes, no weights", share(among_all, np.ones(len(Z)), ~train)),
        ("other rows, all classes, mean mass", share(among_all, mean, ~train)),
        ("other rows, all classes, mean mass squared", share(among_all, mean**2, ~train)),
        ("the same, and how sure the teacher is, squared", share(among_all, (mean * sure) ** 2, ~train)),
        ("rows it was trained on, all classes, mean mass squared", share(among_all, mean**2, train)),
    ]


def run(folder: Path, cache: Path, out: Path) -> None:
    """Run what is not there yet."""
    done = {(r["world"], r["share"]) for r in read(out)}
    for name, share in TRIALS:
        if (name, share) in done:
            continue
        kept = cache / f"{name.replace(' ', '').replace(',', '-').replace(':', 'to')}_{share}.npz"
        if not kept.exists():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                np.savez(kept, **make_fits(name, share, folder))
        with np.load(kept) as fits, out.open("a") as file:
            accuracy = fits["acc"]
            for variant, scores in variants(dict(fits)).items():
                rho, regret = spearmanr(scores, accuracy)[0], accuracy.max() - accuracy[scores.argmax()]
                record = {"world": name, "share": share, "variant": variant, "rho": float(rho), "regret": float(regret)}
                file.write(json.dumps(record) + "\n")
        print(name, share, flush=True)


def summarise(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the mean of every variant, and of two shares of rows to train on in the same worlds."""
    lines = []
    for part, share, worlds in (("variant", 0.7, [*BOTH, *MORE]), ("share", 0.5, BOTH), ("share", 0.7, BOTH)):
        own = [r for r in records if r["share"] == share and r["world"] in worlds]
        for name in dict.fromkeys(r["variant"] for r in own):
            rhos, regrets = ([r[key] for r in own if r["variant"] == name] for key in ("rho", "regret"))
            line = {"part": part, "share": share, "variant": name, "trials": len(rhos), "rho": mean_and_interval(rhos)}
            lines.append(line | {"regret": 100 * float(np.mean(regrets)), "worst": 100 * max(regrets)})
    return lines


def main() -> None:
    """Run or summarise."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["run", "summary"])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--fits", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    if args.what == "run":
        if args.data is None or args.fits is None:
            parser.error("run needs --data and --fits")
        run(args.data, args.fits, args.out)
    else:
        SUMMARY.write_text(json.dumps(summarise(read(args.out)), indent=1) + "\n")


if __name__ == "__main__":
    main()
