"""Chunks of rows for several threads."""

import pytest

from sklearn_uhc.utils.rows import chunks


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
@pytest.mark.parametrize("n", [0, 1, 10, 11, 25, 39, 80, 81, 1000])
def test_all_rows_are_in_one_slice_of_bounded_length(n, workers):
    parts = list(chunks(n, 8, 10, workers))
    assert [row for part in parts for row in range(part.start, part.stop)] == list(range(n))
    assert max((part.stop - part.start for part in parts), default=0) <= 10


@pytest.mark.parametrize(
    ("n", "workers", "lengths"),
    [(10, 2, [10]), (11, 2, [6, 5]), (25, 2, [7, 7, 7, 4]), (25, 8, [9, 9, 7]), (25, 1, [10, 10, 5])],
)
def test_workers_get_equal_shares(n, workers, lengths):
    """Slices of the same length, and equally many per worker if there are enough."""
    assert [part.stop - part.start for part in chunks(n, 8, 10, workers)] == lengths
