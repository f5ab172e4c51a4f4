"""The study of the defaults: every setting is one of a user, and the summary says what is above the fixed ones."""

import pytest

from benchmarks.defaults import AVERAGE, DEFAULT, FIXED, LABELS, NONE, TOLD, TRUE, measure, summarize
from benchmarks.worlds import make_world


def test_what_is_known_about_the_frequencies_helps():
    world = make_world("blobs, a fifth present", seed=0)
    found = {r["setting"]: r for r in measure(world, [(NONE, s) for s in (DEFAULT, *FIXED, AVERAGE, TOLD, LABELS)])}
    assert found[TOLD]["absent"] == 0 < found["ce, balanced"]["absent"]
    assert found[DEFAULT]["accuracy"] >= found["ce"]["accuracy"] > found["ce, balanced"]["accuracy"]
    assert min(found[TOLD]["accuracy"], found[LABELS]["accuracy"]) > found[AVERAGE]["accuracy"] + 0.05


def test_the_summary_compares_with_the_best_fixed_setting():
    scores = {DEFAULT: 0.8, **dict.fromkeys(FIXED, 0.7), TOLD: 0.9, LABELS: 0.86}
    records = [
        {"kind": kind, "seed": seed, "student": student, "setting": setting, "accuracy": value, "absent": 0.0}
        for kind in ("a", "b")
        for seed in (1, 2)
        for student in (NONE, "10-NN", "logistic", "forest")
        for setting, value in {**scores, "mf_lf": 0.81 if kind == "a" else 0.83, TRUE: 0.95}.items()
    ]
    rows = summarize(records)
    overall = next(r for r in rows if r["part"] == "overall" and r["student"] == NONE)
    assert (overall["kinds"], overall["seeds"], overall["best fixed"]) == (2, 2, "mf_lf")
    assert [overall[f"{s} above"] for s in (DEFAULT, TOLD, LABELS)] == pytest.approx([-2, 8, 4])
    last = rows[-1]
    assert last["2 points below"] == ["b"]
    assert last["told above"] == pytest.approx(8)
