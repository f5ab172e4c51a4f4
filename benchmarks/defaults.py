"""The best defaults: method, temperature, balance, calibration, floor, membership.

    python -m benchmarks.defaults [--data FOLDER] [--stages methods temperatures ...]

A staged design over the worlds of `benchmarks.worlds`. Each stage varies one or two factors around the best of the
stages before:

- methods: all five, at T = 1 and 3, balanced;
- temperatures: the best three methods at T = 1, 2, 3 and 6, balanced or not;
- steps: the best setting with other floors, without calibration, and at T = 0.7;
- more: on three more seeds, the best setting, CE, and floors that bound "auto" from below;
- rivals: on eight more, the best setting, CE, and bounds that are divided by the length of a teacher's list;
- balance: where classes are uneven, on twenty seeds, balance to equal frequencies, none, balance to estimated
  frequencies, to their power 3/4, and to the true frequencies of the rows, which nobody knows;
- report: on seeds of their own, more of them where classes are uneven, the defaults, the best fixed settings, the best
  one without balance, the old defaults, and training with true labels;
- students: most of these with three other students;
- membership: the best setting with membership by the student, or by the owners.

A world's teachers are called once per seed. One line of JSON per trained student is appended, and existing ones are
skipped, so that a stopped run resumes. `benchmarks.defaults_summary` writes `results/defaults.json` from them.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections import defaultdict
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn_uhc.frequencies import class_frequencies

from benchmarks.worlds import WORLDS, World, available, make_world
from sklearn_uhc import HeterogeneousDistiller, SoftLabelClassifier, TeacherMerger, TeacherOutputs, fit_membership
from sklearn_uhc.answers import Answers
from sklearn_uhc.balance import Decision, balanced_targets, class_weights, decide_balance, look_for_skew, untempered
from sklearn_uhc.soft_labels import resolve_method
from sklearn_uhc.teachers.floor import apply_floor, learn_floor

Array = NDArray[Any]
Record = dict[str, Any]
RESULTS, SUMMARY = Path("benchmarks/results/defaults.jsonl"), Path("benchmarks/results/defaults.json")
#: Settings are chosen on the first seeds, and reported on the others: the last ones where classes are uneven.
CHOOSING, MORE, RIVALS, BALANCING, REPORTING = range(2), range(2, 5), range(5, 13), range(20), range(400, 405)
REPORTING_UNEVEN = range(410, 420)
STUDENTS: dict[str, Any] = {
    "10-NN": KNeighborsClassifier(10),
    "logistic": LogisticRegression(max_iter=300),
    "forest": RandomForestClassifier(30, random_state=0),
    "naive Bayes": GaussianNB(),
    "network": MLPClassifier((64,), max_iter=30, random_state=0),
    "booster": LGBMClassifier(n_estimators=20, num_leaves=7, n_jobs=1, verbose=-1),
}
FIRST = ("10-NN", "logistic", "forest")
#: Boosters grow a tree per class and round: they are skipped if there are more classes.
MOST_BOOSTED, N_ROWS = 20, 1000
METHODS, TEMPERATURES = ("mf_lf", "ce", "mf_p", "mf_lu", "sd"), (1, 2, 3, 6)
FLOORS = (1e-1, 1e-2, 1e-4, 1e-6)
#: Before a number: a floor that is learnt, and not below it; after it: divided by the length of the list.
AT_LEAST, PER_CLASS = "auto, at least ", " / k"
ESTIMATED = "estimated "  #: before a number: balance to estimated frequencies, raised to this power
TRUE = "true"  #: balance to the true frequencies of the rows
UNEVEN = [name for name, recipe in WORLDS.items() if recipe.ratio > 1]
TARGETS: tuple[bool | str, ...] = (True, False, f"{ESTIMATED}0.75", f"{ESTIMATED}1", TRUE)


@dataclass(frozen=True)
class Setting:
    """Settings that a user could choose."""

    method: str
    temperature: float
    balance: bool | str
    calibrate: bool | str = "auto"
    floor: float | str = "auto"
    membership: str | None = None


OLD, CE_1, CE_2 = Setting("mf_lf", 3, True), Setting("ce", 1, True), Setting("ce", 2, True)
#: What came out best on the choosing seeds, the same not balanced at all, and the defaults.
BEST, PLAIN, AUTO = Setting("mf_lf", 1, True), Setting("mf_lf", 1, False), Setting("mf_lf", 1, "auto")


class Case:
    """One world and seed: teachers are called once, and answers merged once per method and temperature."""

    def __init__(self, name: str, seed: int, folder: Path | None) -> None:
        world = make_world(name, seed, folder)
        few = slice(0, N_ROWS if name != "paper" else None)  # where most rows are of unknown classes, all are needed
        self.world: World = replace(
            world, X=world.X[few], y=world.y[few], X_test=world.X_test[few], y_test=world.y_test[few]
        )
        self.raw = TeacherOutputs(world.teachers, floor=1e-300).fit_answers(self.world.X)
        self.adjusted = lru_cache(self._adjusted)
        self.labels = lru_cache(self._labels)
        self.scorers = lru_cache(self._scorers)

    def floored(self, floor: float | str) -> Answers:
        """Return the answers of `TeacherOutputs` with this floor."""
        blocks = [self.raw.log_p[:, block] for block in self.raw.space.blocks]
        if isinstance(floor, str):
            bound = float(floor.removeprefix(AT_LEAST).removesuffix(PER_CLASS)) if floor.startswith(AT_LEAST) else 0.0
            lengths = [block.shape[1] if floor.endswith(PER_CLASS) else 1 for block in blocks]
            floors = [max(learn_floor(block), bound / k) for block, k in zip(blocks, lengths, strict=True)]
        else:
            floors = [floor] * len(blocks)
        least = [min(own, 0.5 / block.shape[1]) for own, block in zip(floors, blocks, strict=True)]
        return self.raw.saying(np.hstack([apply_floor(p, own) for p, own in zip(blocks, least, strict=True)]))

    def _adjusted(self, floor: float | str, calibrate: bool | str) -> Answers:
        merger = TeacherMerger(None, calibrate=calibrate, class_lists=self.world.class_lists)
        return merger.fit_answers(None, log_p=self.floored(floor))

    def _labels(self, floor: float | str, calibrate: bool | str, method: str, temperature: float) -> Array:
        made: Any = resolve_method(method).set_params(temperature=temperature)
        Q: Array = made.fit_transform_answers(self.adjusted(floor, calibrate))
        return Q

    def _scorers(self) -> list[Any]:
        return [fit_membership(X, self.world.X, y_own=y) for X, y in self.world.own]

    def train(self, setting: Setting, student: Any) -> tuple[Any, Record]:
        """Train like the distiller; return the student, and figures on its soft labels."""
        if setting.membership is not None:
            return self._distil(setting, student), {}
        s = setting
        Q = self.labels(s.floor, s.calibrate, s.method, s.temperature)
        model = SoftLabelClassifier(student, classes=self.world.classes, temperature=s.temperature)
        class_weight, about = self.class_weight(s, Q)
        targets, weights = (Q, None) if class_weight is None else balanced_targets(Q, class_weight)
        known = np.isin(self.world.y, self.world.classes)
        right = self.world.classes[targets.argmax(axis=1)] == self.world.y
        about["labels"] = float(right[known].mean())
        return model.fit(self.world.X, targets, sample_weight=weights), about

    def class_weight(self, s: Setting, Q: Array) -> tuple[Array | None, Record]:
        """Return the weights of the classes, and whether "auto" has taken the rows for skewed."""
        answers = self.adjusted(s.floor, s.calibrate)
        if s.balance == "auto":
            frequencies = look_for_skew(answers, answers.space, Q, s.temperature)
            decided = decide_balance("auto", answers.space, len(Q), frequencies)
            skewed = float(decided.frequencies is not None)
            return decided.weigh(class_weights(Q), s.temperature) if decided.balances else None, {"skewed": skewed}
        if isinstance(s.balance, str):
            return Decision(True, "", self.target(s, answers, Q)).weigh(class_weights(Q), s.temperature), {}
        return class_weights(Q) if s.balance else None, {}

    def target(self, s: Setting, answers: Answers, Q: Array) -> Array:
        """Return the frequencies to balance to, (L,)."""
        if s.balance == TRUE:
            return np.asarray((self.world.y[:, None] == self.world.classes).mean(axis=0))
        frequencies = class_frequencies(answers, answers.space, untempered(Q, s.temperature))
        assert frequencies is not None
        powers = frequencies ** float(str(s.balance).removeprefix(ESTIMATED))
        return np.asarray(powers / powers.sum())

    def _distil(self, setting: Setting, student: Any) -> Any:
        params = asdict(setting)
        answers = self.floored(params.pop("floor"))
        if params["membership"] == "owners":
            params["membership"] = self.scorers()
        return HeterogeneousDistiller(None, student, class_lists=self.world.class_lists, **params).fit(
            self.world.X, log_p=answers
        )

    def supervised(self, student: Any) -> Any:
        """Train on the transfer set's true labels, or on the teachers' own rows if most rows are of unknown classes."""
        X, y = self.world.X, self.world.y
        if not np.isin(y, self.world.classes).all():
            X, y = (np.concatenate(part) for part in zip(*self.world.own, strict=True))
        return student.fit(X, y)

    def score(self, setting: Setting | None, name: str) -> Record:
        """Return accuracy and log-loss of a student; without a setting, it is trained on true labels."""
        student, start, more = self.world.student(STUDENTS[name]), time.process_time(), {}
        if setting is None:
            model = self.supervised(student)
        else:
            model, more = self.train(setting, student)
        y, classes = self.world.y_test, self.world.classes
        proba = np.zeros((len(y), len(classes)))  # true labels may miss a class
        proba[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(self.world.X_test)
        proba = np.clip(proba, 1e-6, None)
        proba /= proba.sum(axis=1, keepdims=True)
        return {
            "student": name,
            "accuracy": round(float((classes[proba.argmax(axis=1)] == y).mean()), 5),
            "log_loss": round(float(log_loss(y, proba, labels=classes)), 5),
            **{key: round(value, 5) for key, value in more.items()},
            "seconds": round(time.process_time() - start, 3),
        }


def key_of(record: Record) -> tuple[Any, ...]:
    return (record["world"], record["seed"], record["student"], *(record[k] for k in asdict(OLD)))


def setting_of(record: Record) -> Setting:
    return Setting(**{k: record[k] for k in asdict(OLD)})


def read(path: Path) -> list[Record]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def ranking(records: list[Record], wanted: Any, students: tuple[str, ...] = FIRST) -> list[Any]:
    """Return values of `wanted(setting)` by mean accuracy over worlds and students on the choosing seeds, best first.

    A value is judged by its best setting. Among settings within half a point of the best, better probabilities win.
    """
    cells: dict[Setting, list[tuple[float, float]]] = defaultdict(list)
    for r in records:
        if r["seed"] in CHOOSING and r["student"] in students and r["method"] is not None:
            cells[setting_of(r)].append((r["accuracy"], -r["log_loss"]))
    most = max(map(len, cells.values()))
    means = {s: np.mean(v, axis=0) for s, v in cells.items() if len(v) == most}
    best = max(a for a, _ in means.values())
    order = sorted(
        means, key=lambda s: (means[s][0] < best - 0.005, -means[s][1 if means[s][0] >= best - 0.005 else 0])
    )
    return list(dict.fromkeys(wanted(s) for s in order))


def plan(stage: str, records: list[Record]) -> list[tuple[Setting | None, tuple[str, ...]]]:
    """Return the settings of a stage, and the students to train with each."""
    pair = ("10-NN", "logistic")
    if stage == "methods":
        return [(Setting(m, T, True), pair) for m in METHODS for T in (1, 3)]
    if stage == "temperatures":
        of_first = [r for r in records if r["stage"] == "methods"]
        methods = ranking(of_first, lambda s: s.method, pair)[:3]
        return [(Setting(m, T, b), FIRST) for m in methods for T in TEMPERATURES for b in (True, False)]
    if stage == "steps":
        changes: list[Record] = [{"calibrate": False}, *({"floor": floor} for floor in FLOORS)]
        changes += [{"calibrate": False, "floor": 1e-2}, {"temperature": 0.7}]
        return [(replace(BEST, **change), pair) for change in changes]
    if stage == "more":
        bounds = [replace(BEST, floor=f"{AT_LEAST}{bound}") for bound in (1e-4, 1e-3, 1e-2)]
        return [(s, FIRST) for s in (BEST, CE_1, *bounds)]
    if stage == "rivals":
        bounds = [replace(BEST, floor=f"{AT_LEAST}{bound}{PER_CLASS}") for bound in (0.001, 0.003, 0.01)]
        return [(s, FIRST) for s in (BEST, CE_1, *bounds)]
    if stage == "balance":
        return [(replace(BEST, balance=target), FIRST) for target in TARGETS]
    if stage == "membership":
        return [(replace(BEST, membership=m), pair) for m in ("student", "owners")]
    if stage == "students":
        return [(s, tuple(name for name in STUDENTS if name not in FIRST)) for s in (None, BEST, PLAIN, CE_1, OLD)]
    return [(s, FIRST) for s in (None, AUTO, BEST, PLAIN, CE_1, OLD, CE_2)]


def seeds_of(stage: str, world: str) -> range:
    """Return the seeds of a stage in a world."""
    if stage == "report":
        return REPORTING_UNEVEN if world in UNEVEN else REPORTING
    if stage == "balance":
        return BALANCING if world in UNEVEN else range(0)
    return {"more": MORE, "rivals": RIVALS}.get(stage, CHOOSING)


def run_stage(stage: str, records: list[Record], out: Path, folder: Path | None) -> None:
    """Train what a stage needs and is missing, world by world."""
    done = {key_of(r) for r in records}
    nothing = dict.fromkeys(asdict(OLD))
    wanted = plan(stage, records)
    for name in available(folder, say=False):
        for seed in seeds_of(stage, name):
            heads = [
                ({"world": name, "seed": seed, "student": student, **(asdict(s) if s else nothing)}, s)
                for s, students in wanted
                for student in students
            ]
            left = [(head, s) for head, s in heads if key_of(head) not in done]
            if left:
                _append(Case(name, seed, folder), stage, left, records, out)


def _append(
    case: Case, stage: str, left: list[tuple[Record, Setting | None]], records: list[Record], out: Path
) -> None:
    with out.open("a") as file:
        for head, setting in left:
            if head["student"] == "booster" and len(case.world.classes) > MOST_BOOSTED:
                continue
            if head["membership"] == "owners" and case.world.encoder is not None:
                continue  # scorers read numbers
            record = {"stage": stage, **head, **case.score(setting, head["student"])}
            records.append(record)
            file.write(json.dumps(record) + "\n")
            file.flush()


STAGES = ("methods", "temperatures", "steps", "more", "rivals", "balance", "report", "students", "membership")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=STAGES)
    parser.add_argument("--out", type=Path, default=RESULTS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    available(args.data)
    records = read(args.out)
    for stage in args.stages:
        print(stage, flush=True)
        run_stage(stage, records, args.out, args.data)


if __name__ == "__main__":
    main()
