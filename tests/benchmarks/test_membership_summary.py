"""The page on membership follows from the records in the repository."""

import json
from pathlib import Path

import pytest

from benchmarks.membership_summary import SUMMARY, mean_and_interval, summarise

ROOT = Path(__file__).parents[2]


def test_the_summary_follows_from_the_records():
    stored = json.loads((ROOT / SUMMARY).read_text())
    found = json.loads(json.dumps(summarise(ROOT)))
    assert len(stored) == len(found)
    for line, expected in zip(stored, found, strict=True):
        assert {key: _text(value) for key, value in line.items()} == {
            key: _text(value) for key, value in expected.items()
        }


def _text(value):
    value = value["text"] if isinstance(value, dict) else value
    return round(value, 9) if isinstance(value, float) else value


def test_mean_and_interval():
    found = mean_and_interval([0.1, 0.2, 0.3])
    assert found["mean"] == pytest.approx(0.2)
    assert found["half"] == pytest.approx(0.1 / 3**0.5 * 4.302653)
    assert found["text"] == ".200 ± .248"
    assert mean_and_interval([0.25])["text"] == ".250"
