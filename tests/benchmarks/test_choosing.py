"""The page on choosing without labels follows from the records in the repository."""

import json

import numpy as np
import pytest

from benchmarks import choosing, holdout_variants
from benchmarks.lines import read


@pytest.mark.parametrize("script", [choosing, holdout_variants], ids=["choosing", "variants"])
def test_the_summary_follows_from_the_records(script):
    stored, found = json.loads(script.SUMMARY.read_text()), script.summarise(read(script.RESULTS))
    assert rounded(stored) == rounded(json.loads(json.dumps(found)))


def rounded(value):
    if isinstance(value, dict):
        return {key: rounded(own) for key, own in value.items()}
    if isinstance(value, list):
        return [rounded(own) for own in value]
    return round(value, 9) if isinstance(value, float) else value


def test_what_a_way_to_choose_loses():
    accuracy = np.linspace(0.5, 0.73, 24).tolist()
    record = {"accuracy": accuracy, "held out": accuracy, "agreement": accuracy[::-1], "30 labels": [23, 0]}
    lost = {
        way: choosing._regret([record, record], way)["overall"]["mean"]
        for way in ("held out", "agreement", "30 labels")
    }
    assert lost == pytest.approx({"held out": 0, "agreement": 23, "30 labels": 11.5})
    assert choosing._pairs([record], "held out", 3)["right"] == 1
    assert choosing._pairs([record], "agreement", 3)["right"] == 0


def test_labelled_rows_choose_the_best_and_break_ties_at_random():
    right = np.zeros((24, 50), dtype=bool)
    right[[3, 7]] = True
    assert set(choosing.draws(right, 30, seed=0, among=range(len(right)))) == {3, 7}
