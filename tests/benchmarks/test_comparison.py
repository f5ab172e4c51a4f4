"""The comparison: rivals get the student and the balance that our merge gets, and leads are counted fairly."""

import pytest
from sklearn.neighbors import KNeighborsClassifier

from benchmarks.comparison import BALANCED, ESTIMATED, OURS, RIVALS, TAUGHT, measure, summarize
from benchmarks.worlds import make_world


def test_leads_are_over_the_best_rival_with_the_same_balance():
    names = [*RIVALS, OURS]
    lines = [{"world": "texts", "seed": seed} for seed in (1, 2)]
    for line in lines:
        for start in ("", TAUGHT):
            line |= {start + name: 0.5 for name in names} | {start + name + BALANCED: 0.4 for name in names}
            line |= {start + name + ESTIMATED: 0.57 for name in RIVALS}
            line |= {start + OURS: 0.6, start + "Dawid-Skene": 0.55, start + "majority vote" + BALANCED: 0.7}
    rows = {(r["kind"], r["balance"]): r["texts"] for r in summarize(lines) if r["kind"].startswith("lead")}
    for kind in ("ask", "student"):
        assert rows[f"lead, {kind}", "no"]["rival"] == "Dawid-Skene"
        points = [rows[f"lead, {kind}", balance]["points"] for balance in ("no", "yes", "better", "estimated")]
        assert points == pytest.approx([5, -30, -10, 3])


@pytest.mark.filterwarnings("ignore")  # of rivals
def test_every_rival_has_the_student_and_both_balances():
    pytest.importorskip("crowdkit")
    pytest.importorskip("snorkel")
    pytest.importorskip("hyperlm")
    found = measure(make_world("digits, networks", 0), KNeighborsClassifier(10))
    ways = [*RIVALS, OURS]
    assert all(start + way + end in found for way in ways for start in ("", TAUGHT) for end in ("", BALANCED))
    assert all(start + way + ESTIMATED in found for way in RIVALS for start in ("", TAUGHT))
    assert found[TAUGHT + OURS] > found["best teacher alone"]
