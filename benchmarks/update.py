"""One teacher replaced: `update` against a new fit, time and accuracy.

    python -m benchmarks.update [--data FOLDER] [--seeds 0 3]

In every world the last teacher is replaced by one that was trained on half of its rows. Times are of this process, in
one run, one after the other.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils import _safe_indexing, shuffle

from benchmarks.worlds import available, make_world
from sklearn_uhc import HeterogeneousDistiller

NAMES = ("digits, mixed", "table", "14 teachers", "texts", "30 intents, even")
FILE = Path("benchmarks/results/update.json")


def measure(name: str, seed: int, folder: Any) -> dict[str, Any]:
    """Return times and accuracies of a trial."""
    world = make_world(name, seed, folder)
    last = list(world.teachers)[-1]
    X, y = shuffle(*world.own[-1], random_state=seed)
    half = max(len(y) // 2, 1)
    kept = np.unique(np.concatenate([np.arange(half), [np.flatnonzero(y == label)[0] for label in np.unique(y)]]))
    new = clone(world.teachers[last]).fit(_safe_indexing(X, kept), y[kept])
    clf = HeterogeneousDistiller(world.teachers, world.student(KNeighborsClassifier(10))).fit(world.X)
    start = time.process_time()
    report = clf.update({last: new})
    updated = time.process_time()
    anew = HeterogeneousDistiller({**world.teachers, last: new}, world.student(KNeighborsClassifier(10))).fit(world.X)
    end = time.process_time()
    return {
        "world": name,
        "seed": seed,
        "teachers": len(world.teachers),
        "called": len(report.called),
        "ratio": (updated - start) / (end - updated),
        "update": clf.score(world.X_test, world.y_test),
        "new fit": anew.score(world.X_test, world.y_test),
        "same": bool((clf.predict(world.X_test) == anew.predict(world.X_test)).all()),
    }


def main() -> None:
    """Measure all, print a line per world, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 3))
    args = parser.parse_args()
    lines = []
    for name in available(args.data, names=NAMES):
        found = [measure(name, seed, args.data) for seed in range(*args.seeds)]
        mean = {key: round(float(np.mean([one[key] for one in found])), 4) for key in ("ratio", "update", "new fit")}
        counts = {"teachers": found[0]["teachers"], "called": max(one["called"] for one in found)}
        lines.append({"world": name, **counts, **mean, "same": all(one["same"] for one in found)})
        print(lines[-1])
    FILE.write_text(json.dumps({"seeds": list(range(*args.seeds)), "worlds": lines}, indent=1) + "\n")


if __name__ == "__main__":
    main()
