"""What `benchmarks.defaults` has found, as records for the pages: `benchmarks/results/defaults.json`.

    python -m benchmarks.defaults_summary

- kind "world": accuracy of the defaults in every world, averaged over students, and what they lose to the best of the
  fixed settings there: mean over seeds, half the width of its 95 % interval (t), and both as text;
- kind "setting": the same of every fixed setting, on average over the worlds;
- kind "student": accuracy by student in the eight worlds of images, both kinds of teachers;
- kind "other student": the same of three more, in all worlds, on the choosing seeds;
- kind "choice": by method, temperature and balance, the stages on the choosing seeds;
- kind "step": what floors, calibration, T = 0.7 and membership change, on the choosing seeds;
- kind "more": what CE and bounds of the floor change, on more choosing seeds, a world being one observation;
- kind "CE by world": whether CE gains in the same worlds on five and on eight choosing seeds, and by kind of teachers;
- kind "target": accuracy by the frequencies to which classes are balanced, where they are uneven, on twenty
  choosing seeds;
- kind "all": how many worlds are within two points of their best setting.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.defaults import (
    AUTO,
    BALANCING,
    BEST,
    CE_1,
    CE_2,
    CHOOSING,
    ESTIMATED,
    FIRST,
    MORE,
    OLD,
    PLAIN,
    RESULTS,
    RIVALS,
    SUMMARY,
    TRUE,
    UNEVEN,
    Record,
    Setting,
    read,
    seeds_of,
    setting_of,
)
from benchmarks.sets import interval
from benchmarks.worlds import WORLDS

#: Keys of the settings in the summary, and what pages call them.
NAMES = {BEST: "mf_lf_1", PLAIN: "plain", CE_1: "ce_1", OLD: "old", CE_2: "ce_2"}
WORDS = {
    "default": "the defaults",
    "mf_lf_1": "MF-LF, T = 1",
    "plain": "MF-LF, T = 1, no balance",
    "ce_1": "CE, T = 1",
    "old": "MF-LF, T = 3 (the defaults before)",
    "ce_2": "CE, T = 2",
    "supervised": "true labels",
}
IMAGES = [
    f"{data}, {kind}"
    for data in ("digits", "MNIST", "Fashion-MNIST", "Tiny-ImageNet")
    for kind in ("mixed", "networks")
]
TARGETS = {
    True: "equal frequencies (`balance=True`)",
    False: "those of the merged labels (`balance=False`)",
    f"{ESTIMATED}0.75": "estimated frequencies, to the power 3/4",
    f"{ESTIMATED}1": "estimated frequencies",
    TRUE: "true frequencies of the rows",
}
#: By student: accuracy and log-loss, (2,).
Cells = dict[str, NDArray[np.float64]]
Trial = dict[str, Cells]


def trials(records: list[Record]) -> dict[tuple[str, int], Trial]:
    """Return what was measured on the reporting seeds, by world and seed, then by setting, then by student."""
    found: dict[tuple[str, int], Trial] = defaultdict(lambda: defaultdict(dict))
    for r in records:
        if r["stage"] != "report" or r["seed"] not in seeds_of("report", r["world"]):
            continue
        key, cell = (r["world"], r["seed"]), np.array([r["accuracy"], r["log_loss"]])
        name = "supervised" if r["method"] is None else {**NAMES, AUTO: "default"}[setting_of(r)]
        found[key][name][r["student"]] = cell
    wanted = (*NAMES.values(), "supervised", "default")
    return {key: t for key, t in found.items() if all(len(t[name]) == len(FIRST) for name in wanted)}


def skewed(records: list[Record]) -> dict[str, float]:
    """Return, by world, the share of trials whose rows "auto" takes for skewed."""
    found: dict[str, list[float]] = defaultdict(list)
    for r in records:
        if r["stage"] != "report" or r["seed"] not in seeds_of("report", r["world"]) or r["method"] is None:
            continue
        if setting_of(r) == AUTO:
            found[r["world"]].append(r["skewed"])
    return {world: float(np.mean(values)) for world, values in found.items()}


def mean(cells: Cells, students: tuple[str, ...] = FIRST) -> NDArray[np.float64]:
    """Return accuracy and log-loss, on average over students."""
    return np.mean([cells[name] for name in students], axis=0)


def points(values: NDArray[np.float64], form: str) -> Record:
    """Return mean and half the 95 % interval of differences of accuracy, in points, and both as text."""
    return {key: round(v, 4) if isinstance(v, float) else v for key, v in interval(100 * values, form).items()}


def by_world(found: dict[tuple[str, int], Trial], skew: dict[str, float]) -> Iterator[Record]:
    """Yield what the defaults lose to the setting that is best in a world over all its seeds."""
    for world in WORLDS:
        own = [trial for (name, _), trial in found.items() if name == world]
        scores = {name: np.array([mean(trial[name])[0] for trial in own]) for name in own[0]}
        best = max(NAMES.values(), key=lambda name: scores[name].mean())
        yield {
            "kind": "world",
            "world": world,
            "seeds": len(own),
            **{name: float(values.mean()) for name, values in scores.items()},
            "best": WORDS[best],
            "loss": points(scores[best] - scores["default"], ".1f"),
            "log_loss": float(np.mean([mean(trial["default"])[1] for trial in own])),
            "skewed": skew[world],
        }


def by_setting(found: dict[tuple[str, int], Trial]) -> Iterator[Record]:
    """Yield accuracy, log-loss and what a setting loses to the defaults; the k-th seeds of all worlds are one draw."""
    worlds = dict.fromkeys(name for name, _ in found)
    draws = list(
        zip(*([trial for (name, _), trial in found.items() if name == world] for world in worlds), strict=False)
    )
    default = np.array([np.mean([mean(trial["default"])[0] for trial in draw]) for draw in draws])
    for name in ("default", *NAMES.values(), "supervised"):
        table = np.array([np.mean([mean(trial[name]) for trial in draw], axis=0) for draw in draws])
        yield {
            "kind": "setting",
            "setting": WORDS[name],
            "accuracy": float(table[:, 0].mean()),
            "log_loss": float(table[:, 1].mean()),
            "above": points(table[:, 0] - default, "+.1f"),
        }


def by_student(found: dict[tuple[str, int], Trial]) -> Iterator[Record]:
    """Yield accuracies of every student in the worlds of images."""
    own = [trial for (world, _), trial in found.items() if world in IMAGES]
    for student in FIRST:
        names = ("default", *NAMES.values(), "supervised")
        scores = {name: np.array([trial[name][student][0] for trial in own]) for name in names}
        yield {
            "kind": "student",
            "student": student,
            "trials": len(own),
            **{name: float(values.mean()) for name, values in scores.items()},
            "above_ce": points(scores["default"] - scores["ce_1"], "+.1f"),
        }


def by_other_student(records: list[Record]) -> Iterator[Record]:
    """Yield the other three students, on the choosing seeds, over all worlds in which they were trained."""
    cells: dict[str, dict[tuple[str, int], dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for r in records:
        if r["stage"] == "students":
            name = "supervised" if r["method"] is None else NAMES[setting_of(r)]
            cells[r["student"]][r["world"], r["seed"]][name] = r["accuracy"]
    names = ("mf_lf_1", "plain", "ce_1", "old", "supervised")
    for student, trial in cells.items():
        own = [found for found in trial.values() if len(found) == len(names)]
        yield {"kind": "other student", "student": student, "trials": len(own)} | {
            name: float(np.mean([found[name] for found in own])) for name in names
        }


def by_choice(records: list[Record]) -> Iterator[Record]:
    """Yield method, temperature and balance over the worlds and seeds in which all of them were tried."""
    grid = [r for r in records if r["seed"] in CHOOSING and r["stage"] in ("methods", "temperatures")]
    cells: dict[Setting, dict[tuple[Any, ...], tuple[float, float]]] = defaultdict(dict)
    for r in grid:
        cells[setting_of(r)][r["world"], r["seed"], r["student"]] = (r["accuracy"], r["log_loss"])
    for students in (FIRST[:2], FIRST):
        keys = {s: {key for key in own if key[2] in students} for s, own in cells.items()}
        wide = {s: own for s, own in cells.items() if {key[2] for key in keys[s]} == set(students)}
        if students == FIRST[:2]:  # all five methods, at the two temperatures that all have been tried at
            wide = {s: own for s, own in wide.items() if s.balance and s.temperature in (1, 3)}
        shared = set.intersection(*(keys[s] for s in wide))
        for setting, own in wide.items():
            accuracy, loss = np.mean([own[key] for key in shared], axis=0)
            yield {
                "kind": "choice",
                "students": len(students),
                "method": setting.method,
                "T": setting.temperature,
                "balance": setting.balance,
                "cases": len({key[:2] for key in shared}),
                "accuracy": float(accuracy),
                "log_loss": float(loss),
            }


def by_step(records: list[Record]) -> Iterator[Record]:
    """Yield what a change of one step gains over the best setting, in points, paired by world, seed and student."""
    base = {
        (r["world"], r["seed"], r["student"]): (r["accuracy"], r["log_loss"])
        for r in records
        if r["seed"] in CHOOSING and r["method"] is not None and setting_of(r) == BEST
    }
    gains: dict[str, dict[tuple[str, int], list[NDArray[np.float64]]]] = defaultdict(lambda: defaultdict(list))
    for r in records:
        key = (r["world"], r["seed"], r["student"])
        if r["stage"] in ("steps", "membership") and key in base:
            change = np.array([r["accuracy"] - base[key][0], r["log_loss"] - base[key][1]])
            gains[change_of(setting_of(r))][key[:2]].append(change)
    for name, own in gains.items():
        table = np.array([np.mean(values, axis=0) for values in own.values()])
        yield {
            "kind": "step",
            "step": name,
            "cases": len(table),
            "gain": points(table[:, 0], "+.1f"),
            "least": float(100 * table[:, 0].min()),
            "log_loss": float(table[:, 1].mean()),
        }


def by_more(records: list[Record]) -> Iterator[Record]:
    """Yield what another method or floor gains over the best setting, in points."""
    cells: dict[Setting, dict[tuple[Any, ...], NDArray[np.float64]]] = defaultdict(dict)
    for r in records:
        if r["seed"] in (*MORE, *RIVALS) and r["student"] in FIRST and r["method"] is not None:
            cells[setting_of(r)][r["world"], r["seed"], r["student"]] = np.array([r["accuracy"], r["log_loss"]])
    for setting, own in cells.items():
        if setting.balance is True and setting != BEST and len({seed for _, seed, _ in own}) > 1:
            gains: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
            for key, value in own.items():
                gains[key[0]].append(value - cells[BEST][key])
            table = np.array([np.mean(values, axis=0) for values in gains.values()])
            name = WORDS["ce_1"] if setting == CE_1 else change_of(setting)
            images = np.array([np.mean(gains[world], axis=0)[0] for world in IMAGES])
            yield {
                "kind": "more",
                "change": name,
                "seeds": len({seed for _, seed, _ in own}),
                "gain": points(table[:, 0], "+.1f"),
                "images": points(images, "+.1f"),
                "least": float(100 * table[:, 0].min()),
                "log_loss": float(table[:, 1].mean()),
            }


def ce_by_world(records: list[Record]) -> Record:
    """Say whether worlds in which CE gains on some choosing seeds are those in which it gains on the others."""
    cells: dict[Setting, dict[tuple[Any, ...], float]] = defaultdict(dict)
    for r in records:
        if r["seed"] < RIVALS.stop and r["student"] in FIRST and r["method"] is not None:
            cells[setting_of(r)][r["world"], r["seed"], r["student"]] = r["accuracy"]
    gains: dict[tuple[str, int], list[float]] = defaultdict(list)
    for key in cells[CE_1].keys() & cells[BEST].keys():
        gains[key[:2]].append(cells[CE_1][key] - cells[BEST][key])
    trials_of = {key: float(np.mean(values)) for key, values in gains.items()}
    halves = [
        [
            np.mean([v for (name, seed), v in trials_of.items() if name == world and (seed in RIVALS) == new])
            for new in (0, 1)
        ]
        for world in WORLDS
    ]
    by_kind = {
        kind: points(np.array([v for (name, _), v in trials_of.items() if WORLDS[name].kinds == kind]), "+.1f")
        for kind in ("mixed", "networks")
    }
    return {"kind": "CE by world", "correlation": float(np.corrcoef(np.array(halves).T)[0, 1]), **by_kind}


def by_target(records: list[Record]) -> Iterator[Record]:
    """Yield accuracies in the worlds with uneven classes, by the frequencies that classes are balanced to."""
    for target, words in TARGETS.items():
        own = [r for r in records if r["seed"] in BALANCING and r["student"] in FIRST and r["method"] is not None]
        own = [r for r in own if setting_of(r) == replace(BEST, balance=target)]
        scores = {world: [r["accuracy"] for r in own if r["world"] == world] for world in UNEVEN}
        means = {
            key: float(np.mean(scores[world]))
            for key, world in zip(("mixed", "networks", "balanced_test"), UNEVEN, strict=True)
        }
        yield {"kind": "target", "target": words, **means, "seeds": len({r["seed"] for r in own})}


def over_all(worlds: list[Record]) -> Record:
    """Count worlds in which the defaults are near the best setting: in the mean, and even at the interval's end."""
    means = [r["loss"]["mean"] for r in worlds]
    ends = [r["loss"]["mean"] + r["loss"]["half"] for r in worlds]
    return {
        "kind": "all",
        "worlds": len(worlds),
        "near": sum(value < 2 for value in means),
        "surely_near": sum(value < 2 for value in ends),
        "false_alarms": float(np.mean([r["skewed"] for r in worlds if r["world"] not in UNEVEN])),
        "seeds": min(r["seeds"] for r in worlds),
        "seeds_uneven": min(r["seeds"] for r in worlds if r["world"] in UNEVEN),
    }


def change_of(setting: Setting) -> str:
    """Say in what a setting differs from the best."""
    words = {
        "calibrate": "no calibration",
        "floor": f"floor {setting.floor}",
        "temperature": f"T = {setting.temperature}",
        "membership": f"membership by the {setting.membership}",
    }
    return ", ".join(text for key, text in words.items() if getattr(setting, key) != getattr(BEST, key))


def summarize(records: list[Record]) -> list[Record]:
    """Return all records of the summary, as texts and numbers of four digits."""
    found = trials(records)
    worlds = list(by_world(found, skewed(records)))
    rows = [*worlds, over_all(worlds), *by_setting(found), *by_student(found), *by_other_student(records)]
    rows += [*by_choice(records), *by_step(records), *by_more(records), ce_by_world(records), *by_target(records)]
    return [{key: round(v, 4) if isinstance(v, float) else v for key, v in row.items()} for row in rows]


def main() -> None:
    rows = summarize(read(RESULTS))
    SUMMARY.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n")
    for row in rows:
        print({key: value["text"] if isinstance(value, dict) else value for key, value in row.items()})


if __name__ == "__main__":
    main()
