"""Figures of docs/failures.md, from benchmarks/results/digits.jsonl."""

from docs.claims import Sentence
from docs.claims.digits import short_of_supervised


def sentences() -> list[Sentence]:
    """Return the sentences of the page with figures."""
    gap = short_of_supervised("ce")
    few, many = (100 * gap(smallest, "10-NN", 1, True) for smallest in (2, 4))
    return [
        ("is {:.0f} points below supervised training with teachers of 2 to 5 digits, and {:.0f} with 4 to 7", few, many)
    ]
