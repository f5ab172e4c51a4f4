"""How often `fit` warns of foreign rows by what the owners' scorers say.

    python -m benchmarks.membership_foreign --data FOLDER [--seeds 10] [--first 100]

Six owners know 3 to 5 classes each of MNIST or Fashion-MNIST (`mnist.npz`, `fashion_mnist.npz` in the folder; 1,500
rows in all, 30 principal components). The rows that are merged are others of the same data ("clean") or of the other
data ("foreign"); the scorers' public rows are clean ones, or foreign ones as in a transfer set that is foreign as a
whole. A record per trial: the share of rows that no scorer takes for its own; whether a whole `TeacherMerger.fit` with
the scorers and six teachers of different kinds warns that rows look foreign, because of what scorers say or for any
reason; whether it warns of anything else; and whether a fit without scorers warns of foreign rows. The rule's threshold
was chosen on seeds 0 and 1. Appends to `benchmarks/results/membership-foreign.jsonl`, leaves out what is there, and
writes `benchmarks/results/membership_foreign.json`.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from benchmarks.lines import measure_once, read
from benchmarks.membership_merge import KINDS
from sklearn_uhc import FindingWarning, LabelSpace, TeacherMerger, fit_membership

RESULTS = Path("benchmarks/results/membership-foreign.jsonl")
SUMMARY = RESULTS.with_name("membership_foreign.json")
FILES = {"MNIST": "mnist.npz", "Fashion-MNIST": "fashion_mnist.npz"}
#: Rows that are merged, and the scorers' public rows.
CASES = [("clean", "clean"), ("foreign", "clean"), ("foreign", "foreign")]
OWN, PUBLIC, MERGED = 1500, 1000, 1000


def load(name: str, rng: np.random.Generator, folder: Path, n: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Draw images and their classes."""
    with np.load(folder / FILES[name]) as data:
        rows = rng.choice(len(data["y_train"]), n, replace=False)
        return data["X_train"][rows].reshape(n, -1) / 255.0, data["y_train"][rows].astype(int)


def draw_lists(rng: np.random.Generator) -> list[NDArray[Any]]:
    """Draw lists of 3 to 5 classes that link all ten."""
    while True:
        lists = [rng.choice(10, rng.integers(3, 6), replace=False) for _ in range(6)]
        space = LabelSpace(lists)
        if space.is_connected and space.n_classes == 10:
            return lists


def run(name: str, seed: int, folder: Path) -> list[dict[str, Any]]:
    """Return the records of a trial."""
    rng = np.random.default_rng([seed, list(FILES).index(name)])
    X, y = load(name, rng, folder, OWN + PUBLIC + MERGED)
    other, _ = load(next(file for file in FILES if file != name), rng, folder, PUBLIC + MERGED)
    lists = draw_lists(rng)
    pca = PCA(30, random_state=0).fit(X[OWN : OWN + PUBLIC])
    own, clean, foreign = pca.transform(X[:OWN]), pca.transform(X[OWN:]), pca.transform(other)
    rows_of = {"clean": clean / own.std(), "foreign": foreign / own.std()}
    own = own / own.std()
    known = [np.flatnonzero(np.isin(y[:OWN], labels)) for labels in lists]
    teachers = [kind().fit(own[k], y[k]) for kind, k in zip(KINDS, known, strict=True)]
    out, scorers = [], {}
    for rows, public in CASES:
        if public not in scorers:
            public_rows = rows_of[public][:PUBLIC]
            scorers[public] = [fit_membership(own[k], public_rows, y_own=y[k]) for k in known]
        merged = rows_of[rows][PUBLIC:]
        D = np.stack([s.predict_membership(merged) for s in scorers[public]], axis=1)
        out.append({"data": name, "seed": seed, "rows": rows, "public": public})
        out[-1] |= {"nobodys": float((D.max(axis=1) <= 0.5).mean())} | warned(teachers, scorers[public], merged)
    return out


def warned(teachers: list[Any], scorers: list[Any], X: NDArray[Any]) -> dict[str, bool]:
    """Return what fits with and without the scorers warn of."""
    texts = {}
    for way, membership in (("with", scorers), ("without", None)):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            TeacherMerger(teachers, membership=membership).fit(X)
        texts[way] = [str(w.message) for w in caught if issubclass(w.category, FindingWarning)]
    foreign = [text for text in texts["with"] if "rows look foreign" in text]
    return {
        "found": any("membership scorers" in text for text in foreign),
        "foreign": bool(foreign),
        "else": len(texts["with"]) > len(foreign),
        "without": any("rows look foreign" in text for text in texts["without"]),
    }


def summarise(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return how often rows are found to be foreign."""
    lines = []
    for name in FILES:
        for rows, public in CASES:
            own = [r for r in records if (r["data"], r["rows"], r["public"]) == (name, rows, public)]
            line: dict[str, Any] = {"data": name, "rows": rows, "public": public, "trials": len(own)}
            line |= {key: sum(r[key] for r in own) for key in ("found", "foreign", "else", "without")}
            shares = [r["nobodys"] for r in own]
            lines.append(line | {"least": min(shares), "mean": float(np.mean(shares)), "most": max(shares)})
    return lines


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=100)
    args = parser.parse_args()
    for seed in range(args.first, args.first + args.seeds):
        for name in FILES:
            measure_once(RESULTS, {"data": name, "seed": seed}, run, name, seed, args.data)
    SUMMARY.write_text(json.dumps(summarise(read(RESULTS)), indent=1) + "\n")


if __name__ == "__main__":
    main()
